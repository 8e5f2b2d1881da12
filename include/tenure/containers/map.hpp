// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::map and tenure::multimap: the interface of std::map and std::multimap on a B+-tree, made for indexes of
// millions of objects. The differences (docs/containers.md):
//
// - Entries move: inserting or erasing an entry invalidates all iterators and references, except the returned iterator.
//   They stay valid as long as nothing is inserted or erased. Assigning to values invalidates nothing.
// - Keys can be copied. Moving keys and values does not throw. The order has no state.
// - Text keys can be looked up by anything that converts to std::string_view, without making a key.
// - A hint does not change where an entry is inserted: hints are for speed only.
//
// Sorted input (end() as the hint, or a range) fills nodes completely and costs O(1) for each entry. In a multimap,
// entries with equal keys are in the order of their insertion.
//
// An insertion that throws has changed nothing. An insertion of a range keeps the part that was done before. Erasing
// does not throw. The functions throw std::out_of_range (at()), exceptions of keys and values, and, if memory is
// needed, those of the memory policy (heap_memory.hpp). Thread-safety is as for std::map.
#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/ordered_tree.hpp>
#include <tenure/containers/detail/tree_check.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/error.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure {

template <class K, class V, class Compare = less<K>, class Memory = heap_memory>
class map : public detail::ordered_tree<detail::map_entries<K, V, Compare>, Compare, Memory, true> {
  using tree = detail::ordered_tree<detail::map_entries<K, V, Compare>, Compare, Memory, true>;
  template <class Q>
  using query_for = typename detail::query<detail::transparent<Compare>>::template type<Q, K>;

 public:
  using mapped_type = V;
  using relocatable = map;
  static constexpr auto persistent = bases<tree>{};
  using typename tree::const_iterator;
  using typename tree::iterator;
  using typename tree::key_type;
  using typename tree::value_type;

  map() noexcept = default;
  template <std::input_iterator I>
  map(I first, I last) {
    insert(first, last);
  }
  map(std::initializer_list<value_type> entries) : map(entries.begin(), entries.end()) {}
  map(const map& other) : map(other.begin(), other.end()) {}
  map(map&& other) noexcept = default;
  ~map() = default;

  map& operator=(const map& other) {
    if (this != &other) {
      this->clear();
      insert(other.begin(), other.end());
    }
    return *this;
  }
  // The entries stay where they are, in whatever database that is.
  map& operator=(map&& other) noexcept {
    map moved(std::move(other));
    swap(moved);
    return *this;
  }
  map& operator=(std::initializer_list<value_type> entries) {
    this->clear();
    insert(entries);
    return *this;
  }
  void swap(map& other) noexcept { this->exchange(other); }
  friend void swap(map& a, map& b) noexcept { a.swap(b); }

  V& operator[](const K& key) { return try_emplace(key).first->second; }
  V& operator[](K&& key) { return try_emplace(std::move(key)).first->second; }
  template <class Q>
  requires detail::transparent<Compare> && std::constructible_from<K, const Q&> V& operator[](const Q& key) {
    return try_emplace(key).first->second;
  }
  template <class Q = K>
  [[nodiscard]] V& at(const query_for<Q>& key) {
    return const_cast<V&>(std::as_const(*this).template at<Q>(key));
  }
  template <class Q = K>
  [[nodiscard]] const V& at(const query_for<Q>& key) const {
    auto found = this->template find<Q>(key);
    if (found == this->end()) throw std::out_of_range("tenure::map::at: there is no such key");
    return found->second;
  }

  // Makes the key from `key`, and the value from the arguments, only if the key is new.
  template <class... A>
  std::pair<iterator, bool> try_emplace(const K& key, A&&... arguments) {
    return make_unless_taken(this->place_for(key), key, std::forward<A>(arguments)...);
  }
  template <class... A>
  std::pair<iterator, bool> try_emplace(K&& key, A&&... arguments) {
    return make_unless_taken(this->place_for(key), std::move(key), std::forward<A>(arguments)...);
  }
  template <class Q, class... A>
  requires detail::transparent<Compare> && std::constructible_from<K, const Q&> &&
      (!std::convertible_to<const Q&, const_iterator>)std::pair<iterator, bool> try_emplace(const Q& key,
                                                                                            A&&... arguments) {
    return make_unless_taken(this->place_for(key), key, std::forward<A>(arguments)...);
  }
  template <class... A>
  iterator try_emplace(const_iterator hint, const K& key, A&&... arguments) {
    return make_unless_taken(this->place_for(hint, key), key, std::forward<A>(arguments)...).first;
  }
  template <class... A>
  iterator try_emplace(const_iterator hint, K&& key, A&&... arguments) {
    return make_unless_taken(this->place_for(hint, key), std::move(key), std::forward<A>(arguments)...).first;
  }

