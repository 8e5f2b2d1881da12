// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archive_reader.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <tenure/error.hpp>

#include "log/checksum.hpp"

namespace tenure::rvm {

namespace {

std::uint64_t length_of(const frame_header& frame) {
  return round_up(sizeof frame + frame.index_length + frame.stretch_length, 8);
}

}  // namespace

archive_reader::archive_reader(os::disk& disk, std::string path, const identity& log_id)
    : path_(std::move(path)), log_id_(log_id) {
  for (std::uint64_t slot = 0; slot < archive_parts; ++slot) {
    std::optional<archive_part> part = archive_part::find(disk, path_, slot, os::access::read_only);
    if (!part) continue;
    if (!part->damage().empty())
      unknown_files_.push_back(part->damage());
    else if (part->is_of(log_id_))
      parts_.push_back(std::move(*part));
  }
  std::ranges::sort(parts_, {}, &archive_part::number);
  for (std::size_t in = 0; in < parts_.size(); ++in) find_frames(in);
  std::ranges::stable_sort(frames_, {}, [](const frame& f) { return std::pair(f.header.from, f.header.part); });
  // If a crash tears a stretch, the next part gets it again, from the same LSN. The last one counts.
  frames_.erase(frames_.begin(), std::unique(frames_.rbegin(), frames_.rend(), [](const frame& a, const frame& b) {
                                   return a.header.from == b.header.from;
                                 }).base());
  find_gaps();
}

void archive_reader::find_frames(std::size_t in) {
  const archive_part& of = parts_[in];
  const std::uint64_t size = of.file().size();
  lsn last = 0;
  frame_header header;
  for (std::uint64_t at = sizeof(part_header); at < size; at += length_of(header)) {
    std::uint64_t found = at;
    const bool is_there = of.find_frame(found, header);
    if (!is_there || found != at)
      damage_.push_back({of.number(), last, of.path() + " is damaged at offset " + std::to_string(at)});
    if (!is_there) return;
    at = found;
    if (at + length_of(header) > size) {
      damage_.push_back(
          {of.number(), last, of.path() + " ends in the middle of a frame, at offset " + std::to_string(size)});
      return;
    }
    frames_.push_back({header, in});
    last = header.to;
  }
}

void archive_reader::find_gaps() {
  lsn to = begin();
  for (std::size_t i = 0; i < frames_.size(); to = std::max(to, frames_[i++].header.to)) {
    const frame_header& next = frames_[i].header;
    if (next.from <= to) continue;
    const std::uint64_t before = frames_[i - 1].header.part;
    std::string reason = damage_after(to, before, next.part);
    for (std::uint64_t missing = before + 1; reason.empty() && missing < next.part; ++missing) {
      reason = part_path(path_, missing);
      const auto damaged =
          std::ranges::find_if(unknown_files_, [&](const std::string& text) { return text.starts_with(reason + " "); });
      if (damaged != unknown_files_.end())
        reason = *damaged;
      else
        reason += " is missing";
    }
    if (reason.empty()) reason = "the log was open without its archive then";
    gaps_.push_back({to, next.from, reason});
  }
}

std::string archive_reader::damage_after(lsn at, std::uint64_t first_part, std::uint64_t last_part) const {
  for (const damage& d : damage_)
    if (first_part <= d.part && d.part <= last_part && (d.behind == 0 || d.behind == at)) return d.what;
  return {};
}

std::string archive_reader::damage_at_end() const {
  const std::string found =
      frames_.empty() ? std::string() : damage_after(end(), frames_.back().header.part, ~std::uint64_t{0});
  return found.empty() && !unknown_files_.empty() ? unknown_files_.front() : found;
}

void archive_reader::damaged(const frame& of, const std::string& why) const {
  throw error(errc::damaged, parts_[of.part].path() + " is damaged: the frame at offset " +
                                 std::to_string(of.header.offset) + ", which has the log from LSN " +
                                 std::to_string(of.header.from) + " to " + std::to_string(of.header.to) + ", " + why);
}

std::vector<std::byte> archive_reader::content(const frame& of, std::uint64_t offset, std::size_t length,
                                               std::uint32_t checksum, std::size_t plain_length) const {
  const char* why = nullptr;
  auto plain =
      parts_[of.part].content(of.header.offset + sizeof of.header + offset, length, checksum, plain_length, why);
  if (!plain) damaged(of, why);
  return std::move(*plain);
}

std::vector<indexed_pages> archive_reader::index(const frame& of) const {
  const std::vector<std::byte> plain =
      content(of, 0, of.header.index_length, of.header.index_checksum, of.header.index_plain);
  std::vector<indexed_pages> all;
  for (std::size_t at = 0; at < plain.size();) {
    index_entry entry;
    if (plain.size() - at < sizeof entry) damaged(of, "has an invalid index");
    std::memcpy(&entry, plain.data() + at, sizeof entry);
    at += sizeof entry;
    if (plain.size() - at < round_up(entry.path, 8) ||
        (plain.size() - at - round_up(entry.path, 8)) / sizeof(std::uint64_t) < entry.pages)
      damaged(of, "has an invalid index");
    indexed_pages in;
    in.segment = {entry.id, entry.raw != 0, {reinterpret_cast<const char*>(plain.data() + at), entry.path}};
    at += round_up(entry.path, 8);
    std::uint64_t page = 0;
    in.pages.resize(entry.pages);
    for (auto& next : in.pages) {
      std::uint64_t delta;
      std::memcpy(&delta, plain.data() + at, sizeof delta);
      at += sizeof delta;
      next = page += delta;
    }
    all.push_back(std::move(in));
  }
  return all;
}

bool archive_reader::read(const frame& of, lsn from,
                          const std::function<bool(const group_view&, os::const_bytes)>& visit) const {
  const std::vector<std::byte> plain = content(of, of.header.index_length, of.header.stretch_length,
                                               of.header.stretch_checksum, of.header.stretch_plain);
  for (lsn at = of.header.from; at < of.header.to;) {
    const auto rest = os::const_bytes(plain).subspan(at - of.header.from);
    const std::string place = "the group at LSN " + std::to_string(at) + " in " + parts_[of.part].path();
    group_header header;
    if (!read_group_header(rest, {short_log_id(log_id_), at, of.header.block_size}, header) ||
        padded_length(header, of.header.block_size) > rest.size() || !group_intact(rest, header))
      damaged(of, "has no valid group at LSN " + std::to_string(at));
    if (at >= from) {
      const auto bytes = rest.first(header.length);
      if (!visit(group_view(bytes, header, place), bytes)) return false;
    }
    at += padded_length(header, of.header.block_size);
  }
  return true;
}

void archive_reader::require_not_ahead(const readable_log& log, lsn tail) const {
  if (end() <= tail) return;
  throw error(errc::wrong_log,
              path_ + ": goes on to LSN " + std::to_string(end()) + ", but the log " + log.path() + " ends at " +
                  std::to_string(tail) +
                  ": this is an older copy of the log, with another future; move the archive away, or give another "
                  "path for it");
}

void archive_reader::require_same_past(const readable_log& log, lsn from, lsn to) const {
  for (const frame& each : frames_) {
    if (each.header.to <= from || each.header.from >= to) continue;
    try {
      (void)read(each, from, [&](const group_view& group, os::const_bytes) {
        const group_header& archived = group.header();
        if (archived.lsn >= to) return false;
        std::vector<std::byte> block(log.block());
        log.read(archived.lsn, block);
        group_header found;
        if (!read_group_header(block, {short_log_id(log_id_), archived.lsn, log.block()}, found)) return false;
        if (found.checksum == archived.checksum) return true;
        throw error(
            errc::wrong_log,
            parts_[each.part].path() + ": from LSN " + std::to_string(archived.lsn) + " on, the log " + log.path() +
                " has gone on otherwise: an older copy of the log was put back, and used without this archive; move "
                "the archive away, or give another path for it");
      });
    } catch (const error& e) {
      if (e.code() != errc::damaged) throw;
    }
  }
}

}  // namespace tenure::rvm
