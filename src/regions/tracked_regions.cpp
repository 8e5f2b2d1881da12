// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/tracked_regions.hpp"

#include <algorithm>

namespace tenure::rvm {

void tracked_regions::begin() {
  give_back_written(caller::transaction);
  ++begun_;
  std::size_t stray = 0;
  const region_state* where = nullptr;
  for_each([&](const region_state& r, region_tracker& tracker) {
    const std::size_t found = tracker.begin(begun_);
    if (found != 0) where = &r;
    stray += found;
  });
  if (stray != 0 && !host_.observer)
    throw error(errc::stray_write,
                where->segment_path + ": " + std::to_string(stray) + (stray == 1 ? " page was" : " pages were") +
                    " written since the last automatic transaction ended; the old bytes have been put back; write in "
                    "automatic transactions only, or set options::on_stray_write to see each (tracking_strict finds "
                    "the place in the program)");
}

bool tracked_regions::committed(std::span<const memory_range> changes) noexcept {
  std::size_t before_images = 0;
  for_each([&](region_state&, region_tracker& tracker) {
    tracker.committed(changes);
    before_images += tracker.before_images();
  });
  ++host_.count.commits;
  host_.in_transaction.store(false, std::memory_order_release);
  give_back_written(caller::transaction);
  const bool many = before_images > truncate_at_;
  if (many) truncate_at_ = before_images + before_images / 2;  // for those that truncation cannot take away
  right_.give();
  return many;
}

bool tracked_regions::put_back() noexcept {
  bool whole = true;
  for_each([&](region_state&, region_tracker& tracker) { whole = tracker.aborted() && whole; });
  if (!whole) fail();
  return whole;
}

void tracked_regions::aborted() noexcept {
  ++host_.count.aborts;
  host_.in_transaction.store(false, std::memory_order_release);
  give_back_written(caller::transaction);
  right_.give();
}

void tracked_regions::pages_written(const std::vector<dirty_page>& pages) {
  for_each([&](const region_state& r, region_tracker& tracker) {
    for (const dirty_page& page : pages)
      if (r.holds(page.in, page.page)) tracker.page_written(page.page);
  });
  if (!right_.try_take()) return;  // whoever has the right does it
  give_back_written(caller::truncation);
  right_.give();
}

void tracked_regions::give_back_written(caller who) noexcept {
  bool any = false;
  for_each([&](region_state&, region_tracker& tracker) { any = any || tracker.has_written_pages(); });
  if (!any) return;
  const auto give_back = [&] {
    std::size_t before_images = 0;
    for_each([&](region_state&, region_tracker& tracker) {
      try {
        if (tracker.has_written_pages()) tracker.give_back_written();
      } catch (...) {  // only memory is not given back
      }
      before_images += tracker.before_images();
    });
    truncate_at_ = std::max(host_.limits.most_before_images, before_images + before_images / 2);
  };
  if (who == caller::truncation) return give_back();
  truncation_.try_with_lock(give_back);
}

}  // namespace tenure::rvm
