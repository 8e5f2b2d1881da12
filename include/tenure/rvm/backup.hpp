// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups: copies of a log's segments that are made while the log is in use, and are of one moment; and what is made from
// them again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm/log_options.hpp>

namespace tenure::os {
class disk;
}

namespace tenure::rvm {

struct backup_options {
  // The directory of an earlier backup of this log, full or incremental: the new backup is incremental, and has only what was
  // committed since that one. Empty: it is full. The stretch of log must still be there, in the log or in its archive, and
  // without pages that were written in bulk past the log: otherwise errc::no_history.
  std::string since = {};
  std::string archive = {};  // the log's archive, for an incremental backup; empty: as archive_options::path
  // Also reads the whole backup when it is made, and compares every page with its checksum (errc::damaged).
  bool verify = false;
  std::uint64_t memory = std::uint64_t{192} << 20;  // bytes that it may use, at least 8 MiB
  progress_callback on_progress = {};               // phases "copying", "recovering", "verifying"
};

// What a backup is.
struct backup_report {
  // It has all commits before this position of the log, and none after it.
  lsn tail = 0;
  // The last of them: the transaction's number, its time in ns since 1970, and its label. All zero if nothing was committed
  // since the last truncation.
  std::uint64_t transaction = 0;
  std::int64_t time = 0;
  std::string label;
  std::vector<std::string> files;  // the segments, as they are called in the backup
  std::uint64_t bytes = 0;         // copied
  std::uint64_t transactions = 0;  // that were in the log and not in the segments yet
  // By a restore: transactions up to the point that are not in it, because they were made durable together with later
  // ones, of which some left nothing in the log.
  std::uint64_t left_out = 0;
  // Segments that the log knows and that are not in it. Of a full backup: they are not where they were when they were changed
  // last, as they were removed, or renamed and not opened since. By a restore: they were made after the full backup, and removed
  // before the incremental one that has their changes; or another segment has their name.
  std::vector<std::string> gone = {};
  double seconds = 0;
};

// Up to where a backup is rolled forward: at most one of them.
struct restore_point {
  // The last transaction whose record is at this position or before it, as `tenure log search` shows it.
  std::optional<lsn> position = {};
  std::optional<std::uint64_t> transaction =
      {};  // this one. Numbers begin again with every opening: it must be there once, behind the backup
  std::optional<std::int64_t> time = {};  // ns since 1970: the last one before the first that is later
};

struct restore_options {
  std::vector<std::string> increments = {};  // directories of incremental backups, in any order
  // Of the original: what was committed after the last backup. The log may be in use, or be what a crash has left.
  std::string log = {};
  std::string archive = {};  // its path, as archive_options::path; empty: where `log`, if given, has it by default
  restore_point until = {};  // nothing: everything that is there
  // Every page that is restored is compared with its checksum (errc::damaged). Not those of the backup that were damaged
  // already, if this is set: they are restored as they are, and reported by whoever verifies the segment.
  bool with_damaged_pages = false;
  std::uint64_t memory = std::uint64_t{192} << 20;
  progress_callback on_progress = {};  // phases "reading the log", "copying", "recovering", "verifying"
  os::disk* disk = nullptr;
};

#pragma GCC visibility push(default)  // libtenure.so exports it

// Makes a log with its segments in `directory`, which is made, or is empty: from a full backup (its directory), and from what
// was committed afterwards, up to a point. It is closed, as the original was after the transaction that the report names, and
// opens like any other log. It has an identity of its own: archives and backups of the original are not those of the new log,
// even if nothing is lacking. The backups and the original are not changed. If it fails, what is in the
// directory is removed; what cannot be removed does not open, unless it is whole.
// What is prepared at the end of `log`, if that is the point, is in doubt in the new log, too (transaction::prepare).
//
// Throws errc::no_history if LSNs are missing between the parts, or the point lies behind all of them; errc::bad_option for a
// point before the backup, or of several; errc::wrong_log for parts of another log; errc::damaged;
// std::errc::file_exists if the directory is not empty.
//
// Transactions of one batch, of which some left nothing in the log because later ones have overwritten all of it, are
// restored together, or not at all.
backup_report restore(const std::string& backup, const std::string& directory, const restore_options& how = {});

#pragma GCC visibility pop

}  // namespace tenure::rvm
