// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "segments/segment.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "log/checksum.hpp"
#include "log/new_file.hpp"
#include "os/process.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t header_copies[2] = {0, 4096};
constexpr std::uint64_t checksums_per_block = 4096 / sizeof(std::uint32_t);

std::uint32_t zeros_checksum() {
  static const std::uint32_t value = crc32c(std::array<std::byte, redo_page>{});
  return value;
}
// The table's entry for a page with this checksum [rvm.segment.checksum].
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

struct found_header {
  segment_header header;
  int copy;
  bool other_is_valid;
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
  const int held = !valid[0] || (valid[1] && copies[1].sequence > copies[0].sequence) ? 1 : 0;
  segment_header& used = copies[held];
  // The other copy may have been newer, and `applied` is written to one copy only.
  if (!valid[0] || !valid[1]) used.applied = 0;
  if (used.incompatible != 0 || used.read_only_compatible != 0)
    throw error(errc::wrong_version,
                path + ": the segment uses features that this version of the library does not know");
  if (used.data_offset % segment_alignment != 0 || used.length % redo_page != 0 || used.length > used.max_length ||
      used.max_length > (std::uint64_t{1} << 60) || used.data_offset > (std::uint64_t{1} << 60) ||
      used.data_offset < segment_checksums_offset + used.max_length / redo_page * 4)
    throw error(errc::damaged, path + ": the segment's header makes no sense, though its checksum holds");
  for (std::uint32_t i = 0; i < used.bulk_count; ++i)
    if (i == max_bulk_notes || used.bulk[i].page > used.length / redo_page ||
        used.bulk[i].pages > used.length / redo_page - used.bulk[i].page)
      throw error(errc::damaged, path + ": the segment's header makes no sense, though its checksum holds");
  return {used, held, valid[1 - held]};
}

}  // namespace

