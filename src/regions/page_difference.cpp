// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/page_difference.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenure::rvm {

namespace {

constexpr std::uint32_t block = 4096, word = 8, words = block / word;
constexpr std::uint32_t mergeable_gap = 1;  // words
constexpr std::size_t sets = words / 64;    // of 64 words each, in a block

std::uint64_t load(const std::byte* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Sets the bits of a block's words that differ. Returns whether there are any.
bool compare_plainly(const std::byte* now, const std::byte* then, std::uint64_t* differ) {
  std::uint64_t any = 0;
  for (std::size_t part = 0; part < sets; ++part) {
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
[[gnu::target("avx2")]] bool compare_by_avx2(const std::byte* now, const std::byte* then, std::uint64_t* differ) {
  std::uint64_t any = 0;
  for (std::size_t part = 0; part < sets; ++part) {
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

using comparison = bool (*)(const std::byte*, const std::byte*, std::uint64_t*);

comparison best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return compare_by_avx2;
#endif
  return compare_plainly;
}

std::atomic<comparison> compare{best()};

// The first word from `at` on, before `end`, that is in the set, or is not; `end` if there is none.
template <bool member>
std::uint32_t next(const std::vector<std::uint64_t>& set, std::uint32_t at, std::uint32_t end) {
  while (at < end) {
    const std::uint64_t bits = (member ? set[at / 64] : ~set[at / 64]) >> (at % 64);
    if (bits != 0) return std::min(end, at + static_cast<std::uint32_t>(std::countr_zero(bits)));
    at = (at / 64 + 1) * 64;
  }
  return end;
}

}  // namespace

bool pages_differ(const std::byte* now, const std::byte* then, std::size_t length) noexcept {
  return std::memcmp(now, then, length) != 0;
}

bool page_difference::compare(const std::byte* now, const std::byte* then, std::size_t length) {
  const comparison differs = rvm::compare.load(std::memory_order_relaxed);
  then_ = then;
  now_after_then_ = reinterpret_cast<std::uintptr_t>(now) - reinterpret_cast<std::uintptr_t>(then);
  differ_.resize(length / word / 64);
  bool any = false;
  for (std::size_t base = 0; base < length; base += block)
    any = differs(now + base, then + base, &differ_[base / word / 64]) || any;
  return any;
}

bool page_difference::compare_cards(const std::byte* now, const std::byte* then, std::size_t length,
                                    std::uint64_t cards) {
  then_ = then;
  now_after_then_ = reinterpret_cast<std::uintptr_t>(now) - reinterpret_cast<std::uintptr_t>(then);
  differ_.assign(length / word / 64, 0);
  const std::size_t in_card = length / 64 / word;
  bool any = false;
  for (; cards != 0; cards &= cards - 1) {
    const std::size_t first = static_cast<std::size_t>(std::countr_zero(cards)) * in_card;
    for (std::size_t i = first; i < first + in_card; ++i) {
      const std::uint64_t differs = load(now + i * word) != load(then + i * word);
      differ_[i / 64] |= differs << i % 64;
      any |= differs != 0;
    }
  }
  return any;
}

bool page_difference::bytes_differ(std::uint32_t from, std::uint32_t to) const noexcept {
  const std::uintptr_t now = reinterpret_cast<std::uintptr_t>(then_) + now_after_then_;
  return std::memcmp(reinterpret_cast<const std::byte*>(now) + from, then_ + from, to - from) != 0;
}

void page_difference::add_stretches(std::uint32_t from, std::uint32_t to, std::vector<stretch>& found) const {
  const std::size_t before = found.size();
  const auto add = [&](std::uint32_t begin, std::uint32_t end) {
    if (found.size() > before && begin - found.back().to <= mergeable_gap * word)
      found.back().to = end;
    else
      found.push_back({begin, end});
  };
  const std::uint32_t first = (from + word - 1) / word, last = to / word;
  if (first > last) {  // inside one word
    if (bytes_differ(from, to)) add(from, to);
    return;
  }
  if (first * word != from && bytes_differ(from, first * word)) add(from, first * word);
  for (std::uint32_t at = next<true>(differ_, first, last); at < last;) {
    const std::uint32_t end = next<false>(differ_, at, last);
    add(at * word, end * word);
    at = next<true>(differ_, end, last);
  }
  if (last * word != to && bytes_differ(last * word, to)) add(last * word, to);
}

void use_vector_instructions(bool allowed) noexcept { compare = allowed ? best() : compare_plainly; }

}  // namespace tenure::rvm
