// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Cards [Hosking §5.2.2]: the parts into which a page is divided. Of each it is noted whether stores to it were announced: a bit,
// in words of 64. Pages of 4096 bytes have one word, but for cards of 16 and of 32 bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenure::rvm {

class card_layout {
 public:
  static constexpr std::size_t least = 16, most = 4096, usual = 64;  // bytes
  // A power of two from `least` to `most`.
  [[nodiscard]] static constexpr bool is_possible(std::size_t size) noexcept {
    return size >= least && size <= most && std::has_single_bit(size);
  }
  card_layout(std::size_t page_size, std::size_t size) noexcept
      : shift_(std::countr_zero(size)), words_(std::max<std::size_t>(page_size / size / 64, 1)) {}

  // In which a byte of a page lies.
  [[nodiscard]] std::size_t card_of(std::size_t byte) const noexcept { return byte >> shift_; }
  // Of each page.
  [[nodiscard]] std::size_t words() const noexcept { return words_; }
  // Calls f(word, bits) for the cards in which bytes [from, to) of a page lie, for one word of bits after the other.
  template <class F>
  void for_each_word(std::size_t from, std::size_t to, F&& f) const {
    const std::size_t first = from >> shift_, last = (to - 1) >> shift_;
    for (std::size_t word = first / 64; word <= last / 64; ++word) {
      const std::uint64_t from_first = word == first / 64 ? ~std::uint64_t{0} << first % 64 : ~std::uint64_t{0};
      const std::uint64_t up_to_last = word == last / 64 ? ~std::uint64_t{0} >> (63 - last % 64) : ~std::uint64_t{0};
      f(word, from_first & up_to_last);
    }
  }
  // The first byte of a page in cards of one word of bits, which are not all clear.
  [[nodiscard]] std::size_t first_byte(std::size_t word, std::uint64_t bits) const noexcept {
    return (64 * word + static_cast<std::size_t>(std::countr_zero(bits))) << shift_;
  }
  // Calls f(from, to) with the bytes of a page in which the cards of one word of bits lie, neighbours together.
  template <class F>
  void for_each_run(std::size_t word, std::uint64_t bits, F&& f) const {
    for (std::size_t at = 64 * word; bits != 0;) {
      const auto clear = static_cast<unsigned>(std::countr_zero(bits));
      const auto set = static_cast<unsigned>(std::countr_one(bits >> clear));
      f((at + clear) << shift_, (at + clear + set) << shift_);
      if (clear + set == 64) return;
      bits >>= clear + set;
      at += clear + set;
    }
  }

 private:
  int shift_;
  std::size_t words_;
};

}  // namespace tenure::rvm
