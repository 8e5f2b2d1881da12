// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Values for objects that a map does not keep: what is known of them beside what is in them.
#pragma once

#include <cstdint>
#include <utility>

#include <tenure/containers/hash_map.hpp>
#include <tenure/error.hpp>
#include <tenure/store/weak.hpp>

namespace tenure {

namespace detail {

template <class K, class V>
struct weak_map_entry {
  weak<K> key;
  V value;
};

}  // namespace detail

// From objects, by identity, to values. When an object ends (weak.hpp), so does its entry: nothing finds it any more, and the
// map destroys it when it grows, or in purge(). A value that refers to its own key, even over others, keeps it for ever.
//
// An object of a store, or a member of one. V as in hash_map. Functions that add entries need a write transaction, and throw
// as weak(T*) and hash_map do. References to values are valid until an entry is added, or theirs is erased. Threads as for
// hash_map.
template <class K, class V>
class weak_map {
  using entry = detail::weak_map_entry<K, V>;

 public:
  // The value of the object, made as V() if there is none. Throws errc::bad_weak_reference for nullptr, too.
  V& operator[](K* key) {
    if (key == nullptr) throw error(errc::bad_weak_reference, "a weak map has no values for nullptr");
    if (V* const known = find(key)) return *known;
    weak<K> made(key);
    if (entries_.size() == entries_.capacity()) purge();
    return entries_.insert_or_assign(detail::hide(key), entry{std::move(made), V()}).first->second.value;
  }
  // nullptr: there is none. Throws errc::closed in a cache, where nothing weak can be followed.
  [[nodiscard]] V* find(const K* key) { return const_cast<V*>(std::as_const(*this).find(key)); }
  [[nodiscard]] const V* find(const K* key) const {
    const auto found = entries_.find(detail::hide(key));
    if (found == entries_.end()) {
      // In a cache, whose addresses are others, it is not known whether there is one: this throws.
      if (!entries_.empty()) (void)entries_.begin()->second.key.expired();
      return nullptr;
    }
    // Another object may have lain there.
    return found->second.key.lock() == key ? &found->second.value : nullptr;
  }
  [[nodiscard]] bool contains(const K* key) const { return find(key) != nullptr; }
  // Returns whether there was one.
  bool erase(const K* key) {
    const bool was_there = contains(key);
    entries_.erase(detail::hide(key));
    return was_there;
  }
  void clear() { entries_.clear(); }
  // Calls f(K&, V&) for the entries of objects that are there, in no order. f adds and erases nothing.
  template <class F>
  void for_each(F&& f) {
    for (auto& [hidden, each] : entries_)
      if (K* const key = each.key.lock()) f(*key, each.value);
  }
  // Destroys the entries of objects that have ended, and returns how many these were. In a write transaction.
  std::uint64_t purge() {
    std::uint64_t gone = 0;
    for (auto each = entries_.begin(); each != entries_.end();)
      if (each->second.key.expired())
        each = entries_.erase(each), ++gone;
      else
        ++each;
    return gone;
  }
  // The number of entries, with those of objects that have ended since the last purge().
  [[nodiscard]] std::uint64_t size() const noexcept { return entries_.size(); }

 private:
  hash_map<std::uint64_t, entry> entries_;  // by hidden address

 public:
  static constexpr auto persistent = members<&weak_map::entries_>{};
};

}  // namespace tenure
