// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap with barriers as a world: members announce each assignment, and no page is trapped twice.
#pragma once

#include "worlds/heap_world.hpp"

namespace tenure::bench {

struct announced_world : heap_world {
  template <class T>
  using field = tenure::field<T>;

  template <class Vector, class T>
  static void set(Vector& in, std::size_t i, const T& value) {
    change(in[i]) = value;
  }
};

}  // namespace tenure::bench
