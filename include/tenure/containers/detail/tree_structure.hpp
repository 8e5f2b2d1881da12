// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A B+-tree [Comer, "The ubiquitous B-tree", ACM Computing Surveys 11(2), 1979] as a structure: entries at positions,
// splits and merges. The order of keys is in ordered_tree.hpp.
//
// Everything that can throw (memory, constructing the entry, copying a key as a separator) is done before the first
// change. So an insertion that throws has changed nothing. This is also true of erasing, which can throw only if keys
// that may hold references are copied to memory outside of the node. Nodes point to their parents, so an entry at a
// known position is erased without a search, even if many entries have the same key.
//
// A full leaf is split in the middle, except at both ends of the tree, where the old leaf stays full. So sorted input
// makes dense trees. A node that is less than a quarter full is merged with a neighbour if both together fill at most
// three quarters of a node. Entries never move between leaves otherwise, because that needs new separators, and making
// one can fail.
//
// If a key may hold references, a separator is always a copy of the first key behind it. The program may destroy the
// object of an erased key next, and no word in the tree may refer to it then [types.containers.separators].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/relocate.hpp>
#include <tenure/containers/detail/tree_nodes.hpp>
#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/persist.hpp>

namespace tenure::detail {

template <class... T>
struct type_list;

// Entries: the stored type (entry), the type of keys (key_type), key(entry), and separate(room, left, right), which
// constructs a key that is after left and not after right, or equal to both.
template <class Entries, class Memory>
class tree_structure {
 protected:
  using entry_type = typename Entries::entry;
  using key_type = typename Entries::key_type;
  using node = tree_node;
  using leaf = tree_leaf<entry_type>;
  using inner = tree_inner<key_type>;
  using position = tree_iterator<entry_type, false>;

  static_assert(relocates_safely<key_type>::value && relocates_safely<entry_type>::value,
                "keys and values of maps and sets must have move constructors that are noexcept: the tree moves them");
  static_assert(std::is_copy_constructible_v<key_type>, "keys of maps and sets are copied into the tree's inner nodes");

  tree_structure() noexcept = default;
  tree_structure(tree_structure&& other) noexcept
      : root_(other.root_), first_(other.first_), last_(other.last_), size_(other.size_) {
    other.forget();
  }
  ~tree_structure() {
    if (root_ != nullptr) free_all(root_);
  }

  void exchange(tree_structure& other) noexcept {
    announce_each(*this, other);
    std::swap(root_, other.root_);
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
    std::swap(size_, other.size_);
  }

  [[nodiscard]] position first_position() const noexcept { return {first_, 0}; }
  [[nodiscard]] position end_position() const noexcept { return {last_, last_ == nullptr ? 0 : last_->count}; }
  // The position of a slot that may be behind a leaf's last entry.
  [[nodiscard]] static position normal(leaf* in, std::uint32_t at) noexcept {
    return in != nullptr && at == in->count && in->next != nullptr ? position{in->next, 0} : position{in, at};
  }

  // Inserts the entry that make(entry_type*) constructs, before the entry at `at` of leaf `in`.
  template <class Make>
  position insert_at(leaf* in, std::uint32_t at, Make&& make) {
    if (in == nullptr) return insert_first(make);
    if (in->count == leaf::slots) return split_and_insert(in, at, make);
    // Constructs it in the free slot first. An entry that is constructed in the tree gets memory from the tree's
    // database. And if the constructor throws, nothing has moved yet.
    announce_each(in->entries[in->count], in->count, size_);
    make_in(in->entries + in->count, make);
    rotate_down(in->entries + at, in->entries + in->count);
    ++in->count;
    ++size_;
    return {in, at};
  }

  static constexpr bool erases_safely = !Entries::keys_may_refer || std::is_nothrow_copy_constructible_v<key_type>;

  // Erases `count` entries of one leaf. Returns the position of the entry behind them.
  position erase_at(leaf* in, std::uint32_t at, std::uint32_t count) noexcept(erases_safely) {
    if constexpr (Entries::keys_may_refer) {
      if (at == 0 && in->previous != nullptr && count < in->count) renew_separator(in, in->entries[count]);
    }
    erase_slots(in->entries + at, count, in->entries + in->count);
    announce_each(in->count, size_);
    in->count -= count;
    size_ -= count;
    if (in->count >= leaf::slots / 4 && in->count > 0) return normal(in, at);
    return thin_out(in, at);
  }

  void remove_all() noexcept {
    if (root_ != nullptr) free_all(root_);
    forget();
  }

