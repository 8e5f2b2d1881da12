// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The invariants of the B+-tree as code, and erasing by condition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenure/containers/detail/errors.hpp>
#include <tenure/containers/detail/ordered_tree.hpp>
#include <tenure/containers/detail/zero_bytes.hpp>

namespace tenure::detail {

inline void tree_invariant(bool holds, const void* node, const char* what) {
  if (!holds) report_damaged_tree(node, what);
}

template <class Entries, class Compare, class Memory, bool Unique>
void ordered_tree<Entries, Compare, Memory, Unique>::check() const {
  const leaf* previous = nullptr;
  std::uint64_t entries = 0;

  auto check_leaf = [&](const leaf* in, const key_type* low, const key_type* high) {
    tree_invariant(in->count > 0 && in->count <= leaf::slots, in, "a leaf has 1 to `slots` entries");
    tree_invariant(in->previous == previous, in, "a leaf knows the one before it");
    tree_invariant((previous == nullptr ? this->first_ : previous->next) == in, in, "the leaves are linked in order");
    tree_invariant(slots_are_zero(in->entries + in->count, leaf::slots - in->count), in, "free slots are zero");
    for (std::uint32_t i = 0; i < in->count; ++i) {
      const key_type& key = key_at(in, i);
      tree_invariant(low == nullptr || !before(key, *low), in, "no key is before the separator on its left");
      tree_invariant(!Entries::keys_may_refer || low == nullptr || i > 0 || !before(*low, key), in,
                     "a separator that may refer to objects is the first key behind it");
      tree_invariant(high == nullptr || (Unique ? before(key, *high) : !before(*high, key)), in,
                     "no key is behind the separator on its right, nor equal to it where keys are unique");
      const key_type* last = i > 0                 ? &key_at(in, i - 1)
                             : previous != nullptr ? &key_at(previous, previous->count - 1)
                                                   : nullptr;
      tree_invariant(last == nullptr || (Unique ? before(*last, key) : !before(key, *last)), in, "keys are in order");
    }
    entries += in->count;
    previous = in;
  };
  auto check_node = [&](const node* n, const key_type* low, const key_type* high, auto& self) -> void {
    if (n->level == 0) return check_leaf(static_cast<const leaf*>(n), low, high);
    const auto* in = static_cast<const inner*>(n);
    tree_invariant(in->count <= inner::slots, in, "an inner node has at most `slots` separators");
    tree_invariant(in->count > 0 || in->parent != nullptr, in, "a root that is no leaf has two children or more");
    tree_invariant(slots_are_zero(in->separators + in->count, inner::slots - in->count), in, "free slots are zero");
    tree_invariant(slots_are_zero(in->children + in->count + 1, inner::slots - in->count), in, "free slots are zero");
    for (std::uint32_t i = 0; i <= in->count; ++i) {
      const node* child = in->children[i];
      tree_invariant(child != nullptr && child->parent == in, in, "children know their parent");
      tree_invariant(child->level + 1 == in->level, in, "children are one level below their parent");
      self(child, i == 0 ? low : in->separators + i - 1, i == in->count ? high : in->separators + i, self);
    }
  };

  if (this->root_ != nullptr) {
    tree_invariant(this->root_->parent == nullptr, this->root_, "the root has no parent");
    check_node(this->root_, nullptr, nullptr, check_node);
    tree_invariant(previous->next == nullptr, previous, "nothing follows the last leaf");
  }
  tree_invariant(this->last_ == previous, this->last_, "the tree knows its last leaf");
  tree_invariant((this->first_ == nullptr) == (previous == nullptr), this->first_, "only an empty tree has no leaf");
  tree_invariant(entries == this->size_, this->root_, "the size is the number of entries");
}

template <class Container, class Predicate>
std::size_t erase_entries_if(Container& from, Predicate& predicate) {
  const std::size_t old = from.size();
  for (auto i = from.begin(); i != from.end();) {
    if (predicate(*i))
      i = from.erase(i);
    else
      ++i;
  }
  return old - from.size();
}

}  // namespace tenure::detail
