// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for lists of objects' addresses. It is cleared when it is given back: what is left in free memory of malloc looks like
// pointers of the program to a collector, and keeps objects.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "objects/block_map.hpp"

namespace tenure::heap {

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

using address_set = std::unordered_set<address, std::hash<address>, std::equal_to<>, clearing_allocator<address>>;
template <class T>
using address_list = std::vector<T, clearing_allocator<T>>;

}  // namespace tenure::heap
