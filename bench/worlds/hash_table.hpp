// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A hash map with integer keys over any memory (see sequences.hpp): open addressing, linear probing, at most 3/4 full,
// erasure by shifting back.
#pragma once

#include <cstdint>
#include <memory>

namespace tenure::bench {

template <class M, class K, class V>
class memory_hash_map {
 public:
  memory_hash_map() = default;
  ~memory_hash_map() { release(); }
  memory_hash_map(const memory_hash_map&) = delete;
  memory_hash_map& operator=(const memory_hash_map&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  // A null pointer if there is none.
  [[nodiscard]] const V* find_value(const K& key) const {
    if (size_ == 0) return nullptr;
    const slot* const all = slots();
    for (std::size_t i = home(key);; i = next(i)) {
      if (!all[i].used) return nullptr;
      if (all[i].key == key) return &all[i].value;
    }
  }
  // The key must be new.
  void insert(const K& key, const V& value) {
    M::writing(this, sizeof *this);
    if ((size_ + 1) * 4 > capacity_ * 3) grow();
    place(slots(), key, value);
    ++size_;
  }
  bool erase(const K& key) {
    if (size_ == 0) return false;
    slot* const all = slots();
    std::size_t hole = home(key);
    for (; all[hole].used && !(all[hole].key == key);) hole = next(hole);
    if (!all[hole].used) return false;
    for (std::size_t i = next(hole); all[i].used; i = next(i)) {
      // An element moves into the hole unless its home lies behind it.
      if (((i - home(all[i].key)) & (capacity_ - 1)) < ((i - hole) & (capacity_ - 1))) continue;
      M::writing(&all[hole], sizeof(slot));
      all[hole] = all[i];
      hole = i;
    }
    M::writing(&all[hole], sizeof(slot));
    all[hole].used = false;
    M::writing(this, sizeof *this);
    --size_;
    return true;
  }

 private:
  struct slot {
    K key;
    V value;
    bool used;
  };
  slot* slots() const { return &*slots_; }
  std::size_t next(std::size_t i) const { return (i + 1) & (capacity_ - 1); }
  std::size_t home(const K& key) const {
    std::uint64_t h = static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15U;
    return (h ^ (h >> 32)) & (capacity_ - 1);
  }
  void place(slot* all, const K& key, const V& value) {
    std::size_t i = home(key);
    while (all[i].used) i = next(i);
    M::writing(&all[i], sizeof(slot));
    all[i].key = key;
    all[i].value = value;
    all[i].used = true;
  }
  void grow() {
    const auto old = slots_;
    const std::size_t old_capacity = capacity_;
    capacity_ = old_capacity == 0 ? 16 : old_capacity * 2;
    slots_ = M::template allocate<slot>(capacity_);
    std::uninitialized_value_construct_n(slots(), capacity_);
    for (std::size_t i = 0; i < old_capacity; ++i)
      if ((&*old)[i].used) place(slots(), (&*old)[i].key, (&*old)[i].value);
    if (old) M::template deallocate<slot>(old, old_capacity);
  }
  void release() {
    if (slots_) M::template deallocate<slot>(slots_, capacity_);
  }
  typename M::template ptr<slot> slots_ = nullptr;
  std::uint64_t size_ = 0, capacity_ = 0;  // capacity: a power of two, or 0
};

}  // namespace tenure::bench
