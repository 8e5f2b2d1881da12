// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure backup: a copy of a store, or of a log with its segments, that may be in use meanwhile; or what was committed since an
// earlier one. tenure restore: what is made from such copies again.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace tenure::tools {

class progress_line;

struct wanted_backup {
  std::string path, to;                  // path: the directory of a store, or a log
  std::string since = {}, archive = {};  // see rvm::backup_options
  bool check = false;                    // everything in the copy is checked, as `tenure verify` does
};
// If anything is wrong it is shown, and exit_damaged is returned. `progress`: may be nullptr.
int make_backup(const wanted_backup& what, bool as_json, std::FILE* out, progress_line* progress);

struct wanted_restore {
  std::vector<std::string> backups = {};  // the full one first
  std::string to = {};
  std::string log = {}, archive = {};  // of the original; log: or the store's directory
  std::string until = {};              // as moment::parse
  std::optional<std::uint64_t> transaction = {};
  bool with_damaged_pages = false;
  bool check = false;
};
int restore_backup(const wanted_restore& what, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
