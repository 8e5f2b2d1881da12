// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/program.hpp"

#include <algorithm>
#include <exception>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace tenure::bench {

namespace {

std::string with_hyphens(std::string program) {
  std::ranges::replace(program, '_', '-');
  return program;
}

}  // namespace

void add_common_options(CLI::App& app, common_options& how, const std::string& repeat, const std::string& quick) {
  app.add_option("--repeat", how.repeat, repeat)->capture_default_str();
  app.add_flag("--quick", how.quick, quick);
  app.add_option("--dir", how.directory, "where to put scratch files: this file system is measured")
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--json", [&how](const std::string& path) { how.json = json_lines{path}; },
      "append results to this file, an object a line");
}

benchmark_run::benchmark_run(const std::string& program, common_options& how)
    : scratch_(how.directory, with_hyphens(program)) {
  how.directory = std::filesystem::absolute(scratch_.path());
  how.machine = describe_machine(how.directory);
  fmt::print("{}{}\n{}\n", program, how.quick ? " --quick" : "", to_text(how.machine));
}

int run_program(const std::string& program, const std::function<bool()>& work, std::FILE* errors) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a case may take minutes, also for who reads a file
  try {
    return work() ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(errors, "{}: {}\n", program, e.what());
    return 1;
  }
}

}  // namespace tenure::bench
