// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatic tracking of a region: which pages are open.
//
// READ THIS BEFORE A CHANGE: on_write() and what it calls run in a signal handler. There are lock-free atomics, system calls,
// and the protection lock; no memory allocation, no exceptions.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "os/virtual_memory.hpp"
#include "regions/region_tracker.hpp"

namespace tenure::rvm {

namespace {

// Rough costs in ns, for choosing: what counts is the order of magnitude.
constexpr std::uint64_t arm_page = 55;      // a page in memory: first time under the kernel's notes, and two scans
constexpr std::uint64_t scan_page = 6;      // two scans, once it is
constexpr std::uint64_t flip_private = 90;  // changing the protection of a page that has its own copy
constexpr std::uint64_t flip_page = 2;      // or not
constexpr std::uint64_t private_scan_page = 80, compare_page = 400;  // twice
constexpr std::uint64_t close_run = 3'500;

}  // namespace

void region_tracker::on_stray_write(stray_write_judge judge, void* context) noexcept {
  judge_.store(nullptr, std::memory_order_release);
  judge_context_.store(context, std::memory_order_release);
  judge_.store(judge, std::memory_order_release);
}

// --- Opening ---------------------------------------------------------------------------------------------------------

os::write_trap::answer region_tracker::on_write(std::byte* at) noexcept {
  const page_number page = page_of(at);
  guard lock(protection_);
  // Another thread was faster, or the region is open as a whole and was closed for a moment.
  const auto is_open = [&] { return bulk_ != bulk::none || table_[page].open; };
  if (is_open()) return answer::resume;
  if (!host_.in_transaction.load(std::memory_order_acquire) && !host_.failed.load(std::memory_order_acquire)) {
    lock.unlock();  // what is called may never return
    const stray_write_judge judge = judge_.load(std::memory_order_acquire);
    if (judge == nullptr || !judge(judge_context_.load(std::memory_order_acquire), at)) {
      report(at, true);
      return answer::stray;
    }
    lock.lock();
    const bool opened = is_open() || open_run(lock, page, 1, host_.count.trapped_pages) || open_widely(lock, page);
    return opened ? answer::resume : answer::stray;
  }
  ++host_.count.traps;
  ++traps_;
  if (!open_run(lock, page, run_length(page), host_.count.trapped_pages) && !open_widely(lock, page))
    return answer::stray;
  if (mechanism_ == tracking_mechanism::choose && traps_ + debt_ >= next_look_) consider_bulk(lock);
  return answer::resume;
}

// How many pages to open, from this one on.
std::uint64_t region_tracker::run_length(page_number page) noexcept {
  if (mechanism_ == tracking_mechanism::traps || mechanism_ == tracking_mechanism::announced) return 1;
  run_length_ = page == run_end_ ? std::min(2 * run_length_, host_.limits.longest_run) : 1;
  // Scattered, and many, and the kernel offers nothing better.
  if (bulk_refused_ && mechanism_ == tracking_mechanism::choose && traps_ > host_.limits.longest_run)
    run_length_ =
        std::max<std::uint64_t>(run_length_, traps_ > 16 * host_.limits.longest_run ? host_.limits.longest_run : 16);
  return run_length_;
}

// Opens closed pages from `first` on, at most so many. They are listed before that: as soon as one is open any thread may
// write to it, and commit, without a trap [rvm.tracking.candidates].
bool region_tracker::open_run(const guard&, page_number first, std::uint64_t most, counter& opened) noexcept {
  most = std::min<std::uint64_t>(most, pages_ - first);
  page_number count = 1;
  while (count < most && !table_[first + count].open) ++count;
  const memory_range run = range_of(first, count);
  for (page_number page = first; page < first + count; ++page) opened_.add(page);
  if (os::protect(run.address, run.length, true) != 0) return false;
  for (page_number page = first; page < first + count; ++page) table_[page].open = true;
  opened += count;
  run_end_ = first + count;
  return true;
}

// The process has as many mappings as it may have. A larger part of the region may join its neighbours; the whole region is
// one mapping.
bool region_tracker::open_widely(const guard& lock, page_number page) noexcept {
  ++host_.count.widened_traps;
  const std::uint64_t first = page / host_.limits.longest_run * host_.limits.longest_run,
                      count = std::min<std::uint64_t>(host_.limits.longest_run, pages_ - first);
  const memory_range block = range_of(static_cast<page_number>(first), count);
  populated_ = pages_;
  const auto end = static_cast<page_number>(first + count);
  for (auto each = static_cast<page_number>(first); each < end; ++each)
    if (!table_[each].open) opened_.add(each);
  if (os::protect(block.address, block.length, true) != 0) return enter_bulk(lock, bulk::private_copies);
  for (auto each = static_cast<page_number>(first); each < end; ++each)
    host_.count.trapped_pages += !table_[each].open.exchange(true);
  return true;
}

// Whether to open the region as a whole: when the traps have cost as much as that would. Looks less and less often.
void region_tracker::consider_bulk(const guard& lock) noexcept {
  const std::uint64_t spent = (traps_ + debt_) * host_.limits.trap_cost, flips = 2 * flip_private * twins_.used();
  next_look_ = 2 * (traps_ + debt_);
  if (bulk_refused_ || spent < flips) return;
  const bool scan = !scan_refused_;
  const std::uint64_t each = !scan ? private_scan_page : kernel_notes_.is_on() ? scan_page : arm_page;
  const std::uint64_t most = (spent - flips) / (each + flip_page);
  std::uint64_t present = kernel_notes_.count_present(in_.base, in_.length, std::min<std::uint64_t>(most, pages_));
  if (present == ~std::uint64_t{0}) {  // not known: then all of them, and no notes
    scan_refused_ = true;
    bulk_refused_ = !os::knows_private_copies();
    present = pages_.load();
    if (bulk_refused_ || scan) return;
  }
  if (present >= most) return;
  populated_ = present;
  (void)enter_bulk(lock, scan ? bulk::scan : bulk::private_copies);
}

bool region_tracker::enter_bulk(const guard&, bulk wanted) noexcept {
  if (wanted == bulk::scan && !kernel_notes_.start(in_.base, in_.length)) {
    scan_refused_ = true;
    if (mechanism_ == tracking_mechanism::choose) return false;
    wanted = bulk::private_copies;
  }
  bulk_ = wanted;  // before anybody can write
  if (os::protect(in_.base, in_.length, true) != 0) {
    bulk_ = bulk::none;
    return false;
  }
  ++host_.count.bulk_switches;
  cheap_in_bulk_ = 0;
  return true;
}

void region_tracker::announce(std::byte* from, std::size_t length) {
  const page_number first = page_of(from), last = page_of(from + length - 1);
  const guard lock(protection_);
  if (bulk_ != bulk::none) return;
  for (page_number page = first; page <= last; ++page) {
    if (table_[page].open) continue;
    if (!open_run(lock, page, last - page + 1, host_.count.announced_pages) && !open_widely(lock, page))
      throw error(std::make_error_code(std::errc::not_enough_memory),
                  in_.segment_path + ": pages cannot be opened; raise vm.max_map_count");
    if (bulk_ != bulk::none) return;
  }
}

void region_tracker::open_untracked(std::byte* from, std::size_t length) {
  const page_number first = page_of(from);
  const auto count = static_cast<page_number>(length / page_size_);
  const guard lock(protection_);
  if (bulk_ == bulk::none && os::protect(from, length, true) != 0) {
    if (!enter_bulk(lock, bulk::private_copies))
      throw error(std::make_error_code(std::errc::not_enough_memory),
                  in_.segment_path + ": pages cannot be opened; raise vm.max_map_count");
  }
  for (page_number page = first; page < first + count; ++page) {
    table_[page].open = true;
    if (table_[page].untracked.exchange(true, std::memory_order_acq_rel)) continue;
    host_.count.untracked_pages += 1;
    ++untracked_;
  }
}

bool region_tracker::is_open_untracked(const std::byte* at) const noexcept {
  return table_[page_of(at)].untracked.load(std::memory_order_acquire);
}

// --- Closing ---------------------------------------------------------------------------------------------------------

std::uint64_t region_tracker::bulk_cost() const noexcept {
  return bulk_ == bulk::scan ? scan_page : private_scan_page + compare_page;
}

// Whether the page is hot from now on.
bool region_tracker::stays_open(tracked_page& page, bool written) noexcept {
  const std::uint32_t recent = host_.limits.hot_within, patience = host_.limits.hot_patience;
  const std::uint32_t last = page.last_changed;
  page.idle = written ? 0 : static_cast<std::uint8_t>(page.idle + 1);
  if (written) page.last_changed = transaction_;
  if (strict_) return false;
  switch (mechanism_) {
    case tracking_mechanism::choose:
      return written ? page.hot || (last != 0 && transaction_ - last <= recent) : page.hot && page.idle < patience;
    case tracking_mechanism::hot: return written || (page.hot && page.idle < patience);
    default: return false;
  }
}

// All that was compared is closed, but for what is hot.
void region_tracker::end() noexcept {
  found_.clear();
  const guard lock(protection_);
  debt_ = (debt_ + traps_) * 7 / 8;
  if (debt_ < host_.limits.first_look) next_look_ = host_.limits.first_look;
  if (bulk_ != bulk::none) return end_in_bulk(lock);
  const bool all_hot = std::ranges::all_of(hot_, [&](page_number page) { return table_[page].hot; });
  if (all_hot && open_.empty() && as_is_.empty() && in_bulk_.empty()) return;

  // What was opened after the comparison stays for the next one; but what participants logged as it is has been copied.
  const std::size_t compared = open_.size();
  try {
    opened_.take(open_);
    closing_.reserve(open_.size() + hot_.size());
    hot_.reserve(open_.size() + hot_.size());
  } catch (...) {
    return end_without_lists(lock);
  }
  const auto late =
      std::partition(open_.begin() + static_cast<std::ptrdiff_t>(compared), open_.end(), [&](page_number page) {
        return std::ranges::binary_search(as_is_, page) || std::ranges::binary_search(in_bulk_, page);
      });
  closing_.clear();
  closing_.insert(closing_.end(), open_.begin(), late);
  closing_.insert(closing_.end(), hot_.begin(), hot_.end());
  open_.erase(open_.begin(), late);
  hot_.clear();
  std::ranges::sort(closing_);
  closing_.erase(std::unique(closing_.begin(), closing_.end()), closing_.end());
  std::erase_if(closing_, [&](page_number page) {
    if (table_[page].untracked) {
      table_[page].hot = false;
      return true;
    }
    if (table_[page].hot) hot_.push_back(page);
    return table_[page].hot;
  });
  as_is_.clear();
  in_bulk_.clear();
  if (close(lock, closing_)) drop_restored(lock);
  closing_.clear();
  dropping_.clear();
}

// They have no twins: they show the file again.
void region_tracker::drop_restored(const guard& lock) noexcept {
  try {
    std::erase_if(dropping_, [&](page_number page) { return table_[page].open.load(); });
    drop(lock, dropping_);
  } catch (...) {  // only memory is not given back
  }
}

bool region_tracker::equals_file(page_number page) const noexcept {
  const tracked_page& p = table_[page];
  return !p.open && !p.untracked && !p.hot && p.twin == twin_store::none;
}

// Closed pages that equal the file, in ascending order, show it again. Anonymous ones do with all others of their extent: a
// mapping for each would be too many. [rvm.tracking.extent]
void region_tracker::drop(const guard&, std::span<const page_number> pages) {
  const std::size_t extent = host_.limits.extent;
  std::vector<os::page_run> runs;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::size_t at = std::size_t{pages[i]} * page_size_;
    if (!anonymous_.contains(at)) {
      os::append_page(runs, range_of(pages[i]).address, page_size_);
      continue;
    }
    const auto in_extent = [&](page_number page) { return page * page_size_ / extent == at / extent; };
    if (bulk_ != bulk::none || (i + 1 < pages.size() && in_extent(pages[i + 1]))) continue;
    std::size_t from = at / extent * extent;
    if (!anonymous_.contains(from)) from = anonymous_.end_of_run(from, at);
    const std::size_t to = anonymous_.end_of_run(at, at / extent * extent + extent);
    bool whole = true;
    for (std::size_t page = from / page_size_; page < to / page_size_ && whole; ++page)
      whole = equals_file(static_cast<page_number>(page));
    // Bytes that are not recoverable may have been written while the region was open as a whole, seen by nobody.
    if (!whole || pages_differ(in_.base + from, view_ + from, to - from)) continue;
    kernel_notes_.stop();  // they would not be of the new mapping
    try {
      in_.in->file().map_private_over(in_.base + from, in_.in->data_offset() + in_.offset + from, to - from, false);
    } catch (...) {  // too many mappings: only memory is not given back
      continue;
    }
    os::exclude_from_fork(in_.base + from, to - from);
    anonymous_.remove(from, to);
    host_.count.anonymous_pages -= (to - from) / page_size_;
  }
  os::drop_private_copies(runs);
}