  node* root_ = nullptr;  // nullptr: empty
  leaf* first_ = nullptr;
  leaf* last_ = nullptr;
  std::uint64_t size_ = 0;

 public:
  static constexpr auto persistent =
      members<&tree_structure::root_, &tree_structure::first_, &tree_structure::last_, &tree_structure::size_>{};
  using allocated_types = type_list<inner>;

 private:
  // The nodes of both kinds that a split needs. They are freed if the split does not happen.
  class spare_nodes {
   public:
    spare_nodes(const leaf* full, const void* near) : leaf_(1, near) {
      try {
        const node* up = full->parent;
        for (; up != nullptr && up->count == inner::slots; up = up->parent) add(near);
        if (up == nullptr) add(near);  // a new root
      } catch (...) {
        drop();
        throw;
      }
    }
    spare_nodes(const spare_nodes&) = delete;
    spare_nodes& operator=(const spare_nodes&) = delete;
    ~spare_nodes() { drop(); }

    [[nodiscard]] leaf* new_leaf() const noexcept { return leaf_.get(); }
    leaf* take_leaf() noexcept { return leaf_.release(); }
    [[nodiscard]] inner* lowest() const noexcept { return inners_[0]; }
    inner* take_inner() noexcept { return std::exchange(inners_[taken_++], nullptr); }

   private:
    void add(const void* near) { inners_[count_++] = Memory::template allocate<inner>(1, near); }
    void drop() noexcept {
      for (std::size_t i = taken_; i < count_; ++i) Memory::template deallocate<inner>(inners_[i], 1);
    }

    fresh_memory<leaf, Memory> leaf_;
    std::array<inner*, 40> inners_{};  // every inner node has at least two children when it is made
    std::size_t count_ = 0, taken_ = 0;
  };

  void forget() noexcept {
    announce_each(*this);
    root_ = nullptr;
    first_ = last_ = nullptr;
    size_ = 0;
  }

  template <class Make>
  position insert_first(Make& make) {
    fresh_memory<leaf, Memory> fresh{1, this};
    make(fresh.get()->entries);
    announce_each(*this);
    root_ = first_ = last_ = fresh.release();
    first_->count = 1;
    size_ = 1;
    return {first_, 0};
  }

  // --- Splitting ---

  static inner* as_inner(node* n) noexcept { return static_cast<inner*>(n); }

  // The index at which a full leaf is cut for a new entry at `at`.
  static std::uint32_t cut_of(const leaf* in, std::uint32_t at) noexcept {
    if (in->next == nullptr && at == leaf::slots) return leaf::slots;
    if (in->previous == nullptr && at == 0) return 0;
    return leaf::slots / 2;
  }

  template <class Make>
  [[gnu::noinline]] position split_and_insert(leaf* left, std::uint32_t at, Make& make) {
    spare_nodes spares{left, this};
    const std::uint32_t cut = cut_of(left, at);
    const bool goes_right = cut == leaf::slots || at > cut;

    // All steps that can throw. The new entry and the separator are constructed in slots that are free for the moment.
    entry_type* made = spares.new_leaf()->entries + leaf::slots - 1;
    make_in(made, make);
    const entry_type& before_cut = cut == 0 || (at == cut && !goes_right) ? *made : left->entries[cut - 1];
    const entry_type& behind_cut = cut == leaf::slots ? *made : left->entries[cut];
    key_type* separator = free_separator(left, spares);
    announce(separator, 1);
    try {
      make_in(separator, [&](key_type* room) {
        Entries::separate(room, Entries::key_of(before_cut), Entries::key_of(behind_cut));
      });
    } catch (...) {
      destroy_slots(made, 1);
      throw;
    }

    parked<entry_type> element{made};
    parked<key_type> up{separator};
    leaf* right = spares.take_leaf();
    relocate_away(right->entries, left->entries + cut, leaf::slots - cut);
    announced_set(left->count, cut);
    right->count = leaf::slots - cut;
    link_behind(left, right);
    leaf* in = goes_right ? right : left;
    const std::uint32_t place = goes_right ? at - cut : at;
    announce(in->entries + place, in->count - place + 1);
    element.put_before(in->entries + place, in->entries + in->count);
    announce_each(in->count, size_);
    ++in->count;
    ++size_;
    link_child(left, up, right, spares);
    return {in, place};
  }

  static key_type* free_separator(const leaf* full, const spare_nodes& spares) noexcept {
    inner* parent = as_inner(full->parent);
    if (parent != nullptr && parent->count < inner::slots) return parent->separators + parent->count;
    return spares.lowest()->separators;
  }

