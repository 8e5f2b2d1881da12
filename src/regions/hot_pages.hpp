// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages that stay open between transactions because they are written again and again. They are compared at every begin and
// commit. For 587 such pages a comparison at begin took 95 us; a trap for each in every transaction would take 480 us.
// With the automatic right.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "records/thresholds.hpp"
#include "regions/tracked_pages.hpp"

namespace tenure::rvm {

class hot_pages {
 public:
  enum class rule : std::uint8_t {
    none,           // no page is hot
    written_twice,  // within a few transactions
    every_written,
  };

  hot_pages(tracked_pages& pages, rule when, const thresholds& limits) : pages_(pages), when_(when), limits_(limits) {}

  [[nodiscard]] const std::vector<page_number>& list() const noexcept { return list_; }
  // update() of so many more pages needs no memory then.
  void reserve(std::size_t more) { list_.reserve(list_.size() + more); }

  // In ns: comparing so many pages, at begin and commit.
  [[nodiscard]] static constexpr std::uint64_t cost(std::uint64_t pages) noexcept { return 400 * pages; }
  // Whether a page that the transaction has written would be hot if others were trapped. Before note().
  [[nodiscard]] bool would_be_hot(page_number page, std::uint32_t transaction) const noexcept {
    const std::uint32_t last = pages_[page].last_changed;
    return when_ != rule::none && last != 0 && transaction - last <= limits_.hot_within;
  }

  // The transaction with this number has ended, and has written the page, or not: decides whether the page is hot.
  void note(page_number page, bool written, std::uint32_t transaction) noexcept {
    tracked_page& p = pages_[page];
    const bool often = written && would_be_hot(page, transaction), was_hot = p.hot;
    note_cold(page, written, transaction);
    p.hot = when_ != rule::none && (often || (written && when_ == rule::every_written) ||
                                    (was_hot && (written || p.idle < limits_.hot_patience)));
  }
  // The same where writes to closed pages are not trapped: no page is hot. A note of the kernel costs less than the two
  // comparisons: with hot pages, building OO1 with 1 M parts took a quarter longer.
  void note_cold(page_number page, bool written, std::uint32_t transaction) noexcept {
    tracked_page& p = pages_[page];
    p.idle = written ? 0 : static_cast<std::uint8_t>(p.idle + 1);
    if (written) p.last_changed = transaction;
    p.hot = false;
  }
  // The page is hot, whatever was noted.
  void keep(page_number page) noexcept {
    if (when_ == rule::written_twice) pages_[page].hot = true;
  }
  // The list after these notes: pages of the old one and of `noted` that are hot. reserve() comes first.
  void update(std::span<const page_number> noted) noexcept {
    list_.insert(list_.end(), noted.begin(), noted.end());
    std::ranges::sort(list_);
    list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
    std::erase_if(list_, [&](page_number page) {
      if (pages_[page].untracked) pages_[page].hot = false;
      return !pages_[page].hot;
    });
  }
  // None is hot any more.
  void clear() noexcept {
    for (const page_number page : list_) pages_[page].hot = false;
    list_.clear();
  }

 private:
  tracked_pages& pages_;
  const rule when_;
  const thresholds& limits_;
  std::vector<page_number> list_;  // ascending
};

}  // namespace tenure::rvm
