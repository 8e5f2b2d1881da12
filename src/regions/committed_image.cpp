// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/committed_image.hpp"

#include "log/invariant.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

committed_image::committed_image(const region_state& in, tracked_pages& pages, counters::tracking_part& count)
    : in_(in), pages_(pages), count_(count) {
  view_ = static_cast<std::byte*>(os::reserve_address_space(nullptr, in.capacity));
  try {
    grow(0, in.length);
  } catch (...) {
    os::unmap(view_, in.capacity);
    throw;
  }
  os::advise_by_size(view_, in.length);
}

void committed_image::grow(std::size_t old, std::size_t length) {
  in_.in->map_over(view_ + old, in_.offset + old, length - old, os::access::read_only);
  os::exclude_from_fork(view_ + old, length - old);
}

void committed_image::release() noexcept {
  if (view_ == nullptr) return;
  os::unmap(view_, in_.capacity);
  view_ = nullptr;
  count_.before_images -= images_.used();
  images_.release();
}

bool committed_image::differs(page_number page, std::size_t word, std::uint64_t cards) const noexcept {
  const std::byte* const now = pages_.range_of(page).address;
  const std::byte* const then = of(page);
  bool any = false;
  pages_.cards.for_each_run(word, cards, [&](std::size_t from, std::size_t to) {
    any = any || std::memcmp(now + from, then + from, to - from) != 0;
  });
  return any;
}

void committed_image::remember(page_number page) noexcept {
  tracked_page& p = pages_[page];
  if (p.before_image == before_image_store::none) {
    p.before_image = images_.take();
    ++count_.before_images_made;
    count_.before_images += 1;
    ++pages_.before_images;
  }
  std::memcpy(images_[p.before_image], pages_.range_of(page).address, pages_.page_size);
}

void committed_image::remember(page_number page, const memory_range& part) noexcept {
  if (!has_before_image(page)) return remember(page);
  const std::byte* const memory = pages_.range_of(page).address;
  std::memcpy(images_[pages_[page].before_image] + (part.address - memory), part.address, part.length);
}

void committed_image::forget(page_number page) noexcept {
  tracked_page& p = pages_[page];
  if (p.before_image == before_image_store::none) return;
  images_.give_back(p.before_image);
  p.before_image = before_image_store::none;
  count_.before_images -= 1;
  --pages_.before_images;
}

void committed_image::check() const {
  std::size_t images = 0;
  for (page_number page = 0; page < pages_.count; ++page) images += has_before_image(page);
  require_invariant(images == images_.used() && images == pages_.before_images, "every before-image belongs to a page");
}

}  // namespace tenure::rvm
