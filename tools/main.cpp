// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The tenure command: looks at stores, logs and segments without changing them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tenure/error.hpp>

#include "adopt_command.hpp"
#include "backup_command.hpp"
#include "command_line.hpp"
#include "command_names.hpp"
#include "gc_command.hpp"
#include "history_command.hpp"
#include "log_command.hpp"
#include "log_repair.hpp"
#include "log_text.hpp"
#include "os/process.hpp"
#include "os/terminal.hpp"
#include "output.hpp"
#include "progress_line.hpp"
#include "reference_command.hpp"
#include "repair_command.hpp"
#include "resolve_command.hpp"
#include "rewrite_command.hpp"
#include "schema_command.hpp"
#include "store_command.hpp"
#include "store_difference.hpp"
#include "trim_command.hpp"
#include "upgrade_command.hpp"

namespace {

using namespace tenure;

// What cannot be parsed, or is asked for and is no command: help and the version.
int end_of_parsing(const tools::command_line& app, const tools::command_line::ending& end,
                   const std::vector<std::string>& arguments, tools::output& out) {
  if (end.asked_for) {
    fmt::print(out.file(), "{}", end.text);
    out.finish();
    return tools::exit_ok;
  }
  std::vector<std::string> words;
  std::ranges::copy_if(arguments, std::back_inserter(words), [](const std::string& a) { return !a.starts_with("-"); });
  std::string what = tools::advice_on_commands(app.names_of_commands(), words);
  if (what.empty()) what = end.text + "; --help says what there is";
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
  os::keep_standard_streams_apart();
  os::survive_large_files();
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  tools::command_line app("Looks at stores, at the logs and segments of recoverable memory, and at their history.",
                          "tenure");
  app.needs_subcommand();
  app.version("tenure " TENURE_VERSION);
  app.footer(
      "Exit code: 0 if all is well; 1 if what was looked at is damaged (what is readable is shown);\n"
      "2 if it could not be looked at, or the command line makes no sense. See tenure(1).");

  std::string path, segment;
  bool as_json = false;
  tools::record_selection which;

  const auto log = app.subcommand("log", "Look at a log: one that is in use, closed, left by a crash, or damaged");
  log.needs_subcommand();
  const auto status = log.subcommand("status", "What the log is, and what is in it");
  status.option("PATH", path, "The log's file").required();
  status.flag("--json", as_json, "Write JSON");
  const auto records = log.subcommand("records", "The committed transactions that are in the log, oldest first");
  records.option("PATH", path, "The log's file").required();
  records.flag("--json", as_json, "Write JSON");
  records.option("--from", which.from, "Begin at this LSN (0: at the oldest still readable); default: the log's head")
      .value_name("LSN");
  records.option("--limit", which.limit, "Show at most so many records").value_name("N");
  records.option("--transaction", which.transaction, "Only this transaction").value_name("ID");
  records.option("--segment", which.segment, "Only changes of this segment").value_name("NAME");
  records.flag("--data", which.with_data, "Show the new values, too");

  // Over the log and its archive together.
  tools::history_place where;
  tools::search_selection search;
  std::string range, from, to, moment, made, base, hex;
  const auto add_history_command = [&](const char* name, const char* what) {
    const auto command = log.subcommand(name, what);
    command.option("--archive", where.archive, "The archive's path; default: the log's and \".archive\"")
        .value_name("PATH");
    command.flag("--json", as_json, "Write JSON");
    return command;
  };
  const auto add_log = [&](tools::command command) {
    command.option("--log", where.log, "The log's file; default: the one that the segment's header names")
        .value_name("PATH");
  };
  const char* const range_help = "SEGMENT:OFFSET+LENGTH, SEGMENT:FROM-TO or SEGMENT:OFFSET (8 bytes), or just SEGMENT";
  const char* const moment_help = "An LSN, or a time (UTC) such as \"2026-11-21 08:50:04.5\"";
  const auto history = add_history_command("history", "Who changed these bytes, when, from what to what; oldest first");
  history.option("RANGE", range, range_help).required();
  add_log(history);
  const auto searching = add_history_command("search", "The transactions that match, oldest first");
  searching.option("LOG", where.log, "The log's file").required();
  searching.option("--segment", search.segment, "Only changes of this segment").value_name("PATH");
  searching.option("--transaction", search.transaction, "Only this transaction").value_name("ID");
  searching.option("--label", search.label, "Only transactions with this in their label").value_name("TEXT");
  const auto text = searching.option("--text", search.value, "Only those with this text in a new value");
  searching.option("--value", hex, "Only those with these bytes, hexadecimal, in a new value")
      .value_name("HEX")
      .excludes(text);
  searching.option("--since", search.since, moment_help).value_name("MOMENT");
  searching.option("--until", search.until, moment_help).value_name("MOMENT");
  searching.option("--limit", search.limit, "Show at most so many").value_name("N");
  searching.flag("--data", search.with_data, "Show the new values, too");
  const auto diff = add_history_command("diff", "How bytes differ between two moments");
  diff.option("RANGE", range, range_help).required();
  diff.option("--from", from, moment_help).value_name("MOMENT").required();
  diff.option("--to", to, moment_help).value_name("MOMENT").required();
  add_log(diff);
  const auto replay = add_history_command("replay", "Make a copy of a segment as it was at some moment");
  replay.option("SEGMENT", segment, "The segment's file").required();
  replay.option("OUTPUT", made, "The copy, a new file").required();
  replay.option("--until", moment, moment_help).value_name("MOMENT").required();
  replay.option("--base", base, "An older copy of the segment, for what the history does not know").value_name("PATH");
  add_log(replay);
  const auto forget =
      add_history_command("forget", "Forget what the archive has from before a moment; nobody may have the log open");
  forget.option("LOG", where.log, "The log's file").required();
  forget.option("--before", moment, moment_help).value_name("MOMENT").required();

  // Where a log keeps its segments closed.
  std::uint64_t at = 0;
  bool give_up = false;
  std::vector<std::string> its_segments;
  const auto add_repair = [&](const char* name, const char* what) {
    const auto command = log.subcommand(name, what);
    command.option("LOG", path, "The log's file; nobody may have it open").required();
    command.option("SEGMENT", its_segments, "The log's segments; default: those in its directory");
    command.flag("--json", as_json, "Write JSON");
    return command;
  };
  const auto cut = add_repair("cut", "End a damaged log before the damage, and give up what was committed after it");
  cut.option("--at", at, "Where the damage begins, as `tenure log status` says").value_name("LSN").required();
  const auto renew = add_repair("renew", "Make a new log in place of one that is lost or cannot be read");
  renew.flag("--give-up", give_up, "Even if changes were in it that the segments do not have");

  const auto segments = app.subcommand("segment", "Look at a segment");
  segments.needs_subcommand();
  const auto verify =
      segments.subcommand("verify", "Compare every page with its checksum; nobody may have the log open for writing");
  verify.option("LOG", path, "The log's file").required();
  verify.option("SEGMENT", segment, "The segment's file").required();
  verify.flag("--json", as_json, "Write JSON");

  // On stores.
  const auto add_store_command = [&](const char* name, const char* what) {
    const auto command = app.subcommand(name, what);
    command.option("DIR", path, "The store's directory; nobody may have it open for writing").required();
    command.flag("--json", as_json, "Write JSON");
    return command;
  };
  const auto info = add_store_command("info", "What a store is, and how much is in it");
  const auto roots = add_store_command("roots", "The named roots of a store");
  std::string database;
  bool with_sizes = false;
  roots.option("--database", database, "Only those of this database").value_name("NAME");
  roots.flag("--sizes", with_sizes, "Count what can be reached from each");
  const auto types = add_store_command("types", "The types of a store's objects");
  tools::type_selection of_types;
  types.option("--database", of_types.database, "Only those of this database").value_name("NAME");
  types.option("--type", of_types.name, "Only types with this in their name").value_name("NAME");
  types.flag("--fields", of_types.with_fields, "Show their fields, too");
  const auto dump = add_store_command("dump", "Objects with their values, those that are reached first first");
  tools::dump_selection objects;
  bool as_dot = false;
  const auto from_root = dump.option("--root", objects.root, "Begin at this root; default: at all").value_name("NAME");
  dump.option("--address", objects.address, "Begin at the object at this address").value_name("A").excludes(from_root);
  dump.option("--depth", objects.depth, "Follow at most so many references").value_name("N");
  dump.option("--limit", objects.limit, "Show at most so many objects; default: 100").value_name("N");
  dump.option("--elements", objects.elements, "Show so many elements of arrays; default: 16").value_name("N");
  dump.option("--type", objects.type, "Show only objects with this in their type's name").value_name("NAME");
  dump.flag("--dot", as_dot, "Write a graph for Graphviz").excludes(dump.find("--json"));
  const auto verify_all = add_store_command("verify", "Everything that is wrong in a store");
  const auto gc = add_store_command("gc", "Destroy what no root of a store leads to; nobody may have it open");
  tools::wanted_collection collected;
  gc.flag("--dry-run", collected.dry_run, "Only say what would be destroyed");
  gc.option("--markers", collected.markers, "Threads that look for what is kept; default: one a processor, at most 8")
      .value_name("N");
  gc.option("--history", collected.most_past,
            "With --dry-run: also say which N transactions have dropped the most, and how it was reached last")
      .value_name("N");
  gc.option("--archive", collected.archive,
            "Where the history goes on, or is; default: the log's and \".archive\", if it is there")
      .value_name("PATH");
  const auto space = add_store_command("space", "How much of a store is live, garbage and free, by type");
  std::string object;
  const auto who_refers = add_store_command("who-refers", "All references to an object");
  who_refers.option("ADDRESS", object, "An address in it").required();
  const auto path_to_root = add_store_command("path-to-root", "A shortest way from a root to an object");
  path_to_root.option("ADDRESS", object, "An address in it").required();
  const auto trim = add_store_command("trim", "Give the disk space of what is free in a store back");
  tools::wanted_backup backed_up;
  const auto backup = app.subcommand("backup", "Copy a store, or a log with its segments, which may be in use");
  backup.option("PATH", path, "The store's directory, or a log").required();
  backup.option("TO", backed_up.to, "The directory to make").required();
  backup.option("--since", backed_up.since, "Only what was committed since this earlier backup").value_name("BACKUP");
  backup.option("--archive", backed_up.archive, "The archive's path; default: the log's and \".archive\"")
      .value_name("PATH");
  backup.flag("--verify", backed_up.check, "Check everything in the copy");
  backup.flag("--json", as_json, "Write JSON");
  tools::wanted_restore restored;
  const auto restore = app.subcommand("restore", "Make a store, or a log with its segments, from backups");
  restore.option("BACKUP", restored.backups, "A full backup, incremental ones after it; last, the directory to make")
      .required()
      .value_name("DIR");
  restore.option("--log", restored.log, "Go on with the original's log, or store").value_name("PATH");
  restore
      .option("--archive", restored.archive, "Go on with the original's archive; default: the log's and \".archive\"")
      .value_name("PATH");
  const auto until = restore.option("--until", restored.until, moment_help).value_name("MOMENT");
  restore.option("--transaction", restored.transaction, "Up to this transaction").value_name("ID").excludes(until);
  restore.flag("--with-damaged-pages", restored.with_damaged_pages, "Restore them as they are in the backup");
  restore.flag("--verify", restored.check, "Check everything in what is made");
  restore.flag("--json", as_json, "Write JSON");
  tools::wanted_upgrade upgraded;
  const auto upgrade = app.subcommand("upgrade", "Make a store, or a log with its segments, of format 1 anew");
  upgrade.option("PATH", path, "The store's directory, or a log; nobody may have it open").required();
  upgrade.option("TO", upgraded.to, "The directory to make").required();
  upgrade.option("--segment", upgraded.segments, "Also this one: it is raw, or not beside the log").value_name("PATH");
  upgrade.flag("--without-missing", upgraded.without_missing, "Go on though a segment that the log knows is missing");
  upgrade.flag("--verify", upgraded.check, "Check everything in what is made");
  upgrade.flag("--json", as_json, "Write JSON");
  tools::wanted_rewrite rewritten;
  const auto add_rewriting = [&](const char* name, const char* description) {
    const auto command = app.subcommand(name, description);
    command.option("DIR", path, "The store's directory; nobody may have it open").required();
    return command;
  };
  const auto add_common = [&](const auto& command) {
    command.option("--home", rewritten.homes, "Addresses of a database, as main=0x200000000000")
        .value_name("NAME=HOME");
    command.option("--reservation", rewritten.reservation, "Bytes of addresses for each database").value_name("BYTES");
    command.flag("--verify", rewritten.check, "Check everything in what is made");
    command.flag("--json", as_json, "Write JSON");
  };
  const auto add_order = [&](const auto& command) {
    command.option("--order", rewritten.order, "breadth-first (the default), depth-first, address, type or access")
        .value_name("ORDER");
    command
        .option("--accesses", rewritten.accesses,
                "What a program has recorded (store_options::record_accesses), for --order access")
        .value_name("FILE");
  };
  const auto compact = add_rewriting("compact", "Write a store anew, without garbage and holes");
  add_order(compact);
  add_common(compact);
  const auto cluster = add_rewriting("cluster", "Write a store anew, with objects in another order");
  add_order(cluster);
  add_common(cluster);
  const auto rebase = add_rewriting("rebase", "Give the databases of a store other addresses: random ones, or --home");
  add_common(rebase);
  const auto clone = add_rewriting("clone", "Make a store of its own that has the same, at other addresses");
  clone.option("TO", rewritten.to, "The directory to make").required();
  add_order(clone);
  add_common(clone);
  tools::wanted_repair repaired;
  const auto repair = add_rewriting("repair", "Write a damaged store anew, without what is lost");
  repair.option("--to", repaired.to, "Make a new store, instead of repairing this one").value_name("COPY");
  repair.flag("--dry-run", repaired.dry_run, "Only say what is lost");
  repair.flag("--json", as_json, "Write JSON");
  std::string other;
  std::uint64_t most_differences = 100;
  const auto compare = app.subcommand("diff", "What differs between two stores, by the paths from their roots");
  compare.option("ONE", path, "The first store's directory; nobody may have it open").required();
  compare.option("OTHER", other, "The other one's").required();
  compare.option("--most", most_differences, "Say at most so many; 100 otherwise").value_name("N");
  compare.flag("--json", as_json, "Write JSON");
  const auto schema = app.subcommand("schema", "Compare the layouts of stores and programs");
  schema.needs_subcommand();
  const auto exported =
      schema.subcommand("export", "Write a store's layouts as JSON, as tenure::schema() does a program's");
  exported.option("SCHEMA", path, "A store's directory, or a file with a schema").required();
  const auto schema_diff = schema.subcommand("diff", "What differs between two; exit code 1: something does");
  schema_diff.option("ONE", path, "A store's directory, or a file with a schema").required();
  schema_diff.option("OTHER", other, "Another").required();
  schema_diff.flag("--json", as_json, "Write JSON");
  const auto schema_check =
      schema.subcommand("check", "Whether a program can open or convert a store; exit code 1: it cannot");
  schema_check.option("STORE", path, "The store's directory, or a file with its schema").required();
  schema_check.option("PROGRAM", other, "A file with what the program's tenure::schema() returns").required();
  schema_check.flag("--json", as_json, "Write JSON");
  const auto adopt = app.subcommand("adopt", "Check a copy that was made while a store was in use, and go on with it");
  adopt.option("PATH", path, "The store's directory, or a log; nobody may have it open").required();
  adopt.flag("--json", as_json, "Write JSON");
  tools::wanted_outcome decided;
  const auto resolve = app.subcommand("resolve", "Show or end a transaction that a process has left prepared");
  resolve.option("PATH", path, "The store's directory, or a log; nobody may have it open").required();
  const auto says_commit = resolve.flag("--commit", decided.commit, "Commit it");
  const auto says_abort = resolve.flag("--abort", decided.abort, "Abort it").excludes(says_commit);
  resolve.option("--coordinator", decided.coordinator, "Ask this store, which was the first one of transact_all")
      .value_name("DIR")
      .excludes(says_commit)
      .excludes(says_abort);
  resolve.flag("--json", as_json, "Write JSON");

  // Its thread ends before anything that it may use.
  tools::progress_line progress(os::is_terminal(stderr) ? stderr : nullptr, std::chrono::steady_clock::now, "tenure");
  tools::output output(stdout, &progress);
  if (const auto end = app.parse(argc, argv)) return end_of_parsing(app, *end, arguments, output);
  progress.tick_by_itself();
  where.progress = &progress;
  std::FILE* const out = output.file();
  os::disk& disk = os::real_disk();
  const auto run = [&] {
    if (!hex.empty()) search.value = tools::from_hex(hex);
    if (history.chosen()) return tools::show_history(disk, where, range, as_json, out);
    if (searching.chosen()) return tools::search_history(disk, where, search, as_json, out);
    if (diff.chosen()) return tools::show_difference(disk, where, range, from, to, as_json, out);
    if (replay.chosen()) return tools::replay_history(disk, where, segment, moment, made, base, as_json, out);
    if (forget.chosen()) return tools::forget_history(disk, where, moment, as_json, out);
    if (restore.chosen()) {
      if (restored.backups.size() < 2)
        throw error(errc::bad_option, "name a backup, and then the directory to make; --help says more");
      restored.to = os::absolute_path(restored.backups.back());
      restored.backups.pop_back();
      return tools::restore_backup(restored, as_json, out, &progress);
    }
    const std::string absolute = os::absolute_path(path);
    if (cut.chosen() || renew.chosen()) {
      for (std::string& s : its_segments) s = os::absolute_path(s);
      if (its_segments.empty()) its_segments = tools::segments_beside(absolute);
    }
    if (cut.chosen()) return tools::cut_log(disk, absolute, at, its_segments, as_json, out);
    if (renew.chosen()) return tools::renew_log(disk, absolute, its_segments, give_up, as_json, out);
    if (info.chosen()) return tools::show_store(absolute, as_json, out);
    if (roots.chosen()) return tools::show_roots(absolute, database, with_sizes, as_json, out);
    if (types.chosen()) return tools::show_types(absolute, of_types, as_json, out);
    if (dump.chosen())
      return tools::dump_objects(absolute, objects,
                                 as_dot    ? tools::dump_form::dot
                                 : as_json ? tools::dump_form::json
                                           : tools::dump_form::text,
                                 out, stderr);
    if (backup.chosen()) {
      backed_up.path = absolute;
      backed_up.to = os::absolute_path(backed_up.to);
      return tools::make_backup(backed_up, as_json, out, &progress);
    }
    if (upgrade.chosen()) {
      upgraded.path = absolute;
      upgraded.to = os::absolute_path(upgraded.to);
      return tools::upgrade_format(upgraded, as_json, out, &progress);
    }
    if (compact.chosen() || cluster.chosen() || rebase.chosen() || clone.chosen()) {
      rewritten.path = absolute;
      rewritten.is_rebase = rebase.chosen();
      if (rewritten.is_rebase) rewritten.order = "address";
      if (clone.chosen()) rewritten.to = os::absolute_path(rewritten.to);
      return tools::rewrite_store(rewritten, as_json, out, &progress);
    }
    if (repair.chosen()) {
      repaired.path = absolute;
      if (!repaired.to.empty()) repaired.to = os::absolute_path(repaired.to);
      return tools::repair_store(repaired, as_json, out, &progress);
    }
    if (compare.chosen())
      return tools::show_store_difference(absolute, os::absolute_path(other), most_differences, as_json, out,
                                          &progress);
    if (exported.chosen()) return tools::export_schema(absolute, out);
    if (schema_diff.chosen()) return tools::show_schema_difference(absolute, os::absolute_path(other), as_json, out);
    if (schema_check.chosen()) return tools::check_schema(absolute, os::absolute_path(other), as_json, out);
    if (resolve.chosen()) return tools::resolve_prepared(absolute, decided, as_json, out);
    if (adopt.chosen()) return tools::adopt_copy(absolute, as_json, out, &progress);
    if (space.chosen()) return tools::show_space(absolute, as_json, out, &progress);
    if (gc.chosen()) return tools::collect_store(absolute, collected, as_json, out, &progress);
    if (who_refers.chosen()) return tools::show_referrers(absolute, object, as_json, out);
    if (path_to_root.chosen()) return tools::show_path(absolute, object, as_json, out);
    if (trim.chosen()) return tools::trim_store(absolute, as_json, out, &progress);
    if (verify_all.chosen()) return tools::verify_store(absolute, as_json, out, &progress);
    if (status.chosen()) return tools::show_log_status(disk, absolute, as_json, out);
    if (records.chosen()) return tools::show_log_records(disk, absolute, which, as_json, out);
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
  tools::say(stderr, "tenure", e.what());
  return tools::exit_failed;
}
