// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers in which the place of an entry depends on the addresses of objects: a set of pointers, a map whose keys have
// some. What they consist of is known by the names of their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/type.hpp>

#include "objects/type_index.hpp"

namespace tenure::rewriting {

// "std::map<a*, b<c, d>>": a*, b<c, d>.
[[nodiscard]] std::vector<std::string> template_arguments(std::string_view name);

// Whether it is a map, set or index, of ours or of the standard library.
[[nodiscard]] bool is_container_with_keys(std::string_view name);

// The name of a type; of arrays with stale slots, that of its elements.
[[nodiscard]] std::string_view name_of_elements(const type& of);

// Whether it is what a weak_map consists of: its keys are hidden addresses.
[[nodiscard]] bool is_weak_map(std::string_view name);

// Whether a key consists of numbers, bytes and text of chars, so that no address is in its order, and it can be copied.
[[nodiscard]] bool is_without_addresses(const type_field& key);

// A container with keys in a value of some type.
struct keyed_container {
  std::uint64_t offset;       // in the value
  const type* of;             // the container's type, or that of an array of them
  std::uint64_t size_offset;  // of the number of its entries, in the value
  std::vector<field_guard> guards;
};
// Those in a value of the type whose order depends on addresses.
[[nodiscard]] std::vector<keyed_container> ordered_by_address(const type& of, const heap::type_index& types);

// By the numbers of types: whether objects of the type have entries of such a container: nodes, leaves, groups; or are arrays or
// nodes that keys of such entries own.
[[nodiscard]] std::vector<bool> with_keys_by_address(const heap::type_index& types);

// Those of which this holds. `name`: of the container; of a class that is derived from one, "derived<KEY>".
[[nodiscard]] std::vector<keyed_container> containers_in(
    const type& of, const std::function<bool(const type& container, const std::string& name)>& wanted);
// Whether the container is there, and has entries.
[[nodiscard]] bool has_entries(const keyed_container& container, const std::byte* value);

}  // namespace tenure::rewriting
