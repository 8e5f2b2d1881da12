// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rvm/segment.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "os/process.hpp"
#include "rvm/checksum.hpp"
#include "rvm/new_file.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t header_copies[2] = {0, 4096};
constexpr std::uint64_t checksums_per_block = 4096 / sizeof(std::uint32_t);

std::uint32_t zeros_checksum() {
  static const std::uint32_t value = crc32c(std::array<std::byte, redo_page>{});
  return value;
}
// What the table holds for a page [rvm.segment.checksum].
std::uint32_t stored_checksum(os::const_bytes page) { return crc32c(page) ^ zeros_checksum(); }

std::string hex(const identity& id) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : id) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

// Reads the header copies and returns the one that holds; throws if there is none.
segment_header read_header(os::file& file, const std::string& path) {
  segment_header copies[2];
  bool valid[2], any_magic = false;
  for (int i = 0; i < 2; ++i) {
    auto into = std::as_writable_bytes(std::span{&copies[i], 1});
    const auto got = file.read_at(header_copies[i], into);
    if (got != into.size()) copies[i].magic = 0;
    const segment_header& h = copies[i];
    any_magic = any_magic || h.magic == segment_magic;
    valid[i] = h.magic == segment_magic && h.checksum == header_checksum(h, offsetof(segment_header, checksum));
    if (h.magic == segment_magic && h.endian == __builtin_bswap32(endian_mark))
      throw error(errc::wrong_version, path + ": this segment was written on a machine of the other byte order");
    if (valid[i] && h.version != format_version)
      throw error(errc::wrong_version, path + ": segment format version " + std::to_string(h.version) +
                                           ", this library has " + std::to_string(format_version));
  }
  if (!any_magic)
    throw error(errc::not_a_segment,
                path + ": no segment of this library: it has no header; to map a file as it is, ask for raw");
  if (!valid[0] && !valid[1])
    throw error(errc::damaged, path +
                                   ": both copies of the segment's header (offsets 0 and 4096) are damaged; restore "
                                   "the segment from a backup");
  const segment_header& used = copies[!valid[0] || (valid[1] && copies[1].sequence > copies[0].sequence) ? 1 : 0];
  if (used.incompatible != 0 || used.read_only_compatible != 0)
    throw error(errc::wrong_version,
                path + ": the segment uses features that this version of the library does not know");
  if (used.data_offset % segment_alignment != 0 || used.length % redo_page != 0 || used.length > used.max_length ||
      used.max_length > (std::uint64_t{1} << 60) || used.data_offset > (std::uint64_t{1} << 60) ||
      used.data_offset < segment_checksums_offset + used.max_length / redo_page * 4)
    throw error(errc::damaged, path + ": the segment's header makes no sense, though its checksum holds");
  return used;
}

}  // namespace

segment_header read_segment_header(os::disk& disk, const std::string& path) {
  return read_header(*disk.open(path, os::access::read_only), path);
}

void segment::create(os::disk& disk, const std::string& path, const segment_options& how) {
  const std::uint64_t page = std::max<std::uint64_t>(os::page_size(), redo_page);
  if (how.length == 0 || std::max(how.length, how.max_length) > (std::uint64_t{1} << 50))
    throw error(errc::bad_option, path + ": segment length " + std::to_string(how.length) + ": must be from 1 to 2^50");
  segment_header h{};
  h.magic = segment_magic;
  h.version = format_version;
  h.endian = endian_mark;
  os::random_bytes(h.segment_id);
  h.sequence = 1;
  h.length = round_up(how.length, page);
  h.max_length = std::max(round_up(how.max_length, page), h.length);
  h.data_offset =
      round_up(segment_checksums_offset + h.max_length / redo_page * sizeof(std::uint32_t), segment_alignment);
  h.checksum = header_checksum(h, offsetof(segment_header, checksum));
  if (disk.exists(path))
    throw error(std::make_error_code(std::errc::file_exists),
                path + ": there is a file already; remove it or choose another name");
  new_file making(disk, path, how.permissions);
  os::file& file = making.file();
  file.allocate(0, segment_checksums_offset + round_up(h.length / redo_page * sizeof(std::uint32_t), checksum_block));
  file.allocate(h.data_offset, h.length);
  for (const auto at : header_copies) file.write_at(at, std::as_bytes(std::span{&h, 1}));
  file.sync();
  making.publish();
}

segment::segment(os::disk& disk, const std::string& path, std::string logged_path, os::access access, bool raw)
    : disk_(disk),
      path_(path),
      logged_path_(std::move(logged_path)),
      raw_(raw),
      file_(disk.open(path, access)),
      header_([&] {
        // The lock first: its holder may be changing the header.
        if (!file_->try_lock(access == os::access::read_only ? os::lock_kind::shared : os::lock_kind::exclusive))
          throw error(
              errc::in_use,
              path_ +
                  ": another process, or another memory of this one, has this segment mapped; unmap it there first");
        if (!raw) return read_header(*file_, path_);
        segment_header h{};
        h.length = h.max_length = round_down(file_->size(), redo_page);
        return h;
      }()),
      pages_(header_.length) {
  if (!raw_ && file_->size() < header_.data_offset + header_.length)
    throw error(errc::segment_too_short, path_ + ": the segment should have " +
                                             std::to_string(header_.data_offset + header_.length) +
                                             " bytes but the file has " + std::to_string(file_->size()) +
                                             "; it was cut off: restore it from a backup");
}

