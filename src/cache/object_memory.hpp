// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for the objects of a cache, with their guards before them where there are locks: those of one size lie side by side, in
// the order in which they came, so that programs that follow refs find them in few cache lines. In chunks, which are given back when
// they are empty. Large objects, and those of unusual alignment, come from operator new. So do all in builds with
// AddressSanitizer, for it to see who uses what is gone.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cache/address_table.hpp"

namespace tenure::cache {

struct cached_object;

class object_memory {
 public:
  // `lead`: bytes that are the caller's, before each object.
  explicit object_memory(std::size_t lead) : lead_(lead) {}
  object_memory(const object_memory&) = delete;
  object_memory& operator=(const object_memory&) = delete;

  [[nodiscard]] std::byte* allocate(std::uint64_t size, std::uint64_t alignment);
  void free(std::byte* object, std::uint64_t size, std::uint64_t alignment) noexcept;
  // Whether find() knows whose memory it is, when it was told.
  [[nodiscard]] bool is_small(std::uint64_t size, std::uint64_t alignment) const;
  void set_owner(std::byte* object, cached_object* owner) noexcept;
  // Of the place in which the address lies, among those of small objects; nullptr: there is none.
  [[nodiscard]] cached_object* find(std::uintptr_t address) const;

 private:
  static constexpr std::size_t unit = 16, largest = 1024, chunk_length = std::size_t{64} << 10;
  struct slot {
    slot* next;
  };
  // At its begin; found from an object by its address.
  struct chunk {
    chunk *next, *previous;  // of those with room for objects of this size
    slot* freed;
    std::uint32_t used, begun;  // slots that have objects, and that ever had
    std::uint32_t size_class, slots;
    // Behind it, for each slot, whose it is; then the slots.
    [[nodiscard]] cached_object** owners() { return reinterpret_cast<cached_object**>(this + 1); }
    [[nodiscard]] std::byte* begin() {
      return reinterpret_cast<std::byte*>(this) +
             (sizeof(chunk) + slots * sizeof(cached_object*) + unit - 1) / unit * unit;
    }
    [[nodiscard]] std::size_t slot_at(const std::byte* at) {
      return static_cast<std::size_t>(at - begin()) / (size_class * unit);
    }
  };

  // Of an object that is not small.
  [[nodiscard]] std::uint64_t lead_of(std::uint64_t alignment) const {
    return (lead_ + alignment - 1) / alignment * alignment;
  }
  [[nodiscard]] static std::size_t class_of(std::uint64_t size) {
    return static_cast<std::size_t>((size + unit - 1) / unit);
  }
  [[nodiscard]] static std::size_t slots_of(std::size_t size_class) {
    return (chunk_length - sizeof(chunk) - unit) / (size_class * unit + sizeof(cached_object*));
  }
  void link(std::size_t size_class, chunk& with_room) noexcept;
  void unlink(std::size_t size_class, chunk& full) noexcept;

  const std::size_t lead_;
  [[nodiscard]] static std::uintptr_t chunk_of(std::uintptr_t address) { return address / chunk_length * chunk_length; }

  address_table<chunk, 11> chunks_;  // far apart in the table: they are all neighbours, and would be one long run
  std::array<chunk*, largest / unit + 1> with_room_{};
};

}  // namespace tenure::cache
