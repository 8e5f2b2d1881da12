// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A segment's file, byte by byte. docs/formats.md says the same in prose. All integers are little-endian.
//
// A formatted segment: two header copies, then pieces: a table with a checksum for each page of the piece, and its data.
// A segment that never grows is one piece. Otherwise the second piece is as long as the first one, and each one after it
// as long as all before it, so that the file is not longer than its data needs, and there are few pieces. The file ends
// where the segment's data ends. Tables and data begin at multiples of 64 KiB in the file (segment_layout.hpp).
//
//     0        header, copy 0           4096 bytes
//     4096     header, copy 1           4096 bytes
//     65536    checksums of piece 0     4 bytes a page of it, rounded up to 64 KiB
//     data     data of piece 0          first_piece bytes, or max_length if that is 0
//     …        checksums of piece 1
//     …        data of piece 1
//
// A stored checksum is CRC32C(page) xor CRC32C(zeros), so that new space, where the page and its stored checksum are
// zeros, is valid [rvm.segment.checksum]. While pages are written in bulk, straight to the segment, the header names
// them: a crash may leave such a page and its checksum at different states, and the next process that opens the segment
// computes those checksums again [rvm.bulk.noted].
#pragma once

#include "log/format.hpp"

namespace tenure::rvm {

// Redo and checksums use pages of this size, whatever the host's page size is.
inline constexpr std::uint32_t redo_page = 4096;

struct bulk_note {
  std::uint64_t page, pages;
  std::uint64_t transaction;  // that writes them; 0: several
  std::uint32_t generation;   // of the log's opening
  std::uint32_t flags;        // note_cleared
};
static_assert(sizeof(bulk_note) == 32);
inline constexpr std::uint32_t note_cleared = 1;  // they become zeros, and their space is given back
inline constexpr std::size_t max_bulk_notes = 28;

struct segment_header {
  std::uint64_t magic;                                           //    0  segment_magic
  std::uint32_t version;                                         //    8  segment_format_version
  std::uint32_t endian;                                          //   12  endian_mark
  identity segment_id;                                           //   16
  std::uint64_t sequence;                                        //   32  the valid copy with the higher one holds
  std::uint64_t length;                                          //   40  bytes of data
  std::uint64_t max_length;                                      //   48  bytes of data that there is room for
  std::uint64_t data_offset;                                     //   56  of the first piece, in the file
  std::uint32_t compatible, read_only_compatible, incompatible;  // 64, 68, 72: as in manifest_header
  std::uint32_t in_log;                        //   76  1: the log below may hold changes for this segment
  identity log_id;                             //   80  of the log that it was last changed under
  std::uint32_t log_path_length;               //   96
  std::array<char, 3000> log_path;             //  100  absolute, for messages; cut if longer
  std::uint32_t bulk_count;                    // 3100  of the entries below
  std::uint64_t home, tag;                     // 3104, 3112: the creator's; see segment_options
  std::array<bulk_note, max_bulk_notes> bulk;  // 3120
  // Changes of the log above, up to this LSN, may be in the pages. It is written before such changes are. It holds only
  // if a version of the library that knows this field wrote the header: then `applied_sequence` is `sequence`.
  // Otherwise, and if `applied` is 0, nothing is known.
  std::uint64_t applied, applied_sequence;  // 4016, 4024
  std::uint32_t is_member;                  // 4032  1: the log's manifest lists it as a member
  std::uint32_t was_blank;                  // 4036  1: it was zeros at `since`
  std::uint64_t first_piece;                // 4040  bytes of data, a power of two; 0: the segment is one piece
  // Where in the log above its changes began, for the first time or again after those of another log. 0: not known, or it
  // was never changed. The log has all changes since then [rvm.backup.whole].
  std::uint64_t since;                    // 4048
  std::array<std::uint8_t, 36> reserved;  // 4056
  std::uint32_t checksum;                 // 4092  CRC32C of bytes 0 … 4091
};
static_assert(sizeof(segment_header) == 4096 && offsetof(segment_header, log_path) == 100 &&
              offsetof(segment_header, bulk) == 3120 && offsetof(segment_header, applied) == 4016 &&
              offsetof(segment_header, checksum) == 4092);
inline constexpr std::uint64_t segment_alignment = 64 * 1024;
// Stored in place of a page's checksum. It means: the page failed its checksum before part of it was overwritten. Only
// overwriting the whole page makes it sound again [rvm.segment.marked-damaged].
inline constexpr std::uint32_t damaged_page_mark = 0x21444142;  // "BAD!"
inline constexpr std::uint64_t segment_checksums_offset = segment_alignment;

}  // namespace tenure::rvm
