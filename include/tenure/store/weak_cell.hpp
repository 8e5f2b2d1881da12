// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The store's own objects that refer to others without keeping them: what a weak reference (weak.hpp) and a finalization queue
// (finalization_queue.hpp) consist of. They are ordinary persistent objects, and their layouts are part of the format.
#pragma once

#include <cstdint>

namespace tenure::detail {

// Where a weak reference leads. All weak references to one object share it.
struct weak_cell {
  std::uint64_t hidden =
      0;  // the complement of the address, so that nothing takes it for a pointer; 0: the object is gone
};
[[nodiscard]] inline std::uint64_t hide(const void* object) noexcept {
  return ~reinterpret_cast<std::uintptr_t>(object);
}
[[nodiscard]] inline void* shown(std::uint64_t hidden) noexcept {
  return hidden == 0 ? nullptr : reinterpret_cast<void*>(~hidden);
}

class [[gnu::visibility("default")]] finalization_list;  // libtenure.so exports it

// An object that a queue watches, or has a message of.
struct finalization_entry {
  weak_cell watched;       // the object, until nothing else leads to it
  void* object = nullptr;  // the same from then on
  finalization_list* of = nullptr;
  finalization_entry *before = nullptr, *next = nullptr;
};

}  // namespace tenure::detail
