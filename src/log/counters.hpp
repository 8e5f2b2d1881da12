// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The counters behind tenure::rvm::statistics: written by many threads, read at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tenure::rvm {

// Relaxed: counters do not order other accesses.
class counter {
 public:
  void operator+=(std::uint64_t n) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  void operator++() noexcept { *this += 1; }
  [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void raise_to(std::uint64_t n) noexcept {
    auto now = get();
    while (now < n && !value_.compare_exchange_weak(now, n, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A counter that can also go down.
class gauge : public counter {
 public:
  void operator-=(std::uint64_t n) noexcept { *this += ~n + 1; }
};

// One thread at a time writes it, so it needs no locked instruction.
class single_writer_counter {
 public:
  void operator+=(std::uint64_t n) noexcept { *this = get() + n; }
  void operator++() noexcept { *this += 1; }
  void operator=(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Counts the nanoseconds that a scope takes.
class scoped_timer {
 public:
  explicit scoped_timer(counter& in) : in_(in) {}
  ~scoped_timer() {
    in_ += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - began_) / std::chrono::nanoseconds(1));
  }
  scoped_timer(const scoped_timer&) = delete;
  scoped_timer& operator=(const scoped_timer&) = delete;

 private:
  counter& in_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// The names are those of tenure::rvm::statistics.
struct counters {
  counter aborts, batches, log_bytes_written, log_used_max, log_grown;
  counter inter_transactions_saved, inter_bytes_saved, ranges_logged, bytes_logged;
  counter incremental_truncations, epoch_truncations, incremental_bytes_reclaimed, epoch_bytes_reclaimed;
  counter truncation_blocked, truncation_waits, pages_written, segment_bytes_written, segment_syncs, status_writes;
  counter private_pages_dropped, private_pages_kept, undeclared_writes, damaged_pages;
  counter bulk_runs, bulk_bytes, cleared_bytes;
  counter archived_log_bytes, archive_bytes_written;
  counter flush_calls, truncate_calls, write_ns, truncation_ns;
  struct tracking_part {  // as in tracking_statistics
    counter commits, aborts, traps, trapped_pages, announced_pages, hot_pages_compared, scans, scanned_pages;
    counter private_scans, private_pages_compared, whole_openings, widened_traps, compared_pages, changed_pages;
    counter changed_ranges, changed_bytes, before_images_made, pages_given_back, stray_writes, unseen_stores,
        audited_pages;
    gauge before_images, untracked_pages, anonymous_pages;
  } tracking;
};

}  // namespace tenure::rvm
