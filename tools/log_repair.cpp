// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log_repair.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>

#include "json_text.hpp"
#include "log/checksum.hpp"
#include "log/new_file.hpp"
#include "log/unfinished.hpp"
#include "log_command.hpp"
#include "log_survey.hpp"
#include "log_text.hpp"
#include "os/process.hpp"
#include "records/log_reader.hpp"
#include "rewrite/switched_files.hpp"
#include "segments/segment.hpp"
#include "segments/segment_table.hpp"

namespace tenure::tools {

using namespace rvm;
using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t at_once = 1 << 20;
constexpr const char* replaced = ".replaced";

void require_unused(os::disk& disk, const std::string& kept) {
  if (disk.exists(kept))
    throw error(std::make_error_code(std::errc::file_exists),
                kept + ": is there already, from an earlier repair; move it away first. Nothing was changed");
}

bool have_same_bytes(os::disk& disk, const std::string& first, const std::string& second) {
  const auto a = disk.open(first, os::access::read_only), b = disk.open(second, os::access::read_only);
  std::vector<std::byte> in_a(at_once), in_b(at_once);
  for (std::uint64_t at = 0;; at += at_once) {
    const std::size_t got = a->read_at(at, in_a);
    if (b->read_at(at, in_b) != got || std::memcmp(in_a.data(), in_b.data(), got) != 0) return false;
    if (got < at_once) return true;
  }
}

// Whether the file begins with this mark, or has it where the second copy of its header is.
bool has_mark(os::disk& disk, const std::string& path, std::uint64_t mark, std::uint64_t second) {
  const auto file = disk.open(path, os::access::read_only);
  return std::ranges::any_of(std::array{std::uint64_t{0}, second}, [&](std::uint64_t at) {
    std::uint64_t magic = 0;
    return file->read_at(at, std::as_writable_bytes(std::span(&magic, 1))) == sizeof magic && magic == mark;
  });
}

// Whether the file may be what is left of a log: the mark of one, or nothing.
bool may_have_been_a_log(os::disk& disk, const std::string& path) {
  if (has_mark(disk, path, log_magic, manifest_copy_size)) return true;
  const auto file = disk.open(path, os::access::read_only);
  std::vector<std::byte> buffer(at_once);
  for (std::uint64_t at = 0;; at += at_once) {
    const std::size_t got = file->read_at(at, buffer);
    if (std::ranges::any_of(os::bytes(buffer).first(got), [](std::byte b) { return b != std::byte{0}; })) return false;
    if (got < at_once) return true;
  }
}

// Whether a segment that lies beside this log says that it belongs to another one, which is there.
bool is_of_another_log(const segment_header& h, const std::filesystem::path& log) {
  const std::filesystem::path its(
      std::string(h.log_path.data(), std::min<std::size_t>(h.log_path_length, h.log_path.size())));
  if (h.log_id == identity{} || its.filename() == log.filename()) return false;
  return std::filesystem::exists(its) || std::filesystem::exists(log.parent_path() / its.filename());
}

void copy_file(os::disk& disk, const std::string& from, const std::string& to) {
  const auto source = disk.open(from, os::access::read_only);
  new_file making(disk, to, 0600);
  std::vector<std::byte> buffer(at_once);
  for (std::uint64_t at = 0;;) {
    const std::size_t got = source->read_at(at, buffer);
    if (got == 0) break;
    making.file().write_at(at, os::const_bytes(buffer).first(got));
    at += got;
  }
  making.file().sync();
  making.publish();
}

// The files of the log, the manifest last, and the paths under which they are kept.
std::vector<std::pair<std::string, std::string>> files_to_keep(os::disk& disk, const std::string& path,
                                                               const manifest& of) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const log_file_entry& f : of.files)
    all.emplace_back(log_file_path(disk, path, f.number), path + replaced + "." + std::to_string(f.number));
  all.emplace_back(path, path + replaced);
  return all;
}

// Copies the log. There may be copies already, and the same, if an earlier cut was interrupted.
void keep_copies(os::disk& disk, const std::string& path, const manifest& of) {
  for (const auto& [from, to] : files_to_keep(disk, path, of)) {
    if (disk.exists(to) && have_same_bytes(disk, from, to)) continue;
    require_unused(disk, to);
    copy_file(disk, from, to);
  }
}