void region_tracker::end_in_bulk(const guard& lock) noexcept {
  for (const auto* list : {&open_, &hot_})
    for (const page_number page : *list)
      if (!table_[page].untracked) table_[page].open = false;
  open_.clear();
  for (const candidate& c : candidates_)
    if (table_[c.page].hot) hot_.push_back(c.page);
  std::ranges::sort(hot_);
  hot_.erase(std::unique(hot_.begin(), hot_.end()), hot_.end());
  std::erase_if(hot_, [&](page_number page) {
    if (table_[page].untracked) table_[page].hot = false;
    return !table_[page].hot;
  });
  as_is_.clear();
  in_bulk_.clear();
  dropping_.clear();
  if (strict_ || (mechanism_ != tracking_mechanism::scan && mechanism_ != tracking_mechanism::private_copies &&
                  cheap_in_bulk_ >= host_.limits.bulk_patience))
    (void)close_region(lock);
}

// Closes pages, in ascending order; all, if that is cheaper or nothing else is possible. False if the region was opened as a
// whole instead.
bool region_tracker::close(const guard& lock, std::span<const page_number> pages) noexcept {
  std::size_t runs = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) runs += i == 0 || pages[i] != pages[i - 1] + 1;
  const std::uint64_t all = pages_ * flip_page + twins_.used() * flip_private + hot_.size() * host_.limits.trap_cost;
  if (untracked_ == 0 && open_.empty() && runs > 1 && runs * close_run > all) return close_region(lock);
  for (std::size_t i = 0, count; i < pages.size(); i += count) {
    for (count = 1; i + count < pages.size() && pages[i + count] == pages[i] + count; ++count) {
    }
    const memory_range run = range_of(pages[i], count);
    if (os::protect(run.address, run.length, false) != 0) return close_region(lock);
    for (std::size_t k = 0; k < count; ++k) table_[pages[i + k]].open = false;
  }
  return true;
}

