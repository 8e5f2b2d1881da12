// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The common part of hash maps and hash sets.
#pragma once

#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/errors.hpp>
#include <tenure/containers/detail/hash_group.hpp>
#include <tenure/containers/detail/relocate.hpp>
#include <tenure/containers/detail/zero_bytes.hpp>
#include <tenure/containers/hash.hpp>
#include <tenure/containers/less.hpp>
#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/persist.hpp>

namespace tenure {

// Goes into every hash. So somebody who chooses the keys of a map cannot make them collide without knowing the seed.
enum class hash_seed : std::uint64_t {};

namespace detail {

template <class K, class V>
struct hash_map_entries {
  using key_type = K;
  using entry = std::pair<const K, V>;
  static constexpr bool fixed = false;
  static const K& key_of(const entry& e) noexcept { return e.first; }
};
template <class K>
struct hash_set_entries {
  using key_type = K;
  using entry = K;
  static constexpr bool fixed = true;  // entries cannot be changed through iterators
  static const K& key_of(const entry& e) noexcept { return e; }
};

template <class Hash>
concept identified = requires {
  { Hash::id } -> std::convertible_to<std::uint32_t>;
};

template <class Entries, class Hash, class Equal, class Memory>
class hash_table {
  static_assert(
      identified<Hash>,
      "the hash function of a hash map needs `static constexpr std::uint32_t id`, not 0, changed whenever the "
      "function changes: stored maps depend on it (std::hash differs between platforms)");
  static_assert(std::is_empty_v<Hash> && std::is_empty_v<Equal> && std::is_default_constructible_v<Hash> &&
                    std::is_default_constructible_v<Equal>,
                "hash and equality of hash maps have no state: it could not persist");

  template <class Q>
  using query_for =
      typename query<transparent<Hash> && transparent<Equal>>::template type<Q, typename Entries::key_type>;
  using group = hash_group<typename Entries::entry>;

 public:
  using key_type = typename Entries::key_type;
  using value_type = typename Entries::entry;
  using hasher = Hash;
  using key_equal = Equal;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = value_type&;
  using const_reference = const value_type&;
  using pointer = value_type*;
  using const_pointer = const value_type*;
  using iterator = hash_iterator<value_type, Entries::fixed>;
  using const_iterator = hash_iterator<value_type, true>;

  static_assert(relocates_safely<key_type>::value && relocates_safely<value_type>::value,
                "keys and values of hash maps must have move constructors that are noexcept: the table moves them");

  [[nodiscard]] iterator begin() noexcept { return iterator::first_of(groups_, groups_end()); }
  [[nodiscard]] const_iterator begin() const noexcept { return const_iterator::first_of(groups_, groups_end()); }
  [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
  [[nodiscard]] iterator end() noexcept { return {groups_end(), groups_end(), 0}; }
  [[nodiscard]] const_iterator end() const noexcept { return {groups_end(), groups_end(), 0}; }
  [[nodiscard]] const_iterator cend() const noexcept { return end(); }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] size_type size() const noexcept { return size_; }
  [[nodiscard]] static constexpr size_type max_size() noexcept {
    return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(group);
  }
  // The number of entries that fit without growing.
  [[nodiscard]] size_type capacity() const noexcept { return groups_ == nullptr ? 0 : capacity_of(mask_ + 1); }
  [[nodiscard]] hasher hash_function() const { return Hash{}; }
  [[nodiscard]] key_equal key_eq() const { return Equal{}; }
  [[nodiscard]] hash_seed seed() const noexcept { return hash_seed{seed_}; }
  // The id of the hash function that has placed the entries; 0 if there are none.
  [[nodiscard]] std::uint32_t algorithm() const noexcept { return algorithm_; }

  // Erases all entries and frees the memory.
  void clear() noexcept {
    free_entries();
    forget();
  }
  void reserve(size_type count) {
    if (count > capacity()) place_anew(groups_for(count));
  }
  // Places all entries again with the program's hash function, in a table for `count` entries, or for the present
  // number if that is larger.
  void rehash(size_type count = 0) {
    if (size_ == 0 && count == 0)
      clear();
    else
      place_anew(groups_for(std::max<size_type>(count, size_)));
  }

