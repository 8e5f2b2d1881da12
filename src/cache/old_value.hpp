// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What an object was before a transaction changed it, as it was in memory: all of it, or, of a large array, the elements near
// those whose change was announced. An insertion into a hash table of a million entries keeps a kilobyte, not all its memory.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace tenure::cache {

class old_value {
 public:
  static constexpr std::size_t whole_up_to = 4096, part_bytes = 1024;

  // An object, or an array of elements of `stride` bytes.
  struct shape {
    std::size_t size, stride;
    [[nodiscard]] std::size_t part() const {
      return size <= whole_up_to ? size : std::min(size, std::max<std::size_t>(part_bytes / stride, 1) * stride);
    }
  };

  // Whether nothing was kept.
  [[nodiscard]] bool empty() const { return bytes_ == nullptr; }
  // At the offsets that for_each() tells; elsewhere there is nothing.
  [[nodiscard]] const std::byte* bytes() const { return bytes_.get(); }
  [[nodiscard]] std::byte* bytes() { return bytes_.get(); }
  [[nodiscard]] std::uint64_t kept_bytes() const { return kept_; }

  // What keep() would take more.
  [[nodiscard]] std::uint64_t missing_bytes(const shape& of, std::size_t offset, std::size_t length) const {
    std::uint64_t sum = 0;
    for_each_missing(of, offset, length, [&](std::size_t, std::size_t, std::size_t bytes) { sum += bytes; });
    return sum;
  }
  // Copies what is there now, unless it was kept before.
  void keep(const std::byte* now, const shape& of, std::size_t offset, std::size_t length) {
    if (empty()) {
      is_kept_.assign(of.size / of.part() / 64 + 1, 0);
      bytes_.reset(new std::byte[of.size]);  // which takes memory where something is kept
    }
    for_each_missing(of, offset, length, [&](std::size_t part, std::size_t at, std::size_t bytes) {
      std::memcpy(bytes_.get() + at, now + at, bytes);
      is_kept_[part / 64] |= std::uint64_t{1} << part % 64;
      kept_ += bytes;
    });
  }
  // Calls f(offset, length) for each part, in order. They begin and end with elements.
  template <class F>
  void for_each(const shape& of, F&& f) const {
    for (std::size_t word = 0; word < is_kept_.size(); ++word)
      for (std::uint64_t bits = is_kept_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t at = (word * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * of.part();
        f(at, std::min(of.part(), of.size - at));
      }
  }

 private:
  template <class F>
  void for_each_missing(const shape& of, std::size_t offset, std::size_t length, F&& f) const {
    const std::size_t part = of.part(), end = std::min(of.size, offset + std::max<std::size_t>(length, 1));
    for (std::size_t n = offset / part; n * part < end; ++n)
      if (empty() || (is_kept_[n / 64] >> n % 64 & 1) == 0) f(n, n * part, std::min(part, of.size - n * part));
  }

  std::unique_ptr<std::byte[]> bytes_;
  std::vector<std::uint64_t> is_kept_;  // a bit for each part
  std::uint64_t kept_ = 0;
};

}  // namespace tenure::cache
