// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The rvmutl command.
#include <string>

#include <CLI/CLI.hpp>

#include "log_command.hpp"
#include "log_shell.hpp"

int main(int argc, char** argv) {
  CLI::App app("Makes, shows and recovers logs. Reads commands from the standard input. See rvmutl(1).", "rvmutl");
  std::string log;
  app.add_option("LOG", log, "A log to open");
  CLI11_PARSE(app, argc, argv);
  tenure::tools::log_shell shell(tenure::os::real_disk());
  if (!log.empty() && !shell.execute("open_log " + log, stdout)) return tenure::tools::exit_failed;
  return shell.run(stdin, stdout);
}