// Closes the region as a whole; what must stay open is opened again.
bool region_tracker::close_region(const guard& lock) noexcept {
  if (os::protect(in_.base, in_.length, false) != 0) return false;
  bulk_ = bulk::none;
  for (const auto* list : {&closing_, &hot_})
    for (const page_number page : *list) {
      table_[page].open = table_[page].untracked.load();
      table_[page].hot = false;
    }
  try {
    opened_.take(open_);
  } catch (...) {
    end_without_lists(lock);
    return bulk_ == bulk::none;
  }
  hot_.clear();
  bool possible = true;
  for (const page_number page : open_)
    possible = possible && (!table_[page].open || os::protect(range_of(page).address, page_size_, true) == 0);
  return (possible && reopen_untracked(lock)) || !enter_bulk(lock, bulk::private_copies);
}

// After the region was closed as a whole.
bool region_tracker::reopen_untracked(const guard&) noexcept {
  for (page_number page = 0, left = untracked_ == 0 ? 0 : static_cast<page_number>(pages_); page < left;) {
    page_number count = 0;
    while (page + count < left && table_[page + count].untracked) ++count;
    if (const memory_range run = range_of(page, count); count != 0 && os::protect(run.address, run.length, true) != 0)
      return false;
    page += std::max<page_number>(count, 1);
  }
  return true;
}

