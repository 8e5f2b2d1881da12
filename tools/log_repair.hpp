// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure log cut | renew: to open again what a damaged or lost log keeps closed, knowing what is lost with it. Both keep the old
// file, as LOG.replaced.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "log/log_files.hpp"
#include "os/file.hpp"

namespace tenure::tools {

// The files in the log's directory that are segments with headers.
[[nodiscard]] std::vector<std::string> segments_beside(const std::string& log_path);

// Makes a damaged log end before `at`, or before the batch that `at` is in. What was committed from there on is given up, and
// shown. Refuses a log that is whole. Returns an exit code.
int cut_log(os::disk& disk, const std::string& path, rvm::lsn at, const std::vector<std::string>& segments,
            bool as_json, std::FILE* out);

// Puts a new, empty log in place of one that is lost, cannot be read, or has nothing in it, and lets the segments go from
// the old one. Refuses if one of them says that changes of it are waiting there, unless these are to be given up.
int renew_log(os::disk& disk, const std::string& path, const std::vector<std::string>& segments, bool give_up,
              bool as_json, std::FILE* out);

}  // namespace tenure::tools
