// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/log_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "log/checksum.hpp"
#include "log/new_file.hpp"
#include "os/process.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t max_log_area = std::uint64_t{1} << 56;
constexpr lsn max_lsn = std::uint64_t{1} << 62;

std::string copy_name(int copy) { return "status block at offset " + std::to_string(copy * status_copy_size); }

// The reason why a status copy cannot be used; "" if it can.
std::string flaw(const status_block& s, std::uint64_t file_size) {
  if (s.checksum != header_checksum(s, offsetof(status_block, checksum))) return "its checksum does not match";
  if (s.block_size < 512 || s.block_size > 4096 || !std::has_single_bit(s.block_size))
    return "its block size is senseless";
  if (s.area_length < s.block_size || s.area_length % s.block_size != 0) return "its area length is senseless";
  if (s.area_length > file_size || file_size - s.area_length < log_area_offset)
    return "it describes " + std::to_string(s.area_length) + " bytes of area, but the file has only " +
           std::to_string(file_size) + " bytes";
  if (s.head % s.block_size != 0 || s.tail % s.block_size != 0 || s.tail < s.head || s.tail - s.head > s.area_length)
    return "its head and tail are senseless";
  // LSN 0 means "none"; no log reaches LSNs so large that sums could overflow
  if (s.head == 0 || s.tail > max_lsn) return "its head and tail are impossible";
  if (s.clean != 0 && s.head != s.tail) return "it says that the log was closed cleanly, but also that it is not empty";
  if (s.max_area < s.area_length || s.max_area % s.block_size != 0 || s.max_area > max_log_area)
    return "its limit of growth is senseless";
  if (s.mark_count > max_segment_marks) return "its list of segments is senseless";
  return "";
}

// Ends the message for a log that cannot be read.
std::string what_to_do(const std::string& path) {
  return "if this is the log's path, restore log and segments from a backup, of one moment; without one, `tenure log "
         "renew " +
         path + "` makes a new log, and says whether the segments have lost changes with the old one";
}

void write_copy(os::file& to, int copy, const status_block& status) {
  std::vector<std::byte> block(status_copy_size);
  std::memcpy(block.data(), &status, sizeof status);
  const os::const_bytes whole = block;
  to.write_durably_at(static_cast<std::uint64_t>(copy) * status_copy_size, {&whole, 1});
}

// Gives the status the next sequence number.
void seal(status_block& status) {
  ++status.sequence;
  status.written = os::wall_clock_ns();
  status.checksum = header_checksum(status, offsetof(status_block, checksum));
}

status_block fresh_status(const log_options& how, std::uint32_t storage_block_size) {
  status_block s{};
  s.magic = log_magic;
  s.version = format_version;
  s.endian = endian_mark;
  os::random_bytes(s.log_id);
  s.block_size = how.block_size != 0 ? how.block_size : storage_block_size;
  if (s.block_size < 512 || s.block_size > 4096 || !std::has_single_bit(s.block_size))
    throw error(errc::bad_option,
                "log block size " + std::to_string(s.block_size) + ": must be a power of two from 512 to 4096");
  if (how.size > max_log_area) throw error(errc::bad_option, "log size " + std::to_string(how.size) + ": too large");
  s.area_length = round_up(std::max(how.size, min_log_area), s.block_size);
  s.max_area = std::max(round_up(std::min(how.max_size, max_log_area), s.block_size), s.area_length);
  s.head = s.tail = s.area_length;  // not 0, so that 0 can mean "no LSN"
  s.clean = 1;
  s.created = s.written = os::wall_clock_ns();
  return s;
}

}  // namespace

template <class F>
std::unique_ptr<log_file> log_file::create(os::disk& disk, const std::string& path, unsigned permissions,
                                           existing_file old, const progress_callback& progress, F&& status_for) {
  new_file making(disk, path, permissions);
  os::file& file = making.file();
  status_block status = status_for(file);
  status.permissions = permissions;
  const std::uint64_t size = log_area_offset + status.area_length;
  file.allocate(0, size);
  // Zeros are written, not only allocated. A sync of a file with unwritten extents must also write metadata, which
  // costs 1.3 to 2.5 times as much.
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min<std::uint64_t>(size, 1 << 20)));
  for (std::uint64_t at = 0; at < size; at += zeros.size()) {
    file.write_at(
        at, os::const_bytes(zeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), size - at))));
    if (progress && at % (16 << 20) == 0) progress({"creating log", at, size});
  }
  file.sync();
  seal(status);
  for (const int copy : {0, 1}) write_copy(file, copy, status);
  if (old == existing_file::replace)
    making.replace();
  else
    making.publish();
  return std::unique_ptr<log_file>(new log_file(making.take(), path, status));
}

std::unique_ptr<log_file> log_file::create(os::disk& disk, const std::string& path, const log_options& how,
                                           const progress_callback& progress) {
  return create(disk, path, how.permissions, existing_file::refuse, progress,
                [&](const os::file& file) { return fresh_status(how, file.block_size()); });
}

std::unique_ptr<log_file> log_file::create(os::disk& disk, const std::string& path, const status_block& status) {
  return create(disk, path, status.permissions, existing_file::replace, {}, [&](const os::file&) { return status; });
}

std::unique_ptr<log_file> log_file::open(os::disk& disk, const std::string& path, os::access access) {
  const auto kind = access == os::access::read_only ? os::lock_kind::shared : os::lock_kind::exclusive;
  // A log that grows is replaced by a rename. The lock is valid only if the locked file still has the name.
  for (;;) {
    auto file = disk.open(path, access);
    if (!file->try_lock(kind))
      throw error(errc::in_use,
                  path + ": " + file->lock_holders("object") + " has this log open; close it there first");
    if (file->is_current()) return validate(std::move(file), path, access);
  }
}