  // Q: the key type; if hash and equality are transparent, any type that they accept. Lookups, and all functions that
  // need a lookup, throw errc::wrong_version if the map was stored by a program whose hash function has another id.
  // rehash() repairs that.
  template <class Q = key_type>
  [[nodiscard]] iterator find(const query_for<Q>& key) {
    return found<iterator>(key);
  }
  template <class Q = key_type>
  [[nodiscard]] const_iterator find(const query_for<Q>& key) const {
    return found<const_iterator>(key);
  }
  template <class Q = key_type>
  [[nodiscard]] bool contains(const query_for<Q>& key) const {
    return found<const_iterator>(key) != end();
  }
  template <class Q = key_type>
  [[nodiscard]] size_type count(const query_for<Q>& key) const {
    return contains<Q>(key) ? 1 : 0;
  }

  // Invalidates only iterators and references to the erased entry. Returns the next entry.
  iterator erase(const_iterator at) {
    assert(at != end());
    group* in = at.here();
    remove(in, at.at(), hash_of(Entries::key_of(in->entries[at.at()])));
    iterator next{in, groups_end(), at.at()};
    return ++next;
  }
  iterator erase(iterator at) requires(!Entries::fixed) { return erase(const_iterator(at)); }
  iterator erase(const_iterator first, const_iterator last) {
    while (first != last) first = erase(first);
    return {last.here(), last.end(), last.at()};
  }
  template <class Q = key_type>
  size_type erase(const query_for<Q>& key) {
    if (size_ == 0) return 0;
    decltype(auto) asked = prepared<Hash>(key);
    const std::uint64_t hash = hash_of(asked);
    const slot at = locate(asked, hash);
    if (at.in == nullptr) return 0;
    remove(at.in, at.i, hash);
    return 1;
  }

  // Throws errc::damaged if an invariant of the table does not hold, for example because a hash function has changed
  // and its id has not. Reads the whole table.
  void check() const;

  friend bool operator==(const hash_table& a, const hash_table& b) {
    if (a.size() != b.size()) return false;
    for (const value_type& entry : a)
      if (const auto other = b.find(Entries::key_of(entry)); other == b.end() || !(*other == entry)) return false;
    return true;
  }

 protected:
  hash_table() noexcept = default;
  explicit hash_table(hash_seed seed) noexcept : seed_(static_cast<std::uint64_t>(seed)) {}
  hash_table(hash_table&& other) noexcept
      : groups_(other.groups_),
        size_(other.size_),
        mask_(other.mask_),
        seed_(other.seed_),
        algorithm_(other.algorithm_) {
    other.forget();
  }
  ~hash_table() { free_entries(); }

  void exchange(hash_table& other) noexcept {
    announce_each(*this, other);
    std::swap(groups_, other.groups_);
    std::swap(size_, other.size_);
    std::swap(mask_, other.mask_);
    std::swap(seed_, other.seed_);
    std::swap(algorithm_, other.algorithm_);
  }
  void set_seed(hash_seed seed) noexcept { announced_set(seed_, static_cast<std::uint64_t>(seed)); }

  // The entry with this key. If there is none, make(value_type*) constructs it.
  template <class Q, class Make>
  std::pair<iterator, bool> find_or_make(const Q& key, Make&& make) {
    decltype(auto) asked = prepared<Hash>(key);
    const std::uint64_t hash = groups_ == nullptr ? hash_by_program(asked) : hash_of(asked);
    if (groups_ != nullptr) {
      const slot at = locate(asked, hash);
      if (at.in != nullptr) return {iterator{at.in, groups_end(), at.i}, false};
    }
    const slot made = size_ < capacity() ? make_at_free(groups_, mask_, hash, make) : grow_and_make(hash, make);
    announced_set(size_, size_ + 1);
    return {iterator{made.in, groups_end(), made.i}, true};
  }

 private:
  struct slot {
    group* in;
    std::uint32_t i;
  };

  void free_entries() noexcept {
    if (groups_ == nullptr) return;
    for (auto i = const_iterator(begin()); i != const_iterator(end()); ++i)
      destroy_elements(i.here()->entries + i.at(), 1);
    Memory::template deallocate<group>(groups_, mask_ + 1);
  }
  void forget() noexcept {
    announce_each(*this);
    groups_ = nullptr;
    size_ = mask_ = algorithm_ = 0;
  }

