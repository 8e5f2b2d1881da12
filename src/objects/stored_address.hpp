// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where an object is according to what is stored: an address in a database's home range. It is a type of its own, because
// bytes that hold one may be read where the database is not mapped: from a file, or at another address.
//
// Fields of objects, also those of stored_types.hpp, are plain pointers: they are used in place, where the database is
// mapped at home. Who looks at such bytes without that knowledge takes a stored_address from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenure::heap {

enum class stored_address : std::uint64_t { none = 0 };

// The address that stored bytes hold.
[[nodiscard]] inline stored_address stored_address_in(const std::byte* bytes) noexcept {
  std::uint64_t value;
  std::memcpy(&value, bytes, sizeof value);
  return stored_address{value};
}
// What is stored for an object that is mapped at its home.
[[nodiscard]] inline stored_address stored_address_of(const void* mapped) noexcept {
  return stored_address{reinterpret_cast<std::uintptr_t>(mapped)};
}
// Where it is in this process: databases are mapped at home.
[[nodiscard]] inline const void* in_memory(stored_address at) noexcept {
  return reinterpret_cast<const void*>(static_cast<std::uint64_t>(at));
}
// The address before it.
[[nodiscard]] inline stored_address byte_before(stored_address at) noexcept {
  return stored_address{static_cast<std::uint64_t>(at) - 1};
}
// The object that is there, which must have the type.
template <class T>
[[nodiscard]] T* object_at(stored_address at) noexcept {
  return reinterpret_cast<T*>(static_cast<std::uint64_t>(at));
}

}  // namespace tenure::heap
