// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Truncation: moves committed changes to the segments so that log space can be used again [RVM §5.1.2].
//
// Truncation takes pages from the front of the page queue. It collects their newest committed values from the live log,
// writes and syncs them, and moves the head to where the queue then begins. A page on which an open transaction has
// declared a range stops an incremental truncation, as in the paper: the page is about to change again. An epoch
// truncation empties the whole log as it is, and nothing stops it.
//
// Both kinds take values from the synced log and never from memory, so undeclared and uncommitted writes cannot leak
// [rvm.truncation.from-log]. They write only pages that changed since they were last written, and only with their
// newest values. A page without a private copy shows the file, and the file must never go back to older values
// [rvm.truncation.forward].
//
// The order is [rvm.truncation.order]: write pages and checksums, and sync the segments; beside that, archive what will be
// truncated; move the head in the manifest; use the space again.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "records/archiver.hpp"
#include "records/page_queue.hpp"
#include "replay/redo.hpp"

namespace tenure::rvm {

struct truncator_settings {
  double threshold;
  std::uint64_t value_bytes;  // bytes for collected values
  std::size_t fewest_pages;   // least number of pages taken at a time
  bool background;
  archive_writer* archive;  // nullptr: truncated records are not kept
};

// What truncation needs from the memory that it belongs to.
class truncation_host {
 public:
  // The segment that a record names.
  virtual segment* find_segment(const segment_name& name) = 0;
  // The pages on which open transactions have declared ranges.
  [[nodiscard]] virtual page_set referenced_pages() = 0;
  // These pages are durable in their segments, so their private copies may be dropped.
  virtual void pages_written(const std::vector<dirty_page>& pages) noexcept = 0;
  // These pages are damaged, and part of them was overwritten.
  virtual void pages_damaged(const std::vector<page_ref>& pages) noexcept = 0;
  // A segment or the log's status could not be made durable. The memory must not continue.
  virtual void storage_failed(const error& why) = 0;

 protected:
  ~truncation_host() = default;
};

// Thread-safe.
class truncator final : public log_space {
 public:
  truncator(durable_log& log, page_queue& queue, counters& count, truncation_host& host, const truncator_settings& how);
  ~truncator();
  truncator(const truncator&) = delete;
  truncator& operator=(const truncator&) = delete;

  // log_space
  void make_room(std::uint64_t bytes) override;
  void appended() override { wake_if_due(); }

  // Makes incremental steps until `bytes` more of the log are free, or until a page blocks it. Returns how much was
  // freed.
  std::uint64_t incremental(std::uint64_t bytes);
  // Writes to the segments everything that was synced before the call: incrementally, or by an epoch if that is
  // blocked.
  void truncate_all();
  // Runs f while no truncation is in progress.
  void with_lock(const std::function<void()>& f);
  // Runs f if no truncation is in progress; otherwise does nothing.
  template <class F>
  void try_with_lock(F&& f) {
    if (const guard lock(mutex_, std::try_to_lock); lock) f();
  }
  // Requests truncation of everything that is synced: in the background, or in this call. Errors are reported to the
  // next caller that needs room.
  void request_truncation() noexcept;
  // Runs f while no truncation is in progress. f may write bulk runs to segments: before f runs, the log says durably
  // that it may have records of them.
  void with_lock_for_bulk(const std::function<void()>& f);

  void set_threshold(double part) noexcept { threshold_ = part; }
  // Starts a truncation if one is due: in the background, or in this call.
  void wake_if_due();
  // An open transaction that may have blocked truncation has ended.
  void note_unblocked() noexcept {
    if (blocked_.load(std::memory_order_relaxed)) wake();
  }
  void stop();

 private:
  using guard = std::unique_lock<std::mutex>;
  enum class outcome { done, blocked };

  void wake() noexcept;
  void run(const std::stop_token& stop);
  // Whether the next commits will soon need a file that the log does not have yet, although it is not as long as usual.
  [[nodiscard]] bool needs_space_ahead() const noexcept;
  // Makes it: commits go on meanwhile.
  void extend_ahead(const guard&);
  std::uint64_t incremental(const guard&, lsn until, outcome& how);
  // By truncation, and then by taking more space.
  void free_room(const guard&, std::uint64_t bytes);
  void epoch(const guard&);
  // After a failure nobody truncates any more, not even who waited for the lock meanwhile, or was woken before: the log's head may be
  // ahead of the queue, and would go back.
  void require_usable() const;
  void note_failure(const error& why);
  struct progress {
    std::uint64_t reclaimed = 0;
    bool blocked = false;  // a page that an open transaction has declared blocks it
    bool done = false;     // nothing was left to write
  };
  // Takes and writes pages up to `until`, as many as fit into memory.
  progress step(lsn until, bool even_referenced);
  // The work of the background thread when the threshold is passed: truncates down to half of it.
  void truncate_in_background(const guard&);
  segment_resolver resolver();

  durable_log& log_;
  page_queue& queue_;
  counters& count_;
  truncation_host& host_;
  const truncator_settings how_;

  std::mutex mutex_;  // the truncation lock: one truncation at a time
  std::optional<error> failure_;
  std::optional<archiver> archive_;
  std::size_t pages_at_once_;  // number of pages whose values fit into memory, learned from earlier steps

  std::mutex wake_mutex_;
  std::condition_variable_any wake_condition_;
  bool due_ = false, everything_due_ = false;
  std::atomic<double> threshold_;
  std::atomic<bool> blocked_{false};
  std::atomic<bool> cannot_extend_{false};  // nothing is made ahead any more

  std::jthread thread_;  // the last member: the thread stops before the others are destroyed
};

}  // namespace tenure::rvm
