// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A segment: the file or device that backs recoverable memory [RVM §4.1]. Either formatted by us, with a header and a
// checksum a page, or raw: any file, all of it data, unchecked.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>
#include <tenure/rvm/segment_options.hpp>

#include "os/file.hpp"
#include "segments/format.hpp"
#include "segments/page_vector.hpp"
#include "segments/part_set.hpp"

namespace tenure::rvm {

// The header of a formatted segment, without a lock: somebody may have it open.
[[nodiscard]] segment_header read_segment_header(os::disk& disk, const std::string& path);

// Of a raw segment only whole blocks of this length count.
inline constexpr std::uint64_t raw_block = 512;

// Constant parts may be read by any thread; reading and writing data has one user at a time (the truncation lock).
class segment {
 public:
  static void create(os::disk& disk, const std::string& path, const segment_options& how);
  // Opens and validates; `logged_path` is how log records name it. Takes the file's lock.
  segment(os::disk& disk, const std::string& path, std::string logged_path, os::access access, bool raw);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& logged_path() const { return logged_path_; }
  [[nodiscard]] const identity& id() const { return header_.segment_id; }  // zero if raw
  [[nodiscard]] bool is_raw() const { return raw_; }
  // Whole pages; of a raw one, whole blocks of raw_block bytes. Grows; what is below it stays.
  [[nodiscard]] std::uint64_t length() const { return length_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t max_length() const { return header_.max_length; }
  [[nodiscard]] segment_info info() const { return {length(), header_.max_length, header_.home, header_.tag}; }
  [[nodiscard]] std::uint64_t data_offset() const { return header_.data_offset; }
  [[nodiscard]] os::file& file() { return *file_; }
  [[nodiscard]] page_vector& pages() { return pages_; }

  // Refuses a segment that may have changes in another log (errc::wrong_log).
  void require_log(const identity& log) const;
  // Whether its header says that changes may wait in this log; true for a raw one, which cannot say.
  [[nodiscard]] bool may_have_changes_in(const identity& log) const {
    return raw_ || (header_.in_log != 0 && header_.log_id == log);
  }
  // Records durably that this log may hold changes, before it does, and makes the file's name durable; or that it holds
  // none any more.
  // `tail`: of the log's durable part.
  void note_in_log(const identity& log, const std::string& log_path, lsn tail);
  void note_not_in_log();
  // Whether it was changed under this log last; under another one. Neither if it never was, or is raw.
  [[nodiscard]] bool was_changed_under(const identity& log) const;
  [[nodiscard]] bool was_changed_elsewhere(const identity& log) const;
  // So far the log's changes may be in it: every record of such a change begins before this LSN. 0: not known.
  [[nodiscard]] lsn applied() const { return applied_.load(std::memory_order_acquire); }
  // The same when it was opened: such changes may have been half-written when the last process ended.
  [[nodiscard]] lsn applied_at_open() const { return applied_at_open_; }
  // Says so, durably, before such a change is written [rvm.segment.applied].
  void note_applied(lsn through);
  // Puts it into the list of segments in the status of the log that it belongs to; where there is room.
  void add_mark_to(status_block& log) const;
  [[nodiscard]] bool marks(const segment_mark& mark) const;  // it is this one's
  // Why this segment and the log that is there cannot be of the same moment; "": nothing speaks against it. `tail`: the log's.
  [[nodiscard]] std::string find_mismatch(const status_block& log, const std::string& log_path, lsn tail) const;
  // It belongs to no log any more: whatever waits for it somewhere is given up.
  void detach_from_log();
  // Its log was cut: it ends at this LSN.
  void move_back_applied(lsn end);
  [[nodiscard]] bool may_have_logged_changes() const { return !raw_ && header_.in_log != 0; }
  // By this object: a note that was found in the file may not be durable, if who wrote it was killed.
  [[nodiscard]] bool is_noted_in_log() const { return noted_; }

  // Reads data; errc::segment_too_short if the file ends before. The page in which a raw segment ends can be read whole: it
  // is what the file has, and zeros.
  void read(std::uint64_t offset, os::bytes into);
  void read_ahead(std::uint64_t offset, std::uint64_t length) noexcept {
    file_->read_ahead(header_.data_offset + offset, length);
  }
  // Whether these bytes, read from a page, match its checksum. Of a page whose writing has failed before in this process, they
  // are taken to: it was looked at then.
  enum class page_state { sound, damaged, known_damaged };  // known: it was marked before
  [[nodiscard]] page_state check(std::uint64_t page, os::const_bytes bytes);
  // Keeps pages apart that are damaged, durably, before part of them is overwritten [rvm.segment.marked-damaged].
  void mark_damaged(std::span<const std::uint64_t> pages);
  [[nodiscard]] bool is_marked_damaged(std::uint64_t page) { return stored_checksum_of(page) == damaged_page_mark; }
  // Writes whole pages from `page` on, and updates their checksums. Durable after finish_writes(). A raw segment's last page
  // is written to the segment's end only: its file stays as long as it is [rvm.segment.raw-end].
  void write_pages(std::uint64_t page, os::const_bytes from);
  void finish_writes();
  // Of a page that write_pages() has written: only part of it was known, and the rest is damaged.
  void mark_still_damaged(std::uint64_t page) { set_stored_checksum(page, damaged_page_mark); }
  // Makes it longer: to whole pages, at most max_length(). Durable on return. Throws errc::outcome_unknown where that could
  // not be made sure; else, if it throws, nothing has changed.
  void grow(std::uint64_t length);
  // Writes whole pages from where they are, one piece after the other, and makes them and their checksums durable; returns
  // CRC32C of each. Before, it notes in the header, durably, that these pages are being written: until note_bulk_logged() says that
  // the log has a record of it, nobody who finds them otherwise than an older record says takes them for damaged
  // [rvm.bulk.noted].
  struct bulk_write {
    std::uint64_t page;
    std::span<const os::const_bytes> from;
    std::vector<std::uint32_t> checksums;
  };
  // `tail`: of the log's durable part, in which the pages are free [rvm.segment.applied]; 0: it is another log than before.
  void write_bulk(std::span<bulk_write> writes, std::uint64_t transaction, std::uint32_t generation, lsn tail);
  // Any thread.
  void note_bulk_logged(std::uint64_t transaction, std::uint32_t generation) noexcept;
  [[nodiscard]] bool is_bulk_unlogged(std::uint64_t page) const;
  // Makes the checksums of such pages anew that a crash, or an error, has left with checksums of another moment.
  void repair_checksums();
  // Offsets of the pages whose checksum does not match; none if raw.
  [[nodiscard]] std::vector<std::uint64_t> verify(const progress_callback& progress);

 private:
  // Makes header_ the next in sequence, and durable, in one copy; the other one holds until then [rvm.segment.header-twice].
  void write_header();
  void note_unlogged_bulk();
  void sync();
  void set_checksum(std::uint64_t page, std::uint32_t crc);
  // What the table has, or will have after finish_writes().
  [[nodiscard]] std::uint32_t stored_checksum_of(std::uint64_t page);
  void set_stored_checksum(std::uint64_t page, std::uint32_t value);
  std::vector<std::uint32_t> read_checksum_block(std::uint64_t block);
  void read_checksums(std::uint64_t at, std::span<std::uint32_t> into);

  std::string path_, logged_path_;
  bool raw_;
  std::unique_ptr<os::file> file_;
  mutable std::mutex header_mutex_;  // innermost; the log's writer and who grows the segment both change the header
  segment_header stored_{};          // what the copy says that is known to hold
  int held_ = 0;                     // which that is; the other one is written
  bool held_is_durable_ = false;     // else it may be in the page cache only, and so may what it says
  segment_header header_{};
  std::atomic<std::uint64_t> length_;
  std::atomic<lsn> applied_{0};  // what the copy says that holds
  lsn applied_at_open_ = 0;
  bool noted_ = false;
  mutable std::mutex unlogged_bulk_mutex_;  // innermost
  std::vector<bulk_note> unlogged_bulk_;    // pages written in bulk of which the log has no record; in every header
  bool checksums_repaired_ = true;          // their checksums are right
  page_vector pages_;
  // Parts of the checksum table that were changed since finish_writes(), by their place in the table.
  static constexpr std::uint64_t checksum_block = 4096;
  std::map<std::uint64_t, std::vector<std::uint32_t>> checksums_;
  // The part of it that was read last.
  static constexpr std::uint64_t none_seen = ~std::uint64_t{0};
  std::uint64_t seen_block_ = none_seen;
  std::vector<std::uint32_t> seen_checksums_;
  part_set half_written_;  // pages whose writing has failed, and was not repeated yet
};

}  // namespace tenure::rvm