segment_header read_segment_header(os::disk& disk, const std::string& path) {
  return read_header(*disk.open(path, os::access::read_only), path).header;
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
  h.home = how.home;
  h.tag = how.tag;
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
          return stored_;
        }
        segment_header h{};
        h.length = h.max_length = round_down(file_->size(), raw_block);
        return h;
      }()),
      length_(header_.length),
      pages_(header_.max_length) {
  if (!raw_ && file_->size() < header_.data_offset + header_.length)
    throw error(errc::segment_too_short, path_ + ": the segment should have " +
                                             std::to_string(header_.data_offset + header_.length) +
                                             " bytes but the file has " + std::to_string(file_->size()) +
                                             "; it was cut off: restore it from a backup");
  if (header_.applied_sequence != header_.sequence) header_.applied = 0;
  applied_ = applied_at_open_ = header_.applied;
  unlogged_bulk_.assign(header_.bulk.begin(), header_.bulk.begin() + header_.bulk_count);
  checksums_repaired_ = unlogged_bulk_.empty();
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
  header_.in_log = 1;
  header_.log_id = log;
  header_.log_path_length = static_cast<std::uint32_t>(std::min(log_path.size(), header_.log_path.size()));
  std::memcpy(header_.log_path.data(), log_path.data(), header_.log_path_length);
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

void segment::add_mark_to(status_block& log) const {
  if (raw_) return;
  if (const std::scoped_lock lock(header_mutex_); !held_is_durable_) return;
  const auto known = std::span(log.marks).first(log.mark_count);
  const auto mark = std::ranges::find_if(known, [&](const segment_mark& m) { return marks(m); });
  const bool says_something = was_changed_under(log.log_id) && applied() != 0;
  if (mark != known.end()) {
    if (says_something)
      mark->applied = applied();
    else
      *mark = std::exchange(known.back(), {}), --log.mark_count;
  } else if (says_something && log.mark_count < max_segment_marks) {
    segment_mark& made = log.marks[log.mark_count++];
    std::copy_n(id().begin(), made.segment.size(), made.segment.begin());
    made.applied = applied();
  }
}

bool segment::marks(const segment_mark& mark) const {
  return std::equal(mark.segment.begin(), mark.segment.end(), id().begin());
}

// The files of a log and its segments may have been copied at different times, or while they were written. Each file
// says how far the segment has the log's changes, which reveals such copies [rvm.segment.applied].
std::string segment::find_mismatch(const status_block& log, const std::string& log_path, lsn tail) const {
  if (raw_ || was_changed_elsewhere(log.log_id)) return "";
  const bool is_known = was_changed_under(log.log_id);
  const lsn has = applied();
  if (is_known && has == 0) return "";
  if (is_known && has > tail)
    return "has changes of the log " + log_path + " up to LSN " + std::to_string(has) + ", but the log ends at LSN " +
           std::to_string(tail) +
           ": it is an older copy of the log, or they were copied while they were in use, or the log's end was lost; "
           "put files of the same moment in place, or cut the log there (`tenure log cut --at " +
           std::to_string(tail) + " " + log_path + "`)";
  for (const segment_mark& mark : std::span(log.marks).first(log.mark_count))
    if (marks(mark) && (!is_known || has < mark.applied))
      return "is an older copy: it has " +
             (is_known ? "the changes of the log " + log_path + " up to LSN " + std::to_string(has)
                       : "no change of the log " + log_path) +
             ", and the log knows that they were in it up to LSN " + std::to_string(mark.applied) +
             "; put files of the same moment in place";
  return "";
}

void segment::detach_from_log() {
  if (raw_) return;
  const std::scoped_lock lock(header_mutex_);
  noted_ = false;
  header_.in_log = 0;
  header_.log_id = {};
  header_.applied = 0;
  write_header();
  write_header();  // the older copy says that changes wait
}

void segment::write_header() {
  const auto write_copy = [&](int copy, const segment_header& header) {
    const os::const_bytes whole = std::as_bytes(std::span{&header, 1});
    file_->write_durably_at(header_copies[copy], {&whole, 1});
  };
  // What was found at opening may be in the page cache only, after a failed write. Then the other copy is valid and
  // durable.
  if (!held_is_durable_) write_copy(held_, stored_);
  held_is_durable_ = true;
  header_.sequence = stored_.sequence + 1;
  header_.applied_sequence = header_.sequence;
  note_unlogged_bulk();
  header_.checksum = header_checksum(header_, offsetof(segment_header, checksum));
  write_copy(1 - held_, header_);  // if it fails, the next attempt writes this copy again
  held_ = 1 - held_;
  stored_ = header_;
  applied_.store(header_.applied, std::memory_order_release);
}

// The space is allocated and synced before the header names it [rvm.segment.growth]. So no record of the log and no
// header ever names space that a crash may take away or that a full disk refuses.
void segment::grow(std::uint64_t length) {
  const std::uint64_t old = this->length(), old_size = file_->size();
  assert(!raw_ && length % redo_page == 0 && old <= length && length <= header_.max_length);
  const auto table_end = [](std::uint64_t of) {
    return segment_checksums_offset + round_up(of / redo_page * sizeof(std::uint32_t), checksum_block);
  };
  try {
    file_->allocate(table_end(old), table_end(length) - table_end(old));
    file_->allocate(header_.data_offset + old, length - old);
  } catch (const error& e) {
    try {  // some of it may have been allocated; if it stays, it is there for the next attempt
      if (file_->size() > old_size) file_->resize(old_size);
    } catch (const error&) {
    }
    throw error(e.code(), path_ + ": the segment cannot grow from " + std::to_string(old) + " to " +
                              std::to_string(length) +
                              " bytes; nothing has changed; make room on its disk: " + e.what());
  }
  sync();
  const std::scoped_lock lock(header_mutex_);
  header_.length = length;
  try {
    // Writes both copies: the log will refer to the new part, and either copy may be damaged meanwhile.
    write_header();
    write_header();
  } catch (const error& e) {
    header_.length = old;
    throw error(
        errc::outcome_unknown,
        path_ + ": the segment's header could not be written; close this memory and open it again: " + e.what());
  }
  length_.store(length, std::memory_order_release);
}

// If there are too many notes, the last ones become one, with the pages between them. Nothing is lost except the proof
// that a page between them is damaged, if it is.
void segment::note_unlogged_bulk() {
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  header_.bulk = {};
  header_.bulk_count = 0;
  for (const bulk_note& each : unlogged_bulk_) {
    if (header_.bulk_count < max_bulk_notes) {
      header_.bulk[header_.bulk_count++] = each;
      continue;
    }
    bulk_note& last = header_.bulk.back();
    const std::uint64_t end = std::max(last.page + last.pages, each.page + each.pages);
    last = {std::min(last.page, each.page), 0, 0, 0, 0};
    last.pages = end - last.page;
  }
}

void segment::note_bulk_logged(std::uint64_t transaction, std::uint32_t generation) noexcept {
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  std::erase_if(unlogged_bulk_,
                [&](const bulk_note& n) { return n.transaction == transaction && n.generation == generation; });
}

bool segment::is_bulk_unlogged(std::uint64_t page) const {
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  return std::ranges::any_of(unlogged_bulk_, [&](const bulk_note& n) { return page - n.page < n.pages; });
}

// Writes the bytes again, too: after a failed sync, the bytes that were read may be in the page cache only
// [rvm.log.no-retry], and the checksums would outlive them.
void segment::repair_checksums() {
  if (checksums_repaired_) return;
  std::vector<bulk_note> notes;
  {
    const std::scoped_lock lock(unlogged_bulk_mutex_);
    notes = unlogged_bulk_;
  }
  constexpr std::uint64_t at_once = 256;  // pages: 1 MiB
  std::vector<std::byte> buffer(at_once * redo_page);
  for (const bulk_note& note : notes)
    for (std::uint64_t page = note.page, end = page + note.pages; page < end; page += at_once) {
      const auto bytes = os::bytes(buffer).first(std::min(at_once, end - page) * redo_page);
      read(page * redo_page, bytes);
      std::vector<std::uint64_t> apart;
      for (std::uint64_t n = page; n < page + bytes.size() / redo_page; ++n)
        if (is_marked_damaged(n)) apart.push_back(n);
      write_pages(page, bytes);
      for (const std::uint64_t n : apart) mark_still_damaged(n);
    }
  if (!checksums_.empty()) finish_writes();
  checksums_repaired_ = true;
}

namespace {

// Cuts a list of pieces into other lengths.
class piece_cursor {
 public:
  explicit piece_cursor(std::span<const os::const_bytes> pieces) : pieces_(pieces) {}
  [[nodiscard]] bool at_end() {
    while (!pieces_.empty() && done_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      done_ = 0;
    }
    return pieces_.empty();
  }
  // The next piece, or its first `most` bytes.
  os::const_bytes take(std::size_t most) {
    const os::const_bytes rest = pieces_.front().subspan(done_);
    const auto part = rest.first(std::min(most, rest.size()));
    done_ += part.size();
    return part;
  }

 private:
  std::span<const os::const_bytes> pieces_;
  std::size_t done_ = 0;  // of the first
};

std::vector<std::uint32_t> page_checksums(std::span<const os::const_bytes> pieces) {
  std::vector<std::uint32_t> all;
  std::array<std::byte, redo_page> page;
  for (piece_cursor at(pieces); !at.at_end();) {
    os::const_bytes part = at.take(redo_page);
    if (part.size() < redo_page) {
      std::size_t filled = 0;
      for (;; part = at.take(redo_page - filled)) {
        std::memcpy(page.data() + filled, part.data(), part.size());
        filled += part.size();
        if (filled == redo_page || at.at_end()) break;
      }
      part = page;
    }
    all.push_back(crc32c(part));
  }
  return all;
}

}  // namespace

void segment::write_bulk(std::span<bulk_write> writes, std::uint64_t transaction, std::uint32_t generation, lsn tail) {
  repair_checksums();
  for (bulk_write& w : writes) {
    w.checksums = page_checksums(w.from);
    assert((w.page + w.checksums.size()) * redo_page <= round_up(length(), redo_page));
    const std::scoped_lock lock(unlogged_bulk_mutex_);
    unlogged_bulk_.push_back({w.page, w.checksums.size(), transaction, generation, 0});
  }
  if (!raw_) {
    const std::scoped_lock lock(header_mutex_);
    header_.applied = std::max(applied(), tail);
    try {
      write_header();
    } catch (const error& e) {
      throw error(
          errc::outcome_unknown,
          path_ + ": the segment's header could not be written; close this memory and open it again: " + e.what());
    }
  }
  checksums_repaired_ = false;
  try {
    constexpr std::size_t at_once = 4 << 20;
    for (const bulk_write& w : writes) {
      std::uint64_t at = header_.data_offset + w.page * redo_page;
      for (piece_cursor pieces(w.from); !pieces.at_end();) {
        std::vector<os::const_bytes> parts;
        std::size_t length = 0;
        for (; length < at_once && !pieces.at_end(); length += parts.back().size())
          parts.push_back(pieces.take(at_once - length));
        file_->write_all_at(at, parts);
        file_->write_behind(at, length);
        at += length;
      }
      for (std::size_t n = 0; n < w.checksums.size(); ++n) set_checksum(w.page + n, w.checksums[n]);
    }
    finish_writes();
  } catch (const error& e) {
    if (e.code() != errc::outcome_unknown) {
      try {
        repair_checksums();
      } catch (const error&) {  // before the next writing
      }
    }
    throw;
  }
  checksums_repaired_ = true;
}

void segment::read(std::uint64_t offset, os::bytes into) {
  const std::uint64_t length = this->length(), end = round_up(length, redo_page);
  const auto refuse = [&] {
    throw error(errc::segment_too_short, path_ + ": needs bytes up to " + std::to_string(offset + into.size()) +
                                             " but the segment has " + std::to_string(length) +
                                             "; it is not the file that the log was written for, or was cut off");
  };
  if (offset > length || into.size() > end - offset) refuse();
  const std::size_t found = file_->read_at(header_.data_offset + offset, into);
  if (found < std::min<std::uint64_t>(into.size(), length - offset)) refuse();
  std::ranges::fill(into.subspan(found), std::byte{0});
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
  const std::uint64_t offset = page * redo_page, at = header_.data_offset + offset;
  assert(from.size() % redo_page == 0 && offset + from.size() <= round_up(length(), redo_page));
  try {
    file_->write_at(at, from.first(static_cast<std::size_t>(std::min<std::uint64_t>(from.size(), length() - offset))));
    // The disk works while the next pages are put together. Not done for single pages, which the sync writes in a
    // better order.
    constexpr std::size_t worth_it = 256 << 10;
    if (from.size() >= worth_it) file_->write_behind(at, from.size());
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
  read_checksums(block * checksum_block, stored);
  return stored;
}

void segment::set_stored_checksum(std::uint64_t page, std::uint32_t value) {
  assert(!raw_ && page * redo_page < length());
  const std::uint64_t block = page / checksums_per_block;
  auto at = checksums_.find(block);
  // The block is kept only if it was read whole. Otherwise its other checksums would be lost.
  if (at == checksums_.end()) at = checksums_.emplace(block, read_checksum_block(block)).first;
  at->second[page % checksums_per_block] = value;
}

std::uint32_t segment::stored_checksum_of(std::uint64_t page) {
  const std::uint64_t block = page / checksums_per_block;
  if (const auto changed = checksums_.find(block); changed != checksums_.end())
    return changed->second[page % checksums_per_block];
  if (seen_block_ != block) {
    seen_checksums_ = read_checksum_block(block);
    seen_block_ = block;
  }
  return seen_checksums_[page % checksums_per_block];
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
    const std::uint64_t block = page / checksums_per_block;
    std::vector<std::uint32_t> stored = read_checksum_block(block);
    stored[page % checksums_per_block] = damaged_page_mark;
    file_->write_at(segment_checksums_offset + block * checksum_block, std::as_bytes(std::span(stored)));
    if (const auto changed = checksums_.find(block); changed != checksums_.end())
      changed->second[page % checksums_per_block] = damaged_page_mark;
  }
  seen_block_ = none_seen;
  sync();
}

void segment::finish_writes() {
  for (const auto& [at, block] : checksums_)
    file_->write_at(segment_checksums_offset + at * checksum_block, std::as_bytes(std::span(block)));
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
  std::vector<std::byte> data(
      static_cast<std::size_t>(std::min<std::uint64_t>(checksums_per_block * redo_page, length)));
  std::vector<std::uint32_t> expected(checksums_per_block);
  for (std::uint64_t at = 0; at < length; at += data.size()) {
    if (progress) progress({"verifying", at, length});
    const auto part =
        os::bytes(data).first(static_cast<std::size_t>(std::min<std::uint64_t>(data.size(), length - at)));
    read(at, part);
    std::ranges::fill(expected, 0);
    read_checksums(at / redo_page * sizeof(std::uint32_t), expected);
    for (std::size_t page = 0; page * redo_page < part.size(); ++page)
      if (stored_checksum(part.subspan(page * redo_page, redo_page)) != expected[page] &&
          (checksums_repaired_ || expected[page] == damaged_page_mark || !is_bulk_unlogged(at / redo_page + page)))
        bad.push_back(at + page * redo_page);
  }
  return bad;
}

}  // namespace tenure::rvm
