// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is known by address, in one array: a hash table with linear probing, at most half full. Neighbours in the address space
// are neighbours in the table, in runs of 32 units, because programs go from one object to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenure::cache {

// Addresses are not 0, and differ in bits from `UnitBits` up.
template <class T, unsigned UnitBits>
class address_table {
 public:
  // nullptr: nothing is known.
  [[nodiscard]] T* find(std::uint64_t address) const {
    if (used_ == 0) return nullptr;
    for (std::size_t n = first(address);; n = next(n)) {
      if (entries_[n].address == address) return entries_[n].value;
      if (entries_[n].address == 0) return nullptr;
    }
  }
  // find() will be called soon.
  void prefetch(std::uint64_t address) const {
    if (used_ != 0) __builtin_prefetch(&entries_[first(address)]);
  }
  // So that as many can be added without an error.
  void reserve(std::size_t more) {
    if ((used_ + more) * 2 <= entries_.size()) return;
    std::size_t size = entries_.empty() ? 32 : entries_.size();
    while (size < (used_ + more) * 2) size *= 2;
    std::vector<entry> old(size);
    old.swap(entries_);
    used_ = 0;
    for (const entry& e : old)
      if (e.address != 0) add(e.address, e.value);
  }
  // An address of which nothing is known; there is room.
  void add(std::uint64_t address, T* value) noexcept {
    std::size_t n = first(address);
    while (entries_[n].address != 0) n = next(n);
    entries_[n] = {address, value};
    ++used_;
  }
  // Whether something was known.
  bool erase(std::uint64_t address) noexcept {
    if (used_ == 0) return false;
    std::size_t hole = first(address);
    for (; entries_[hole].address != address; hole = next(hole))
      if (entries_[hole].address == 0) return false;
    // Those behind it move up, unless they would come before their places.
    for (std::size_t n = next(hole); entries_[n].address != 0; n = next(n)) {
      const std::size_t from_place = (n - first(entries_[n].address)) & mask();
      if (from_place < ((n - hole) & mask())) continue;
      entries_[hole] = entries_[n];
      hole = n;
    }
    entries_[hole] = {};
    --used_;
    return true;
  }
  [[nodiscard]] std::size_t size() const { return used_; }

 private:
  struct entry {
    std::uint64_t address = 0;
    T* value = nullptr;
  };
  static constexpr unsigned run_bits = 5;
  [[nodiscard]] std::size_t mask() const { return entries_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t n) const { return (n + 1) & mask(); }
  [[nodiscard]] std::size_t first(std::uint64_t address) const {
    const std::uint64_t run = (address >> (UnitBits + run_bits)) * 0x9e3779b97f4a7c15;
    const std::uint64_t in_run = (address >> UnitBits) & ((1U << run_bits) - 1);
    return static_cast<std::size_t>((run >> 20U) + in_run) & mask();
  }

  std::vector<entry> entries_;  // a power of two
  std::size_t used_ = 0;
};

}  // namespace tenure::cache
