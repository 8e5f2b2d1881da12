// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that must stay where they are because of their types, or of the types of what refers to them [heap.evacuation.pinned].
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "objects/database_state.hpp"

namespace tenure {

// The process remembers where the heap's own tables are.
[[nodiscard]] bool is_of_the_heap(const heap::known_type& type);
// Whether the object must stay where it is, whoever refers to it: a table of the heap, a cell of a weak reference.
[[nodiscard]] inline bool never_moves(const heap::known_type& type) {
  return type.cell != heap::cell_kind::none || is_of_the_heap(type);
}

// Types of which what their objects refer to must stay: named roots, and keys where addresses decide upon the order, with what
// these own. One thread at a time.
class pinning_types {
 public:
  [[nodiscard]] bool pins_targets(const database_state& in, const heap::known_type& type);

 private:
  struct known {
    std::uint32_t types = 0;  // that there were
    std::vector<bool> pins;   // by number
  };
  std::unordered_map<const database_state*, known> known_;
};

}  // namespace tenure
