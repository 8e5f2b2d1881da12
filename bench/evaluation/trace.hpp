// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a program asks of recoverable memory, in order, without what it computes: for runs of the same requests again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tenure::bench::evaluation {

struct step {
  enum class kind : std::uint8_t { range, commit_flush, commit_no_flush, abort, flush } what;
  std::uint64_t offset = 0, length = 0;  // of a range, in recoverable memory
};

struct trace {
  std::string name, what;
  std::vector<step> steps;
  [[nodiscard]] std::uint64_t length() const;  // of the memory that its ranges lie in
};

// Reads a trace as the recorder (bench/recorder) writes it, compressed with zstd. Addresses become offsets.
[[nodiscard]] trace read_trace(const std::filesystem::path& file);
// Records what a client of a distributed file system does to its metadata while its user edits, compiles and tidies up.
[[nodiscard]] trace file_system_trace(std::uint64_t seed);

}  // namespace tenure::bench::evaluation
