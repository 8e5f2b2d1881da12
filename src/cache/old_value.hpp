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
  [[nodiscard]] bool empty() const { return block_ == nullptr; }
  // Where the object begins, if something was kept: bytes are at the offsets that for_each() tells.
  [[nodiscard]] std::byte* bytes(const shape& of) const { return block_.get() + bytes_at(of); }
  [[nodiscard]] std::uint64_t kept_bytes() const { return empty() ? 0 : word(0); }

  // What keep() would take more.
  [[nodiscard]] std::uint64_t missing_bytes(const shape& of, std::size_t offset, std::size_t length) const {
    std::uint64_t sum = 0;
    for_each_missing(of, offset, length, [&](std::size_t, std::size_t, std::size_t bytes) { sum += bytes; });
    return sum;
  }
  // Copies what is there now, unless it was kept before.
  void keep(const std::byte* now, const shape& of, std::size_t offset, std::size_t length) {
    if (empty()) {
      block_.reset(new std::byte[bytes_at(of) + of.size]);  // which takes memory where something is kept
      std::memset(block_.get(), 0, bytes_at(of));
    }
    for_each_missing(of, offset, length, [&](std::size_t part, std::size_t at, std::size_t bytes) {
      std::memcpy(this->bytes(of) + at, now + at, bytes);
      word(1 + part / 64) |= std::uint64_t{1} << part % 64;
      word(0) += bytes;
    });
  }
  // Calls f(offset, length) for each part, in order. They begin and end with elements.
  template <class F>
  void for_each(const shape& of, F&& f) const {
    if (empty()) return;
    for (std::size_t n = 0; n < words(of); ++n)
      for (std::uint64_t bits = word(1 + n); bits != 0; bits &= bits - 1) {
        const std::size_t at = (n * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * of.part();
        f(at, std::min(of.part(), of.size - at));
      }
  }

 private:
  // Of a bit for each part.
  static std::size_t words(const shape& of) { return of.size / of.part() / 64 + 1; }
  static std::size_t bytes_at(const shape& of) { return (1 + words(of) + 1) / 2 * 2 * sizeof(std::uint64_t); }
  [[nodiscard]] std::uint64_t& word(std::size_t n) const { return reinterpret_cast<std::uint64_t*>(block_.get())[n]; }
  template <class F>
  void for_each_missing(const shape& of, std::size_t offset, std::size_t length, F&& f) const {
    const std::size_t part = of.part(), end = std::min(of.size, offset + std::max<std::size_t>(length, 1));
    for (std::size_t n = offset / part; n * part < end; ++n)
      if (empty() || (word(1 + n / 64) >> n % 64 & 1) == 0) f(n, n * part, std::min(part, of.size - n * part));
  }

  // How many bytes are kept, which parts, and these bytes: each object in memory has one of these, which is mostly empty.
  std::unique_ptr<std::byte[]> block_;
};

}  // namespace tenure::cache
