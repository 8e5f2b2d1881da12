// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The automatically tracked regions of a memory, together: what an automatic transaction asks of all of them, and giving
// memory back when truncation has written pages.
#pragma once

#include <span>
#include <vector>

#include "regions/automatic_right.hpp"
#include "regions/region.hpp"
#include "regions/region_tracker.hpp"
#include "replay/truncator.hpp"

namespace tenure::rvm {

// "With the right": with the automatic right, which this owns.
class tracked_regions {
 public:
  tracked_regions(const region_table& regions, truncator& truncation, counters& count, const page_queue& pages,
                  const callback<void(const stray_write&)>& on_stray_write,
                  const callback<void(const unseen_store&)>& on_unseen_store, const thresholds& limits)
      : regions_(regions),
        truncation_(truncation),
        host_(count.tracking, pages, on_stray_write, on_unseen_store, limits) {}

  [[nodiscard]] automatic_right& right() { return right_; }
  [[nodiscard]] tracking_host& host() { return host_; }

  // An automatic transaction begins: puts the committed image back where recoverable bytes were written since the last one.
  // Throws errc::stray_write if there were any and nobody observes them. With the right.
  void begin();
  // It has begun: from now on writes are its own.
  void begun() noexcept { host_.in_transaction.store(true, std::memory_order_release); }
  // Calls f(region, ranges) with what has changed in each, in ascending order; `changes` gets all of it. With the right.
  template <class F>
  void collect(os::cleared_vector<memory_range>& changes, F&& f) {
    for_each([&](region_state& r, region_tracker& tracker) {
      const std::size_t before = changes.size();
      tracker.collect(changes);
      f(r, std::span<const memory_range>(changes).subspan(before));
    });
  }
  // Finds what an abort would put back. With the right.
  void find_restorable(os::cleared_vector<memory_range>& changes) {
    for_each(
        [&](region_state&, region_tracker& tracker) { tracker.find(changes, region_tracker::counted::restorable); });
  }
  // Calls f with each page that was compared for that. With the right.
  template <class F>
  void for_each_collected_page(const F& f) const {
    for_each([&](region_state&, region_tracker& tracker) { tracker.for_each_collected_page(f); });
  }
  // The values are captured: memory is the committed image, and the next automatic transaction may begin. Gives the right
  // back. True if there are so many before-images that truncation should make them superfluous.
  [[nodiscard]] bool committed(std::span<const memory_range> changes) noexcept;
  // Puts the committed image back. False if memory was short and a page could not be restored. With the right.
  [[nodiscard]] bool put_back() noexcept;
  // After that: gives the right back.
  void aborted() noexcept;
  // Nothing will be committed any more: writes do not matter.
  void fail() noexcept { host_.failed.store(true, std::memory_order_release); }

  // Truncation, which is in progress, has written these pages.
  void pages_written(const std::vector<dirty_page>& pages);

 private:
  enum class caller { transaction, truncation };

  template <class F>
  void for_each(F&& f) const {
    for (const auto& r : regions_.all())
      if (r->owner != nullptr && r->tracker != nullptr) f(*r, *r->tracker);
  }
  // Gives back pages that truncation has written, if none is in progress now, or it is the caller. With the right.
  void give_back_written(caller who) noexcept;

  const region_table& regions_;
  truncator& truncation_;
  automatic_right right_;
  tracking_host host_;
  std::uint32_t begun_ = 0;                                    // automatic transactions; with the right
  std::size_t truncate_at_ = host_.limits.most_before_images;  // to truncate at; with the right
};

}  // namespace tenure::rvm
