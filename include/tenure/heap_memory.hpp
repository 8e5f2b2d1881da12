// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where containers get their memory from. A memory policy is a class with two static functions:
//
//     template <class T> static T* allocate(std::size_t count, const void* near);
//     template <class T> static void deallocate(T* first, std::size_t count) noexcept;
//
// allocate gives places for `count` > 0 values of type T, all of their bytes zero; `near` is the container, or a place in it.
// It throws if there is no room. The policy has no state: containers that persist cannot hold an allocator.
#pragma once

#include <cstddef>

#include <tenure/allocation.hpp>
#include <tenure/fields.hpp>

namespace tenure {

// The object heap. The default of all containers.
struct heap_memory {
  template <class T>
  [[nodiscard]] static T* allocate(std::size_t count, const void* near) {
    return static_cast<T*>(detail::allocate(type_of<T>(), count, near));
  }
  template <class T>
  static void deallocate(T* first, std::size_t) noexcept {
    detail::deallocate(first);
  }
};

}  // namespace tenure
