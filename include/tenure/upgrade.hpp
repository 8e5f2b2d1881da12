// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores, and logs with their segments, of format 1, which the first released version of the library wrote: this version
// cannot open them, but makes new ones of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tenure/rvm/log_options.hpp>

namespace tenure::os {
class disk;
}

namespace tenure {

struct upgrade_options {
  // Segments that are not in the log's directory, or are raw. They get the same file names in the new directory.
  std::vector<std::string> segments = {};
  // Go on though the log knows of a segment that is not there. Without changes of it that wait in the log.
  bool without_missing = false;
  // Also reads all that was made, and compares every page with its checksum (errc::damaged).
  bool verify = false;
  std::uint64_t memory = std::uint64_t{192} << 20;  // bytes that it may use, at least 8 MiB
  rvm::progress_callback on_progress = {};          // phases "copying", "recovering", "verifying"
  os::disk* disk = nullptr;
};

struct upgrade_report {
  std::vector<std::string> files;      // that were made, but the log's
  std::uint64_t bytes = 0;             // copied
  std::uint64_t databases = 0;         // that are among the files
  std::uint64_t transactions = 0;      // that were in the log and not in the segments yet
  std::uint64_t leftover_records = 0;  // groups of a commit that was interrupted: nothing was lost with them
  double seconds = 0;
};

#pragma GCC visibility push(default)  // libtenure.so exports it

// Makes what there is at `path`, the directory of a store or a log, anew in `directory`, which is made, or is empty. The log
// is closed, and is a new one: archives of the old one do not belong to it. Its segments are those that lie beside the log
// and belong to it, and options.segments. Objects of stores are where they were, with the headers that they had; new ones
// get none where today's would not, as soon as the database has new zones (docs/heap.md).
//
// The original is only read, and may not be in use (errc::in_use). What was committed and waits in its log is in the new one.
// If this fails, or is interrupted, nothing in `directory` opens, and the original is as it was: remove the directory, and
// begin again. (One that came to its last step, to make the new log's name durable, may open: it is complete then.) Of two
// files that are the same segment, the one that options.segments has is taken; if none is there, errc::wrong_log.
//
// Throws errc::wrong_version if there is nothing to upgrade, or it is of a version that is not known; errc::damaged;
// errc::segment_missing; errc::wrong_log for files of different moments; std::errc::file_exists if `directory` is not empty.
upgrade_report upgrade(const std::string& path, const std::string& directory, const upgrade_options& how = {});

#pragma GCC visibility pop

}  // namespace tenure
