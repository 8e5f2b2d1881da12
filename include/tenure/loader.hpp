// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The segment loader [RVM §4.1] maps the regions of a segment at the same addresses every time, so that ordinary
// pointers may be stored in them. The load map, at the start of the segment's data, says at which address each region
// is.
//
//     loader town{memory, "town.seg", {.length = 1 << 30}};   // creates, or opens
//     if (!town.contains("streets")) town.add("streets", 1 << 20);
//     region& streets = town["streets"];                      // where it was last time
//
// and for the most common case, one heap in one segment:
//
//     loaded_heap heap{memory, "town.seg", {.length = 1 << 30}};
//     auto* mayor = heap->root<person>(0);
//
// A segment has a home address, which is chosen when it is made. The caller gives it, or it is drawn at random, in
// steps of 1 GiB, from a range that no ordinary program uses (0x110000000000 to 0x500000000000; under ThreadSanitizer
// 0x550000000000 to 0x555555554000, and segments that are made there can be loaded by every build). A region without a
// given address is mapped at home + its offset in the segment. If the addresses are in use, loading throws
// errc::address_taken and names the other mapping. Nothing is ever mapped over it [rvm.loader.never-over].
//
// One thread at a time may use a loader. The memory must outlive it, and must not be moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/recoverable_heap.hpp>
#include <tenure/rvm.hpp>

namespace tenure::rvm {

#pragma GCC visibility push(default)  // libtenure.so exports it

// A line of a load map.
struct load_entry {
  std::string name;          // 1 to 31 bytes
  std::uint64_t offset = 0;  // bytes from the segment's start
  std::uint64_t length = 0;  // bytes
  std::byte* address = nullptr;
};

// How a segment with a load map is made.
struct load_options {
  std::uint64_t length = 0;  // bytes for regions; the load map takes another 64 KiB. 0: it must exist already
  void* home = nullptr;      // a multiple of the page size; nullptr: drawn at random
};

class loader {
 public:
  // The bytes of the load map, at the start of the segment.
  static constexpr std::uint64_t map_length = 65536;
  static constexpr std::size_t max_entries = 63;

  // Opens the segment and maps all regions of its load map. Creates the segment first if it does not exist and
  // how.length is not 0. If a crash has interrupted a creation, completes it. Throws errc::address_taken;
  // errc::not_a_segment if the data do not begin with a load map; errc::damaged; errc::wrong_version.
  explicit loader(memory& in, const std::string& path, const load_options& how = {});
  loader(loader&&) noexcept = default;
  loader& operator=(loader&&) = delete;

  // Whether this call made the load map.
  [[nodiscard]] bool created() const { return created_; }
  [[nodiscard]] std::byte* home() const { return home_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // The entries of the load map, in the order of offsets.
  [[nodiscard]] std::vector<load_entry> entries() const;

  [[nodiscard]] bool contains(std::string_view name) const { return loaded_.find(name) != loaded_.end(); }
  // The region of this name. The reference is valid until the region is removed. Throws errc::bad_option if there is
  // none.
  [[nodiscard]] region& operator[](std::string_view name);

  // Gives a part of the segment a name and an address, durably, and maps it. `length` 0: the longest part that belongs
  // to no region yet. `address` nullptr: home + offset. The bytes are zero, or those that a removed region has left.
  // Throws errc::segment_too_short if there is no space, errc::address_taken, errc::bad_option (name, number of
  // entries).
  region& add(std::string_view name, std::uint64_t length = 0, void* address = nullptr);
  // Unmaps the region and removes it from the load map, durably. Throws errc::region_busy while transactions use it.
  void remove(std::string_view name);

 private:
  struct entry_and_region {
    load_entry entry;
    region mapped;
  };

  void create(void* home);
  void load();
  void store(const std::map<std::string, load_entry, std::less<>>& entries);
  [[nodiscard]] std::map<std::string, load_entry, std::less<>> named_entries() const;
  [[nodiscard]] region map(const load_entry& entry);

  memory* in_;
  std::string path_;
  std::uint64_t segment_length_ = 0;
  region map_;
  std::byte* home_ = nullptr;
  bool created_ = false;
  std::map<std::string, entry_and_region, std::less<>> loaded_;
};

// A segment with one recoverable heap, at its home address. Made if it does not exist. Movable.
class loaded_heap {
 public:
  // how.length: bytes for the heap, its bookkeeping included. Throws what loader and recoverable_heap throw.
  explicit loaded_heap(memory& in, const std::string& path, const load_options& how = {});

  // Whether the heap was made by this call.
  [[nodiscard]] bool created() const { return created_; }
  [[nodiscard]] recoverable_heap& operator*() { return heap_; }
  [[nodiscard]] recoverable_heap* operator->() { return &heap_; }
  [[nodiscard]] const recoverable_heap& operator*() const { return heap_; }
  [[nodiscard]] const recoverable_heap* operator->() const { return &heap_; }
  [[nodiscard]] const loader& segment() const { return segment_; }

 private:
  recoverable_heap attach(memory& in);
  loader segment_;
  bool created_ = false;
  recoverable_heap heap_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