  void link_behind(leaf* left, leaf* right) noexcept {
    right->previous = left;
    right->next = left->next;
    announced_set(left->next != nullptr ? left->next->previous : last_, right);
    announced_set(left->next, right);
  }

  static std::uint32_t index_in_parent(const node* child) noexcept {
    inner* parent = as_inner(child->parent);
    std::uint32_t i = 0;
    while (parent->children[i] != child) ++i;
    return i;
  }

  // Puts `right`, with the separator before it, next to `left` in its parent. Splits parents as needed.
  void link_child(node* left, parked<key_type>& separator, node* right, spare_nodes& spares) noexcept {
    const bool at_end = right->level == 0 && static_cast<leaf*>(right)->next == nullptr;
    while (left->parent != nullptr) {
      inner* parent = as_inner(left->parent);
      const std::uint32_t i = index_in_parent(left);
      if (parent->count < inner::slots) return add_child(parent, i, separator, right);
      inner* fresh = spares.take_inner();
      split_inner(parent, i, at_end ? inner::slots - 1 : inner::slots / 2, separator, right, fresh);
      left = parent;
      right = fresh;
    }
    inner* top = spares.take_inner();
    top->level = left->level + 1;
    top->count = 1;
    separator.put(top->separators);
    top->children[0] = left;
    top->children[1] = right;
    announced_set(left->parent, top);
    announced_set(right->parent, top);
    announced_set(root_, top);
  }

  static void add_child(inner* parent, std::uint32_t i, parked<key_type>& separator, node* child) noexcept {
    announce(parent->separators + i, parent->count - i + 1);
    separator.put_before(parent->separators + i, parent->separators + parent->count);
    relocate(parent->children + i + 2, parent->children + i + 1, parent->count - i);
    announced_set(parent->children[i + 1], child);
    announced_set(child->parent, parent);
    announced_set(parent->count, parent->count + 1);
  }

  // Splits a full node that gets `separator` and `child` behind its child `i`. Returns the separator between the halves
  // in `separator`.
  static void split_inner(inner* left, std::uint32_t i, std::uint32_t cut, parked<key_type>& separator, node* child,
                          inner* right) noexcept {
    right->level = left->level;
    if (i == cut) {  // the new separator is between the halves, and the new child is the first on the right
      move_tail(left, cut, cut + 1, right, 1);
      right->children[0] = child;
      announced_set(child->parent, right);
      return;
    }
    const std::uint32_t between = i < cut ? cut - 1 : cut;
    announce_each(left->separators[between], left->count);
    parked<key_type> middle{left->separators + between};
    move_tail(left, between + 1, between + 1, right, 0);
    left->count = between;
    if (i < cut)
      add_child(left, i, separator, child);
    else
      add_child(right, i - between - 1, separator, child);
    separator.take(middle);
  }

  // Moves separators from `separator` on, and children from `first_child` on, to an empty node.
  static void move_tail(inner* from, std::uint32_t separator, std::uint32_t first_child, inner* to,
                        std::uint32_t to_child) noexcept {
    const std::uint32_t separators = inner::slots - separator, children = inner::slots + 1 - first_child;
    relocate_away(to->separators, from->separators + separator, separators);
    relocate_away(to->children + to_child, from->children + first_child, children);
    for (std::uint32_t i = 0; i < children; ++i) announced_set(to->children[to_child + i]->parent, to);
    to->count = separators;
    announced_set(from->count, separator);
  }

  // --- Merging ---

  [[gnu::noinline]] position thin_out(leaf* in, std::uint32_t at) noexcept {
    if (in->count == 0) {
      leaf* next = in->next;
      unlink(in);
      remove_child(in);
      return next != nullptr ? position{next, 0} : end_position();
    }
    if (in->parent == nullptr) return normal(in, at);
    const std::uint32_t i = index_in_parent(in);
    inner* parent = as_inner(in->parent);
    if (i < parent->count) {
      if (merge_leaves(in, static_cast<leaf*>(parent->children[i + 1]))) return normal(in, at);
    }
    if (i > 0) {
      auto* left = static_cast<leaf*>(parent->children[i - 1]);
      const std::uint32_t offset = left->count;
      if (merge_leaves(left, in)) return normal(left, offset + at);
    }
    return normal(in, at);
  }

  bool merge_leaves(leaf* left, leaf* right) noexcept {
    if (left->count + right->count > leaf::slots - leaf::slots / 4) return false;
    relocate_away(left->entries + left->count, right->entries, right->count);
    announced_set(left->count, left->count + right->count);
    unlink(right);
    remove_child(right);
    return true;
  }

