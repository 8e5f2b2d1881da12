// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/log_stretches.hpp"

#include <algorithm>
#include <optional>

#include <tenure/error.hpp>

#include "records/log_reader.hpp"

namespace tenure::rvm {

namespace {

// The frame that has the byte; the last one, if several do.
const archive_reader::frame* find_frame(const archive_reader& in, lsn at) {
  const auto& frames = in.frames();
  auto behind = std::upper_bound(frames.begin(), frames.end(), at,
                                 [](lsn value, const archive_reader::frame& f) { return value < f.header.from; });
  while (behind != frames.begin())
    if (const archive_reader::frame& f = *--behind; at < f.header.to) return &f;
  return nullptr;
}

}  // namespace

bool log_stretches::add_archive(const std::string& path, lsn through) {
  auto archive = std::make_unique<archive_reader>(disk_, path, log_id_);
  end_ = std::max({end_, archive->end(), through});
  if (archive->empty()) return false;
  const lsn from = archive->begin(), to = archive->end();
  sources_.push_back({std::move(archive), nullptr, from, to});
  return true;
}

void log_stretches::add_log(const readable_log& log, lsn from, lsn to, bool is_clean) {
  for (const source& in : sources_) {
    if (in.archive == nullptr) continue;
    if (is_clean) in.archive->require_not_ahead(log, to);
    in.archive->require_same_past(log, from, to);
  }
  end_ = std::max(end_, to);
  sources_.push_back({nullptr, &log, from, to});
}

void log_stretches::read(const source& in, lsn at, const visitor& visit) {
  if (in.archive != nullptr) {
    if (const auto* const frame = find_frame(*in.archive, at)) (void)in.archive->read(*frame, at, visit);
  } else if (in.from <= at && at < in.to) {
    scan_groups(*in.log, at, in.to, [&](const group_header& header, os::const_bytes bytes) {
      return visit(group_view(bytes, header, place_of(*in.log, header.lsn)), bytes);
    });
  }
}

void log_stretches::walk(lsn from, const visitor& visit) const {
  lsn at = from;
  bool go_on = true, is_visiting = false;
  while (go_on && at < end_) {
    const lsn before = at;
    std::optional<error> damage;
    for (const source& in : sources_) {
      const std::uint32_t block = in.log != nullptr ? in.log->block() : 0;
      const auto next = [&](const group_view& group, os::const_bytes bytes) {
        if (group.header().lsn != at) return false;  // in a hole, or in the middle of a group
        is_visiting = true;
        go_on = visit(group, bytes);
        is_visiting = false;
        at += padded_length(group.header(), block != 0 ? block : find_frame(*in.archive, at)->header.block_size);
        return go_on;
      };
      try {
        read(in, at, next);
      } catch (const error& e) {
        if (is_visiting || e.code() != errc::damaged) throw;
        damage = e;
      }
      if (at != before) break;
    }
    if (at != before) continue;
    if (damage) throw error(*damage);
    refuse(at, at == from);
  }
}

void log_stretches::refuse(lsn at, bool is_first) const {
  lsn next = end_;
  bool is_inside = false;
  std::string why;
  for (const source& in : sources_) {
    if (in.log != nullptr) {
      if (in.from > at) next = std::min(next, in.from);
      is_inside |= in.from <= at && at < in.to;
      if (is_inside && why.empty()) why = place_of(*in.log, at);
      continue;
    }
    for (const auto& frame : in.archive->frames())
      if (frame.header.from > at) next = std::min(next, frame.header.from);
    is_inside |= find_frame(*in.archive, at) != nullptr;
    for (const archive_gap& gap : in.archive->gaps())
      if (gap.from <= at && at < gap.to) why = gap.reason;
    if (why.empty() && at >= in.archive->end()) why = in.archive->damage_at_end();
  }
  if (is_inside)
    throw error(is_first ? errc::wrong_log : errc::damaged,
                "the log has no whole group at LSN " + std::to_string(at) + ", where " +
                    (is_first ? "the backup ends: it is damaged there, or has another past than the backup"
                              : "the next one should be: it is damaged there") +
                    (why.empty() ? "" : " (" + why + ")"));
  throw error(errc::no_history, "the log's LSNs " + std::to_string(at) + " to " + std::to_string(next) +
                                    " are missing: they are in no incremental backup, archive or log that was given" +
                                    (why.empty() ? "" : " (" + why + ")"));
}

}  // namespace tenure::rvm
