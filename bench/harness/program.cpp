// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/program.hpp"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

namespace tenure::bench {

namespace {

std::string with_hyphens(std::string program) {
  std::ranges::replace(program, '_', '-');
  return program;
}

}  // namespace

void add_common_options(tools::command_line& app, common_options& how, const std::string& repeat,
                        const std::string& quick) {
  app.option("--repeat", how.repeat, repeat).shows_default();
  app.flag("--quick", how.quick, quick);
  app.option("--dir", how.directory, "where to put scratch files: this file system is measured").shows_default();
  app.option("--json", how.json.path, "append results to this file, an object a line");
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
