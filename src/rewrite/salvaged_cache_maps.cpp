// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// cache::map: all entries are in the leaves, of which each leads to the next one; so what lies above them can be built anew.
#include <algorithm>
#include <unordered_set>

#include "rewrite/image_fields.hpp"
#include "rewrite/salvaged_containers.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

namespace {

constexpr std::string_view map_leaf_prefix = "tenure::cache::detail::map_leaf<",
                           map_inner_prefix = "tenure::cache::detail::map_inner<";

// Slots of one kind in a node.
struct node_slots {
  node_slots(const type& of, std::string_view name) {
    const type_field* const f = container_field(of, name);
    if (f == nullptr || f->count == 0) return;
    offset = f->offset;
    count = f->count;
    each = f->size / f->count;
  }
  std::uint64_t offset = 0, each = 0, count = 0;
  [[nodiscard]] address at(address node, std::uint64_t n) const { return node + offset + n * each; }
};

[[nodiscard]] std::uint32_t entries_of(const type& of, address node) {
  return field_value<std::uint32_t>(of, node, "count");
}

}  // namespace

// Takes what is needed of the type of leaves from the first one.
bool salvaged_containers::know_map_leaf(our_tree& tree, const sound_object& leaf) {
  if (tree.leaf != nullptr) return tree.leaf == leaf.type;
  const type& of = *leaf.type->of;
  const node_slots keys(of, "keys"), values(of, "values");
  if (keys.count == 0 || values.count != keys.count) return false;
  tree.leaf = leaf.type;
  tree.entries = keys.offset;
  tree.each = tree.key_size = keys.each;
  tree.slots = keys.count;
  const std::string& inner = tree.inner_name =
      std::string(map_inner_prefix) + required_field(of, "keys").type_name + ">";
  for (std::uint32_t n = 1; n < leaf.in->types->count() && tree.inner == nullptr; ++n)
    if (const heap::known_type* const known = leaf.in->types->find(n); known != nullptr && known->of->name == inner)
      tree.inner = known;
  return true;
}

bool salvaged_containers::is_map_leaf(our_tree& tree, address at) {
  if (level_of(at, tree.leaf_name) != 0) return false;
  const sound_object found = image_.find(at, tree.leaf_name);
  if (!found || found.at != at || !found.type->of->name.starts_with(map_leaf_prefix) || !know_map_leaf(tree, found))
    return false;
  const std::uint32_t count = entries_of(*found.type->of, at);
  return field_value<std::uint32_t>(*found.type->of, at, "level") == 0 && count != 0 && count <= tree.slots &&
         claim(at, tree.at);
}

void salvaged_containers::find_map_leaves(our_tree& tree, address node, std::uint32_t most_level) {
  if (!tree.seen.insert(node).second) return void(tree.is_whole = false);
  sound_object found = image_.find(node);
  if (!found && level_of(node, tree.inner_name) != 0) found = image_.find(node, tree.inner_name);
  if (found && found.at == node && found.type->of->name.starts_with(map_inner_prefix) && claim(node, tree.at)) {
    const type& of = *found.type->of;
    const node_slots keys(of, "keys"), children(of, "children");
    const auto count = entries_of(of, node), level = field_value<std::uint32_t>(of, node, "level");
    if (keys.count == 0 || keys.count != children.count || count < 2 || count > keys.count || level == 0 ||
        level > most_level)
      return void(tree.is_whole = false);
    if (tree.inner == nullptr) tree.inner = found.type;
    tree.is_whole = tree.is_whole && found.type == tree.inner;
    tree.inners.push_back(node);
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint64_t key = keys.offset + n * keys.each;
      if (n != 0) tree.is_whole = is_sound_key(*found.type, node, key, key + keys.each) && tree.is_whole;
      const address child = damaged_image::get(children.at(node, n));
      if (child == 0)
        tree.is_whole = false;
      else
        find_map_leaves(tree, child, level - 1);
    }
    return;
  }
  if (!is_map_leaf(tree, node)) return void(tree.is_whole = false);
  tree.leaves.push_back(node);
}

// Those to which only the leaf before leads, or the map.
void salvaged_containers::find_more_map_leaves(our_tree& tree) {
  std::unordered_set<address> known(tree.leaves.begin(), tree.leaves.end());
  if (const address first = field_value(*tree.of, tree.at, "first_");
      !known.contains(first) && is_map_leaf(tree, first)) {
    known.insert(first);
    tree.leaves.insert(tree.leaves.begin(), first);
  }
  for (std::size_t n = 0; n < tree.leaves.size(); ++n) {
    const address next = field_value(*tree.leaf->of, tree.leaves[n], "next");
    if (next == 0 || known.contains(next) || !is_map_leaf(tree, next)) continue;
    known.insert(next);
    tree.leaves.insert(tree.leaves.begin() + static_cast<std::ptrdiff_t>(n) + 1, next);
  }
}

