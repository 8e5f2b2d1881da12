// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/write_finders.hpp"

#include <algorithm>
#include <utility>

#include "log/invariant.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

namespace {

hot_pages::rule hot_rule(const map_options& how) {
  if (how.tracking_strict || how.barriers != write_barriers::none) return hot_pages::rule::none;
  switch (how.force_mechanism) {
    case tracking_mechanism::choose: return hot_pages::rule::written_twice;
    case tracking_mechanism::hot: return hot_pages::rule::every_written;
    default: return hot_pages::rule::none;
  }
}

page_traps::run_rule run_rule(const map_options& how) {
  const bool single = how.force_mechanism == tracking_mechanism::traps ||
                      how.force_mechanism == tracking_mechanism::announced || how.barriers != write_barriers::none;
  return single ? page_traps::run_rule::single : page_traps::run_rule::growing;
}

}  // namespace

write_finders::write_finders(tracked_pages& pages, const map_options& how, counters::tracking_part& count,
                             const thresholds& limits)
    : pages_(pages),
      count_(count),
      limits_(limits),
      chooses_(how.force_mechanism == tracking_mechanism::choose && how.barriers == write_barriers::none),
      strict_(how.tracking_strict),
      hot_(pages, hot_rule(how), limits),
      resting_(pages, how.barriers, limits),
      traps_(pages, hot_, resting_, run_rule(how), count, limits),
      notes_(pages, count),
      copies_(pages, count),
      forced_(how.barriers == write_barriers::none ? forced(how.force_mechanism) : nullptr),
      next_look_(limits.first_look) {}

write_finder* write_finders::forced(tracking_mechanism mechanism) noexcept {
  switch (mechanism) {
    case tracking_mechanism::scan: return &notes_;
    case tracking_mechanism::private_copies: return &copies_;
    default: return nullptr;
  }
}

// --- A transaction ---------------------------------------------------------------------------------------------------

void write_finders::begin() {
  const protection_guard lock(pages_.protection);
  traps_.begin();
  if (forced_ != nullptr && !is_open_whole() && !open_whole(lock, *forced_)) (void)open_whole_at_last(lock);
}

void write_finders::gather(std::vector<page_number>& candidates, moment when) {
  candidates.clear();
  (void)traps_.find(candidates);
  if (write_finder* const whole = used(); whole != &traps_) {
    const auto use_last = [&] {
      const protection_guard lock(pages_.protection);
      whole->compared();
      used_ = whole_.back();
    };
    bool found = false;
    try {
      found = whole->find(candidates);
    } catch (...) {  // out of memory; the kernel may have told already, and does not tell again
      use_last();
      throw;
    }
    if (!found) {
      use_last();
      (void)used()->find(candidates);
    }
  }
  if (resting_.is_used() && when != moment::begin) {
    resting_.add_audited(candidates);
    count_.audited_pages += resting_.audited();
    if (when == moment::abort)
      for (const announced_page& each : resting_.announced_before()) candidates.push_back(each.page);
  }
  candidates.insert(candidates.end(), hot_.list().begin(), hot_.list().end());
  count_.hot_pages_compared += hot_.list().size();
  std::ranges::sort(candidates);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  std::erase_if(candidates, [&](page_number page) { return pages_[page].untracked.load(std::memory_order_acquire); });
  hot_.reserve(candidates.size());
}

void write_finders::note(page_number page, bool written, std::uint32_t transaction) noexcept {
  if (written && !hot_.would_be_hot(page, transaction)) ++trapped_if_closed_;
  if (is_open_whole())
    hot_.note_cold(page, written, transaction);
  else
    hot_.note(page, written, transaction);
}

// Opening and closing such a page in each transaction that makes an object took half of the transaction's time.
void write_finders::note_announced(page_number page, std::uint32_t transaction) noexcept {
  if (!is_open_whole()) hot_.note(page, true, transaction);
}

