// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The table under hash maps consists of groups of 15 slots. For each slot a group has a tag byte; all tags of a group
// are compared at once before any entry is read. The hash of an entry names its group. If that group is full, the entry
// goes to the next group of a sequence, and the groups that it passed count it. A lookup that finds nothing goes on to
// the next group only if entries have passed. So erasing leaves no tombstones, and entries move only when the table
// grows. After F14 [Bronson and Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", Facebook,
// 2019].
//
// A group is never constructed. Its memory comes zeroed, and entries are constructed in its slots. Free slots are zero.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/persist.hpp>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tenure::detail {

template <class Entry>
struct hash_group {
  static constexpr std::uint32_t slots = 15;
  static constexpr std::uint8_t many = 255;

  hash_group() = delete;
  ~hash_group() = delete;

  std::uint8_t tags[slots];  // 0: free; otherwise tag_of(the entry's hash)
  std::uint8_t passed;       // entries that found this group full and are in later ones; stays at `many`
  union {
    Entry entries[slots];
  };

  static constexpr auto persistent = members<&hash_group::tags, &hash_group::passed, &hash_group::entries>{} +
                                     rest_is_data{};  // what is before entries with a large alignment

  static std::uint8_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint8_t>(0x80U | hash >> 57U); }

  // Sets of slots: bit i is slot i.
  [[nodiscard]] std::uint32_t used() const noexcept {
#if defined(__SSE2__)
    return static_cast<std::uint32_t>(_mm_movemask_epi8(load())) & all;
#else
    return used_one_by_one();
#endif
  }
  [[nodiscard]] std::uint32_t tagged(std::uint8_t tag) const noexcept {
#if defined(__SSE2__)
    return static_cast<std::uint32_t>(
               _mm_movemask_epi8(_mm_cmpeq_epi8(load(), _mm_set1_epi8(static_cast<char>(tag))))) &
           all;
#else
    return tagged_one_by_one(tag);
#endif
  }
  [[nodiscard]] std::uint32_t used_one_by_one() const noexcept {
    std::uint32_t set = 0;
    for (std::uint32_t i = 0; i < slots; ++i) set |= static_cast<std::uint32_t>(tags[i] != 0) << i;
    return set;
  }
  [[nodiscard]] std::uint32_t tagged_one_by_one(std::uint8_t tag) const noexcept {
    std::uint32_t set = 0;
    for (std::uint32_t i = 0; i < slots; ++i) set |= static_cast<std::uint32_t>(tags[i] == tag) << i;
    return set;
  }

  static constexpr std::uint32_t all = (1U << slots) - 1;

 private:
#if defined(__SSE2__)
  [[nodiscard]] __m128i load() const noexcept { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(this)); }
#endif
};

template <class Entry, bool Const>
class hash_iterator {
 public:
  using group = hash_group<Entry>;
  using iterator_category = std::forward_iterator_tag;
  using value_type = Entry;
  using difference_type = std::ptrdiff_t;
  using reference = std::conditional_t<Const, const Entry&, Entry&>;
  using pointer = std::conditional_t<Const, const Entry*, Entry*>;

  hash_iterator() noexcept = default;
  // Refers to the first entry from slot `at` of `here` on.
  hash_iterator(group* here, group* end, std::uint32_t at) noexcept : here_(here), end_(end), at_(at) {}
  template <bool Other>
  requires(Const && !Other) hash_iterator(const hash_iterator<Entry, Other>& other)
  noexcept : here_(other.here()), end_(other.end()), at_(other.at()) {}

  // Refers to the first entry of the groups from `first` on.
  static hash_iterator first_of(group* first, group* end) noexcept {
    hash_iterator it{first, end, 0};
    if (first != end) it.find_used_slot(first->used());
    return it;
  }

  [[nodiscard]] reference operator*() const noexcept { return here_->entries[at_]; }
  [[nodiscard]] pointer operator->() const noexcept { return here_->entries + at_; }
  hash_iterator& operator++() noexcept {
    find_used_slot(here_->used() & (~std::uint32_t{1} << at_));
    return *this;
  }
  hash_iterator operator++(int) noexcept {
    hash_iterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const hash_iterator& a, const hash_iterator& b) noexcept {
    return a.here_ == b.here_ && a.at_ == b.at_;
  }

  [[nodiscard]] group* here() const noexcept { return here_; }
  [[nodiscard]] group* end() const noexcept { return end_; }
  [[nodiscard]] std::uint32_t at() const noexcept { return at_; }

 private:
  void find_used_slot(std::uint32_t left) noexcept {
    while (left == 0) {
      if (++here_ == end_) {
        at_ = 0;
        return;
      }
      left = here_->used();
    }
    at_ = static_cast<std::uint32_t>(std::countr_zero(left));
  }

  group* here_ = nullptr;
  group* end_ = nullptr;
  std::uint32_t at_ = 0;
};

}  // namespace tenure::detail
