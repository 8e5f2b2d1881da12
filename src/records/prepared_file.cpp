// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/prepared_file.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>
#include <utility>

#include <tenure/error.hpp>

#include "log/checksum.hpp"
#include "log/padded_parts.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

namespace {

std::string path_of(const std::string& log_path) { return log_path + ".prepared"; }

std::uint32_t checksum_of(std::vector<std::byte>& file) {
  constexpr std::size_t at = offsetof(prepared_header, checksum);
  std::uint32_t stored;
  std::memcpy(&stored, &file[at], sizeof stored);
  std::memset(&file[at], 0, sizeof stored);
  const std::uint32_t computed = crc32c(file);
  std::memcpy(&file[at], &stored, sizeof stored);
  return computed;
}

// And computes the checksum.
template <class F>
void change_header(std::vector<std::byte>& file, F&& change) {
  prepared_header h;
  std::memcpy(&h, file.data(), sizeof h);
  change(h);
  std::memcpy(file.data(), &h, sizeof h);
  h.checksum = checksum_of(file);
  std::memcpy(file.data(), &h, sizeof h);
}

// The checksum holds. False: it makes no sense all the same.
bool decode(const prepared_header& h, prepared_contents& into) {
  part_taker from(os::const_bytes(into.file).subspan(sizeof h));
  into.what.time = h.time;
  into.what.ranges = h.ranges;
  if (!from.take_text(h.global_id, into.what.global_id) || !from.take_text(h.label, into.what.label)) return false;
  for (std::uint32_t n = 0; n < h.segments; ++n) {
    prepared_segment s;
    prepared_contents::segment& made = into.segments.emplace_back();
    if (!from.take(s) || s.raw > 1 || !from.take_text(s.path, made.path) || made.path.empty()) return false;
    made.id = s.id;
    made.raw = s.raw != 0;
  }
  for (std::uint64_t n = 0; n < h.ranges; ++n) {
    prepared_range r;
    if (!from.take(r) || r.segment >= h.segments || r.length == 0) return false;
    const auto bytes = from.take_bytes(r.length);
    if (!bytes) return false;
    into.ranges.push_back({r.segment, r.offset, *bytes});
    into.what.bytes += r.length;
  }
  return from.is_at_end();
}

}  // namespace

prepared_file::prepared_file(os::disk& disk, const readable_log& log, unsigned permissions)
    : disk_(disk), log_(log), path_(path_of(log.path())), permissions_(permissions) {}

std::vector<std::byte> prepared_file::encode(const commit_image& of, std::string_view global_id) const {
  if (global_id.empty() || global_id.size() > longest_global_id ||
      std::ranges::any_of(global_id, [](char c) { return c < ' ' || c == 127; }))
    throw error(errc::bad_option, "the global id of a prepared transaction has " + std::to_string(global_id.size()) +
                                      " bytes, or one that cannot be printed; give 1 to " +
                                      std::to_string(longest_global_id) + " printable ones");
  std::vector<const segment*> segments;
  std::size_t length = sizeof(prepared_header) + global_id.size() + of.label.size() + 16;
  for (const new_value& v : of.values) {
    if (std::ranges::find(segments, v.in) == segments.end()) segments.push_back(v.in);
    length += sizeof(prepared_range) + static_cast<std::size_t>(round_up(v.length, 8));
  }
  for (const segment* s : segments) length += sizeof(prepared_segment) + s->logged_path().size() + 8;
  std::vector<std::byte> bytes;
  bytes.reserve(length);
  prepared_header h{};
  h.magic = prepared_magic;
  h.version = prepared_version;
  h.endian = endian_mark;
  h.log_id = log_.id();
  h.time = of.time;
  h.ranges = of.values.size();
  h.segments = static_cast<std::uint32_t>(segments.size());
  h.global_id = static_cast<std::uint32_t>(global_id.size());
  h.label = static_cast<std::uint32_t>(of.label.size());
  put(bytes, h);
  put_text(bytes, global_id);
  put_text(bytes, of.label);
  for (const segment* s : segments) {
    put(bytes, prepared_segment{s->id(), s->is_raw() ? 1U : 0U, static_cast<std::uint32_t>(s->logged_path().size())});
    put_text(bytes, s->logged_path());
  }
  for (const new_value& v : of.values) {
    const auto number = static_cast<std::uint32_t>(std::ranges::find(segments, v.in) - segments.begin());
    put(bytes, prepared_range{number, 0, v.offset, v.length});
    put_bytes(bytes, {v.from, static_cast<std::size_t>(v.length)});
  }
  assert(bytes.size() <= length);
  return bytes;
}

