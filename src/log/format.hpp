// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log's files, byte by byte. docs/formats.md says the same in prose. All integers are little-endian.
//
// A log is a manifest, at the log's path, and a chain of log files beside it, PATH.1, PATH.2 and so on. The manifest
// says what the log is, which files it has, and which part of it is live:
//
//     0       manifest, copy 0         up to 16384 bytes
//     16384   manifest, copy 1         up to 16384 bytes
//
// A log file holds consecutive bytes of the log. Its header says from which LSN on:
//
//     0       header, copy 0           4096 bytes
//     4096    header, copy 1           4096 bytes
//     8192    bytes of the log         `length` bytes
//
// When all bytes of a file have been freed, the file becomes the last one of the chain, under a new LSN.
// records/format.hpp describes what the bytes contain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenure::rvm {

using identity = std::array<std::byte, 16>;  // random; names a log or a segment for ever

inline constexpr std::uint32_t log_format_version = 2;
inline constexpr std::uint32_t segment_format_version = 2;  // 1 is read, too: a segment of one piece
inline constexpr std::uint32_t endian_mark = 0x01020304;

// The first eight bytes of the library's files.
inline constexpr std::uint64_t log_magic = 0x474f4c52554e4554;       // "TENURLOG"
inline constexpr std::uint64_t log_file_magic = 0x4c464c52554e4554;  // "TENURLFL"
inline constexpr std::uint64_t hold_magic = 0x444c4f48524e4554;      // "TENRHOLD"
inline constexpr std::uint64_t segment_magic = 0x47455352554e4554;   // "TENURSEG"
inline constexpr std::uint64_t archive_magic = 0x43524152554e4554;   // "TENURARC"
inline constexpr std::uint64_t backup_magic = 0x4b414252554e4554;    // "TENURBAK"

inline constexpr std::uint64_t manifest_copy_size = 16384;
inline constexpr std::uint64_t log_file_data = 8192;
// The shortest log, and the shortest log file: bytes of the log, without headers.
inline constexpr std::uint64_t min_log_size = 64 * 1024;
inline constexpr std::uint64_t min_log_file = 16 * 1024;
// A new log has one file of at most this length, because it is written with zeros, which takes time. Those that follow as
// the log is used are at least as long as `second_log_file`, or a quarter of the log's usual size.
inline constexpr std::uint64_t first_log_file = 64 * 1024;
inline constexpr std::uint64_t second_log_file = 1024 * 1024;

// No log gets so far: with what is beyond, sums could overflow.
inline constexpr std::uint64_t max_lsn = std::uint64_t{1} << 62, max_sequence = std::uint64_t{1} << 62;

// manifest_header::incompatible: the live part may have records of bulk runs.
inline constexpr std::uint32_t feature_bulk_runs = 1;
// It may have records of changes by page.
inline constexpr std::uint32_t feature_changes = 2;

// Counters over the whole life of a log; log_total names them.
using total_slots = std::array<std::uint64_t, 64>;