  [[nodiscard]] group* groups_end() const noexcept { return groups_ == nullptr ? nullptr : groups_ + mask_ + 1; }
  // Fuller tables find entries in the first group less often.
  static constexpr size_type capacity_of(size_type groups) noexcept {
    return groups == 1 ? group::slots : groups * (group::slots - 3);
  }
  static size_type groups_for(size_type entries) {
    if (entries > max_size()) throw std::length_error("tenure::hash_map: more entries than an address space can hold");
    return entries <= group::slots ? 1 : std::bit_ceil((entries + group::slots - 4) / (group::slots - 3));
  }

  // --- Hashing ---

  template <class Q>
  [[nodiscard]] std::uint64_t hash_by_program(const Q& key) const noexcept {
    if constexpr (std::is_invocable_v<const Hash&, const Q&, std::uint64_t>) {
      static_assert(std::is_nothrow_invocable_v<const Hash&, const Q&, std::uint64_t>, "hash functions are noexcept");
      return Hash{}(key, seed_);
    } else {
      static_assert(std::is_nothrow_invocable_v<const Hash&, const Q&>, "hash functions are noexcept");
      return hash_number(static_cast<std::uint64_t>(Hash{}(key)), seed_);
    }
  }
  template <class Q>
  [[nodiscard]] std::uint64_t hash_of(const Q& key) const {
    static_assert(Hash::id != 0, "the id of a hash function is not 0");
    if (algorithm_ != Hash::id) [[unlikely]]
      refuse_hash_function(this, size_, algorithm_, Hash::id);
    return hash_by_program(key);
  }
  // --- Entries ---

  // All groups, beginning with the one that the hash names. The order depends on the hash.
  class path {
   public:
    path(group* groups, size_type mask, std::uint64_t hash) noexcept
        : groups_(groups), mask_(mask), at_(hash & mask), step_(2 * size_type{group::tag_of(hash)} + 1) {}
    [[nodiscard]] group& here() const noexcept { return groups_[at_]; }
    void advance() noexcept { at_ = (at_ + step_) & mask_; }

   private:
    group* groups_;
    size_type mask_, at_, step_;
  };

  // Returns {nullptr, 0} if there is no such entry. The table must have groups.
  template <class Q>
  [[nodiscard]] slot locate(const Q& key, std::uint64_t hash) const {
    const std::uint8_t tag = group::tag_of(hash);
    path p{groups_, mask_, hash};
    for (size_type i = 0; i <= mask_; ++i, p.advance()) {
      group& in = p.here();
      __builtin_prefetch(in.entries + group::slots / 2);  // fetched while the tags are
      for (std::uint32_t left = in.tagged(tag); left != 0; left &= left - 1) {
        const auto at = static_cast<std::uint32_t>(std::countr_zero(left));
        if (Equal{}(Entries::key_of(in.entries[at]), key)) return {&in, at};
      }
      if (in.passed == 0) break;
    }
    return {nullptr, 0};
  }

  template <class Iterator, class Q>
  [[nodiscard]] Iterator found(const Q& key) const {
    if (size_ == 0) return {groups_end(), groups_end(), 0};
    decltype(auto) asked = prepared<Hash>(key);
    const slot at = locate(asked, hash_of(asked));
    return at.in == nullptr ? Iterator{groups_end(), groups_end(), 0} : Iterator{at.in, groups_end(), at.i};
  }

  // Constructs a new entry in a free slot, which must exist. When it is constructed, the groups before it count it.
  template <class Make>
  static slot make_at_free(group* groups, size_type mask, std::uint64_t hash, Make&& make) {
    path p{groups, mask, hash};
    while (p.here().used() == group::all) p.advance();
    group& in = p.here();
    const auto i = static_cast<std::uint32_t>(std::countr_one(in.used()));
    announce_each(in.entries[i], in.tags[i]);
    make_in(in.entries + i, make);
    in.tags[i] = group::tag_of(hash);
    for (path q{groups, mask, hash}; &q.here() != &in; q.advance()) {
      if (q.here().passed == group::many) continue;
      announce_each(q.here().passed);
      ++q.here().passed;
    }
    return {&in, i};
  }

