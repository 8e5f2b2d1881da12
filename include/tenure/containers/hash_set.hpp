// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::hash_set: the interface of std::unordered_set on the table of hash_map.hpp. All that hash_map.hpp says
// applies here, too.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include <tenure/containers/detail/hash_table.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/error.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure {

template <class K, class Hash = hash<K>, class Equal = equal_to<K>, class Memory = heap_memory>
class hash_set : public detail::hash_table<detail::hash_set_entries<K>, Hash, Equal, Memory> {
  using table = detail::hash_table<detail::hash_set_entries<K>, Hash, Equal, Memory>;

 public:
  using relocatable = hash_set;
  static constexpr auto persistent = bases<table>{};
  using typename table::const_iterator;
  using typename table::iterator;

  hash_set() noexcept = default;
  explicit hash_set(hash_seed seed) noexcept : table(seed) {}
  template <std::input_iterator I>
  hash_set(I first, I last) {
    insert(first, last);
  }
  hash_set(std::initializer_list<K> keys) : hash_set(keys.begin(), keys.end()) {}
  hash_set(const hash_set& other) : table(other.seed()) {
    this->reserve(other.size());
    insert(other.begin(), other.end());
  }
  hash_set(hash_set&& other) noexcept = default;
  ~hash_set() = default;

  hash_set& operator=(const hash_set& other) {
    if (this != &other) {
      this->clear();
      this->set_seed(other.seed());
      this->reserve(other.size());
      insert(other.begin(), other.end());
    }
    return *this;
  }
  // The keys do not move, even if they are in another database.
  hash_set& operator=(hash_set&& other) noexcept {
    hash_set moved(std::move(other));
    swap(moved);
    return *this;
  }
  hash_set& operator=(std::initializer_list<K> keys) {
    this->clear();
    insert(keys);
    return *this;
  }
  void swap(hash_set& other) noexcept { this->exchange(other); }
  friend void swap(hash_set& a, hash_set& b) noexcept { a.swap(b); }

  std::pair<iterator, bool> insert(const K& key) { return make_unless_there(key, key); }
  std::pair<iterator, bool> insert(K&& key) { return make_unless_there(key, std::move(key)); }
  template <class Q>
  requires detail::transparent<Hash> && detail::transparent<Equal> && std::constructible_from<K, const Q&>
      std::pair<iterator, bool> insert(const Q& key) {
    return make_unless_there(key, key);
  }
  template <std::input_iterator I>
  void insert(I first, I last) {
    for (; first != last; ++first) insert(*first);
  }
  void insert(std::initializer_list<K> keys) { insert(keys.begin(), keys.end()); }
  template <class... A>
  std::pair<iterator, bool> emplace(A&&... arguments) {
    return insert(K(std::forward<A>(arguments)...));
  }

 private:
  template <class Q, class R>
  std::pair<iterator, bool> make_unless_there(const Q& key, R&& from) {
    return this->find_or_make(key, [&](K* room) { std::construct_at(room, std::forward<R>(from)); });
  }
};

template <class K, class Hash, class Equal, class Memory, class Predicate>
std::size_t erase_if(hash_set<K, Hash, Equal, Memory>& from, Predicate predicate) {
  const std::size_t old = from.size();
  for (auto i = from.begin(); i != from.end();) i = predicate(*i) ? from.erase(i) : std::next(i);
  return old - from.size();
}

}  // namespace tenure
