// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The objects of a store that is not mapped, as they are committed: by their home addresses, out of a bounded pool of pages. The
// seam is that of the object cache. A logical segment is 8 KiB of the database, up to 255 objects, mostly of one type
// because typed pages are; a physical segment a block of 32 KiB.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <tenure/rvm.hpp>

#include "cache/databases.hpp"
#include "cache/page_pool.hpp"
#include "faulting/schema.hpp"
#include "faulting/scheme.hpp"

namespace tenure::bench::faulting {

class stored_objects {
 public:
  stored_objects(const std::filesystem::path& store, std::uint64_t pool_pages);

  struct object {
    std::uint64_t home;
    kind of;
  };
  // The home address of the database's root.
  [[nodiscard]] std::uint64_t root() const { return root_; }
  // The object that starts there. Throws if there is none.
  [[nodiscard]] object find(std::uint64_t home);
  // Adds the objects that start in its segment, itself too.
  void find_with_neighbours(std::uint64_t home, granularity which, std::vector<object>& found);
  // All of the database.
  void find_all(std::vector<object>& found);
  // Copies what is stored of the object.
  void read(const object& of, std::span<std::byte> into) { database_.stored.read(of.home, into, "an object"); }
  [[nodiscard]] static std::uint64_t logical_segment_of(std::uint64_t home) { return home / logical_segment; }
  [[nodiscard]] std::uint64_t page_reads() const { return pool_.reads(); }

 private:
  static constexpr std::uint64_t logical_segment = 8192;
  [[nodiscard]] const kind* kind_of(std::uint32_t type);
  void find_between(std::uint64_t from, std::uint64_t to, std::vector<object>& found);

  cache::page_pool pool_;
  rvm::memory memory_;
  cache::open_database database_;
  std::uint64_t root_ = 0;
  std::vector<const kind*> kinds_;  // by the number of the type; nullptr: another type
};

}  // namespace tenure::bench::faulting
