// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "segments/segment.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "log/checksum.hpp"
#include "os/cleared_memory.hpp"
#include "os/process.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t header_copies[2] = {0, 4096};
constexpr std::uint64_t checksums_per_block = segment_layout::checksums_per_block;

std::uint32_t zeros_checksum() {
  static const std::uint32_t value = crc32c(std::array<std::byte, redo_page>{});
  return value;
}

std::string hex(const identity& id) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : id) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

bool makes_sense(const segment_header& h) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 60;
  if (h.length % redo_page != 0 || h.length > h.max_length || h.max_length > largest) return false;
  if (h.first_piece != 0 &&
      (!std::has_single_bit(h.first_piece) || h.first_piece < segment_alignment || h.first_piece > largest))
    return false;
  if (h.data_offset != segment_layout::data_offset_for(h.max_length, h.first_piece)) return false;
  return std::all_of(h.bulk.begin(), h.bulk.begin() + std::min<std::size_t>(h.bulk_count, max_bulk_notes),
                     [&](const bulk_note& note) {
                       const std::uint64_t pages = h.length / redo_page;
                       return note.page <= pages && note.pages <= pages - note.page;
                     }) &&
         h.bulk_count <= max_bulk_notes;
}

struct found_header {
  segment_header header;
  int copy;
  bool other_is_valid;
  std::uint64_t durable_length;  // of the other copy, if that is valid
};

// Reads the header copies and returns the one that holds. Throws if both are bad.
found_header read_header(os::file& file, const std::string& path) {
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
    if (valid[i] && h.version != segment_format_version && h.version != 1)
      throw error(errc::wrong_version, path + ": segment format version " + std::to_string(h.version) +
                                           ", this library has " + std::to_string(segment_format_version));
  }
  if (!any_magic)
    throw error(errc::not_a_segment,
                path + ": no segment of this library: it has no header; to map a file as it is, ask for raw");
  if (!valid[0] && !valid[1])
    throw error(errc::damaged, path +
                                   ": both copies of the segment's header (offsets 0 and 4096) are damaged; restore "
                                   "the segment from a backup");
  for (int i = 0; i < 2; ++i)
    if (valid[i] && !makes_sense(copies[i]))
      throw error(errc::damaged, path + ": the segment's header makes no sense, though its checksum holds");
  int held = !valid[0] || (valid[1] && copies[1].sequence > copies[0].sequence) ? 1 : 0;
  // A crash in grow() may leave the header that names the new space, but not the space. Nothing was ever in it.
  const auto fits = [&](const segment_header& h) { return segment_layout(h).file_length(h.length) <= file.size(); };
  if (const int other = 1 - held;
      valid[0] && valid[1] && copies[other].length < copies[held].length && !fits(copies[held]) && fits(copies[other]))
    held = other;
  segment_header& used = copies[held];
  // The other copy may have been newer, and `applied` is written to one copy only.
  if (!valid[0] || !valid[1]) used.applied = 0;
  if (used.incompatible != 0 || used.read_only_compatible != 0)
    throw error(errc::wrong_version,
                path + ": the segment uses features that this version of the library does not know");
  return {used, held, valid[1 - held], valid[1 - held] ? std::min(copies[1 - held].length, used.length) : used.length};
}

// Writes the file of a segment that has this header, and no data but zeros.
std::unique_ptr<new_file> write_file(os::disk& disk, const std::string& path, segment_header h, unsigned permissions) {
  h.checksum = header_checksum(h, offsetof(segment_header, checksum));
  if (disk.exists(path))
    throw error(std::make_error_code(std::errc::file_exists),
                path + ": there is a file already; remove it or choose another name");
  auto making = std::make_unique<new_file>(disk, path, permissions);
  os::file& file = making->file();
  file.allocate(0, segment_checksums_offset);
  segment_layout(h).for_each_new_part(0, h.length,
                                      [&](std::uint64_t at, std::uint64_t length) { file.allocate(at, length); });
  for (const auto at : header_copies) file.write_at(at, std::as_bytes(std::span{&h, 1}));
  return making;
}

void create_file(os::disk& disk, const std::string& path, const segment_header& h, unsigned permissions,
                 const std::string& owner_like = {}) {
  const auto making = write_file(disk, path, h, permissions);
  if (!owner_like.empty()) disk.take_owner_of(making->file().path(), owner_like);
  making->file().sync();
  making->publish();
}

