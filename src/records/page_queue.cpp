// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/page_queue.hpp"

#include <algorithm>
#include <cassert>

#include "log/invariant.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

log_part page_queue::covered() const {
  const std::scoped_lock lock(mutex_);
  return {log_.window().head, end_, last_group_};
}

void page_queue::publish(const batch& written, lsn at, lsn tail, lsn last_group) {
  const std::scoped_lock lock(mutex_);
  assert(written.number() > published() && at >= end_ && at <= last_group && last_group < tail);
  for (const page_ref& ref : written.pages()) {
    if (auto& since = ref.in->pages().dirty_since(ref.page); since == 0) {
      queue_.push_back({ref.in, ref.page, at});
      since = at;
    }
  }
  // Set together with the pages, so that a thread that sees the new end also sees what is dirty below it.
  end_ = tail;
  last_group_ = last_group;
  published_.store(written.number(), std::memory_order_release);
  std::erase_if(masks_, [&](const bulk_mask& m) {
    if (m.batch == 0 || m.batch > written.number()) return false;
    m.run.in->note_bulk_logged(m.transaction, m.generation);
    return true;
  });
}

void page_queue::mask(std::uint64_t transaction, std::uint32_t generation, std::span<const bulk_run> runs) {
  const std::scoped_lock lock(mutex_);
  for (const bulk_run& e : runs) masks_.push_back({{e.in, e.page, e.pages}, transaction, generation, 0});
}

void page_queue::mask_until(std::uint64_t transaction, std::uint64_t batch) {
  const std::scoped_lock lock(mutex_);
  for (bulk_mask& m : masks_)
    if (m.transaction == transaction) m.batch = batch;
}

void page_queue::unmask(std::uint64_t transaction) noexcept {
  const std::scoped_lock lock(mutex_);
  std::erase_if(masks_, [&](const bulk_mask& m) { return m.transaction == transaction && m.batch == 0; });
}

bool page_queue::is_in_segment(const page_ref& page) const {
  const std::scoped_lock lock(mutex_);
  return page.in->pages().last_batch(page.page) <= published() && page.in->pages().dirty_since(page.page) == 0;
}

page_queue::taken page_queue::take(lsn until, std::size_t most, const page_set& except) {
  const std::scoped_lock lock(mutex_);
  taken result;
  result.log = {log_.window().head, end_, last_group_};
  for (const bulk_mask& m : masks_) result.masked.push_back(m.run);
  std::size_t some = 0;
  for (const dirty_page& page : queued()) {
    if (page.since >= until || some == most) break;
    result.blocked = except.contains({page.in, page.page});
    if (result.blocked) break;
    ++some;
  }
  result.pages.assign(queued().begin(), queued().begin() + static_cast<std::ptrdiff_t>(some));
  // Nothing fails from here on.
  if (first_ > queue_.size() / 2) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  for (const dirty_page& page : result.pages) page.in->pages().dirty_since(page.page) = 0;
  first_ += some;
  return result;
}

void page_queue::put_back(const taken& what) noexcept {
  const std::scoped_lock lock(mutex_);
  assert(what.pages.size() <= first_);
  for (const dirty_page& page : what.pages) page.in->pages().dirty_since(page.page) = page.since;
  // The page became dirty again meanwhile: the older entry replaces the newer one.
  const auto is_newer = [](const dirty_page& p) { return p.in->pages().dirty_since(p.page) != p.since; };
  const std::span<dirty_page> left = queued();
  const auto end = std::remove_if(left.begin(), left.end(), is_newer);
  queue_.resize(queue_.size() - static_cast<std::size_t>(left.end() - end));
  first_ -= what.pages.size();
}

lsn page_queue::next_head(lsn at_most) const {
  const std::scoped_lock lock(mutex_);
  at_most = std::min(at_most, kept_);
  return queued().empty() ? at_most : std::min(at_most, queued().front().since);
}

void page_queue::keep_from(lsn at) {
  const std::scoped_lock lock(mutex_);
  kept_ = at;
}

void page_queue::check() const {
  const std::scoped_lock lock(mutex_);
  const log_window log = log_.window();
  require_invariant(log.head <= end_ && end_ <= log.tail, "the queue covers a part of the log");
  lsn before = 0;
  for (const dirty_page& page : queued()) {
    require_invariant(page.since >= before, "pages are queued in the order of their oldest records");
    before = page.since;
    // [rvm.queue.covers]
    require_invariant(page.since < end_, "a queued page has a record in the log");
    require_invariant(page.in->pages().dirty_since(page.page) == page.since, "a page is in the queue once");
  }
  require_invariant(queued().empty() || queued().front().since >= log.head, "the head stays before the oldest record");
  require_invariant(kept_ >= log.head, "the head stays before what is prepared");
  // [rvm.bulk.masked]
  for (const bulk_mask& m : masks_)
    require_invariant(m.batch == 0 || m.batch > published(), "pages are masked until the log has their bulk runs");
}

}  // namespace tenure::rvm
