// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for lists of addresses, which is cleared when it is given back. What is left in free memory of malloc looks like
// pointers of the program to a collector, and keeps objects [heap.collection.addresses].
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

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

template <class T>
using cleared_vector = std::vector<T, clearing_allocator<T>>;

// Shortens a vector that keeps its memory.
template <class Vector>
void shorten(Vector& list, std::size_t size) noexcept {
  static_assert(std::is_trivially_copyable_v<typename Vector::value_type>);
  if (size >= list.size()) return;
  std::memset(static_cast<void*>(list.data() + size), 0, (list.size() - size) * sizeof(list[0]));
  list.resize(size);
}
template <class Vector>
void clear_all_of(Vector& list) noexcept {
  shorten(list, 0);
}

// Overwrites what calls have left on the stack of the calling thread, which is the library's own: others may be small.
[[gnu::noinline]] inline void clear_unused_stack() noexcept {
  std::array<std::byte, 32 << 10> unused;
  std::memset(unused.data(), 0, unused.size());
  asm volatile("" : : "r"(unused.data()) : "memory");
}

}  // namespace tenure::os
