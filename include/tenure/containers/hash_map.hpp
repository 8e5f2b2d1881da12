// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::hash_map: the interface of std::unordered_map, without buckets and nodes, on open addressing. The differences
// (docs/containers.md):
//
// - Entries move only when the table grows. An insertion that exceeds capacity(), reserve() and rehash() invalidate all
//   iterators and references. Erasing invalidates those to the erased entry.
// - Moving keys and values does not throw, and the hash function does not throw. Hash and equality have no state.
// - The hash function is tenure::hash, which is the same everywhere, or one with its own id. The map stores the id. A
//   map whose entries were placed by another function can be iterated over, cleared and rehashed, and refuses
//   everything else.
// - Text keys can be looked up by anything that converts to std::string_view, without making a key.
//
// An insertion that throws has changed nothing. An insertion of a range keeps the part that was done before. The
// functions throw errc::wrong_version (above), std::out_of_range (at()), std::length_error, exceptions of keys and
// values, and, if memory is needed, those of the memory policy (heap_memory.hpp). Thread-safety is as for
// std::unordered_map.
#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/hash_table.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/error.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure {

template <class K, class V, class Hash = hash<K>, class Equal = equal_to<K>, class Memory = heap_memory>
class hash_map : public detail::hash_table<detail::hash_map_entries<K, V>, Hash, Equal, Memory> {
  using table = detail::hash_table<detail::hash_map_entries<K, V>, Hash, Equal, Memory>;
  static constexpr bool transparent = detail::transparent<Hash> && detail::transparent<Equal>;
  template <class Q>
  using query_for = typename detail::query<transparent>::template type<Q, K>;

 public:
  using mapped_type = V;
  using relocatable = hash_map;
  static constexpr auto persistent = bases<table>{};
  using typename table::const_iterator;
  using typename table::iterator;
  using typename table::value_type;

  hash_map() noexcept = default;
  explicit hash_map(hash_seed seed) noexcept : table(seed) {}
  template <std::input_iterator I>
  hash_map(I first, I last) {
    insert(first, last);
  }
  hash_map(std::initializer_list<value_type> entries) : hash_map(entries.begin(), entries.end()) {}
  hash_map(const hash_map& other) : table(other.seed()) {
    this->reserve(other.size());
    insert(other.begin(), other.end());
  }
  hash_map(hash_map&& other) noexcept = default;
  ~hash_map() = default;

  hash_map& operator=(const hash_map& other) {
    if (this != &other) {
      this->clear();
      this->set_seed(other.seed());
      this->reserve(other.size());
      insert(other.begin(), other.end());
    }
    return *this;
  }
  // The entries do not move, even if they are in another database.
  hash_map& operator=(hash_map&& other) noexcept {
    hash_map moved(std::move(other));
    swap(moved);
    return *this;
  }
  hash_map& operator=(std::initializer_list<value_type> entries) {
    this->clear();
    insert(entries);
    return *this;
  }
  void swap(hash_map& other) noexcept { this->exchange(other); }
  friend void swap(hash_map& a, hash_map& b) noexcept { a.swap(b); }

  V& operator[](const K& key) { return try_emplace(key).first->second; }
  V& operator[](K&& key) { return try_emplace(std::move(key)).first->second; }
  template <class Q>
  requires transparent && std::constructible_from<K, const Q&> V& operator[](const Q& key) {
    return try_emplace(key).first->second;
  }
  template <class Q = K>
  [[nodiscard]] V& at(const query_for<Q>& key) {
    return const_cast<V&>(std::as_const(*this).template at<Q>(key));
  }
  template <class Q = K>
  [[nodiscard]] const V& at(const query_for<Q>& key) const {
    auto found = this->template find<Q>(key);
    if (found == this->end()) throw std::out_of_range("tenure::hash_map::at: there is no such key");
    return found->second;
  }

  // Makes the key from `key`, and the value from the arguments, only if the key is new.
  template <class... A>
  std::pair<iterator, bool> try_emplace(const K& key, A&&... arguments) {
    return make_unless_there(key, key, std::forward<A>(arguments)...);
  }
  template <class... A>
  std::pair<iterator, bool> try_emplace(K&& key, A&&... arguments) {
    return make_unless_there(key, std::move(key), std::forward<A>(arguments)...);
  }
  template <class Q, class... A>
  requires transparent && std::constructible_from<K, const Q&> std::pair<iterator, bool> try_emplace(const Q& key,
                                                                                                     A&&... arguments) {
    return make_unless_there(key, key, std::forward<A>(arguments)...);
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
  requires transparent && std::constructible_from<K, const Q&> std::pair<iterator, bool> insert_or_assign(const Q& key,
                                                                                                          U&& value) {
    return assigned(try_emplace(key, std::forward<U>(value)), std::forward<U>(value));
  }

  std::pair<iterator, bool> insert(const value_type& entry) { return try_emplace(entry.first, entry.second); }
  std::pair<iterator, bool> insert(value_type&& entry) { return try_emplace(entry.first, std::move(entry.second)); }
  template <class P>
  requires std::constructible_from<std::pair<K, V>, P &&> std::pair<iterator, bool> insert(P&& entry) {
    return emplace(std::forward<P>(entry));
  }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) insert(*first);
  }
  void insert(std::initializer_list<value_type> entries) { insert(entries.begin(), entries.end()); }
  // Makes key and value before it knows whether the key is new. try_emplace is better.
  template <class... A>
  std::pair<iterator, bool> emplace(A&&... arguments) {
    std::pair<K, V> entry(std::forward<A>(arguments)...);
    return try_emplace(std::move(entry.first), std::move(entry.second));
  }

 private:
  template <class Q, class R, class... A>
  std::pair<iterator, bool> make_unless_there(const Q& key, R&& from, A&&... arguments) {
    return this->find_or_make(key, [&](value_type* room) {
      std::construct_at(room, std::piecewise_construct, std::forward_as_tuple(std::forward<R>(from)),
                        std::forward_as_tuple(std::forward<A>(arguments)...));
    });
  }
  // If the key was not new, try_emplace has not touched the value.
  template <class U>
  std::pair<iterator, bool> assigned(std::pair<iterator, bool> result, U&& value) {
    if (!result.second) detail::announced_set(result.first->second, std::forward<U>(value));
    return result;
  }
};

template <class K, class V, class Hash, class Equal, class Memory, class Predicate>
std::size_t erase_if(hash_map<K, V, Hash, Equal, Memory>& from, Predicate predicate) {
  const std::size_t old = from.size();
  for (auto i = from.begin(); i != from.end();) i = predicate(*i) ? from.erase(i) : std::next(i);
  return old - from.size();
}

}  // namespace tenure
