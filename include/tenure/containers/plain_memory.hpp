// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The memory policy for containers that never persist: operator new. tenure::vector<int, tenure::plain_memory> works in any
// program, without a store. Throws std::bad_alloc. Thread-safe.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>

namespace tenure {

struct plain_memory {
  template <class T>
  [[nodiscard]] static T* allocate(std::size_t count, const void*) {
    void* room = nullptr;
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
      room = ::operator new(count * sizeof(T), std::align_val_t(alignof(T)));
    else
      room = ::operator new(count * sizeof(T));
    return static_cast<T*>(std::memset(room, 0, count * sizeof(T)));
  }
  template <class T>
  static void deallocate(T* first, std::size_t) noexcept {
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
      ::operator delete(static_cast<void*>(first), std::align_val_t(alignof(T)));
    else
      ::operator delete(static_cast<void*>(first));
  }
};

}  // namespace tenure