void prepared_file::write(std::vector<std::byte> bytes, lsn tail) {
  change_header(bytes, [&](prepared_header& h) {
    h.tail = tail;
    h.length = bytes.size();
  });
  try {
    if (bytes.size() > ready_) {
      make_ready(bytes);
    } else {
      const os::const_bytes all = bytes;
      file_->write_durably_at(0, {&all, 1});
    }
  } catch (...) {
    ready_ = 0;
    file_.reset();
    throw;
  }
}

void prepared_file::make_ready(std::vector<std::byte>& bytes) {
  const bool is_new = file_ == nullptr && !disk_.exists(path_);
  if (file_ == nullptr) file_ = is_new ? disk_.create(path_, permissions_) : disk_.open(path_, os::access::read_write);
  bytes.resize(round_up(bytes.size(), 4096));
  file_->write_at(0, bytes);
  file_->sync();
  if (is_new) disk_.sync_directory_of(path_);
  ready_ = bytes.size();
}

void prepared_file::copy(const prepared_contents& found, const std::string& log_path, const identity& log_id) const {
  std::vector<std::byte> bytes = found.file;
  change_header(bytes, [&](prepared_header& h) { h.log_id = log_id; });
  const std::string path = path_of(log_path);
  const auto file = disk_.create(path, permissions_);
  file->write_at(0, bytes);
  file->sync();
  disk_.sync_directory_of(path);
}

void prepared_file::remove() {
  ready_ = 0;
  file_.reset();
  if (!disk_.exists(path_)) return;
  disk_.remove(path_);
  disk_.sync_directory_of(path_);
}

std::optional<prepared_contents> prepared_file::read(lsn tail) const {
  if (!disk_.exists(path_)) return std::nullopt;
  const auto file = disk_.open(path_, os::access::read_only);
  prepared_header h{};
  if (file->read_at(0, std::as_writable_bytes(std::span{&h, 1})) != sizeof h || h.magic != prepared_magic ||
      h.length < sizeof h || h.length > file->size())
    return std::nullopt;
  prepared_contents found;
  found.file.resize(static_cast<std::size_t>(h.length));
  if (file->read_at(0, found.file) != found.file.size() || checksum_of(found.file) != h.checksum) return std::nullopt;
  if (h.version != prepared_version || h.endian != endian_mark || h.incompatible != 0)
    throw error(errc::wrong_version, path_ + ": is of a prepared transaction in version " + std::to_string(h.version) +
                                         ", or of a machine of another kind; this library has version " +
                                         std::to_string(prepared_version));
  if (h.log_id != log_.id())
    throw error(errc::wrong_log, path_ + ": is of a transaction that was prepared under another log than " +
                                     log_.path() + ": put the file back to its own log, or remove it");
  if (h.tail < tail) return std::nullopt;
  if (h.tail > tail)
    throw error(errc::wrong_log, path_ + ": is of a transaction that was prepared when the log ended at LSN " +
                                     std::to_string(h.tail) + ", but " + log_.path() + " ends at " +
                                     std::to_string(tail) +
                                     ": the log is an older one; put the right one back, or restore from a backup");
  if (!decode(h, found)) throw error(errc::damaged, path_ + ": its contents make no sense; restore it from a backup");
  return found;
}

}  // namespace tenure::rvm
