// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that are marked, and whose references were not followed yet: those of each follower, and those for which these have
// no room. The memory is bounded, and no child of a fork has it: addresses in it are no roots.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <span>

#include "objects/granule_bits.hpp"

namespace tenure::heap {

class grey_objects;

// Grey objects of which only bits are known. Any thread may add some; all else is for one at a time, while nobody adds.
class grey_rest {
 public:
  void cover(address home, std::uint64_t blocks) { bits_.emplace_back(home, blocks); }
  void add(std::size_t database, address object) {
    bits_[database].add(object);
    has_some_.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] bool empty() const { return !has_some_.load(std::memory_order_relaxed); }
  // Moves some, if there are any. `to` is empty.
  void give(grey_objects& to);

 private:
  std::deque<granule_bits> bits_;  // by database
  std::atomic<bool> has_some_{false};
};

// Of one follower: the last one comes first. Not thread-safe.
class grey_objects {
 public:
  grey_objects();
  ~grey_objects();
  grey_objects(const grey_objects&) = delete;
  grey_objects& operator=(const grey_objects&) = delete;

  // Returns whether there was room.
  [[nodiscard]] bool push(address object) {
    if (is_full()) return false;
    objects_[end_++ & (capacity - 1)] = object;
    return true;
  }
  // 0: there is none.
  [[nodiscard]] address pop() { return empty() ? 0 : objects_[--end_ & (capacity - 1)]; }
  [[nodiscard]] std::size_t size() const { return end_ - begin_; }
  [[nodiscard]] bool empty() const { return end_ == begin_; }
  [[nodiscard]] bool is_full() const { return size() == capacity; }
  // Copies the last ones, those that come next, and returns how many.
  [[nodiscard]] std::size_t copy_last(std::span<address> to) const;
  // Gives the first ones away, which come last, and to which most may be connected. There are so many.
  void give_first(std::span<address> to);
  // Takes the first ones of each database, which come next in the order of addresses, for the disk's sake. Returns whether these
  // were all. It is empty before.
  [[nodiscard]] bool refill_from(std::deque<granule_bits>& rest);

#ifdef TENURE_SMALL_GEOMETRY
  static constexpr std::size_t capacity = 64;
#else
  static constexpr std::size_t capacity = 1 << 20;  // a power of two
#endif

 private:
  address* objects_;  // a ring
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace tenure::heap