  template <class U>
  std::pair<iterator, bool> insert_or_assign(const K& key, U&& value) {
    return assigned(try_emplace(key, std::forward<U>(value)), std::forward<U>(value));
  }
  template <class U>
  std::pair<iterator, bool> insert_or_assign(K&& key, U&& value) {
    return assigned(try_emplace(std::move(key), std::forward<U>(value)), std::forward<U>(value));
  }
  template <class Q, class U>
  requires detail::transparent<Compare> && std::constructible_from<K, const Q&> std::pair<iterator, bool>
  insert_or_assign(const Q& key, U&& value) {
    return assigned(try_emplace(key, std::forward<U>(value)), std::forward<U>(value));
  }

  std::pair<iterator, bool> insert(const value_type& entry) { return try_emplace(entry.first, entry.second); }
  std::pair<iterator, bool> insert(value_type&& entry) { return try_emplace(entry.first, std::move(entry.second)); }
  template <class P>
  requires std::constructible_from<std::pair<K, V>, P &&> std::pair<iterator, bool> insert(P&& entry) {
    return emplace(std::forward<P>(entry));
  }
  iterator insert(const_iterator hint, const value_type& entry) { return try_emplace(hint, entry.first, entry.second); }
  iterator insert(const_iterator hint, value_type&& entry) {
    return try_emplace(hint, entry.first, std::move(entry.second));
  }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) emplace_hint(this->end(), *first);
  }
  void insert(std::initializer_list<value_type> entries) { insert(entries.begin(), entries.end()); }
  // Makes key and value before it knows whether the key is new. try_emplace is better.
  template <class... A>
  std::pair<iterator, bool> emplace(A&&... arguments) {
    std::pair<K, V> entry(std::forward<A>(arguments)...);
    return try_emplace(std::move(entry.first), std::move(entry.second));
  }
  template <class... A>
  iterator emplace_hint(const_iterator hint, A&&... arguments) {
    if constexpr (sizeof...(A) == 1 && (std::is_same_v<std::remove_cvref_t<A>, value_type> && ...)) {
      return insert(hint, std::forward<A>(arguments)...);
    } else {
      std::pair<K, V> entry(std::forward<A>(arguments)...);
      return try_emplace(hint, std::move(entry.first), std::move(entry.second));
    }
  }

 private:
  template <class Q, class... A>
  std::pair<iterator, bool> make_unless_taken(const typename tree::place& where, Q&& key, A&&... arguments) {
    if (where.taken) return {iterator(where.in, where.at), false};
    return {this->insert_in(where,
                            [&](value_type* room) {
                              std::construct_at(room, std::piecewise_construct,
                                                std::forward_as_tuple(std::forward<Q>(key)),
                                                std::forward_as_tuple(std::forward<A>(arguments)...));
                            }),
            true};
  }
  // If the key was not new, try_emplace has not touched the value.
  template <class U>
  std::pair<iterator, bool> assigned(std::pair<iterator, bool> result, U&& value) {
    if (!result.second) detail::announced_set(result.first->second, std::forward<U>(value));
    return result;
  }
};

template <class K, class V, class Compare = less<K>, class Memory = heap_memory>
class multimap : public detail::ordered_tree<detail::map_entries<K, V, Compare>, Compare, Memory, false> {
  using tree = detail::ordered_tree<detail::map_entries<K, V, Compare>, Compare, Memory, false>;

 public:
  using mapped_type = V;
  using relocatable = multimap;
  static constexpr auto persistent = bases<tree>{};
  using typename tree::const_iterator;
  using typename tree::iterator;
  using typename tree::value_type;

