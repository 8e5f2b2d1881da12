// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/copied_segment.hpp"

#include <algorithm>
#include <span>

#include "log/checksum.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::rvm {

copied_segment::copied_segment(os::disk& disk, const std::string& from, const std::string& to, std::string logged,
                               bool raw, unsigned permissions)
    : disk_(disk),
      from_(from),
      to_(to),
      logged_(std::move(logged)),
      raw_(raw),
      source_(disk.open(from, os::access::read_only)),
      target_(disk.create(to, permissions)) {
  if (!raw) header_ = read_header();
  layout_ = raw ? segment_layout(0, 0) : segment_layout(header_);
  length_ = raw ? source_->size() : layout_.file_length(header_.length);
  if (const std::uint64_t has = source_->size();
      has < length_)  // the rest would be zeros, which look like a page that was never used
    throw error(errc::segment_too_short, from_ + ": the segment should have " + std::to_string(length_) +
                                             " bytes, but the file has " + std::to_string(has) +
                                             "; it was cut off: use another backup, or another copy of the file");
}

void copied_segment::note_bulk_under_way() {
  if (raw_) return;
  const segment_header now = read_header();
  for (std::uint32_t n = 0; n < now.bulk_count; ++n) {
    again_.push_back({now.bulk[n].page * redo_page, now.bulk[n].pages * redo_page});
    under_way_.push_back(now.bulk[n]);
  }
}

bool copied_segment::was_bulk_under_way(std::uint64_t page) const {
  return std::ranges::any_of(under_way_, [&](const bulk_note& n) { return n.page <= page && page < n.page + n.pages; });
}

void copied_segment::copy_again(std::uint64_t offset, std::uint64_t length) {
  layout_.for_each_part(offset, length,
                        [&](const segment_layout::part& part, std::uint64_t) { copy(part.at, part.length, {}); });
  again_.push_back({offset, length});
  // It has a record now, and no other one can have begun while the log is held.
  std::erase_if(under_way_, [&](const bulk_note& n) {
    return n.page * redo_page < offset + length && offset < (n.page + n.pages) * redo_page;
  });
}

void copied_segment::open(const identity& log, const std::string& log_path, lsn tail) {
  if (!raw_) {
    header_ = read_header();  // the segment may have grown
    header_.sequence += 2;
    header_.applied_sequence = header_.sequence;
    header_.in_log = 1;
    header_.log_id = log;
    header_.applied = tail;
    header_.log_path_length = static_cast<std::uint32_t>(std::min(log_path.size(), header_.log_path.size()));
    header_.log_path = {};
    std::copy_n(log_path.data(), header_.log_path_length, header_.log_path.data());
    header_.checksum = header_checksum(header_, offsetof(segment_header, checksum));
    const std::uint64_t needed = layout_.file_length(header_.length);
    if (target_->size() < needed) target_->allocate(target_->size(), needed - target_->size());
    for (const std::uint64_t at : {0, 4096}) target_->write_at(at, std::as_bytes(std::span{&header_, 1}));
  }
  target_->sync();
  target_.reset();
  opened_ = std::make_unique<segment>(disk_, to_, logged_, os::access::read_write, raw_);
  if (raw_ || again_.empty()) return;
  os::cleared_vector<std::byte> buffer(1 << 20);
  for (const auto& [offset, length] : again_)
    for (std::uint64_t done = 0; done < length; done += buffer.size()) {
      const auto part =
          os::bytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done)));
      opened_->read(offset + done, part);
      opened_->write_pages((offset + done) / redo_page, part);
    }
  opened_->finish_writes();
}

segment_header copied_segment::read_header() {
  return repeated([&] { return read_segment_header(*source_); });
}

void copied_segment::copy(std::uint64_t at, std::uint64_t length, const std::function<void(std::uint64_t)>& on_copied) {
  os::cleared_vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(length, 1 << 20)));
  for (const std::uint64_t end = at + length; at < end;) {
    const auto part =
        os::bytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - at)));
    const std::size_t got = source_->read_at(at, part);
    if (got == 0) break;
    target_->write_at(at, part.first(got));
    target_->write_behind(at, got);
    at += got;
    if (on_copied) on_copied(got);
  }
}

void make_directories(os::disk& disk, const std::string& directory, const std::string& path) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
    disk.make_directory(directory + "/" + path.substr(0, at));
}

}  // namespace tenure::rvm
