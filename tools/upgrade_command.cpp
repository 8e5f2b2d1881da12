// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "upgrade_command.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/upgrade.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "objects/verifier.hpp"
#include "progress_line.hpp"
#include "store/store_state.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

int upgrade_format(const wanted_upgrade& what, bool as_json, std::FILE* out, progress_line* progress) {
  require_outside(what.path, what.to);
  const rvm::progress_callback show = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  upgrade_options how;
  how.segments = what.segments;
  how.without_missing = what.without_missing;
  how.on_progress = show;
  const upgrade_report made = upgrade(what.path, what.to, how);
  const bool is_store = std::filesystem::exists(what.to + "/main.db") && std::filesystem::exists(what.to + "/log");
  std::vector<std::string> wrong;
  if (what.check && is_store) wrong = heap::verify(surveyed_store(what.to, show).set(), heap::verified_by::reader);
  if (progress != nullptr) progress->hide();
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"upgraded", what.to},
                          {"files", made.files},
                          {"databases", made.databases},
                          {"bytes", made.bytes},
                          {"transactions", made.transactions},
                          {"seconds", made.seconds},
                          {"wrong", wrong}}));
  } else {
    fmt::print(out, "{}: {} bytes in {} files", what.to, made.bytes, made.files.size());
    if (made.transactions != 0) fmt::print(out, ", and {} transactions of the log", made.transactions);
    fmt::print(out, "\n");
    for (const std::string& w : wrong) fmt::print(out, "DAMAGED: {}\n", w);
    if (what.check && wrong.empty()) fmt::print(out, "{}: nothing is wrong\n", what.to);
  }
  return wrong.empty() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