void segment::require_log(const identity& log) const {
  if (header_.in_log == 0 || header_.log_id == log) return;
  const auto length = std::min<std::size_t>(header_.log_path_length, header_.log_path.size());
  throw error(
      errc::wrong_log,
      path_ + ": changes to this segment are waiting in another log, " + std::string(header_.log_path.data(), length) +
          " (" + hex(header_.log_id) +
          "); open that log, map this segment once, and close it; or, if that log is lost, map it with take_over");
}

void segment::note_in_log(const identity& log, const std::string& log_path) {
  if (raw_) return;
  // Who made the file may have been killed, or have failed, before its name was durable.
  disk_.sync_directory_of(path_);
  header_.in_log = 1;
  header_.log_id = log;
  header_.log_path_length = static_cast<std::uint32_t>(std::min(log_path.size(), header_.log_path.size()));
  std::memcpy(header_.log_path.data(), log_path.data(), header_.log_path_length);
  // Both copies: recovery depends on this, and either may be damaged meanwhile.
  write_header(*file_);
  write_header(*file_);
  noted_ = true;
}

void segment::note_not_in_log() {
  if (raw_ || header_.in_log == 0) return;
  noted_ = false;
  header_.in_log = 0;
  write_header(*file_);
}

void segment::write_header(os::file& to) {
  ++header_.sequence;
  header_.checksum = header_checksum(header_, offsetof(segment_header, checksum));
  const os::const_bytes whole = std::as_bytes(std::span{&header_, 1});
  // One copy a time, alternating: the other one stays whole.
  to.write_durably_at(header_copies[header_.sequence % 2], {&whole, 1});
}

void segment::read(std::uint64_t offset, os::bytes into) {
  if (offset > header_.length || into.size() > header_.length - offset ||
      file_->read_at(header_.data_offset + offset, into) != into.size())
    throw error(errc::segment_too_short, path_ + ": needs bytes up to " + std::to_string(offset + into.size()) +
                                             " but the segment has " + std::to_string(header_.length) +
                                             "; it is not the file that the log was written for, or was cut off");
}

void segment::read_checksums(std::uint64_t at, std::span<std::uint32_t> into) {
  // The data lies behind the table: the file cannot end here.
  const auto bytes = std::as_writable_bytes(into);
  if (file_->read_at(segment_checksums_offset + at, bytes) != bytes.size())
    throw error(errc::segment_too_short, path_ + ": the segment's file ends inside its table of checksums, at offset " +
                                             std::to_string(segment_checksums_offset + at) +
                                             "; it was cut off: restore it from a backup");
}

void segment::write_pages(std::uint64_t page, os::const_bytes from) {
  assert(from.size() % redo_page == 0 && page * redo_page + from.size() <= header_.length);
  const std::uint64_t at = header_.data_offset + page * redo_page;
  file_->write_at(at, from);
  // The disk works while the next pages are put together. Not for single pages: the sync writes them in a better order.
  constexpr std::size_t worth_it = 256 << 10;
  if (from.size() >= worth_it) file_->write_behind(at, from.size());
  if (raw_) return;
  for (; !from.empty(); from = from.subspan(redo_page), ++page) {
    auto& block = checksums_[page / checksums_per_block];
    if (block.empty()) {
      // Kept only when read whole: otherwise the neighbours' checksums would be lost.
      std::vector<std::uint32_t> stored(checksums_per_block);
      read_checksums(page / checksums_per_block * checksum_block, stored);
      block = std::move(stored);
    }
    block[page % checksums_per_block] = stored_checksum(from.first(redo_page));
  }
}

void segment::finish_writes() {
  for (const auto& [at, block] : checksums_)
    file_->write_at(segment_checksums_offset + at * checksum_block, std::as_bytes(std::span(block)));
  try {
    file_->sync();
  } catch (const error& e) {
    throw error(
        errc::outcome_unknown,
        path_ +
            ": the segment could not be synced; the log still has its changes: close this memory and open it again: " +
            e.what());
  }
  checksums_.clear();
}

std::vector<std::uint64_t> segment::verify(const progress_callback& progress) {
  std::vector<std::uint64_t> bad;
  if (raw_) return bad;
  std::vector<std::byte> data(
      static_cast<std::size_t>(std::min<std::uint64_t>(checksums_per_block * redo_page, header_.length)));
  std::vector<std::uint32_t> expected(checksums_per_block);
  for (std::uint64_t at = 0; at < header_.length; at += data.size()) {
    if (progress) progress({"verifying", at, header_.length});
    const auto part =
        os::bytes(data).first(static_cast<std::size_t>(std::min<std::uint64_t>(data.size(), header_.length - at)));
    read(at, part);
    std::ranges::fill(expected, 0);
    read_checksums(at / redo_page * sizeof(std::uint32_t), expected);
    for (std::size_t page = 0; page * redo_page < part.size(); ++page)
      if (stored_checksum(part.subspan(page * redo_page, redo_page)) != expected[page])
        bad.push_back(at + page * redo_page);
  }
  return bad;
}

}  // namespace tenure::rvm
