// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What backs the pages of a tracked region: the file, a private copy, or anonymous memory, of which a region may have grown.
// Pages that equal the file are given back to the kernel, and show the file again. Anonymous ones are, a backing unit
// (thresholds::backing_unit) at a time, when all pages of it are closed and equal the file: a mapping for each page would be
// too many [rvm.tracking.backing].
#pragma once

#include <span>

#include "log/counters.hpp"
#include "regions/committed_image.hpp"
#include "regions/region.hpp"
#include "regions/write_finders.hpp"
#include "segments/interval_set.hpp"

namespace tenure::rvm {

// With the automatic right and the protection lock.
class page_backing {
 public:
  page_backing(region_state& in, tracked_pages& pages, const committed_image& committed, write_finders& finders,
               counters::tracking_part& count, std::size_t unit)
      : in_(in), pages_(pages), committed_(committed), finders_(finders), count_(count), unit_(unit) {}

  // The region has grown by [from, to), in bytes, which the file does not back.
  void add_anonymous(std::size_t from, std::size_t to);
  // It has not, after all.
  void remove_anonymous(std::size_t from, std::size_t to);
  // These pages, in ascending order, equal the file, and are closed: they show it again. Compared under this lock.
  void drop(const protection_guard&, std::span<const page_number> pages);
  void release() noexcept;

 private:
  [[nodiscard]] bool is_as_in_file(page_number page) const noexcept;
  // The same for these bytes. `equal`: pages of which that is known, in ascending order.
  [[nodiscard]] bool is_as_in_file(std::size_t from, std::size_t to, std::span<const page_number> equal) const noexcept;
  void back_with_file(const protection_guard&, std::size_t from, std::size_t to);

  region_state& in_;
  tracked_pages& pages_;
  const committed_image& committed_;
  write_finders& finders_;
  counters::tracking_part& count_;
  const std::size_t unit_;
  interval_set anonymous_;  // bytes that the file does not back
};

}  // namespace tenure::rvm
