// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An ordered map over any memory (see sequences.hpp): a B+-tree whose leaves are linked. Equal keys lie in the order of
// their insertion. A leaf that has become empty stays: what these benchmarks erase they insert again.
//
// Invariant: keys[i] of an inner node is at least every key below child[i] and at most every key below child[i+1].
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

namespace tenure::bench {

template <class M, class K, class V, bool Multi>
class memory_btree {
 public:
  memory_btree() = default;
  ~memory_btree() {
    if (root_) release(*root_);
  }
  memory_btree(const memory_btree&) = delete;
  memory_btree& operator=(const memory_btree&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }

  // Calls f(key, value) in order from the first key that is not less than `from`, until f returns false.
  template <class F>
  void scan(const K& from, F&& f) const {
    const leaf* at = root_ ? &first_leaf(from) : nullptr;
    std::size_t i = at != nullptr ? lower(*at, from) : 0;
    for (; at != nullptr; at = at->next ? &*at->next : nullptr, i = 0)
      for (; i < at->count; ++i)
        if (!f(at->keys[i], at->values[i])) return;
  }
  // A null pointer if there is none.
  [[nodiscard]] const V* find_value(const K& key) const {
    const V* found = nullptr;
    scan(key, [&](const K& k, const V& v) {
      if (!(key < k)) found = &v;
      return false;
    });
    return found;
  }
  // In a map that is not Multi, the key must be new.
  void insert(const K& key, const V& value) {
    M::writing(this, sizeof *this);
    if (!root_) root_ = M::template make<leaf>();
    ++size_;
    split_off grown = insert_below(*root_, key, value);
    if (!grown.right) return;
    auto top = M::template make<inner>();
    top->is_leaf = false;
    top->count = 1;
    top->keys[0] = grown.key;
    top->child[0] = root_;
    top->child[1] = grown.right;
    root_ = top;
  }
  // Erases one element with this key, in a Multi map with this value as well.
  bool erase(const K& key, const V& value) {
    leaf* at = root_ ? &first_leaf(key) : nullptr;
    std::size_t i = at != nullptr ? lower(*at, key) : 0;
    for (; at != nullptr; at = at->next ? &*at->next : nullptr, i = 0) {
      for (; i < at->count; ++i) {
        if (key < at->keys[i]) return false;
        if (Multi && !(at->values[i] == value)) continue;
        M::writing(at, sizeof *at);
        std::copy(at->keys.begin() + i + 1, at->keys.begin() + at->count, at->keys.begin() + i);
        std::copy(at->values.begin() + i + 1, at->values.begin() + at->count, at->values.begin() + i);
        --at->count;
        M::writing(this, sizeof *this);
        --size_;
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::size_t fan_out = 32;
  struct node {
    std::uint16_t count = 0;  // keys
    bool is_leaf = true;
    std::array<K, fan_out> keys{};
  };
  struct leaf : node {
    std::array<V, fan_out> values{};
    typename M::template ptr<leaf> next = nullptr;
  };
  struct inner : node {
    std::array<typename M::template ptr<node>, fan_out + 1> child{};
  };
  // What a full node gives to a new right neighbour; no neighbour if it was not full.
  struct split_off {
    K key{};
    typename M::template ptr<node> right = nullptr;
  };

  static std::size_t lower(const node& in, const K& key) {
    return static_cast<std::size_t>(std::lower_bound(in.keys.begin(), in.keys.begin() + in.count, key) -
                                    in.keys.begin());
  }
  static std::size_t upper(const node& in, const K& key) {
    return static_cast<std::size_t>(std::upper_bound(in.keys.begin(), in.keys.begin() + in.count, key) -
                                    in.keys.begin());
  }
  // The leaf where the first key that is not less would be; it may be the first of a later leaf.
  leaf& first_leaf(const K& key) const {
    node* at = &*root_;
    while (!at->is_leaf) at = &*static_cast<inner*>(at)->child[lower(*at, key)];
    return static_cast<leaf&>(*at);
  }

  split_off insert_below(node& where, const K& key, const V& value) {
    return where.is_leaf ? insert_into(static_cast<leaf&>(where), key, value)
                         : insert_into(static_cast<inner&>(where), key, value);
  }
  split_off insert_into(leaf& where, const K& key, const V& value) {
    M::writing(&where, sizeof where);
    split_off grown;
    leaf* target = &where;
    if (where.count == fan_out) {
      auto right = M::template make<leaf>();
      move_tail(where, *right, fan_out / 2);
      std::copy(where.values.begin() + fan_out / 2, where.values.end(), right->values.begin());
      right->next = where.next;
      where.next = right;
      grown = {right->keys[0], right};
      if (!(key < grown.key)) target = &*right;
    }
    const std::size_t i = upper(*target, key);
    shift(target->keys, i, target->count);
    shift(target->values, i, target->count);
    target->keys[i] = key;
    target->values[i] = value;
    ++target->count;
    return grown;
  }
  split_off insert_into(inner& where, const K& key, const V& value) {
    std::size_t i = upper(where, key);
    const split_off below = insert_below(*where.child[i], key, value);
    if (!below.right) return {};
    M::writing(&where, sizeof where);
    split_off grown;
    inner* target = &where;
    if (where.count == fan_out) {
      // The middle key goes up, not right.
      constexpr std::size_t middle = fan_out / 2;
      auto right = M::template make<inner>();
      right->is_leaf = false;
      grown = {where.keys[middle], right};
      move_tail(where, *right, middle + 1);
      std::copy(where.child.begin() + middle + 1, where.child.end(), right->child.begin());
      --where.count;
      if (i > middle) {
        target = &*right;
        i -= middle + 1;
      }
    }
    // Next to the child that was split, not where its key would be sought: others may be equal.
    shift(target->keys, i, target->count);
    shift(target->child, i + 1, target->count + std::size_t{1});
    target->keys[i] = below.key;
    target->child[i + 1] = below.right;
    ++target->count;
    return grown;
  }
  static void move_tail(node& from, node& to, std::size_t first) {
    std::copy(from.keys.begin() + first, from.keys.end(), to.keys.begin());
    to.count = static_cast<std::uint16_t>(fan_out - first);
    from.count = static_cast<std::uint16_t>(first);
  }
  // Makes room at i in the first `count` elements.
  template <class Array>
  static void shift(Array& in, std::size_t i, std::size_t count) {
    std::copy_backward(in.begin() + i, in.begin() + count, in.begin() + count + 1);
  }
  static void release(node& at) {
    if (at.is_leaf) return M::destroy(M::pointer_to(static_cast<leaf&>(at)));
    auto& all = static_cast<inner&>(at);
    for (std::size_t i = 0; i <= all.count; ++i) release(*all.child[i]);
    M::destroy(M::pointer_to(all));
  }

  typename M::template ptr<node> root_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace tenure::bench
