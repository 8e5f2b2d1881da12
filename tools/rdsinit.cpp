// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The rdsinit command.
#include <exception>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "output.hpp"
#include "rds_init.hpp"

int main(int argc, char** argv) {
  CLI::App app("Makes a segment with a recoverable heap and a static region. See rdsinit(1).", "rdsinit");
  tenure::tools::rds_init_arguments arguments;
  app.add_flag("-f", arguments.force, "Ask nothing before the data segment is overwritten");
  app.add_option("LOG", arguments.log, "The log's file; it exists")->required();
  app.add_option("DATA_SEG", arguments.data, "The data segment's file")->required();
  app.add_option("NUMBERS", arguments.numbers, "datalen saddr hlen slen nlists chunk; asked for if missing")
      ->type_name("")
      ->expected(0, 6);
  app.set_version_flag("--version", "rdsinit, of tenure " TENURE_VERSION);
  CLI11_PARSE(app, argc, argv);
  try {
    tenure::tools::output out(stdout);
    const int code = tenure::tools::rds_init(arguments, stdin, out.file());
    out.finish();
    return code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "rdsinit: {}\n", e.what());
    return 1;
  }
}
