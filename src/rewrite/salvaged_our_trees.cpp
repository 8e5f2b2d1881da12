// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// B+-trees of ours. All entries are in the leaves, which are linked; so what lies above them can be built anew. A separator is the
// first key behind it.
#include <algorithm>
#include <list>

#include <tenure/type.hpp>

#include "rewrite/image_fields.hpp"
#include "rewrite/salvaged_containers.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

namespace {

constexpr std::string_view leaf_prefix = "tenure::detail::tree_leaf<", inner_prefix = "tenure::detail::tree_inner<";

}  // namespace

// Takes what is needed of the type of leaves from the first one.
bool salvaged_containers::know_leaf(our_tree& tree, const sound_object& leaf) {
  if (tree.leaf != nullptr) return tree.leaf == leaf.type;
  const type_field* const entries = container_field(*leaf.type->of, "entries");
  if (entries == nullptr || entries->count == 0) return false;
  tree.leaf = leaf.type;
  tree.leaf_name = leaf.type->of->name;
  tree.entries = entries->offset;
  tree.slots = entries->count;
  tree.each = tree.key_size = entries->size / entries->count;
  std::string key_name = entries->type_name;
  if (!tree.keys_are_entries && entries->of) {
    const type_field* const key = container_field(entries->of(), "first");
    if (key == nullptr) return false;
    tree.key = key->offset;
    tree.key_size = key->size;
    key_name = key->type_name;
  }
  const std::string& inner = tree.inner_name = std::string(inner_prefix) + key_name + ">";
  for (std::uint32_t n = 1; n < leaf.in->types->count() && tree.inner == nullptr; ++n)
    if (const heap::known_type* const known = leaf.in->types->find(n); known != nullptr && known->of->name == inner)
      tree.inner = known;
  return true;
}

// Nodes of both kinds begin alike: one that no record knows says itself what it is. 0, too, if there is none.
std::uint32_t salvaged_containers::level_of(address node, const std::string& type_name) const {
  const database_state* const in = image_.store().at(reinterpret_cast<const void*>(node));
  const type* const of = in != nullptr ? image_.described(*in, type_name) : nullptr;
  return of != nullptr && image_.has_bytes(node, of->size) ? field_value<std::uint32_t>(*of, node, "level") : 0;
}

bool salvaged_containers::is_leaf(our_tree& tree, address at) {
  if (level_of(at, tree.leaf_name) != 0) return false;
  const sound_object found = image_.find(at, tree.leaf_name);
  if (!found || found.at != at || !found.type->of->name.starts_with(leaf_prefix) || !know_leaf(tree, found))
    return false;
  const auto count = field_value<std::uint32_t>(*found.type->of, at, "count");
  return field_value<std::uint32_t>(*found.type->of, at, "level") == 0 && count != 0 && count <= tree.slots &&
         claim(at, tree.at);
}

void salvaged_containers::find_leaves(our_tree& tree, address node, address parent, std::uint32_t most_level) {
  if (!tree.seen.insert(node).second) return void(tree.is_whole = false);
  sound_object found = image_.find(node);
  if (!found && level_of(node, tree.inner_name) != 0) found = image_.find(node, tree.inner_name);
  if (found && found.at == node && found.type->of->name.starts_with(inner_prefix) && claim(node, tree.at)) {
    const type& of = *found.type->of;
    const type_field *separators = container_field(of, "separators"), *children = container_field(of, "children");
    const auto count = field_value<std::uint32_t>(of, node, "count"),
               level = field_value<std::uint32_t>(of, node, "level");
    if (separators == nullptr || children == nullptr || count > separators->count || level == 0 || level > most_level)
      return void(tree.is_whole = false);
    if (tree.inner == nullptr) tree.inner = found.type;
    tree.inners.push_back(node);
    const std::uint64_t each = separators->size / separators->count;
    tree.is_whole = tree.is_whole && field_value(of, node, "parent") == parent && found.type == tree.inner;
    for (std::uint32_t n = 0; n <= count; ++n) {
      const address child = damaged_image::get(node + children->offset + n * sizeof(address));
      if (n != 0) {
        const std::uint64_t from = separators->offset + (n - 1) * each;
        tree.is_whole = is_sound_key(*found.type, node, from, from + each) && tree.is_whole;
      }
      if (child == 0)
        tree.is_whole = false;
      else
        find_leaves(tree, child, node, level - 1);
    }
    return;
  }
  if (!is_leaf(tree, node)) return void(tree.is_whole = false);
  tree.is_whole = tree.is_whole && field_value(*tree.leaf->of, node, "parent") == parent;
  tree.leaves.push_back(node);
}