  void unlink(leaf* in) noexcept {
    announced_set(in->previous != nullptr ? in->previous->next : first_, in->next);
    announced_set(in->next != nullptr ? in->next->previous : last_, in->previous);
  }

  // Removes an empty node from its parent, with the separator before it (for the first child: the one behind it).
  void remove_child(node* child) noexcept {
    inner* parent = as_inner(child->parent);
    if (parent == nullptr) {
      announced_set(root_, nullptr);
      return free_node(child);
    }
    const std::uint32_t i = index_in_parent(child);
    free_node(child);
    if (parent->count == 0) {
      announced_set(parent->children[0], nullptr);
      return remove_child(parent);
    }
    const std::uint32_t separator = i > 0 ? i - 1 : 0;
    if (key_type* const above = i == 0 && Entries::keys_may_refer ? separator_before(parent) : nullptr) {
      destroy_elements(above, 1);  // the child behind it is gone, so it is the second child now
      relocate_one(above, parent->separators);
    } else {
      destroy_elements(parent->separators + separator, 1);
    }
    close_child(parent, separator, i);
    thin_out_inner(parent);
  }

  // The separator between the keys of a node and those before it; nullptr if no keys are before it.
  static key_type* separator_before(const node* n) noexcept {
    for (; n->parent != nullptr; n = n->parent)
      if (const std::uint32_t i = index_in_parent(n); i > 0) return as_inner(n->parent)->separators + i - 1;
    return nullptr;
  }

  // Called when `first` is about to become the first entry of the leaf.
  void renew_separator(const leaf* in, const entry_type& first) noexcept(erases_safely) {
    key_type* const separator = separator_before(in);
    announce(separator, 1);
    if constexpr (std::is_nothrow_copy_constructible_v<key_type>) {
      std::destroy_at(separator);
      std::construct_at(separator, Entries::key_of(first));
    } else {
      // Made in memory of the tree's database, so that its own memory is in the same database.
      fresh_memory<inner, Memory> fresh{1, this};
      key_type* const made = fresh.get()->separators;
      make_in(made, [&](key_type* room) { std::construct_at(room, Entries::key_of(first)); });
      std::destroy_at(separator);
      relocate_unheard(separator, made);
    }
  }

  static void close_child(inner* parent, std::uint32_t separator, std::uint32_t child) noexcept {
    close_gap(parent->separators + separator, 1, parent->separators + parent->count);
    close_gap(parent->children + child, 1, parent->children + parent->count + 1);
    announced_set(parent->count, parent->count - 1);
  }

  void thin_out_inner(inner* in) noexcept {
    if (in->parent == nullptr) {
      while (root_->level > 0 && root_->count == 0) {
        node* old = root_;
        announced_set(root_, as_inner(old)->children[0]);
        announced_set(root_->parent, nullptr);
        free_node(old);
      }
      return;
    }
    if (in->count + 1 >= inner::slots / 4) return;
    const std::uint32_t i = index_in_parent(in);
    inner* parent = as_inner(in->parent);
    if (i < parent->count && merge_inners(in, i, as_inner(parent->children[i + 1]))) return;
    if (i > 0) merge_inners(as_inner(parent->children[i - 1]), i - 1, in);
  }

  // `separator`: the index of the separator between the two nodes.
  bool merge_inners(inner* left, std::uint32_t separator, inner* right) noexcept {
    if (left->count + right->count + 2 > inner::slots - inner::slots / 4) return false;
    inner* parent = as_inner(left->parent);
    relocate_one(left->separators + left->count, parent->separators + separator);
    relocate(left->separators + left->count + 1, right->separators, right->count);
    relocate(left->children + left->count + 1, right->children, right->count + 1);
    for (std::uint32_t i = 0; i <= right->count; ++i) announced_set(right->children[i]->parent, left);
    announced_set(left->count, left->count + right->count + 1);
    free_node(right);
    close_child(parent, separator, separator + 1);
    thin_out_inner(parent);
    return true;
  }

  // --- Memory ---

  static void free_node(node* n) noexcept {
    if (n->level == 0)
      Memory::template deallocate<leaf>(static_cast<leaf*>(n), 1);
    else
      Memory::template deallocate<inner>(as_inner(n), 1);
  }

  static void free_all(node* n) noexcept {
    if (n->level == 0) {
      destroy_elements(static_cast<leaf*>(n)->entries, n->count);
    } else {
      inner* in = as_inner(n);
      for (std::uint32_t i = 0; i <= in->count; ++i) free_all(in->children[i]);
      destroy_elements(in->separators, in->count);
    }
    free_node(n);
  }
};

}  // namespace tenure::detail
