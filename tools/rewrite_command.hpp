// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure compact, cluster, rebase, clone: stores that nobody has open are written anew.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace tenure::tools {

class progress_line;

struct wanted_rewrite {
  std::string path;
  std::string to = {};                  // clone: the directory to make; otherwise in place
  std::string order = "breadth-first";  // breadth-first, depth-first, address, type, access
  std::string accesses = {};            // access: the file with what a program has recorded
  std::vector<std::string> homes = {};  // "main=0x200000000000"; of rebase also none: all get random ones
  std::string reservation = {};         // bytes; empty: as it was
  bool is_rebase = false;
  bool check = false;  // everything in what is made is checked, as `tenure verify` does
};
// If anything is wrong with what was made it is shown, and exit_damaged is returned. `progress`: may be nullptr. Throws
// tenure::error.
int rewrite_store(const wanted_rewrite& what, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
