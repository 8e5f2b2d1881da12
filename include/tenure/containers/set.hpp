// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::set and tenure::multiset: the interface of std::set and std::multiset on the B+-tree of map.hpp. All that
// map.hpp says applies here, too. In a multiset, equivalent keys are in the order of their insertion.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/ordered_tree.hpp>
#include <tenure/containers/detail/tree_check.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/error.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure {

template <class K, class Compare = less<K>, class Memory = heap_memory>
class set : public detail::ordered_tree<detail::set_entries<K, Compare>, Compare, Memory, true> {
  using tree = detail::ordered_tree<detail::set_entries<K, Compare>, Compare, Memory, true>;

 public:
  using value_compare = Compare;
  using relocatable = set;
  static constexpr auto persistent = bases<tree>{};
  using typename tree::const_iterator;
  using typename tree::iterator;

  set() noexcept = default;
  template <std::input_iterator I>
  set(I first, I last) {
    insert(first, last);
  }
  set(std::initializer_list<K> keys) : set(keys.begin(), keys.end()) {}
  set(const set& other) : set(other.begin(), other.end()) {}
  set(set&& other) noexcept = default;
  ~set() = default;

  set& operator=(const set& other) {
    if (this != &other) {
      this->clear();
      insert(other.begin(), other.end());
    }
    return *this;
  }
  // The keys stay where they are, in whatever database that is.
  set& operator=(set&& other) noexcept {
    set moved(std::move(other));
    swap(moved);
    return *this;
  }
  set& operator=(std::initializer_list<K> keys) {
    this->clear();
    insert(keys);
    return *this;
  }
  void swap(set& other) noexcept { this->exchange(other); }
  friend void swap(set& a, set& b) noexcept { a.swap(b); }
  [[nodiscard]] value_compare value_comp() const { return Compare{}; }

  std::pair<iterator, bool> insert(const K& key) { return make_unless_taken(this->place_for(key), key); }
  std::pair<iterator, bool> insert(K&& key) { return make_unless_taken(this->place_for(key), std::move(key)); }
  template <class Q>
  requires detail::transparent<Compare> && std::constructible_from<K, const Q&> std::pair<iterator, bool> insert(
      const Q& key) {
    return make_unless_taken(this->place_for(key), key);
  }
  iterator insert(const_iterator hint, const K& key) {
    return make_unless_taken(this->place_for(hint, key), key).first;
  }
  iterator insert(const_iterator hint, K&& key) {
    return make_unless_taken(this->place_for(hint, key), std::move(key)).first;
  }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) emplace_hint(this->end(), *first);
  }
  void insert(std::initializer_list<K> keys) { insert(keys.begin(), keys.end()); }
  template <class... A>
  std::pair<iterator, bool> emplace(A&&... arguments) {
    return insert(K(std::forward<A>(arguments)...));
  }
  template <class... A>
  iterator emplace_hint(const_iterator hint, A&&... arguments) {
    if constexpr (sizeof...(A) == 1 && (std::is_same_v<std::remove_cvref_t<A>, K> && ...))
      return insert(hint, std::forward<A>(arguments)...);
    else
      return insert(hint, K(std::forward<A>(arguments)...));
  }

 private:
  template <class Q>
  std::pair<iterator, bool> make_unless_taken(const typename tree::place& where, Q&& key) {
    if (where.taken) return {iterator(where.in, where.at), false};
    return {this->insert_in(where, [&](K* room) { std::construct_at(room, std::forward<Q>(key)); }), true};
  }
};

template <class K, class Compare = less<K>, class Memory = heap_memory>
class multiset : public detail::ordered_tree<detail::set_entries<K, Compare>, Compare, Memory, false> {
  using tree = detail::ordered_tree<detail::set_entries<K, Compare>, Compare, Memory, false>;

 public:
  using value_compare = Compare;
  using relocatable = multiset;
  static constexpr auto persistent = bases<tree>{};
  using typename tree::const_iterator;
  using typename tree::iterator;

  multiset() noexcept = default;
  template <std::input_iterator I>
  multiset(I first, I last) {
    insert(first, last);
  }
  multiset(std::initializer_list<K> keys) : multiset(keys.begin(), keys.end()) {}
  multiset(const multiset& other) : multiset(other.begin(), other.end()) {}
  multiset(multiset&& other) noexcept = default;
  ~multiset() = default;

  multiset& operator=(const multiset& other) {
    if (this != &other) {
      this->clear();
      insert(other.begin(), other.end());
    }
    return *this;
  }
  // The keys stay where they are, in whatever database that is.
  multiset& operator=(multiset&& other) noexcept {
    multiset moved(std::move(other));
    swap(moved);
    return *this;
  }
  multiset& operator=(std::initializer_list<K> keys) {
    this->clear();
    insert(keys);
    return *this;
  }
  void swap(multiset& other) noexcept { this->exchange(other); }
  friend void swap(multiset& a, multiset& b) noexcept { a.swap(b); }
  [[nodiscard]] value_compare value_comp() const { return Compare{}; }

  iterator insert(const K& key) { return make(this->place_for(key), key); }
  iterator insert(K&& key) { return make(this->place_for(key), std::move(key)); }
  template <class Q>
  requires detail::transparent<Compare> && std::constructible_from<K, const Q&> iterator insert(const Q& key) {
    return make(this->place_for(key), key);
  }
  iterator insert(const_iterator hint, const K& key) { return make(this->place_for(hint, key), key); }
  iterator insert(const_iterator hint, K&& key) { return make(this->place_for(hint, key), std::move(key)); }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) emplace_hint(this->end(), *first);
  }
  void insert(std::initializer_list<K> keys) { insert(keys.begin(), keys.end()); }
  template <class... A>
  iterator emplace(A&&... arguments) {
    return insert(K(std::forward<A>(arguments)...));
  }
  template <class... A>
  iterator emplace_hint(const_iterator hint, A&&... arguments) {
    if constexpr (sizeof...(A) == 1 && (std::is_same_v<std::remove_cvref_t<A>, K> && ...))
      return insert(hint, std::forward<A>(arguments)...);
    else
      return insert(hint, K(std::forward<A>(arguments)...));
  }

 private:
  template <class Q>
  iterator make(const typename tree::place& where, Q&& key) {
    return this->insert_in(where, [&](K* room) { std::construct_at(room, std::forward<Q>(key)); });
  }
};

template <class K, class Compare, class Memory, class Predicate>
std::size_t erase_if(set<K, Compare, Memory>& from, Predicate predicate) {
  return detail::erase_entries_if(from, predicate);
}
template <class K, class Compare, class Memory, class Predicate>
std::size_t erase_if(multiset<K, Compare, Memory>& from, Predicate predicate) {
  return detail::erase_entries_if(from, predicate);
}

}  // namespace tenure
