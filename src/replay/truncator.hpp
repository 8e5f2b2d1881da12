// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Truncation: moving committed changes to the segments so that log space can be used again [RVM §5.1.2].
//
// Pages are taken from the front of the page queue, their newest committed values collected from the live log, written and
// synced, and the head moved to where the queue then begins. An incremental truncation is stopped by a page on which an
// open transaction has declared a range, as in the paper: it is about to change again. An epoch truncation empties the
// whole log as it is and is stopped by nothing. Both take what they write from the synced log and never from memory, so
// undeclared and uncommitted writes cannot leak [rvm.truncation.from-log]; and only pages that changed since they were
// last written are written, with nothing but their newest values: a page without a private copy shows the file, which must
// not go back, not for a moment [rvm.truncation.forward].
//
// Order [rvm.truncation.order]: pages and checksums written, segments synced, what is truncated archived, then the head moved
// in the status block, then the space used again.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "records/archive_writer.hpp"
#include "records/page_queue.hpp"
#include "replay/redo.hpp"

namespace tenure::rvm {

struct truncator_settings {
  double threshold;
  std::uint64_t value_bytes;  // bytes for collected values
  std::size_t fewest_pages;   // taken at a time
  bool background;
  archive_writer* archive;  // nullptr: what is truncated is forgotten
};

// What truncation needs from the memory it belongs to.
class truncation_host {
 public:
  // The segment that a record names.
  virtual segment* find_segment(const segment_name& name) = 0;
  // Those on which open transactions have declared ranges.
  [[nodiscard]] virtual page_set referenced_pages() = 0;
  // These pages are durable in their segments: their private copies may be dropped.
  virtual void pages_written(const std::vector<dirty_page>& pages) noexcept = 0;
  // These pages are damaged: part of them was overwritten.
  virtual void pages_damaged(const std::vector<page_ref>& pages) noexcept = 0;
  // A segment or the log's status could not be made durable: the memory must not go on.
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
  void empty(const std::function<void()>& f) override;

  // Incremental steps until `bytes` more of log are free, or a page is in the way. Returns what was reclaimed.
  std::uint64_t incremental(std::uint64_t bytes);
  // Everything that was synced before the call goes to the segments: incrementally, and by epoch where that is blocked.
  void everything();
  // Runs f while no truncation is in progress.
  void exclusively(const std::function<void()>& f);
  // The same, or nothing if one is.
  template <class F>
  void if_idle(F&& f) {
    if (const guard lock(mutex_, std::try_to_lock); lock) f();
  }
  // Has everything truncated that is synced: in the background, or here. Errors are reported by whoever next needs room.
  void request_truncation() noexcept;
  // The same, for who writes extents to segments: the log says first, durably, that it may have records of them.
  void with_lock_for_bulk(const std::function<void()>& f);

  void set_threshold(double part);
  // An open transaction has ended that may have been in the way.
  void note_unblocked() noexcept {
    if (blocked_.load(std::memory_order_relaxed)) wake();
  }
  void stop();

 private:
  using guard = std::unique_lock<std::mutex>;
  enum class outcome { done, blocked };

  void wake() noexcept;
  // Truncates, or has the background do it, if that is due.
  void wake_if_due();
  void run(const std::stop_token& stop);
  std::uint64_t incremental(const guard&, lsn until, outcome& how);
  void epoch(const guard&);
  struct progress {
    std::uint64_t reclaimed = 0;
    bool blocked = false;  // by a page that an open transaction has declared
    bool done = false;     // nothing was left to write
  };
  // Takes as many pages up to `until` as memory suffices for, and writes them.
  progress step(lsn until, bool even_referenced);
  // What the background does: down from above the threshold.
  void truncate_in_background(const guard&);
  segment_resolver resolver();

  durable_log& log_;
  page_queue& queue_;
  counters& count_;
  truncation_host& host_;
  const truncator_settings how_;

  std::mutex mutex_;           // the truncation lock: one truncation at a time
  std::size_t pages_at_once_;  // so many pages' values fit into memory, by experience

  std::mutex wake_mutex_;
  std::condition_variable_any wake_condition_;
  bool due_ = false, everything_due_ = false;
  std::atomic<double> threshold_;
  std::atomic<bool> blocked_{false};

  std::jthread thread_;  // last: stops before the rest goes
};

}  // namespace tenure::rvm
