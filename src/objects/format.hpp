// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The layout of a database in memory, and, byte for byte the same, in its segment. docs/formats.md explains it.
//
//     home                                            home + reservation - vtable_area
//     | zone 0, 64 MiB        | zone 1                | ...
//     | bookkeeping | blocks  | bookkeeping | blocks  |
//
// A zone's bookkeeping is: page 0 (in zone 0 the database's header); zone kinds (in zone 0 only); a record for each
// block. The area of vtable slots is below home and in no file.
//
// Zones of format 1, which an upgrade leaves where they are, have less bookkeeping, and no typed pages.
//
// Objects of one type and size, if these are exactly known, lie in typed pages, one behind the other. What they are is
// said by the page's word in the block's record. All other objects have a header each.
//
// Everything here is committed. Objects that are not persistent are known to the process only (birth.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "objects/stored_address.hpp"

namespace tenure::heap {

constexpr std::uint64_t database_tag = 0x42446572756e6554;  // "TenureDB", in the segment's header

constexpr std::uint64_t granule = 16;  // at most one object starts in each; those with headers start at multiples

// In bytes. zone_kinds_at (in zone 0 only) and records_at count from a zone's start. Tests build the heap a second time
// with small zones and blocks. A program with a thousand objects then meets cases that otherwise take millions.
#ifdef TENURE_SMALL_GEOMETRY
constexpr std::uint64_t block_size = 8 << 10, zone_size = 256 << 10;
constexpr std::uint64_t zone_kinds_at = 4 << 10, records_at = 8 << 10;
constexpr std::uint64_t bookkeeping_blocks = 2;
constexpr std::uint64_t headed_entries_at = 8 << 10, headed_starts_at = 12 << 10, headed_bookkeeping_blocks = 2;
constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 30;
constexpr std::uint64_t least_growth = 128 << 10, most_growth = 1 << 20, growth_unit = 32 << 10;
#else
constexpr std::uint64_t block_size = 32 << 10, zone_size = 64 << 20;
constexpr std::uint64_t zone_kinds_at = 4 << 10, records_at = 32 << 10;
constexpr std::uint64_t bookkeeping_blocks = 21;
constexpr std::uint64_t headed_entries_at = 32 << 10, headed_starts_at = 48 << 10, headed_bookkeeping_blocks = 18;
constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 40;
constexpr std::uint64_t least_growth = 4 << 20, most_growth = 256 << 20, growth_unit = 2 << 20;
#endif
constexpr std::uint64_t blocks_in_zone = zone_size / block_size;
constexpr std::uint64_t granules_in_block = block_size / granule;
constexpr std::uint64_t bookkeeping_size = bookkeeping_blocks * block_size;
constexpr std::uint64_t pages_in_block = 8, typed_page_size = block_size / pages_in_block;
// Records lie in pages of 4 KiB, and none in two. So what a commit changes of a block is on one page.
constexpr std::uint64_t record_size = 8 + 4 * pages_in_block + 16 + granules_in_block / 8;
constexpr std::uint64_t record_page = 4096, records_in_page = record_page / record_size;
// From the zone's start.
[[nodiscard]] constexpr std::uint64_t record_offset(std::uint64_t block_in_zone) {
  return records_at + block_in_zone / records_in_page * record_page + block_in_zone % records_in_page * record_size;
}
static_assert(records_at + (blocks_in_zone + records_in_page - 1) / records_in_page * record_page <= bookkeeping_size);

// The area of vtable slots, below home.
constexpr std::uint64_t vtable_area = 16 << 20;
constexpr std::uint64_t vtable_slot = 4096;

constexpr std::uint64_t smallest_reservation = std::uint64_t{256} << 20;
static_assert(largest_reservation / zone_size <= records_at - zone_kinds_at);

// Larger objects have blocks of their own.
constexpr std::uint64_t largest_small = block_size / 4;

enum class zone_kind : std::uint8_t {
  unused = 0,
  headed = 1,     // of format 1: all objects have headers, and the bookkeeping is another
  continued = 2,  // all of it belongs to an object that starts in a zone before
  ordinary = 3,
};
// [heap.zone.headed]. Whether a zone of this kind has bookkeeping, and blocks.
[[nodiscard]] constexpr bool has_blocks(zone_kind kind) {
  return kind == zone_kind::ordinary || kind == zone_kind::headed;
}
// How much of a zone of this kind is bookkeeping. No object is made in the first bookkeeping_blocks of any zone, but
// those of a headed zone may have some.
[[nodiscard]] constexpr std::uint64_t bookkeeping_blocks_of(zone_kind kind) {
  return kind == zone_kind::headed ? headed_bookkeeping_blocks : bookkeeping_blocks;
}

enum class block_kind : std::uint8_t {
  unused = 0,
  bookkeeping = 1,
  small = 2,      // objects of at most largest_small bytes, with headers
  large = 3,      // the first block of an object of its own
  continued = 4,  // another one
  typed = 5,      // typed pages
};

struct block_entry {
  block_kind kind;
  std::uint8_t reserved;
  std::uint16_t used;  // small: granules taken by persistent objects and their headers, rounded up each;
                       // typed: persistent objects
  std::uint32_t span;  // large: blocks, of all zones; continued: blocks back to the first, in the same zone
};
static_assert(sizeof(block_entry) == 8);
// A headed zone has no records, but an entry for each block, and then start bits for each block.
static_assert(headed_entries_at + blocks_in_zone * sizeof(block_entry) <= headed_starts_at &&
              headed_starts_at + blocks_in_zone * granules_in_block / 8 <= headed_bookkeeping_blocks * block_size &&
              headed_bookkeeping_blocks <= bookkeeping_blocks);

constexpr std::uint32_t most_types = 1 << 20;  // of a database

// What a typed page has. Zero: nothing, and it may get objects of any type.
class page_word {
 public:
  page_word() = default;
  constexpr page_word(std::uint32_t type, std::uint64_t size, bool is_pointer_free)
      : bits_(type | static_cast<std::uint32_t>(size / 4) << 20 | (is_pointer_free ? std::uint32_t{1} << 30 : 0)) {}