std::vector<std::unique_ptr<segment>> open_segments(os::disk& disk, const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<segment>> all;
  all.reserve(paths.size());
  for (const std::string& path : paths)
    all.push_back(std::make_unique<segment>(disk, path, path, os::access::read_write, false));
  return all;
}

// A new log belongs to what the members belong to. A member that was never changed may be what a crash left. Other segments that
// were changed are in backups of the log.
void list_segments(log_files& log, const std::vector<std::unique_ptr<segment>>& opened) {
  manifest status = log.status();
  status.segments.clear();
  for (const auto& s : opened) {
    const std::string path = logged_path(log.path(), s->path());
    if (!s->is_member() && !s->was_changed()) continue;
    if (!status.has_room_for(path)) {
      status.unlisted = 1;
      continue;
    }
    const os::file_id on_disk = s->file().id();
    listed_segment& entry = status.segments.emplace_back();
    entry.id = s->id();
    entry.device = on_disk.device;
    entry.inode = on_disk.inode;
    entry.membership = !s->is_member() ? not_a_member : s->was_changed() ? full_member : pending_member;
    entry.path_text = path;
  }
  log.write_status(status);
}

// The log ends at `end` then.
void shorten(log_files& log, lsn end) {
  manifest status = log.status();
  status.clean = 0;
  status.tail = status.head;
  // Where a transaction is prepared, the head is in the middle of a batch, which is found because it is known to be durable.
  scan_groups(log, status.head, end, [&](const group_header& header, os::const_bytes) {
    if (header.batch >= status.head) return false;
    if ((header.flags & group_last) != 0) status.tail = header.lsn + padded_length(header, log.block());
    return status.tail == status.head;
  });
  for (listed_segment& s : status.segments) s.applied = std::min(s.applied, status.head);
  log.cut(end, status);
}

// Renames what there is of the old log. The manifest goes last: without it, an interrupted renewal looks as if the log
// were lost, and is repeated. Returns the manifest's new path; "" if there was none.
std::string put_away(os::disk& disk, const std::string& path, const manifest* old) {
  std::vector<std::pair<std::string, std::string>> all;
  if (old != nullptr) {
    all = files_to_keep(disk, path, *old);
  } else {
    // Nobody knows which files it has. They are numbered, with few gaps.
    for (std::uint32_t number = 1, missing = 0; missing < 100; ++number) {
      std::string file = log_file_path(disk, path, number);
      const bool is_of_a_log = disk.exists(file) && has_mark(disk, file, log_file_magic, log_file_copy_size) &&
                               !is_left_over_log_file(disk, file, identity{});
      missing = is_of_a_log ? 0 : missing + 1;
      if (missing == 0) all.emplace_back(std::move(file), path + replaced + "." + std::to_string(number));
    }
    if (disk.exists(path)) all.emplace_back(path, path + replaced);
  }
  for (const auto& [from, to] : all) require_unused(disk, to);
  for (const auto& [from, to] : all) disk.rename(from, to);
  disk.sync_directory_of(path);
  return disk.exists(path + replaced) ? path + replaced : "";
}

// Why recovery refuses the log; "": it does not.
std::string why_refused(const log_files& log) {
  if (log.status().clean != 0) return "";
  try {
    const log_tail end = find_tail(log, log.status());
    if (end.tail != log.status().head)
      read_backwards(log, {log.status().head, end.tail, end.last_group}, [](const group_view&) { return true; });
    return "";
  } catch (const error& e) {
    if (e.code() != errc::damaged) throw;
    return e.what();
  }
}

struct committed {
  lsn at;  // of its group
  std::uint64_t id;
  std::int64_t time;
  std::string label;
};

struct cut_result {
  lsn end = 0;
  std::uint64_t kept = 0;
  std::vector<committed> given_up;
  std::vector<damage> damaged;
  // That had changes from behind the new end.
  struct ahead {
    std::string path;
    lsn applied;
  };
  std::vector<ahead> ahead;
  std::string old_file;
};

