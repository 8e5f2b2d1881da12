// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/contender_table.hpp"
#include "oo1/contender.hpp"

namespace tenure::bench::oo1 {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("plain", make_plain) \
  one("plain-shuffled", make_plain_shuffled) \
  one("tenure", make_heap) \
  one("tenure-announced", make_heap_announced) \
  one("tenure-cards", make_heap_cards_64) \
  one("tenure-traps", make_heap_traps, .only_if_named = true) \
  one("tenure-hot", make_heap_hot, .only_if_named = true) \
  one("tenure-notes", make_heap_notes, .only_if_named = true) \
  one("tenure-copies", make_heap_copies, .only_if_named = true) \
  one("tenure-cards-16", make_heap_cards_16, .only_if_named = true) \
  one("tenure-cards-256", make_heap_cards_256, .only_if_named = true) \
  one("tenure-cards-1024", make_heap_cards_1024, .only_if_named = true) \
  one("tenure-cards-4096", make_heap_cards_4096, .only_if_named = true) \
  one("tenure-compiled", make_compiled, .only_if_named = true) \
  one("tenure-compiled-cards", make_compiled_cards, .only_if_named = true) \
  one("boost-interprocess", make_boost) \
  one("pmemobj", make_pmemobj, .build_environment = "PMEM_IS_PMEM_FORCE") \
  one("lmdb", make_lmdb) \
  one("sqlite-wal", make_sqlite) \
  one("rocksdb", make_rocksdb)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::oo1
