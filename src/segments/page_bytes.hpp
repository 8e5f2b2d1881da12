// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Sets of bytes of a page, and a hash table from pages to indices. Replay and the inter-transaction optimization use
// them to know which bytes a newer change has covered already.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

#include "segments/format.hpp"

namespace tenure::rvm {

// A set of bytes within one page.
class page_bytes {
 public:
  [[nodiscard]] bool contains(std::uint32_t from, std::uint32_t to) const {
    bool all = true;
    for_each_word(from, to, [&](std::uint64_t word, std::uint64_t mask) { all = all && (word & mask) == mask; });
    return all;
  }
  [[nodiscard]] bool empty() const {
    return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
  }
  void insert(std::uint32_t from, std::uint32_t to) {
    assert(from <= to && to <= redo_page);
    for (std::uint32_t word = from / 64; word * 64 < to; ++word) words_[word] |= mask_of(word, from, to);
  }
  // Calls f(from, to) for each maximal run of bytes in [from, to) that are not in the set.
  template <class F>
  void for_each_missing(std::uint32_t from, std::uint32_t to, F&& f) const {
    while (from < to) {
      from = next(from, to, state::missing);
      const std::uint32_t end = next(from, to, state::in_set);
      if (from < end) f(from, end);
      from = end;
    }
  }

 private:
  // The bits of word `word` that stand for bytes in [from, to).
  static std::uint64_t mask_of(std::uint32_t word, std::uint32_t from, std::uint32_t to) {
    const std::uint32_t base = word * 64;
    std::uint64_t mask = ~std::uint64_t{0};
    if (from > base) mask &= ~std::uint64_t{0} << (from - base);
    if (to < base + 64) mask &= ~std::uint64_t{0} >> (base + 64 - to);
    return mask;
  }
  template <class F>
  void for_each_word(std::uint32_t from, std::uint32_t to, F&& f) const {
    for (std::uint32_t word = from / 64; word * 64 < to; ++word) f(words_[word], mask_of(word, from, to));
  }
  enum class state { in_set, missing };
  // The first byte at or after `from` that is in the set, or is not in it; `to` if there is none.
  [[nodiscard]] std::uint32_t next(std::uint32_t from, std::uint32_t to, state wanted) const {
    while (from < to) {
      const std::uint64_t word = wanted == state::in_set ? words_[from / 64] : ~words_[from / 64];
      if (const std::uint64_t rest = word >> (from % 64); rest != 0) {
        const auto found = from + static_cast<std::uint32_t>(std::countr_zero(rest));
        return found < to ? found : to;
      }
      from = (from / 64 + 1) * 64;
    }
    return to;
  }

  std::uint64_t words_[redo_page / 64] = {};
};
static_assert(sizeof(page_bytes) == redo_page / 8);

// Names a page of one of several segments.
struct page_key {
  std::uint32_t segment;
  std::uint64_t page;  // offset in the segment's data / redo_page; below 2^48
  friend bool operator==(const page_key&, const page_key&) = default;
  [[nodiscard]] std::uint64_t packed() const { return (std::uint64_t{segment} << 48) | page; }
};

// An open-addressing table from pages to indices into a vector of the caller. It only grows. A node-based map would
// allocate memory for every page that recovery touches.
class page_index {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // The page's index. A new page gets `next`.
  std::uint32_t find_or_insert(page_key key, std::uint32_t next) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    slot& at = slots_[position(key.packed())];
    if (at.index == none) {
      at = {key.packed(), next};
      ++size_;
    }
    return at.index;
  }
  [[nodiscard]] std::uint32_t find(page_key key) const {
    return slots_.empty() ? none : slots_[position(key.packed())].index;
  }
  void clear() {
    std::ranges::fill(slots_, slot{});
    size_ = 0;
  }
  [[nodiscard]] std::size_t memory_used() const { return slots_.size() * sizeof(slot); }

 private:
  struct slot {
    std::uint64_t key = 0;
    std::uint32_t index = none;
  };
  [[nodiscard]] std::size_t position(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key * 0x9e3779b97f4a7c15u) >> 20 & mask;
    while (slots_[at].index != none && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<slot> old(slots_.empty() ? 1024 : slots_.size() * 2);
    old.swap(slots_);
    for (const slot& s : old)
      if (s.index != none) slots_[position(s.key)] = s;
  }

  std::vector<slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace tenure::rvm
