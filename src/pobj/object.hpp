// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The 16 bytes before every handle [pobj 4.1].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pobj/format.hpp"

namespace tenure::pobj {

struct object_header {
  std::uint64_t slot : 48;       // where the image is; 0: transient
  std::uint64_t mark : 16;       // of the last traversal that met the object
  std::uint64_t size : 34;       // bytes
  std::uint64_t type : 18;       // not valid if own_type
  std::uint64_t allocator : 10;  // where the memory came from: index in allocator_table
  std::uint64_t dying : 1;       // freed by a transaction that has not ended
  std::uint64_t own_type : 1;    // being typed word by word: type_table::own
};
static_assert(sizeof(object_header) == 16);

// The bytes to request from a memory manager: at least one, so that a handle is never the begin of the next block.
[[nodiscard]] constexpr std::size_t block_size(std::uint64_t size) {
  return sizeof(object_header) + static_cast<std::size_t>(size == 0 ? 1 : size);
}

// An object in memory, which is known to be one.
struct object {
  std::byte* handle = nullptr;

  [[nodiscard]] object_header& header() const {
    return *reinterpret_cast<object_header*>(handle - sizeof(object_header));
  }
  [[nodiscard]] void* block() const { return handle - sizeof(object_header); }
  [[nodiscard]] std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(handle); }
  [[nodiscard]] bool is_persistent() const { return header().slot != 0; }
  [[nodiscard]] explicit operator bool() const { return handle != nullptr; }

  // The masks show that no bits are lost.
  void begin(position slot, std::uint64_t size, std::uint64_t type, std::uint64_t allocator) const {
    header() = {};
    header().size = size & slot_word::size_mask;
    header().allocator = allocator & 0x3ff;
    set_slot(slot);
    set_type(type);
  }
  void set_slot(position slot) const { header().slot = slot & 0xffff'ffff'ffff; }
  void set_type(std::uint64_t type) const { header().type = type & slot_word::type_free; }

  friend bool operator==(const object&, const object&) = default;
};

// Words are read and written as bytes, because the program chooses the types of the memory.
[[nodiscard]] inline std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
inline void store_word(std::byte* to, std::uint64_t word) { std::memcpy(to, &word, sizeof word); }

}  // namespace tenure::pobj
