// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The nodes of the B+-tree under maps and sets, and the iterator over its leaves.
//
// A node is never constructed. Its memory comes zeroed, and entries are constructed in its slots. Slots from `count` on
// are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/persist.hpp>

namespace tenure::detail {

// The size of a node without its header in the heap (8 bytes). Large nodes make lookups fast. Small nodes make
// insertions fast, which shift and log half a leaf. If entries are larger than a quarter of this size, nodes are
// larger.
inline constexpr std::size_t tree_node_bytes = 1024 - 8;
inline constexpr std::size_t tree_least_slots = 4;

struct tree_node {
  tree_node* parent;    // an inner node; nullptr: this is the root
  std::uint32_t count;  // leaf: entries. Inner node: separators, one less than children
  std::uint32_t level;  // 0: leaf; the children of a node are one level below it
};

template <class Entry>
struct tree_leaf : tree_node {
  static constexpr std::uint32_t slots =
      std::max(tree_least_slots, (tree_node_bytes - sizeof(tree_node) - 2 * sizeof(void*)) / sizeof(Entry));

  tree_leaf() = delete;
  ~tree_leaf() = delete;

  tree_leaf* previous;
  tree_leaf* next;
  union {
    Entry entries[slots];
  };

  static constexpr auto persistent = bases<tree_node>{} +
                                     members<&tree_leaf::previous, &tree_leaf::next, &tree_leaf::entries>{} +
                                     rest_is_data{};  // what is before entries with a large alignment
};

// Keys in children[i] are before separators[i]; in trees with equal keys they may also be equal to it. Keys in
// children[i + 1] are not before separators[i].
template <class Key>
struct tree_inner : tree_node {
  static constexpr std::uint32_t slots =
      std::max(tree_least_slots, (tree_node_bytes - sizeof(tree_node) - sizeof(void*)) / (sizeof(Key) + sizeof(void*)));

  tree_inner() = delete;
  ~tree_inner() = delete;

  union {
    Key separators[slots];
  };
  tree_node* children[slots + 1];

  static constexpr auto persistent =
      bases<tree_node>{} + members<&tree_inner::separators, &tree_inner::children>{} + rest_is_data{};
};

// Of `count` values, the first ones fulfil a condition, and the rest do not. Returns the number of those that do. It
// has no branches if the condition is cheap.
template <class Condition>
std::uint32_t partition_point(std::uint32_t count, Condition holds) {
  std::uint32_t first = 0;
  while (count > 1) {
    const std::uint32_t half = count / 2;
    first += static_cast<std::uint32_t>(holds(first + half - 1)) * half;
    count -= half;
  }
  return first + static_cast<std::uint32_t>(count == 1 && holds(first));
}

// The end is the slot behind the last entry of the last leaf. No other position is behind a leaf's last entry.
template <class Entry, bool Const>
class tree_iterator {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = Entry;
  using difference_type = std::ptrdiff_t;
  using reference = std::conditional_t<Const, const Entry&, Entry&>;
  using pointer = std::conditional_t<Const, const Entry*, Entry*>;

  tree_iterator() noexcept = default;
  tree_iterator(tree_leaf<Entry>* leaf, std::uint32_t at) noexcept : leaf_(leaf), at_(at) {}
  template <bool Other>
  requires(Const && !Other) tree_iterator(const tree_iterator<Entry, Other>& other)
  noexcept : leaf_(other.leaf()), at_(other.at()) {}

  [[nodiscard]] reference operator*() const noexcept { return leaf_->entries[at_]; }
  [[nodiscard]] pointer operator->() const noexcept { return leaf_->entries + at_; }
  tree_iterator& operator++() noexcept {
    if (++at_ == leaf_->count && leaf_->next != nullptr) {
      leaf_ = leaf_->next;
      at_ = 0;
    }
    return *this;
  }
  tree_iterator& operator--() noexcept {
    if (at_ == 0) {
      leaf_ = leaf_->previous;
      at_ = leaf_->count;
    }
    --at_;
    return *this;
  }
  tree_iterator operator++(int) noexcept {
    tree_iterator old = *this;
    ++*this;
    return old;
  }
  tree_iterator operator--(int) noexcept {
    tree_iterator old = *this;
    --*this;
    return old;
  }
  friend bool operator==(const tree_iterator&, const tree_iterator&) noexcept = default;

  [[nodiscard]] tree_leaf<Entry>* leaf() const noexcept { return leaf_; }
  [[nodiscard]] std::uint32_t at() const noexcept { return at_; }

 private:
  tree_leaf<Entry>* leaf_ = nullptr;
  std::uint32_t at_ = 0;
};

}  // namespace tenure::detail