void write_finders::keep_open(page_number page) noexcept {
  if (!is_open_whole()) hot_.keep(page);
}

// With traps, pages that are written again and again would be hot.
void write_finders::note_commit(std::uint64_t written) noexcept {
  const protection_guard lock(pages_.protection);
  // A region that was opened early has more pages in memory later. Counting them costs as much as a scan.
  constexpr std::uint32_t transactions_a_count = 32;
  if (is_open_whole() && ++since_count_ == transactions_a_count) {
    since_count_ = 0;
    present_ = count_present(pages_.count);
  }
  const std::uint64_t closed = traps_.cost(present_, std::exchange(trapped_if_closed_, 0)) + hot_pages::cost(written);
  const bool closed_is_cheaper = closed < used()->cost(present_, written);
  cheaper_closed_ = closed_is_cheaper ? cheaper_closed_ + 1 : 0;
}

bool write_finders::end(std::span<const page_number> noted, std::span<const page_number> copied,
                        std::span<const page_number> in_bulk) noexcept {
  const protection_guard lock(pages_.protection);
  used()->compared();
  debt_ = (debt_ + traps_.traps()) * 7 / 8;
  if (debt_ < limits_.first_look) next_look_ = limits_.first_look;
  bool closed = true;
  if (is_open_whole()) {
    traps_.forget_open();
    hot_.update(noted);
    if (!strict_ && (forced_ != nullptr || cheaper_closed_ < limits_.whole_patience)) return false;
    // If the system refuses, the region stays open, and the mechanism in use: what is written must be found.
    const memory_range all = pages_.all();
    if (!close_for_a_moment(lock)) {
      (void)os::protect(all.address, all.length, os::access::read_write);
      return false;
    }
    used_ = &traps_;
    closed = traps_.start(lock);
  } else {
    closed = traps_.close_compared(lock, copied, in_bulk);
  }
  if (!closed) (void)open_whole_at_last(lock);
  return closed;
}

// --- Opening ---------------------------------------------------------------------------------------------------------

bool write_finders::on_write(const protection_guard& lock, page_number page) noexcept {
  if (!traps_.on_write(lock, page)) return open_whole_at_last(lock);
  if (chooses_ && traps_.traps() + debt_ >= next_look_) consider_opening_whole(lock);
  return true;
}

bool write_finders::open_single(const protection_guard& lock, page_number page) noexcept {
  return traps_.open_single(lock, page) || open_whole_at_last(lock);
}

bool write_finders::announce(page_number first, page_number count) noexcept {
  const protection_guard lock(pages_.protection);
  return used()->announce(lock, first, count) || open_whole_at_last(lock);
}

// A page that is listed is compared when this transaction ends, and once more when the next one does
// [rvm.barriers.twice].
void write_finders::store_announced(page_number page, std::size_t from, std::size_t to, if_closed how) noexcept {
  tracked_page& p = pages_[page];
  // The cards come first: who finds the page listed finds its cards, too.
  pages_.cards.for_each_word(from, to, [&](std::size_t word, std::uint64_t cards) {
    std::atomic<std::uint64_t>& announced = pages_.announced_cards(page, word);
    if ((~announced.load(std::memory_order_relaxed) & cards) != 0) announced.fetch_or(cards, std::memory_order_acq_rel);
  });
  if (p.listed.load(std::memory_order_relaxed) || p.untracked.load(std::memory_order_relaxed)) return;
  if (p.open.load(std::memory_order_acquire)) return pages_.opened.add(page);
  if (how == if_closed::leave || is_open_whole()) return;
  // A signal handler may have interrupted the lock's holder.
  if (const protection_guard lock(pages_.protection, std::try_to_lock); lock && !is_open(page))
    (void)(traps_.announce(lock, page, 1) || open_whole_at_last(lock));
}

