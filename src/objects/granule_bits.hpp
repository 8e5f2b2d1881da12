// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A set of objects of one database: a bit for each granule of its blocks, up to some block. What is said of objects behind
// that block is forgotten. In memory that no child of a fork has, or in memory that the caller shares with one.
//
// Not thread-safe, except where a comment says otherwise.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "objects/block_map.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::heap {

class granule_bits {
 public:
  // Of the blocks below `blocks`.
  granule_bits(address home, std::uint64_t blocks)
      : home_(home), granules_(blocks * granules_in_block), owned_(length_of(blocks)) {
    words_ = static_cast<std::uint64_t*>(os::map_anonymous(nullptr, owned_));
    os::exclude_from_fork(words_, owned_);
  }
  // In `memory`, all zeros, of length_of(blocks) bytes.
  granule_bits(address home, std::uint64_t blocks, std::byte* memory)
      : home_(home), granules_(blocks * granules_in_block), words_(reinterpret_cast<std::uint64_t*>(memory)) {}
  ~granule_bits() {
    if (owned_ != 0) os::unmap(words_, owned_);
  }
  granule_bits(const granule_bits&) = delete;
  granule_bits& operator=(const granule_bits&) = delete;

  // Whole pages.
  [[nodiscard]] static std::size_t length_of(std::uint64_t blocks) {
    const std::size_t page = os::page_size();
    return (blocks * sizeof(start_bits) + page - 1) / page * page;
  }

  [[nodiscard]] bool covers(address object) const { return (object - home_) / granule < granules_; }
  [[nodiscard]] bool test(address object) const {
    const std::uint64_t bit = (object - home_) / granule;
    return bit < granules_ && (word(bit).load(std::memory_order_relaxed) >> (bit % 64) & 1) != 0;
  }
  void prefetch(address object) const {
    const std::uint64_t bit = (object - home_) / granule;
    if (bit < granules_) __builtin_prefetch(&words_[bit / 64], 1);
  }
  void set(address object) {
    const std::uint64_t bit = (object - home_) / granule;
    if (bit >= granules_) return;
    // One thread at a time, but test() and add_block_to() may read meanwhile.
    word(bit).store(word(bit).load(std::memory_order_relaxed) | std::uint64_t{1} << (bit % 64),
                    std::memory_order_relaxed);
  }
  // The same while other threads add some. Returns whether it was not there.
  bool add(address object) {
    const std::uint64_t bit = (object - home_) / granule, mask = std::uint64_t{1} << (bit % 64);
    return bit < granules_ && (word(bit).fetch_or(mask, std::memory_order_relaxed) & mask) == 0;
  }
  void reset(address object) {
    const std::uint64_t bit = (object - home_) / granule;
    if (bit < granules_) words_[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
  }
  // Adds those of a block; all, if nothing is said of it. While another thread sets some: with these, or without.
  void add_block_to(std::uint64_t block, start_bits& to) const {
    const bool is_covered = block * granules_in_block < granules_;
    for (std::size_t n = 0; n < start_bits::words; ++n)
      to.word(n) |=
          is_covered ? word(block * granules_in_block + n * 64).load(std::memory_order_relaxed) : ~std::uint64_t{0};
  }
  // Calls f(address of the granule) for each that is set, in ascending order, while f returns true.
  template <class F>
  void for_each_while(F&& f) const {
    for (std::uint64_t n = 0; n < granules_ / 64; ++n)
      for (std::uint64_t bits = words_[n]; bits != 0; bits &= bits - 1)
        if (!f(home_ + (n * 64 + static_cast<std::uint64_t>(std::countr_zero(bits))) * granule)) return;
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::uint64_t bit) const {
    return std::atomic_ref(words_[bit / 64]);
  }

  address home_;
  std::uint64_t granules_;
  std::uint64_t* words_ = nullptr;
  std::size_t owned_ = 0;  // bytes
};

}  // namespace tenure::heap
