// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/rebuilt_trees.hpp"

#include <algorithm>
#include <cstring>

#include <tenure/error.hpp>

#include "objects/object_walk.hpp"
#include "rewrite/converted_values.hpp"

namespace tenure::rewriting {

using namespace heap;
using made_object = tenure::detail::conversion_memory::made_object;

namespace {

template <class T = std::uint64_t>
[[nodiscard]] T read_at(address at) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}
template <class T>
void put(address at, const T& value) {
  std::memcpy(reinterpret_cast<void*>(at), &value, sizeof value);
}

[[nodiscard]] const type_field& require_field(const type& of, std::string_view name) {
  for (const type_field& f : of.fields)
    if (f.name == name || f.name.ends_with("::" + std::string(name))) return f;
  throw error(errc::damaged, of.name + ": has no field `" + std::string(name) + "`, which it must have");
}

[[nodiscard]] bool is_tree(std::string_view name) {
  return name.starts_with("tenure::map<") || name.starts_with("tenure::set<") ||
         name.starts_with("tenure::multimap<") || name.starts_with("tenure::multiset<") ||
         name.starts_with("tenure::ordered_index<") || name.starts_with("tenure::cache::map<");
}
[[nodiscard]] bool is_inner_node(std::string_view name) {
  return name.starts_with("tenure::detail::tree_inner<") || name.starts_with("tenure::cache::detail::map_inner<");
}
[[nodiscard]] bool is_of_cache(std::string_view name) { return name.starts_with("tenure::cache::"); }

// The name of what a pointer leads to: "tenure::detail::tree_leaf<...>".
[[nodiscard]] std::string leaf_of(const type& container) {
  std::string name = require_field(container, "first_").type_name;
  if (name.ends_with('*')) name.pop_back();
  return name;
}

// How many of `all` each of so many groups gets, as evenly as possible.
[[nodiscard]] std::size_t share(std::size_t all, std::size_t groups, std::size_t n) {
  return all * (n + 1) / groups - all * n / groups;
}

}  // namespace

bool rebuilt_trees::concerns(const type& container, const new_types& types) const {
  if (plan_ == nullptr || !is_tree(name_of_elements(container))) return false;
  const new_type* const leaf = types.find_stored(leaf_of(container));
  if (leaf == nullptr || leaf->how == nullptr) return false;
  // Of other trees free slots are no values, and are not converted.
  return leaf->how->has_fewer_slots || (is_of_cache(leaf->of->name) && !leaf->how->functions.empty());
}

const rebuilt_trees::tree_type& rebuilt_trees::type_of_tree(const type& container, const new_types& types) {
  const std::string name(name_of_elements(container));
  const auto known = types_.find(name);
  if (known != types_.end()) return known->second;
  const types::value_conversion& leaf = *types.find_stored(leaf_of(container))->how;
  const type* const program = plan_->program_type_named(plan_->renamed(name));
  const type* inner = nullptr;
  if (program != nullptr)
    for (const type_reference& each : program->allocates)
      if (is_inner_node(each().name)) inner = &each();
  if (inner == nullptr)
    throw error(errc::schema_mismatch, name +
                                           ": its entries have changed, and the program does not know it: register it "
                                           "(tenure::register_type)");
  tree_type made{is_of_cache(name), leaf.to, inner, {}, 0, 0, {}, {}};
  std::vector<std::string> problems;
  const tenure::detail::conversion_memory::scope containers_use(made_);  // default constructors run
  const std::vector<const char*> parts = made.is_of_cache ? std::vector{"keys", "values"} : std::vector{"entries"};
  for (const char* const part : parts)
    made.all.push_back(planned(require_field(*leaf.from, part), require_field(*leaf.to, part), problems));
  // What the keys are: changed_keys.hpp.
  const type_field &slot = *made.all.front().is, &key = made.is_of_cache ? slot : require_field(slot.of(), "first");
  made.key_offset = made.is_of_cache ? 0 : key.offset;
  made.key_size = key.size / key.count;
  if (key.kind == field_kind::nested) made.texts = container_places(key.of());
  if (!is_without_addresses(key) &&
      !address_orders::parts_of_entry(*made.all.front().was, made.is_of_cache, made.order))
    problems.push_back(name + ": its keys have pointers in classes, or containers");
  if (!problems.empty())
    throw error(errc::schema_mismatch, "the store cannot be converted; nothing was changed: " + problems.front());
  return types_.emplace(name, std::move(made)).first->second;
}

