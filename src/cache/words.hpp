// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The word of a ref in memory (tenure/cache/ref.hpp). [cache.ref.word]
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenure::cache {

[[nodiscard]] constexpr bool is_identifier(std::uint64_t word) { return (word & 1U) != 0; }
[[nodiscard]] constexpr bool is_direct(std::uint64_t word) { return word != 0 && !is_identifier(word); }
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
