// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// READ THIS BEFORE A CHANGE: on_write() and what it calls run in a signal handler. They use lock-free atomics and system
// calls. They allocate no memory and throw nothing.
#include "regions/page_traps.hpp"

#include <algorithm>

#include "log/invariant.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t close_run = 3'500;  // ns: closing some pages that are next to each other

}  // namespace

void page_traps::begin() noexcept {
  traps_ = 0;
  run_length_ = 1;
  run_end_ = 0;
}

std::uint64_t page_traps::cost_to_start(std::uint64_t present) const noexcept {
  return present * flip_page + pages_.before_images * flip_private;
}

std::uint64_t page_traps::cost(std::uint64_t, std::uint64_t written) const noexcept {
  return written * limits_.trap_cost;
}

// --- Opening ---------------------------------------------------------------------------------------------------------

bool page_traps::on_write(const protection_guard&, page_number page) noexcept {
  ++count_.traps;
  ++traps_;
  return open_run(page, run_length(page), count_.trapped_pages) || open_widely(page);
}

bool page_traps::open_single(const protection_guard&, page_number page) noexcept {
  return open_run(page, 1, count_.trapped_pages) || open_widely(page);
}

bool page_traps::announce(const protection_guard&, page_number first, page_number count) noexcept {
  const page_number end = first + count;
  for (page_number page = first; page < end; ++page) {
    if (!pages_[page].open && !open_run(page, end - page, count_.announced_pages) && !open_widely(page)) return false;
    if (resting_.is_resting(page)) pages_.opened.add(page);
  }
  return true;
}

// How many pages to open, from this one on.
std::uint64_t page_traps::run_length(page_number page) noexcept {
  if (runs_ == run_rule::single) return 1;
  run_length_ = page == run_end_ ? std::min(2 * run_length_, limits_.longest_run) : 1;
  if (many_ && traps_ > limits_.longest_run)
    run_length_ = std::max<std::uint64_t>(run_length_, traps_ > 16 * limits_.longest_run ? limits_.longest_run : 16);
  return run_length_;
}

// Opens closed pages from `first` on, at most so many. They are listed before that: as soon as one is open any thread may
// write to it, and commit, without a trap [rvm.tracking.candidates].
bool page_traps::open_run(page_number first, std::uint64_t most, counter& opened) noexcept {
  most = std::min<std::uint64_t>(most, pages_.count - first);
  page_number count = 1;
  while (count < most && !pages_[first + count].open) ++count;
  const memory_range run = pages_.range_of(first, count);
  for (page_number page = first; page < first + count; ++page) pages_.opened.add(page);
  if (os::protect(run.address, run.length, os::access::read_write) != 0) return false;
  for (page_number page = first; page < first + count; ++page) pages_[page].open = true;
  opened += count;
  run_end_ = first + count;
  return true;
}

// The process has as many mappings as it may have. A larger part of the region may join its neighbours.
bool page_traps::open_widely(page_number page) noexcept {
  ++count_.widened_traps;
  const std::uint64_t first = page / limits_.longest_run * limits_.longest_run,
                      count = std::min<std::uint64_t>(limits_.longest_run, pages_.count - first);
  const memory_range block = pages_.range_of(static_cast<page_number>(first), count);
  const auto end = static_cast<page_number>(first + count);
  for (auto each = static_cast<page_number>(first); each < end; ++each)
    if (!pages_[each].open) pages_.opened.add(each);
  if (os::protect(block.address, block.length, os::access::read_write) != 0) return false;
  for (auto each = static_cast<page_number>(first); each < end; ++each)
    count_.trapped_pages += !pages_[each].open.exchange(true);
  return true;
}

bool page_traps::find(std::vector<page_number>& written) {
  pages_.opened.take(open_);
  written.insert(written.end(), open_.begin(), open_.end());
  closing_.reserve(open_.size() + hot_.list().size());
  return true;
}

// --- Closing ---------------------------------------------------------------------------------------------------------

bool page_traps::close_compared(const protection_guard& lock, std::span<const page_number> copied,
                                std::span<const page_number> in_bulk) noexcept {
  const bool all_hot = std::ranges::all_of(hot_.list(), [&](page_number page) { return pages_[page].hot; });
  if (all_hot && open_.empty() && copied.empty()) {
    if (resting_.is_used()) resting_.rest({});
    return true;
  }

  // What was opened after the comparison stays open for the next one.
  const std::size_t compared = open_.size();
  try {
    pages_.opened.take(open_);
    closing_.reserve(open_.size() + hot_.list().size());
    hot_.reserve(open_.size() + hot_.list().size());
    if (resting_.is_used()) resting_.reserve(open_.size());
  } catch (...) {
    return start_without_lists();
  }
  const auto late = std::partition(open_.begin() + static_cast<std::ptrdiff_t>(compared), open_.end(),
                                   [&](page_number page) { return std::ranges::binary_search(copied, page); });
  closing_.assign(open_.begin(), late);
  open_.erase(open_.begin(), late);
  closing_.insert(closing_.end(), hot_.list().begin(), hot_.list().end());
  hot_.update(closing_);
  std::ranges::sort(closing_);
  closing_.erase(std::unique(closing_.begin(), closing_.end()), closing_.end());
  std::erase_if(closing_, [&](page_number page) { return pages_[page].untracked || pages_[page].hot; });
  if (resting_.is_used()) {
    const auto to_close = std::stable_partition(
        closing_.begin(), closing_.end(), [&](page_number page) { return !std::ranges::binary_search(in_bulk, page); });
    resting_.rest({closing_.begin(), to_close});
    closing_.erase(closing_.begin(), to_close);
  }
  const bool done = close(lock, closing_);
  closing_.clear();
  return done;
}

