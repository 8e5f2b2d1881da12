// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "history.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>

#include <tenure/error.hpp>

#include "log/log_files.hpp"
#include "os/process.hpp"
#include "records/log_reader.hpp"
#include "replay/backup_note.hpp"
#include "segments/segment.hpp"

namespace tenure::tools {

using namespace rvm;

named_segment named_segment::look_at(os::disk& disk, const std::string& path, bool may_be_raw) {
  named_segment found;
  found.path = os::absolute_path(path);
  try {
    const segment_header header = read_segment_header(disk, found.path);
    found.id = header.segment_id;
    found.layout = segment_layout(header);
    found.length = header.length;
    found.log_path.assign(header.log_path.data(),
                          std::min<std::size_t>(header.log_path_length, header.log_path.size()));
    found.log_id = header.log_id;
    if (header.applied_sequence == header.sequence) found.applied = header.applied;
  } catch (const error& e) {
    if (!may_be_raw || e.code() != errc::not_a_segment) throw;
    found.raw = true;
    found.length = disk.open(found.path, os::access::read_only)->size();
  }
  return found;
}

namespace {

// A path as records have it: relative to the log's directory, if it is below it.
std::string absolute_name(const std::string& path, const std::string& log) {
  return os::absolute_path(path.starts_with('/') ? path : log.substr(0, log.rfind('/') + 1) + path);
}

}  // namespace

bool named_segment::is(const segment_name& name, const std::string& log) const {
  return raw ? name.raw && absolute_name(name.path, log) == path : !name.raw && name.id == id;
}

bool named_segment::is_namesake_of(const segment_name& name, const std::string& log) const {
  return !is(name, log) && absolute_name(name.path, log) == path;
}

std::optional<lsn> named_segment::is_copied_through(os::disk& disk, const identity& log) const {
  if (raw || log_id == identity{}) return 0;
  if (log_id == log) return applied;
  for (const std::string& where : {path.substr(0, path.rfind('/')), log_path}) try {
      const std::string backup = find_backup(disk, where);
      const backup_note note = read_backup_note(disk, backup);
      if (note.log_id != log || note.own_id != log_id) continue;
      require_untouched(log_files::open_unlocked(disk, backup)->status(), backup, note);
      return note.to;
    } catch (const error&) {  // no backup, or one that is not what it was
    }
  return std::nullopt;
}

bool wanted_changes::in_pages(const std::vector<std::uint64_t>& pages) const {
  const auto first = std::ranges::lower_bound(pages, from / redo_page);
  return first != pages.end() && *first * redo_page < to;
}

history::history(os::disk& disk, const std::string& log_path, const std::string& archive_path, progress_line* progress)
    : disk_(disk),
      progress_(progress),
      log_path_(os::absolute_path(log_path)),
      archive_path_(rvm::archive_path(log_path_, archive_path)) {}

void history::walk(const wanted_changes& which, const group_visitor& visit) {
  started_ = false;
  begin_ = at_ = 0;
  gaps_.clear();
  for (;;) {
    const lsn before = at_;
    if (!walk_archive(which, visit)) return;
    bool behind = false;
    if (!walk_log(visit, behind) || !behind) return;
    // Truncated since the archive was looked at; or not in it.
    if (started_ && at_ != before) continue;
    const lsn head = log_files::open_unlocked(disk_, log_path_)->status().head;
    if (head <= at_) continue;
    note_gap(at_, head,
             !damage_at_end_.empty() ? damage_at_end_ : "it was truncated while the log was open without its archive");
    at_ = head;
  }
}

bool history::walk_archive(const wanted_changes& which, const group_visitor& visit) {
  const identity id = log_files::open_unlocked(disk_, log_path_)->status().log_id;
  const archive_reader archive(disk_, archive_path_, id);
  // What a log in use writes meanwhile has other LSNs.
  if (const auto log = log_files::open_unlocked(disk_, log_path_); archive.end() > log->status().head) {
    const manifest& status = log->status();
    if (status.clean != 0) archive.require_not_ahead(*log, status.tail);
    archive.require_same_past(*log, status.head, log->end());
  }
  damage_at_end_ = archive.damage_at_end();
  if (!started_ && !archive.empty()) {
    begin_ = at_ = archive.begin();
    started_ = true;
  }
  unknown_file_ = archive.unknown_files().empty() ? "" : archive.unknown_files().front();
  for (const archive_gap& gap : archive.gaps())
    if (gap.from >= at_) note_gap(gap.from, gap.to, gap.reason);
  for (const auto& frame : archive.frames()) {
    if (frame.header.to <= at_) continue;
    try {
      bool wanted = which.segment == nullptr;
      if (!wanted)
        for (const indexed_pages& in : archive.index(frame)) {
          wanted = wanted || (which.segment->is(in.segment, log_path_) && which.in_pages(in.pages));
          has_namesake_ = has_namesake_ || which.segment->is_namesake_of(in.segment, log_path_);
        }
      if (wanted && !archive.read(frame, at_, visit)) return false;
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
      note_gap(std::max(at_, frame.header.from), frame.header.to, e.what());
    }
    at_ = frame.header.to;
    show_progress(archive.end());
  }
  return true;
}

bool history::walk_log(const group_visitor& visit, bool& behind) {
  const auto log = log_files::open_unlocked(disk_, log_path_);
  if (!started_) {
    begin_ = at_ = log->status().head;
    started_ = true;
  }
  const manifest& status = log->status();
  complete_ = begin_ == status.first;
  if (!complete_ && !unknown_file_.empty() &&
      std::ranges::none_of(gaps_, [&](const archive_gap& gap) { return gap.reason == unknown_file_; }))
    note_gap(status.first, begin_, unknown_file_);
  if (log->status().head > at_) {
    behind = true;
    return true;
  }
  bool enough = false;
  const survey found = survey_log(disk_, log_path_, [&](const group_view& group, os::const_bytes bytes) {
    if (group.header().lsn < at_) return true;
    // A head that moved on meanwhile; holes in the log itself are known when the walk ends.
    behind = group.header().lsn > at_ && log_files::open_unlocked(disk_, log_path_)->status().head > at_;
    if (behind) return false;
    at_ = group.header().lsn + padded_length(group.header(), log->block());
    show_progress(status.tail);
    enough = !visit(group, bytes);
    return !enough;
  });
  for (const damage& d : found.damaged) note_gap(d.from, d.to, log_path_ + " is damaged: " + d.reason);
  return !enough;
}

void history::show_progress(lsn end) {
  if (progress_ != nullptr) progress_->show("reading the history", at_ - begin_, std::max(end, at_) - begin_);
}

void history::note_gap(lsn from, lsn to, const std::string& reason) {
  if (std::ranges::none_of(gaps_, [&](const archive_gap& gap) { return gap.from == from && gap.to == to; }))
    gaps_.push_back({from, to, reason});
}

moment moment::parse(const std::string& text) {
  moment made;
  made.text = text;
  const auto number = [](std::string_view digits, auto& into) {
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return code == std::errc{} && end == digits.data() + digits.size() && !digits.empty();
  };
  if (lsn at; number(text, at)) {
    made.at = at;
    return made;
  }
  std::string rest = text;
  for (const std::string& zone : {std::string(" UTC"), std::string("Z")})
    if (rest.ends_with(zone)) rest.resize(rest.size() - zone.size());
  std::tm parts{};
  const char* end =
      ::strptime(rest.c_str(), rest.find('T') != std::string::npos ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &parts);
  std::int64_t fraction = 0;
  if (end != nullptr && *end == '.') {
    std::string digits(end + 1);
    const std::size_t given = digits.size();
    digits.resize(9, '0');
    end = given != 0 && given <= 9 && number(digits, fraction) ? "" : nullptr;
  }
  if (end == nullptr || *end != '\0')
    throw error(errc::bad_option, "\"" + text +
                                      "\" is no moment: give an LSN, such as 4096, or a time (UTC), such as "
                                      "\"2026-11-21 08:50:04.5\"");
  const std::tm given = parts;
  const std::int64_t seconds = ::timegm(&parts);  // corrects days that there are not
  constexpr std::int64_t second = 1'000'000'000;
  if (parts.tm_mday != given.tm_mday || parts.tm_hour != given.tm_hour ||
      std::abs(seconds) >= std::numeric_limits<std::int64_t>::max() / second)
    throw error(errc::bad_option, "\"" + text + "\" is no moment: there is no such day, or it is too far away");
  made.time = seconds * second + fraction;
  return made;
}

void known_bytes::set(std::uint64_t offset, os::const_bytes value) {
  while (!value.empty()) {
    const auto in = static_cast<std::uint32_t>(offset % redo_page);
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(value.size(), redo_page - in));
    auto& at = pages_[offset / redo_page];
    if (at == nullptr) at = std::make_unique<page>();
    at->known.insert(in, in + length);
    std::memcpy(at->value + in, value.data(), length);
    value = value.subspan(length);
    offset += length;
  }
}

void known_bytes::forget(std::uint64_t offset, std::uint64_t length) {
  for (std::uint64_t number = offset / redo_page; number < (offset + length) / redo_page; ++number)
    pages_.erase(number);
}

std::vector<std::uint64_t> known_bytes::pages() const {
  std::vector<std::uint64_t> all;
  for (const auto& [number, at] : pages_) all.push_back(number);
  std::ranges::sort(all);
  return all;
}

}  // namespace tenure::tools
