// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatic tracking of a region: finding what has changed, and what becomes of it. Which pages are open: region_traps.cpp.
#include "regions/region_tracker.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "log/invariant.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

region_tracker::region_tracker(tracking_host& host, region_state& in, const map_options& how)
    : host_(host),
      in_(in),
      mechanism_(how.force_mechanism),
      strict_(how.tracking_strict),
      page_size_(os::page_size()),
      pages_(in.length / page_size_),
      table_(in.capacity / page_size_),
      next_look_(host.limits.first_look) {
  parts_.reserve(page_size_ / 16);  // as many as there can be, with a gap of a word each: aborts need no more
  if (in.capacity / page_size_ >= ~page_number{0})
    throw error(errc::bad_option, in.segment_path + ": regions of so many pages cannot be tracked automatically");
  view_ = static_cast<std::byte*>(os::reserve_address_space(nullptr, in.capacity));
  in.in->file().map_private_over(view_, in.in->data_offset() + in.offset, in.length, false);
  os::exclude_from_fork(view_, in.length);
  os::advise_by_size(view_, in.length);
  // Once a page has been written, the kernel joins the parts again into which protections split the mapping.
  os::make_private(in.base);
  const guard lock(protection_);
  if (const int code = os::protect(in.base, in.length, false); code != 0) {
    os::unmap(view_, in.capacity);
    throw error(std::error_code(code, std::generic_category()), in.segment_path + ": the region cannot be protected");
  }
  os::page_run first{in.base, page_size_};
  os::drop_private_copies({&first, 1});
}

void region_tracker::release() noexcept {
  if (view_ == nullptr) return;  // it has been called; the host may be gone
  kernel_notes_.stop();
  os::unmap(view_, in_.capacity);
  view_ = nullptr;
  host_.count.twins -= twins_.used();
  host_.count.untracked_pages -= untracked_.exchange(0);
  anonymous_.for_each(
      [&](std::uint64_t from, std::uint64_t to) { host_.count.anonymous_pages -= (to - from) / page_size_; });
  anonymous_.clear();
  twins_.release();
  table_.release();
}

void region_tracker::grow(std::size_t length, bool anonymous) {
  const std::size_t old = pages_ * page_size_;
  in_.in->file().map_private_over(view_ + old, in_.in->data_offset() + in_.offset + old, length - old, false);
  os::exclude_from_fork(view_ + old, length - old);
  const guard lock(protection_);
  kernel_notes_.stop();  // they are of the mapping as it was, also where they are not used just now
  if (bulk_ != bulk::none) {
    bulk_ = bulk::private_copies;
  } else if (const int code = os::protect(in_.base + old, length - old, false); code != 0) {
    throw error(std::error_code(code, std::generic_category()), in_.segment_path + ": the region cannot be protected");
  }
  if (anonymous) {
    anonymous_.add(old, length);
    host_.count.anonymous_pages += (length - old) / page_size_;
  }
  pages_ = length / page_size_;
}

page_number region_tracker::page_of(const std::byte* at) const noexcept {
  return static_cast<page_number>(static_cast<std::size_t>(at - in_.base) / page_size_);
}

memory_range region_tracker::range_of(page_number page, std::uint64_t count) const noexcept {
  return {in_.base + page * page_size_, static_cast<std::size_t>(count) * page_size_};
}

const std::byte* region_tracker::committed_image(page_number page) const noexcept {
  const std::uint32_t twin = table_[page].twin;
  return twin != twin_store::none ? twins_[twin] : view_ + page * page_size_;
}

// The committed image of the page is what memory holds now. twins_.reserve() comes first.
void region_tracker::remember(page_number page) noexcept {
  tracked_page& p = table_[page];
  if (p.twin == twin_store::none) {
    p.twin = twins_.take();
    ++host_.count.twins_made;
    host_.count.twins += 1;
  }
  std::memcpy(twins_[p.twin], range_of(page).address, page_size_);
}

// --- Candidates ------------------------------------------------------------------------------------------------------

// All pages that may differ from the committed image.
void region_tracker::gather() {
  opened_.take(open_);
  gathered_.clear();
  if (bulk_.load(std::memory_order_acquire) != bulk::none) gather_in_bulk();
  gathered_.insert(gathered_.end(), found_.begin(), found_.end());
  gathered_.insert(gathered_.end(), open_.begin(), open_.end());
  gathered_.insert(gathered_.end(), hot_.begin(), hot_.end());
  host_.count.hot_pages_compared += hot_.size();
  std::ranges::sort(gathered_);
  gathered_.erase(std::unique(gathered_.begin(), gathered_.end()), gathered_.end());
  std::erase_if(gathered_, [&](page_number page) { return table_[page].untracked.load(std::memory_order_acquire); });
}

// Of those the kernel keeps no notes while they are hot: to compare 587 pages at begin, too, took 95 us, and the faults of
// writing to them once in every transaction 480.
std::vector<os::page_run> region_tracker::hot_runs() const {
  std::vector<os::page_run> runs;
  for (const page_number page : hot_) os::append_page(runs, range_of(page).address, page_size_);
  return runs;
}

