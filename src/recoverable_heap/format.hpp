// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The layout of a recoverable heap in its region, byte by byte. All integers are little-endian. It contains no
// addresses, so a heap may be mapped anywhere. A page has 4096 bytes here, whatever the host's page size is.
//
//     0         heap_header                             one page
//     4096      page table: 8 bytes for each data page  rounded up to pages
//     bitmaps   32 bytes for each data page             rounded up to pages
//     data      the data pages
//
// Data pages belong to *spans*, which are runs of consecutive pages. A span has the slots of one size class, or one
// large object. The table entry of its first page describes the span. The entries of its other pages, and of free
// pages, are zero [rvm.heap.table]. The bitmap of a span begins with the bitmap of its first page. Its bit s is set if
// slot s has an object. Bits beyond the last slot are zero, and so are the bitmaps of large spans and of free pages
// [rvm.heap.bitmap].
//
// These bytes describe committed objects only. They change inside a commit, and never otherwise [rvm.heap.in-commit].
// What an open transaction has allocated or freed is only in memory, and a crash forgets it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenure::rvm {

inline constexpr std::uint64_t heap_magic = 0x50414548554e4554;  // "TENUHEAP"
inline constexpr std::uint32_t heap_version = 1;
inline constexpr std::uint64_t heap_page = 4096;
inline constexpr std::uint64_t heap_bitmap_bytes = heap_page / 16 / 8;  // for each data page
inline constexpr std::size_t heap_root_count = 32;

struct heap_header {
  std::uint64_t magic;            //    0  heap_magic
  std::uint32_t version;          //    8  heap_version
  std::uint32_t endian;           //   12  0x01020304
  std::uint64_t length;           //   16  bytes of the region; this and `version` decide where everything is
  std::uint32_t page;             //   24  heap_page
  std::uint32_t pages;            //   28  data pages
  std::uint64_t bitmaps;          //   32  offset in the region
  std::uint64_t data;             //   40  offset in the region
  std::uint32_t compatible;       //   48  features: a reader may ignore unknown ones,
  std::uint32_t incompatible;     //   52  must not go on with unknown ones
  std::uint32_t reserved;         //   56  zero
  std::uint32_t checksum;         //   60  CRC32C of bytes 0 … 59; what follows changes
  std::uint64_t high_water;       //   64  no span ever reached this data page: its entry and all later ones are zero
  std::uint64_t reserved_too[7];  //   72  zero
  std::array<std::uint64_t, heap_root_count> roots;  // 128  offsets in the region; 0: null
};
static_assert(sizeof(heap_header) == 384 && offsetof(heap_header, length) == 16 &&
              offsetof(heap_header, checksum) == 60 && offsetof(heap_header, high_water) == 64 &&
              offsetof(heap_header, roots) == 128);

enum class span_kind : std::uint8_t { none = 0, slots = 1, large = 2 };

struct page_entry {
  span_kind kind;           //    0
  std::uint8_t size_class;  //    1  of slots; 0 for a large object
  std::uint16_t reserved;   //    2  zero
  std::uint32_t pages;      //    4  length of the span; 0: free, or not the first page of a span
  friend bool operator==(const page_entry&, const page_entry&) = default;
};
static_assert(sizeof(page_entry) == 8);

// The places of the parts in a region of `length` bytes.
struct heap_layout {
  std::uint64_t pages = 0;    // data pages; 0: the region is too short for a heap
  std::uint64_t bitmaps = 0;  // offset
  std::uint64_t data = 0;     // offset
};

inline constexpr std::uint64_t max_heap_pages = 0xffffffff;  // 16 TiB

constexpr heap_layout layout_of_heap(std::uint64_t length) {
  constexpr std::uint64_t page_cost = heap_page + sizeof(page_entry) + heap_bitmap_bytes;
  constexpr auto up = [](std::uint64_t bytes) { return (bytes + heap_page - 1) / heap_page * heap_page; };
  if (length < 4 * heap_page) return {};
  // The two roundings cost less than two pages. So the largest number of pages that fits is at most two above this one.
  const std::uint64_t whole = length / heap_page * heap_page;
  std::uint64_t pages = std::min(max_heap_pages, (whole - heap_page) / page_cost);
  for (; pages != 0; --pages) {
    const std::uint64_t bitmaps = heap_page + up(pages * sizeof(page_entry));
    const std::uint64_t data = bitmaps + up(pages * heap_bitmap_bytes);
    if (data + pages * heap_page <= whole) return {pages, bitmaps, data};
  }
  return {};
}
static_assert(layout_of_heap(65536).pages == 13 && layout_of_heap(65536).data == 3 * heap_page);

// The size classes: 16, 32 … 128, then four for each doubling up to 32 KiB. So rounding up wastes at most a fifth of a
// slot (or 15 bytes). All are multiples of 16.
inline constexpr unsigned size_class_count = 40;
inline constexpr std::uint64_t max_slot = 32768;

constexpr std::uint64_t slot_size(unsigned size_class) {
  if (size_class < 8) return 16 * (size_class + 1);
  const unsigned doubling = (size_class - 8) / 4, step = (size_class - 8) % 4;
  return (std::uint64_t{128} << doubling) + (step + 1) * (std::uint64_t{32} << doubling);
}
// The smallest class for `bytes`, 1 … max_slot.
constexpr unsigned size_class_of(std::uint64_t bytes) {
  if (bytes <= 128) return static_cast<unsigned>((bytes + 15) / 16 - 1);
  const unsigned doubling = static_cast<unsigned>(std::bit_width(bytes - 1)) - 8;
  const std::uint64_t step = (bytes - 1 - (std::uint64_t{128} << doubling)) / (std::uint64_t{32} << doubling);
  return 8 + 4 * doubling + static_cast<unsigned>(step);
}
// The pages of a span of the class: at least 16 KiB, with room for eight slots or 64 KiB, and with at most 1/16 unused
// at the end.
constexpr std::uint32_t span_pages(unsigned size_class) {
  const std::uint64_t size = slot_size(size_class);
  const std::uint64_t least = std::max<std::uint64_t>(16384, std::min<std::uint64_t>(8 * size, 65536));
  for (std::uint64_t pages = (least + heap_page - 1) / heap_page;; ++pages)
    if (pages * heap_page % size * 16 <= pages * heap_page) return static_cast<std::uint32_t>(pages);
}
constexpr std::uint32_t span_slots(unsigned size_class) {
  return static_cast<std::uint32_t>(span_pages(size_class) * heap_page / slot_size(size_class));
}

constexpr bool size_classes_agree() {
  for (unsigned c = 0; c < size_class_count; ++c) {
    if (slot_size(c) % 16 != 0 || size_class_of(slot_size(c)) != c) return false;
    if (c > 0 && size_class_of(slot_size(c - 1) + 1) != c) return false;
    if (c >= 8 && (slot_size(c) - slot_size(c - 1) - 1) * 5 > slot_size(c)) return false;
    if (span_pages(c) > 24 || span_slots(c) < 2 || span_slots(c) > 8 * heap_bitmap_bytes * span_pages(c)) return false;
  }
  return slot_size(size_class_count - 1) == max_slot;
}
static_assert(size_classes_agree());

}  // namespace tenure::rvm
