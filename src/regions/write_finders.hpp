// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The mechanisms that find writes to a region (write_finder.hpp), and the choice among them: traps at first; another one,
// with the region open, when the traps have cost as much as changing to it would; traps again, when these would have served
// better for many transactions in a row.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include <tenure/rvm/map_options.hpp>

#include "log/counters.hpp"
#include "records/thresholds.hpp"
#include "regions/hot_pages.hpp"
#include "regions/kernel_notes.hpp"
#include "regions/page_traps.hpp"
#include "regions/private_scan.hpp"
#include "regions/resting_pages.hpp"

namespace tenure::rvm {

// With the automatic right, but for what says otherwise.
class write_finders {
 public:
  write_finders(tracked_pages& pages, const map_options& how, counters::tracking_part& count, const thresholds& limits);

  // A transaction begins.
  void begin();
  // Makes `candidates` all pages that may differ from the committed image, in ascending order: when a transaction begins,
  // those that may have been written since the last one, or when it ends.
  // With barriers, when it commits, not those that announced_before() has, which are also among them when it aborts.
  enum class moment { begin, commit, abort };
  void gather(std::vector<page_number>& candidates, moment when);
  // With barriers: the pages, in ascending order, and their cards, with stores that were announced to the transaction before. What
  // was announced then may have been written since [rvm.barriers.twice].
  [[nodiscard]] std::span<const announced_page> announced_before() const noexcept {
    return resting_.announced_before();
  }
  // To this transaction or the one before, of a word of cards.
  [[nodiscard]] std::uint64_t announced_cards(page_number page, std::size_t word) const noexcept {
    return pages_.announced_cards(page, word).load(std::memory_order_acquire) | resting_.cards_before(page, word);
  }
  // It was open before this transaction, so that no write to it was trapped, and is not audited.
  [[nodiscard]] bool is_wholly_announced(page_number page) const noexcept {
    return !is_open_whole() && resting_.is_resting(page) && !resting_.is_audited(page);
  }
  // The page was compared although no write to it was announced.
  [[nodiscard]] bool is_audited(page_number page) const noexcept { return resting_.is_audited(page); }
  // The same for one page, for want of memory.
  [[nodiscard]] bool may_be_written(page_number page) const noexcept {
    return is_open_whole() || traps_.may_be_written(page);
  }
  // What was gathered before the transaction began has been put right.
  void compared_at_rest() noexcept { used()->compared(); }
  // The transaction has ended, and has written the page, or not: decides whether the page stays open.
  void note(page_number page, bool written, std::uint32_t transaction) noexcept;
  // The page will probably be written by the next transaction, too.
  void keep_open(page_number page) noexcept;
  // A participant has announced changes of the page, which are in no comparison.
  void note_announced(page_number page, std::uint32_t transaction) noexcept;
  // The transaction has committed, and has written so many pages: decides whether traps would have served better.
  void note_commit(std::uint64_t written) noexcept;
  // The transaction has ended: what was gathered is as committed, and so are the pages `copied`, in ascending order. `noted`
  // are the pages that were noted. `in_bulk`, some of `copied`, will hardly be written soon. Returns whether pages are closed
  // now.
  bool end(std::span<const page_number> noted, std::span<const page_number> copied,
           std::span<const page_number> in_bulk) noexcept;

  // Any thread. Opens pages. Returns false if the system refuses.
  [[nodiscard]] bool announce(page_number first, page_number count) noexcept;
  [[nodiscard]] bool open_untracked(page_number first, page_number count) noexcept;
  // With barriers, any thread, also in a signal handler: bytes [from, to) of the page are about to be written. A page that is
  // closed is opened, or left to the trap.
  enum class if_closed { open, leave };
  void store_announced(page_number page, std::size_t from, std::size_t to, if_closed how) noexcept;
  // Whether their card was announced already, since the page was compared last; false if there are several.
  [[nodiscard]] bool has_been_announced(page_number page, std::size_t from, std::size_t to) const noexcept {
    if (!pages_[page].listed.load(std::memory_order_relaxed)) return false;
    const std::size_t card = pages_.cards.card_of(from);
    if (card == pages_.cards.card_of(to - 1))
      return (pages_.announced_cards(page, card / 64).load(std::memory_order_relaxed) >> card % 64 & 1) != 0;
    return false;
  }
  // With the protection lock, pages in ascending order. With barriers: closes those that need not be open.
  // Returns false if the system refuses: the region is open as a whole then.
  [[nodiscard]] bool close_resting(const protection_guard& lock, std::span<const page_number> pages) noexcept {
    if (is_open_whole() || !resting_.is_used() || traps_.close_resting(lock, pages)) return true;
    (void)open_whole_at_last(lock);
    return false;
  }

  // In the fault handler, with the protection lock. Whether a write to the page must not be trapped: it is open.
  [[nodiscard]] bool is_open(page_number page) const noexcept { return is_open_whole() || pages_[page].open; }
  [[nodiscard]] bool on_write(const protection_guard& lock, page_number page) noexcept;
  // A write that belongs to no transaction.
  [[nodiscard]] bool open_single(const protection_guard& lock, page_number page) noexcept;

  // The region is open as a whole.
  [[nodiscard]] bool is_open_whole() const noexcept { return used() != &traps_; }
  // With the protection lock: such a region is closed for a moment, and opened again.
  [[nodiscard]] bool close_for_a_moment(const protection_guard&) noexcept;
  void open_again(const protection_guard&) noexcept;
  // With the protection lock. The region has grown behind its first `old` pages; the new ones are writable. 0 or an errno.
  [[nodiscard]] int grow(const protection_guard&, std::uint64_t old) noexcept;
  // With the protection lock. Pages of the region are about to be mapped anew, or the region is about to be unmapped: stops the
  // mechanisms that belong to the mapping.
  void stop() noexcept;

  void check() const;

 private:
  [[nodiscard]] write_finder* used() const noexcept { return used_.load(std::memory_order_acquire); }
  [[nodiscard]] bool open_whole(const protection_guard&, write_finder& with) noexcept;
  [[nodiscard]] bool open_whole_at_last(const protection_guard&) noexcept;
  void consider_opening_whole(const protection_guard&) noexcept;
  [[nodiscard]] std::uint64_t count_present(std::uint64_t most) noexcept;
  [[nodiscard]] write_finder* forced(tracking_mechanism mechanism) noexcept;

  tracked_pages& pages_;
  counters::tracking_part& count_;
  const thresholds& limits_;
  const bool chooses_;
  const bool strict_;

  hot_pages hot_;
  resting_pages resting_;
  page_traps traps_;
  kernel_notes notes_;
  private_scan copies_;
  // Those with an open region, in the order in which they are tried. The last one can always be started.
  const std::array<write_finder*, 2> whole_{&notes_, &copies_};
  write_finder* const forced_;                // one of them, from the first transaction on; or nullptr
  std::array<bool, 2> refused_{};             // by the system; with the protection lock
  std::atomic<write_finder*> used_{&traps_};  // changed with the protection lock

  // For choosing, with the protection lock: traps of earlier transactions, which fade; at how many to look next.
  std::uint64_t debt_ = 0, next_look_;
  std::uint64_t present_ = 0;            // pages in memory when they were last counted
  std::uint32_t since_count_ = 0;        // transactions, while the region is open as a whole
  std::uint64_t trapped_if_closed_ = 0;  // pages of this transaction that traps would have found
  std::uint32_t cheaper_closed_ = 0;     // transactions in a row that traps would have served better
};

}  // namespace tenure::rvm