std::unique_ptr<log_file> log_file::open_unlocked(os::disk& disk, const std::string& path) {
  return validate(disk.open(path, os::access::read_only), path, os::access::read_only);
}

std::unique_ptr<log_file> log_file::validate(std::unique_ptr<os::file> file, const std::string& path,
                                             os::access access) {
  if (file->size() < log_area_offset)
    throw error(errc::not_a_log, path + ": not a log: it has " + std::to_string(file->size()) +
                                     " bytes, a log has at least " + std::to_string(log_area_offset) + "; " +
                                     what_to_do(path));
  status_block copies[2];
  std::string flaws[2];
  bool any_magic = false;
  for (int i = 0; i < 2; ++i) {
    auto into = std::as_writable_bytes(std::span{&copies[i], 1});
    if (file->read_at(static_cast<std::uint64_t>(i) * status_copy_size, into) != into.size())
      throw error(errc::damaged, path + ": the file ended while its " + copy_name(i) + " was read");
    const status_block& s = copies[i];
    if (s.magic == log_magic) {
      any_magic = true;
      // Checked before the checksum, because another version may compute the checksum in another way.
      if (s.endian != endian_mark && s.endian == __builtin_bswap32(endian_mark))
        throw error(errc::wrong_version,
                    path + ": this log was written on a machine of the other byte order; recover it there");
      if (s.version != format_version && s.checksum == header_checksum(s, offsetof(status_block, checksum)))
        throw error(errc::wrong_version, path + ": log format version " + std::to_string(s.version) +
                                             ", this library has " + std::to_string(format_version) +
                                             "; recover it with the version of the library that wrote it");
    }
    flaws[i] = s.magic != log_magic ? "it does not begin with the mark of a log" : flaw(s, file->size());
  }
  if (!any_magic)
    throw error(errc::not_a_log, path + ": not a log: neither status block has the mark of one; " + what_to_do(path));
  if (!flaws[0].empty() && !flaws[1].empty())
    throw error(errc::damaged, path + ": both status blocks are damaged: " + copy_name(0) + ": " + flaws[0] + "; " +
                                   copy_name(1) + ": " + flaws[1] + "; " + what_to_do(path));
  const bool second = flaws[0].empty() ? flaws[1].empty() && copies[1].sequence > copies[0].sequence : true;
  const status_block& used = copies[second ? 1 : 0];
  if ((used.incompatible & ~(feature_bulk_runs | feature_changes)) != 0 ||
      (access == os::access::read_write && used.read_only_compatible != 0))
    throw error(errc::wrong_version,
                path + ": the log uses features that this version of the library does not know; use a newer one");
  std::unique_ptr<log_file> log(new log_file(std::move(file), path, used));
  for (int i = 0; i < 2; ++i) log->copy_valid_[i] = flaws[i].empty();
  log->held_ = second ? 1 : 0;
  // If a write has failed, this copy may be in the page cache only. Then the other copy is valid and durable. If the
  // other copy is torn, this one is the only valid copy and must not be overwritten.
  log->held_is_durable_ = !flaws[0].empty() || !flaws[1].empty();
  return log;
}

void log_file::read(lsn at, os::bytes into) const {
  while (!into.empty()) {
    const std::uint64_t position = at % area_;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), area_ - position));
    if (file_->read_at(log_area_offset + position, into.first(part)) != part)
      throw error(errc::damaged, path() + ": the log's file ends inside its area, at offset " +
                                     std::to_string(log_area_offset + position) + "; restore the log from a backup");
    at += part;
    into = into.subspan(part);
  }
}

void log_file::read_ahead(lsn at, std::uint64_t length) const noexcept {
  while (length != 0) {
    const std::uint64_t position = at % area_, part = std::min(length, area_ - position);
    file_->read_ahead(log_area_offset + position, part);
    at += part;
    length -= part;
  }
}

void log_file::write_durably(lsn at, std::span<const os::const_bytes> from) {
  const std::uint64_t position = at % area_;
  std::uint64_t room = area_ - position;
  std::uint64_t length = 0;
  for (const auto& part : from) length += part.size();
  if (length <= room) return file_->write_durably_at(log_area_offset + position, from);
  std::vector<os::const_bytes> before, after;
  for (auto part : from) {
    const auto fits = static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), room));
    if (fits != 0) before.push_back(part.first(fits));
    if (fits != part.size()) after.push_back(part.subspan(fits));
    room -= fits;
  }
  // The two pieces belong to one batch, so neither is acknowledged before both are durable.
  file_->write_all_at(log_area_offset + position, before);
  file_->write_all_at(log_area_offset, after);
  file_->sync();
}

void log_file::make_durable(lsn from, lsn to) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(to - from, 1 << 20)));
  while (from < to) {
    const auto part =
        os::bytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), to - from)));
    read(from, part);
    const os::const_bytes whole = part;
    write_durably(from, {&whole, 1});
    from += part.size();
  }
}

void log_file::write_status(const status_block& status) {
  status_block next = status;
  next.sequence = written_.sequence;
  seal(next);
  // After a failed sync, the blocks that were found at opening may be in the page cache only.
  if (!held_is_durable_) write_copy(*file_, held_, written_);
  held_is_durable_ = true;
  const int held = held_;
  write_copy(*file_, 1 - held, next);
  held_ = 1 - held;
  write_copy(*file_, held, next);
  status_ = written_ = next;
}

}  // namespace tenure::rvm
