// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is on the disk, byte by byte. docs/formats.md says the same in prose. All integers are little-endian.
//
// A log file: two status blocks, then the area, a ring of blocks that holds groups.
//
//     0      status block, copy 0      4096 bytes
//     4096   status block, copy 1      4096 bytes
//     8192   area                      area_length bytes; LSN x is stored at 8192 + x % area_length
//
// The area holds *groups*. A group starts at a block boundary and is never rewritten once acknowledged; it carries its own
// LSN, so an old lap of the ring cannot be taken for a new one [rvm.log.lap]. Consecutive groups written with one sync
// form a *batch*, which counts whole or not at all [rvm.log.batch]; at most one batch is unsynced at any time, so an
// invalid group with a later batch behind it is damage and not a torn tail [rvm.log.one-in-flight].
//
//     group   group_header | record | record | … | zeros up to the block size
//     record  record_header | body, padded to 8 bytes
//
// Groups, records and ranges carry the length of what precedes them as well as their own: the log reads both ways
// [RVM fig. 5]. Each group names the segments that its ranges belong to, so no dictionary can be truncated away while a
// record still needs it [rvm.log.dictionary].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenure::rvm {

using identity = std::array<std::byte, 16>;  // random; names a log or a segment for ever

inline constexpr std::uint32_t format_version = 1;
inline constexpr std::uint32_t endian_mark = 0x01020304;

inline constexpr std::uint64_t log_magic = 0x474f4c52554e4554;      // "TENURLOG"
inline constexpr std::uint64_t segment_magic = 0x47455352554e4554;  // "TENURSEG"
inline constexpr std::uint32_t group_magic = 0x50524754;            // "TGRP"

inline constexpr std::uint64_t status_copy_size = 4096;
inline constexpr std::uint64_t log_area_offset = 2 * status_copy_size;
inline constexpr std::uint64_t min_log_area = 64 * 1024;

// Redo and checksums work in pages of this size, whatever the host's page is.
inline constexpr std::uint32_t redo_page = 4096;

// A group, padding included, is at most this long, so that it can be read and checked in memory.
inline constexpr std::uint32_t max_group = 1024 * 1024;

// status_block::incompatible: the live part may have extents records.
inline constexpr std::uint32_t feature_extents = 1;

// Counters over a log's life; see log_total.
using total_slots = std::array<std::uint64_t, 64>;

// What the log knows of a segment: so far its changes were in the segment's file when this was written. A file that says less
// of itself is an older copy.
struct segment_mark {
  std::array<std::byte, 8> segment;  // the first bytes of its identity
  std::uint64_t applied;             // LSN
};
inline constexpr std::size_t max_segment_marks = 24;

