// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure upgrade: a store, or a log with its segments, of format 1 made anew.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace tenure::tools {

class progress_line;

struct wanted_upgrade {
  std::string path, to;  // path: the directory of a store, or a log
  std::vector<std::string> segments = {};
  bool without_missing = false;
  bool check = false;  // everything in what is made is checked, as `tenure verify` does
};
// If anything is wrong it is shown, and exit_damaged is returned. `progress`: may be nullptr.
int upgrade_format(const wanted_upgrade& what, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
