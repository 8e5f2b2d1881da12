// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The order in which a program has used the parts of a store's databases, in a file of text (formats.md): what a store that is
// opened with record_accesses writes, and what the rewriter puts objects in the order of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "log/format.hpp"
#include "os/file.hpp"

namespace tenure::rewriting {

struct used_parts {
  std::array<std::uint8_t, 16> database;  // its identity
  std::uint64_t unit = 0;                 // bytes of a part
  std::vector<std::uint32_t> order;       // numbers of parts
  bool is_cut_short = false;              // what was used after these is not known
};

// What was recorded of a store.
struct used_parts_of_store {
  rvm::identity log{};  // of its log; another one when the store has been rewritten
  std::vector<used_parts> databases;
};

// Replaces the file.
void write_accesses(os::disk& disk, const std::string& file, const used_parts_of_store& all);
// Throws errc::bad_option, with the line, if it is no such file.
[[nodiscard]] used_parts_of_store read_accesses(os::disk& disk, const std::string& file);

}  // namespace tenure::rewriting
