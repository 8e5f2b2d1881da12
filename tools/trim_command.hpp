// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure trim: to give the disk space of what is free in a store back to the file system.
#pragma once

#include <cstdio>
#include <string>

namespace tenure::tools {

class progress_line;

// Nobody may have the store open. `progress`: may be nullptr.
int trim_store(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
