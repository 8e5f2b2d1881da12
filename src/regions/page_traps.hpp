// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages are closed (read-only) at rest. The first write to one comes to on_write(), which opens it, and perhaps pages behind
// it. What is open is a candidate, and is closed again when the transaction ends [Hosking §2.2, EPVM §6.2.1].
#pragma once

#include <span>
#include <vector>

#include "log/counters.hpp"
#include "records/thresholds.hpp"
#include "regions/hot_pages.hpp"
#include "regions/resting_pages.hpp"
#include "regions/write_finder.hpp"

namespace tenure::rvm {

class page_traps final : public write_finder {
 public:
  // How many pages a trap opens.
  enum class run_rule : std::uint8_t {
    single,
    growing,  // twice as many as the one before, if it is next to it
  };

  page_traps(tracked_pages& pages, hot_pages& hot, resting_pages& resting, run_rule runs,
             counters::tracking_part& count, const thresholds& limits)
      : pages_(pages), hot_(hot), resting_(resting), runs_(runs), count_(count), limits_(limits) {}

  // A transaction begins.
  void begin() noexcept;
  // No other mechanism is better, however many traps there are: runs become longer. With the protection lock.
  void expect_many() noexcept { many_ = true; }
  [[nodiscard]] std::uint64_t traps() const noexcept { return traps_; }  // in this transaction
  // Opens one page, which counts as no trap of a transaction. With the protection lock.
  [[nodiscard]] bool open_single(const protection_guard&, page_number page) noexcept;

  // The transaction has ended: closes all pages that were compared, but for those that are hot, and for all with barriers.
  // `copied`, in ascending order, have been copied since, and count as compared. Of these, `in_bulk` are closed with barriers,
  // too. Returns false if the system refuses.
  [[nodiscard]] bool close_compared(const protection_guard&, std::span<const page_number> copied,
                                    std::span<const page_number> in_bulk) noexcept;
  // Closes those of these pages that rest, in ascending order. Returns false if the system refuses.
  [[nodiscard]] bool close_resting(const protection_guard&, std::span<const page_number> pages) noexcept;
  // The region is open as a whole, and all its pages have been compared: none is open by itself.
  void forget_open() noexcept;
  // Whether it may have been written. For want of memory, instead of find().
  [[nodiscard]] bool may_be_written(page_number page) const noexcept { return pages_[page].open || pages_[page].hot; }
  // Throws if an invariant does not hold.
  void check() const;

  [[nodiscard]] bool closes_pages() const noexcept override { return true; }
  bool start(const protection_guard&) noexcept override;
  bool on_write(const protection_guard&, page_number page) noexcept override;
  bool announce(const protection_guard&, page_number first, page_number count) noexcept override;
  // What participants have made candidates of, too, in tracked_pages::opened. Where another mechanism is used, these are left.
  bool find(std::vector<page_number>& written) override;
  [[nodiscard]] std::uint64_t cost_to_start(std::uint64_t present) const noexcept override;
  [[nodiscard]] std::uint64_t cost(std::uint64_t present, std::uint64_t written) const noexcept override;

 private:
  [[nodiscard]] bool open_run(page_number first, std::uint64_t most, counter& opened) noexcept;
  [[nodiscard]] bool open_widely(page_number page) noexcept;
  [[nodiscard]] std::uint64_t run_length(page_number page) noexcept;
  [[nodiscard]] bool close(const protection_guard&, std::span<const page_number> pages) noexcept;
  [[nodiscard]] bool reopen_untracked() noexcept;
  [[nodiscard]] bool start_without_lists() noexcept;

  tracked_pages& pages_;
  hot_pages& hot_;
  resting_pages& resting_;
  const run_rule runs_;
  counters::tracking_part& count_;
  const thresholds& limits_;

  // With the protection lock.
  std::uint64_t traps_ = 0;
  std::uint64_t run_end_ = 0, run_length_ = 1;  // of the last run
  bool many_ = false;

  // With the automatic right.
  std::vector<page_number> open_;  // taken from pages_.opened, and not closed yet
  std::vector<page_number> closing_;
};

}  // namespace tenure::rvm
