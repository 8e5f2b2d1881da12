// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap with barriers as a world: members announce each assignment, and no page is trapped twice.
#pragma once

#include "worlds/heap_world.hpp"

namespace tenure::bench {

template <rvm::write_barriers How>
struct announced_world : heap_world {
  template <class T>
  using field = tenure::field<T>;

  static void create(const std::filesystem::path& directory, std::uint64_t) { open(directory); }
  static void open(const std::filesystem::path& directory) { heap_world::open(directory, {.barriers = How}); }
  static std::string setting() {
    return How == rvm::write_barriers::cards ? "members announce stores; cards of 64 bytes are compared"
                                             : "members announce stores; whole pages are compared";
  }
  template <class Vector, class T>
  static void set(Vector& in, std::size_t i, const T& value) {
    change(in[i]) = value;
  }
};

}  // namespace tenure::bench
