// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::ordered_index: the values that have a key, as an index of objects by a field that many of them share. It
// holds (key, value) pairs, each once, in the order of keys, and of values if the keys are equal. So any pair is found
// and erased in O(log n), even if its key has many values. (A multimap keeps the order of insertion, and must search
// the values of a key one by one.) It is on the B+-tree of map.hpp. All that map.hpp says applies here, too.
//
//     tenure::ordered_index<date, part*> by_date;
//     by_date.insert(p->built, p);
//     for (auto [i, last] = by_date.equal_range(today); i != last; ++i) use(i->second);
//     by_date.erase(p->built, p);
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/ordered_tree.hpp>
#include <tenure/containers/detail/tree_check.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/error.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure {

namespace detail {

// The query of a lookup in an index: all pairs with a key, or one pair.
template <class Q>
struct any_value_of {
  const Q& key;
};
template <class Q, class V>
struct one_value_of {
  const Q& key;
  const V& value;
};

template <class K, class V, class Compare>
struct index_order {
  using is_transparent = void;
  using entry = std::pair<K, V>;

  bool operator()(const entry& a, const entry& b) const { return before(a.first, a.second, b.first, b.second); }
  template <class Q>
  bool operator()(const entry& a, const any_value_of<Q>& b) const {
    return Compare{}(a.first, b.key);
  }
  template <class Q>
  bool operator()(const any_value_of<Q>& a, const entry& b) const {
    return Compare{}(a.key, b.first);
  }
  template <class Q>
  bool operator()(const entry& a, const one_value_of<Q, V>& b) const {
    return before(a.first, a.second, b.key, b.value);
  }
  template <class Q>
  bool operator()(const one_value_of<Q, V>& a, const entry& b) const {
    return before(a.key, a.value, b.first, b.second);
  }

 private:
  template <class A, class B>
  static bool before(const A& a, const V& of_a, const B& b, const V& of_b) {
    if (Compare{}(a, b)) return true;
    return !Compare{}(b, a) && less<V>{}(of_a, of_b);
  }
};

}  // namespace detail

template <class K, class V, class Compare = less<K>, class Memory = heap_memory>
class ordered_index
    : public detail::ordered_tree<detail::set_entries<std::pair<K, V>, detail::index_order<K, V, Compare>>,
                                  detail::index_order<K, V, Compare>, Memory, true> {
  using order = detail::index_order<K, V, Compare>;
  using tree = detail::ordered_tree<detail::set_entries<std::pair<K, V>, order>, order, Memory, true>;
  template <class Q>
  using query_for = typename detail::query<detail::transparent<Compare>>::template type<Q, K>;

 public:
  using key_type = K;
  using mapped_type = V;
  using key_compare = Compare;
  using relocatable = ordered_index;
  static constexpr auto persistent = bases<tree>{};
  using typename tree::const_iterator;
  using typename tree::iterator;
  using typename tree::size_type;

  ordered_index() noexcept = default;
  ordered_index(const ordered_index& other) { add_all(other); }
  ordered_index(ordered_index&& other) noexcept = default;
  ~ordered_index() = default;
  ordered_index& operator=(const ordered_index& other) {
    if (this != &other) {
      this->clear();
      add_all(other);
    }
    return *this;
  }
  // The entries do not move, even if they are in another database.
  ordered_index& operator=(ordered_index&& other) noexcept {
    ordered_index moved(std::move(other));
    swap(moved);
    return *this;
  }
  void swap(ordered_index& other) noexcept { this->exchange(other); }
  friend void swap(ordered_index& a, ordered_index& b) noexcept { a.swap(b); }
  [[nodiscard]] key_compare key_comp() const { return Compare{}; }

  // Returns whether the pair is new.
  template <class Q = K>
  bool insert(const query_for<Q>& key, const V& value) {
    decltype(auto) asked = detail::prepared<Compare>(key);
    const auto where = this->place_for(pair_of(asked, value));
    if (where.taken) return false;
    this->insert_in(where, [&](std::pair<K, V>* room) {
      std::construct_at(room, std::piecewise_construct, std::forward_as_tuple(key), std::forward_as_tuple(value));
    });
    return true;
  }
  // Returns whether the pair was in the index.
  template <class Q = K>
  bool erase(const query_for<Q>& key, const V& value) {
    const auto found = find<Q>(key, value);
    if (found == this->end()) return false;
    tree::erase(found);
    return true;
  }
  // Erases all pairs with this key. Returns their number.
  template <class Q = K>
  size_type erase(const query_for<Q>& key) {
    decltype(auto) asked = detail::prepared<Compare>(key);
    return tree::erase(all_of(asked));
  }
  iterator erase(const_iterator at) noexcept(tree::erases_safely) { return tree::erase(at); }
  iterator erase(const_iterator first, const_iterator last) noexcept(tree::erases_safely) {
    return tree::erase(first, last);
  }

  template <class Q = K>
  [[nodiscard]] const_iterator find(const query_for<Q>& key, const V& value) const {
    decltype(auto) asked = detail::prepared<Compare>(key);
    return tree::find(pair_of(asked, value));
  }
  template <class Q = K>
  [[nodiscard]] bool contains(const query_for<Q>& key, const V& value) const {
    return find<Q>(key, value) != this->end();
  }
  // The first pair with this key.
  template <class Q = K>
  [[nodiscard]] const_iterator find(const query_for<Q>& key) const {
    const auto [first, last] = equal_range<Q>(key);
    return first == last ? this->end() : first;
  }
  template <class Q = K>
  [[nodiscard]] bool contains(const query_for<Q>& key) const {
    return find<Q>(key) != this->end();
  }
  template <class Q = K>
  [[nodiscard]] size_type count(const query_for<Q>& key) const {
    decltype(auto) asked = detail::prepared<Compare>(key);
    return tree::count(all_of(asked));
  }
  template <class Q = K>
  [[nodiscard]] const_iterator lower_bound(const query_for<Q>& key) const {
    decltype(auto) asked = detail::prepared<Compare>(key);
    return tree::lower_bound(all_of(asked));
  }
  template <class Q = K>
  [[nodiscard]] const_iterator upper_bound(const query_for<Q>& key) const {
    decltype(auto) asked = detail::prepared<Compare>(key);
    return tree::upper_bound(all_of(asked));
  }
  template <class Q = K>
  [[nodiscard]] std::pair<const_iterator, const_iterator> equal_range(const query_for<Q>& key) const {
    return {lower_bound<Q>(key), upper_bound<Q>(key)};
  }

 private:
  template <class Q>
  static detail::any_value_of<Q> all_of(const Q& key) noexcept {
    return {key};
  }
  template <class Q>
  static detail::one_value_of<Q, V> pair_of(const Q& key, const V& value) noexcept {
    return {key, value};
  }
  void add_all(const ordered_index& other) {
    for (const auto& entry : other)
      this->insert_in(this->place_for(this->end(), entry),
                      [&](std::pair<K, V>* room) { std::construct_at(room, entry); });
  }
};

}  // namespace tenure
