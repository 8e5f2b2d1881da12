// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages that stay open at rest, and are compared only when a store to them was announced (tenure/barriers.hpp). Trusting
// announcements has two dangers, and this class has what is done about each.
//
// An announcement precedes its store. A commit may come between, compare the page too early, and take the announcement for
// dealt with. So the pages that were announced are compared once more by the next transaction [rvm.barriers.twice].
//
// Stores may be unseen: made by code that announces nothing. So every commit audits some of the resting pages in turn, all of
// them in checking mode [rvm.barriers.audit].
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <tenure/rvm/map_options.hpp>

#include "records/thresholds.hpp"
#include "regions/tracked_pages.hpp"

namespace tenure::rvm {

// With the automatic right. What changes the flags of pages takes the protection lock, too.
class resting_pages {
 public:
  resting_pages(tracked_pages& pages, write_barriers mode, const thresholds& limits)
      : pages_(pages), mode_(mode), audited_(mode == write_barriers::checking ? all : limits.audited_pages) {}

  // Whether pages rest at all.
  [[nodiscard]] bool is_used() const noexcept { return mode_ != write_barriers::none; }
  [[nodiscard]] bool is_resting(page_number page) const noexcept { return pages_[page].resting; }

  // `candidates` are the pages that were announced to the transaction that ends. Adds what is to be compared beside them.
  void add_candidates(std::vector<page_number>& candidates) {
    candidates.insert(candidates.end(), last_.begin(), last_.end());
    const auto mark = [&](bool yes) {
      for (const page_number page : candidates) pages_[page].marked = yes;
    };
    mark(true);
    audit_.clear();
    try {
      choose_for_audit();
      mark(false);
      candidates.insert(candidates.end(), audit_.begin(), audit_.end());
    } catch (...) {
      mark(false);
      throw;
    }
    std::ranges::sort(audit_);
  }
  // Whether a change of the page was not announced.
  [[nodiscard]] bool is_unseen(page_number page) const noexcept {
    return std::ranges::binary_search(audit_, page) && !pages_[page].listed;
  }

  // rest() of so many pages needs no memory then.
  void reserve(std::size_t more) {
    resting_.reserve(resting_.size() + more);
    last_.reserve(more);
  }
  // These pages were announced, and have been compared. They stay open.
  void rest(std::span<const page_number> announced) noexcept {
    last_.assign(announced.begin(), announced.end());
    for (const page_number page : announced) {
      tracked_page& p = pages_[page];
      p.resting = true;
      if (!p.in_resting) resting_.push_back(page);
      p.in_resting = true;
    }
  }
  // The page is closed, or belongs to another mechanism.
  void wake(page_number page) noexcept { pages_[page].resting = false; }
  // The region was closed, or opened, as a whole: no page is open by itself.
  void clear() noexcept {
    for (const page_number page : resting_) {
      tracked_page& p = pages_[page];
      if (p.resting) p.open = p.untracked.load();
      p.resting = p.in_resting = false;
    }
    resting_.clear();
    last_.clear();
    next_ = 0;
  }

 private:
  static constexpr std::size_t all = ~std::size_t{0};

  void choose_for_audit() {
    for (std::size_t left = std::min(audited_, resting_.size()); left != 0 && !resting_.empty(); --left) {
      if (next_ >= resting_.size()) next_ = 0;
      const page_number page = resting_[next_];
      if (pages_[page].resting) {
        if (!pages_[page].marked) audit_.push_back(page);
        ++next_;
      } else {
        pages_[page].in_resting = false;
        resting_[next_] = resting_.back();
        resting_.pop_back();
      }
    }
  }

  tracked_pages& pages_;
  const write_barriers mode_;
  const std::size_t audited_;         // pages a transaction
  std::vector<page_number> resting_;  // and some that rest no more; each once
  std::vector<page_number> last_;     // announced to the last transaction
  std::vector<page_number> audit_;    // by this transaction, ascending
  std::size_t next_ = 0;              // of resting_, to be audited
};

}  // namespace tenure::rvm
