// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure gc: to destroy what no root of a store leads to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace tenure::tools {

class progress_line;

struct wanted_collection {
  bool dry_run = false;  // only says what would go
  // With dry_run: also says which transactions have dropped the most, this many of them, and how that was reached last. 0: nothing.
  std::size_t most_past = 0;
  std::uint32_t markers = 0;  // threads that mark; 0: one for each processor, at most 8
  std::string archive = {};   // where the history goes on, or is; empty: beside the log, if there is one
};

// Nobody may have the store open. `progress`: may be nullptr.
int collect_store(const std::string& directory, const wanted_collection& which, bool as_json, std::FILE* out,
                  progress_line* progress);

// tenure space: how much of a store is live, garbage and free, by type. Nobody may have it open for writing.
int show_space(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
