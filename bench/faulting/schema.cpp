// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "faulting/schema.hpp"

#include <tenure/type.hpp>

namespace tenure::bench::faulting {
namespace {

constexpr bool constrained = true, unconstrained = false;

template <class T>
layout plain_layout() {
  return {type_of<T>().name, sizeof(T), {}};
}

template <std::size_t N>
void add_array(layout& to, std::size_t offset, bool is_constrained) {
  for (std::size_t n = 0; n < N; ++n) to.references.push_back({offset + n * sizeof(void*), is_constrained});
}

std::array<layout, kinds> make_layouts() {
  std::array<layout, kinds> all{plain_layout<text>(),   plain_layout<part>(),      plain_layout<index_node>(),
                                plain_layout<method>(), plain_layout<behaviour>(), plain_layout<database>()};
  layout& part_layout = all[static_cast<std::size_t>(kind::part)];
  add_array<1>(part_layout, offsetof(part, type), unconstrained);
  add_array<3>(part_layout, offsetof(part, to), unconstrained);
  add_array<3>(part_layout, offsetof(part, connection_type), unconstrained);
  layout& node = all[static_cast<std::size_t>(kind::index_node)];
  add_array<index_node::fanout>(node, offsetof(index_node, down), unconstrained);
  add_array<index_node::fanout>(node, offsetof(index_node, parts), unconstrained);
  layout& code = all[static_cast<std::size_t>(kind::method)];
  add_array<1>(code, offsetof(method, selector), unconstrained);
  add_array<method::most_literals>(code, offsetof(method, literals), constrained);
  layout& of_class = all[static_cast<std::size_t>(kind::behaviour)];
  add_array<2>(of_class, offsetof(behaviour, name), unconstrained);  // and super
  add_array<behaviour::most_methods>(of_class, offsetof(behaviour, selectors), unconstrained);
  add_array<behaviour::most_methods>(of_class, offsetof(behaviour, methods), unconstrained);
  layout& root = all[static_cast<std::size_t>(kind::database)];
  add_array<1>(root, offsetof(database, index), unconstrained);
  add_array<kinds>(root, offsetof(database, classes), unconstrained);
  add_array<messages>(root, offsetof(database, selectors), constrained);
  return all;
}

}  // namespace

const layout& layout_of(kind of) {
  static const std::array<layout, kinds> all = make_layouts();
  return all[static_cast<std::size_t>(of)];
}

}  // namespace tenure::bench::faulting
