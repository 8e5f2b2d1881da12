// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// For the checks of containers: are free slots zero, and where is the damage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

namespace tenure::detail {

// Numbers leave their bytes behind: they are not taken for pointers.
template <class T>
bool slots_are_zero(const T* first, std::size_t count) noexcept {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return true;
  } else {
    const auto* bytes = reinterpret_cast<const unsigned char*>(first);
    return std::all_of(bytes, bytes + count * sizeof(T), [](unsigned char byte) { return byte == 0; });
  }
}

inline std::string hexadecimal(const void* address) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  return text;
}

}  // namespace tenure::detail
