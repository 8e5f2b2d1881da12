// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The contents of a log's blocks, byte by byte. docs/formats.md says the same in prose. All integers are little-endian.
//
// The area holds *groups*. A group starts at a block boundary, and is not written again once it is acknowledged. It
// carries its own LSN, so a group of an earlier use of the file cannot be taken for a new one [rvm.log.lap].
// Consecutive groups that were written with one sync form a *batch*, which counts whole or not at all [rvm.log.batch].
// At most one batch is unsynced at any time. So an invalid group with a later batch behind it is damage, and not a torn
// tail [rvm.log.one-in-flight].
//
//     group   group_header | record | record | … | zeros up to the block size
//     record  record_header | body, padded to 8 bytes
//
// Groups, records and ranges carry their own length and the length of the one before them, so the log can be read in
// both directions [RVM fig. 5]. Each group names the segments that its ranges belong to. So no name can be truncated
// away while a record still needs it [rvm.log.dictionary].
#pragma once

#include "segments/format.hpp"

namespace tenure::rvm {

inline constexpr std::uint32_t group_magic = 0x50524754;  // "TGRP"

// The longest group, padding included. A group of this length can be read and checked in memory.
inline constexpr std::uint32_t max_group = 1024 * 1024;

// The header of a group.
struct group_header {
  std::uint32_t magic;           //    0  group_magic
  std::uint32_t checksum;        //    4  CRC32C of bytes 8 … length-1
  std::uint64_t log_id;          //    8  first 8 bytes of the log's identity
  std::uint64_t lsn;             //   16  of this group
  std::uint64_t batch;           //   24  LSN of the first group of the batch
  std::uint64_t synced_through;  //   32  the log was durable up to here when this was built
  std::uint32_t length;          //   40  bytes used, this header included
  std::uint32_t previous;        //   44  length on disk, padding included, of the group before; 0: not known
  std::uint32_t generation;      //   48  of the opening that wrote it
  std::uint32_t records;         //   52
  std::uint32_t flags;           //   56  group_last, group_of_all, group_prepared
  std::uint32_t reserved;        //   60  zero
};
static_assert(sizeof(group_header) == 64);
inline constexpr std::uint32_t group_last = 1;  // the last group of its batch
// Its batch has all commits that were made. Otherwise some were left out because later ones cover them, and only the
// batch as a whole leads from one state that there was to another [rvm.log.batch].
inline constexpr std::uint32_t group_of_all = 2;
// What it has is not committed, but prepared. It means nothing once another batch follows [rvm.prepared.log].
inline constexpr std::uint32_t group_prepared = 4;

// Record type 6 is reserved: snapshot. Type 2 is only read: earlier versions wrote it. A reader refuses types and flags that
// it does not know, as those of another version. A record of type prepare has a global id. One of type outcome says nothing but
// that what was prepared was aborted.
enum class record_type : std::uint16_t {
  segment = 1,
  transaction = 2,
  runs = 3,
  prepare = 4,
  outcome = 5,
  changes = 7
};

struct record_header {
  record_type type;        //    0
  std::uint16_t flags;     //    2  record_first, record_last, record_lazy
  std::uint32_t length;    //    4  bytes, this header and padding included; a multiple of 8
  std::uint32_t previous;  //    8  length of the record before it in this group; 0: none
  std::uint32_t count;     //   12  changed pages, ranges or bulk runs; bytes of a path, or of a global id
};
static_assert(sizeof(record_header) == 16);
inline constexpr std::uint16_t record_first = 1;  // begins a transaction
inline constexpr std::uint16_t record_last = 2;   // ends it: its commit record
inline constexpr std::uint16_t record_lazy = 4;   // committed no_flush

// The body of a segment record. It names a segment for the rest of its group. The segment's number in the group is the
// number of segment records before this one. The path follows: absolute, or relative to the log's directory.
struct segment_body {
  identity id;          //   16  zero for a raw segment
  std::uint32_t raw;    //   32  1: no header, data from byte 0
  std::uint32_t pages;  //   36  of redo_page bytes, that it had at least when the group was filled; 0: not known
};
static_assert(sizeof(segment_body) == 24);

// The body of a record of changes, of a transaction record and of one of bulk runs. The label follows, padded to 8, then
// the changed pages, the ranges or the runs. A transaction that does not fit into the rest of a group continues in
// another record.
struct transaction_body {
  std::uint64_t id;        //   16
  std::int64_t time;       //   24  ns since 1970, for people
  std::uint32_t label;     //   32  bytes
  std::uint32_t reserved;  //   36
};
static_assert(sizeof(transaction_body) == 24);

// In a record of changes, what the transaction has changed on a page: this header, then the ranges, each with its new
// value behind it; padded to 8. 39 KB of changed words took 196 KB of log with a range_header each.
struct changed_page {
  std::uint64_t page;     //    0  number in the segment's data, of redo_page bytes each
  std::uint32_t bytes;    //    8  of the ranges and their values, without padding
  std::uint16_t segment;  //   12  number in this group
  std::uint16_t ranges;   //   14  not 0
};
static_assert(sizeof(changed_page) == 16);

// Not aligned. A page's ranges are in ascending order and disjoint [rvm.log.disjoint].
struct changed_range {
  std::uint16_t offset;  //  0  in the page
  std::uint16_t length;  //  2  bytes, not 0; ends on the page
};
static_assert(sizeof(changed_range) == 4);

// In a transaction record, a range: this header, then the new value, padded to 8.
struct range_header {
  std::uint64_t offset;    //    0  in the segment's data, bytes
  std::uint32_t length;    //    8  bytes
  std::uint32_t previous;  //   12  from the range before it in this record to this one, bytes; 0: none
  std::uint32_t segment;   //   16  number in this group
  std::uint32_t reserved;  //   20
};
static_assert(sizeof(range_header) == 24);

// A record of bulk runs has a transaction's body and label, then the runs. A run is pages that were written straight to
// the segment, and were durable there before the record was. A run is this header, then the CRC32C of each page, padded
// to 8. A transaction's bulk runs come before its ranges.
//
// Or the pages were cleared: the program needs their contents no more, and their space was given back. Then no checksums
// follow. They read as zeros, but not in what is restored from a backup and the log [rvm.bulk.cleared].
struct bulk_run_header {
  std::uint64_t offset;    //    0  in the segment's data, bytes; a multiple of redo_page
  std::uint32_t pages;     //    8  of redo_page bytes; not 0
  std::uint32_t previous;  //   12  from the run before it in this record to this one, bytes; 0: none
  std::uint32_t segment;   //   16  number in this group
  std::uint32_t flags;     //   20  run_cleared
};
static_assert(sizeof(bulk_run_header) == sizeof(range_header));
inline constexpr std::uint32_t run_cleared = 1;

}  // namespace tenure::rvm