  multimap() noexcept = default;
  template <std::input_iterator I>
  multimap(I first, I last) {
    insert(first, last);
  }
  multimap(std::initializer_list<value_type> entries) : multimap(entries.begin(), entries.end()) {}
  multimap(const multimap& other) : multimap(other.begin(), other.end()) {}
  multimap(multimap&& other) noexcept = default;
  ~multimap() = default;

  multimap& operator=(const multimap& other) {
    if (this != &other) {
      this->clear();
      insert(other.begin(), other.end());
    }
    return *this;
  }
  // The entries stay where they are, in whatever database that is.
  multimap& operator=(multimap&& other) noexcept {
    multimap moved(std::move(other));
    swap(moved);
    return *this;
  }
  multimap& operator=(std::initializer_list<value_type> entries) {
    this->clear();
    insert(entries);
    return *this;
  }
  void swap(multimap& other) noexcept { this->exchange(other); }
  friend void swap(multimap& a, multimap& b) noexcept { a.swap(b); }

  iterator insert(const value_type& entry) { return make(this->place_for(entry.first), entry.first, entry.second); }
  iterator insert(value_type&& entry) {
    return make(this->place_for(entry.first), entry.first, std::move(entry.second));
  }
  template <class P>
  requires std::constructible_from<std::pair<K, V>, P &&> iterator insert(P&& entry) {
    return emplace(std::forward<P>(entry));
  }
  iterator insert(const_iterator hint, const value_type& entry) {
    return make(this->place_for(hint, entry.first), entry.first, entry.second);
  }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) emplace_hint(this->end(), *first);
  }
  void insert(std::initializer_list<value_type> entries) { insert(entries.begin(), entries.end()); }
  // If there are two arguments, constructs the key from the first one at its final place. So the key takes its memory
  // from the database of the map.
  template <class... A>
  iterator emplace(A&&... arguments) {
    return emplace_hint(const_iterator{}, std::forward<A>(arguments)...);
  }
  template <class... A>
  iterator emplace_hint(const_iterator hint, A&&... arguments) {
    if constexpr (sizeof...(A) == 1 && (std::is_same_v<std::remove_cvref_t<A>, value_type> && ...)) {
      return insert(hint, std::forward<A>(arguments)...);
    } else if constexpr (key_comes_first<A...>()) {
      return make(this->place_for(hint, first_of(arguments...)), std::forward<A>(arguments)...);
    } else {
      std::pair<K, V> entry(std::forward<A>(arguments)...);
      return make(this->place_for(hint, entry.first), std::move(entry.first), std::move(entry.second));
    }
  }

  // Erases the first entry with this key and this value, if there is one. Goes through the entries with this key in the
  // order of their insertion. For keys with very many values see tenure::ordered_index.
  template <class Q = K>
  bool erase_one(const typename detail::query<detail::transparent<Compare>>::template type<Q, K>& key, const V& value) {
    const auto [first, last] = this->template equal_range<Q>(key);
    for (iterator i = first; i != last; ++i) {
      if (i->second == value) {
        this->erase(i);
        return true;
      }
    }
    return false;
  }

 private:
  // Whether there are two arguments: something that the order can compare and from which a key can be made, and a
  // value.
  template <class Q = void, class... U>
  static constexpr bool key_comes_first() {
    return sizeof...(U) == 1 && (std::is_same_v<std::remove_cvref_t<Q>, K> ||
                                 (detail::transparent<Compare> && std::is_constructible_v<K, Q>));
  }
  template <class Q, class... A>
  static const Q& first_of(const Q& first, const A&...) {
    return first;
  }

  template <class Q, class U>
  iterator make(const typename tree::place& where, Q&& key, U&& value) {
    return this->insert_in(
        where, [&](value_type* room) { std::construct_at(room, std::forward<Q>(key), std::forward<U>(value)); });
  }
};

template <class K, class V, class Compare, class Memory, class Predicate>
std::size_t erase_if(map<K, V, Compare, Memory>& from, Predicate predicate) {
  return detail::erase_entries_if(from, predicate);
}
template <class K, class V, class Compare, class Memory, class Predicate>
std::size_t erase_if(multimap<K, V, Compare, Memory>& from, Predicate predicate) {
  return detail::erase_entries_if(from, predicate);
}

}  // namespace tenure
