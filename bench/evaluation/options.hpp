// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What bench_rvm was asked to do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/program.hpp"

namespace tenure::bench::evaluation {

struct program_options : common_options {
  double seconds = 1;                              // of each run
  std::uint64_t memory = std::uint64_t{64} << 20;  // bytes; the paper's machine had 64 MiB
  std::vector<double> ratios;                      // of recoverable memory to it, percent
  std::vector<std::string> contenders;             // empty: all
  std::vector<std::string> exhibits;               // empty: all

  [[nodiscard]] bool wants(const std::string& exhibit) const;
  [[nodiscard]] bool wants_contender(const std::string& name) const;
};

// A process of its own.
struct child_options {
  std::string task, contender, pattern, group;
  std::uint64_t accounts = 0, memory = 0;
  double seconds = 0;
};

// Table 1, figures 8 and 9 of the paper: throughput and processor time by the ratio of recoverable memory to memory.
bool run_sweep(const program_options& how);
// Table 2: what the optimizations keep out of the log, of recorded traces.
bool run_savings(const program_options& how);
// How long a search through the history takes.
bool run_history(const program_options& how);
// The C interface against the C++ one.
bool run_interfaces(const program_options& how);

// What children do; each prints one JSON object.
void run_sweep_child(const child_options& what, const std::filesystem::path& directory);
void run_interface_child(const child_options& what, const std::filesystem::path& directory);

}  // namespace tenure::bench::evaluation
