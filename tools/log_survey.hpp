// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Looking at a log as it is: live, clean, left behind by a crash, or damaged. Takes no lock and changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "log/log_files.hpp"
#include "os/file.hpp"
#include "records/group.hpp"

namespace tenure::tools {

// One of the two copies of the manifest.
struct manifest_copy {
  rvm::manifest read{};
  bool is_valid = false;
};

// A hole in acknowledged data: what lies in [from, to) is lost, and the reason says how that is known.
struct damage {
  rvm::lsn from, to;
  std::string reason;
};

struct survey {
  rvm::lsn head = 0;
  rvm::lsn tail = 0;        // behind the last whole batch
  rvm::lsn last_group = 0;  // the group that ends there, if there is one
  std::uint64_t groups = 0, batches = 0;
  // Intact groups of the batch at the tail that is not whole: torn by a crash, or being written just now.
  std::uint64_t torn_groups = 0, torn_bytes = 0;
  std::vector<damage> damaged;
};

// Reads both copies; throws only if the file cannot be read.
[[nodiscard]] std::vector<manifest_copy> read_manifest_copies(os::disk& disk, const std::string& path);

using group_visitor = std::function<bool(const rvm::group_view&, os::const_bytes)>;

// Walks over the live log, first to last, and calls visit for each group of every whole batch, and of what can be read
// around damage, until it returns false. A log that is written to meanwhile is followed: neither a head that has moved
// on nor a tail that grows counts as damage.
survey survey_log(os::disk& disk, const std::string& path, const group_visitor& visit);

}  // namespace tenure::tools
