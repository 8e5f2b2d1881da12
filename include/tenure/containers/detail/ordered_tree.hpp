// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The common part of maps, multimaps, sets and multisets: iteration, lookups and erasing in a B+-tree that is ordered
// by a comparison of keys.
#pragma once

#include <cassert>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/tree_structure.hpp>
#include <tenure/containers/less.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure::detail {

// Whether a key may hold references to objects.
template <class K>
inline constexpr bool may_refer = !std::is_arithmetic_v<K> && !std::is_enum_v<K> && !text<K>;
template <class A, class B>
inline constexpr bool may_refer<std::pair<A, B>> = may_refer<A> || may_refer<B>;

template <class K, class Compare>
struct keys_in_order {
  using key_type = K;
  static constexpr bool keys_may_refer = may_refer<K>;
  // A separator between texts is as short as possible. So it rarely needs memory outside of the node.
  static void separate(K* room, const K& left, const K& right) {
    if constexpr (std::is_same_v<Compare, less<K>> && text<K> && std::is_constructible_v<K, const char*, std::size_t>) {
      const std::string_view l(left), r(right);
      const auto common = std::mismatch(l.begin(), l.end(), r.begin(), r.end()).second - r.begin();
      std::construct_at(room, r.data(), std::min(static_cast<std::size_t>(common) + 1, r.size()));
    } else {
      std::construct_at(room, right);
    }
  }
};

template <class K, class V, class Compare>
struct map_entries : keys_in_order<K, Compare> {
  using entry = std::pair<const K, V>;
  static constexpr bool fixed = false;
  static const K& key_of(const entry& e) noexcept { return e.first; }
};

template <class K, class Compare>
struct set_entries : keys_in_order<K, Compare> {
  using entry = K;
  static constexpr bool fixed = true;  // entries cannot be changed through iterators
  static const K& key_of(const entry& e) noexcept { return e; }
};

// Unique: true if no two keys are equivalent.
template <class Entries, class Compare, class Memory, bool Unique>
class ordered_tree : protected tree_structure<Entries, Memory> {
  static_assert(std::is_empty_v<Compare> && std::is_default_constructible_v<Compare>,
                "orders of maps and sets have no state: it could not persist");
  using structure = tree_structure<Entries, Memory>;
  using typename structure::inner;
  using typename structure::node;
  using typename structure::position;
  template <class Q>
  using query_for = typename query<transparent<Compare>>::template type<Q, typename Entries::key_type>;

 protected:
  using typename structure::leaf;

