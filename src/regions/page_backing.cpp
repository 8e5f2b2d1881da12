// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/page_backing.hpp"

#include <algorithm>

#include "os/virtual_memory.hpp"

namespace tenure::rvm {

void page_backing::add_anonymous(std::size_t from, std::size_t to) {
  anonymous_.add(from, to);
  count_.anonymous_pages += (to - from) / pages_.page_size;
}

void page_backing::remove_anonymous(std::size_t from, std::size_t to) {
  anonymous_.remove(from, to);
  count_.anonymous_pages -= (to - from) / pages_.page_size;
}

void page_backing::release() noexcept {
  anonymous_.for_each(
      [&](std::uint64_t from, std::uint64_t to) { count_.anonymous_pages -= (to - from) / pages_.page_size; });
  anonymous_.clear();
}

bool page_backing::is_as_in_file(page_number page) const noexcept {
  const tracked_page& p = pages_[page];
  return !p.open && !p.untracked && !p.hot && !committed_.has_before_image(page);
}

bool page_backing::is_as_in_file(std::size_t from, std::size_t to, std::span<const page_number> equal) const noexcept {
  const auto first = static_cast<page_number>(from / pages_.page_size),
             end = static_cast<page_number>(to / pages_.page_size);
  for (page_number page = first; page < end; ++page)
    if (!is_as_in_file(page)) return false;
  // Bytes that are not recoverable may have been written while the region was open as a whole, seen by nobody.
  auto known = std::ranges::lower_bound(equal, first);
  for (page_number page = first; page < end; ++page) {
    if (known != equal.end() && *known == page)
      ++known;
    else if (committed_.differs_from_file(page))
      return false;
  }
  return true;
}

void page_backing::drop(const protection_guard& lock, std::span<const page_number> pages) {
  os::page_runs runs;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::size_t at = std::size_t{pages[i]} * pages_.page_size;
    if (!anonymous_.contains(at)) {
      os::append_page(runs, pages_.range_of(pages[i]).address, pages_.page_size);
      continue;
    }
    const bool more_in_unit = i + 1 < pages.size() && pages[i + 1] * pages_.page_size / unit_ == at / unit_;
    if (more_in_unit || finders_.is_open_whole()) continue;
    std::size_t from = at / unit_ * unit_;
    if (!anonymous_.contains(from)) from = anonymous_.end_of_run(from, at);
    const std::size_t to = anonymous_.end_of_run(at, at / unit_ * unit_ + unit_);
    if (is_as_in_file(from, to, pages)) back_with_file(lock, from, to);
  }
  os::drop_private_copies(runs);
}

void page_backing::back_with_file(const protection_guard&, std::size_t from, std::size_t to) {
  finders_.stop();
  try {
    in_.in->map_over(in_.base + from, in_.offset + from, to - from, os::access::read_only);
  } catch (...) {  // too many mappings: only memory is not given back
    return;
  }
  os::exclude_from_fork(in_.base + from, to - from);
  anonymous_.remove(from, to);
  count_.anonymous_pages -= (to - from) / pages_.page_size;
}

}  // namespace tenure::rvm
