// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "repair_command.hpp"

#include <array>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/rewrite.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "object_values.hpp"
#include "objects/verifier.hpp"
#include "progress_line.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

namespace {

// In the order of repair_finding::kind.
constexpr std::array kinds{"page",      "bookkeeping",   "lost_object", "lost_elements",
                           "lost_root", "cut_reference", "container"};
constexpr std::array labels{"DAMAGED", "DAMAGED", "LOST", "LOST", "LOST", "CUT", "CONTAINER"};

const char* name_in(const auto& names, repair_finding::kind what) { return names[static_cast<std::size_t>(what)]; }

}  // namespace

int repair_store(const wanted_repair& what, bool as_json, std::FILE* out, progress_line* progress) {
  repair_options how;
  how.to = what.to;
  how.dry_run = what.dry_run;
  how.on_progress = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  how.on_finding = [&](const repair_finding& f) {
    if (as_json) {
      found.push_back({{"what", name_in(kinds, f.what)}, {"text", f.text}, {"address", address_text(f.address)}});
      return;
    }
    if (progress != nullptr) progress->hide();
    fmt::print(out, "{}: {}\n", name_in(labels, f.what), f.text);
  };
  const repair_report report = repair(what.path, how);
  const std::string& made = what.to.empty() ? what.path : what.to;
  const bool was_written = report.is_damaged() && !what.dry_run;
  std::vector<std::string> wrong;
  if (was_written) wrong = heap::verify(surveyed_store(made, how.on_progress).set(), heap::verified_by::reader);
  if (progress != nullptr) progress->hide();
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"store", what.path},
                          {"made", was_written ? nlohmann::ordered_json(made) : nlohmann::ordered_json()},
                          {"pages", report.pages},
                          {"bookkeeping", report.bookkeeping},
                          {"lost_objects", report.lost_objects},
                          {"lost_elements", report.lost_elements},
                          {"lost_roots", report.lost_roots},
                          {"cut_references", report.cut_references},
                          {"containers", report.containers},
                          {"objects", report.rewritten.objects},
                          {"left_out", report.rewritten.left_out},
                          {"weak_cleared", report.rewritten.weak_cleared},
                          {"found", found},
                          {"wrong", wrong}}));
  } else if (!report.is_damaged()) {
    fmt::print(out, "{}: nothing is damaged, and nothing was written\n", what.path);
  } else {
    for (const std::string& each : wrong) fmt::print(out, "DAMAGED: {}\n", each);
    fmt::print(
        out, "{}: {} damaged pages, {} objects and {} roots lost, {} references cut, {} containers put in order\n",
        what.path, report.pages, report.lost_objects, report.lost_roots, report.cut_references, report.containers);
    if (was_written)
      fmt::print(out, "{}: {} objects were written; {} were left out, to which no root leads any more{}\n", made,
                 report.rewritten.objects, report.rewritten.left_out, wrong.empty() ? "; nothing is wrong" : "");
    else
      fmt::print(out, "{}: nothing was written\n", what.path);
  }
  return !wrong.empty() || (what.dry_run && report.is_damaged()) ? exit_damaged : exit_ok;
}

}  // namespace tenure::tools