// Those whose keys are lost. Returns how many there were.
std::uint64_t salvaged_containers::drop_map_entries(our_tree& tree) {
  const type& of = *tree.leaf->of;
  const node_slots keys(of, "keys"), values(of, "values");
  std::uint64_t dropped = 0;
  for (const address leaf : tree.leaves) {
    const std::uint32_t count = entries_of(of, leaf);
    std::vector<std::uint32_t> kept;
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint64_t key = keys.offset + n * keys.each;
      if (is_sound_key(*tree.leaf, leaf, key, key + keys.each)) kept.push_back(n);
    }
    if (kept.size() == count) continue;
    dropped += count - kept.size();
    for (const node_slots& all : {keys, values}) {
      for (std::uint32_t n = 0; n < count; ++n) moved_[all.at(leaf, n)] = {all.each, 0};
      for (std::size_t n = 0; n < kept.size(); ++n) {
        const address from = all.at(leaf, kept[n]), to = all.at(leaf, n);
        if (from != to) move_entry(from, to, all.each);
        if (from == to)
          moved_.erase(from);
        else
          moved_[from] = {all.each, to};
      }
      damaged_image::clear(all.at(leaf, kept.size()), (all.count - kept.size()) * all.each);
    }
    put_field(of, leaf, "count", static_cast<std::uint32_t>(kept.size()));
  }
  std::erase_if(tree.leaves, [&](address leaf) { return entries_of(of, leaf) == 0; });
  return dropped;
}

bool salvaged_containers::build_map(our_tree& tree) {
  const type& leaf = *tree.leaf->of;
  struct node {
    address at, first;  // the first key below it
  };
  std::vector<node> below;
  for (std::size_t n = 0; n < tree.leaves.size(); ++n) {
    put_field(leaf, tree.leaves[n], "next", n + 1 < tree.leaves.size() ? tree.leaves[n + 1] : address{0});
    below.push_back({tree.leaves[n], tree.leaves[n] + tree.entries});
  }
  for (std::uint32_t level = 1; below.size() > 1; ++level) {
    if (tree.inner == nullptr) return false;
    const type& inner = *tree.inner->of;
    const node_slots keys(inner, "keys"), children(inner, "children");
    if (keys.each != tree.key_size || children.count != keys.count || keys.count < 2) return false;
    const std::size_t count = (below.size() + keys.count - 1) / keys.count;
    std::vector<node> made;
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t first = below.size() * n / count, end = below.size() * (n + 1) / count;
      const address at = take_inner(tree);
      if (at == 0) return false;
      put_field(inner, at, "count", static_cast<std::uint32_t>(end - first));
      put_field(inner, at, "level", level);
      for (std::size_t i = first; i < end; ++i) {
        damaged_image::put(children.at(at, i - first), below[i].at);
        if (i != first && !copy_key(tree, below[i].first, keys.at(at, i - first))) return false;
      }
      made.push_back({at, below[first].first});
    }
    below = std::move(made);
  }
  put_field(*tree.of, tree.at, "root_", below.front().at);
  put_field(*tree.of, tree.at, "first_", tree.leaves.front());
  return true;
}

std::string salvaged_containers::mend_cache_map(const type& of, address at) {
  const address root = field_value(of, at, "root_");
  if (root == 0 && field_value(of, at, "first_") == 0) return "";
  our_tree tree{.of = &of,
                .at = at,
                .keys_are_entries = true,
                .leaf_name = {},
                .inner_name = {},
                .leaves = {},
                .inners = {},
                .seen = {}};
  tree.leaf_name = pointee_of(required_field(of, "first_").type_name);
  (void)is_map_leaf(tree, field_value(of, at, "first_"));
  constexpr std::uint32_t highest = 40;
  if (root != 0) find_map_leaves(tree, root, highest);
  for (std::size_t n = 0; n < tree.leaves.size() && tree.is_whole; ++n)
    tree.is_whole = field_value(*tree.leaf->of, tree.leaves[n], "next") ==
                    (n + 1 < tree.leaves.size() ? tree.leaves[n + 1] : address{0});
  tree.is_whole = tree.is_whole && !tree.leaves.empty() && field_value(of, at, "first_") == tree.leaves.front();
  if (!tree.is_whole) find_more_map_leaves(tree);
  const std::uint64_t dropped = tree.leaf != nullptr ? drop_map_entries(tree) : 0;
  if (tree.is_whole && dropped == 0) return "";
  std::uint64_t entries = 0;
  for (const address leaf : tree.leaves) entries += entries_of(*tree.leaf->of, leaf);
  if (tree.leaves.empty() || !build_map(tree)) {
    for (const char* const field : {"root_", "first_"}) put_field(of, at, field, address{0});
    return "is empty now: " + std::to_string(entries) + " of its entries were left" +
           (entries == 0 ? ""
                         : ", which could not be put in order, because their keys are more than numbers and text, or "
                           "because the database has no room for new nodes");
  }
  return "has lost entries, or what led to them; " + std::to_string(entries) + " are left";
}

}  // namespace tenure::rewriting
