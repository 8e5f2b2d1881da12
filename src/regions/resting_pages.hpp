// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages that stay open at rest, and are compared only when a store to them was announced (tenure/barriers.hpp). Trusting
// announcements has two dangers, and this class has what is done about each.
//
// An announcement precedes its store. A commit may come between, compare the page too early, and take the announcement for
// dealt with. So the cards that were announced are compared once more by the next transaction [rvm.barriers.twice].
//
// Stores may be unseen: made by code that announces nothing. Those beside an announced one are found, because whole pages are
// compared. For the others, commits audit resting pages: each page at the first commits after it was opened, and some in turn
// later; all of them in checking mode [rvm.barriers.audit].
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <tenure/rvm/map_options.hpp>

#include "records/thresholds.hpp"
#include "regions/tracked_pages.hpp"

namespace tenure::rvm {

// A page with announced stores, and which cards they are to, of a word of them.
struct announced_page {
  page_number page;
  std::uint32_t word;
  std::uint64_t cards;
  // As in a list.
  [[nodiscard]] std::uint64_t place() const noexcept { return place_of(page, word); }
  [[nodiscard]] static std::uint64_t place_of(page_number page, std::size_t word) noexcept {
    return std::uint64_t{page} << 32 | word;
  }
};

// With the automatic right. What changes the flags of pages takes the protection lock, too.
class resting_pages {
 public:
  resting_pages(tracked_pages& pages, write_barriers mode, const thresholds& limits)
      : pages_(pages), mode_(mode), limits_(limits) {}

  // Whether pages rest at all.
  [[nodiscard]] bool is_used() const noexcept { return mode_ != write_barriers::none; }
  [[nodiscard]] bool is_resting(page_number page) const noexcept { return pages_[page].resting; }
  [[nodiscard]] std::span<const announced_page> announced_before() const noexcept { return last_; }
  // Of the page, in announced_before().
  [[nodiscard]] std::uint64_t cards_before(page_number page, std::size_t word) const noexcept {
    const std::uint64_t place = announced_page::place_of(page, word);
    const auto at = std::ranges::lower_bound(last_, place, {}, &announced_page::place);
    return at != last_.end() && at->place() == place ? at->cards : 0;
  }

  // `candidates` are the pages that were announced to the transaction that ends. Adds what is to be audited beside them.
  void add_audited(std::vector<page_number>& candidates) {
    const auto mark = [&](bool yes) {
      for (const page_number page : candidates) pages_[page].marked = yes;
      if (mode_ == write_barriers::checking) return;  // all are audited
      for (const announced_page& each : last_) pages_[each.page].marked = yes;
    };
    mark(true);
    audit_.clear();
    try {
      choose_for_audit();
    } catch (...) {
      mark(false);
      throw;
    }
    mark(false);
    candidates.insert(candidates.end(), audit_.begin(), audit_.end());
    std::ranges::sort(audit_);
  }
  [[nodiscard]] std::size_t audited() const noexcept { return audit_.size(); }
  // Whether the page is compared although no store to it was announced.
  [[nodiscard]] bool is_audited(page_number page) const noexcept { return std::ranges::binary_search(audit_, page); }

  // rest() of so many pages needs no memory then.
  void reserve(std::size_t more) {
    resting_.reserve(resting_.size() + more);
    opened_.reserve(opened_.size() + more);
    last_.reserve(more * pages_.cards.words());
  }
  // These pages, in ascending order, were written, and have been compared. They stay open, if they are: what was opened after
  // the comparison may have been closed since.
  void rest(std::span<const page_number> written) noexcept {
    std::erase_if(opened_, [&](const opened_page& each) { return each.audits >= limits_.audits_at_first; });
    last_.clear();
    for (const page_number page : written) {
      tracked_page& p = pages_[page];
      if (!p.open) continue;
      for (std::uint32_t word = 0; word < pages_.cards.words(); ++word)
        if (const std::uint64_t cards = pages_.announced_cards(page, word).exchange(0, std::memory_order_acq_rel))
          last_.push_back({page, word, cards});
      if (!p.resting) opened_.push_back({page, 0});
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
    opened_.clear();
    last_.clear();
    next_ = 0;
  }

 private:
  struct opened_page {
    page_number page;
    std::uint32_t audits;  // it has had
  };

  void choose_for_audit() {
    const bool all = mode_ == write_barriers::checking;
    const auto add = [&](page_number page) {
      tracked_page& p = pages_[page];
      if (!p.resting || p.marked) return;
      audit_.push_back(page);
      p.marked = true;
    };
    try {
      if (!all)
        for (opened_page& each : opened_) {
          const tracked_page& p = pages_[each.page];
          if (!p.resting) each.audits = limits_.audits_at_first;
          if (!p.resting || p.marked) continue;
          add(each.page);
          ++each.audits;
        }
      if (all || ++commits_ % limits_.audit_every == 0) audit_in_turn(all ? resting_.size() : 1, add);
    } catch (...) {
      for (const page_number page : audit_) pages_[page].marked = false;
      throw;
    }
    for (const page_number page : audit_) pages_[page].marked = false;
  }
  // Pages that rest no more leave the list.
  void audit_in_turn(std::size_t count, const auto& add) {
    for (; count != 0 && !resting_.empty(); --count) {
      if (next_ >= resting_.size()) next_ = 0;
      const page_number page = resting_[next_];
      if (pages_[page].resting) {
        add(page);
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
  const thresholds& limits_;
  std::vector<page_number> resting_;  // and some that rest no more; each once
  std::vector<opened_page> opened_;   // a short while ago
  std::vector<announced_page> last_;  // to the last transaction, by place
  std::vector<page_number> audit_;    // by this transaction, ascending
  std::size_t next_ = 0;              // of resting_, to be audited
  std::uint64_t commits_ = 0;
};

}  // namespace tenure::rvm
