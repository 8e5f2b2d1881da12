// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The contenders of OO1 and OO7 that are stores of this library, for their tables (harness/contender_table.hpp): by every way to
// learn what was written, and cards of every size.
#pragma once

// clang-format off
#define HEAP_CONTENDERS(one) \
  one("tenure", make_heap) \
  one("tenure-announced", make_heap_announced) \
  one("tenure-cards", make_heap_cards_64) \
  one("tenure-traps", make_heap_traps, .only_if_named = true) \
  one("tenure-hot", make_heap_hot, .only_if_named = true) \
  one("tenure-notes", make_heap_notes, .only_if_named = true) \
  one("tenure-copies", make_heap_copies, .only_if_named = true) \
  one("tenure-copying", make_heap_copying, .only_if_named = true) \
  one("tenure-cards-16", make_heap_cards_16, .only_if_named = true) \
  one("tenure-cards-256", make_heap_cards_256, .only_if_named = true) \
  one("tenure-cards-1024", make_heap_cards_1024, .only_if_named = true) \
  one("tenure-cards-4096", make_heap_cards_4096, .only_if_named = true) \
  one("tenure-breadth-first", make_heap_breadth_first, .only_if_named = true) \
  one("tenure-depth-first", make_heap_depth_first, .only_if_named = true) \
  one("tenure-by-address", make_heap_by_address, .only_if_named = true) \
  one("tenure-by-type", make_heap_by_type, .only_if_named = true) \
  one("tenure-compiled", make_compiled, .only_if_named = true) \
  one("tenure-compiled-cards", make_compiled_cards, .only_if_named = true)
// clang-format on
