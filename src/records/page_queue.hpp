// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The queue of dirty pages, in the order in which they must be written so that the log's head can move [RVM §5.1.2,
// fig. 7]. A page is in the queue at most once. Its LSN is that of the first batch that has made it dirty since it was
// last written.
//
// Invariant [rvm.queue.covers]: consider every record from the log's head to the end of the last published batch. It
// changes only pages that are queued with an LSN not beyond its own batch, or pages that a truncation in progress has
// taken. The log may be longer for a moment, until its newest batch is published.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "log/durable_log.hpp"
#include "records/batch.hpp"
#include "records/log_reader.hpp"
#include "records/page_references.hpp"

namespace tenure::rvm {

struct dirty_page {
  segment* in;
  std::uint64_t page;
  lsn since;
};

// Consecutive pages of a segment.
struct page_run {
  segment* in;
  std::uint64_t page, pages;
};

// Thread-safe.
class page_queue {
 public:
  // The log is empty.
  explicit page_queue(const durable_log& log) : log_(log), end_(log.window().tail), last_group_(end_) {}

  // The live part of the log whose pages are queued.
  [[nodiscard]] log_part covered() const;
  // A batch that was written at `at` is durable. Its pages become dirty, and the live part now ends at `tail`.
  void publish(const batch& written, lsn at, lsn tail, lsn last_group);
  // The head stays there, or before, whatever is written: a transaction is prepared [rvm.prepared.log].
  void keep_from(lsn at);
  void keep_nothing() { keep_from(~lsn{0}); }
  // The number of the last published batch.
  [[nodiscard]] std::uint64_t published() const { return published_.load(std::memory_order_acquire); }

  // Whether all committed changes of the page are in its segment.
  [[nodiscard]] bool is_in_segment(const page_ref& page) const;

  // The transaction is writing these pages straight to their segments. Older records of these pages must not be written
  // from now on, until the transaction's bulk runs are in the live part of the log [rvm.bulk.masked].
  void mask(std::uint64_t transaction, std::uint32_t generation, std::span<const bulk_run> runs);
  // The transaction commits in this batch.
  void mask_until(std::uint64_t transaction, std::uint64_t batch);
  // The transaction does not commit: no batch has anything of it.
  void unmask(std::uint64_t transaction) noexcept;

  struct taken {
    std::vector<dirty_page> pages;  // in queue order; they count as clean now
    std::vector<page_run> masked;   // pages whose bulk write has no record yet
    log_part log;                   // covered() at that time: its records have all changes of the pages
    bool blocked = false;           // stopped at a page that an open transaction has declared
  };
  // Takes pages from the front of the queue: those that keep the head below `until`, at most `most`, and only up to the
  // first page that is in `except`. One truncation at a time takes some. If it throws, nothing was taken.
  [[nodiscard]] taken take(lsn until, std::size_t most, const page_set& except);
  // Whether the head can move without writing any page.
  [[nodiscard]] bool can_advance(const log_part& in) const { return next_head(in.to) > in.from; }
  // Undoes the last take(): nothing was written.
  void put_back(const taken& what) noexcept;
  // Where the log's head can be once the taken pages are durable in their segments.
  [[nodiscard]] lsn head_after(const taken& what) const { return next_head(what.log.to); }

  // Throws if an invariant does not hold.
  void check() const;

 private:
  [[nodiscard]] lsn next_head(lsn at_most) const;
  [[nodiscard]] std::span<dirty_page> queued() { return std::span(queue_).subspan(first_); }
  [[nodiscard]] std::span<const dirty_page> queued() const { return std::span(queue_).subspan(first_); }

  const durable_log& log_;
  mutable std::mutex mutex_;
  lsn end_, last_group_;
  lsn kept_ = ~lsn{0};
  // From first_ on; before it is what was taken last, so that it can be put back without memory, and what was taken before.
  std::vector<dirty_page> queue_;
  std::size_t first_ = 0;
  struct bulk_mask {
    page_run run;
    std::uint64_t transaction;
    std::uint32_t generation;  // of the log
    std::uint64_t batch;       // 0: it has not committed
  };
  std::vector<bulk_mask> masks_;
  std::atomic<std::uint64_t> published_{0};
};

}  // namespace tenure::rvm