segment_header new_header(const std::string& path, const segment_options& how) {
  const std::uint64_t page = std::max<std::uint64_t>(os::page_size(), redo_page);
  if (how.length == 0 || std::max(how.length, how.max_length) > (std::uint64_t{1} << 50))
    throw error(errc::bad_option, path + ": segment length " + std::to_string(how.length) + ": must be from 1 to 2^50");
  segment_header h{};
  h.magic = segment_magic;
  h.version = segment_format_version;
  h.endian = endian_mark;
  os::random_bytes(h.segment_id);
  h.sequence = 1;
  h.length = round_up(how.length, page);
  h.max_length = std::max(round_up(how.max_length, page), h.length);
  h.home = how.home;
  h.tag = how.tag;
  h.is_member = how.member ? 1 : 0;
  h.first_piece = segment_layout::first_piece_for(h.length, h.max_length);
  h.data_offset = segment_layout::data_offset_for(h.max_length, h.first_piece);
  return h;
}

void note_log(segment_header& h, const identity& log, const std::string& log_path, lsn tail) {
  if (h.log_id != log) {
    h.was_blank = h.log_id == identity{} && h.since == 0 ? 1 : 0;
    h.since = tail;
  }
  h.in_log = 1;
  h.log_id = log;
  h.log_path_length = static_cast<std::uint32_t>(std::min(log_path.size(), h.log_path.size()));
  std::memcpy(h.log_path.data(), log_path.data(), h.log_path_length);
}

}  // namespace

// [rvm.segment.checksum]
std::uint32_t stored_checksum(os::const_bytes page) { return crc32c(page) ^ zeros_checksum(); }

segment_header read_segment_header(os::disk& disk, const std::string& path) {
  return read_segment_header(*disk.open(path, os::access::read_only));
}
segment_header read_segment_header(os::file& file) { return read_header(file, file.path()).header; }

void segment::create(os::disk& disk, const std::string& path, const segment_options& how,
                     const std::string& owner_like) {
  create_file(disk, path, new_header(path, how), how.permissions, owner_like);
}

std::string segment::begin(os::disk& disk, const std::string& path, const segment_options& how) {
  return write_file(disk, path, new_header(path, how), how.permissions)->leave();
}

std::unique_ptr<new_file> segment::write_new_member(os::disk& disk, const std::string& path,
                                                    const std::string& logged_path, const segment_options& how,
                                                    const std::string& log_path, manifest& of) {
  segment_header h = new_header(path, how);
  note_log(h, of.log_id, log_path, of.tail);
  h.applied = of.tail;
  h.applied_sequence = h.sequence;
  auto making = write_file(disk, path, h, how.permissions);
  const os::file_id on_disk = making->file().id();
  listed_segment& listed = of.segments.emplace_back();
  listed.id = h.segment_id;
  listed.device = on_disk.device;
  listed.inode = on_disk.inode;
  listed.membership = pending_member;
  listed.path_text = logged_path;
  return making;
}

void segment::create_like(os::disk& disk, const std::string& path, const segment_header& like, std::uint64_t length,
                          unsigned permissions) {
  segment_header h{};
  h.magic = segment_magic;
  h.version = like.version;
  h.endian = endian_mark;
  h.segment_id = like.segment_id;
  h.sequence = 1;
  h.length = length;
  h.max_length = like.max_length;
  h.data_offset = like.data_offset;
  h.home = like.home;
  h.tag = like.tag;
  h.is_member = like.is_member;
  h.first_piece = like.first_piece;
  if (!makes_sense(h))
    throw error(errc::damaged, path + ": cannot be made: what is known of the segment's header makes no sense");
  create_file(disk, path, h, permissions);
}

segment::segment(os::disk& disk, const std::string& path, std::string logged_path, os::access access, bool raw)
    : path_(path),
      logged_path_(std::move(logged_path)),
      raw_(raw),
      file_(disk.open(path, access)),
      header_([&] {
        // Takes the lock first, because its holder may be changing the header.
        if (!file_->try_lock(access == os::access::read_only ? os::lock_kind::shared : os::lock_kind::exclusive))
          throw error(errc::in_use,
                      path_ + ": " + file_->lock_holders("memory") + " has this segment mapped; unmap it there first");
        if (!raw) {
          const found_header found = read_header(*file_, path_);
          stored_ = found.header;
          held_ = found.copy;
          held_is_durable_ = !found.other_is_valid;
          if (access == os::access::read_write) make_space_durable(found.durable_length);
          return stored_;
        }
        segment_header h{};
        h.length = h.max_length = round_down(file_->size(), raw_block);
        return h;
      }()),
      layout_(header_),
      length_(header_.length),
      pages_(header_.max_length) {
  if (!raw_ && file_->size() < layout_.file_length(length()))
    throw error(errc::segment_too_short, path_ + ": the segment should have " +
                                             std::to_string(layout_.file_length(length())) +
                                             " bytes but the file has " + std::to_string(file_->size()) +
                                             "; it was cut off: restore it from a backup, or make it that long with "
                                             "truncate -s; what is missing is zeros then, which fail those checksums "
                                             "that are left, and tenure repair saves the rest of a store");
  if (header_.applied_sequence != header_.sequence) header_.applied = 0;
  applied_ = applied_at_open_ = header_.applied;
  unlogged_bulk_.assign(header_.bulk.begin(), header_.bulk.begin() + header_.bulk_count);
  checksums_repaired_ = unlogged_bulk_.empty();
}

