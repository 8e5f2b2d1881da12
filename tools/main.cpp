// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The tenure command: looks at logs and segments without changing them.
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "log_command.hpp"
#include "os/process.hpp"

int main(int argc, char** argv) {
  using namespace tenure;
  CLI::App app("Looks at the logs and segments of Tenure's recoverable memory. Changes nothing.", "tenure");
  app.require_subcommand(1);
  app.footer(
      "Exit code: 0 if all is well; 1 if what was looked at is damaged (what is readable is shown);\n"
      "2 if it could not be looked at, or the command line makes no sense. See tenure(1).");

  std::string path, segment;
  bool as_json = false;
  tools::record_selection which;

  CLI::App* const log =
      app.add_subcommand("log", "Look at a log: one that is in use, closed, left by a crash, or damaged");
  log->require_subcommand(1);
  CLI::App* const status = log->add_subcommand("status", "What the log is, and what is in it");
  status->add_option("PATH", path, "The log's file")->required();
  status->add_flag("--json", as_json, "Write JSON");
  CLI::App* const records =
      log->add_subcommand("records", "The committed transactions that are in the log, oldest first");
  records->add_option("PATH", path, "The log's file")->required();
  records->add_flag("--json", as_json, "Write JSON");
  records
      ->add_option("--from", which.from, "Begin at this LSN (0: at the oldest still readable); default: the log's head")
      ->type_name("LSN");
  records->add_option("--limit", which.limit, "Show at most so many records")->type_name("N");
  records->add_option("--transaction", which.transaction, "Only this transaction")->type_name("ID");
  records->add_option("--segment", which.segment, "Only changes of this segment")->type_name("NAME");
  records->add_flag("--data", which.with_data, "Show the new values, too");

  CLI::App* const segments = app.add_subcommand("segment", "Look at a segment");
  segments->require_subcommand(1);
  CLI::App* const verify = segments->add_subcommand(
      "verify", "Compare every page with its checksum; nobody may have the log open for writing");
  verify->add_option("LOG", path, "The log's file")->required();
  verify->add_option("SEGMENT", segment, "The segment's file")->required();
  verify->add_flag("--json", as_json, "Write JSON");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? tools::exit_ok : tools::exit_failed;
  }
  try {
    os::disk& disk = os::real_disk();
    const std::string absolute = os::absolute_path(path);
    if (status->parsed()) return tools::show_log_status(disk, absolute, as_json, stdout);
    if (records->parsed()) return tools::show_log_records(disk, absolute, which, as_json, stdout);
    return tools::verify_segment(disk, absolute, segment, as_json, stdout);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "tenure: {}\n", e.what());
    return tools::exit_failed;
  }
}
