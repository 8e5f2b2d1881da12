// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::hash: the hash function of tenure's hash maps. Its results are part of the stored format. They are the same
// in every process, build and platform, and do not change.
//
// Algorithm 1. All numbers are 64-bit and unsigned, + and * without carry, ^ is exclusive or, words of text are
// little-endian.
//
//     mix(a, b)        = the low half ^ the high half of the 128-bit product of a and b
//     number(x, seed)  = mix(x ^ seed ^ C0, C1)
//     text(t, seed)    : h = seed ^ C0; while more than 16 bytes are left, h = mix(word ^ C1, next word ^ h);
//                        of the last n bytes, from 0 to 16,
//                          8 <= n:      a = the first 8 bytes, b = the last 8 bytes
//                          4 <= n < 8:  a = the first 4 bytes, b = the last 4 bytes
//                          0 < n < 4:   a = first byte * 65536 + byte n/2 * 256 + last byte, b = 0
//                          n = 0:       a = b = 0
//                        and text = mix(mix(a ^ C1, b ^ h) ^ length, C2)
//
// with the constants C0, C1, C2 below. It is a variant of wyhash [Wang Yi, public domain], and uses its constants. It
// does not withstand an attacker who can choose keys and knows the seed. The functions here do not throw, and are
// thread-safe.
//
// Integers hash as number(their value modulo 2^64), char as unsigned char, enumerations as their integer, pointers as
// the home address of their target, floating point as the bits of the double, with -0 as 0, text as text, and pairs as
// hash(second, hash(first, seed)).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/home_address.hpp>
#include <tenure/containers/less.hpp>

namespace tenure {

namespace detail {

static_assert(std::endian::native == std::endian::little, "words of text are read as they are");

inline constexpr std::uint64_t hash_c0 = 0x2d358dccaa6c78a5, hash_c1 = 0x8bb84b93962eacc9, hash_c2 = 0x4b33a62ed433d4a3;

// NOLINTNEXTLINE(readability-identifier-naming): a name like the compiler's own
__extension__ using wide = unsigned __int128;

inline std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) noexcept {
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

inline std::uint64_t hash_number(std::uint64_t x, std::uint64_t seed) noexcept {
  return hash_mix(x ^ seed ^ hash_c0, hash_c1);
}

template <class Word>
std::uint64_t hash_word(const char* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed) noexcept {
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t h = seed ^ hash_c0;
  for (; left > 16; at += 16, left -= 16)
    h = hash_mix(hash_word<std::uint64_t>(at) ^ hash_c1, hash_word<std::uint64_t>(at + 8) ^ h);
  std::uint64_t a = 0, b = 0;
  if (left >= 8) {
    a = hash_word<std::uint64_t>(at);
    b = hash_word<std::uint64_t>(at + left - 8);
  } else if (left >= 4) {
    a = hash_word<std::uint32_t>(at);
    b = hash_word<std::uint32_t>(at + left - 4);
  } else if (left > 0) {
    a = hash_word<std::uint8_t>(at) << 16U | hash_word<std::uint8_t>(at + left / 2) << 8U |
        hash_word<std::uint8_t>(at + left - 1);
  }
  return hash_mix(hash_mix(a ^ hash_c1, b ^ h) ^ text.size(), hash_c2);
}

}  // namespace detail

// Specialise it for your own types, in the same form: `id` names the function and its version, and the call is
// noexcept. If the function changes, change the `id`. Then hash maps that were stored with the old function refuse
// lookups, instead of missing entries.
template <class T>
struct hash {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>,
                "there is no tenure::hash for this type: specialise it, or name a hash function (docs/containers.md)");
  static_assert(!std::is_same_v<T, long double>, "long double differs between platforms: hash a double");
  static constexpr std::uint32_t id = 1;

  std::uint64_t operator()(const T& x, std::uint64_t seed) const noexcept {
    if constexpr (std::is_pointer_v<T>)
      return detail::hash_number(detail::home_address(x), seed);
    else if constexpr (std::is_floating_point_v<T>)
      return detail::hash_number(x == 0 ? 0 : std::bit_cast<std::uint64_t>(static_cast<double>(x)), seed);
    else if constexpr (std::is_same_v<T, char>)
      return detail::hash_number(static_cast<unsigned char>(x), seed);
    else
      return detail::hash_number(static_cast<std::uint64_t>(x), seed);
  }
};
template <detail::text T>
struct hash<T> {
  using is_transparent = void;
  using compares_text = void;
  static constexpr std::uint32_t id = 1;

  std::uint64_t operator()(std::string_view text, std::uint64_t seed) const noexcept {
    return detail::hash_text(text, seed);
  }
};
template <class A, class B>
struct hash<std::pair<A, B>> {
  static constexpr std::uint32_t id = hash<A>::id == 1 && hash<B>::id == 1 ? 1 : hash<A>::id * 65599 + hash<B>::id;

  std::uint64_t operator()(const std::pair<A, B>& x, std::uint64_t seed) const noexcept {
    return hash<B>{}(x.second, hash<A>{}(x.first, seed));
  }
};

}  // namespace tenure
