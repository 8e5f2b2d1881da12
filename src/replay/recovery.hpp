// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recovery: writes the committed changes that the log still has to their segments, then starts the log anew [RVM
// §5.1.2]. It reads the log from tail to head and writes the newest values to the segments. Only then does the status
// block say that the log is empty. A crash during recovery leaves the log as it was.
#pragma once

#include <functional>
#include <optional>

#include <tenure/rvm/statistics.hpp>

#include "log/local_log.hpp"
#include "records/archive_writer.hpp"
#include "records/log_reader.hpp"
#include "records/prepared_record.hpp"
#include "replay/redo.hpp"

namespace tenure::rvm {

struct recovery_settings {
  os::disk& disk;
  std::uint64_t memory;   // bytes for collected values
  bool give_up_segments;  // see options
  const progress_callback& progress;
  archive_writer* archive;  // nullptr: there is none
  // Says the outcome of what is prepared, or throws; then the log is as it was.
  std::function<outcome(const prepared_transaction&)> in_doubt;
};

struct recovered {
  recovery_report report;
  std::optional<prepared_contents> committed;  // what is prepared, if its outcome is a commit
};

// When this returns, the log has a new generation. It is empty, but for what is prepared and has to be committed: the head stays
// there until it is.
[[nodiscard]] recovered recover(local_log& log, const recovery_settings& how);

// Finds the live part of a log that is only read. The part stays in the log.
[[nodiscard]] log_part find_live_part(local_log& log, const progress_callback& progress);
// The newest values that this part of a log has for a segment.
[[nodiscard]] redo changes_in_log(const readable_log& log, const log_part& live, segment& of);

}  // namespace tenure::rvm
