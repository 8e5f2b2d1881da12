// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log_command.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/rvm.hpp>

#include "json_text.hpp"
#include "log/log_hold.hpp"
#include "log_survey.hpp"
#include "log_text.hpp"
#include "object_values.hpp"
#include "os/process.hpp"
#include "records/log_reader.hpp"

namespace tenure::tools {

using namespace rvm;
using json = nlohmann::ordered_json;

namespace {

json damage_json(const survey& found, const log_files& log) {
  json all = json::array();
  for (const damage& d : found.damaged)
    all.push_back({{"from", d.from}, {"to", d.to}, {"place", log.place(d.from)}, {"reason", d.reason}});
  return all;
}

void print_damage(std::FILE* out, const survey& found, const log_files& log) {
  for (const damage& d : found.damaged)
    fmt::print(out, "DAMAGED        LSN {} to {}, {} bytes from {} on: {}\n", d.from, d.to, d.to - d.from,
               log.place(d.from), d.reason);
}

// What the live records of a log amount to.
struct contents {
  std::uint64_t transactions = 0, ranges = 0, bytes = 0, runs = 0, bulk_bytes = 0;
  std::set<std::uint32_t> generations;
  struct segment {
    segment_name name;
    std::uint64_t ranges = 0, bytes = 0;
  };
  std::map<std::string, segment> segments;
  // What no batch follows so far.
  struct prepared_contents {
    std::uint64_t batch, transaction;
    std::string global_id;
    std::uint64_t ranges = 0, bytes = 0;
  };
  std::optional<prepared_contents> prepared;

