// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvmutl's `show mods`: which transactions in a log have changed some bytes, and to what.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/file.hpp"

namespace tenure::tools {

// "0x150000001000/8xb = 1 2": where, how many numbers of which size, how they are shown, and what they must be.
struct wanted_mods {
  std::string segment = {};  // empty: `at` is an address in memory
  std::uint64_t at = 0;
  std::uint64_t count = 1;
  std::size_t size = 8;  // bytes a number
  char format = 'd';     // d, u, x, o or c
  // Of count*size bytes; nothing: whatever they are.
  std::optional<std::string> value = {};

  // Throws std::runtime_error.
  static wanted_mods parse(const std::string& text);
  [[nodiscard]] std::uint64_t length() const { return count * size; }
};

// Shows them, oldest first. An address is looked for in the headers of the segments that the log has changes for. Throws if
// it is in none of them.
void show_log_mods(os::disk& disk, const std::string& log, const wanted_mods& which, std::FILE* out);

}  // namespace tenure::tools
