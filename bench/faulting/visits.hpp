// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What operations answer, to be compared with the plan's.
#pragma once

#include <cstdint>
#include <span>

#include "faulting/resident.hpp"

namespace tenure::bench::faulting {

// The compiler must not know that it does nothing.
[[gnu::noinline]] inline void null_procedure(int x, int y, word type) {
  asm volatile("" : : "r"(x), "r"(y), "r"(type) : "memory");
}

struct visits {
  std::uint64_t number = 0, checksum = 0;
  bool operator==(const visits&) const = default;

  void visit(int x, int y, word type, int build) {
    null_procedure(x, y, type);
    ++number;
    checksum += static_cast<std::uint64_t>(build);
  }
};

// Of a database with so many parts.
[[nodiscard]] visits planned_lookup(std::span<const int> ids, int parts);
[[nodiscard]] visits planned_traversal(int from, int hops, int parts);

}  // namespace tenure::bench::faulting
