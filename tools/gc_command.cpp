// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "gc_command.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/collect.hpp>

#include "archive_beside.hpp"
#include "json_text.hpp"
#include "log_command.hpp"
#include "progress_line.hpp"

namespace tenure::tools {

int collect_store(const std::string& directory, bool dry_run, const std::string& archive, bool as_json, std::FILE* out,
                  progress_line* progress) {
  collect_options how;
  how.dry_run = dry_run;
  how.archive = archive_beside(directory, archive);
  how.on_progress = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  const collect_report report = collect(directory, how);
  if (progress != nullptr) progress->hide();
  if (as_json) {
    nlohmann::ordered_json j{{"store", directory},
                             {"dry_run", dry_run},
                             {"kept", report.kept},
                             {"kept_bytes", report.kept_bytes},
                             {"garbage", report.garbage},
                             {"garbage_bytes", report.garbage_bytes},
                             {"transactions", report.transactions},
                             {"types", nlohmann::ordered_json::array()}};
    for (const type_count& each : report.types)
      j["types"].push_back({{"type", each.type}, {"objects", each.objects}, {"bytes", each.bytes}});
    fmt::print(out, "{}\n", json_text(j));
    return exit_ok;
  }
  fmt::print(out, "{}: {} objects, {} bytes, {}; {} objects, {} bytes, are left\n", directory, report.garbage,
             report.garbage_bytes, dry_run ? "would be destroyed" : "were destroyed", report.kept, report.kept_bytes);
  std::size_t width = 0;
  for (const type_count& each : report.types) width = std::max(width, each.type.size());
  for (const type_count& each : report.types)
    fmt::print(out, "  {:{}}  {:>10} objects  {:>12} bytes\n", each.type, width, each.objects, each.bytes);
  return exit_ok;
}

}  // namespace tenure::tools
