// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recovery: what committed transactions left in the log goes to their segments, and the log begins anew
// [RVM §5.1.2]. The log is read from tail to head, the newest values are written to the segments, and only then does the
// status block say that the log is empty. A crash on the way leaves the log as it was.
#pragma once

#include <tenure/rvm/statistics.hpp>

#include "log/local_log.hpp"
#include "records/archive_writer.hpp"
#include "records/log_reader.hpp"
#include "replay/redo.hpp"

namespace tenure::rvm {

struct recovery_settings {
  os::disk& disk;
  std::uint64_t memory;   // bytes for what is collected
  bool give_up_segments;  // see options
  const progress_callback& progress;
  archive_writer* archive;  // nullptr: there is none
};

// The log is empty when this returns, and in a new generation.
[[nodiscard]] recovery_report recover(local_log& log, const recovery_settings& how);

// A log that is only read: finds its live part, which stays in it.
[[nodiscard]] log_part find_live_part(local_log& log, const progress_callback& progress);
// The newest values that this part of a log has for a segment.
[[nodiscard]] redo changes_in_log(const readable_log& log, const log_part& live, segment& of);

}  // namespace tenure::rvm
