// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/object_memory.hpp"

#include <algorithm>
#include <new>

namespace tenure::cache {

bool object_memory::is_small(std::uint64_t size, std::uint64_t alignment) const {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return false;
#endif
#endif
  return size != 0 && size + lead_ <= largest && alignment <= unit;
}

void object_memory::link(std::size_t size_class, chunk& with_room) noexcept {
  chunk*& first = with_room_[size_class];
  with_room.previous = nullptr;
  with_room.next = first;
  if (first != nullptr) first->previous = &with_room;
  first = &with_room;
}

void object_memory::unlink(std::size_t size_class, chunk& full) noexcept {
  (full.previous != nullptr ? full.previous->next : with_room_[size_class]) = full.next;
  if (full.next != nullptr) full.next->previous = full.previous;
}

std::byte* object_memory::allocate(std::uint64_t size, std::uint64_t alignment) {
  if (!is_small(size, alignment)) {
    alignment = std::max<std::uint64_t>(alignment, unit);
    const std::uint64_t lead = lead_of(alignment);
    return static_cast<std::byte*>(::operator new(static_cast<std::size_t>(lead + size), std::align_val_t(alignment))) +
           lead;
  }
  const std::size_t size_class = class_of(size + lead_);
  chunk* in = with_room_[size_class];
  if (in == nullptr) {
    in = ::new (::operator new(chunk_length, std::align_val_t(chunk_length))) chunk{};
    link(size_class, *in);
  }
  std::byte* found = nullptr;
  if (in->freed != nullptr) {
    found = reinterpret_cast<std::byte*>(in->freed);
    in->freed = in->freed->next;
  } else {
    found = reinterpret_cast<std::byte*>(in) + first_slot + in->begun++ * size_class * unit;
  }
  if (++in->used == slots_of(size_class)) unlink(size_class, *in);
  return found + lead_;
}

void object_memory::free(std::byte* object, std::uint64_t size, std::uint64_t alignment) noexcept {
  if (!is_small(size, alignment)) {
    alignment = std::max<std::uint64_t>(alignment, unit);
    return ::operator delete(object - lead_of(alignment), std::align_val_t(alignment));
  }
  object -= lead_;
  const std::size_t size_class = class_of(size + lead_);
  chunk& in = *reinterpret_cast<chunk*>(reinterpret_cast<std::uintptr_t>(object) / chunk_length * chunk_length);
  in.freed = ::new (object) slot{in.freed};
  if (in.used-- == slots_of(size_class)) link(size_class, in);
  if (in.used != 0) return;
  unlink(size_class, in);
  ::operator delete(&in, std::align_val_t(chunk_length));
}

}  // namespace tenure::cache