// For want of memory: closes all by the table. What is listed as opened stays listed, and is compared by the next
// transaction.
void region_tracker::end_without_lists(const guard& lock) noexcept {
  for (const page_number page : open_) opened_.add(page);
  for (auto* list : {&open_, &hot_, &closing_, &dropping_, &as_is_, &in_bulk_}) list->clear();
  for (page_number page = 0, end = static_cast<page_number>(pages_); page < end; ++page)
    if (tracked_page& p = table_[page]; p.open || p.hot) {
      p.hot = false;
      p.open = p.untracked.load();
    }
  if (os::protect(in_.base, in_.length, false) == 0) {
    bulk_ = bulk::none;
    if (reopen_untracked(lock)) return;
  }
  (void)enter_bulk(lock, bulk::private_copies);
}

// --- Giving back -----------------------------------------------------------------------------------------------------

void region_tracker::page_written(std::uint64_t page) {
  const std::scoped_lock lock(written_mutex_);
  written_.push_back(page);
  has_written_.store(true, std::memory_order_release);
}

void region_tracker::forget(page_number page) noexcept {
  tracked_page& p = table_[page];
  if (p.twin == twin_store::none) return;
  twins_.give_back(p.twin);
  p.twin = twin_store::none;
  host_.count.twins -= 1;
}

