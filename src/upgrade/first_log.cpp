// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "upgrade/first_log.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include <tenure/error.hpp>

#include "log/checksum.hpp"

namespace tenure::upgrading {

namespace {

constexpr std::uint64_t status_copies[2] = {0, 4096};
constexpr std::uint64_t ring_at = 8192;

// Why the status cannot be right; "" if nothing speaks against it.
std::string flaw_of(const first_status& s, std::uint64_t file_size) {
  if (s.magic != rvm::log_magic) return "it does not begin with the mark of a log";
  if (s.checksum != rvm::header_checksum(s, offsetof(first_status, checksum))) return "its checksum does not match";
  if (s.block_size < 512 || s.block_size > 4096 || !std::has_single_bit(s.block_size))
    return "its block size is senseless";
  if (s.ring_length < rvm::min_log_size || s.ring_length % s.block_size != 0 ||
      s.ring_length > (std::uint64_t{1} << 60))
    return "its size is senseless";
  if (file_size < ring_at + s.ring_length) return "the file is too short";
  if (s.head % s.block_size != 0 || s.tail % s.block_size != 0 || s.head == 0 || s.tail < s.head ||
      s.tail - s.head > s.ring_length || s.head > ~std::uint64_t{0} - 2 * s.ring_length)
    return "its head and tail are senseless";
  if (s.mark_count > s.marks.size()) return "it knows of too many segments";
  return "";
}

}  // namespace

first_log::first_log(os::disk& disk, std::string path)
    : path_(std::move(path)), file_(disk.open(path_, os::access::read_only)) {
  if (!file_->try_lock(os::lock_kind::shared))
    throw error(errc::in_use, path_ + ": " + file_->lock_holders("log") + " has this log open; close it there first");
  first_status copies[2];
  std::string flaws[2];
  bool any_magic = false;
  for (int n = 0; n < 2; ++n) {
    first_status& s = copies[n];
    std::memset(&s, 0, sizeof s);
    (void)file_->read_at(status_copies[n], std::as_writable_bytes(std::span{&s, 1}));
    if (s.magic != rvm::log_magic) {
      flaws[n] = flaw_of(s, file_->size());
      continue;
    }
    any_magic = true;
    if (s.endian == __builtin_bswap32(rvm::endian_mark))
      throw error(errc::wrong_version, path_ + ": this log was written on a machine of the other byte order");
    if (n == 0 && s.version == rvm::log_format_version)
      throw error(errc::wrong_version, path_ + ": is of format " + std::to_string(s.version) +
                                           " already; there is nothing to upgrade: open it as it is");
    flaws[n] = flaw_of(s, file_->size());
    if (flaws[n].empty() && s.version != 1)
      throw error(errc::wrong_version, path_ + ": is of format " + std::to_string(s.version) +
                                           ", and only format 1 can be upgraded; use a newer version of the library");
  }
  if (!any_magic) throw error(errc::not_a_log, path_ + ": not a log: neither copy of its status has the mark of one");
  if (!flaws[0].empty() && !flaws[1].empty())
    throw error(errc::damaged, path_ + ": both copies of the log's status are damaged: offset 0: " + flaws[0] +
                                   "; offset 4096: " + flaws[1] +
                                   "; restore log and segments from a backup, of one moment");
  const bool second = !flaws[0].empty() || (flaws[1].empty() && copies[1].sequence > copies[0].sequence);
  status_ = copies[second ? 1 : 0];
  if ((status_.incompatible & ~rvm::feature_bulk_runs) != 0)
    throw error(errc::wrong_version, path_ + ": the log uses features that this version of the library does not know");
}

rvm::manifest first_log::as_manifest() const {
  rvm::log_options how;
  how.size = status_.ring_length;
  how.max_size = status_.max_size;
  how.block_size = status_.block_size;
  how.permissions = status_.permissions != 0 ? status_.permissions & 0777U : 0600U;
  rvm::manifest m = rvm::new_manifest(how, status_.block_size);
  m.log_id = status_.log_id;
  m.generation = status_.generation;
  m.incompatible = status_.incompatible;
  m.clean = status_.clean;
  m.head = status_.head;
  m.tail = status_.tail;
  m.first = 0;
  m.created = status_.created;
  m.totals = status_.totals;
  return m;
}

std::string first_log::place(lsn at) const {
  return path_ + ", offset " + std::to_string(ring_at + at % status_.ring_length);
}

void first_log::read(lsn at, os::bytes into) const {
  while (!into.empty()) {
    const std::uint64_t in_ring = at % status_.ring_length;
    const auto part =
        into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), status_.ring_length - in_ring)));
    if (file_->read_at(ring_at + in_ring, part) != part.size())
      throw error(errc::damaged, place(at) +
                                     ": the log's file ends there; restore log and segments from a backup, of "
                                     "one moment");
    at += part.size();
    into = into.subspan(part.size());
  }
}

void first_log::read_ahead(lsn at, std::uint64_t length) const noexcept {
  const std::uint64_t in_ring = at % status_.ring_length;
  file_->read_ahead(ring_at + in_ring, std::min(length, status_.ring_length - in_ring));
}

}  // namespace tenure::upgrading