// The sync in grow() may have failed, or may not have been reached, and nothing was written to the new space yet.
void segment::make_space_durable(std::uint64_t durable) {
  if (durable == stored_.length) return;
  segment_layout(stored_).for_each_new_part(
      durable, stored_.length, [&](std::uint64_t at, std::uint64_t length) { file_->allocate(at, length); });
  file_->sync();
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

bool segment::was_changed_under(const identity& log) const {
  const std::scoped_lock lock(header_mutex_);
  return !raw_ && header_.log_id == log;
}

bool segment::was_changed_elsewhere(const identity& log) const {
  const std::scoped_lock lock(header_mutex_);
  return !raw_ && header_.log_id != identity{} && header_.log_id != log;
}

void segment::note_in_log(const identity& log, const std::string& log_path, lsn tail) {
  if (raw_) return;
  // The process that made the file may have been killed, or have failed, before the file's name was durable.
  file_->sync_name();
  const std::scoped_lock lock(header_mutex_);
  if (header_.log_id != log || applied() == 0) header_.applied = tail;
  note_log(header_, log, log_path, tail);
  // Writes both copies: recovery depends on this, and either may be damaged meanwhile.
  write_header();
  write_header();
  noted_ = true;
}

void segment::note_not_in_log() {
  if (raw_ || (header_.in_log == 0 && header_.bulk_count == 0)) return;
  const std::scoped_lock lock(header_mutex_);
  if (checksums_repaired_) {  // no record of the log is there that could disagree
    const std::scoped_lock unlogged(unlogged_bulk_mutex_);
    unlogged_bulk_.clear();
  }
  noted_ = false;
  header_.in_log = 0;
  write_header();
}

void segment::note_applied(lsn through) {
  if (raw_) return;
  const std::scoped_lock lock(header_mutex_);
  if (through <= applied() && held_is_durable_) return;
  header_.applied = std::max(through, applied());
  write_header();
}

void segment::move_back_applied(lsn end) {
  if (raw_ || applied() <= end) return;
  const std::scoped_lock lock(header_mutex_);
  header_.applied = end;
  write_header();
  write_header();  // nor does the older copy say more
}

void segment::add_to(manifest& of) const {
  if (raw_ && of.find_raw(logged_path_) != nullptr) return;
  if (const std::scoped_lock lock(header_mutex_); !raw_ && !held_is_durable_) return;
  if (!raw_) (void)of.rename(id(), logged_path_);
  listed_segment* listed = raw_ ? nullptr : of.find_segment(id());
  const lsn known = was_changed_under(of.log_id) ? applied() : 0;
  if (!raw_ && known == 0) {  // members stay, and what a renewed log has been told of
    if (listed == nullptr) return;
    if (listed->membership == not_a_member && listed->applied != 0)
      return static_cast<void>(of.segments.erase(of.segments.begin() + (listed - of.segments.data())));
  }
  if (listed == nullptr && !of.has_room_for(logged_path_)) {
    of.unlisted = 1;
    return;
  }
  if (listed == nullptr) listed = &of.segments.emplace_back();
  const os::file_id on_disk = file_->id();
  listed->id = id();
  listed->applied = known;
  listed->device = on_disk.device;
  listed->inode = on_disk.inode;
  listed->path_text = logged_path_;
}

// The files of a log and its segments may have been copied at different times, or while they were written. Each file
// says how far the segment has the log's changes, which reveals such copies [rvm.segment.applied].
std::string segment::find_mismatch(const manifest& log, const std::string& log_path, lsn tail) const {
  if (raw_ || was_changed_elsewhere(log.log_id)) return "";
  const bool is_known = was_changed_under(log.log_id);
  const lsn has = applied();
  if (is_known && has > tail)
    return "has changes of the log " + log_path + " up to LSN " + std::to_string(has) + ", but the log ends at LSN " +
           std::to_string(tail) +
           ": it is an older copy of the log, or they were copied while they were in use, or the log's end was lost; "
           "put files of the same moment in place, or cut the log there (`tenure log cut --at " +
           std::to_string(tail) + " " + log_path + "`)";
  const auto listed = std::ranges::find(log.segments, id(), &listed_segment::id);
  if (listed == log.segments.end()) return "";
  if (listed->applied != 0 && (!is_known || (has != 0 && has < listed->applied)))
    return "is an older copy: it has " +
           (is_known ? "the changes of the log " + log_path + " up to LSN " + std::to_string(has)
                     : "no change of the log " + log_path) +
           ", and the log knows that they were in it up to LSN " + std::to_string(listed->applied) +
           "; put files of the same moment in place";
  if (log.clean == 0 && listed->inode != 0 && listed->inode != file_->id().inode)
    return "is a copy, and the log " + log_path +
           " was in use when it was made: put the file back that the log has changed, or files of the same moment; or "
           "check all files and go on with them as they are (`tenure adopt " +
           log_path + "`)";
  return "";
}

void segment::detach_from_log() {
  if (raw_) return;
  const std::scoped_lock lock(header_mutex_);
  noted_ = false;
  header_.in_log = 0;
  if (header_.log_id != identity{}) header_.since = std::max<lsn>(header_.since, 1);  // it was changed once
  header_.log_id = {};
  header_.applied = 0;
  write_header();
  write_header();  // the older copy says that changes wait
}

void segment::write_header() {
  prepare_header();
  const os::const_bytes whole = std::as_bytes(std::span{&header_, 1});
  file_->write_durably_at(header_copies[1 - held_],
                          {&whole, 1});  // if it fails, the next attempt writes this copy again
  header_is_durable();
}

void segment::prepare_header() {
  // What was found at opening may be in the page cache only, after a failed write. Then the other copy is valid and
  // durable.
  if (!held_is_durable_) {
    const os::const_bytes found = std::as_bytes(std::span{&stored_, 1});
    file_->write_durably_at(header_copies[held_], {&found, 1});
  }
  held_is_durable_ = true;
  header_.sequence = stored_.sequence + 1;
  header_.applied_sequence = header_.sequence;
  note_unlogged_bulk();
  header_.checksum = header_checksum(header_, offsetof(segment_header, checksum));
}

void segment::header_is_durable() {
  held_ = 1 - held_;
  stored_ = header_;
  applied_.store(header_.applied, std::memory_order_release);
}

// One sync makes the space durable, and the header that names it [rvm.segment.growth]. Until it returns, nobody uses the
// space. A crash may leave the header without the space: then the other copy holds. The other copy gets the new length
// afterwards, without a sync of its own: it is needed only if this one is damaged later.
void segment::grow(std::uint64_t length) {
  const std::uint64_t old = this->length(), old_size = file_->size();
  assert(!raw_ && length % redo_page == 0 && old <= length && length <= header_.max_length);
  try {
    // New space is zero, whatever lies behind the end: what a growth has left that failed, or somebody has appended.
    if (const std::uint64_t end = layout_.find(old - redo_page, redo_page).at + redo_page; old_size > end)
      file_->resize(end);
    layout_.for_each_new_part(old, length, [&](std::uint64_t at, std::uint64_t bytes) { file_->allocate(at, bytes); });
  } catch (const error& e) {
    try {  // some of it may have been allocated; if it stays, it is there for the next attempt
      if (file_->size() > old_size) file_->resize(old_size);
    } catch (const error&) {
    }
    throw error(e.code(), path_ + ": the segment cannot grow from " + std::to_string(old) + " to " +
                              std::to_string(length) +
                              " bytes; nothing has changed; make room on its disk: " + e.what());
  }
  const std::scoped_lock lock(header_mutex_);
  header_.length = length;
  try {
    prepare_header();
    const auto bytes = std::as_bytes(std::span{&header_, 1});
    file_->write_at(header_copies[1 - held_], bytes);
    file_->sync();
    header_is_durable();
    file_->write_at(header_copies[1 - held_], bytes);
  } catch (const error& e) {
    header_.length = old;
    throw error(errc::outcome_unknown, path_ +
                                           ": the segment's header, or its new space, could not be written; close this "
                                           "memory and open it again: " +
                                           e.what());
  }
  length_.store(length, std::memory_order_release);
}

void segment::read(std::uint64_t offset, os::bytes into) {
  const std::uint64_t length = this->length(), end = round_up(length, redo_page);
  const auto refuse = [&] {
    throw error(errc::segment_too_short, path_ + ": needs bytes up to " + std::to_string(offset + into.size()) +
                                             " but the segment has " + std::to_string(length) +
                                             "; it is not the file that the log was written for, or was cut off");
  };
  if (offset > length || into.size() > end - offset) refuse();
  layout_.for_each_part(offset, into.size(), [&](const segment_layout::part& part, std::uint64_t done) {
    const auto here = into.subspan(done, part.length);
    const std::size_t found = file_->read_at(part.at, here);
    if (found < std::min<std::uint64_t>(here.size(), length - std::min(length, offset + done))) refuse();
    std::ranges::fill(here.subspan(found), std::byte{0});
  });
}

std::byte* segment::map(void* at, std::uint64_t offset, std::size_t length, os::access how) {
  if (const auto part = layout_.find(offset, length); part.length == length)
    return static_cast<std::byte*>(file_->map_private(at, part.at, length, how));
  auto* const reserved = static_cast<std::byte*>(os::reserve_address_space(at, length));
  try {
    map_over(reserved, offset, length, how);
  } catch (...) {
    os::unmap(reserved, length);
    throw;
  }
  return reserved;
}

void segment::map_over(std::byte* at, std::uint64_t offset, std::size_t length, os::access how) {
  layout_.for_each_part(offset, length, [&](const segment_layout::part& part, std::uint64_t done) {
    file_->map_private_over(at + done, part.at, static_cast<std::size_t>(part.length), how);
  });
}

void segment::write_pages(std::uint64_t page, os::const_bytes from) {
  const std::uint64_t offset = page * redo_page;
  assert(from.size() % redo_page == 0 && offset + from.size() <= round_up(length(), redo_page));
  // So that there is memory for the checksums of what is written.
  for (std::uint64_t n = 0; !raw_ && n < from.size() / redo_page; ++n) (void)checksum_block_of(page + n);
  try {
    const std::uint64_t bytes = std::min<std::uint64_t>(from.size(), length() - offset);
    layout_.for_each_part(offset, bytes, [&](const segment_layout::part& part, std::uint64_t done) {
      file_->write_at(part.at, from.subspan(done, part.length));
      // The disk works while the next pages are put together. Not done for single pages, which the sync writes in a
      // better order.
      constexpr std::size_t worth_it = 256 << 10;
      if (part.length >= worth_it) file_->write_behind(part.at, part.length);
    });
    for (std::uint64_t n = 0; n < from.size() / redo_page; ++n)
      if (!raw_) set_checksum(page + n, crc32c(from.subspan(n * redo_page, redo_page)));
  } catch (...) {
    half_written_.add(page, page + from.size() / redo_page);
    throw;
  }
  if (!half_written_.empty()) half_written_.remove(page, page + from.size() / redo_page);
}

void segment::set_checksum(std::uint64_t page, std::uint32_t crc) {
  if (!raw_) set_stored_checksum(page, crc ^ zeros_checksum());
}

std::vector<std::uint32_t> segment::read_checksum_block(std::uint64_t block) {
  std::vector<std::uint32_t> stored(checksums_per_block);
  // Data lies behind the table: the file cannot end here.
  const auto bytes = std::as_writable_bytes(std::span(stored));
  if (file_->read_at(block, bytes) != bytes.size())
    throw error(errc::segment_too_short, path_ + ": the segment's file ends inside its table of checksums, at offset " +
                                             std::to_string(block) + "; it was cut off: restore it from a backup");
  return stored;
}

void segment::set_stored_checksum(std::uint64_t page, std::uint32_t value) {
  assert(!raw_ && page * redo_page < length());
  checksum_block_of(page)[layout_.checksum_of(page).index] = value;
}

std::vector<std::uint32_t>& segment::checksum_block_of(std::uint64_t page) {
  const std::uint64_t block = layout_.checksum_of(page).block;
  auto at = checksums_.find(block);
  // The block is kept only if it was read whole. Otherwise its other checksums would be lost.
  if (at == checksums_.end()) at = checksums_.emplace(block, read_checksum_block(block)).first;
  return at->second;
}

std::uint32_t segment::stored_checksum_of(std::uint64_t page) {
  const auto [block, index] = layout_.checksum_of(page);
  if (const auto changed = checksums_.find(block); changed != checksums_.end()) return changed->second[index];
  if (seen_block_ != block) {
    seen_checksums_ = read_checksum_block(block);
    seen_block_ = block;
  }
  return seen_checksums_[index];
}

bool segment::matches_checksum(std::uint64_t page, os::const_bytes bytes) const {
  const auto [block, index] = layout_.checksum_of(page);
  std::uint32_t stored = 0;
  const auto into = std::as_writable_bytes(std::span(&stored, 1));
  return file_->read_at(block + index * sizeof stored, into) == into.size() && stored == stored_checksum(bytes);
}

segment::page_state segment::check(std::uint64_t page, os::const_bytes bytes) {
  if (raw_) return page_state::sound;
  const std::uint32_t stored = stored_checksum_of(page);
  if (stored == stored_checksum(bytes)) return page_state::sound;
  if (stored == damaged_page_mark) return page_state::known_damaged;
  // Free pages that a bulk write, or an earlier write of this process, has left half-written.
  if (half_written_.contains(page) || (!checksums_repaired_ && is_bulk_unlogged(page))) return page_state::sound;
  return page_state::damaged;
}

// The marks are written alone, and synced. If the page were overwritten at the same time, a crash could leave the new
// bytes with the old checksum. Recovery would take that for a truncation which the crash has interrupted.
void segment::mark_damaged(std::span<const std::uint64_t> pages) {
  for (const std::uint64_t page : pages) {
    assert(!raw_ && page * redo_page < length());
    const auto [block, index] = layout_.checksum_of(page);
    std::vector<std::uint32_t> stored = read_checksum_block(block);
    stored[index] = damaged_page_mark;
    file_->write_at(block, std::as_bytes(std::span(stored)));
    if (const auto changed = checksums_.find(block); changed != checksums_.end())
      changed->second[index] = damaged_page_mark;
  }
  seen_block_ = none_seen;
  sync();
}

void segment::finish_writes() {
  for (const auto& [at, block] : checksums_) file_->write_at(at, std::as_bytes(std::span(block)));
  sync();
  checksums_.clear();
  seen_block_ = none_seen;
}

void segment::sync() {
  try {
    file_->sync();
  } catch (const error& e) {
    throw error(
        errc::outcome_unknown,
        path_ +
            ": the segment could not be synced; the log still has its changes: close this memory and open it again: " +
            e.what());
  }
}

std::vector<std::uint64_t> segment::verify(const progress_callback& progress) {
  std::vector<std::uint64_t> bad;
  if (raw_) return bad;
  const std::uint64_t length = this->length();
  os::cleared_vector<std::byte> data(
      static_cast<std::size_t>(std::min<std::uint64_t>(checksums_per_block * redo_page, length)));
  for (std::uint64_t at = 0, read_now; at < length; at += read_now) {
    if (progress) progress({"verifying", at, length});
    // The pages whose checksums are in one block.
    const auto place = layout_.checksum_of(at / redo_page);
    const std::size_t index = place.index;
    const std::vector<std::uint32_t> expected = read_checksum_block(place.block);
    const std::uint64_t in_block = (checksums_per_block - index) * redo_page;
    read_now = layout_.find(at, std::min<std::uint64_t>({data.size(), in_block, length - at})).length;
    const auto part = os::bytes(data).first(static_cast<std::size_t>(read_now));
    const auto look_at = [&](std::size_t first, os::bytes pages) {
      read(at + first * redo_page, pages);
      for (std::size_t page = first; (page - first) * redo_page < pages.size(); ++page) {
        const std::uint32_t stored = expected[index + page];
        if (stored_checksum(pages.subspan((page - first) * redo_page, redo_page)) != stored &&
            (checksums_repaired_ || stored == damaged_page_mark || !is_bulk_unlogged(at / redo_page + page)))
          bad.push_back(at + page * redo_page);
      }
    };
    const std::size_t before = bad.size();
    try {
      look_at(0, part);
    } catch (const error& e) {
      if (e.code() != std::errc::io_error) throw;
      bad.resize(before);  // one by one, to find those that cannot be read
      for (std::size_t page = 0; page * redo_page < part.size(); ++page) try {
          look_at(page, part.subspan(page * redo_page, redo_page));
        } catch (const error& failed) {
          if (failed.code() != std::errc::io_error) throw;
          bad.push_back(at + page * redo_page);
        }
    }
  }
  return bad;
}

}  // namespace tenure::rvm
