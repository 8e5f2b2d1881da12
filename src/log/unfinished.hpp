// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log and its segments that are being made of others: as long as the log is not there, a file beside it,
// PATH.unfinished, says why. What an interruption leaves can be told from files whose log was lost.
#pragma once

#include <string>
#include <utility>

#include "os/file.hpp"

namespace tenure::rvm {

// Durable on return. The directory is empty before; if it is not, throws std::errc::file_exists, and everything stays.
void mark_unfinished(os::disk& disk, const std::string& log_path);
// When the log is there. If a crash comes before, nobody looks at the file any more.
void mark_finished(os::disk& disk, const std::string& log_path);
// Removes what is in the directory instead, the log first and the mark last. What cannot be removed stays, with the mark.
void discard_unfinished(os::disk& disk, const std::string& log_path) noexcept;
// Runs make(), which makes the log and its segments in the empty directory. If it throws, nothing is left there.
template <class F>
void make_marked(os::disk& disk, const std::string& log_path, F&& make) {
  mark_unfinished(disk, log_path);
  try {
    std::forward<F>(make)();
    mark_finished(disk, log_path);
  } catch (...) {
    discard_unfinished(disk, log_path);
    throw;
  }
}
// For a log that is not there: throws errc::damaged if it was never finished.
void require_not_unfinished(os::disk& disk, const std::string& log_path);

}  // namespace tenure::rvm
