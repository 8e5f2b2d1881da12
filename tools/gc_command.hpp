// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure gc: to destroy what no root of a store leads to.
#pragma once

#include <cstdio>
#include <string>

namespace tenure::tools {

class progress_line;

// Nobody may have the store open. `dry_run`: only says what would go. `archive`: where the history goes on; empty: beside the log,
// if there is one. `progress`: may be nullptr.
int collect_store(const std::string& directory, bool dry_run, const std::string& archive, bool as_json, std::FILE* out,
                  progress_line* progress);

// tenure space: how much of a store is live, garbage and free, by type. Nobody may have it open for writing.
int show_space(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