void region_tracker::give_back_written() {
  std::vector<page_number> pages;
  {
    const std::scoped_lock lock(written_mutex_);
    for (const std::uint64_t page : written_)
      pages.push_back(static_cast<page_number>((page * redo_page - in_.offset) / page_size_));
    written_.clear();
    has_written_.store(false, std::memory_order_release);
  }
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  // Few at a time: writers wait.
  constexpr std::size_t at_once = 64;
  std::size_t dropped = 0;
  if (bulk_ == bulk::none) {
    for (std::size_t i = 0; i < pages.size(); i += at_once) {
      const guard lock(protection_);
      dropped += give_back(lock, std::span(pages).subspan(i, std::min(at_once, pages.size() - i)));
    }
  } else {
    // Who may write outside of transactions must not write to a page between its comparison and its end.
    const guard lock(protection_);
    if (os::protect(in_.base, in_.length, false) != 0) return;
    dropped = give_back(lock, pages);
    if (os::protect(in_.base, in_.length, true) != 0) bulk_ = bulk::none;
  }
  host_.count.pages_given_back += dropped;
  twins_.trim();
}

// Drops the copies of pages that equal the file, if they are closed, and if the file will stay as it is: no commit that
// changed the page is on its way there [rvm.tracking.give-back].
std::size_t region_tracker::give_back(const guard& lock, std::span<const page_number> pages) {
  std::vector<page_number> equal;
  const bool closed = bulk_ != bulk::none;  // as a whole, for this
  page_vector& status = in_.in->pages();
  for (const page_number page : pages) {
    const tracked_page& p = table_[page];
    if (p.untracked || p.hot || (p.open && !closed) || p.twin == twin_store::none) continue;
    const memory_range memory = range_of(page);
    bool settled = true;
    const std::uint64_t first = (in_.offset + page * page_size_) / redo_page;
    for (std::uint64_t redo = first; redo < first + std::max<std::uint64_t>(page_size_ / redo_page, 1); ++redo)
      settled = settled && status.last_batch(redo) <= host_.queue.published();
    if (!settled || pages_differ(memory.address, view_ + page * page_size_, page_size_)) continue;
    equal.push_back(page);
    forget(page);
  }
  drop(lock, equal);
  return equal.size();
}

}  // namespace tenure::rvm
