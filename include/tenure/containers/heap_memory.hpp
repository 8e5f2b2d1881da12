// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The memory of containers. A memory policy is a class with two static functions:
//
//     template <class T> static T* allocate(std::size_t count, const void* near);
//     template <class T> static void deallocate(T* first, std::size_t count) noexcept;
//
// allocate returns space for `count` > 0 values of type T, with all bytes zero. `near` is the container, or a place in
// it. It throws if there is no memory. deallocate gets a result of allocate, with the same count. No value in it is
// alive then. Any number of threads may call both. The policy has no state, because containers that persist cannot hold
// an allocator.
#pragma once

#include <cstddef>

#include <tenure/types/allocation.hpp>
#include <tenure/types/fields.hpp>

namespace tenure {

// The object heap, the default policy of all containers. Each allocation is a transient object, in the database that
// contains `near`, or else in the default database of the store whose write transaction the thread has begun last, or
// else of the store that was opened last. If `near` is in an object of a cache (tenure/cache.hpp), or else if the thread changes a
// store in a cache and none that is mapped, the allocation is in that store. It becomes persistent together with its
// container. Strings and vectors that move from one store into another leave their memory behind; maps and hash tables keep
// it, which the commit refuses. Deallocated memory is free after the commit; an abort restores it. allocate throws tenure::error: errc::closed if no store is open,
// errc::read_only, errc::out_of_memory if the database is full, errc::schema_mismatch if T is stored with another
// layout. deallocate outside of write transactions leaves persistent memory to the future garbage collection.
struct heap_memory {
  template <class T>
  [[nodiscard]] static T* allocate(std::size_t count, const void* near) {
    return static_cast<T*>(detail::allocate(type_of<T>(), count, near));
  }
  template <class T>
  static void deallocate(T* first, std::size_t) noexcept {
    detail::deallocate(first);
  }
  // For strings and vectors that move: whether they leave this memory behind, because it is in another store than they.
  [[nodiscard]] static bool is_elsewhere(const void* first, const void* near) noexcept {
    return detail::is_in_another_store(near, first);
  }
};

namespace detail {
template <class Memory>
[[nodiscard]] bool is_elsewhere(const void* first, const void* near) noexcept {
  if constexpr (requires { Memory::is_elsewhere(first, near); })
    return first != nullptr && Memory::is_elsewhere(first, near);
  else
    return false;
}
}  // namespace detail

}  // namespace tenure
