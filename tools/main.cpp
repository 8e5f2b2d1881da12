// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The tenure command: looks at stores, logs and segments without changing them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <tenure/error.hpp>

#include "command_names.hpp"
#include "history_command.hpp"
#include "log_command.hpp"
#include "log_repair.hpp"
#include "log_text.hpp"
#include "os/process.hpp"
#include "os/terminal.hpp"
#include "output.hpp"
#include "progress_line.hpp"
#include "store_command.hpp"

namespace {

using namespace tenure;

// Of all commands, as they are typed.
std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const first : app.get_subcommands({})) {
    const auto under = first->get_subcommands({});
    if (under.empty()) names.push_back(first->get_name());
    for (const CLI::App* const second : under) names.push_back(first->get_name() + " " + second->get_name());
  }
  return names;
}

// What cannot be parsed, or is asked for and is no command: help and the version.
int end_of_parsing(const CLI::App& app, const CLI::ParseError& e, const std::vector<std::string>& arguments,
                   tools::output& out) {
  std::ostringstream shown, messages;
  if (app.exit(e, shown, messages) == 0) {
    fmt::print(out.file(), "{}", shown.str());
    out.finish();
    return tools::exit_ok;
  }
  std::vector<std::string> words;
  std::ranges::copy_if(arguments, std::back_inserter(words), [](const std::string& a) { return !a.starts_with("-"); });
  std::string what = tools::advice_on_commands(names_of_commands(app), words);
  if (what.empty()) what = std::string(e.what()) + "; --help says what there is";
  const bool as_json = std::ranges::find(arguments, "--json") != arguments.end();
  tools::report_error(std::runtime_error(what), "tenure", as_json, out, stderr);
  return tools::exit_failed;
}

