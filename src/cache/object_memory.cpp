// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/object_memory.hpp"

#include <algorithm>
#include <new>

#include "os/sanitizers.hpp"

namespace tenure::cache {

bool object_memory::is_small(std::uint64_t size, std::uint64_t alignment) const {
  return !os::address_sanitizer && size != 0 && size + lead_ <= largest && alignment <= unit;
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
    chunks_.reserve(1);
    in = ::new (::operator new(chunk_length, std::align_val_t(chunk_length))) chunk{};
    in->size_class = static_cast<std::uint32_t>(size_class);
    in->slots = static_cast<std::uint32_t>(slots_of(size_class));
    std::fill_n(in->owners(), in->slots, nullptr);
    chunks_.add(reinterpret_cast<std::uintptr_t>(in), in);
    link(size_class, *in);
  }
  std::byte* found = nullptr;
  if (in->freed != nullptr) {
    found = reinterpret_cast<std::byte*>(in->freed);
    in->freed = in->freed->next;
  } else {
    found = in->begin() + in->begun++ * size_class * unit;
  }
  if (++in->used == in->slots) unlink(size_class, *in);
  return found + lead_;
}

void object_memory::free(std::byte* object, std::uint64_t size, std::uint64_t alignment) noexcept {
  if (!is_small(size, alignment)) {
    alignment = std::max<std::uint64_t>(alignment, unit);
    return ::operator delete(object - lead_of(alignment), std::align_val_t(alignment));
  }
  object -= lead_;
  const std::size_t size_class = class_of(size + lead_);
  chunk& in = *reinterpret_cast<chunk*>(chunk_of(reinterpret_cast<std::uintptr_t>(object)));
  in.owners()[in.slot_at(object)] = nullptr;
  in.freed = ::new (object) slot{in.freed};
  if (in.used-- == in.slots) link(size_class, in);
  if (in.used != 0) return;
  unlink(size_class, in);
  chunks_.erase(reinterpret_cast<std::uintptr_t>(&in));
  ::operator delete(&in, std::align_val_t(chunk_length));
}

void object_memory::set_owner(std::byte* object, cached_object* owner) noexcept {
  chunk& in = *reinterpret_cast<chunk*>(chunk_of(reinterpret_cast<std::uintptr_t>(object)));
  in.owners()[in.slot_at(object)] = owner;
}

cached_object* object_memory::find(std::uintptr_t address) const {
  chunk* const in = chunks_.find(chunk_of(address));
  const auto* const at = reinterpret_cast<const std::byte*>(address);
  if (in == nullptr || at < in->begin()) return nullptr;
  const std::size_t n = in->slot_at(at);
  return n < in->slots ? in->owners()[n] : nullptr;
}

}  // namespace tenure::cache
