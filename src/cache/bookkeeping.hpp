// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a commit changes in the heap's bookkeeping: zones, and records of blocks. As the object heap does it in memory
// (objects/stabilizer.cpp).
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <cstdint>

#include "cache/edited_pages.hpp"
#include "cache/places.hpp"

namespace tenure::cache {

class bookkeeping {
 public:
  bookkeeping(stored_database& of, edited_pages& pages) : of_(of), pages_(pages) {}

  // An object will be stored at a place that was taken.
  void add(std::uint64_t home, std::uint64_t size, const places::use& in);
  // A stored object is destroyed. Throws errc::damaged if none starts there.
  [[nodiscard]] places::freed remove(std::uint64_t home, std::uint64_t size);

 private:
  [[nodiscard]] heap::zone_kind& zone(std::uint64_t number);
  [[nodiscard]] heap::record_view record(std::uint64_t block);
  void open_zone(std::uint64_t number);
  void free_blocks(std::uint64_t first, std::uint64_t count);

  stored_database& of_;
  edited_pages& pages_;
};

}  // namespace tenure::cache