// The beginning of a manifest. The log's files follow, then the segments.
struct manifest_header {
  std::uint64_t magic;                     //    0  log_magic
  std::uint32_t version;                   //    8  log_format_version
  std::uint32_t endian;                    //   12  endian_mark
  identity log_id;                         //   16
  std::uint64_t sequence;                  //   32  the valid copy with the higher one is current
  std::uint32_t generation;                //   40  counts openings for writing; groups carry it
  std::uint32_t block_size;                //   44  512 … 4096
  std::uint64_t size;                      //   48  bytes that the log usually may take, a multiple of block_size
  std::uint64_t max_size;                  //   56  growth limit, bytes
  std::uint32_t compatible;                //   64  features: a reader may ignore unknown ones,
  std::uint32_t read_only_compatible;      // 68  must not write with unknown ones,
  std::uint32_t incompatible;              //   72  must not read with unknown ones
  std::uint32_t clean;                     //   76  1: closed cleanly, `tail` is exact
  std::uint64_t head;                      //   80  LSN of the oldest live group
  std::uint64_t tail;                      //   88  LSN behind the last group if clean, else a lower bound of it
  std::int64_t created;                    //   96  ns since 1970, for people
  std::int64_t written;                    //  104  ns since 1970, for people
  total_slots totals;                      // 112
  std::uint32_t permissions;               //  624  of the files that will be made
  std::uint32_t length;                    //  628  of the manifest, bytes
  std::uint64_t first;                     //  632  LSN at which the log began; 0: it has a past that nobody knows
  std::uint32_t file_count;                //  640
  std::uint32_t segment_count;             //  644
  std::uint64_t device;                    //  648  that the manifest's own file is on, for people
  std::uint64_t inode;                     //  656  of the manifest's own file
  std::uint32_t unlisted;                  //  664  1: there are segments for which the list had no room
  std::array<std::uint8_t, 352> reserved;  //  668  zero
  std::uint32_t checksum;                  // 1020  CRC32C of the bytes before and of those behind, up to `length`
};
static_assert(sizeof(manifest_header) == 1024 && offsetof(manifest_header, head) == 80 &&
              offsetof(manifest_header, totals) == 112 && offsetof(manifest_header, first) == 632 &&
              offsetof(manifest_header, checksum) == 1020);

// A file of the log. The file's path is that of the manifest, with ".NUMBER" behind it.
struct log_file_entry {
  std::uint32_t number;    //  0  from 1 on
  std::uint32_t reserved;  //  4  zero
  std::uint64_t length;    //  8  bytes of the log, a multiple of the block size
  std::uint64_t device;    // 16  that the file is on, for people
  std::uint64_t inode;     // 24  of the file
};
static_assert(sizeof(log_file_entry) == 32);

// A segment that is a member, or that was changed under this log: when this was written, the segment's file had the
// log's changes up to `applied`. A file whose own header says less is an older copy.
struct segment_entry {
  identity id;               //  0
  std::uint64_t applied;     // 16  LSN; 0: not changed under this log
  std::uint64_t device;      // 24  that the file is on, for people
  std::uint64_t inode;       // 32  of the file; 0: was not open since the log was opened
  std::uint32_t path;        // 40  length of the path that follows, as records have it; padded with zeros to 8
  std::uint32_t membership;  // 44
};
static_assert(sizeof(segment_entry) == 48);

// Members are what the log belongs to: the databases of a store.
enum : std::uint32_t {
  not_a_member = 0,
  pending_member = 1,  // its first transaction may not have been committed
  full_member = 2,
};

// The header of a log file.
struct log_file_header {
  std::uint64_t magic;                    //  0  log_file_magic
  std::uint32_t version;                  //  8  log_format_version
  std::uint32_t endian;                   // 12  endian_mark
  identity log_id;                        // 16
  std::uint64_t sequence;                 // 32  the valid copy with the higher one is current
  std::uint32_t number;                   // 40
  std::uint32_t block_size;               // 44
  std::uint64_t base;                     // 48  LSN of the first byte
  std::uint64_t length;                   // 56  bytes of the log
  std::array<std::uint8_t, 60> reserved;  // 64  zero
  std::uint32_t checksum;                 // 124  CRC32C of bytes 0 … 123
};
static_assert(sizeof(log_file_header) == 128 && offsetof(log_file_header, checksum) == 124);
inline constexpr std::uint64_t log_file_copy_size = 4096;

// The file of a hold (log_hold.hpp). It counts only while its holder has it locked.
struct hold_header {
  std::uint64_t magic;           //  0  hold_magic
  std::uint32_t version;         //  8  log_format_version
  std::uint32_t endian;          // 12  endian_mark
  std::uint64_t position;        // 16  LSN from which on the log is needed
  std::int64_t taken;            // 24  ns since 1970, for people
  std::array<char, 92> purpose;  // 32  for people
  std::uint32_t checksum;        // 124  CRC32C of bytes 0 … 123
};
static_assert(sizeof(hold_header) == 128 && offsetof(hold_header, checksum) == 124);

// Index into manifest_header::totals.
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
