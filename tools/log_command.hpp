// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure log status | records: what is in a log, for people and (as JSON) for programs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "log/log_files.hpp"
#include "os/file.hpp"

namespace tenure::tools {

// Exit codes of the tenure command.
inline constexpr int exit_ok = 0;
inline constexpr int exit_damaged = 1;  // what was looked at is damaged; what is readable was shown
inline constexpr int exit_failed = 2;   // it could not be looked at

struct record_selection {
  std::optional<rvm::lsn> from = {};  // none: from the log's head
  std::optional<std::uint64_t> limit = {};
  std::optional<std::uint64_t> transaction = {};
  std::string segment = {};  // empty: all
  bool with_data = false;
};

// Both change nothing, and return an exit code. `last`: the record that was shown last; as it was if none was.
int show_log_status(os::disk& disk, const std::string& path, bool as_json, std::FILE* out);
int show_log_records(os::disk& disk, const std::string& path, const record_selection& which, bool as_json,
                     std::FILE* out, std::optional<rvm::lsn>* last = nullptr);
// The counters over the log's life, one a line.
void show_log_totals(os::disk& disk, const std::string& path, std::FILE* out);
// Compares every page of a segment with its checksum.
int verify_segment(os::disk& disk, const std::string& log_path, const std::string& segment_path, bool as_json,
                   std::FILE* out);

}  // namespace tenure::tools
