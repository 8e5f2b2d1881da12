// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// For the checks of containers: whether free slots are zero.
#pragma once

#include <cstddef>
#include <type_traits>

namespace tenure::detail {

// Numbers may leave their bytes in free slots, because they are not mistaken for pointers.
template <class T>
bool slots_are_zero(const T* first, std::size_t count) noexcept {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return true;
  } else {
    const auto* bytes = reinterpret_cast<const unsigned char*>(first);
    for (std::size_t i = 0; i < count * sizeof(T); ++i)
      if (bytes[i] != 0) return false;
    return true;
  }
}

}  // namespace tenure::detail