  void remove(group* in, std::uint32_t i, std::uint64_t hash) noexcept {
    announce_each(in->entries[i], in->tags[i], size_);
    destroy_unheard(in->entries + i, 1);
    in->tags[i] = 0;
    for (path p{groups_, mask_, hash}; &p.here() != in; p.advance()) {
      if (p.here().passed == group::many) continue;
      announce_each(p.here().passed);
      --p.here().passed;
    }
    --size_;
  }

  // --- Growing ---

  void move_entries(group* to, size_type mask) noexcept {
    for (auto i = const_iterator::first_of(groups_, groups_end()); i != const_iterator(end()); ++i) {
      value_type* entry = i.here()->entries + i.at();
      announce_departure(entry, 1);
      make_at_free(to, mask, hash_by_program(Entries::key_of(*entry)),
                   [&](value_type* room) noexcept { relocate_unheard(room, entry); });
    }
  }
  void adopt(group* groups, size_type count) noexcept {
    if (groups_ != nullptr) Memory::template deallocate<group>(groups_, mask_ + 1);
    announce_each(*this);
    groups_ = groups;
    mask_ = count - 1;
    algorithm_ = Hash::id;
  }
  void place_anew(size_type count) {
    fresh_memory<group, Memory> fresh{count, this};
    move_entries(fresh.get(), count - 1);
    adopt(fresh.release(), count);
  }
  // Constructs the new entry first, because its arguments may be in an old one.
  template <class Make>
  [[gnu::noinline]] slot grow_and_make(std::uint64_t hash, Make& make) {
    const size_type count = groups_for(size_ + 1);
    fresh_memory<group, Memory> fresh{count, this};
    const slot made = make_at_free(fresh.get(), count - 1, hash, make);
    move_entries(fresh.get(), count - 1);
    adopt(fresh.release(), count);
    return made;
  }

  group* groups_ = nullptr;  // nullptr: no capacity
  std::uint64_t size_ = 0;
  std::uint64_t mask_ = 0;  // groups - 1; their number is a power of two
  std::uint64_t seed_ = 0;
  std::uint32_t algorithm_ = 0;  // Hash::id when the entries were placed
  std::uint32_t unused_ = 0;

 public:
  static constexpr auto persistent = members<&hash_table::groups_, &hash_table::size_, &hash_table::mask_,
                                             &hash_table::seed_, &hash_table::algorithm_, &hash_table::unused_>{};
};

template <class Entries, class Hash, class Equal, class Memory>
void hash_table<Entries, Hash, Equal, Memory>::check() const {
  auto invariant = [&](bool holds, const char* what) {
    if (!holds) report_damaged_hash_map(this, what);
  };
  if (groups_ == nullptr) return invariant(size_ == 0 && mask_ == 0, "an empty table has no groups");
  invariant(std::has_single_bit(mask_ + 1), "the number of groups is a power of two");
  invariant(size_ <= capacity(), "there are no more entries than capacity");

  std::uint64_t entries = 0, passed = 0, passings = 0;
  bool uncounted = false;
  for (group* in = groups_; in != groups_end(); ++in) {
    for (std::uint32_t i = 0; i < group::slots; ++i) {
      if (in->tags[i] == 0) {
        invariant(slots_are_zero(in->entries + i, 1), "free slots are zero");
        continue;
      }
      const key_type& key = Entries::key_of(in->entries[i]);
      const std::uint64_t hash = hash_of(key);
      invariant(in->tags[i] == group::tag_of(hash), "every entry has the tag of its hash");
      const slot found_at = locate(key, hash);
      invariant(found_at.in == in && found_at.i == i, "every entry is found where it is, and no key is there twice");
      for (path p{groups_, mask_, hash}; &p.here() != in; p.advance()) ++passings;
      ++entries;
    }
    passed += in->passed;
    uncounted = uncounted || in->passed == group::many;
  }
  invariant(entries == size_, "the size is the number of entries");
  invariant(uncounted || passed == passings, "groups count the entries that passed them");
}

}  // namespace detail
}  // namespace tenure
