// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/region_tracker.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "log/invariant.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

namespace {

[[nodiscard]] error cannot_protect(const region_state& in, int code) {
  return {std::error_code(code, std::generic_category()), in.segment_path + ": the region cannot be protected"};
}

[[nodiscard]] error cannot_open_pages(const region_state& in) {
  return {std::make_error_code(std::errc::not_enough_memory),
          in.segment_path + ": pages cannot be opened; raise vm.max_map_count"};
}

void sort_unique(std::vector<page_number>& list) noexcept {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Of each mapping that the region consists of.
template <class F>
void for_each_first_page(const region_state& in, F&& f) {
  in.in->layout().for_each_part(in.offset, in.length,
                                [&](const segment_layout::part&, std::uint64_t done) { f(in.base + done); });
}

}  // namespace

region_tracker::region_tracker(tracking_host& host, region_state& in, const map_options& how)
    : host_(host),
      in_(in),
      // What the smallest cards would miss is found by tests of programs that use larger ones.
      pages_(in.base, in.length, in.capacity,
             how.barriers == write_barriers::checking ? card_layout::least : how.card_size),
      committed_(in, pages_, host.count),
      finders_(pages_, how, host.count, host.limits),
      backing_(in, pages_, committed_, finders_, host.count, host.limits.backing_unit),
      barriers_(how.barriers) {
  parts_.reserve(pages_.page_size / 16);  // as many as there can be, with a gap of a word each: aborts need no more
  if (in.capacity / pages_.page_size >= ~page_number{0})
    throw error(errc::bad_option, in.segment_path + ": regions of so many pages cannot be tracked automatically");
  // Once a page has been written, the kernel joins the parts again into which protections split a mapping.
  for_each_first_page(in, [](std::byte* page) { os::make_private(page); });
  const protection_guard lock(pages_.protection);
  if (const int code = os::protect(in.base, in.length, os::access::read_only); code != 0)
    throw cannot_protect(in, code);
  for_each_first_page(in, [&](std::byte* page) {
    os::page_run first{page, pages_.page_size};
    os::drop_private_copies({&first, 1});
  });
  if (barriers_ != write_barriers::none) announced_.begin(in.base, in.length, *this);
}

void region_tracker::release() noexcept {
  if (released_) return;  // the host may be gone
  released_ = true;
  announced_.end();
  finders_.stop();
  committed_.release();
  backing_.release();
  host_.count.untracked_pages -= pages_.untracked.exchange(0);
  pages_.table.release();
  pages_.more_cards.release();
}

void region_tracker::grow(std::size_t length, bool anonymous) {
  const std::size_t from = pages_.count * pages_.page_size;
  committed_.grow(from, length);
  protection_guard lock(pages_.protection);
  if (anonymous) backing_.add_anonymous(from, length);
  const std::uint64_t old = pages_.count.exchange(length / pages_.page_size);
  if (const int code = finders_.grow(lock, old); code != 0) {
    pages_.count = old;
    if (anonymous) backing_.remove_anonymous(from, length);
    throw cannot_protect(in_, code);
  }
  lock.unlock();
  announced_.grow(length);
}

// --- Comparison ------------------------------------------------------------------------------------------------------

// Leaves in stretches_ what of the page counts and differs, and in all_counts_ whether nothing else of it can differ. Returns
// whether anything of it differs.
bool region_tracker::find_differences(page_number page, compared how, counted which) {
  const std::byte* const now = pages_.range_of(page).address;
  stretches_.clear();
  all_counts_ = true;
  const bool by_cards =
      barriers_ == write_barriers::cards && how == compared::as_announced && finders_.is_wholly_announced(page);
  if (by_cards) {
    if (!announced_cards_differ(page)) return false;
  } else if (!difference_.compare(now, committed_.of(page), pages_.page_size)) {
    return false;
  }
  if (change_filter* const filter = filter_) {
    os::clear_all_of(parts_);  // those of a page for which there was no memory
    if (which == counted::recoverable)
      filter->recoverable_parts(pages_.range_of(page), parts_);
    else
      filter->restorable_parts(pages_.range_of(page), parts_);
    all_counts_ = parts_.size() == 1 && parts_.front().length == pages_.page_size;
    // All of such a page is remembered: an unseen store on it would never be found.
    if (by_cards && !all_counts_) (void)difference_.compare(now, committed_.of(page), pages_.page_size);
    for (const memory_range& part : parts_)
      difference_.add_stretches(static_cast<std::uint32_t>(part.address - now),
                                static_cast<std::uint32_t>(part.end() - now), stretches_);
    os::clear_all_of(parts_);
  } else {
    difference_.add_stretches(0, static_cast<std::uint32_t>(pages_.page_size), stretches_);
  }
  return true;
}

bool region_tracker::announced_cards_differ(page_number page) {
  difference_.begin_parts(pages_.range_of(page).address, committed_.of(page), pages_.page_size);
  bool any = false;
  for (std::size_t word = 0; word < pages_.cards.words(); ++word)
    pages_.cards.for_each_run(word, finders_.announced_cards(page, word), [&](std::size_t from, std::size_t to) {
      any = difference_.compare_part(from, to) || any;
    });
  return any;
}

void region_tracker::report(const std::byte* at, bool trapped) const {
  if (host_.observer)
    host_.observer({at, in_.segment_path.c_str(), in_.offset + static_cast<std::uint64_t>(at - in_.base), trapped});
}

void region_tracker::report_unseen(page_number page, const stretch& first) const {
  ++host_.count.unseen_stores;
  const change_filter* const filter = filter_;
  const std::byte* const at = pages_.range_of(page).address + first.from;
  const std::uint64_t offset = in_.offset + static_cast<std::uint64_t>(at - in_.base);
  const auto what = [&] { return filter != nullptr ? filter->describe(at) : std::string(); };
  if (host_.unseen_observer) {
    const std::string text = what();
    return host_.unseen_observer({at, first.to - first.from, in_.segment_path.c_str(), offset, text.c_str()});
  }
  if (barriers_ != write_barriers::checking) return;
  std::string text = what();
  if (!text.empty()) text = ": " + text;
  throw error(errc::unseen_store,
              in_.segment_path + ": the bytes from " + os::hexadecimal(at) + ", offset " + std::to_string(offset) +
                  ", were written without an announcement" + text +
                  "; compile the code that wrote there with tenure::barriers, and all files that have "
                  "the same inline functions, or have it call tenure::announce_store first");
}

// An audited page has unseen stores if it differs at all. In checking mode, where all pages are audited, a page has them if
// the cards that differ were not all announced.
void region_tracker::look_for_unseen_stores(page_number page) const {
  if (barriers_ != write_barriers::checking && !finders_.is_audited(page)) return;
  for (const stretch& s : stretches_) {
    std::optional<stretch> unseen;
    pages_.cards.for_each_word(s.from, s.to, [&](std::size_t word, std::uint64_t cards) {
      if (barriers_ == write_barriers::checking) cards &= ~finders_.announced_cards(page, word);
      pages_.cards.for_each_run(word, cards, [&](std::size_t from, std::size_t to) {
        if (!unseen)
          unseen = first_recoverable_bytes(page, std::max(static_cast<std::uint32_t>(from), s.from),
                                           std::min(static_cast<std::uint32_t>(to), s.to));
      });
    });
    if (unseen) return report_unseen(page, *unseen);
  }
}

// That differ. What a transient object had where there is none any more may differ for ever [rvm.barriers.audit].
std::optional<stretch> region_tracker::first_recoverable_bytes(page_number page, std::uint32_t from,
                                                               std::uint32_t to) const {
  const change_filter* const filter = filter_;
  for (;;) {
    const std::optional<stretch> found = difference_.first_bytes(from, to);
    if (!found || filter == nullptr || !filter->allows_stray_write(pages_.range_of(page).address + found->from))
      return found;
    from = static_cast<std::uint32_t>(round_up(found->from + 1, sizeof(void*)));  // an object may begin there
  }
}

void region_tracker::add_announced_before() {
  const std::size_t gathered = gathered_.size();
  for (const announced_page& each : finders_.announced_before())
    if (!pages_[each.page].untracked.load(std::memory_order_acquire) &&
        !std::binary_search(gathered_.begin(), gathered_.begin() + static_cast<std::ptrdiff_t>(gathered), each.page) &&
        committed_.differs(each.page, each.word, each.cards))
      gathered_.push_back(each.page);
  if (gathered_.size() != gathered) sort_unique(gathered_);
}

bool region_tracker::is_announced(page_number page) const noexcept {
  const change_filter* const filter = filter_;
  return filter != nullptr && filter->is_announced(pages_.range_of(page));
}

// A page that was open between transactions. What is recoverable on it must be as the last transaction left it; the rest may
// have changed, and an abort will restore it to what it is now. Returns whether there was a stray write.
bool region_tracker::undo_stray_write(page_number page) {
  std::byte* const now = pages_.range_of(page).address;
  const std::byte* const then = committed_.of(page);
  const bool announced = is_announced(page);
  if (announced) {
    stretches_.clear();
    if (!difference_.compare(now, then, pages_.page_size)) return false;
    difference_.add_stretches(0, static_cast<std::uint32_t>(pages_.page_size), stretches_);
  } else if (!find_differences(page, compared::wholly, counted::recoverable)) {
    return false;
  }
  const bool stray = !stretches_.empty();
  if (stray) {
    report(now + stretches_.front().from, false);
    // Where memory was short, a page may have been closed before it was compared.
    if (!finders_.announce(page, 1)) throw cannot_open_pages(in_);
  }
  for (const stretch& s : stretches_) std::memcpy(now + s.from, then + s.from, s.to - s.from);
  if (filter_ != nullptr && !announced) {
    committed_.reserve(1);
    committed_.remember(page);
  }
  return stray;
}

// --- A transaction ---------------------------------------------------------------------------------------------------

std::size_t region_tracker::begin(std::uint32_t transaction) {
  transaction_ = transaction;
  finders_.begin();
  finders_.gather(gathered_, write_finders::moment::begin);
  std::size_t stray = 0;
  for (const page_number page : gathered_) stray += undo_stray_write(page);
  host_.count.stray_writes += stray;
  finders_.compared_at_rest();
  return stray;
}

void region_tracker::announce(std::byte* from, std::size_t length) {
  if (barriers_ != write_barriers::none) store_announced(from, length);
  const page_number first = pages_.page_of(from), last = pages_.page_of(from + length - 1);
  if (!finders_.announce(first, last - first + 1)) throw cannot_open_pages(in_);
}

// The committed images of scattered stores are in no cache. The first card of each page is asked for before any is needed: four
// random words take 2.3 us a transaction, and 2.8 without.
void region_tracker::prefetch_announced_cards() const noexcept {
  constexpr std::size_t most = 32;
  for (const page_number page : std::span(gathered_).first(std::min(most, gathered_.size())))
    for (std::size_t word = 0; word < pages_.cards.words(); ++word)
      if (const std::uint64_t cards = finders_.announced_cards(page, word); cards != 0) {
        __builtin_prefetch(committed_.of(page) + pages_.cards.first_byte(word, cards));
        break;
      }
}

void region_tracker::collect(os::cleared_vector<memory_range>& changes) {
  const std::size_t before = changes.size();
  find(changes, counted::recoverable);
  host_.count.compared_pages += candidates_.size();
  for (const candidate& c : candidates_) host_.count.changed_pages += c.count != 0;
  host_.count.changed_ranges += changes.size() - before;
  for (std::size_t n = before; n < changes.size(); ++n) host_.count.changed_bytes += changes[n].length;
}

void region_tracker::find(os::cleared_vector<memory_range>& changes, counted which) {
  candidates_.clear();
  as_is_.clear();
  in_bulk_.clear();
  finders_.gather(gathered_, write_finders::moment::commit);
  add_announced_before();
  if (barriers_ == write_barriers::cards) prefetch_announced_cards();
  new_images_ = 0;
  for (const page_number page : gathered_) {
    const auto first = static_cast<std::uint32_t>(changes.size());
    if (is_announced(page)) {  // what is announced comes later
      if (committed_.differs(page)) std::memcpy(pages_.range_of(page).address, committed_.of(page), pages_.page_size);
      stretches_.clear();
      candidates_.push_back({page, false, true, first, 0});
      continue;
    }
    const bool differs = find_differences(page, compared::as_announced, which);
    if (which == counted::recoverable && barriers_ != write_barriers::none && !stretches_.empty())
      look_for_unseen_stores(page);
    for (const stretch& s : stretches_) changes.push_back({pages_.range_of(page).address + s.from, s.to - s.from});
    candidates_.push_back({page, differs, all_counts_, first, static_cast<std::uint32_t>(stretches_.size())});
    new_images_ += differs && !committed_.has_before_image(page);
  }
  committed_.reserve(new_images_);
  dropping_.reserve(gathered_.size());
  noted_.reserve(gathered_.size());
}

void region_tracker::read_committed(const std::byte* from, std::size_t length, std::byte* into) const noexcept {
  while (length != 0) {
    const page_number page = pages_.page_of(from);
    const auto offset = static_cast<std::size_t>(from - pages_.range_of(page).address);
    const std::size_t some = std::min(length, pages_.page_size - offset);
    std::memcpy(into, committed_.of(page) + offset, some);
    from += some, into += some, length -= some;
  }
}

void region_tracker::log_without_comparison(std::byte* from, std::size_t length) {
  const page_number first = pages_.page_of(from), last = pages_.page_of(from + length - 1);
  committed_.reserve(new_images_ + as_is_.size() + in_bulk_.size() + last - first + 1);
  copied_.reserve(as_is_.size() + in_bulk_.size() + last - first + 1);
  for (page_number page = first; page <= last; ++page)
    if (as_is_.empty() || as_is_.back() != page) as_is_.push_back(page);
  announce(from, length);
}

// A page without a copy shows the file, and would change under its before-image.
void region_tracker::log_other_values(std::byte* from, std::size_t length) {
  log_without_comparison(from, length);
  for (page_number page = pages_.page_of(from), last = pages_.page_of(from + length - 1); page <= last; ++page)
    os::make_private(pages_.range_of(page).address);
}

void region_tracker::written_in_bulk(std::byte* from, std::size_t length) {
  const page_number first = pages_.page_of(from), last = pages_.page_of(from + length - 1);
  committed_.reserve(new_images_ + as_is_.size() + in_bulk_.size() + last - first + 1);
  dropping_.reserve(gathered_.size() + in_bulk_.size() + last - first + 1);
  copied_.reserve(as_is_.size() + in_bulk_.size() + last - first + 1);
  for (page_number page = first; page <= last; ++page) in_bulk_.push_back(page);
  announce(from, length);
}

void region_tracker::committed(std::span<const memory_range> changes) noexcept {
  std::uint64_t written = 0;
  noted_.clear();
  for (const candidate& c : candidates_) {
    noted_.push_back(c.page);
    finders_.note(c.page, c.differs, transaction_);
    if (!c.differs) continue;
    ++written;
    // Nothing else differs, or all that does was collected: the rest of the page need not be copied.
    if (!committed_.has_before_image(c.page) || !c.all_counts)
      committed_.remember(c.page);
    else
      for (const memory_range& change : changes.subspan(c.first, c.count)) committed_.remember(c.page, change);
  }
  sort_unique(as_is_);
  for (const page_number page : as_is_)
    if (is_announced(page)) finders_.note_announced(page, transaction_);
  const std::size_t fresh = track_new_pages();
  constexpr std::size_t few = 4;  // new pages: the next objects will be made there
  if (fresh != 0 && fresh <= few)
    for (const page_number page : as_is_) finders_.keep_open(page);
  finders_.note_commit(written);
  end();
}

// Returns how many pages are tracked from now on.
std::size_t region_tracker::track_new_pages() noexcept {
  std::size_t fresh = 0;
  const auto track = [&](page_number page) {
    tracked_page& p = pages_[page];
    if (!p.untracked.exchange(false, std::memory_order_acq_rel)) return;
    host_.count.untracked_pages -= 1;
    --pages_.untracked;
    p.last_changed = transaction_;
    pages_.opened.add(page);
    ++fresh;
  };
  sort_unique(in_bulk_);
  for (const page_number page : as_is_) {
    committed_.remember(page);
    track(page);
  }
  dropping_.clear();
  std::erase_if(in_bulk_, [&](page_number page) { return std::ranges::binary_search(as_is_, page); });
  for (const page_number page : in_bulk_) track(page);
  return fresh;
}

// Makes the page what the committed image says.
void region_tracker::restore(page_number page) {
  if (!committed_.differs(page)) return;
  const memory_range memory = pages_.range_of(page);
  if (change_filter* const filter = filter_) {
    os::clear_all_of(parts_);
    filter->restorable_parts(memory, parts_);
    for (const memory_range& part : parts_)
      std::memcpy(part.address, committed_.of(page) + (part.address - memory.address), part.length);
    os::clear_all_of(parts_);
    // What is left is not recoverable now, but may lie on a page that is as a whole when the next transaction begins.
    if (committed_.differs(page)) {
      committed_.reserve(1);
      committed_.remember(page);
      return;
    }
  } else {
    std::memcpy(memory.address, committed_.of(page), memory.length);
  }
  if (!committed_.has_before_image(page) && !pages_[page].hot && dropping_.size() < dropping_.capacity())
    dropping_.push_back(page);
}

// A transaction's end must not fail for want of memory: without lists, all pages that may differ are found in the table.
bool region_tracker::aborted() noexcept {
  candidates_.clear();
  noted_.clear();
  dropping_.clear();
  as_is_.clear();
  in_bulk_.clear();
  bool complete = true;
  const auto try_to_restore = [&](page_number page) {
    try {
      restore(page);
    } catch (...) {
      complete = false;
    }
  };
  try {
    finders_.gather(gathered_, write_finders::moment::abort);
    dropping_.reserve(gathered_.size());
    for (const page_number page : gathered_) try_to_restore(page);
  } catch (...) {
    for (page_number page = 0, end = static_cast<page_number>(pages_.count); page < end; ++page)
      if (finders_.may_be_written(page) && !pages_[page].untracked) try_to_restore(page);
  }
  end();
  return complete;
}

void region_tracker::end() noexcept {
  copied_.assign(as_is_.begin(), as_is_.end());
  copied_.insert(copied_.end(), in_bulk_.begin(), in_bulk_.end());
  sort_unique(copied_);
  as_is_.clear();
  const bool closed = finders_.end(noted_, copied_, in_bulk_);
  if (!in_bulk_.empty() || !dropping_.empty()) {
    const protection_guard lock(pages_.protection);
    // Bytes that are not recoverable may have been written, without a trap, since the page was compared.
    std::erase_if(dropping_, [&](page_number page) { return committed_.differs_from_file(page); });
    // Compared once, here: three comparisons took a tenth of the commit of 1 M nodes.
    for (const page_number page : in_bulk_) {
      // The file has the bytes, but not what else is on the page.
      if (committed_.differs_from_file(page)) {
        committed_.remember(page);
      } else {
        committed_.forget(page);
        dropping_.push_back(page);
      }
    }
    std::erase_if(dropping_, [&](page_number page) { return finders_.is_open(page); });
    try {
      if (closed) backing_.drop(lock, dropping_);
    } catch (...) {  // only memory is not given back
    }
  }
  in_bulk_.clear();
  dropping_.clear();
}

// --- Pages that are opened -------------------------------------------------------------------------------------------

// In the signal handler: lock-free atomics, system calls and the protection lock only.
os::write_trap::answer region_tracker::on_write(std::byte* at) noexcept {
  const page_number page = pages_.page_of(at);
  protection_guard lock(pages_.protection);
  // Another thread was faster, or the region is open as a whole and was closed for a moment.
  if (finders_.is_open(page)) return answer::resume;
  if (host_.in_transaction.load(std::memory_order_acquire) || host_.failed.load(std::memory_order_acquire))
    return finders_.on_write(lock, page) ? answer::resume : answer::stray;
  lock.unlock();  // what is called may never return
  if (const change_filter* const filter = filter_; filter == nullptr || !filter->allows_stray_write(at)) {
    report(at, true);
    return answer::stray;
  }
  lock.lock();
  return finders_.is_open(page) || finders_.open_single(lock, page) ? answer::resume : answer::stray;
}

void region_tracker::store_announced(std::byte* at, std::size_t length) noexcept {
  const std::size_t from = static_cast<std::size_t>(at - pages_.base) & (pages_.page_size - 1);
  if (from + length <= pages_.page_size && finders_.has_been_announced(pages_.page_of(at), from, from + length)) return;
  note_announced(at, length);
}

// Apart, so that the usual store saves no registers.
void region_tracker::note_announced(std::byte* at, std::size_t length) noexcept {
  const page_number first = pages_.page_of(at);
  auto from = static_cast<std::size_t>(at - pages_.base) & (pages_.page_size - 1);
  const std::uint64_t end = std::min<std::uint64_t>(pages_.page_of(at + length - 1) + std::uint64_t{1}, pages_.count);
  const auto if_closed = host_.in_transaction.load(std::memory_order_relaxed) ? write_finders::if_closed::open
                                                                              : write_finders::if_closed::leave;
  for (std::uint64_t page = first; page < end; ++page) {
    const std::size_t to = std::min(from + length, pages_.page_size);
    finders_.store_announced(static_cast<page_number>(page), from, to, if_closed);
    length -= to - from;
    from = 0;
  }
}

void region_tracker::open_untracked(std::byte* from, std::size_t length) {
  const auto count = static_cast<page_number>(length / pages_.page_size);
  if (!finders_.open_untracked(pages_.page_of(from), count)) throw cannot_open_pages(in_);
}

bool region_tracker::is_open_untracked(const std::byte* at) const noexcept {
  return pages_[pages_.page_of(at)].untracked.load(std::memory_order_acquire);
}

// --- Giving back -----------------------------------------------------------------------------------------------------

void region_tracker::page_written(std::uint64_t page) {
  const std::scoped_lock lock(written_mutex_);
  written_.push_back(page);
  has_written_.store(true, std::memory_order_release);
}

void region_tracker::give_back_written() {
  std::vector<page_number> pages;
  {
    const std::scoped_lock lock(written_mutex_);
    for (const std::uint64_t page : written_)
      pages.push_back(static_cast<page_number>((page * redo_page - in_.offset) / pages_.page_size));
    written_.clear();
    has_written_.store(false, std::memory_order_release);
  }
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  // Few at a time: writers wait.
  constexpr std::size_t at_once = 64;
  std::size_t dropped = 0;
  if (!finders_.is_open_whole()) {
    for (std::size_t i = 0; i < pages.size(); i += at_once) {
      const protection_guard lock(pages_.protection);
      dropped += give_back(lock, std::span(pages).subspan(i, std::min(at_once, pages.size() - i)));
    }
  } else {
    // Threads that may write outside of transactions must not write to a page between its comparison and its end.
    const protection_guard lock(pages_.protection);
    if (!finders_.close_for_a_moment(lock)) return;
    try {
      dropped = give_back(lock, pages);
    } catch (...) {
      finders_.open_again(lock);
      throw;
    }
    finders_.open_again(lock);
  }
  host_.count.pages_given_back += dropped;
  committed_.trim();
}

// Whether the file has all that was committed on the page: no commit that changed it is on its way there.
bool region_tracker::is_in_segment(page_number page) const {
  page_vector& status = in_.in->pages();
  const std::uint64_t first = (in_.offset + page * pages_.page_size) / redo_page;
  const std::uint64_t count = std::max<std::uint64_t>(pages_.page_size / redo_page, 1);
  for (std::uint64_t each = first; each < first + count; ++each)
    if (status.last_batch(each) > host_.queue.published()) return false;
  return true;
}

// Drops the copies of pages that equal the file, if they are closed, and if the file will stay as it is
// [rvm.tracking.give-back].
std::size_t region_tracker::give_back(const protection_guard& lock, std::span<const page_number> pages) {
  std::vector<page_number> equal;
  if (!finders_.close_resting(lock, pages)) return 0;
  const bool closed_for_this = finders_.is_open_whole();
  for (const page_number page : pages) {
    const tracked_page& p = pages_[page];
    if (p.untracked || p.hot || (p.open && !closed_for_this) || !committed_.has_before_image(page)) continue;
    if (!is_in_segment(page) || committed_.differs_from_file(page)) continue;
    equal.push_back(page);
    committed_.forget(page);
  }
  backing_.drop(lock, equal);
  return equal.size();
}

void region_tracker::check() const {
  // Threads without a transaction open pages for what they make, and truncation in the background gives copies back.
  const protection_guard lock(pages_.protection);
  committed_.check();
  finders_.check();
  std::uint64_t untracked = 0;
  for (page_number page = 0; page < pages_.count; ++page) untracked += pages_[page].untracked;
  require_invariant(untracked == pages_.untracked, "pages that are not tracked are counted");
}

}  // namespace tenure::rvm