bool write_finders::open_untracked(page_number first, page_number count) noexcept {
  const protection_guard lock(pages_.protection);
  const memory_range run = pages_.range_of(first, count);
  if (!is_open_whole() && os::protect(run.address, run.length, os::access::read_write) != 0 &&
      !open_whole_at_last(lock))
    return false;
  for (page_number page = first; page < first + count; ++page) {
    pages_[page].open = true;
    if (pages_[page].untracked.exchange(true, std::memory_order_acq_rel)) continue;
    count_.untracked_pages += 1;
    ++pages_.untracked;
  }
  return true;
}

// Opens the region, and uses this mechanism.
bool write_finders::open_whole(const protection_guard& lock, write_finder& with) noexcept {
  if (!with.start(lock)) {
    refused_[static_cast<std::size_t>(std::ranges::find(whole_, &with) - whole_.begin())] = true;
    return false;
  }
  used_ = &with;  // before anybody can write without a trap
  const memory_range all = pages_.all();
  if (os::protect(all.address, all.length, os::access::read_write) != 0) {
    used_ = &traps_;
    return false;
  }
  ++count_.whole_openings;
  cheaper_closed_ = since_count_ = 0;
  return true;
}

// Nothing else is possible: a region with one protection is one mapping.
bool write_finders::open_whole_at_last(const protection_guard& lock) noexcept {
  present_ = pages_.count;
  return open_whole(lock, *whole_.back());
}

// When the traps have cost as much as opening the region as a whole would. Looks less and less often.
void write_finders::consider_opening_whole(const protection_guard& lock) noexcept {
  const std::uint64_t traps = traps_.traps() + debt_, spent = traps * limits_.trap_cost;
  const std::uint64_t flips = 2 * flip_private * pages_.before_images;
  next_look_ = 2 * traps;
  if (spent < flips) return;
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    if (refused_[i] || !whole_[i]->is_worth_choosing()) continue;
    const std::uint64_t most = (spent - flips) / (whole_[i]->cost_to_start(1) + flip_page);
    const std::uint64_t present = count_present(std::min<std::uint64_t>(most, pages_.count));
    if (present >= most) return;
    present_ = present;
    (void)open_whole(lock, *whole_[i]);
    return;
  }
  traps_.expect_many();
}

// All, if nobody can tell.
std::uint64_t write_finders::count_present(std::uint64_t most) noexcept {
  for (write_finder* const each : whole_)
    if (const std::uint64_t present = each->count_present(most); present != write_finder::unknown) return present;
  return pages_.count;
}

bool write_finders::close_for_a_moment(const protection_guard&) noexcept {
  const memory_range all = pages_.all();
  return os::protect(all.address, all.length, os::access::read_only) == 0;
}

void write_finders::open_again(const protection_guard& lock) noexcept {
  const memory_range all = pages_.all();
  if (os::protect(all.address, all.length, os::access::read_write) == 0) return;
  used_ = &traps_;
  (void)traps_.start(lock);
}

// --- Other mappings --------------------------------------------------------------------------------------------------

int write_finders::grow(const protection_guard& lock, std::uint64_t old) noexcept {
  for (write_finder* const each : whole_)  // what is not used just now belongs to the mapping as it was
    if (each != used()) each->stop();
  if (is_open_whole()) {
    // Building a store grows it again and again. When the notes ended with each growth, everything private was compared
    // in every transaction from then on: quadratic time.
    if (!used()->grow(lock)) used_ = whole_.back();
    return 0;
  }
  const memory_range fresh = pages_.range_of(static_cast<page_number>(old), pages_.count - old);
  return os::protect(fresh.address, fresh.length, os::access::read_only);
}

void write_finders::stop() noexcept {
  for (write_finder* const each : whole_) each->stop();
}

void write_finders::check() const {
  if (!is_open_whole()) traps_.check();
  for (const page_number page : hot_.list()) require_invariant(pages_[page].hot, "the list of hot pages has hot ones");
}

}  // namespace tenure::rvm