// Those to which only other leaves lead.
void salvaged_containers::find_more_leaves(our_tree& tree) {
  std::list<address> order(tree.leaves.begin(), tree.leaves.end());
  std::unordered_set<address> known(tree.leaves.begin(), tree.leaves.end());
  const auto add_from = [&](address from, std::string_view link, std::list<address>::iterator before) {
    for (address leaf = from; leaf != 0 && !known.contains(leaf) && is_leaf(tree, leaf);
         leaf = field_value(*tree.leaf->of, leaf, link)) {
      known.insert(leaf);
      const auto at = order.insert(before, leaf);
      if (link == "previous") before = at;
    }
  };
  add_from(field_value(*tree.of, tree.at, "first_"), "next", order.begin());
  add_from(field_value(*tree.of, tree.at, "last_"), "previous", order.end());
  for (auto each = order.begin(); each != order.end(); ++each) {
    add_from(field_value(*tree.leaf->of, *each, "previous"), "previous", each);
    add_from(field_value(*tree.leaf->of, *each, "next"), "next", std::next(each));
  }
  tree.leaves.assign(order.begin(), order.end());
}

bool salvaged_containers::is_linked(const our_tree& tree) {
  address before = 0;
  for (const address leaf : tree.leaves) {
    if (field_value(*tree.leaf->of, leaf, "previous") != before) return false;
    if ((before != 0 ? field_value(*tree.leaf->of, before, "next") : field_value(*tree.of, tree.at, "first_")) != leaf)
      return false;
    before = leaf;
  }
  return field_value(*tree.of, tree.at, "last_") == before &&
         (before == 0 || field_value(*tree.leaf->of, before, "next") == 0);
}

// What refers to the entry, and what it refers to in itself, follows it.
void salvaged_containers::move_entry(address from, address to, std::uint64_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  for (std::uint64_t n = 0; n + sizeof(address) <= bytes; n += sizeof(address))
    if (const address word = damaged_image::get(to + n); word >= from && word < from + bytes)
      damaged_image::put(to + n, word - from + to);
}

// Those whose keys are lost. Returns how many there were.
std::uint64_t salvaged_containers::drop_entries(our_tree& tree) {
  std::uint64_t dropped = 0;
  for (const address leaf : tree.leaves) {
    const auto count = field_value<std::uint32_t>(*tree.leaf->of, leaf, "count");
    std::vector<address> kept;
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint64_t entry = tree.entries + n * tree.each;
      if (is_sound_key(*tree.leaf, leaf, entry + tree.key, entry + tree.key + tree.key_size))
        kept.push_back(leaf + entry);
      else
        moved_[leaf + entry] = {tree.each, 0};
    }
    if (kept.size() == count) continue;
    dropped += count - kept.size();
    for (std::size_t n = 0; n < kept.size(); ++n) {
      const address to = leaf + tree.entries + n * tree.each;
      if (kept[n] == to) continue;
      move_entry(kept[n], to, tree.each);
      moved_[kept[n]] = {tree.each, to};
    }
    const std::uint64_t used = kept.size() * tree.each;
    damaged_image::clear(leaf + tree.entries + used, tree.slots * tree.each - used);
    put_field(*tree.leaf->of, leaf, "count", static_cast<std::uint32_t>(kept.size()));
  }
  std::erase_if(tree.leaves,
                [&](address leaf) { return field_value<std::uint32_t>(*tree.leaf->of, leaf, "count") == 0; });
  return dropped;
}

void salvaged_containers::empty_tree(const our_tree& tree) {
  for (const char* const field : {"root_", "first_", "last_", "size_"})
    put_field(*tree.of, tree.at, field, std::uint64_t{0});
}

address salvaged_containers::take_inner(our_tree& tree) {
  const database_state& in = *image_.store().at(reinterpret_cast<const void*>(tree.at));
  while (!tree.inners.empty()) {
    const address node = tree.inners.back();
    tree.inners.pop_back();
    const sound_object found = image_.find(node);
    if (found.type != tree.inner) continue;
    damaged_image::clear(node, found.size);
    return node;
  }
  return image_.make(in, tree.inner->index, tree.inner->of->size);
}

// Text gets memory of its own. Returns false if there is more in the key that has some.
bool salvaged_containers::copy_key(const our_tree& tree, address entry, address separator) {
  const database_state& in = *image_.store().at(reinterpret_cast<const void*>(tree.at));
  std::memcpy(reinterpret_cast<void*>(separator), reinterpret_cast<const void*>(entry + tree.key), tree.key_size);
  const std::uint64_t from = tree.entries + tree.key;
  for (const container_place& place : places_in(*tree.leaf->of)) {
    if (place.offset < from || place.offset >= from + tree.key_size) continue;
    const address to = separator + (place.offset - from), was = entry + tree.key + (place.offset - from);
    const bool is_ours = place.is == container_shape::our_string;
    if (!is_ours && place.is != container_shape::string) return false;
    const address text = damaged_image::get(to);
    if (text == 0) continue;  // ours, and short
    const std::uint64_t inside = is_ours ? 0 : text - was;
    if (!is_ours && inside < place.of->size) {
      damaged_image::put(to, to + inside);
      continue;
    }
    const sound_object memory = image_.find(text);
    const address copy = memory ? image_.make(in, memory.type->index, memory.size) : 0;
    if (copy == 0) return false;
    std::memcpy(reinterpret_cast<void*>(copy), reinterpret_cast<const void*>(text), memory.size);
    damaged_image::put(to, copy);
  }
  return true;
}