  void add_prepared(const group_view& group) {
    for (const transaction_view& tx : group.prepared()) {
      if (!prepared) prepared = {group.header().batch, tx.id, std::string(group.global_id())};
      prepared->ranges += tx.ranges.size();
      for (const range_view& range : tx.ranges) prepared->bytes += range.value.size();
    }
  }
  void add(const group_view& group) {
    if (prepared && group.header().batch != prepared->batch) prepared.reset();
    add_prepared(group);
    generations.insert(group.header().generation);
    for (const segment_name& name : group.segments()) segments[name.path].name = name;
    for (const transaction_view& tx : group.transactions()) {
      if (tx.flags & record_last) ++transactions;
      ranges += tx.ranges.size();
      runs += tx.runs.size();
      for (const bulk_run_view& run : tx.runs) bulk_bytes += run.length();
      for (const range_view& range : tx.ranges) {
        bytes += range.value.size();
        segment& in = segments[group.segments()[range.segment].path];
        ++in.ranges;
        in.bytes += range.value.size();
      }
    }
  }
};

constexpr const char* total_names[] = {"opened",
                                       "recovered",
                                       "transactions",
                                       "log_bytes",
                                       "incremental_truncations",
                                       "epoch_truncations",
                                       "grown",
                                       "no_flush_commits",
                                       "aborts",
                                       "intra_ranges_saved",
                                       "intra_bytes_saved",
                                       "inter_transactions_saved",
                                       "inter_bytes_saved",
                                       "batches",
                                       "log_used_max",
                                       "truncation_waits",
                                       "flush_calls",
                                       "truncate_calls",
                                       "write_ns",
                                       "truncation_ns",
                                       "damaged_pages"};
static_assert(std::size(total_names) == static_cast<std::size_t>(log_total::end));

json status_json(const log_files& log, const std::vector<manifest_copy>& copies, const survey& found,
                 const contents& live, const std::vector<found_hold>& holds) {
  const manifest& s = log.status();
  json j{{"path", log.path()},
         {"identity", identity_text(s.log_id)},
         {"version", s.version},
         {"block_size", s.block_size},
         {"size", s.size},
         {"max_size", s.max_size},
         {"created", s.created},
         {"written", s.written},
         {"generation", s.generation},
         {"sequence", s.sequence},
         {"clean", s.clean != 0}};
  for (std::size_t i = 0; i < copies.size(); ++i)
    j["copies"].push_back(
        {{"offset", i * manifest_copy_size}, {"valid", copies[i].is_valid}, {"sequence", copies[i].read.sequence}});
  j["holds"] = json::array();
  for (const found_hold& h : holds)
    j["holds"].push_back({{"path", h.path}, {"position", h.position}, {"purpose", h.purpose}});
  j["files"] = json::array();
  for (const log_file_entry& f : s.files) j["files"].push_back({{"number", f.number}, {"length", f.length}});
  j["head"] = s.head;
  j["tail"] = found.tail;
  j["tail_in_manifest"] = s.tail;
  j["used"] = found.tail - found.head;
  j["groups"] = found.groups;
  j["batches"] = found.batches;
  j["transactions"] = live.transactions;
  j["ranges"] = live.ranges;
  j["bytes"] = live.bytes;
  j["prepared"] = nullptr;
  if (live.prepared)
    j["prepared"] = {{"global_id", live.prepared->global_id},
                     {"transaction", live.prepared->transaction},
                     {"ranges", live.prepared->ranges},
                     {"bytes", live.prepared->bytes}};
  j["torn"] = {{"groups", found.torn_groups}, {"bytes", found.torn_bytes}};
  j["segments"] = json::array();
  for (const auto& [path, in] : live.segments)
    j["segments"].push_back({{"path", path},
                             {"identity", identity_text(in.name.id)},
                             {"raw", in.name.raw},
                             {"ranges", in.ranges},
                             {"bytes", in.bytes}});
  for (std::size_t i = 0; i < std::size(total_names); ++i) j["totals"][total_names[i]] = s.totals[i];
  j["damage"] = damage_json(found, log);
  return j;
}

void print_status(std::FILE* out, const log_files& log, const std::vector<manifest_copy>& copies, const survey& found,
                  const contents& live, const std::vector<found_hold>& holds) {
  const manifest& s = log.status();
  fmt::print(out, "log            {}\n", log.path());
  fmt::print(out, "identity       {}, format version {}, blocks of {} bytes\n", identity_text(s.log_id), s.version,
             s.block_size);
  for (std::size_t i = 0; i < copies.size(); ++i)
    fmt::print(out, "manifest       copy {} at offset {}: {}\n", i, i * manifest_copy_size,
               copies[i].is_valid ? fmt::format("valid, sequence {}", copies[i].read.sequence) : "DAMAGED");
  fmt::print(out, "created        {}\n", os::utc_text(s.created));
  fmt::print(out, "last written   {}, opening number {}\n", os::utc_text(s.written), s.generation);
  fmt::print(out, "size           {} bytes in {} files; usually up to {}, may grow to {}\n", log.length(),
             s.files.size(), s.size, s.max_size);
  for (const found_hold& h : holds)
    fmt::print(out, "held           from LSN {}, {} bytes before the head, by {} for {}\n", h.position,
               s.head - std::min(s.head, h.position), h.holder, h.purpose.empty() ? h.path : h.purpose);
  fmt::print(out, "state          {}\n",
             s.clean != 0 ? "closed cleanly" : "not closed: it is open now, or will be recovered when it is opened");
  fmt::print(out, "head           LSN {} ({})\n", s.head, log.place(s.head));
  fmt::print(
      out, "tail           LSN {} ({}), {}\n", found.tail, log.place(found.tail),
      s.clean != 0 ? "from the manifest" : fmt::format("found by looking; the manifest says {} or later", s.tail));
  const std::uint64_t used = found.tail - found.head;
  fmt::print(out, "live           {} bytes ({:.1f} %) in {} groups, {} batches\n", used,
             100.0 * static_cast<double>(used) / static_cast<double>(s.size), found.groups, found.batches);
  fmt::print(out, "               {} transactions, {} ranges, {} bytes of new values\n", live.transactions, live.ranges,
             live.bytes);
  if (live.runs != 0)
    fmt::print(out, "               {} extents, {} bytes, written straight to segments\n", live.runs, live.bulk_bytes);
  if (live.prepared)
    fmt::print(out,
               "prepared       {}, transaction {}: {} ranges, {} bytes, for which the log has no outcome; "
               "`tenure resolve` ends it, if no process has the log open\n",
               quoted(live.prepared->global_id), live.prepared->transaction, live.prepared->ranges,
               live.prepared->bytes);
  for (const auto& [path, in] : live.segments)
    fmt::print(out, "segment        {} ({}): {} ranges, {} bytes\n", path,
               in.name.raw ? "raw" : identity_text(in.name.id), in.ranges, in.bytes);
  if (found.torn_groups != 0)
    fmt::print(out,
               "torn           {} groups, {} bytes at the tail: being written now, or cut off by a crash and never "
               "acknowledged\n",
               found.torn_groups, found.torn_bytes);
  fmt::print(out, "so far         opened {} times, recovered {} times, grown {} times\n", s.totals[0], s.totals[1],
             s.totals[6]);
  fmt::print(
      out,
      "               {} transactions, {} bytes of log, {} incremental and {} epoch truncations before this opening\n",
      s.totals[2], s.totals[3], s.totals[4], s.totals[5]);
  print_damage(out, found, log);
}

std::string kind_and_pieces_of(const group_view& group, const transaction_view& tx) {
  std::string kind = group.is_prepared() ? "prepared" : tx.flags & record_lazy ? "no_flush" : "flush";
  if (!(tx.flags & record_first)) kind += ", continued";
  if (!(tx.flags & record_last)) kind += ", to be continued";
  return kind;
}

class record_printer {
 public:
  record_printer(const std::string& log_path, const record_selection& which, bool as_json, std::FILE* out)
      : directory_(log_path.substr(0, log_path.rfind('/') + 1)), which_(which), as_json_(as_json), out_(out) {}