std::string with_advice(const error& e) {
  const bool in_use = e.code() == errc::in_use;
  return std::string(e.what()) +
         (in_use ? "; \"tenure log status\" and \"tenure log records\" look at a log in use" : "");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  CLI::App app("Looks at stores, at the logs and segments of recoverable memory, and at their history.", "tenure");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tenure " TENURE_VERSION);
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

  // Over the log and its archive together.
  tools::history_place where;
  tools::search_selection search;
  std::string range, from, to, moment, made, base, hex;
  const auto add_history_command = [&](const char* name, const char* what) {
    CLI::App* const command = log->add_subcommand(name, what);
    command->add_option("--archive", where.archive, "The archive's path; default: the log's and \".archive\"")
        ->type_name("PATH");
    command->add_flag("--json", as_json, "Write JSON");
    return command;
  };
  const auto add_log = [&](CLI::App* command) {
    command->add_option("--log", where.log, "The log's file; default: the one that the segment's header names")
        ->type_name("PATH");
  };
  const char* const range_help = "SEGMENT:OFFSET+LENGTH, SEGMENT:FROM-TO or SEGMENT:OFFSET (8 bytes), or just SEGMENT";
  const char* const moment_help = "An LSN, or a time (UTC) such as \"2026-11-21 08:50:04.5\"";
  CLI::App* const history =
      add_history_command("history", "Who changed these bytes, when, from what to what; oldest first");
  history->add_option("RANGE", range, range_help)->required();
  add_log(history);
  CLI::App* const searching = add_history_command("search", "The transactions that match, oldest first");
  searching->add_option("LOG", where.log, "The log's file")->required();
  searching->add_option("--segment", search.segment, "Only changes of this segment")->type_name("PATH");
  searching->add_option("--transaction", search.transaction, "Only this transaction")->type_name("ID");
  searching->add_option("--label", search.label, "Only transactions with this in their label")->type_name("TEXT");
  auto* const text = searching->add_option("--text", search.value, "Only those with this text in a new value");
  searching->add_option("--value", hex, "Only those with these bytes, hexadecimal, in a new value")
      ->type_name("HEX")
      ->excludes(text);
  searching->add_option("--since", search.since, moment_help)->type_name("MOMENT");
  searching->add_option("--until", search.until, moment_help)->type_name("MOMENT");
  searching->add_option("--limit", search.limit, "Show at most so many")->type_name("N");
  searching->add_flag("--data", search.with_data, "Show the new values, too");
  CLI::App* const diff = add_history_command("diff", "How bytes differ between two moments");
  diff->add_option("RANGE", range, range_help)->required();
  diff->add_option("--from", from, moment_help)->type_name("MOMENT")->required();
  diff->add_option("--to", to, moment_help)->type_name("MOMENT")->required();
  add_log(diff);
  CLI::App* const replay = add_history_command("replay", "Make a copy of a segment as it was at some moment");
  replay->add_option("SEGMENT", segment, "The segment's file")->required();
  replay->add_option("OUTPUT", made, "The copy, a new file")->required();
  replay->add_option("--until", moment, moment_help)->type_name("MOMENT")->required();
  replay->add_option("--base", base, "An older copy of the segment, for what the history does not know")
      ->type_name("PATH");
  add_log(replay);
  CLI::App* const forget =
      add_history_command("forget", "Forget what the archive has from before a moment; nobody may have the log open");
  forget->add_option("LOG", where.log, "The log's file")->required();
  forget->add_option("--before", moment, moment_help)->type_name("MOMENT")->required();

  // Where a log keeps its segments closed.
  std::uint64_t at = 0;
  bool give_up = false;
  std::vector<std::string> its_segments;
  const auto add_repair = [&](const char* name, const char* what) {
    CLI::App* const command = log->add_subcommand(name, what);
    command->add_option("LOG", path, "The log's file; nobody may have it open")->required();
    command->add_option("SEGMENT", its_segments, "The log's segments; default: those in its directory");
    command->add_flag("--json", as_json, "Write JSON");
    return command;
  };
  CLI::App* const cut =
      add_repair("cut", "End a damaged log before the damage, and give up what was committed after it");
  cut->add_option("--at", at, "Where the damage begins, as `tenure log status` says")->type_name("LSN")->required();
  CLI::App* const renew = add_repair("renew", "Make a new log in place of one that is lost or cannot be read");
  renew->add_flag("--give-up", give_up, "Even if changes were in it that the segments do not have");

  CLI::App* const segments = app.add_subcommand("segment", "Look at a segment");
  segments->require_subcommand(1);
  CLI::App* const verify = segments->add_subcommand(
      "verify", "Compare every page with its checksum; nobody may have the log open for writing");
  verify->add_option("LOG", path, "The log's file")->required();
  verify->add_option("SEGMENT", segment, "The segment's file")->required();
  verify->add_flag("--json", as_json, "Write JSON");

  // On stores.
  const auto add_store_command = [&](const char* name, const char* what) {
    CLI::App* const command = app.add_subcommand(name, what);
    command->add_option("DIR", path, "The store's directory; nobody may have it open for writing")->required();
    command->add_flag("--json", as_json, "Write JSON");
    return command;
  };
  CLI::App* const info = add_store_command("info", "What a store is, and how much is in it");
  CLI::App* const roots = add_store_command("roots", "The named roots of a store");
  std::string database;
  bool with_sizes = false;
  roots->add_option("--database", database, "Only those of this database")->type_name("NAME");
  roots->add_flag("--sizes", with_sizes, "Count what can be reached from each");
  CLI::App* const types = add_store_command("types", "The types of a store's objects");
  tools::type_selection of_types;
  types->add_option("--database", of_types.database, "Only those of this database")->type_name("NAME");
  types->add_option("--type", of_types.name, "Only types with this in their name")->type_name("NAME");
  types->add_flag("--fields", of_types.with_fields, "Show their fields, too");
  CLI::App* const dump = add_store_command("dump", "Objects with their values, those that are reached first first");
  tools::dump_selection objects;
  bool as_dot = false;
  auto* const from_root =
      dump->add_option("--root", objects.root, "Begin at this root; default: at all")->type_name("NAME");
  dump->add_option("--address", objects.address, "Begin at the object at this address")
      ->type_name("A")
      ->excludes(from_root);
  dump->add_option("--depth", objects.depth, "Follow at most so many references")->type_name("N");
  dump->add_option("--limit", objects.limit, "Show at most so many objects; default: 100")->type_name("N");
  dump->add_option("--elements", objects.elements, "Show so many elements of arrays; default: 16")->type_name("N");
  dump->add_option("--type", objects.type, "Show only objects with this in their type's name")->type_name("NAME");
  dump->add_flag("--dot", as_dot, "Write a graph for Graphviz")->excludes("--json");
  CLI::App* const verify_all = add_store_command("verify", "Everything that is wrong in a store");

  // Its thread ends before anything that it may use.
  tools::progress_line progress(os::is_terminal(stderr) ? stderr : nullptr, std::chrono::steady_clock::now, "tenure");
  tools::output output(stdout, &progress);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return end_of_parsing(app, e, arguments, output);
  }
  progress.tick_by_itself();
  where.progress = &progress;
  std::FILE* const out = output.file();
  os::disk& disk = os::real_disk();
  const auto run = [&] {
    if (!hex.empty()) search.value = tools::from_hex(hex);
    if (history->parsed()) return tools::show_history(disk, where, range, as_json, out);
    if (searching->parsed()) return tools::search_history(disk, where, search, as_json, out);
    if (diff->parsed()) return tools::show_difference(disk, where, range, from, to, as_json, out);
    if (replay->parsed()) return tools::replay_history(disk, where, segment, moment, made, base, as_json, out);
    if (forget->parsed()) return tools::forget_history(disk, where, moment, as_json, out);
    const std::string absolute = os::absolute_path(path);
    if (cut->parsed() || renew->parsed()) {
      for (std::string& s : its_segments) s = os::absolute_path(s);
      if (its_segments.empty()) its_segments = tools::segments_beside(absolute);
    }
    if (cut->parsed()) return tools::cut_log(disk, absolute, at, its_segments, as_json, out);
    if (renew->parsed()) return tools::renew_log(disk, absolute, its_segments, give_up, as_json, out);
    if (info->parsed()) return tools::show_store(absolute, as_json, out);
    if (roots->parsed()) return tools::show_roots(absolute, database, with_sizes, as_json, out);
    if (types->parsed()) return tools::show_types(absolute, of_types, as_json, out);
    if (dump->parsed())
      return tools::dump_objects(absolute, objects,
                                 as_dot    ? tools::dump_form::dot
                                 : as_json ? tools::dump_form::json
                                           : tools::dump_form::text,
                                 out, stderr);
    if (verify_all->parsed()) return tools::verify_store(absolute, as_json, out, &progress);
    if (status->parsed()) return tools::show_log_status(disk, absolute, as_json, out);
    if (records->parsed()) return tools::show_log_records(disk, absolute, which, as_json, out);
    return tools::verify_segment(disk, absolute, segment, as_json, out);
  };
  try {
    const int code = run();
    output.finish();
    return code;
  } catch (const error& e) {
    tools::report_error(error(e.code(), with_advice(e)), "tenure", as_json, output, stderr);
  } catch (const std::exception& e) {
    tools::report_error(e, "tenure", as_json, output, stderr);
  }
  return tools::exit_failed;
} catch (const std::exception& e) {
  fmt::print(stderr, "tenure: {}\n", e.what());
  return tools::exit_failed;
}