bool salvaged_containers::build_inners(our_tree& tree) {
  const type& leaf = *tree.leaf->of;
  address before = 0;
  std::uint64_t entries = 0;
  struct node {
    address at, first;  // the first entry below it
  };
  std::vector<node> below;
  for (const address at : tree.leaves) {
    put_field(leaf, at, "parent", address{0});
    put_field(leaf, at, "previous", before);
    put_field(leaf, at, "next", address{0});
    if (before != 0) put_field(leaf, before, "next", at);
    before = at;
    entries += field_value<std::uint32_t>(leaf, at, "count");
    below.push_back({at, at + tree.entries});
  }
  for (std::uint32_t level = 1; below.size() > 1; ++level) {
    if (tree.inner == nullptr) return false;
    const type& inner = *tree.inner->of;
    const type_field *separators = container_field(inner, "separators"), *children = container_field(inner, "children");
    if (separators == nullptr || children == nullptr || separators->size / separators->count != tree.key_size)
      return false;
    const std::size_t fanout = separators->count + 1, count = (below.size() + fanout - 1) / fanout;
    std::vector<node> made;
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t first = below.size() * n / count, end = below.size() * (n + 1) / count;
      const address at = take_inner(tree);
      if (at == 0) return false;
      put_field(inner, at, "count", static_cast<std::uint32_t>(end - first - 1));
      put_field(inner, at, "level", level);
      for (std::size_t i = first; i < end; ++i) {
        damaged_image::put(at + children->offset + (i - first) * sizeof(address), below[i].at);
        damaged_image::put(at_field(level == 1 ? leaf : inner, below[i].at, "parent"), at);
        if (i != first && !copy_key(tree, below[i].first, at + separators->offset + (i - first - 1) * tree.key_size))
          return false;
      }
      made.push_back({at, below[first].first});
    }
    below = std::move(made);
  }
  put_field(*tree.of, tree.at, "root_", below.front().at);
  put_field(*tree.of, tree.at, "first_", tree.leaves.front());
  put_field(*tree.of, tree.at, "last_", tree.leaves.back());
  put_field(*tree.of, tree.at, "size_", entries);
  return true;
}

std::string salvaged_containers::mend_our_tree(const type& of, address at) {
  const type_field* const root_field = container_field(of, "root_");
  our_tree tree{.of = &of,
                .at = at,
                .keys_are_entries = root_field->name.find("map_entries<") == std::string::npos,
                .leaf_name = {},
                .inner_name = {},
                .leaves = {},
                .inners = {},
                .seen = {}};
  const std::uint64_t size = field_value<std::uint64_t>(of, at, "size_");
  const address root = damaged_image::get(at + root_field->offset);
  if (root == 0 && size == 0 && field_value(of, at, "first_") == 0 && field_value(of, at, "last_") == 0) return "";
  tree.leaf_name = pointee_of(required_field(of, "first_").type_name);
  for (const char* const end : {"first_", "last_"})
    if (tree.leaf == nullptr) (void)is_leaf(tree, field_value(of, at, end));
  constexpr std::uint32_t highest = 40;
  if (root != 0) find_leaves(tree, root, 0, highest);
  if (!tree.is_whole || tree.leaves.empty() || !is_linked(tree)) {
    tree.is_whole = false;
    if (tree.leaf != nullptr) find_more_leaves(tree);
  }
  const std::uint64_t dropped = tree.leaf != nullptr ? drop_entries(tree) : 0;
  std::uint64_t entries = 0;
  for (const address leaf : tree.leaves) entries += field_value<std::uint32_t>(*tree.leaf->of, leaf, "count");
  if (tree.is_whole && dropped == 0) {
    if (entries == size) return "";
    put_field(of, at, "size_", entries);
    return "has " + std::to_string(entries) + " entries, not " + std::to_string(size);
  }
  if (tree.leaves.empty()) {
    empty_tree(tree);
  } else if (!build_inners(tree)) {
    empty_tree(tree);
    return "is empty now: of its " + std::to_string(size) + " entries, " + std::to_string(entries) +
           " were left, which could not be put in order, because their keys are more than numbers, pointers and text, "
           "or "
           "because the database has no room for new nodes";
  }
  return entries_left(entries, size);
}

}  // namespace tenure::rewriting
