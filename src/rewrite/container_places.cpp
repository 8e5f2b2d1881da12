// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/container_places.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <tenure/error.hpp>

#include "rewrite/key_orders.hpp"

namespace tenure::rewriting {

namespace {

[[nodiscard]] std::optional<container_shape> shape_of(const type& of) {
  using enum container_shape;
  constexpr std::array standard{std::pair{"std::vector<", vector},
                                std::pair{"std::__cxx11::basic_string<", string},
                                std::pair{"std::deque<", deque},
                                std::pair{"std::__cxx11::list<", list},
                                std::pair{"std::list<", list},
                                std::pair{"std::forward_list<", forward_list},
                                std::pair{"std::map<", tree},
                                std::pair{"std::set<", tree},
                                std::pair{"std::multimap<", tree},
                                std::pair{"std::multiset<", tree},
                                std::pair{"std::unordered_map<", table},
                                std::pair{"std::unordered_set<", table},
                                std::pair{"std::unordered_multimap<", table},
                                std::pair{"std::unordered_multiset<", table}};
  const std::string_view name = name_of_elements(of);
  for (const auto& [prefix, shape] : standard)
    if (name.starts_with(prefix) && name.ends_with('>')) return shape;  // no array of pointers to such
  if (name == "tenure::detail::finalization_list") return queue;
  const type_field* const tree_root = container_field(of, "root_");
  if (tree_root != nullptr && tree_root->name.find("tenure::detail::tree_structure<") != std::string::npos)
    return our_tree;
  if (tree_root != nullptr && name.starts_with("tenure::cache::map<")) return cache_map;
  const type_field* const groups = container_field(of, "groups_");
  if (groups != nullptr && groups->name.find("tenure::detail::hash_table<") != std::string::npos) return our_table;
  const auto has = [&](const char* field, const char* prefix) {
    const type_field* const found = container_field(of, field);
    return found != nullptr && (name.starts_with(prefix) || found->name.starts_with(prefix));
  };
  if (has("first_", "tenure::vector<") && container_field(of, "capacity_") != nullptr) return our_vector;
  if (has("heap_", "tenure::basic_string<")) return our_string;
  return std::nullopt;
}

void find_places(const type& of, std::uint64_t at, std::vector<field_guard>& guards,
                 std::vector<container_place>& found) {
  if (const auto shape = shape_of(of)) found.push_back({*shape, at, &of, guards});
  for (const type_field& f : of.fields) {
    if (f.kind != field_kind::nested || !f.of) continue;
    if (f.only_if) guards.push_back({at + f.only_if->offset, f.only_if->width, f.only_if->value});
    const std::uint64_t each = f.size / f.count;
    for (std::uint64_t n = 0; n < f.count; ++n) find_places(f.of(), at + f.offset + n * each, guards, found);
    if (f.only_if) guards.pop_back();
  }
}

}  // namespace

std::vector<container_place> container_places(const type& of) {
  std::vector<container_place> found;
  std::vector<field_guard> guards;
  find_places(of, 0, guards, found);
  return found;
}

bool is_there(const container_place& place, const std::byte* value) {
  return std::ranges::all_of(place.guards, [&](const field_guard& g) {
    std::uint64_t has = 0;  // little-endian: the first bytes are the low ones
    std::memcpy(&has, value + g.offset, g.width);
    return has == g.value;
  });
}

bool name_is_map(const type& of) {
  const std::string_view name = name_of_elements(of);
  return name.substr(0, name.find('<')).ends_with("map");
}

const type_field* container_field(const type& of, std::string_view name) {
  const auto found = std::ranges::find_if(of.fields, [&](const type_field& f) {
    return f.name == name || (f.name.ends_with(name) && f.name.size() > name.size() + 2 &&
                              std::string_view(f.name).substr(f.name.size() - name.size() - 2, 2) == "::");
  });
  return found != of.fields.end() ? &*found : nullptr;
}

const type_field& required_field(const type& of, std::string_view name) {
  if (const type_field* const found = container_field(of, name)) return *found;
  throw error(errc::damaged, std::string(of.name) +
                                 ": the store's description of this type is damaged: it has no field \"" +
                                 std::string(name) + "\"; restore the store from a backup");
}

}  // namespace tenure::rewriting
