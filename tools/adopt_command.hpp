// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure adopt: to go on with a copy that was made while the store or the log was in use, after a full check.
#pragma once

#include <cstdio>
#include <string>

namespace tenure::tools {

class progress_line;

// `path`: the directory of a store, or a log. First everything is read and checked: the log, each page of each file, and
// in a store each object. If anything is wrong, it is shown, nothing is changed, and exit_damaged is returned. Otherwise
// the log is recovered, and closed. `progress`: may be nullptr.
int adopt_copy(const std::string& path, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