void print_cut(std::FILE* out, const std::string& path, const cut_result& r) {
  fmt::print(out, "{}: now ends at LSN {}; {} transactions are kept\n", path, r.end, r.kept);
  for (const damage& d : r.damaged)
    if (d.to > r.end) fmt::print(out, "GIVEN UP  what was in LSN {} to {}: {}\n", d.from, d.to, d.reason);
  for (const committed& tx : r.given_up)
    fmt::print(out, "GIVEN UP  LSN {}  transaction {}  {}{}\n", tx.at, tx.id, os::utc_text(tx.time),
               tx.label.empty() ? "" : fmt::format("  \"{}\"", tx.label));
  for (const auto& s : r.ahead)
    fmt::print(out,
               "MIXED     {} has changes up to LSN {} already: some of what was given up may be in it, in part; verify "
               "it\n",
               s.path, s.applied);
  fmt::print(out, "{}: the old file\n", r.old_file);
}

json cut_json(const std::string& path, const cut_result& r) {
  json j{{"log", path},
         {"end", r.end},
         {"kept", r.kept},
         {"damage", json::array()},
         {"given_up", json::array()},
         {"mixed", json::array()},
         {"old_file", r.old_file}};
  for (const damage& d : r.damaged)
    if (d.to > r.end) j["damage"].push_back({{"from", d.from}, {"to", d.to}, {"reason", d.reason}});
  for (const committed& tx : r.given_up)
    j["given_up"].push_back({{"lsn", tx.at}, {"transaction", tx.id}, {"time", tx.time}, {"label", tx.label}});
  for (const auto& s : r.ahead) j["mixed"].push_back({{"segment", s.path}, {"applied", s.applied}});
  return j;
}

}  // namespace

std::vector<std::string> segments_beside(const std::string& log_path) {
  std::vector<std::string> all;
  const std::filesystem::path directory = std::filesystem::path(log_path).parent_path();
  if (!std::filesystem::is_directory(directory)) return all;
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.is_regular_file() && entry.path() != log_path) paths.insert(entry.path().string());
  std::map<identity, std::string> known;
  for (const std::string& path : paths) {
    try {
      const segment_header h = read_segment_header(os::real_disk(), path);
      // A rewriting that was interrupted has left files that are not the store's yet.
      if (path.ends_with(replaced) || !rewriting::switched(path).empty() || is_of_another_log(h, log_path)) continue;
      if (const auto [at, is_new] = known.emplace(h.segment_id, path); !is_new)
        throw error(errc::bad_option,
                    at->second + " and " + path +
                        " are copies of one segment: name the segments that belong to the log, behind "
                        "its path. Nothing was changed");
      all.push_back(path);
    } catch (const error& e) {
      if (e.code() != errc::not_a_segment) throw;
    }
  }
  return all;
}

int cut_log(os::disk& disk, const std::string& path, lsn at, const std::vector<std::string>& segments, bool as_json,
            std::FILE* out) {
  const auto log = log_files::open(disk, path, os::access::read_write);
  const lsn head = log->status().head;
  std::vector<committed> all;
  const survey found = survey_log(disk, path, [&](const group_view& group, os::const_bytes) {
    for (const transaction_view& tx : group.transactions())
      if (tx.flags & record_last) all.push_back({group.header().lsn, tx.id, tx.time, std::string(tx.label)});
    return true;
  });
  auto opened = open_segments(disk, segments);
  const identity id = log->status().log_id;
  const auto is_ahead = [&](const auto& s, lsn of) { return s->was_changed_under(id) && s->applied() > of; };
  const std::string refused = why_refused(*log);
  const bool none_ahead = std::ranges::none_of(opened, [&](const auto& s) { return is_ahead(s, found.tail); });
  if (refused.empty() && none_ahead)
    throw error(errc::bad_option, path +
                                      ": this log is whole, and opening it recovers what is in it: it is not cut. To "
                                      "shorten its archive use `tenure log forget`");
  const lsn last = found.damaged.empty() ? found.tail : found.damaged.front().from;
  if (at < head || at > last || at % log->block() != 0)
    throw error(errc::bad_option,
                fmt::format("{}: cannot be cut at LSN {}: give --at {}, where the {} begins{}", path, at, last,
                            refused.empty() ? "missing end" : "damage", refused.empty() ? "" : "; " + refused));
  cut_result result;
  result.damaged = found.damaged;
  result.old_file = path + replaced;
  keep_copies(disk, path, log->status());
  shorten(*log, at);
  result.end = find_tail(*log, log->status()).tail;
  for (const auto& s : opened) {
    if (!is_ahead(s, result.end)) continue;
    result.ahead.push_back({s->path(), s->applied()});
    s->move_back_applied(result.end);
  }
  for (committed& tx : all) {
    if (tx.at < result.end)
      ++result.kept;
    else
      result.given_up.push_back(std::move(tx));
  }
  if (as_json)
    fmt::print(out, "{}\n", json_text(cut_json(path, result)));
  else
    print_cut(out, path, result);
  return exit_ok;
}

