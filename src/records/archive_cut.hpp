// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Removes the oldest frames of an archive.
#pragma once

#include <string>

#include "records/archive_reader.hpp"

namespace tenure::rvm {

struct cut_report {
  std::uint64_t frames = 0, bytes = 0;  // removed
};

// Removes the frames that end at or before `begin`. The caller holds the log's lock, so that no process adds frames
// meanwhile. A crash leaves each part either as it was or as it will be.
cut_report cut_archive(os::disk& disk, const std::string& path, const identity& log_id, lsn begin);

}  // namespace tenure::rvm
