// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for many short pieces of bytes that end together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tenure::cache {

class byte_arena {
 public:
  // Of no value yet. It stays where it is as long as the arena.
  [[nodiscard]] std::span<std::byte> take(std::size_t length) {
    if (length > rest_.size()) {
      if (length > next_ / 2) return add(length);
      next_ = std::min(next_ * 2, largest);
      rest_ = add(next_);
    }
    const std::span<std::byte> taken = rest_.first(length);
    rest_ = rest_.subspan(length);
    return taken;
  }

 private:
  // Chunks from 64 KiB on make malloc look at all that is free whenever one is given back.
  static constexpr std::size_t largest = 32768;
  std::span<std::byte> add(std::size_t length) {
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(length));
    return {chunks_.back().get(), length};
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::span<std::byte> rest_;
  std::size_t next_ = 1024;
};

}  // namespace tenure::cache
