// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The rvmutl command.
#include <cstdio>
#include <exception>
#include <string>

#include "command_line.hpp"
#include "log_command.hpp"
#include "log_shell.hpp"
#include "os/process.hpp"
#include "output.hpp"

int main(int argc, char** argv) {
  using namespace tenure;
  os::keep_standard_streams_apart();
  os::survive_large_files();
  tools::command_line app("Makes, shows and recovers logs. Reads commands from the standard input. See rvmutl(1).",
                          "rvmutl");
  std::string log;
  app.option("LOG", log, "A log to open");
  app.version("rvmutl, of tenure " TENURE_VERSION);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  try {
    tools::output out(stdout);
    tools::log_shell shell(os::real_disk());
    const bool opened = log.empty() || shell.execute("open_log " + log, out.file());
    const int code = opened ? shell.run(stdin, out.file()) : tools::exit_failed;
    out.finish();
    return code;
  } catch (const std::exception& e) {
    tenure::tools::say(stderr, "rvmutl", e.what());
    return tools::exit_failed;
  }
}
