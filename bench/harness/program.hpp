// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the programs of the benchmarks have in common.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include "command_line.hpp"
#include "harness/machine.hpp"
#include "harness/report.hpp"

namespace tenure::bench {

struct common_options {
  unsigned repeat = 5;
  bool quick = false;
  std::filesystem::path directory = ".";
  json_lines json;
  machine_report machine;  // known once there is a benchmark_run
};
// --repeat, --quick, --dir and --json; the texts say what the first two do.
void add_common_options(tools::command_line& app, common_options& how,
                        const std::string& repeat = "runs of each contender",
                        const std::string& quick = "less than a minute");

// From here on the program measures: in a scratch directory of its own below how.directory, which that becomes, on a machine
// that it has told of.
class benchmark_run {
 public:
  benchmark_run(const std::string& program, common_options& how);

 private:
  scratch_directory scratch_;
};

// The exit status of a program whose work says whether all went well; tells of exceptions.
int run_program(const std::string& program, const std::function<bool()>& work, std::FILE* errors = stderr);

}  // namespace tenure::bench
