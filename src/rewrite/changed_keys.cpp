// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the order of keys depends on is known of tenure::less and std::less: operator<, which compares fields one after the other
// in most classes. So it stays if the fields that there were have stayed, in their order, with their values; what is new has the
// same value in all keys. A function of the program that compares is part of the program, as hash functions are: it goes on
// to say the same of the same values.
#include "rewrite/changed_keys.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "rewrite/address_orders.hpp"
#include "rewrite/key_orders.hpp"

namespace tenure::rewriting {

namespace {

[[nodiscard]] const type_field* field_named(const type& of, std::string_view name) {
  const auto found = std::ranges::find(of.fields, name, &type_field::name);
  return found != of.fields.end() ? &*found : nullptr;
}

[[nodiscard]] bool is_map_leaf(const type& node) { return node.name.starts_with("tenure::cache::detail::map_leaf<"); }

// Entries of a node, or their keys: of a leaf some, of a node of a red-black tree one. nullptr: it is no node of a tree.
[[nodiscard]] const type_field* entries_of(const type& node) {
  if (node.name.starts_with("tenure::detail::tree_leaf<")) return field_named(node, "entries");
  if (is_map_leaf(node)) return field_named(node, "keys");
  if (node.name.starts_with("std::_Rb_tree_node<")) return field_named(node, "value");
  return nullptr;
}

// Maps have pairs, whose first is constant.
[[nodiscard]] bool is_entry_of_map(const type& entry) {
  const std::vector<std::string> arguments = template_arguments(entry.name);
  return entry.name.starts_with("std::pair<") && !arguments.empty() && arguments.front().ends_with(" const");
}

// The class of the key in an entry. nullptr: it is no class.
[[nodiscard]] const type* key_in(const type_field& entries) {
  if (entries.kind != field_kind::nested) return nullptr;
  if (!is_entry_of_map(entries.of())) return &entries.of();
  const type_field* const first = field_named(entries.of(), "first");
  return first != nullptr && first->kind == field_kind::nested ? &first->of() : nullptr;
}

// Marks the bytes of fields, but not those between them.
void mark(const type& of, std::uint64_t at, std::vector<bool>& bytes) {
  for (const type_field& f : of.fields) {
    const std::uint64_t each = f.size / std::max<std::uint64_t>(f.count, 1);
    for (std::uint64_t n = 0; n < f.count; ++n)
      if (f.kind == field_kind::nested)
        mark(f.of(), at + f.offset + n * each, bytes);
      else
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + f.offset + n * each), each, true);
  }
}

[[nodiscard]] bool keeps_order(const type& was, const type& is, const types::evolution& plan) {
  std::vector<std::string> problems;
  const types::value_conversion how = plan.plan(was, is, problems);
  if (!how.functions.empty()) return false;
  std::vector<bool> left(was.size);  // bytes that nothing has become of
  mark(was, 0, left);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  const auto add = [&](std::uint64_t from, std::uint64_t to, std::uint64_t length) {
    std::fill_n(left.begin() + static_cast<std::ptrdiff_t>(from), length, false);
    places.emplace_back(from, to);
  };
  for (const auto& c : how.copies) add(c.from, c.to, c.length);
  for (const auto& n : how.numbers) {
    if (n.was.kind == scalar_kind::enumeration || n.is.kind == scalar_kind::enumeration) return false;  // signs
    add(n.from, n.to, n.was.size);
  }
  std::ranges::sort(places);
  return std::ranges::none_of(left, std::identity()) &&
         std::ranges::is_sorted(places, {}, [](const auto& p) { return p.second; });
}

// Whether a container of the store compares such keys by operator<.
[[nodiscard]] bool has_usual_order(const type& key, const std::vector<const type*>& stored) {
  const auto is_named = [&](const std::string& name) {
    return name.find("tenure::less<" + key.name + ">") != std::string::npos ||
           name.find("std::less<" + key.name + ">") != std::string::npos;
  };
  return std::ranges::any_of(stored, [&](const type* t) {
    return is_named(t->name) || std::ranges::any_of(t->fields, is_named, &type_field::name);
  });
}

[[nodiscard]] bool is_same_key(const type_field& was, const type_field& is) {
  return was.kind == is.kind && was.size / was.count == is.size / is.count &&
         (is.kind != field_kind::nested || !types::evolution::differ(was.of(), is.of()));
}

// Of leaves that have room for fewer entries, whose trees are built anew.
[[nodiscard]] bool can_be_built_anew(const type& node, const type_field& was, const type_field& is) {
  if (is_map_leaf(node)) return is_same_key(was, is) && is_without_addresses(was);
  const bool is_set = was.kind != field_kind::nested || !is_entry_of_map(was.of());
  if (is_set || is.kind != field_kind::nested) return false;
  const type_field *const old_key = field_named(was.of(), "first"), *const key = field_named(is.of(), "first");
  if (old_key == nullptr || key == nullptr || old_key->offset != key->offset || !is_same_key(*old_key, *key))
    return false;
  std::vector<address_orders::key_part> parts;
  return is_without_addresses(*old_key) || address_orders::parts_of_entry(was, is_set, parts);
}

}  // namespace

std::map<std::string, std::string> nodes_with_changed_keys(const std::vector<const type*>& stored,
                                                           const types::evolution& plan) {
  std::map<std::string, std::string> found;
  for (const type* const node : stored) {
    const type* const program = entries_of(*node) != nullptr ? plan.program_type_of(*node) : nullptr;
    if (program == nullptr || !types::evolution::differ(*node, *program)) continue;
    const type_field &was = *entries_of(*node), &is = *entries_of(*program);
    const type* const key = key_in(was);
    const std::string what = "a tree of " + was.type_name + ": ";
    constexpr std::string_view advice = "; with the old program, store its entries in a vector";
    if (is.count < was.count) {
      if (!can_be_built_anew(*node, was, is))
        found[node->name] =
            what +
            "its keys have changed, or have pointers in classes, or containers, and its entries have become larger" +
            std::string(advice);
    } else if (key != nullptr && key_in(is) != nullptr && types::evolution::differ(*key, *key_in(is)) &&
               has_usual_order(*key, stored) && !keeps_order(*key, *key_in(is), plan)) {
      found[node->name] =
          what + "the class of its keys has changed so that their order may be another one" + std::string(advice);
    }
  }
  return found;
}

}  // namespace tenure::rewriting
