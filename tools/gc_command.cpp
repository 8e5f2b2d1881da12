// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "gc_command.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/collect.hpp>
#include <tenure/store.hpp>

#include "garbage_past.hpp"
#include "history_command.hpp"
#include "json_text.hpp"
#include "log_command.hpp"
#include "object_values.hpp"
#include "os/process.hpp"
#include "progress_line.hpp"
#include "records/archive_beside.hpp"

namespace tenure::tools {

namespace {

using json = nlohmann::ordered_json;

json types_json(const std::vector<type_count>& types) {
  json all = json::array();
  for (const type_count& each : types)
    all.push_back({{"type", each.type}, {"objects", each.objects}, {"bytes", each.bytes}});
  return all;
}

void print_types(std::FILE* out, const std::vector<type_count>& types, const char* indent) {
  std::size_t width = 0;
  for (const type_count& each : types) width = std::max(width, each.type.size());
  for (const type_count& each : types)
    fmt::print(out, "{}{:{}}  {:>10} objects  {:>12} bytes\n", indent, each.type, width, each.objects, each.bytes);
}

json transaction_json(const std::optional<known_transaction>& it) {
  if (!it) return {};
  return {{"lsn", it->at}, {"transaction", it->id}, {"time", it->time}, {"label", it->label}};
}

std::string transaction_text(const known_transaction& it) {
  if (it.number == 0) return "the begin of the history";
  return fmt::format("transaction {} of {}{}", it.id, os::utc_text(it.time),
                     it.label.empty() ? "" : ", " + quoted(it.label));
}

json past_json(const garbage_past& found, const history& past) {
  json dropped = json::array();
  for (const dropped_together& each : found.dropped)
    dropped.push_back({{"objects", each.objects},
                       {"bytes", each.bytes},
                       {"types", types_json(each.types)},
                       {"dropped_by", transaction_json(each.by)},
                       {"not_before", transaction_json(each.not_before)},
                       {"last_path", each.last_path.empty() ? json() : json(each.last_path)}});
  return {{"begin", past.begin()},
          {"begin_time", found.begin_time == 0 ? json() : json(found.begin_time)},
          {"dropped", dropped},
          {"missing", gaps_json(past.gaps())}};
}

void print_past(std::FILE* out, const garbage_past& found, const history& past) {
  fmt::print(out, "by the transactions that have dropped it; {}\n",
             found.begin_time == 0 ? "the history knows none" : "the history begins " + os::utc_text(found.begin_time));
  for (const dropped_together& each : found.dropped) {
    fmt::print(out, "  {} objects, {} bytes: ", each.objects, each.bytes);
    if (!each.by)
      fmt::print(out, "not known: before the history begins, or {}\n",
                 past.gaps().empty() ? "where it begins" : "where something of it is missing");
    else if (each.not_before)
      fmt::print(out, "behind {}, by {} at the latest\n", transaction_text(*each.not_before),
                 transaction_text(*each.by));
    else
      fmt::print(out, "{}\n", transaction_text(*each.by));
    if (!each.last_path.empty()) fmt::print(out, "    last path: {}\n", each.last_path);
    print_types(out, each.types, "    ");
  }
  print_gaps(out, past.gaps());
}

std::uint32_t usual_markers() { return std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

}  // namespace

int collect_store(const std::string& directory, const wanted_collection& which, bool as_json, std::FILE* out,
                  progress_line* progress) {
  if (which.most_past != 0 && !which.dry_run)
    throw error(errc::bad_option, "the history of what would be destroyed is for --dry-run");
  collect_options how;
  how.dry_run = which.dry_run;
  how.markers = which.markers == 0 ? usual_markers() : which.markers;
  how.archive = rvm::archive_beside(os::real_disk(), directory + "/log", which.archive);
  how.on_progress = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  std::vector<heap::address> garbage;
  if (which.most_past != 0)
    how.on_garbage = [&](const void* object) { garbage.push_back(reinterpret_cast<heap::address>(object)); };
  const collect_report report = collect(directory, how);
  history past(os::real_disk(), directory + "/log", which.archive, progress);
  std::optional<garbage_past> found;
  if (which.most_past != 0 && !garbage.empty())
    found = find_past(surveyed_store(directory), past, garbage, which.most_past);
  const int exit_code = past.gaps().empty() ? exit_ok : exit_damaged;
  if (progress != nullptr) progress->hide();
  if (as_json) {
    json j{{"store", directory},
           {"dry_run", which.dry_run},
           {"kept", report.kept},
           {"kept_bytes", report.kept_bytes},
           {"garbage", report.garbage},
           {"garbage_bytes", report.garbage_bytes},
           {"weak_cleared", report.weak_cleared},
           {"finalization_messages", report.finalization_messages},
           {"transactions", report.transactions},
           {"types", types_json(report.types)}};
    if (which.dry_run) j["dropped"] = types_json(report.dropped);
    for (const void* each : report.dropped_objects) j["dropped_objects"].push_back(fmt::format("{}", each));
    if (found) j["history"] = past_json(*found, past);
    fmt::print(out, "{}\n", json_text(j));
    return exit_code;
  }
  fmt::print(out, "{}: {} objects, {} bytes, {}; {} objects, {} bytes, are left\n", directory, report.garbage,
             report.garbage_bytes, which.dry_run ? "would be destroyed" : "were destroyed", report.kept,
             report.kept_bytes);
  if (report.weak_cleared != 0 || report.finalization_messages != 0)
    fmt::print(out, "  {} weak references were cleared, {} objects were put in finalization queues\n",
               report.weak_cleared, report.finalization_messages);
  print_types(out, report.types, "  ");
  if (!report.dropped.empty()) fmt::print(out, "no other garbage refers to\n");
  print_types(out, report.dropped, "  ");
  if (found) print_past(out, *found, past);
  return exit_code;
}

int show_space(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress) {
  const collect_report report = collect(
      directory, {.dry_run = true, .markers = usual_markers(), .on_progress = [progress](const rvm::progress& p) {
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
