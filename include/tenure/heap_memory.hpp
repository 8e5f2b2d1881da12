// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where containers get their memory from. A memory policy is a class with two static functions:
//
//     template <class T> static T* allocate(std::size_t count, const void* near);
//     template <class T> static void deallocate(T* first, std::size_t count) noexcept;
//
// allocate gives places for `count` > 0 values of type T, all of their bytes zero; `near` is the container, or a place in it.
// It throws if there is no room. deallocate gets what allocate gave, with the same count, and nothing in it is alive. Both may be
// called by any number of threads. The policy has no state: containers that persist cannot hold an allocator.
#pragma once

#include <cstddef>

#include <tenure/allocation.hpp>
#include <tenure/fields.hpp>

namespace tenure {

// The object heap, the default of all containers: memory is a transient object of its own, in the database that `near` is in,
// else in the default database of the store whose write transaction the thread has begun last, else of the store that was opened
// last. It persists when its container does. What is given back is free after the commit, and comes back with an abort.
// allocate throws tenure::error: errc::closed if no store is open, errc::read_only, errc::out_of_memory if the database is full,
// errc::schema_mismatch if T is stored with another layout. deallocate outside of write transactions leaves persistent memory to
// the garbage collection that is to come.
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
