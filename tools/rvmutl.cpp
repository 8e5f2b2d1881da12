// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The rvmutl command.
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "log_command.hpp"
#include "log_shell.hpp"
#include "output.hpp"

int main(int argc, char** argv) {
  using namespace tenure;
  CLI::App app("Makes, shows and recovers logs. Reads commands from the standard input. See rvmutl(1).", "rvmutl");
  std::string log;
  app.add_option("LOG", log, "A log to open");
  app.set_version_flag("--version", "rvmutl, of tenure " TENURE_VERSION);
  CLI11_PARSE(app, argc, argv);
  try {
    tools::output out(stdout);
    tools::log_shell shell(os::real_disk());
    const bool opened = log.empty() || shell.execute("open_log " + log, out.file());
    const int code = opened ? shell.run(stdin, out.file()) : tools::exit_failed;
    out.finish();
    return code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "rvmutl: {}\n", e.what());
    return tools::exit_failed;
  }
}