int renew_log(os::disk& disk, const std::string& path, const std::vector<std::string>& segments, bool give_up,
              bool as_json, std::FILE* out) {
  std::unique_ptr<log_files> old;
  rvm::require_not_unfinished(disk, path);
  const bool exists = disk.exists(path);
  std::string unreadable;
  if (exists) {
    try {
      old = log_files::open(disk, path, os::access::read_write);
    } catch (const error& e) {
      if (e.code() != errc::damaged && e.code() != errc::not_a_log) throw;
      if (!may_have_been_a_log(disk, path))
        throw error(errc::not_a_log, path +
                                         ": is no log, nor what is left of one; if it is in a log's place, move it "
                                         "away first. Nothing was changed");
      unreadable = e.what();
    }
    if (old != nullptr && old->status().clean == 0)
      throw error(errc::bad_option, path +
                                        ": this log was not closed, and may have changes: opening it recovers them. If "
                                        "it is damaged, cut it (`tenure log status`, `tenure log cut`); if it is "
                                        "another store's, move it away");
  }
  auto opened = open_segments(disk, segments);
  const auto is_of_it = [&](const segment& s) {
    return old != nullptr && !s.was_changed_elsewhere(old->status().log_id) &&
           s.find_mismatch(old->status(), path, old->status().tail).empty();
  };
  if (old != nullptr && std::ranges::all_of(opened, [&](const auto& s) { return is_of_it(*s); }))
    throw error(errc::bad_option, path +
                                      ": this log is whole, and its segments are of the same moment: it is not "
                                      "replaced");
  std::vector<std::string> waiting;
  for (const auto& s : opened)
    if (s->may_have_logged_changes() && !is_of_it(*s)) waiting.push_back(s->path());
  if (!waiting.empty() && !give_up)
    throw error(
        errc::wrong_log,
        fmt::format("{}: {} was not closed cleanly: its last changes may have been in the log that is lost, and "
                    "what the segment has may be of several moments; restore log and segments from a backup, of "
                    "one moment; or, to go on with what is there, use --give-up. Nothing was changed",
                    path, waiting.front()));
  std::string kept;
  std::unique_ptr<log_files> made;
  if (old != nullptr && old->status().totals[static_cast<std::size_t>(log_total::opened)] == 0) {
    made = std::move(old);  // of an earlier renewal that was interrupted
  } else {
    kept = put_away(disk, path, old != nullptr ? &old->status() : nullptr);
    old.reset();
    made = log_files::create(disk, path, log_options{}, {});
    if (const std::string like = kept.empty() && !opened.empty() ? opened.front()->path() : kept; !like.empty()) {
      for (const log_file_entry& file : made->status().files)
        disk.take_owner_of(log_file_path(disk, path, file.number), like);
      disk.take_owner_of(path, like);
    }
    manifest status = made->status();
    status.first = 0;  // it has a past, though nobody knows it
    made->write_status(status);
  }
  list_segments(*made, opened);
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"log", path}, {"segments", segments}, {"given_up", waiting}, {"old_file", kept}}));
  } else {
    fmt::print(out, "{}: a new log, for {} segments\n", path, segments.size());
    for (const std::string& s : segments) fmt::print(out, "segment   {}\n", s);
    for (const std::string& s : waiting)
      fmt::print(out, "GIVEN UP  what the old log had for {}: it may be of several moments; verify it\n", s);
    if (!unreadable.empty()) fmt::print(out, "{}: the old file; {}\n", kept, unreadable);
  }
  // Last, and when it has been said: until then each of them still says that changes waited in the old log.
  if (std::fflush(out) != 0 || std::ferror(out) != 0)
    throw error(std::make_error_code(std::errc::io_error),
                path +
                    ": is a new log, but what is given up could not be said, so its segments still say that changes "
                    "wait in the old one; renew it again");
  for (const auto& s : opened) s->detach_from_log();
  return exit_ok;
}

}  // namespace tenure::tools