bool page_traps::close_resting(const protection_guard& lock, std::span<const page_number> pages) noexcept {
  try {
    closing_.assign(pages.begin(), pages.end());
  } catch (...) {
    return true;
  }
  std::erase_if(closing_, [&](page_number page) { return !resting_.is_resting(page) || pages_[page].listed; });
  const bool done = close(lock, closing_);
  closing_.clear();
  return done;
}

// Closes pages, in ascending order. Closes the whole region if that is cheaper, or if nothing else is possible.
bool page_traps::close(const protection_guard& lock, std::span<const page_number> pages) noexcept {
  std::size_t runs = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) runs += i == 0 || pages[i] != pages[i - 1] + 1;
  const std::uint64_t all = cost_to_start(pages_.count) + hot_.list().size() * limits_.trap_cost;
  if (pages_.untracked == 0 && open_.empty() && !resting_.is_used() && runs > 1 && runs * close_run > all)
    return start(lock);
  for (std::size_t i = 0, count; i < pages.size(); i += count) {
    for (count = 1; i + count < pages.size() && pages[i + count] == pages[i] + count; ++count) {
    }
    const memory_range run = pages_.range_of(pages[i], count);
    if (os::protect(run.address, run.length, os::access::read_only) != 0) return start(lock);
    for (std::size_t k = 0; k < count; ++k) {
      pages_[pages[i + k]].open = false;
      resting_.wake(pages[i + k]);
    }
  }
  return true;
}

// Closes the region as a whole, and opens again what must be open.
bool page_traps::start(const protection_guard&) noexcept {
  const memory_range all = pages_.all();
  if (os::protect(all.address, all.length, os::access::read_only) != 0) return false;
  for (const page_number page : closing_) pages_[page].open = pages_[page].untracked.load();
  for (const page_number page : hot_.list()) pages_[page].open = pages_[page].untracked.load();
  hot_.clear();
  resting_.clear();
  try {
    pages_.opened.take(open_);
  } catch (...) {
    return start_without_lists();
  }
  for (const page_number page : open_)
    if (const memory_range single = pages_.range_of(page);
        pages_[page].open && os::protect(single.address, single.length, os::access::read_write) != 0)
      return false;
  return reopen_untracked();
}

// After the region was closed as a whole.
bool page_traps::reopen_untracked() noexcept {
  for (page_number page = 0, end = pages_.untracked == 0 ? 0 : static_cast<page_number>(pages_.count); page < end;) {
    page_number count = 0;
    while (page + count < end && pages_[page + count].untracked) ++count;
    if (const memory_range run = pages_.range_of(page, count);
        count != 0 && os::protect(run.address, run.length, os::access::read_write) != 0)
      return false;
    page += std::max<page_number>(count, 1);
  }
  return true;
}

// For want of memory: closes all pages by the table. What is listed as opened stays listed, and is compared by the next
// transaction.
bool page_traps::start_without_lists() noexcept {
  for (const page_number page : open_) pages_.opened.add(page);
  open_.clear();
  closing_.clear();
  hot_.clear();
  resting_.clear();
  for (page_number page = 0, end = static_cast<page_number>(pages_.count); page < end; ++page)
    if (tracked_page& p = pages_[page]; p.open || p.hot) {
      p.hot = false;
      p.open = p.untracked.load();
    }
  const memory_range all = pages_.all();
  return os::protect(all.address, all.length, os::access::read_only) == 0 && reopen_untracked();
}

void page_traps::forget_open() noexcept {
  for (const page_number page : open_)
    if (!pages_[page].untracked) pages_[page].open = false;
  for (const page_number page : hot_.list())
    if (!pages_[page].untracked) pages_[page].open = false;
  open_.clear();
  resting_.clear();
}

void page_traps::check() const {
  for (page_number page = 0; page < pages_.count; ++page) {
    const tracked_page& p = pages_[page];
    if (!p.open || p.untracked) continue;
    // [rvm.tracking.candidates]
    require_invariant(p.listed || p.hot || p.resting || std::ranges::find(open_, page) != open_.end(),
                      "an open page is listed, and will be compared, or rests");
  }
}

}  // namespace tenure::rvm