// Adds to found_: the kernel forgets what it has told, and a commit may have to be tried again.
void region_tracker::gather_in_bulk() {
  const auto add = [&](const os::page_run& run) {
    const page_number first = page_of(run.address);
    for (std::uint64_t i = 0; i < run.length / page_size_; ++i) found_.push_back(first + static_cast<page_number>(i));
  };
  if (bulk_ == bulk::scan) {
    ++host_.count.scans;
    const auto use_private_copies = [&] {
      const guard lock(protection_);
      bulk_ = bulk::private_copies;
    };
    try {
      std::vector<os::page_run> written;
      if (kernel_notes_.collect(written, hot_runs())) {
        const std::size_t before = found_.size();
        for (const os::page_run& run : written) add(run);
        host_.count.scanned_pages += found_.size() - before;
        return;
      }
    } catch (...) {  // out of memory; the kernel may have told already, and does not tell again
      use_private_copies();
      throw;
    }
    use_private_copies();
  }
  ++host_.count.private_scans;
  found_.clear();
  os::for_each_private_copy(in_.base, in_.length, add);
  host_.count.private_pages_compared += found_.size();
}

// Leaves in stretches_ what of the page is to be logged. Returns whether anything of it differs.
bool region_tracker::recoverable_differences(page_number page) {
  const std::byte* const now = range_of(page).address;
  const std::byte* const then = committed_image(page);
  stretches_.clear();
  if (!difference_.compare(now, then, page_size_)) return false;
  if (change_filter* const filter = filter_) {
    parts_.clear();
    filter->recoverable_parts(range_of(page), parts_);
    for (const memory_range& part : parts_)
      difference_.add_stretches(static_cast<std::uint32_t>(part.address - now),
                                static_cast<std::uint32_t>(part.end() - now), stretches_);
  } else {
    difference_.add_stretches(0, static_cast<std::uint32_t>(page_size_), stretches_);
  }
  return true;
}

void region_tracker::report(const std::byte* at, bool trapped) const {
  if (host_.observer)
    host_.observer({at, in_.segment_path.c_str(), in_.offset + static_cast<std::uint64_t>(at - in_.base), trapped});
}

// A page that was open between transactions. What is recoverable on it must be as the last transaction left it; the rest may
// have changed, and an abort will restore it to what it is now. Returns whether there was a stray write.
bool region_tracker::look_at_rest(page_number page) {
  if (!recoverable_differences(page)) return false;
  std::byte* const now = range_of(page).address;
  const std::byte* const then = committed_image(page);
  const bool stray = !stretches_.empty();
  if (stray) report(now + stretches_.front().from, false);
  for (const stretch& s : stretches_) std::memcpy(now + s.from, then + s.from, s.to - s.from);
  if (filter_ != nullptr) {
    twins_.reserve(1);
    remember(page);
  }
  return stray;
}

// --- A transaction ---------------------------------------------------------------------------------------------------

std::size_t region_tracker::begin(std::uint32_t transaction) {
  transaction_ = transaction;
  {
    const guard lock(protection_);
    traps_ = 0;
    run_length_ = 1;
    run_end_ = 0;
    const bool scan = mechanism_ == tracking_mechanism::scan;
    if ((scan || mechanism_ == tracking_mechanism::private_copies) && bulk_ == bulk::none)
      (void)enter_bulk(lock, scan ? bulk::scan : bulk::private_copies);
  }
  gather();
  std::size_t stray = 0;
  for (const page_number page : gathered_) stray += look_at_rest(page);
  host_.count.stray_writes += stray;
  found_.clear();
  return stray;
}

void region_tracker::collect(std::vector<memory_range>& changes) {
  candidates_.clear();
  as_is_.clear();
  in_bulk_.clear();
  gather();
  new_twins_ = 0;
  for (const page_number page : gathered_) {
    const auto first = static_cast<std::uint32_t>(changes.size());
    const bool differs = recoverable_differences(page);
    std::uint64_t bytes = 0;
    for (const stretch& s : stretches_) {
      changes.push_back({range_of(page).address + s.from, s.to - s.from});
      bytes += s.to - s.from;
    }
    candidates_.push_back({page, differs, first, static_cast<std::uint32_t>(stretches_.size())});
    new_twins_ += differs && table_[page].twin == twin_store::none;
    ++host_.count.compared_pages;
    if (stretches_.empty()) continue;
    ++host_.count.changed_pages;
    host_.count.changed_ranges += stretches_.size();
    host_.count.changed_bytes += bytes;
  }
  twins_.reserve(new_twins_);
  closing_.reserve(open_.size() + hot_.size());
  dropping_.reserve(gathered_.size());
  hot_.reserve(gathered_.size() + hot_.size());
}

void region_tracker::log_as_is(std::byte* from, std::size_t length) {
  const page_number first = page_of(from), last = page_of(from + length - 1);
  twins_.reserve(new_twins_ + as_is_.size() + in_bulk_.size() + last - first + 1);
  for (page_number page = first; page <= last; ++page)
    if (as_is_.empty() || as_is_.back() != page) as_is_.push_back(page);
  announce(from, length);
}

