// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The first page of a segment that rvm_create_segment has made. All integers are little-endian. docs/formats.md says
// the same in prose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenure::classic {

inline constexpr std::uint64_t segment_magic = 0x47455343554e4554;  // "TENUCSEG"
inline constexpr std::uint32_t segment_version = 1;
inline constexpr std::size_t max_segment_regions = 127;

struct segment_entry {
  std::uint64_t offset;    //    0  in the segment, bytes
  std::uint64_t length;    //    8  bytes
  std::uint64_t address;   //   16
  std::uint64_t reserved;  //   24  zero
};
static_assert(sizeof(segment_entry) == 32);

struct segment_header {
  std::uint64_t magic;                                     //    0  segment_magic
  std::uint32_t version;                                   //    8  segment_version
  std::uint32_t count;                                     //   12  regions
  std::uint32_t checksum;                                  //   16  CRC32C of the 4096 bytes with zero here
  std::uint32_t reserved[3];                               //   20  zero
  std::array<segment_entry, max_segment_regions> regions;  //   32  those beyond `count` are zero
};
static_assert(sizeof(segment_header) == 4096 && offsetof(segment_header, regions) == 32);

}  // namespace tenure::classic
