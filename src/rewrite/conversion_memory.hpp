// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What functions of a conversion see and make: old objects, where the store is mapped, and further objects in memory of the
// process, until they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include <tenure/types/evolve.hpp>

#include "objects/database_set.hpp"

namespace tenure::detail {

// One thread at a time.
class conversion_memory {
 public:
  explicit conversion_memory(const database_set& store) : store_(store) {}

  // An object, or an array, that did not exist.
  struct made_object {
    const type* of;
    std::uint64_t bytes;
    std::unique_ptr<std::byte[]> memory;
    std::byte* at;            // in that memory, aligned
    heap::address place = 0;  // in the new store; 0: it has none yet
  };
  // Zeroed.
  [[nodiscard]] void* allocate(const type& of, std::uint64_t count);
  // The one that contains the address, or ends there.
  [[nodiscard]] made_object* find(heap::address at);
  // Those that were made since the last time are gone.
  void clear() { made_.clear(); }
  [[nodiscard]] bool empty() const { return made_.empty(); }

  // The bytes there are a copy of stored ones, until this is said of other ones.
  void note_copy(std::span<const std::byte> bytes, heap::address of) {
    copy_ = bytes;
    copied_ = of;
  }
  // Where a value is stored that functions see.
  [[nodiscard]] const std::byte* stored_at(const std::byte* value) const {
    const auto offset = static_cast<std::size_t>(value - copy_.data());
    return offset < copy_.size() ? reinterpret_cast<const std::byte*>(copied_) + offset : value;
  }
  // The stored object, from the element on to which the address leads.
  [[nodiscard]] old_object object_at(const std::byte* at);

  // While there is one, what containers of this thread allocate is in it.
  class scope {
   public:
    explicit scope(conversion_memory& in);
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    conversion_memory* const before_;
  };
  [[nodiscard]] static conversion_memory* of_this_thread() noexcept;

 private:
  const database_set& store_;
  std::map<heap::address, made_object> made_;  // by address
  std::span<const std::byte> copy_;
  heap::address copied_ = 0;
};

}  // namespace tenure::detail
