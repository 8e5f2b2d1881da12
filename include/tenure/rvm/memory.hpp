// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One log, and the segments that are mapped under it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>
#include <tenure/rvm/log_options.hpp>
#include <tenure/rvm/map_options.hpp>
#include <tenure/rvm/options.hpp>
#include <tenure/rvm/paged_segment.hpp>
#include <tenure/rvm/prepared.hpp>
#include <tenure/rvm/region.hpp>
#include <tenure/rvm/segment_options.hpp>
#include <tenure/rvm/statistics.hpp>
#include <tenure/rvm/transaction.hpp>

namespace tenure::os {
class disk;
}

namespace tenure::rvm {

class memory_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

// One log and the segments that are mapped under it.
class memory {
 public:
  // Makes a log: preallocated, zero-filled, synced. errc/std::errc::file_exists if there is something at the path.
  static void create_log(const std::string& path, const log_options& how = {}, const progress_callback& progress = {},
                         os::disk* disk = nullptr);

  // Opens a log, takes its lock, and recovers: what committed transactions left in the log is written to their segments.
  explicit memory(const std::string& log_path, const options& how = {});
  // Closes; errors are swallowed. Call close() to see them.
  ~memory();
  memory(memory&&) noexcept;
  memory& operator=(memory&&) noexcept;

  // Flushes, truncates, unmaps everything and releases the log. Throws errc::transactions_open, and changes nothing, while
  // there are open transactions. What another thread begins meanwhile cannot commit any more: errc::closed.
  void close();

  // Makes a segment: a header, a checksum for every 4096 bytes, and zeros, allocated and synced.
  void create_segment(const std::string& path, const segment_options& how);
  // Makes a segment longer, durably: space is allocated and synced before its header says so, so that neither commits nor
  // truncation can meet a full disk there. The new bytes are zero. Regions mapped with map_options::reserve grow with it.
  // Returns the new length: `length` rounded up to pages, or what the segment has if that is more. Throws
  // errc::segment_full beyond max_length, and std::errc::no_space_on_device; then nothing has changed. Raw segments do not
  // grow (errc::bad_option).
  std::uint64_t grow_segment(const std::string& path, std::uint64_t length);
  // errc::bad_option for a raw one, which has nothing to say.
  [[nodiscard]] segment_info describe_segment(const std::string& path);
  // Bytes of recoverable memory in a segment.
  [[nodiscard]] std::uint64_t segment_length(const std::string& path, bool raw = false);
  // Copies what is committed to a directory, which is made, or is empty (otherwise std::errc::file_exists), while the memory is in
  // use: all segments that were changed under this log and lie in the log's directory or below, and a log of the same name. The
  // copy is closed, of one moment, and opens like any other log; never use it together with the original's segments. Commits wait
  // for nothing meanwhile, but the log grows, and what is written in bulk goes through it. With backup_options::since it is only
  // what was committed since an earlier backup. rvm::restore (backup.hpp) makes a log from backups again.
  backup_report backup(const std::string& directory, const backup_options& how = {});

  // For layers above (segment_options::member): the members in the order in which they were made; what ends the making of
  // one; and what undoes it, before its file is removed. Durable on return, unless `durably` is false: then with whatever makes the
  // log's manifest durable next.
  [[nodiscard]] std::vector<segment_member> members() const;
  void confirm_member(const std::string& path, bool durably = true);
  void drop_member(const std::string& path);
  // Reads a segment and compares every page of its file with its checksum. Returns the offsets of damaged pages, among them those
  // that the disk could not read. Changes still in the log are written out first; a memory that only reads leaves out the pages
  // that recovery will write anew.
  [[nodiscard]] std::vector<std::uint64_t> verify_segment(const std::string& path);

  // Maps part of a segment; its memory then shows the committed image. No part of a segment can be mapped twice.
  [[nodiscard]] region map(const std::string& segment_path, const map_options& how = {});

  // Opens a segment for reading and changing it page by page, without mapping it. errc::region_overlap while a region of it is
  // mapped, or if it is open for pages already; map() refuses it likewise. Not for raw segments.
  [[nodiscard]] paged_segment open_pages(const std::string& segment_path);

  [[nodiscard]] transaction begin(restore_mode mode = restore_mode::restore);
  // A transaction that finds its changes in automatically tracked regions by itself; in other regions it is as one that was
  // begun with restore. Waits while another one is open in this memory: so it isolates automatic transactions from each
  // other. Any thread may write until the commit or abort; a write outside of both is a stray write, which ends the process,
  // or is rolled back here, and then thrown as errc::stray_write. A commit lets the next one begin before it waits for the
  // disk; after errc::outcome_unknown, or errc::log_stuck, memory keeps its changes, and an abort only
  // ends the transaction.
  [[nodiscard]] transaction begin_automatic();
  // Runs f(tx) in a transaction and commits it; aborts and rethrows if f throws.
  template <class F>
  ticket transact(F&& f, commit_mode mode = commit_mode::flush) {
    transaction tx = begin();
    std::forward<F>(f)(tx);
    return tx.commit(mode);
  }

  // The same with begin_automatic().
  template <class F>
  ticket transact_automatically(F&& f, commit_mode mode = commit_mode::flush) {
    transaction tx = begin_automatic();
    std::forward<F>(f)(tx);
    return tx.commit(mode);
  }

  // Throws the reason if this memory cannot be used any more: closed, forked, or failed (errc::outcome_unknown).
  void require_usable() const;

  // Returns when everything committed before the call is durable [RVM §4.2 flush].
  void flush();
  // Names everything committed so far: wait(last_commit()) before telling the world what was read.
  [[nodiscard]] ticket last_commit() const;
  // Returns when everything up to the ticket is durable; writes it if nobody does.
  void wait(ticket until);

  // Returns when every change that was committed before the call is in its segment and its log space free
  // [RVM §4.2 truncate].
  void truncate();
  // One incremental truncation step: pages are written in the order of their oldest log record, until `bytes` of log are
  // free or a page with uncommitted changes stands in the way [RVM §5.1.2]. Returns the bytes reclaimed.
  std::uint64_t truncate_incrementally(std::uint64_t bytes);

  // Checks what is known in memory against everything else, for tests of this library and of layers above: throws
  // errc::damaged if an invariant does not hold. While no other thread uses this memory.
  void check() const;

  // [RVM §4.2 query]
  [[nodiscard]] std::vector<open_transaction> open_transactions(const region* in = nullptr) const;
  [[nodiscard]] statistics stats() const;
  // statistics::tracking.stray_writes alone. stats() looks for holds, which takes some 50 us.
  [[nodiscard]] std::uint64_t stray_writes() const;
  // The id of the transaction that has begun last since the memory was opened, in the log's records; 0: none has.
  [[nodiscard]] std::uint64_t last_transaction() const;
  [[nodiscard]] log_totals totals() const;
  [[nodiscard]] const recovery_report& recovery() const;
  // Of a memory that only reads: the transaction that was prepared when it was opened, of which it shows nothing.
  [[nodiscard]] const std::optional<prepared_transaction>& in_doubt() const;
  [[nodiscard]] const std::string& log_path() const;
  [[nodiscard]] tuning tune() const;
  void set_tuning(const tuning& how);

 private:
  std::unique_ptr<memory_state> state_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