void region_tracker::written_in_bulk(std::byte* from, std::size_t length) {
  const page_number first = page_of(from), last = page_of(from + length - 1);
  twins_.reserve(new_twins_ + as_is_.size() + in_bulk_.size() + last - first + 1);
  dropping_.reserve(gathered_.size() + in_bulk_.size() + last - first + 1);
  for (page_number page = first; page <= last; ++page) in_bulk_.push_back(page);
  announce(from, length);
}

void region_tracker::committed(std::span<const memory_range> changes) noexcept {
  std::uint64_t written = 0;
  for (const candidate& c : candidates_) {
    tracked_page& page = table_[c.page];
    if (c.differs) {
      ++written;
      if (page.twin == twin_store::none || filter_ != nullptr) {
        remember(c.page);
      } else {
        const std::byte* const now = range_of(c.page).address;
        for (const memory_range& change : changes.subspan(c.first, c.count))
          std::memcpy(twins_[page.twin] + (change.address - now), change.address, change.length);
      }
    }
    page.hot = stays_open(page, c.differs) && bulk_ != bulk::private_copies;
  }
  const std::size_t fresh = track_new_pages();
  constexpr std::size_t few = 4;  // new pages: the next objects will be made there
  if (fresh != 0 && fresh <= few && mechanism_ == tracking_mechanism::choose && !strict_ && bulk_ == bulk::none)
    for (const page_number page : as_is_) table_[page].hot = true;
  cheap_in_bulk_ = written * host_.limits.trap_cost < populated_ * bulk_cost() ? cheap_in_bulk_ + 1 : 0;
  end();
}

// Returns how many pages are tracked from now on.
std::size_t region_tracker::track_new_pages() noexcept {
  std::size_t fresh = 0;
  const auto track = [&](page_number page) {
    tracked_page& p = table_[page];
    if (!p.untracked.exchange(false, std::memory_order_acq_rel)) return;
    host_.count.untracked_pages -= 1;
    --untracked_;
    p.last_changed = transaction_;
    opened_.add(page);
    ++fresh;
  };
  for (auto* list : {&as_is_, &in_bulk_}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  for (const page_number page : as_is_) {
    remember(page);
    track(page);
  }
  dropping_.clear();
  for (const page_number page : in_bulk_) {
    if (std::ranges::binary_search(as_is_, page)) continue;
    // The file has the bytes, but not what else is on the page.
    if (pages_differ(range_of(page).address, view_ + page * page_size_, page_size_)) {
      remember(page);
    } else {
      forget(page);
      dropping_.push_back(page);
    }
    track(page);
  }
  return fresh;
}

// Makes the page what the committed image says.
void region_tracker::restore(page_number page) {
  const memory_range memory = range_of(page);
  if (!pages_differ(memory.address, committed_image(page), page_size_)) return;
  if (change_filter* const filter = filter_) {
    parts_.clear();
    filter->restorable_parts(memory, parts_);
    for (const memory_range& part : parts_)
      std::memcpy(part.address, committed_image(page) + (part.address - memory.address), part.length);
    // What is left is not recoverable now, but may lie on a page that is as a whole when the next transaction begins.
    if (pages_differ(memory.address, committed_image(page), page_size_)) {
      twins_.reserve(1);
      remember(page);
      return;
    }
  } else {
    std::memcpy(memory.address, committed_image(page), page_size_);
  }
  if (table_[page].twin == twin_store::none && !table_[page].hot && dropping_.size() < dropping_.capacity())
    dropping_.push_back(page);
}

// A transaction's end must not fail for want of memory: without lists, all pages that may differ are looked at in the table.
bool region_tracker::aborted() noexcept {
  candidates_.clear();
  dropping_.clear();
  as_is_.clear();
  in_bulk_.clear();
  bool whole = true;
  const auto restore_or_note = [&](page_number page) {
    try {
      restore(page);
    } catch (...) {
      whole = false;
    }
  };
  try {
    gather();
    dropping_.reserve(gathered_.size());
    for (const page_number page : gathered_) restore_or_note(page);
  } catch (...) {
    const bool all = bulk_.load(std::memory_order_acquire) != bulk::none;
    for (page_number page = 0, end = static_cast<page_number>(pages_); page < end; ++page)
      if (tracked_page& p = table_[page]; (all || p.open || p.hot) && !p.untracked) restore_or_note(page);
  }
  end();
  return whole;
}

void region_tracker::check() const {
  std::size_t twins = 0, untracked = 0;
  for (page_number page = 0; page < pages_; ++page) {
    const tracked_page& p = table_[page];
    twins += p.twin != twin_store::none;
    untracked += p.untracked;
    if (bulk_ != bulk::none || !p.open || p.untracked) continue;
    // [rvm.tracking.candidates]
    require_invariant(p.listed || p.hot || std::ranges::find(open_, page) != open_.end(),
                      "an open page is listed, and will be compared");
  }
  require_invariant(twins == twins_.used(), "every twin belongs to a page");
  require_invariant(untracked == untracked_, "pages that are not tracked are counted");
  for (const page_number page : hot_) require_invariant(table_[page].hot, "the list of hot pages has hot ones");
}

}  // namespace tenure::rvm
