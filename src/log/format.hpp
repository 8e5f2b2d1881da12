// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log's file, byte by byte. docs/formats.md says the same in prose. All integers are little-endian.
//
// Two status blocks, then the area, a ring of blocks:
//
//     0      status block, copy 0      4096 bytes
//     4096   status block, copy 1      4096 bytes
//     8192   area                      area_length bytes; LSN x is stored at 8192 + x % area_length
//
// records/format.hpp describes what the blocks contain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenure::rvm {

using identity = std::array<std::byte, 16>;  // random; names a log or a segment for ever

inline constexpr std::uint32_t format_version = 1;
inline constexpr std::uint32_t endian_mark = 0x01020304;

// The first eight bytes of the library's files.
inline constexpr std::uint64_t log_magic = 0x474f4c52554e4554;      // "TENURLOG"
inline constexpr std::uint64_t segment_magic = 0x47455352554e4554;  // "TENURSEG"
inline constexpr std::uint64_t archive_magic = 0x43524152554e4554;  // "TENURARC"

inline constexpr std::uint64_t status_copy_size = 4096;
inline constexpr std::uint64_t log_area_offset = 2 * status_copy_size;
inline constexpr std::uint64_t min_log_area = 64 * 1024;

// status_block::incompatible: the live part may have records of bulk runs.
inline constexpr std::uint32_t feature_bulk_runs = 1;
// It may have records of changes by page.
inline constexpr std::uint32_t feature_changes = 2;

// Counters over the whole life of a log; log_total names them.
using total_slots = std::array<std::uint64_t, 64>;

// What the log knows about a segment: when this was written, the segment's file had the log's changes up to `applied`.
// A file whose own header says less is an older copy.
struct segment_mark {
  std::array<std::byte, 8> segment;  // the first bytes of its identity
  std::uint64_t applied;             // LSN
};
inline constexpr std::size_t max_segment_marks = 24;

// Status block: what a log is, and which part of it is live.
struct status_block {
  std::uint64_t magic;                 //    0  log_magic
  std::uint32_t version;               //    8  format_version
  std::uint32_t endian;                //   12  endian_mark
  identity log_id;                     //   16
  std::uint64_t sequence;              //   32  the valid copy with the higher one is current
  std::uint32_t generation;            //   40  counts openings for writing; groups carry it
  std::uint32_t block_size;            //   44  512 … 4096
  std::uint64_t area_length;           //   48  bytes, a multiple of block_size
  std::uint64_t max_area;              //   56  growth limit, bytes
  std::uint32_t compatible;            //   64  features: a reader may ignore unknown ones,
  std::uint32_t read_only_compatible;  // 68  must not write with unknown ones,
  std::uint32_t incompatible;          //   72  must not read with unknown ones
  std::uint32_t clean;                 //   76  1: closed cleanly, `tail` is exact
  std::uint64_t head;                  //   80  LSN of the oldest live group
  std::uint64_t tail;                  //   88  LSN behind the last group if clean, else a lower bound of it
  std::int64_t created;                //   96  ns since 1970, for people
  std::int64_t written;                //  104  ns since 1970, for people
  total_slots totals;                  // 112
  std::uint32_t permissions;           //  624  of the file, for the one that replaces it
  std::uint32_t mark_count;            //  628  of the entries below
  std::array<segment_mark, max_segment_marks> marks;  // 632
  std::uint32_t reserved;                             // 1016  zero
  std::uint32_t checksum;                             // 1020  CRC32C of bytes 0 … 1019
};
static_assert(sizeof(status_block) == 1024 && offsetof(status_block, head) == 80 &&
              offsetof(status_block, totals) == 112 && offsetof(status_block, marks) == 632 &&
              offsetof(status_block, checksum) == 1020);

// Index into status_block::totals.
enum class log_total : std::size_t {
  opened,
  recovered,
  transactions,
  log_bytes,
  incremental_truncations,
  epoch_truncations,
  grown,
  no_flush_commits,
  aborts,
  intra_ranges_saved,
  intra_bytes_saved,
  inter_transactions_saved,
  inter_bytes_saved,
  batches,
  log_used_max,  // a maximum, not a sum
  truncation_waits,
  flush_calls,
  truncate_calls,
  write_ns,
  truncation_ns,
  damaged_pages,
  end  // how many there are
};

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) { return value / unit * unit; }

}  // namespace tenure::rvm
