// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The store's own objects that refer to others without keeping them: what a weak reference (weak.hpp) and a finalization queue
// (finalization_queue.hpp) consist of. They are ordinary persistent objects, and their layouts are part of the format.
#pragma once

#include <cstdint>
#include <utility>

#include <tenure/persist.hpp>

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

struct finalization_entry;

#pragma GCC visibility push(default)  // libtenure.so exports it

// The entries of a queue, in two lists.
class finalization_list {
 public:
  finalization_list() = default;
  finalization_list(const finalization_list&) = delete;
  finalization_list& operator=(const finalization_list&) = delete;
  ~finalization_list();

  void watch(void* object);
  [[nodiscard]] void* take();
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  // The first and the last message, or the first entry that watches something.
  [[nodiscard]] std::pair<const finalization_entry*, const finalization_entry*> ends_of_list(bool of_messages) const {
    return of_messages ? std::pair<const finalization_entry*, const finalization_entry*>(first_, last_)
                       : std::pair<const finalization_entry*, const finalization_entry*>(watched_, nullptr);
  }
  // What the entry watches becomes a message.
  void post(finalization_entry& of);
  // The entry leaves its list.
  void unlink(finalization_entry& of);

 private:
  finalization_entry* watched_ = nullptr;                  // the first
  finalization_entry *first_ = nullptr, *last_ = nullptr;  // messages
  std::uint64_t size_ = 0;                                 // of these

 public:
  static constexpr auto persistent = members<&finalization_list::watched_, &finalization_list::first_,
                                             &finalization_list::last_, &finalization_list::size_>{};
};

#pragma GCC visibility pop

// An object that a queue watches, or has a message of.
struct finalization_entry {
  weak_cell watched;       // the object, until nothing else leads to it
  void* object = nullptr;  // the same from then on
  finalization_list* of = nullptr;
  finalization_entry *before = nullptr, *next = nullptr;
};

}  // namespace tenure::detail