  // False when enough has been shown.
  bool show(const group_view& group) {
    const auto& transactions = group.is_prepared() ? group.prepared() : group.transactions();
    for (const transaction_view& tx : transactions) {
      const lsn at = group.header().lsn + tx.at;
      if (which_.from && at < *which_.from) continue;
      if (which_.transaction && tx.id != *which_.transaction) continue;
      std::vector<const range_view*> ranges;
      for (const range_view& range : tx.ranges)
        if (is_wanted(group.segments()[range.segment].path)) ranges.push_back(&range);
      std::vector<const bulk_run_view*> runs;
      for (const bulk_run_view& run : tx.runs)
        if (is_wanted(group.segments()[run.segment].path)) runs.push_back(&run);
      if (ranges.empty() && runs.empty()) continue;
      if (which_.limit && shown_ >= *which_.limit) return false;
      as_json_ ? print_json(group, tx, at, ranges, runs) : print_text(group, tx, at, ranges, runs);
      ++shown_;
      last_ = at;
    }
    return !which_.limit || shown_ < *which_.limit;
  }
  [[nodiscard]] std::uint64_t shown() const { return shown_; }
  [[nodiscard]] lsn last() const { return last_; }

 private:
  [[nodiscard]] bool is_wanted(const std::string& path) const {
    if (which_.segment.empty() || which_.segment == path) return true;
    return os::absolute_path(which_.segment) == (path.starts_with('/') ? path : directory_ + path);
  }

  void print_text(const group_view& group, const transaction_view& tx, lsn at,
                  const std::vector<const range_view*>& ranges, const std::vector<const bulk_run_view*>& runs) const {
    fmt::print(out_, "LSN {}  transaction {}  {}  {}{}\n", at, tx.id, os::utc_text(tx.time),
               kind_and_pieces_of(group, tx), tx.label.empty() ? "" : "  " + quoted(std::string(tx.label)));
    for (const bulk_run_view* run : runs)
      fmt::print(out_, "    {}  offset {}  length {}  written in bulk\n", group.segments()[run->segment].path,
                 run->offset, run->length());
    for (const range_view* range : ranges) {
      fmt::print(out_, "    {}  offset {}  length {}\n", group.segments()[range->segment].path, range->offset,
                 range->value.size());
      if (which_.with_data) fmt::print(out_, "{}", dump_text(range->value, range->offset, "      "));
    }
  }
  void print_json(const group_view& group, const transaction_view& tx, lsn at,
                  const std::vector<const range_view*>& ranges, const std::vector<const bulk_run_view*>& runs) const {
    json j{{"lsn", at},
           {"group", group.header().lsn},
           {"batch", group.header().batch},
           {"generation", group.header().generation},
           {"transaction", tx.id},
           {"time", tx.time},
           {"label", tx.label},
           {"prepared", group.is_prepared()},
           {"flush", (tx.flags & record_lazy) == 0},
           {"first", (tx.flags & record_first) != 0},
           {"last", (tx.flags & record_last) != 0},
           {"ranges", json::array()}};
    for (const range_view* range : ranges) {
      json r{{"segment", group.segments()[range->segment].path},
             {"offset", range->offset},
             {"length", range->value.size()}};
      if (which_.with_data) r["data"] = hex_text(range->value);
      j["ranges"].push_back(std::move(r));
    }
    for (const bulk_run_view* run : runs)
      j["extents"].push_back(
          {{"segment", group.segments()[run->segment].path}, {"offset", run->offset}, {"length", run->length()}});
    fmt::print(out_, "{}\n    {}", shown_ == 0 ? "" : ",", json_text(j, -1));
  }

