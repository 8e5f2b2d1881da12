// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A segment: the file or device that backs recoverable memory [RVM §4.1]. It is either formatted or raw. The library
// makes formatted segments; they have a header, and a checksum for each page. A raw segment is any file. All of it is
// data, and it has no checksums.
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

#include "log/manifest.hpp"
#include "log/new_file.hpp"
#include "os/file.hpp"
#include "segments/format.hpp"
#include "segments/interval_set.hpp"
#include "segments/page_vector.hpp"
#include "segments/segment_layout.hpp"

namespace tenure::rvm {

// The header of a formatted segment. Takes no lock: another process may have the segment open.
[[nodiscard]] segment_header read_segment_header(os::disk& disk, const std::string& path);
[[nodiscard]] segment_header read_segment_header(os::file& file);

// What the table of checksums has for a page with these bytes.
[[nodiscard]] std::uint32_t stored_checksum(os::const_bytes page);

// In a raw segment only whole blocks of this length count.
inline constexpr std::uint64_t raw_block = 512;

// Any thread may read the constant parts. Reading and writing data has one user at a time (the truncation lock).
class segment {
 public:
  // `owner_like`: a file whose owner and permissions the new one has before it has its name, if that file is there.
  static void create(os::disk& disk, const std::string& path, const segment_options& how,
                     const std::string& owner_like = {});
  // The same, under its name while made [rvm.file.making]; who opens it there gives it its name. Returns where it is.
  static std::string begin(os::disk& disk, const std::string& path, const segment_options& how);
  // As create(), with identity, address and limits of a segment that has this header.
  static void create_like(os::disk& disk, const std::string& path, const segment_header& like, std::uint64_t length,
                          unsigned permissions);
  // Writes the file of a member that is made together with a log, and adds it to the log's manifest, as pending. The
  // file's header says from the beginning that this log may have changes for it.
  static std::unique_ptr<new_file> write_new_member(os::disk& disk, const std::string& path,
                                                    const std::string& logged_path, const segment_options& how,
                                                    const std::string& log_path, manifest& of);
  // Opens and validates the file, and takes its lock. `logged_path` is the path that log records have for it.
  segment(os::disk& disk, const std::string& path, std::string logged_path, os::access access, bool raw);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& logged_path() const { return logged_path_; }
  [[nodiscard]] const identity& id() const { return header_.segment_id; }  // zero if raw
  [[nodiscard]] bool is_raw() const { return raw_; }
  // A multiple of the page size; for a raw segment a multiple of raw_block. It only grows.
  [[nodiscard]] std::uint64_t length() const { return length_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t max_length() const { return header_.max_length; }
  [[nodiscard]] segment_info info() const {
    return {length(), header_.max_length, header_.home, header_.tag, true, header_.segment_id};
  }
  [[nodiscard]] bool is_member() const { return header_.is_member != 0; }
  [[nodiscard]] const segment_layout& layout() const { return layout_; }
  // Maps data as os::file::map_private and map_private_over do, with several mappings if it lies in several pieces. If
  // map_over() fails, some of the mappings may have been replaced.
  [[nodiscard]] std::byte* map(void* at, std::uint64_t offset, std::size_t length, os::access how);
  void map_over(std::byte* at, std::uint64_t offset, std::size_t length, os::access how);
  [[nodiscard]] os::file& file() { return *file_; }
  [[nodiscard]] page_vector& pages() { return pages_; }

  // Refuses a segment that may have changes in another log (errc::wrong_log).
  void require_log(const identity& log) const;
  // Whether the segment's header says that this log may have changes for it. True for a raw segment, which has no
  // header.
  [[nodiscard]] bool may_have_changes_in(const identity& log) const {
    return raw_ || (header_.in_log != 0 && header_.log_id == log);
  }
  // note_in_log: records durably that this log may have changes for the segment, before it does, and makes the file's
  // name durable. `tail` is the tail of the log's durable part. note_not_in_log: records that the log has none any
  // more.
  void note_in_log(const identity& log, const std::string& log_path, lsn tail);
  void note_not_in_log();
  // Whether it ever was changed under any log.
  [[nodiscard]] bool was_changed() const { return was_changed_elsewhere({}); }
  // Whether the segment was last changed under this log, or under another log. Both are false if it never was changed,
  // or is raw.
  [[nodiscard]] bool was_changed_under(const identity& log) const;
  [[nodiscard]] bool was_changed_elsewhere(const identity& log) const;
  // How far the segment may have the log's changes: every record of such a change begins before this LSN. 0: not known.
  [[nodiscard]] lsn applied() const { return applied_.load(std::memory_order_acquire); }
  // The value of applied() when the segment was opened. Changes up to there may have been half-written when the last
  // process ended.
  [[nodiscard]] lsn applied_at_open() const { return applied_at_open_; }
  // Sets applied() durably, before such a change is written [rvm.segment.applied].
  void note_applied(lsn through);
  // Adds the segment to the list in the manifest of the log that it belongs to, or brings it up to date.
  void add_to(manifest& of) const;
  // Why this segment and this log cannot belong to the same moment; "" if nothing speaks against it. `tail` is the
  // log's.
  [[nodiscard]] std::string find_mismatch(const manifest& log, const std::string& log_path, lsn tail) const;
  // The segment belongs to no log any more. Changes for it that still wait in a log are given up.
  void detach_from_log();
  // Its log was cut, and ends at this LSN now.
  void move_back_applied(lsn end);
  [[nodiscard]] bool may_have_logged_changes() const { return !raw_ && header_.in_log != 0; }
  // Whether this object has written the note. A note that was found in the file may not be durable, if its writer was
  // killed.
  [[nodiscard]] bool is_noted_in_log() const { return noted_; }
  // This process has made the file by write_new_member(): its header is durable, with the note, and so is its name. It
  // stays open until it is mapped.
  void note_new_member() { is_new_member_ = noted_ = held_is_durable_ = true; }
  [[nodiscard]] bool is_new_member() const { return is_new_member_; }
  void note_mapped() { is_new_member_ = false; }

  // Reads data. Throws errc::segment_too_short if the file ends before. The page in which a raw segment ends can be
  // read whole: the bytes behind the file's end are zeros.
  void read(std::uint64_t offset, os::bytes into);
  void read_ahead(std::uint64_t offset, std::uint64_t length) noexcept {
    layout_.for_each_part(offset, length, [&](const segment_layout::part& part, std::uint64_t) {
      file_->read_ahead(part.at, part.length);
    });
  }
  // Compares these bytes, read from a page, with the page's checksum. If an earlier write of the page failed in this
  // process, the page counts as sound: it was checked before that write.
  enum class page_state { sound, damaged, known_damaged };  // known: it was marked before
  [[nodiscard]] page_state check(std::uint64_t page, os::const_bytes bytes);
  // Whether these bytes match the page's checksum in the file. Any thread, also while truncation writes: then the answer may be
  // no for a page that is sound.
  [[nodiscard]] bool matches_checksum(std::uint64_t page, os::const_bytes bytes) const;
  // Marks damaged pages, durably, before part of them is overwritten [rvm.segment.marked-damaged].
  void mark_damaged(std::span<const std::uint64_t> pages);
  [[nodiscard]] bool is_marked_damaged(std::uint64_t page) { return stored_checksum_of(page) == damaged_page_mark; }
  // Writes whole pages from `page` on, and updates their checksums. Durable after finish_writes(). The last page of a
  // raw segment is written only up to the segment's end, so that the file keeps its length [rvm.segment.raw-end].
  void write_pages(std::uint64_t page, os::const_bytes from);
  void finish_writes();
  // Keeps the mark of a page that write_pages() has written: only part of the page was known, and the rest is damaged.
  void mark_still_damaged(std::uint64_t page) { set_stored_checksum(page, damaged_page_mark); }
  // Grows the segment to `length`, rounded up to whole pages, at most max_length(). Durable on return. If it throws
  // errc::outcome_unknown, the segment may have grown or not. After other errors nothing has changed.
  void grow(std::uint64_t length);
  // Writes whole pages in bulk, one piece after the other. Makes them and their checksums durable, and returns the
  // CRC32C of each page. Before that, the header notes durably that these pages are being written. Until
  // note_bulk_logged() says that the log has a record of the write, a page that does not match an older record does not
  // count as damaged [rvm.bulk.noted].
  //
  // Or clears them: they become zeros, and their space is given back if the file system can do so.
  struct bulk_write {
    std::uint64_t page;
    std::uint64_t pages;
    std::span<const os::const_bytes> from;  // none: the pages are cleared
    std::vector<std::uint32_t> checksums;
    [[nodiscard]] bool is_clearing() const { return from.empty(); }
  };
  // `tail`: the tail of the log's durable part, in which the pages are free [rvm.segment.applied]. 0: the segment was
  // not changed under this log before.
  void write_bulk(std::span<bulk_write> writes, std::uint64_t transaction, std::uint32_t generation, lsn tail);
  // Makes sure that these bytes, which may have been cleared, have space. Durable on return.
  void allocate(std::uint64_t offset, std::uint64_t length);
  // May be called by any thread.
  void note_bulk_logged(std::uint64_t transaction, std::uint32_t generation) noexcept;
  [[nodiscard]] bool is_bulk_unlogged(std::uint64_t page) const;
  // Everything was applied that a log has for the segment: what was noted of bulk writes means nothing any more.
  void forget_bulk_notes();
  // Computes the checksums again of pages that a crash or an error during a bulk write has left with wrong ones.
  void repair_checksums();
  // Offsets of the pages that do not match their checksums. None if the segment is raw.
  [[nodiscard]] std::vector<std::uint64_t> verify(const progress_callback& progress);

 private:
  // Makes header_ durable in one copy, with the next sequence number. The other copy holds until then
  // [rvm.segment.header-twice].
  void write_header();
  // The parts of write_header(): what comes before the copy that does not hold is written, and what comes when that is durable.
  void prepare_header();
  void header_is_durable();
  // `durable`: how long the segment was when its space was surely durable.
  void make_space_durable(std::uint64_t durable);
  void note_unlogged_bulk();
  void write_bulk(const bulk_write& what);
  void clear(std::uint64_t page, std::uint64_t pages);
  void sync();
  void set_checksum(std::uint64_t page, std::uint32_t crc);
  // The checksum that the table has, or will have after finish_writes().
  [[nodiscard]] std::uint32_t stored_checksum_of(std::uint64_t page);
  void set_stored_checksum(std::uint64_t page, std::uint32_t value);
  // Of those that were changed since finish_writes(), or will be.
  [[nodiscard]] std::vector<std::uint32_t>& checksum_block_of(std::uint64_t page);
  // `block`: as in segment_layout::checksum_place.
  std::vector<std::uint32_t> read_checksum_block(std::uint64_t block);

  std::string path_, logged_path_;
  bool raw_;
  std::unique_ptr<os::file> file_;
  mutable std::mutex
      header_mutex_;         // innermost; the log's writer and a thread that grows the segment both change the header
  segment_header stored_{};  // the contents of the copy that is known to hold
  int held_ = 0;             // the number of that copy; the other one is written
  bool held_is_durable_ = false;  // if false, that copy may be in the page cache only, and so may what it says
  segment_header header_{};
  const segment_layout layout_;
  std::atomic<std::uint64_t> length_;
  std::atomic<lsn> applied_{0};  // the value in the copy that holds
  lsn applied_at_open_ = 0;
  bool noted_ = false;
  bool is_new_member_ = false;
  mutable std::mutex unlogged_bulk_mutex_;  // innermost
  std::vector<bulk_note> unlogged_bulk_;    // pages written in bulk of which the log has no record; in every header
  bool checksums_repaired_ = true;          // whether the checksums of these pages are right
  page_vector pages_;
  // The blocks of checksums that were changed since finish_writes().
  std::map<std::uint64_t, std::vector<std::uint32_t>> checksums_;
  // The block of checksums that was read last.
  static constexpr std::uint64_t none_seen = ~std::uint64_t{0};
  std::uint64_t seen_block_ = none_seen;
  std::vector<std::uint32_t> seen_checksums_;
  interval_set half_written_;  // pages whose write has failed, and was not repeated yet
};

}  // namespace tenure::rvm