 public:
  using key_type = typename Entries::key_type;
  using value_type = typename Entries::entry;
  using key_compare = Compare;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = value_type&;
  using const_reference = const value_type&;
  using pointer = value_type*;
  using const_pointer = const value_type*;
  using iterator = tree_iterator<value_type, Entries::fixed>;
  using const_iterator = tree_iterator<value_type, true>;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  [[nodiscard]] iterator begin() noexcept { return this->first_position(); }
  [[nodiscard]] const_iterator begin() const noexcept { return this->first_position(); }
  [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
  [[nodiscard]] iterator end() noexcept { return this->end_position(); }
  [[nodiscard]] const_iterator end() const noexcept { return this->end_position(); }
  [[nodiscard]] const_iterator cend() const noexcept { return end(); }
  [[nodiscard]] reverse_iterator rbegin() noexcept { return reverse_iterator(end()); }
  [[nodiscard]] const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end()); }
  [[nodiscard]] const_reverse_iterator crbegin() const noexcept { return rbegin(); }
  [[nodiscard]] reverse_iterator rend() noexcept { return reverse_iterator(begin()); }
  [[nodiscard]] const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin()); }
  [[nodiscard]] const_reverse_iterator crend() const noexcept { return rend(); }

  [[nodiscard]] bool empty() const noexcept { return this->size_ == 0; }
  [[nodiscard]] size_type size() const noexcept { return this->size_; }
  [[nodiscard]] static constexpr size_type max_size() noexcept {
    return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(value_type);
  }
  [[nodiscard]] key_compare key_comp() const { return Compare{}; }
  void clear() noexcept { this->remove_all(); }

  // O(log n) each. Q: the key type; if the order is transparent, any type that it compares with keys.
  template <class Q = key_type>
  [[nodiscard]] iterator find(const query_for<Q>& key) {
    return found(key);
  }
  template <class Q = key_type>
  [[nodiscard]] const_iterator find(const query_for<Q>& key) const {
    return found(key);
  }
  template <class Q = key_type>
  [[nodiscard]] bool contains(const query_for<Q>& key) const {
    return found(key) != this->end_position();
  }
  template <class Q = key_type>
  [[nodiscard]] iterator lower_bound(const query_for<Q>& key) {
    return lower(key);
  }
  template <class Q = key_type>
  [[nodiscard]] const_iterator lower_bound(const query_for<Q>& key) const {
    return lower(key);
  }
  template <class Q = key_type>
  [[nodiscard]] iterator upper_bound(const query_for<Q>& key) {
    return upper(key);
  }
  template <class Q = key_type>
  [[nodiscard]] const_iterator upper_bound(const query_for<Q>& key) const {
    return upper(key);
  }
  template <class Q = key_type>
  [[nodiscard]] std::pair<iterator, iterator> equal_range(const query_for<Q>& key) {
    return {lower(key), upper(key)};
  }
  template <class Q = key_type>
  [[nodiscard]] std::pair<const_iterator, const_iterator> equal_range(const query_for<Q>& key) const {
    return {lower(key), upper(key)};
  }
  // O(log n), plus O(k / entries of a leaf) for k equal keys.
  template <class Q = key_type>
  [[nodiscard]] size_type count(const query_for<Q>& key) const {
    return entries_between(lower(key), upper(key));
  }

  // Erasing at an iterator does not search: O(1), except for a rare merge, for any number of equal keys. Returns the
  // next entry. All other iterators and references become invalid. It can throw errc::out_of_memory, and change
  // nothing, only if keys may hold references and need memory outside of the node, such as pairs of a text and a
  // pointer.
  iterator erase(const_iterator at) noexcept(structure::erases_safely) {
    assert(at != end());
    return structure::erase_at(at.leaf(), at.at(), 1);
  }
  iterator erase(iterator at) noexcept(structure::erases_safely) requires(!Entries::fixed) {
    return erase(const_iterator(at));
  }
  iterator erase(const_iterator first, const_iterator last) noexcept(structure::erases_safely) {
    position at{first.leaf(), first.at()};
    for (size_type left = entries_between(at, last); left > 0;) {
      const auto here = static_cast<std::uint32_t>(std::min<size_type>(left, at.leaf()->count - at.at()));
      at = structure::erase_at(at.leaf(), at.at(), here);
      left -= here;
    }
    return at;
  }
  // Returns the number of erased entries.
  template <class Q = key_type>
  size_type erase(const query_for<Q>& key) {
    const auto [first, last] = equal_range<Q>(key);
    const size_type old = size();
    erase(first, last);
    return old - size();
  }

  static constexpr auto persistent = bases<structure>{};
  using typename structure::allocated_types;

  // Throws errc::damaged if an invariant of the tree does not hold. Reads the whole tree. Defined in tree_check.hpp.
  void check() const;

  friend bool operator==(const ordered_tree& a, const ordered_tree& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  }
  // A template: clang looks at what is required of others in each tree, and entries with variants of libstdc++ have no answer.
  template <class Entry = value_type>
  friend auto operator<=>(const ordered_tree& a, const ordered_tree& b) requires std::three_way_comparable<Entry> ||
      requires(const Entry& x) {
    x < x;
  }
  {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end(),
                                                  [](const Entry& x, const Entry& y) {
                                                    if constexpr (std::three_way_comparable<Entry>)
                                                      return x <=> y;
                                                    else
                                                      return x < y   ? std::weak_ordering::less
                                                             : y < x ? std::weak_ordering::greater
                                                                     : std::weak_ordering::equivalent;
                                                  });
  }

 protected:
  ordered_tree() noexcept = default;
  ordered_tree(ordered_tree&&) noexcept = default;
  ~ordered_tree() = default;

  template <class A, class B>
  static bool before(const A& a, const B& b) {
    return Compare{}(a, b);
  }
  static const key_type& key_at(const leaf* in, std::uint32_t i) noexcept { return Entries::key_of(in->entries[i]); }

  // The place for a new entry with this key (behind equal ones, if the tree may have several), or the entry that
  // already has the key.
  struct place {
    leaf* in;
    std::uint32_t at;
    bool taken;
  };
  template <class Q>
  [[nodiscard]] place place_for(const Q& given) const {
    decltype(auto) key = prepared<Compare>(given);
    leaf* in = leaf_for(key);
    if (in == nullptr) return {in, 0, false};
    if constexpr (Unique) {
      const std::uint32_t at = lower_in(in, key);
      return {in, at, at < in->count && !before(key, key_at(in, at))};
    } else {
      return {in, upper_in(in, key), false};
    }
  }
  // Finds the place without a search, if the key belongs just before the hint.
  template <class Q>
  [[nodiscard]] place place_for(const_iterator hint, const Q& given) const {
    leaf* in = hint.leaf();
    const std::uint32_t at = hint.at();
    // Before the first entry of a leaf, the separator would have to be compared, too.
    if (in == nullptr || (at == 0 && in->previous != nullptr)) return place_for(given);
    decltype(auto) key = prepared<Compare>(given);
    const bool fits_behind = at == 0 || (Unique ? before(key_at(in, at - 1), key) : !before(key, key_at(in, at - 1)));
    if (fits_behind && (at == in->count || before(key, key_at(in, at)))) return {in, at, false};
    return place_for(given);
  }
  // Inserts the entry that make(entry*) constructs, at a free place.
  template <class Make>
  iterator insert_in(const place& where, Make&& make) {
    return structure::insert_at(where.in, where.at, std::forward<Make>(make));
  }

 private:
  // The leaf with the last key that is not after `key`; if there is none, the first leaf.
  template <class Q>
  [[nodiscard]] leaf* leaf_for(const Q& key) const {
    node* n = this->root_;
    if (n == nullptr) return nullptr;
    while (n->level > 0) {
      const auto* in = static_cast<const inner*>(n);
      n = in->children[partition_point(in->count, [&](std::uint32_t i) { return !before(key, in->separators[i]); })];
    }
    return static_cast<leaf*>(n);
  }
  // The leaf with the last key before `key`; if there is none, the first leaf.
  template <class Q>
  [[nodiscard]] leaf* leaf_before(const Q& key) const {
    node* n = this->root_;
    if (n == nullptr) return nullptr;
    while (n->level > 0) {
      const auto* in = static_cast<const inner*>(n);
      n = in->children[partition_point(in->count, [&](std::uint32_t i) { return before(in->separators[i], key); })];
    }
    return static_cast<leaf*>(n);
  }
  template <class Q>
  static std::uint32_t lower_in(const leaf* in, const Q& key) {
    return partition_point(in->count, [&](std::uint32_t i) { return before(key_at(in, i), key); });
  }
  template <class Q>
  static std::uint32_t upper_in(const leaf* in, const Q& key) {
    return partition_point(in->count, [&](std::uint32_t i) { return !before(key, key_at(in, i)); });
  }

  template <class Q>
  [[nodiscard]] position lower(const Q& given) const {
    decltype(auto) key = prepared<Compare>(given);
    // A query that is not a key may be equivalent to several keys, if the order permits it.
    constexpr bool at_most_one =
        Unique && (std::is_same_v<Q, key_type> || requires { typename Compare::compares_text; });
    leaf* in = at_most_one ? leaf_for(key) : leaf_before(key);
    return in == nullptr ? position{} : structure::normal(in, lower_in(in, key));
  }
  template <class Q>
  [[nodiscard]] position upper(const Q& given) const {
    decltype(auto) key = prepared<Compare>(given);
    leaf* in = leaf_for(key);
    return in == nullptr ? position{} : structure::normal(in, upper_in(in, key));
  }
  template <class Q>
  [[nodiscard]] position found(const Q& given) const {
    decltype(auto) key = prepared<Compare>(given);
    if constexpr (Unique) {
      leaf* in = leaf_for(key);
      if (in == nullptr) return {};
      const std::uint32_t at = lower_in(in, key);
      return at < in->count && !before(key, key_at(in, at)) ? position{in, at} : this->end_position();
    } else {
      const position at = lower(key);
      return at != this->end_position() && !before(key, Entries::key_of(*at)) ? at : this->end_position();
    }
  }
  static size_type entries_between(const_iterator first, const_iterator last) noexcept {
    size_type entries = 0;
    const leaf* in = first.leaf();
    for (; in != last.leaf(); in = in->next) entries += in->count;
    return entries + last.at() - first.at();
  }
};

}  // namespace tenure::detail
