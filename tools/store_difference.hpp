// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure diff: what differs between two stores, by the paths from their roots. Addresses do not count: objects are the same if
// what is in them is, and what they refer to.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "compared_store.hpp"

namespace tenure::tools {

class progress_line;

struct found_differences {
  std::vector<std::string> lines;  // at most what was asked for
  std::uint64_t all = 0;           // also those that are not in `lines`
  std::uint64_t objects = 0;       // that were compared
};
// `most`: differences to say.
[[nodiscard]] found_differences differences_of(compared_store& one, compared_store& other, std::size_t most);

// Returns exit_damaged if they differ.
int show_store_difference(const std::string& one, const std::string& other, std::uint64_t most, bool as_json,
                          std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
