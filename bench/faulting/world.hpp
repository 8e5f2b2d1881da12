// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The operations under one scheme, which is chosen by name while the program runs.
#pragma once

#include <memory>
#include <span>

#include "faulting/object_memory.hpp"
#include "faulting/visits.hpp"

namespace tenure::bench::faulting {

enum class program {
  interpreted,  // residency checks where the cache of methods misses
  checked       // residency checks at each dereference
};

class world {
 public:
  virtual ~world() = default;
  [[nodiscard]] virtual visits look_up(std::span<const int> ids) = 0;
  [[nodiscard]] virtual visits traverse(int from, int hops) = 0;
  [[nodiscard]] virtual const fault_counts& counts() const = 0;
  // object_memory::indirections
  [[nodiscard]] virtual std::uint64_t indirections() = 0;
};

// The objects must outlive it. One with protected blocks at a time.
[[nodiscard]] std::unique_ptr<world> make_world(const scheme& how, program which, stored_objects& objects);

}  // namespace tenure::bench::faulting
