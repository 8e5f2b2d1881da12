// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a backup says of itself: the file LOG.backup in its directory. docs/formats.md says the same in prose.
//
// A full backup is a log, closed, with its segments, and this note. An incremental one is this note, and an archive with
// the stretch of log from one position to another, LOG.archive.1.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "log/format.hpp"
#include "log/manifest.hpp"
#include "os/file.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

inline constexpr std::uint32_t backup_version = 1;

// The note's beginning. The label follows, padded to 8, then the segments. All integers are little-endian.
struct backup_header {
  std::uint64_t magic;                    //    0  backup_magic
  std::uint32_t version;                  //    8  backup_version
  std::uint32_t endian;                   //   12  endian_mark
  identity log_id;                        //   16  of the log that it is a backup of
  identity own_id;                        //   32  of the backup's own log; zero: it has none, and is incremental
  std::uint64_t from;                     //   48  LSN from which on it has the log; of a full one that is `to`
  std::uint64_t to;                       //   56  LSN: it has all commits before, and none after
  std::uint64_t transaction;              //   64  the last of them; 0: not known
  std::int64_t time;                      //   72  of its commit, ns since 1970; 0: not known
  std::int64_t made;                      //   80  ns since 1970, not before that commit
  std::uint32_t label;                    //   88  bytes of the transaction's label
  std::uint32_t segments;                 //   92  that follow
  std::uint64_t length;                   //   96  of the file, bytes
  std::uint32_t incompatible;             //  104  features that a reader must know
  std::array<std::uint8_t, 16> reserved;  //  108  zero
  std::uint32_t checksum;                 //  124  CRC32C of the file, in which the checksum itself counts as zero
};
static_assert(sizeof(backup_header) == 128 && offsetof(backup_header, length) == 96 &&
              offsetof(backup_header, checksum) == 124);

// A segment that the backup has, or that its stretch of log changes. The path follows, as records have it, padded to 8;
// then, unless it is raw, the segment's header as it was when the note was made.
struct backup_segment {
  std::uint32_t path;        //  0  bytes
  std::uint32_t membership;  //  4  as in the manifest
  std::uint32_t raw;         //  8
  std::uint32_t reserved;    // 12  zero
};
static_assert(sizeof(backup_segment) == 16);

struct noted_segment {
  std::string path;
  bool raw = false;
  std::uint32_t membership = 0;
  segment_header header{};
};

struct backup_note {
  identity log_id{}, own_id{};
  std::uint64_t from = 0, to = 0, transaction = 0;
  std::int64_t time = 0, made = 0;
  std::string label;
  std::vector<noted_segment> segments;

  [[nodiscard]] bool is_full() const { return own_id != identity{}; }
};

// Whether a log has all changes that made a segment what its header says of it, since it was as in a backup that has the log up to
// `to`: `earlier` is its header there; nullptr: the backup does not have it [rvm.backup.whole].
[[nodiscard]] bool leads_on(const segment_header* earlier, const segment_header& now, const identity& log, lsn to);

// Where a backup is: the path of its log, or, if it is incremental, the one that its log would have.
[[nodiscard]] std::string note_path(const std::string& log_path);
// `where`: a backup's directory, or the path of its log. Throws errc::not_a_log if no backup is there.
[[nodiscard]] std::string find_backup(os::disk& disk, const std::string& where);
[[nodiscard]] backup_note read_backup_note(os::disk& disk, const std::string& log_path);
// Throws errc::wrong_log if a full backup, whose log has this manifest, was opened and changed since it was made.
void require_untouched(const manifest& found, const std::string& backup, const backup_note& note);
// Durable on return. There must be none.
void write_backup_note(os::disk& disk, const std::string& log_path, const backup_note& note);

// For a backup, or for what is restored from one, in a directory that need not exist. Throws std::errc::file_exists if
// something is in it. `what`: "a backup".
void require_empty_directory(os::disk& disk, const std::string& directory, const std::string& what);
// The same, and makes the directory.
void make_empty_directory(os::disk& disk, const std::string& directory, const std::string& what);

}  // namespace tenure::rvm