rebuilt_trees::slots rebuilt_trees::planned(const type_field& was, const type_field& is,
                                            std::vector<std::string>& problems) {
  slots made{&was, &is, nullptr, nullptr, nullptr};
  if (was.kind == field_kind::nested && is.kind == field_kind::nested) {
    made.how = std::make_unique<types::value_conversion>(plan_->plan(was.of(), is.of(), problems));
    return made;
  }
  const auto one_of = [](const type_field& f) {
    auto one = std::make_shared<type>();
    one->name = "an entry of a map";
    one->size = one->alignment = f.size / f.count;
    one->fields.push_back(f);
    type_field& value = one->fields.front();
    value.name = "value";
    value.size = one->size;
    value.count = 1;
    value.offset = 0;
    return one;
  };
  made.stored = one_of(was);
  made.program = one_of(is);
  made.how = std::make_unique<types::value_conversion>(plan_->plan(*made.stored, *made.program, problems));
  return made;
}

template <class F>
void rebuilt_trees::for_each_leaf(const type& container, address value, F&& f) const {
  const std::string name = leaf_of(container);
  for (address leaf = read_at(value + require_field(container, "first_").offset); leaf != 0;) {
    const sound_object found = find_sound(store_, reinterpret_cast<const void*>(leaf));
    if (!found || found.at != leaf || found.type->of->name != name)
      throw error(errc::damaged, container.name + ": a leaf of it is none; `tenure verify` says more");
    f(leaf, *found.type->of);
    leaf = read_at(leaf + require_field(*found.type->of, "next").offset);
  }
}

void rebuilt_trees::leave_out(const type& container, address value) {
  for_each_leaf(container, value, [&](address leaf, const type&) { left_out_.insert(leaf); });
  leave_out_nodes(read_at(value + require_field(container, "root_").offset));
}

void rebuilt_trees::leave_out_nodes(address node) {
  if (left_out_.contains(node)) return;
  const sound_object found = find_sound(store_, reinterpret_cast<const void*>(node));
  if (!found || found.at != node || !is_inner_node(found.type->of->name))
    throw error(errc::damaged, "a node of a tree is none; `tenure verify` says more");
  left_out_.insert(node);
  const type& of = *found.type->of;
  const std::uint32_t children =
      read_at<std::uint32_t>(node + require_field(of, "count").offset) + (is_of_cache(of.name) ? 0 : 1);
  for (std::uint32_t n = 0; n < children; ++n)
    leave_out_nodes(read_at(node + require_field(of, "children").offset + n * sizeof(address)));
}

void rebuilt_trees::build(const type& container, address value, const new_types& types, address_orders& orders,
                          const std::function<void(made_object&)>& placed) {
  const tree_type& of = type_of_tree(container, types);
  const slots& keys = of.all.front();
  std::vector<old_slot> entries;
  for_each_leaf(container, value, [&](address leaf, const type& t) {
    const std::uint32_t count = read_at<std::uint32_t>(leaf + require_field(t, "count").offset);
    for (std::uint32_t n = 0; n < count && n < keys.was->count; ++n) entries.push_back({leaf, n});
  });
  if (entries.empty()) return;
  // Others are in order, whatever function says so.
  if (!of.order.empty())
    std::ranges::stable_sort(entries, [&](const old_slot& a, const old_slot& b) {
      return orders.compare(of.order, a.in(keys), b.in(keys)) < 0;
    });
  std::vector<address> nodes;
  const address first = make_leaves(of, entries, orders, nodes, placed), last = nodes.back();
  for (std::uint32_t level = 1; nodes.size() > 1; ++level) nodes = make_level(of, nodes, level, placed);
  orders.put_word(value + require_field(container, "root_").offset, nodes.front());
  orders.put_word(value + require_field(container, "first_").offset, first);
  if (!of.is_of_cache) orders.put_word(value + require_field(container, "last_").offset, last);
}

// Free slots of a cache::map are as the default constructor makes them, those of others are nothing.
address rebuilt_trees::make_node(const type& of, bool is_of_cache) {
  void* const made = made_.allocate(of, 1);
  if (is_of_cache) {
    if (of.operations == nullptr || of.operations->construct == nullptr)
      throw error(errc::schema_mismatch, of.name + ": the program cannot make one; it has no default constructor");
    const tenure::detail::conversion_memory::scope containers_use(made_);
    of.operations->construct(made);
  }
  return reinterpret_cast<address>(made);
}