// Status block: what a log is and which part of it is live.
struct status_block {
  std::uint64_t magic;                 //    0  log_magic
  std::uint32_t version;               //    8  format_version
  std::uint32_t endian;                //   12  endian_mark
  identity log_id;                     //   16
  std::uint64_t sequence;              //   32  the valid copy with the higher one holds
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

// Group header.
struct group_header {
  std::uint32_t magic;           //    0  group_magic
  std::uint32_t checksum;        //    4  CRC32C of bytes 8 … length-1
  std::uint64_t log_id;          //    8  first 8 bytes of the log's identity
  std::uint64_t lsn;             //   16  of this group
  std::uint64_t batch;           //   24  LSN of the first group of the batch
  std::uint64_t synced_through;  //   32  the log was durable up to here when this was built
  std::uint32_t length;          //   40  bytes used, this header included
  std::uint32_t previous;        //   44  length on disk, padding included, of the group before; 0: none
  std::uint32_t generation;      //   48  of the opening that wrote it
  std::uint32_t records;         //   52
  std::uint32_t flags;           //   56  group_last
  std::uint32_t reserved;        //   60  zero
};
static_assert(sizeof(group_header) == 64);
inline constexpr std::uint32_t group_last = 1;  // the last group of its batch

// Record types 4 to 6 are reserved: prepare, outcome, snapshot.
enum class record_type : std::uint16_t { segment = 1, transaction = 2, extents = 3 };

struct record_header {
  record_type type;        //    0
  std::uint16_t flags;     //    2  record_first, record_last, record_lazy
  std::uint32_t length;    //    4  bytes, this header and padding included; a multiple of 8
  std::uint32_t previous;  //    8  length of the record before it in this group; 0: none
  std::uint32_t count;     //   12  ranges, or extents; for a segment: bytes of path
};
static_assert(sizeof(record_header) == 16);
inline constexpr std::uint16_t record_first = 1;  // begins a transaction
inline constexpr std::uint16_t record_last = 2;   // ends it: its commit record
inline constexpr std::uint16_t record_lazy = 4;   // committed no_flush

// Body of a segment record: names a segment for the rest of its group, where it has the number of segment records before
// it. The path follows: absolute, or relative to the log's directory.
struct segment_body {
  identity id;             //   16  zero for a raw segment
  std::uint32_t raw;       //   32  1: no header, data from byte 0
  std::uint32_t reserved;  //   36
};
static_assert(sizeof(segment_body) == 24);

// Body of a transaction record; then the label, padded to 8, then the ranges. A transaction that does not fit into what
// is left of a group goes on in another record.
struct transaction_body {
  std::uint64_t id;        //   16
  std::int64_t time;       //   24  ns since 1970, for people
  std::uint32_t label;     //   32  bytes
  std::uint32_t reserved;  //   36
};
static_assert(sizeof(transaction_body) == 24);

// A range: this header, then the new value, padded to 8.
struct range_header {
  std::uint64_t offset;    //    0  in the segment's data, bytes
  std::uint32_t length;    //    8  bytes
  std::uint32_t previous;  //   12  from the range before it in this record to this one, bytes; 0: none
  std::uint32_t segment;   //   16  number in this group
  std::uint32_t reserved;  //   20
};
static_assert(sizeof(range_header) == 24);

// An extents record has a transaction's body and label, then extents: pages that were written straight to the segment, and
// durable there, before the record. Each is this header, then the CRC32C of every page, padded to 8. A transaction's
// extents come before its ranges.
struct extent_header {
  std::uint64_t offset;    //    0  in the segment's data, bytes; a multiple of redo_page
  std::uint32_t pages;     //    8  of redo_page bytes; not 0
  std::uint32_t previous;  //   12  from the extent before it in this record to this one, bytes; 0: none
  std::uint32_t segment;   //   16  number in this group
  std::uint32_t reserved;  //   20
};
static_assert(sizeof(extent_header) == sizeof(range_header));

// A formatted segment: two header copies, a checksum for each page of room, then the data. All offsets in the file are
// multiples of 64 KiB.
//
//     0        header, copy 0           4096 bytes
//     4096     header, copy 1           4096 bytes
//     65536    checksums                4 bytes a page of max_length, rounded up to 64 KiB
//     data     data                     length bytes
//
// A stored checksum is CRC32C(page) xor CRC32C(zeros), so that fresh space is valid as it is [rvm.segment.checksum].
// While pages are written straight to the segment, the header names them: after a crash, page and checksum may be of
// different moments there, and who opens the segment makes the checksums anew [rvm.bulk.noted].
struct bulk_note {
  std::uint64_t page, pages;
  std::uint64_t transaction;  // that writes them; 0: several
  std::uint32_t generation;   // of the log's opening
  std::uint32_t reserved;
};
static_assert(sizeof(bulk_note) == 32);
inline constexpr std::size_t max_bulk_notes = 28;

struct segment_header {
  std::uint64_t magic;                                           //    0  segment_magic
  std::uint32_t version;                                         //    8  format_version
  std::uint32_t endian;                                          //   12  endian_mark
  identity segment_id;                                           //   16
  std::uint64_t sequence;                                        //   32  the valid copy with the higher one holds
  std::uint64_t length;                                          //   40  bytes of data
  std::uint64_t max_length;                                      //   48  bytes of data that there is room for
  std::uint64_t data_offset;                                     //   56  bytes, in the file
  std::uint32_t compatible, read_only_compatible, incompatible;  // 64, 68, 72: as in status_block
  std::uint32_t in_log;                        //   76  1: the log below may hold changes for this segment
  identity log_id;                             //   80  of the log that it was last changed under
  std::uint32_t log_path_length;               //   96
  std::array<char, 3000> log_path;             //  100  absolute, for messages; cut if longer
  std::uint32_t bulk_count;                    // 3100  of the entries below
  std::uint64_t home, tag;                     // 3104, 3112: the creator's; see segment_options
  std::array<bulk_note, max_bulk_notes> bulk;  // 3120
  // Changes of the log above, up to this LSN, may be in the pages: written before they are. It holds if this header was
  // written by who knows of it, that is, if `applied_sequence` is `sequence`; otherwise, and if it is 0, nothing is known.
  std::uint64_t applied, applied_sequence;  // 4016, 4024
  std::array<std::uint8_t, 60> reserved;    // 4032
  std::uint32_t checksum;                   // 4092  CRC32C of bytes 0 … 4091
};
static_assert(sizeof(segment_header) == 4096 && offsetof(segment_header, log_path) == 100 &&
              offsetof(segment_header, bulk) == 3120 && offsetof(segment_header, applied) == 4016 &&
              offsetof(segment_header, checksum) == 4092);
inline constexpr std::uint64_t segment_alignment = 64 * 1024;
// In place of the checksum of a page that failed it before part of the page was overwritten: nothing but overwriting it as a
// whole makes it sound again [rvm.segment.kept-apart].
inline constexpr std::uint32_t damaged_page_mark = 0x21444142;  // "BAD!"
inline constexpr std::uint64_t segment_checksums_offset = segment_alignment;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) { return value / unit * unit; }

}  // namespace tenure::rvm
