# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The mutations of the containers, as in mutations.py."""

CONTAINER_MUTATIONS = [
    ("new_elements_not_announced", "include/tenure/containers/vector.hpp",
     [("detail::announce_each(first_[size_], size_);", "detail::announce_each(size_);")],
     "containers_test announced.vectors", "a commit misses elements that were appended"),
    ("characters_not_announced", "include/tenure/containers/string.hpp",
     [("detail::announce(heap_ + at, size + 1 - at);", "detail::announce(heap_ + at, size - at);")],
     "containers_test announced.strings", "a commit misses the end of a text"),
    ("moved_from_elements_not_announced", "include/tenure/containers/detail/relocate.hpp",
     [("if constexpr (!is_relocatable<T>::value) announce(from, count);", "")],
     "containers_test announced.maps", "an abort leaves elements that were moved from"),
    ("announced_after_the_move", "include/tenure/containers/detail/relocate.hpp",
     [("announce(to, static_cast<std::size_t>(from - to) + 1); parked<T> element{from}; element.put_before(to, from);",
       "parked<T> element{from}; element.put_before(to, from); announce(to, static_cast<std::size_t>(from - to) + 1);")],
     "containers_test announced.vectors", "a copy of the old bytes is made when they are gone"),
    ("children_not_announced", "include/tenure/containers/detail/tree_structure.hpp",
     [("announced_set(to->children[to_child + i]->parent, to);", "to->children[to_child + i]->parent = to;")],
     "containers_test announced.sets", "after a split of an inner node a commit misses who the parent is"),
    ("passed_entries_not_announced", "include/tenure/containers/detail/hash_table.hpp",
     [("announce_each(p.here().passed); --p.here().passed;", "--p.here().passed;")],
     "containers_test announced.hash_maps", "a commit misses that fewer entries have passed a group"),
]