  [[nodiscard]] constexpr bool is_typed() const { return bits_ != 0; }
  [[nodiscard]] constexpr std::uint32_t type() const { return bits_ & (most_types - 1); }
  // Of each object, in bytes.
  [[nodiscard]] constexpr std::uint32_t size() const { return (bits_ >> 20 & 0x3ff) * 4; }
  [[nodiscard]] constexpr bool is_pointer_free() const { return (bits_ >> 30 & 1) != 0; }
  // From one object to the next. At least a granule, so that each has a start bit of its own.
  [[nodiscard]] constexpr std::uint32_t stride() const { return stride_of(size()); }
  // How many objects the page has room for.
  [[nodiscard]] constexpr std::uint32_t slots() const { return static_cast<std::uint32_t>(typed_page_size) / stride(); }
  [[nodiscard]] constexpr bool is_sound() const { return type() != 0 && size() != 0 && stride() <= typed_page_size; }
  friend bool operator==(page_word, page_word) = default;

  [[nodiscard]] static constexpr std::uint32_t stride_of(std::uint64_t size) {
    const auto rounded = static_cast<std::uint32_t>((size + 7) / 8 * 8);
    return rounded < granule ? static_cast<std::uint32_t>(granule) : rounded;
  }
  // Whether objects of this size may lie in typed pages: a header would cost, and little of a page would be lost.
  [[nodiscard]] static constexpr bool suits(std::uint64_t size, std::uint64_t alignment) {
    if (size % 4 != 0 || size <= 8 || size > typed_page_size - 4 || stride_of(size) % alignment != 0 || alignment > 64)
      return false;
    const std::uint64_t slots = typed_page_size / stride_of(size);
    return typed_page_size - slots * stride_of(size) <= granule * slots;
  }

 private:
  std::uint32_t bits_ = 0;  // type, 20 bits; size / 4, 10 bits; whether it has no pointers; 0
};
static_assert(sizeof(page_word) == 4);
// Larger arrays have headers: there would be too many sizes.
constexpr std::uint64_t largest_typed_array = 256;

// The eight bytes before an object.
struct object_header {
  std::uint32_t type;  // index, 20 bits; 12 flags, all 0
  std::uint32_t size;  // bytes of the object without header; huge_size: they are in the eight bytes before the header
};
static_assert(sizeof(object_header) == 8);
constexpr std::uint32_t huge_size = 0xffffffff;

struct database_header {
  static constexpr std::array<char, 8> right_magic{'T', 'e', 'n', 'u',
                                                   'r', 'e', 'D', block_size == 32 << 10 ? 'B' : 'b'};
  static constexpr std::uint32_t right_version = 2;
  static constexpr std::uint32_t this_abi =
      0x01'08'01'02;  // see docs/formats.md: little endian, 8-byte pointers, Itanium C++ ABI

  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t abi;
  // Features. A program may ignore unknown ones of the first kind. With unknown ones of the second kind it may only
  // read. With unknown ones of the third kind it must not open the database.
  std::uint64_t compatible, read_only_compatible, incompatible;
  std::array<std::uint8_t, 16> store_id, database_id;
  std::uint64_t home, reservation;
  std::array<char, 64> name;
  std::uint64_t reserved[4];
  // CRC32C of the bytes before, which are constant.
  std::uint32_t checksum;
  std::uint32_t reserved_too;
  // The fields below change.
  std::uint64_t blocks_end;  // blocks from here on, counted from home, were never used
  stored_address types;      // type_table
  stored_address roots;      // root_table
  std::uint64_t trims;       // how often space of unused blocks was given back to the file system
};
static_assert(sizeof(database_header) == 224 && offsetof(database_header, checksum) == 184);

}  // namespace tenure::heap
