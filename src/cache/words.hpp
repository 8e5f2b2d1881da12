// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The word of a ref in memory (tenure/cache/ref.hpp). [cache.ref.word]
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/cache/guarded_word.hpp>

namespace tenure::cache {

using detail::address_in;
using detail::guarded;
using detail::is_guarded;

[[nodiscard]] constexpr bool is_direct(std::uint64_t word) { return word != 0 && (word & 1U) == 0; }
[[nodiscard]] constexpr bool is_identifier(std::uint64_t word) { return (word & detail::guard_bits) == 1; }
// Direct or guarded: address_in() says where.
[[nodiscard]] constexpr bool is_address(std::uint64_t word) { return word != 0 && !is_identifier(word); }
// No home address, though a damaged word may say so.
[[nodiscard]] constexpr bool is_beyond_homes(std::uint64_t word) { return (word >> 63U) != 0; }
[[nodiscard]] constexpr std::uint64_t identifier_of(std::uint64_t home) { return home == 0 ? 0 : home + 1; }
[[nodiscard]] constexpr std::uint64_t home_in(std::uint64_t identifier) { return identifier - 1; }

// Other threads that read may swizzle the same word.
[[nodiscard]] inline std::uint64_t load_word(const std::byte* at) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_ACQUIRE);
}
inline void store_word(std::byte* at, std::uint64_t word) {
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(at), word, __ATOMIC_RELEASE);
}

}  // namespace tenure::cache
