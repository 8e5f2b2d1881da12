// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Before-images: copies of pages, in arenas that are used again. The first arena has ordinary pages, because few before-images
// touch few of them; the others have huge pages. To clear two huge pages, one here and one for the first group of the log, took
// an eighth of the processor time in which a store is made and closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "os/virtual_memory.hpp"

namespace tenure::rvm {

// One thread at a time.
class before_image_store {
 public:
  static constexpr std::uint32_t none = 0;

  before_image_store() = default;
  ~before_image_store() { release(); }
  before_image_store(const before_image_store&) = delete;
  before_image_store& operator=(const before_image_store&) = delete;

  // So many more before-images can then be taken without an error.
  void reserve(std::size_t count) {
    while (free_.size() < count) {
      free_.reserve((arenas_.size() + 1) * per_arena);
      arenas_.reserve(arenas_.size() + 1);
      auto* const arena = static_cast<std::byte*>(arenas_.empty() ? os::map_anonymous(nullptr, per_arena * page_size_)
                                                                  : os::map_anonymous_huge(per_arena * page_size_));
      os::exclude_from_fork(arena, per_arena * page_size_);
      arenas_.push_back(arena);
      const auto first = static_cast<std::uint32_t>((arenas_.size() - 1) * per_arena + 1);
      for (std::uint32_t i = per_arena; i-- > 0;) free_.push_back(first + i);
    }
  }
  // The number of a before-image, whose content is unknown. reserve() comes first.
  [[nodiscard]] std::uint32_t take() noexcept {
    const std::uint32_t image = free_.back();
    free_.pop_back();
    ++used_;
    return image;
  }
  void give_back(std::uint32_t image) noexcept {
    free_.push_back(image);  // there was room for all of them
    --used_;
  }
  [[nodiscard]] std::byte* operator[](std::uint32_t image) const noexcept {
    return arenas_[(image - 1) / per_arena] + (image - 1) % per_arena * page_size_;
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  // Gives the memory back, once none is used and more than one arena was needed.
  void trim() noexcept {
    if (used_ == 0 && arenas_.size() > 1) release();
  }

  // All before-images are gone.
  void release() noexcept {
    for (std::byte* arena : arenas_) os::unmap(arena, per_arena * page_size_);
    arenas_.clear();
    free_.clear();
    used_ = 0;
  }

 private:
  static constexpr std::uint32_t per_arena = 1024;

  const std::size_t page_size_ = os::page_size();
  std::vector<std::byte*> arenas_;
  std::vector<std::uint32_t> free_;  // its capacity is that of all arenas
  std::size_t used_ = 0;
};

}  // namespace tenure::rvm
