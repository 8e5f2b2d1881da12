// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a lock word says (tenure/cache/guarded_word.hpp) [cache.locks.word]:
//   bits 0 to 47    the threads whose transactions have a lock of the group
//   bits 48 to 55   the number of the store
//   bit 62          the lock is exclusive
//   bit 63          the word is closed: whoever has not got a lock, or lets go of one, needs the store's mutex
//
// It is closed while somebody waits for a lock of the group, or has one that has no bit, and for ever when the group was united
// with another one, whose word counts then.
#pragma once

#include <cstdint>
#include <memory>

#include <tenure/cache/guarded_word.hpp>

namespace tenure::cache {

using detail::lock_word;
using detail::object_guard;

inline constexpr unsigned holder_bits = 48, store_numbers = 256;
inline constexpr std::uint64_t all_holders = (std::uint64_t{1} << holder_bits) - 1;
inline constexpr std::uint64_t exclusive_bit = std::uint64_t{1} << 62U, closed_bit = std::uint64_t{1} << 63U;
// The bits of the store's number, from which a lock word begins.
inline constexpr std::uint64_t store_bits = std::uint64_t{store_numbers - 1} << holder_bits;

// One of a few numbers that the process gives out, until it is destroyed.
class given_number {
 public:
  enum class purpose { thread, store };
  // nullptr: all are given out.
  [[nodiscard]] static std::shared_ptr<const given_number> take(purpose of);
  given_number(purpose of, unsigned number) : of_(of), number_(number) {}
  ~given_number();
  given_number(const given_number&) = delete;
  given_number& operator=(const given_number&) = delete;

  // In lock words.
  [[nodiscard]] std::uint64_t bits() const {
    return of_ == purpose::thread ? std::uint64_t{1} << number_ : std::uint64_t{number_} << holder_bits;
  }

 private:
  const purpose of_;
  const unsigned number_;
};

}  // namespace tenure::cache
