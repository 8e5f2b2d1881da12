// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "backup_command.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "history.hpp"
#include "json_text.hpp"
#include "log_command.hpp"
#include "log_text.hpp"
#include "objects/verifier.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "progress_line.hpp"
#include "replay/backup.hpp"
#include "rewrite/switched_files.hpp"
#include "store/store_state.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

namespace {

rvm::progress_callback show_on(progress_line* progress) {
  return [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
}

std::vector<std::string> verify_store_at(const std::string& directory, progress_line* progress) {
  return heap::verify(surveyed_store(directory, show_on(progress)).set(), heap::verified_by::reader);
}

// `name`: "backup" or "restored". `checked`: then `wrong` is what was found.
int show_made(const char* name, const std::string& to, const rvm::backup_report& made, bool checked,
              const std::vector<std::string>& wrong, bool as_json, std::FILE* out) {
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{name, to},
                          {"tail", made.tail},
                          {"transaction", made.transaction},
                          {"time", made.time},
                          {"label", made.label},
                          {"files", made.files},
                          {"bytes", made.bytes},
                          {"transactions", made.transactions},
                          {"left_out", made.left_out},
                          {"gone", made.gone},
                          {"seconds", made.seconds},
                          {"wrong", wrong}}));
  } else {
    fmt::print(out, "{}: {} bytes in {} files, as of LSN {}", to, made.bytes, made.files.size(), made.tail);
    if (made.transaction != 0)
      fmt::print(out, ", after transaction {} of {}{}", made.transaction, os::utc_text(made.time),
                 made.label.empty() ? "" : fmt::format(" \"{}\"", made.label));
    fmt::print(out, "\n");
    if (made.left_out != 0)
      fmt::print(out,
                 "{}: {} transactions up to the point are not in it: they became durable together with later ones\n",
                 to, made.left_out);
    for (const std::string& segment : made.gone)
      fmt::print(out, "{}: {} is not in it: it was removed, or was renamed and not changed since\n", to, segment);
    for (const std::string& what : wrong) fmt::print(out, "DAMAGED: {}\n", what);
    if (checked && wrong.empty()) fmt::print(out, "{}: nothing is wrong\n", to);
  }
  return wrong.empty() ? exit_ok : exit_damaged;
}

}  // namespace

int make_backup(const wanted_backup& what, bool as_json, std::FILE* out, progress_line* progress) {
  const bool is_store = std::filesystem::is_directory(what.path), is_full = what.since.empty();
  if (is_store) {
    require_outside(what.path, what.to);
    const auto listed = rvm::manifest_file::open_unlocked(os::real_disk(), what.path + "/log").current().segments;
    if (std::ranges::none_of(listed, [](const auto& s) { return s.membership != rvm::not_a_member; }))
      throw error(errc::segment_missing, what.path + ": the store has no database yet; try again when it is made");
  }
  rvm::backup_options how;
  how.since = what.since;
  how.archive = what.archive;
  how.verify = what.check && !(is_store && is_full);
  how.on_progress = show_on(progress);
  const std::string log = is_store ? what.path + "/log" : what.path;
  const rvm::backup_report made = rvm::back_up(os::real_disk(), log, what.to, how, [&] {
    if (is_store) rewriting::require_settled(os::real_disk(), {log, what.path + "/main.db"});
  });
  std::vector<std::string> wrong;
  if (what.check && is_store && is_full) wrong = verify_store_at(what.to, progress);
  if (progress != nullptr) progress->hide();
  return show_made("backup", what.to, made, what.check, wrong, as_json, out);
}

int restore_backup(const wanted_restore& what, bool as_json, std::FILE* out, progress_line* progress) {
  rvm::restore_options how;
  how.increments.assign(what.backups.begin() + 1, what.backups.end());
  how.log = std::filesystem::is_directory(what.log) ? what.log + "/log" : what.log;
  how.archive = what.archive;
  if (!what.until.empty()) {
    const moment point = moment::parse(what.until);
    how.until.position = point.at;
    how.until.time = point.time;
  }
  how.until.transaction = what.transaction;
  how.with_damaged_pages = what.with_damaged_pages;
  how.on_progress = show_on(progress);
  const rvm::backup_report made = rvm::restore(what.backups.front(), what.to, how);
  std::vector<std::string> wrong;
  const bool is_store = std::filesystem::exists(what.to + "/main.db") && std::filesystem::exists(what.to + "/log");
  if (what.check && is_store) wrong = verify_store_at(what.to, progress);
  if (progress != nullptr) progress->hide();
  return show_made("restored", what.to, made, what.check, wrong, as_json, out);
}

}  // namespace tenure::tools