address rebuilt_trees::make_leaves(const tree_type& of, const std::vector<old_slot>& entries,
                                   const address_orders& orders, std::vector<address>& nodes,
                                   const std::function<void(made_object&)>& placed) {
  const std::uint64_t most = of.all.front().is->count;
  const std::size_t leaves = (entries.size() + most - 1) / most;
  value_bytes in_order;  // an old entry, in which containers may have been put in order
  std::size_t next = 0;
  for (std::size_t n = 0; n < leaves; ++n) {
    const address leaf = make_node(*of.leaf, of.is_of_cache);
    const std::size_t count = share(entries.size(), leaves, n);
    put(leaf + require_field(*of.leaf, "count").offset, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i, ++next)
      for (const slots& all : of.all) {
        const address slot = leaf + all.is->offset + i * all.size(), was = entries[next].in(all);
        const auto* const old = reinterpret_cast<const std::byte*>(was);
        in_order.assign(old, old + all.old_size());
        orders.apply_inside(was, in_order);
        made_.note_copy(in_order, was);
        convert_one(*all.how, in_order.data(), reinterpret_cast<std::byte*>(slot), made_);
        entries_[was] = {all.old_size(), slot, all.how.get()};
      }
    if (!nodes.empty()) {
      if (!of.is_of_cache) put(leaf + require_field(*of.leaf, "previous").offset, nodes.back());
      put(nodes.back() + require_field(*of.leaf, "next").offset, leaf);
    }
    nodes.push_back(leaf);
    placed(*made_.find(leaf));
  }
  return nodes.front();
}

std::vector<address> rebuilt_trees::make_level(const tree_type& of, const std::vector<address>& below,
                                               std::uint32_t level, const std::function<void(made_object&)>& placed) {
  const type& inner = *of.inner;
  // A separator lies before its child. That of the first child is left out, or not used.
  const type_field& separators = require_field(inner, of.is_of_cache ? "keys" : "separators");
  const std::size_t left_out = of.is_of_cache ? 0 : 1;
  const std::uint64_t each = separators.size / separators.count;
  const std::size_t fanout = separators.count + left_out, count = (below.size() + fanout - 1) / fanout;
  std::vector<address> nodes;
  std::size_t next = 0;
  for (std::size_t n = 0; n < count; ++n) {
    const address node = make_node(inner, of.is_of_cache);
    const std::size_t children = share(below.size(), count, n);
    put(node + require_field(inner, "count").offset, static_cast<std::uint32_t>(children - left_out));
    put(node + require_field(inner, "level").offset, level);
    for (std::size_t i = 0; i < children; ++i, ++next) {
      put(node + require_field(inner, "children").offset + i * sizeof(address), below[next]);
      if (!of.is_of_cache) put(below[next] + require_field(level == 1 ? *of.leaf : inner, "parent").offset, node);
      if (i != 0) copy_key(of, first_key(of, below[next]), node + separators.offset + (i - left_out) * each);
    }
    nodes.push_back(node);
    placed(*made_.find(node));
  }
  return nodes;
}

address rebuilt_trees::first_key(const tree_type& of, address node) const {
  while (read_at<std::uint32_t>(node + require_field(*of.leaf, "level").offset) != 0)
    node = read_at(node + require_field(*of.inner, "children").offset);
  return node + of.all.front().is->offset + of.key_offset;
}

// A separator is the first key behind it. Text gets memory of its own.
void rebuilt_trees::copy_key(const tree_type& of, address key, address separator) {
  std::memcpy(reinterpret_cast<void*>(separator), reinterpret_cast<const void*>(key), of.key_size);
  for (const container_place& place : of.texts) {
    if (!is_there(place, reinterpret_cast<const std::byte*>(key))) continue;
    const address from = key + place.offset, to = separator + place.offset;
    const bool is_ours = place.is == container_shape::our_string;
    const auto text = read_at(from), length = read_at(from + 8);
    if (!is_ours && (text == from + 16 || text == 0)) {
      put(to, to + 16);
      continue;
    }
    if (text == 0) continue;
    const auto copy = reinterpret_cast<address>(made_.allocate(tenure::type_of<char>(), length + 1));
    std::memcpy(reinterpret_cast<void*>(copy), reinterpret_cast<const void*>(text), length);
    put(to, copy);
    put(to + 16, length);  // the capacity
  }
}

address rebuilt_trees::entry_at(address at, std::string_view pointee) const {
  auto found = entries_.upper_bound(at);
  if (found == entries_.begin()) return 0;
  --found;
  const new_entry& e = found->second;
  if (at >= found->first + e.size) return 0;
  const auto* const value = reinterpret_cast<const std::byte*>(found->first);
  const auto inside = e.how->moved_offset(value, at - found->first, pointee);
  return inside ? e.at + *inside : 0;
}

}  // namespace tenure::rewriting
