// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The rdsinit command.
#include <exception>

#include "command_line.hpp"
#include "os/process.hpp"
#include "output.hpp"
#include "rds_init.hpp"

int main(int argc, char** argv) {
  tenure::os::keep_standard_streams_apart();
  tenure::os::survive_large_files();
  tenure::tools::command_line app("Makes a segment with a recoverable heap and a static region. See rdsinit(1).",
                                  "rdsinit");
  tenure::tools::rds_init_arguments arguments;
  app.flag("-f", arguments.force, "Ask nothing before the data segment is overwritten");
  app.option("LOG", arguments.log, "The log's file; it exists").required();
  app.option("DATA_SEG", arguments.data, "The data segment's file").required();
  app.option("NUMBERS", arguments.numbers, "datalen saddr hlen slen nlists chunk; asked for if missing")
      .value_name("")
      .takes(0, 6);
  app.version("rdsinit, of tenure " TENURE_VERSION);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  try {
    tenure::tools::output out(stdout);
    const int code = tenure::tools::rds_init(arguments, stdin, out.file());
    out.finish();
    return code;
  } catch (const std::exception& e) {
    tenure::tools::say(stderr, "rdsinit", e.what());
    return 1;
  }
}
