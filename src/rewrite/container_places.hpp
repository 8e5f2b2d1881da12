// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where containers are in values of a stored type, by what their descriptions say: ours, and those of the standard library with
// our allocator. Classes that are derived from ours have their fields.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <tenure/type.hpp>

namespace tenure::rewriting {

enum class container_shape : std::uint8_t {
  our_vector,
  our_string,
  our_tree,  // maps, sets, indexes
  cache_map,
  our_table,  // hash maps, hash sets
  queue,      // finalization_queue
  vector,
  string,
  deque,
  list,
  forward_list,
  tree,   // std::map and the like
  table,  // std::unordered_map and the like
};

struct container_place {
  container_shape is;
  std::uint64_t offset;             // of the container in the value
  const type* of;                   // has the container's fields
  std::vector<field_guard> guards;  // all must hold; offsets are from the value's start
};
[[nodiscard]] std::vector<container_place> container_places(const type& of);
[[nodiscard]] bool is_there(const container_place& place, const std::byte* value);

// Whether a container of the standard library has keys and values.
[[nodiscard]] bool name_is_map(const type& of);

// A field by its name; in a class that is derived from the one that has it, its name ends with this. nullptr: there is none.
[[nodiscard]] const type_field* container_field(const type& of, std::string_view name);
// The same, of a field that every such type has. errc::damaged: the store's description of the type has none.
[[nodiscard]] const type_field& required_field(const type& of, std::string_view name);
[[nodiscard]] inline std::uint64_t offset_of(const type& of, std::string_view name) {
  return required_field(of, name).offset;
}

}  // namespace tenure::rewriting
