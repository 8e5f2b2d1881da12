// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The layout of a database in memory, and, byte for byte the same, in its segment. docs/formats.md explains it.
//
//     home                                            home + reservation - vtable_area
//     | zone 0, 64 MiB        | zone 1                | ...
//     | bookkeeping | blocks  | bookkeeping | blocks  |
//
// A zone's bookkeeping is: page 0 (in zone 0 the database's header); zone kinds (in zone 0 only); an entry for each
// block; a bit for each 16 bytes, set if a persistent object starts there. The area of vtable slots is below home and
// in no file.
//
// Everything here is committed. Objects that are not persistent are known to the process only (birth.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "objects/stored_address.hpp"

namespace tenure::heap {

constexpr std::uint64_t database_tag = 0x42446572756e6554;  // "TenureDB", in the segment's header

constexpr std::uint64_t granule = 16;  // objects start at multiples

// In bytes. zone_kinds_at (in zone 0 only), entries_at and starts_at count from a zone's start. Tests build the heap a
// second time with small zones and blocks. A program with a thousand objects then meets cases that otherwise take
// millions.
#ifdef TENURE_SMALL_GEOMETRY
constexpr std::uint64_t block_size = 8 << 10, zone_size = 256 << 10;
constexpr std::uint64_t zone_kinds_at = 4 << 10, entries_at = 8 << 10, starts_at = 12 << 10;
constexpr std::uint64_t bookkeeping_blocks = 2;
constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 30;
#else
constexpr std::uint64_t block_size = 32 << 10, zone_size = 64 << 20;
constexpr std::uint64_t zone_kinds_at = 4 << 10, entries_at = 32 << 10, starts_at = 48 << 10;
constexpr std::uint64_t bookkeeping_blocks = 18;
constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 40;
#endif
constexpr std::uint64_t blocks_in_zone = zone_size / block_size;
constexpr std::uint64_t granules_in_block = block_size / granule;
constexpr std::uint64_t bookkeeping_size = bookkeeping_blocks * block_size;
static_assert(entries_at + blocks_in_zone * 8 <= starts_at);
static_assert(starts_at + blocks_in_zone * granules_in_block / 8 <= bookkeeping_size);

// The area of vtable slots, below home.
constexpr std::uint64_t vtable_area = 16 << 20;
constexpr std::uint64_t vtable_slot = 4096;

constexpr std::uint64_t smallest_reservation = std::uint64_t{256} << 20;
static_assert(largest_reservation / zone_size <= entries_at - zone_kinds_at);

// Larger objects have blocks of their own.
constexpr std::uint64_t largest_small = block_size / 4;

enum class zone_kind : std::uint8_t {
  unused = 0,
  ordinary = 1,
  continued = 2,  // all of it belongs to an object that starts in a zone before
};

enum class block_kind : std::uint8_t {
  unused = 0,
  bookkeeping = 1,
  small = 2,      // objects of at most largest_small bytes
  large = 3,      // the first block of an object of its own
  continued = 4,  // another one
};

struct block_entry {
  block_kind kind;
  std::uint8_t reserved;
  std::uint16_t used;  // small: granules taken by persistent objects and their headers, rounded up each
  std::uint32_t span;  // large: blocks, of all zones; continued: blocks back to the first, in the same zone
};
static_assert(sizeof(block_entry) == 8);

// The eight bytes before an object.
struct object_header {
  std::uint32_t type;  // index; 0: none
  std::uint32_t size;  // bytes of the object without header; huge_size: they are in the eight bytes before the header
};
static_assert(sizeof(object_header) == 8);
constexpr std::uint32_t huge_size = 0xffffffff;

struct database_header {
  static constexpr std::array<char, 8> right_magic{'T', 'e', 'n', 'u',
                                                   'r', 'e', 'D', block_size == 32 << 10 ? 'B' : 'b'};
  static constexpr std::uint32_t right_version = 1;
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
  stored_address databases;  // database_table, in the default database; otherwise none
};
static_assert(sizeof(database_header) == 224 && offsetof(database_header, checksum) == 184);

}  // namespace tenure::heap
