// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for lists of addresses, which is cleared when it is given back. What is left in free memory of malloc looks like
// pointers of the program to a collector, and keeps objects [heap.collection.addresses].
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

namespace tenure::os {

template <class T>
struct clearing_allocator {
  using value_type = T;
  clearing_allocator() = default;
  template <class U>
  clearing_allocator(const clearing_allocator<U>&) noexcept {}
  [[nodiscard]] T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* at, std::size_t count) noexcept {
    std::memset(static_cast<void*>(at), 0, count * sizeof(T));
    asm volatile("" : : "r"(at) : "memory");  // or compilers leave it out
    std::allocator<T>().deallocate(at, count);
  }
  friend bool operator==(const clearing_allocator&, const clearing_allocator&) { return true; }
};

// Empties a vector that keeps its memory.
template <class Vector>
void clear_all_of(Vector& list) noexcept {
  static_assert(std::is_trivially_copyable_v<typename Vector::value_type>);
  if (!list.empty()) std::memset(static_cast<void*>(list.data()), 0, list.size() * sizeof(list[0]));
  list.clear();
}

}  // namespace tenure::os
