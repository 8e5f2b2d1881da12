// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rvm/page_difference.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenure::rvm {

namespace {

constexpr std::uint32_t block = 4096, word = 8, words = block / word;
constexpr std::uint32_t mergeable_gap = 2;  // words
// A bit for each word of a block.
using word_set = std::array<std::uint64_t, words / 64>;

std::uint64_t load(const std::byte* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Sets the bits of the words that differ. Returns whether there are any.
bool compare_plainly(const std::byte* now, const std::byte* then, word_set& differ) {
  std::uint64_t any = 0;
  for (std::size_t part = 0; part < differ.size(); ++part) {
    std::uint64_t bits = 0;
    if (std::memcmp(now + part * 512, then + part * 512, 512) != 0)
      for (unsigned i = 0; i < 64; ++i) {
        const std::size_t at = part * 512 + i * word;
        bits |= std::uint64_t{load(now + at) != load(then + at)} << i;
      }
    differ[part] = bits;
    any |= bits;
  }
  return any != 0;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool compare_by_avx2(const std::byte* now, const std::byte* then, word_set& differ) {
  std::uint64_t any = 0;
  for (std::size_t part = 0; part < differ.size(); ++part) {
    std::uint64_t same = 0;
    for (unsigned i = 0; i < 64; i += 4) {
      const std::size_t at = part * 512 + i * word;
      const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(now + at));
      const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(then + at));
      const int equal = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b)));
      same |= static_cast<std::uint64_t>(equal) << i;
    }
    differ[part] = ~same;
    any |= ~same;
  }
  return any != 0;
}
#endif

using comparison = bool (*)(const std::byte*, const std::byte*, word_set&);

comparison best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return compare_by_avx2;
#endif
  return compare_plainly;
}

std::atomic<comparison> compare{best()};

// The first word from `at` on that is in the set, or is not; `words` if there is none.
template <bool member>
std::uint32_t next(const word_set& set, std::uint32_t at) {
  while (at < words) {
    const std::uint64_t bits = (member ? set[at / 64] : ~set[at / 64]) >> (at % 64);
    if (bits != 0) return at + static_cast<std::uint32_t>(std::countr_zero(bits));
    at = (at / 64 + 1) * 64;
  }
  return words;
}

}  // namespace

bool pages_differ(const std::byte* now, const std::byte* then, std::size_t length) noexcept {
  return std::memcmp(now, then, length) != 0;
}

void find_differences(const std::byte* now, const std::byte* then, std::size_t length, std::vector<stretch>& found) {
  const comparison differs = compare.load(std::memory_order_relaxed);
  word_set set;
  for (std::uint32_t base = 0; base < length; base += block) {
    if (!differs(now + base, then + base, set)) continue;
    for (std::uint32_t from = next<true>(set, 0); from < words;) {
      std::uint32_t to = next<false>(set, from), after = next<true>(set, to);
      while (after < words && after - to <= mergeable_gap) {
        to = next<false>(set, after);
        after = next<true>(set, to);
      }
      found.push_back({base + from * word, base + to * word});
      from = after;
    }
  }
}

void find_differences_between(const std::byte* now, const std::byte* then, std::uint32_t from, std::uint32_t to,
                              std::vector<stretch>& found) {
  const std::size_t before = found.size();
  for (std::uint32_t at = from; at < to; at += word) {
    const std::uint32_t end = at + word < to ? at + word : to;
    if (std::memcmp(now + at, then + at, end - at) == 0) continue;
    if (found.size() > before && at - found.back().to <= mergeable_gap * word)
      found.back().to = end;
    else
      found.push_back({at, end});
  }
}

void use_vector_instructions(bool allowed) noexcept { compare = allowed ? best() : compare_plainly; }

}  // namespace tenure::rvm
