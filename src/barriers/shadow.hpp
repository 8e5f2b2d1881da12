// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The shadow of the inline form: a byte for eight of the program, at (address >> 3) + TENURE_SHADOW_OFFSET. Before a store the
// program reads it, and calls us where it is not 0: in watched memory. No memory is spent for what is 0, and little for what
// is not: all watched memory has the same few pages of 0xff as its shadow.
//
// Only in programs of the inline form: weak, so that those of the outlined form do without.
#pragma once

#include <cstdint>

namespace tenure::barriers {

// Before any instrumented code. Ends the program if the address space cannot be had.
[[gnu::weak]] void reserve_shadow() noexcept;
// Not thread-safe against each other; the program reads the shadow meanwhile. Ends the program if it cannot.
[[gnu::weak]] void mark_watched(std::uintptr_t begin, std::uintptr_t end) noexcept;
[[gnu::weak]] void mark_unwatched(std::uintptr_t begin, std::uintptr_t end) noexcept;

}  // namespace tenure::barriers
