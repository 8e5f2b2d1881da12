// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What bench_tpca was asked to do, and where its results go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/machine.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"

namespace tenure::bench::tpca {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct program_options {
  std::uint64_t accounts = 262144;
  std::uint64_t transactions = 0;  // 0: what the case says
  unsigned repeat = 0;             // 0: what the case says
  double seconds = 10;             // a run stops after so long, even if transactions are left
  std::uint64_t log_mib = 64;
  bool quick = false, no_restore = false, raise_priority = true;
  std::vector<std::string> contenders, cases;  // empty: all
  std::filesystem::path directory;             // scratch, on the file system to be measured
  machine_report machine;
  json_lines json;

  [[nodiscard]] bool wants_contender(const std::string& name) const;
  // Case names may be given without their size: "map" means "map-1GiB".
  [[nodiscard]] bool wants_case(const std::string& name) const;
};

// One measured quantity: its key in a measurement and in the JSON, its unit, and how it is shown.
struct metric {
  std::string key, unit, heading;
};

// Prints the table of a case and writes its JSON lines: the first metric with its ratio, the others as they are.
// Returns whether all contenders succeeded.
bool report_case(const program_options& how, const std::string& case_name, const std::vector<outcome>& outcomes,
                 const std::vector<metric>& metrics, const std::vector<std::string>& not_built,
                 const nlohmann::json& context);

// The cases. Each returns whether all went well.
bool run_throughput_cases(const program_options& how);
bool run_mapping_case(const program_options& how);
bool run_recovery_cases(const program_options& how);

// What a child process does instead of all this: prints one JSON object.
void run_recovery_child(const std::string& task, const std::filesystem::path& directory, std::uint64_t amount);

}  // namespace tenure::bench::tpca
