// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/log_file.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <vector>

#include "log/checksum.hpp"

namespace tenure::rvm {

namespace {

constexpr std::size_t covered = offsetof(log_file_header, checksum);

log_file_header read_copy(os::file& file, int copy) {
  log_file_header h{};
  (void)file.read_at(static_cast<std::uint64_t>(copy) * log_file_copy_size, std::as_writable_bytes(std::span{&h, 1}));
  return h;
}

bool is_valid(const log_file_header& h) {
  return h.magic == log_file_magic && h.checksum == header_checksum(h, covered);
}

void write_copy(os::file& file, int copy, const log_file_header& header) {
  std::array<std::byte, log_file_copy_size> block{};
  std::memcpy(block.data(), &header, sizeof header);
  const os::const_bytes whole = block;
  file.write_durably_at(static_cast<std::uint64_t>(copy) * log_file_copy_size, {&whole, 1});
}

// Whether no group is at the file's beginning.
bool begins_with_zeros(os::file& file) {
  std::vector<std::byte> first(512);
  first.resize(file.read_at(log_file_data, first));
  return std::ranges::all_of(first, [](std::byte b) { return b == std::byte{}; });
}

// The reason why the header, whose checksum is right, cannot be that of the file that the manifest means; "" if it can.
std::string flaw_of(const log_file_header& h, const manifest_header& log, const log_file_entry& listed) {
  if (h.length != listed.length)
    return "its header says that it has " + std::to_string(h.length) + " bytes of the log, and the manifest " +
           std::to_string(listed.length);
  if (h.block_size != log.block_size)
    return "its header has a block size of " + std::to_string(h.block_size) + ", and the log one of " +
           std::to_string(log.block_size);
  if (h.base == 0 || h.base % h.block_size != 0 || h.base > max_lsn)
    return "its header says that it begins at LSN " + std::to_string(h.base) + ", which is senseless";
  if (h.sequence > max_sequence)
    return "its header has the sequence number " + std::to_string(h.sequence) + ", which is senseless";
  return "";
}

log_file_entry entry_of(const os::file& file, const log_file_header& header) {
  const os::file_id id = file.id();
  return {header.number, 0, header.length, id.device, id.inode};
}

}  // namespace

std::string log_file_path(os::disk& disk, const std::string& log_path, std::uint32_t number) {
  return disk.behind_links(log_path) + "." + std::to_string(number);
}

log_file::unfinished::unfinished(os::disk& disk, const std::string& path, log_file_header header, unsigned permissions,
                                 const progress_callback& progress)
    : making_(disk, path, permissions), header_(header) {
  os::file& file = making_.file();
  header_.magic = log_file_magic;
  header_.version = log_format_version;
  header_.endian = endian_mark;
  header_.checksum = header_checksum(header_, covered);
  const std::uint64_t size = log_file_data + header_.length;
  file.allocate(0, size);
  // Zeros are written, not only allocated. A sync of a file with unwritten extents must also write metadata, which
  // costs 1.3 to 2.5 times as much.
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min<std::uint64_t>(size, 1 << 20)));
  for (const std::size_t copy : {0, 1}) std::memcpy(bytes.data() + copy * log_file_copy_size, &header_, sizeof header_);
  for (std::uint64_t at = 0; at < size; at += bytes.size()) {
    file.write_at(
        at, os::const_bytes(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), size - at))));
    if (at == 0) std::ranges::fill(bytes, std::byte{});
    if (progress && at % (16 << 20) == 0) progress({"creating log", at, size});
  }
}

std::unique_ptr<log_file> log_file::unfinished::finish() {
  making_.file().sync();
  making_.replace();
  return std::unique_ptr<log_file>(new log_file(making_.take(), header_));
}

log_file_entry log_file::unfinished::entry() const { return entry_of(making_.file(), header_); }

std::unique_ptr<log_file> log_file::create(os::disk& disk, const std::string& path, log_file_header header,
                                           unsigned permissions, const progress_callback& progress) {
  return unfinished(disk, path, header, permissions, progress).finish();
}

