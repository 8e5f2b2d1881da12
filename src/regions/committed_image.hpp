// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The committed image of a tracked region: what its memory was when the last automatic transaction ended. That of a page is its
// before-image, a copy made when the last transaction that changed the page ended. A page without one equals its page in the
// file, which the *view* shows, a second mapping [rvm.tracking.image].
// One thread at a time, but for of().
#pragma once

#include <cstring>

#include "log/counters.hpp"
#include "regions/before_image_store.hpp"
#include "regions/page_difference.hpp"
#include "regions/region.hpp"
#include "regions/tracked_pages.hpp"

namespace tenure::rvm {

class committed_image {
 public:
  committed_image(const region_state& in, tracked_pages& pages, counters::tracking_part& count);
  ~committed_image() { release(); }
  committed_image(const committed_image&) = delete;
  committed_image& operator=(const committed_image&) = delete;
  // The region grows behind its first `old` bytes, to `length`.
  void grow(std::size_t old, std::size_t length);
  // Gives everything back.
  void release() noexcept;

  [[nodiscard]] const std::byte* of(page_number page) const noexcept {
    const std::uint32_t image = pages_[page].before_image;
    return image != before_image_store::none ? images_[image] : in_file(page);
  }
  // The page in the file.
  [[nodiscard]] const std::byte* in_file(page_number page) const noexcept {
    return view_ + std::size_t{page} * pages_.page_size;
  }
  [[nodiscard]] bool has_before_image(page_number page) const noexcept {
    return pages_[page].before_image != before_image_store::none;
  }
  // Whether memory differs from the committed image, or from the file.
  [[nodiscard]] bool differs(page_number page) const noexcept {
    return pages_differ(pages_.range_of(page).address, of(page), pages_.page_size);
  }
  // The same of some cards of the page, of a word of them.
  [[nodiscard]] bool differs(page_number page, std::size_t word, std::uint64_t cards) const noexcept;
  [[nodiscard]] bool differs_from_file(page_number page) const noexcept {
    return pages_differ(pages_.range_of(page).address, in_file(page), pages_.page_size);
  }

  // So many more pages can then get a before-image without an error.
  void reserve(std::size_t pages) { images_.reserve(pages); }
  // The committed image of the page is what memory holds now; or, if the page has a before-image, this part of it is.
  // reserve() comes first.
  void remember(page_number page) noexcept;
  void remember(page_number page, const memory_range& part) noexcept;
  // The committed image of the page is the file.
  void forget(page_number page) noexcept;
  // Gives memory back that before-images have needed.
  void trim() noexcept { images_.trim(); }

  [[nodiscard]] std::size_t before_images() const noexcept { return images_.used(); }
  // Throws if an invariant does not hold.
  void check() const;

 private:
  const region_state& in_;
  tracked_pages& pages_;
  counters::tracking_part& count_;
  std::byte* view_ = nullptr;
  before_image_store images_;
};

}  // namespace tenure::rvm
