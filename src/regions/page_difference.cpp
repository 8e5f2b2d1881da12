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

constexpr std::uint32_t word = 8;
constexpr std::uint32_t mergeable_gap = 1;     // words
constexpr std::size_t set_length = 64 * word;  // of what one element of `differ_` is about

std::uint64_t load(const std::byte* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Sets the bits of the words that differ, in so many sets of them. Returns whether there are any.
bool compare_plainly(const std::byte* now, const std::byte* then, std::size_t sets, std::uint64_t* differ) {
  std::uint64_t any = 0;
  for (std::size_t part = 0; part < sets; ++part) {
    std::uint64_t bits = 0;
    if (std::memcmp(now + part * set_length, then + part * set_length, set_length) != 0)
      for (unsigned i = 0; i < 64; ++i) {
        const std::size_t at = part * set_length + i * word;
        bits |= std::uint64_t{load(now + at) != load(then + at)} << i;
      }
    differ[part] = bits;
    any |= bits;
  }
  return any != 0;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool compare_by_avx2(const std::byte* now, const std::byte* then, std::size_t sets,
                                             std::uint64_t* differ) {
  std::uint64_t any = 0;
  for (std::size_t part = 0; part < sets; ++part) {
    std::uint64_t same = 0;
    for (unsigned i = 0; i < 64; i += 4) {
      const std::size_t at = part * set_length + i * word;
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

using comparison = bool (*)(const std::byte*, const std::byte*, std::size_t, std::uint64_t*);

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

void page_difference::remember(const std::byte* now, const std::byte* then) noexcept {
  then_ = then;
  now_after_then_ = reinterpret_cast<std::uintptr_t>(now) - reinterpret_cast<std::uintptr_t>(then);
}

const std::byte* page_difference::now() const noexcept {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(then_) + now_after_then_);
}

bool page_difference::compare(const std::byte* now, const std::byte* then, std::size_t length) {
  remember(now, then);
  differ_.resize(length / set_length);
  return rvm::compare.load(std::memory_order_relaxed)(now, then, differ_.size(), differ_.data());
}

void page_difference::begin_parts(const std::byte* now, const std::byte* then, std::size_t length) {
  remember(now, then);
  differ_.assign(length / set_length, 0);
}

bool page_difference::compare_part(std::size_t from, std::size_t to) {
  bool any = false;
  const std::byte* const now = this->now();
  const auto word_by_word = [&](std::size_t end) {
    for (; from < end; from += word) {
      const std::uint64_t differs = load(now + from) != load(then_ + from);
      differ_[from / set_length] |= differs << from / word % 64;
      any |= differs != 0;
    }
  };
  word_by_word(std::min(to, (from + set_length - 1) / set_length * set_length));
  if (const std::size_t sets = (to - from) / set_length; sets != 0) {
    any |= rvm::compare.load(std::memory_order_relaxed)(now + from, then_ + from, sets, &differ_[from / set_length]);
    from += sets * set_length;
  }
  word_by_word(to);
  return any;
}

bool page_difference::bytes_differ(std::uint32_t from, std::uint32_t to) const noexcept {
  return std::memcmp(now() + from, then_ + from, to - from) != 0;
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

std::optional<stretch> page_difference::first_bytes(std::uint32_t from, std::uint32_t to) const noexcept {
  const std::byte* const now = this->now();
  while (from < to && now[from] == then_[from]) ++from;
  if (from >= to) return std::nullopt;
  std::uint32_t end = from + 1;
  while (end < to && now[end] != then_[end]) ++end;
  return stretch{from, end};
}

void use_vector_instructions(bool allowed) noexcept { compare = allowed ? best() : compare_plainly; }

}  // namespace tenure::rvm
