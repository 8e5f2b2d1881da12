// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A set of numbers in which the last number up to a given one is found with one step for each level. There is a bit for
// each number. On each level above, one bit for each word below says whether that word is not empty.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <vector>

namespace tenure::pobj {

class bit_tree {
 public:
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

  explicit bit_tree(std::pmr::memory_resource* in)
      : levels_{level(in), level(in), level(in), level(in), level(in), level(in), level(in), level(in)} {}

  // Makes room, so that setting numbers below `count` cannot fail. May throw.
  void reserve(std::uint64_t count) {
    for (level& bits : levels_) {
      count = count / 64 + 1;
      // Grows by doubling, because the numbers come in ascending order.
      if (count > bits.capacity()) bits.reserve(std::max<std::uint64_t>(count, bits.size() * 2));
      if (count > bits.size()) bits.resize(count);
    }
  }
  void set(std::uint64_t n) noexcept {
    for (level& bits : levels_) {
      const std::uint64_t before = bits[n / 64];
      bits[n / 64] = before | std::uint64_t{1} << n % 64;
      if (before != 0) return;
      n /= 64;
    }
  }
  void reset(std::uint64_t n) noexcept {
    for (level& bits : levels_) {
      if (n / 64 >= bits.size()) return;
      if ((bits[n / 64] &= ~(std::uint64_t{1} << n % 64)) != 0) return;
      n /= 64;
    }
  }
  // The last number in the set that is at most n; none.
  [[nodiscard]] std::uint64_t find_last(std::uint64_t n) const noexcept {
    // Goes up to a level where the same word has a lower bit, then down to that number.
    for (std::size_t up = 0; up < levels; ++up) {
      const level& bits = levels_[up];
      if (bits.empty()) return none;
      n = std::min(n, bits.size() * 64 - 1);
      const std::uint64_t found = bits[n / 64] & ~std::uint64_t{0} >> (63 - n % 64);
      if (found != 0) {
        n = n / 64 * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(found));
        for (std::size_t down = up; down-- > 0;)
          n = n * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(levels_[down][n]));
        return n;
      }
      if (n < 64) return none;
      n = n / 64 - 1;
    }
    return none;
  }

 private:
  using level = std::pmr::vector<std::uint64_t>;
  static constexpr std::size_t levels = 8;  // for numbers below 2^48
  std::array<level, levels> levels_;
};

}  // namespace tenure::pobj