std::unique_ptr<log_file> log_file::open(os::disk& disk, const std::string& path, os::access access,
                                         const manifest_header& log, const log_file_entry& listed) {
  auto file = disk.open(path, access);
  const log_file_header copies[2] = {read_copy(*file, 0), read_copy(*file, 1)};
  const bool valid[2] = {is_valid(copies[0]), is_valid(copies[1])};
  if (!valid[0] && !valid[1])
    throw error(errc::damaged, path +
                                   ": not a file of a log, or both copies of its header (offsets 0 and 4096) are "
                                   "damaged; restore log and segments from a backup, of one moment");
  const int held = !valid[0] || (valid[1] && copies[1].sequence > copies[0].sequence) ? 1 : 0;
  const log_file_header& h = copies[held];
  if (h.version != log_format_version)
    throw error(errc::wrong_version, path + ": log format version " + std::to_string(h.version) +
                                         ", this library has " + std::to_string(log_format_version));
  if (h.log_id != log.log_id || h.number != listed.number)
    throw error(errc::wrong_log, path +
                                     ": is a file of another log, or another file of this one; put the right one "
                                     "back, or restore log and segments from a backup, of one moment");
  if (const std::string flaw = flaw_of(h, log, listed); !flaw.empty())
    throw error(errc::damaged,
                path + ": is damaged: " + flaw + "; restore log and segments from a backup, of one moment");
  if (file->size() < log_file_data + h.length)
    throw error(errc::damaged, path + ": this file of the log should have " +
                                   std::to_string(log_file_data + listed.length) + " bytes, but has " +
                                   std::to_string(file->size()) +
                                   "; restore log and segments from a backup, of one moment");
  std::unique_ptr<log_file> opened(new log_file(std::move(file), h));
  opened->held_ = held;
  opened->copies_differ_ = !valid[1 - held] || copies[1 - held].sequence != h.sequence;
  return opened;
}

// First the copy that holds: until it is durable, the other one may be the only one that is.
void log_file::make_header_durable() {
  if (!copies_differ_) return;
  for (const int copy : {held_, 1 - held_}) write_copy(*file_, copy, header_);
  copies_differ_ = false;
}

log_file_entry log_file::entry() const { return entry_of(*file_, header_); }

void log_file::rebase(lsn base, std::uint64_t sequence) {
  assert(base % header_.block_size == 0 && sequence > header_.sequence);
  log_file_header next = header_;
  next.base = base;
  next.sequence = sequence;
  next.checksum = header_checksum(next, covered);
  header_.sequence = sequence;  // if only one copy is written, what comes instead of this file is newer
  for (const int copy : {0, 1}) write_copy(*file_, copy, next);
  header_ = next;
}

void log_file::read(lsn at, os::bytes into) const {
  assert(at >= base() && at + into.size() <= end());
  if (file_->read_at(offset_of(at), into) != into.size())
    throw error(errc::damaged, path() + ": the log's file ends at offset " + std::to_string(file_->size()) +
                                   ", inside its bytes of the log; restore log and segments from a backup, of one "
                                   "moment");
}

void log_file::read_ahead(lsn at, std::uint64_t length) const noexcept { file_->read_ahead(offset_of(at), length); }

bool is_left_over_log_file(os::disk& disk, const std::string& path, const identity& log_id) {
  const auto file = disk.open(path, os::access::read_only);
  bool any = false;
  for (const int copy : {0, 1}) {
    const log_file_header h = read_copy(*file, copy);
    if (!is_valid(h)) continue;
    if (h.log_id == log_id) return true;
    any = true;
  }
  return any && begins_with_zeros(*file);
}

bool is_unused_log_file(os::disk& disk, const std::string& path, const identity& log_id) {
  if (!disk.exists(path)) return false;
  const auto file = disk.open(path, os::access::read_only);
  for (const int copy : {0, 1}) {
    const log_file_header h = read_copy(*file, copy);
    if (!is_valid(h) || h.log_id != log_id || h.sequence != 1) return false;
  }
  return begins_with_zeros(*file);
}

}  // namespace tenure::rvm
