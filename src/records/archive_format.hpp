// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The archive's files, byte by byte; docs/formats.md says the same in prose. All integers are little-endian.
//
// An archive is up to 16 files, PATH.0 to PATH.15, the *parts*. Parts have numbers from 1 on. Part n is PATH.(n mod
// 16), so that a new part replaces the oldest. A part holds *frames*. Each frame is a stretch of the log, compressed,
// with an index of the pages that the stretch changes.
//
//     part    part_header | frame | frame | …
//     frame   frame_header | index, compressed | stretch, compressed | zeros up to 8 bytes
//     index   for each segment: index_entry | path | 8-byte deltas of the page numbers, which ascend
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "os/file.hpp"
#include "records/format.hpp"

namespace tenure::rvm {

inline constexpr std::uint32_t frame_magic = 0x4d524654;  // "TFRM"
inline constexpr std::uint32_t archive_version = 1;
inline constexpr std::uint64_t archive_parts = 16;
// The longest stretch of log that a frame holds. Reading any byte of a frame costs reading all of it.
inline constexpr std::uint32_t max_stretch = 4 * max_group;

struct part_header {
  std::uint64_t magic;                                           //    0  archive_magic
  std::uint32_t version;                                         //    8  archive_version
  std::uint32_t endian;                                          //   12  endian_mark
  identity log_id;                                               //   16
  std::uint64_t part;                                            //   32  its number
  std::int64_t created;                                          //   40  ns since 1970, for people
  std::uint32_t compatible, read_only_compatible, incompatible;  // 48, 52, 56: as in manifest_header
  std::uint32_t log_path_length;                                 //   60
  std::array<char, 3000> log_path;                               //   64  absolute, for messages; cut if longer
  std::array<std::uint8_t, 1028> reserved;                       // 3064
  std::uint32_t checksum;                                        // 4092  CRC32C of bytes 0 … 4091
};
static_assert(sizeof(part_header) == 4096 && offsetof(part_header, log_path) == 64 &&
              offsetof(part_header, checksum) == 4092);

struct frame_header {
  std::uint32_t magic;                          //    0  frame_magic
  std::uint32_t checksum;                       //    4  CRC32C of bytes 8 … 127
  std::uint64_t part, offset;                   //    8  where this header is
  std::uint64_t from, to;                       //   24  LSNs: the stretch; it begins and ends with a group
  std::int64_t first_time, last_time;           //   40  of its transactions; ns since 1970
  std::uint64_t transactions;                   //   56  that end in it
  std::uint32_t index_length, index_plain;      //   64  bytes, compressed and not
  std::uint32_t stretch_length, stretch_plain;  //   72
  std::uint32_t index_checksum;                 //   80  CRC32C of the index, compressed
  std::uint32_t stretch_checksum;               //   84  CRC32C of the stretch, compressed
  std::uint32_t block_size;                     //   88  of the log
  std::array<std::uint8_t, 36> reserved;        //   92
};
static_assert(sizeof(frame_header) == 128 && offsetof(frame_header, block_size) == 88);

struct index_entry {
  identity id;          //    0  zero for a raw segment
  std::uint32_t raw;    //   16
  std::uint32_t path;   //   20  bytes; padded to 8
  std::uint64_t pages;  //   24
};
static_assert(sizeof(index_entry) == 32);

// The bytes of a header.
template <class T>
[[nodiscard]] os::bytes bytes_of(T& header) {
  return std::as_writable_bytes(std::span{&header, 1});
}
template <class T>
[[nodiscard]] os::const_bytes const_bytes_of(const T& header) {
  return std::as_bytes(std::span{&header, 1});
}

// Where a log's archive is: the path in the option, or else one that is derived from the log's path.
[[nodiscard]] std::string archive_path(const std::string& log_path, const std::string& wanted);
[[nodiscard]] std::string part_path(const std::string& archive, std::uint64_t part);
// Whether the header is whole and has this version.
[[nodiscard]] bool is_valid(const part_header& header) noexcept;
[[nodiscard]] bool is_of_later_version(const part_header& header) noexcept;
[[nodiscard]] bool is_valid(const frame_header& header, std::uint64_t part, std::uint64_t offset) noexcept;

}  // namespace tenure::rvm
