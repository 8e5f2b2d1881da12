// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// `tenure repair`.
#pragma once

#include <cstdio>
#include <string>

namespace tenure::tools {

class progress_line;

struct wanted_repair {
  std::string path = {};  // of the store
  std::string to = {};    // the directory to make; empty: in place
  bool dry_run = false;
};

// Returns exit_damaged if a dry run finds something; otherwise, exit_ok. Throws tenure::error.
int repair_store(const wanted_repair& what, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
