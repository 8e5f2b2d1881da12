// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes new values of old ones, as a plan says. References in them are still those of the old ones.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "rewrite/conversion_memory.hpp"
#include "types/evolution.hpp"

namespace tenure::rewriting {

// Memory for values of every alignment that is less than a page: functions and constructors run there.
template <class T>
struct aligned_for_values {
  using value_type = T;
  aligned_for_values() = default;
  template <class U>
  aligned_for_values(const aligned_for_values<U>&) {}
  static constexpr std::align_val_t alignment{4096};
  [[nodiscard]] T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, alignment); }
  friend bool operator==(const aligned_for_values&, const aligned_for_values&) { return true; }
};
using value_bytes = std::vector<std::byte, aligned_for_values<std::byte>>;

// `old`: whole values, where the store is mapped. Throws errc::schema_mismatch if a value does not fit, and what functions
// throw.
void convert(const types::value_conversion& how, std::span<const std::byte> old, value_bytes& into,
             detail::conversion_memory& further);
// The same, but only those of the numbers from `first` to `end` are values: the others become zero.
void convert(const types::value_conversion& how, std::span<const std::byte> old, std::uint64_t first, std::uint64_t end,
             value_bytes& into, detail::conversion_memory& further);

// The same for one value, where it will stay until it is written. `was`: a copy of the old one.
void convert_one(const types::value_conversion& how, const std::byte* was, std::byte* into,
                 detail::conversion_memory& further);

}  // namespace tenure::rewriting