  std::string directory_;
  const record_selection& which_;
  bool as_json_;
  std::FILE* out_;
  std::uint64_t shown_ = 0;
  lsn last_ = 0;
};

}  // namespace

int show_log_status(os::disk& disk, const std::string& path, bool as_json, std::FILE* out) {
  const auto copies = read_manifest_copies(disk, path);
  contents live;
  const survey found = survey_log(disk, path, [&](const group_view& group, os::const_bytes) {
    live.add(group);
    return true;
  });
  const auto log = log_files::open_unlocked(disk, path);
  const std::vector<found_hold> holds = find_holds(disk, path);
  if (as_json)
    fmt::print(out, "{}\n", json_text(status_json(*log, copies, found, live, holds), 2));
  else
    print_status(out, *log, copies, found, live, holds);
  const bool copies_valid = copies[0].is_valid && copies[1].is_valid;
  return found.damaged.empty() && copies_valid ? exit_ok : exit_damaged;
}

int show_log_records(os::disk& disk, const std::string& path, const record_selection& which, bool as_json,
                     std::FILE* out, std::optional<lsn>* last) {
  const auto log = log_files::open_unlocked(disk, path);
  record_printer printer(log->path(), which, as_json, out);
  const auto show = [&](const group_view& group, os::const_bytes) { return printer.show(group); };
  if (as_json) fmt::print(out, "{{\n  \"records\": [");
  bool more = true;
  // What lies before the head has been truncated: it can be read until it is overwritten.
  const lsn head = log->status().head, oldest = log->begin();
  if (which.from && *which.from < head) {
    const lsn from = round_down(std::max({*which.from, oldest, std::uint64_t{max_group}}) - max_group, log->block());
    scan_groups(*log, std::max(from, oldest), head, [&](const group_header& header, os::const_bytes bytes) {
      return more = printer.show(group_view(bytes, header, place_of(*log, header.lsn)));
    });
  }
  survey found;
  if (more) found = survey_log(disk, path, show);
  if (last != nullptr && printer.shown() != 0) *last = printer.last();
  if (as_json) {
    fmt::print(out, "{}],\n  \"damage\": {}\n}}\n", printer.shown() == 0 ? "" : "\n  ",
               json_text(damage_json(found, *log), -1));
  } else {
    print_damage(out, found, *log);
  }
  return found.damaged.empty() ? exit_ok : exit_damaged;
}

void show_log_totals(os::disk& disk, const std::string& path, std::FILE* out) {
  const auto log = log_files::open_unlocked(disk, path);
  for (std::size_t i = 0; i < std::size(total_names); ++i)
    fmt::print(out, "{:26} {}\n", total_names[i], log->status().totals[i]);
}

int verify_segment(os::disk& disk, const std::string& log_path, const std::string& segment_path, bool as_json,
                   std::FILE* out) {
  options how;
  how.mode = open_mode::read_only;
  how.background = false;
  how.disk = &disk;
  memory m(log_path, how);
  const std::uint64_t pages = m.segment_length(segment_path) / redo_page;
  const auto bad = m.verify_segment(segment_path);
  if (as_json) {
    fmt::print(out, "{}\n", json_text({{"segment", segment_path}, {"pages", pages}, {"damaged", bad}}, 2));
  } else {
    for (const std::uint64_t offset : bad)
      fmt::print(out, "{}: DAMAGED: {} bytes at offset {} of the data\n", segment_path, redo_page, offset);
    fmt::print(out, "{}: {} pages, {}\n", segment_path, pages,
               bad.empty() ? "all match their checksums" : fmt::format("{} damaged", bad.size()));
  }
  return bad.empty() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
