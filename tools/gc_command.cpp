// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "gc_command.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/collect.hpp>
#include <tenure/store.hpp>

#include "archive_beside.hpp"
#include "json_text.hpp"
#include "log_command.hpp"
#include "progress_line.hpp"

namespace tenure::tools {

int collect_store(const std::string& directory, bool dry_run, const std::string& archive, bool as_json, std::FILE* out,
                  progress_line* progress) {
  collect_options how;
  how.dry_run = dry_run;
  how.archive = archive_beside(directory + "/log", archive);
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
                             {"weak_cleared", report.weak_cleared},
                             {"finalization_messages", report.finalization_messages},
                             {"transactions", report.transactions},
                             {"types", nlohmann::ordered_json::array()}};
    for (const type_count& each : report.types)
      j["types"].push_back({{"type", each.type}, {"objects", each.objects}, {"bytes", each.bytes}});
    if (dry_run) j["dropped"] = nlohmann::ordered_json::array();
    for (const type_count& each : report.dropped)
      j["dropped"].push_back({{"type", each.type}, {"objects", each.objects}, {"bytes", each.bytes}});
    for (const void* each : report.dropped_objects) j["dropped_objects"].push_back(fmt::format("{}", each));
    fmt::print(out, "{}\n", json_text(j));
    return exit_ok;
  }
  fmt::print(out, "{}: {} objects, {} bytes, {}; {} objects, {} bytes, are left\n", directory, report.garbage,
             report.garbage_bytes, dry_run ? "would be destroyed" : "were destroyed", report.kept, report.kept_bytes);
  if (report.weak_cleared != 0 || report.finalization_messages != 0)
    fmt::print(out, "  {} weak references were cleared, {} objects were put in finalization queues\n",
               report.weak_cleared, report.finalization_messages);
  std::size_t width = 0;
  for (const type_count& each : report.types) width = std::max(width, each.type.size());
  for (const type_count& each : report.types)
    fmt::print(out, "  {:{}}  {:>10} objects  {:>12} bytes\n", each.type, width, each.objects, each.bytes);
  if (!report.dropped.empty()) fmt::print(out, "no other garbage refers to\n");
  for (const type_count& each : report.dropped)
    fmt::print(out, "  {:{}}  {:>10} objects  {:>12} bytes\n", each.type, width, each.objects, each.bytes);
  return exit_ok;
}

int show_space(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress) {
  const collect_report report = collect(directory, {.dry_run = true, .on_progress = [progress](const rvm::progress& p) {
                                                      if (progress != nullptr) progress->show(p.phase, p.done, p.total);
                                                    }});
  if (progress != nullptr) progress->hide();
  const store opened(directory, {.mode = rvm::open_mode::read_only});
  const space_report space = opened.space();
  struct row {
    std::uint64_t objects = 0, bytes = 0, garbage = 0, garbage_bytes = 0;
  };
  std::map<std::string, row> rows;
  for (const type_count& each : report.kept_types)
    rows[each.type].objects = each.objects, rows[each.type].bytes = each.bytes;
  for (const type_count& each : report.types)
    rows[each.type].garbage = each.objects, rows[each.type].garbage_bytes = each.bytes;
  std::vector<std::pair<std::string, row>> by_size(rows.begin(), rows.end());
  std::ranges::stable_sort(by_size, std::greater<>(),
                           [](const auto& r) { return r.second.bytes + r.second.garbage_bytes; });
  if (as_json) {
    nlohmann::ordered_json j{{"store", directory},
                             {"live", report.kept},
                             {"live_bytes", report.kept_bytes},
                             {"garbage", report.garbage},
                             {"garbage_bytes", report.garbage_bytes},
                             {"free_bytes", space.free_bytes},
                             {"bookkeeping_bytes", space.bookkeeping_bytes},
                             {"file_bytes", space.file_bytes},
                             {"types", nlohmann::ordered_json::array()}};
    for (const auto& [type, r] : by_size)
      j["types"].push_back({{"type", type},
                            {"live", r.objects},
                            {"live_bytes", r.bytes},
                            {"garbage", r.garbage},
                            {"garbage_bytes", r.garbage_bytes}});
    fmt::print(out, "{}\n", json_text(j));
    return exit_ok;
  }
  fmt::print(out, "{}: {} bytes in files; {} live, {} garbage, {} free in blocks that were used, {} of bookkeeping\n",
             directory, space.file_bytes, report.kept_bytes, report.garbage_bytes, space.free_bytes,
             space.bookkeeping_bytes);
  std::size_t width = 4;
  for (const auto& [type, r] : by_size) width = std::max(width, type.size());
  fmt::print(out, "  {:{}}  {:>10}  {:>12}  {:>10}  {:>12}\n", "type", width, "live", "bytes", "garbage", "bytes");
  for (const auto& [type, r] : by_size)
    fmt::print(out, "  {:{}}  {:>10}  {:>12}  {:>10}  {:>12}\n", type, width, r.objects, r.bytes, r.garbage,
               r.garbage_bytes);
  return exit_ok;
}

}  // namespace tenure::tools
