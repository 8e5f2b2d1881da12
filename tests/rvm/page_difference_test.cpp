// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/page_difference.hpp"

#include <gtest/gtest.h>

#include "support/model.hpp"

namespace tenure::rvm {
namespace {

using testing::image;
using testing::random_source;

constexpr std::uint32_t word = 8;

// Every byte that differs is in a stretch; a stretch begins and ends with words that differ, and has no gap of two.
void expect_right(const image& now, const image& then, std::uint32_t from, std::uint32_t to,
                  const std::vector<stretch>& found) {
  std::uint32_t at = from;
  const auto differs = [&](std::uint32_t a, std::uint32_t b) {
    a = std::max(a, from);
    b = std::min(b, to);
    return !std::equal(now.begin() + a, now.begin() + b, then.begin() + a);
  };
  for (const stretch& s : found) {
    ASSERT_GE(s.from, at);
    ASSERT_LT(s.from, s.to);
    ASSERT_LE(s.to, to);
    ASSERT_TRUE(at == s.from || !differs(at, s.from)) << at << " to " << s.from;
    ASSERT_TRUE(differs(s.from, s.from / word * word + word));
    ASSERT_TRUE(differs((s.to - 1) / word * word, s.to));
    for (std::uint32_t gap = (s.from + word - 1) / word * word; gap + 2 * word <= s.to; gap += word)
      ASSERT_TRUE(differs(gap, gap + 2 * word)) << gap;
    at = s.to;
  }
  ASSERT_TRUE(at == to || !differs(at, to)) << at << " to " << to;
}

struct page_differences : ::testing::TestWithParam<bool> {
  void SetUp() override { use_vector_instructions(GetParam()); }
  void TearDown() override { use_vector_instructions(true); }
};

TEST_P(page_differences, are_found_within_any_part) {
  random_source random(1);
  page_difference difference;
  std::vector<stretch> found;
  for (const std::size_t length : {4096U, 16384U}) {
    image now(length), then(length);
    EXPECT_FALSE(difference.compare(now.data(), then.data(), length));
    for (std::uint64_t round = 0; round < testing::scaled(300); ++round) {
      testing::fill_random(now.data(), length, random);
      then = now;
      for (std::uint64_t n = random.below(60); n > 0; --n) {
        const std::size_t begin = random.below(length), size = 1 + random.below(random.one_in(8) ? 300 : 10);
        testing::fill_random(now.data() + begin, std::min(size, length - begin), random);
      }
      EXPECT_EQ(difference.compare(now.data(), then.data(), length), now != then);
      const auto look = [&](std::uint32_t from, std::uint32_t to) {
        found.clear();
        difference.add_stretches(from, to, found);
        expect_right(now, then, from, to, found);
      };
      look(0, static_cast<std::uint32_t>(length));
      for (int part = 0; part < 50 && !HasFailure(); ++part) {
        const auto from = static_cast<std::uint32_t>(random.below(length));
        const std::uint64_t rest = length - from, most = random.one_in(2) ? std::min<std::uint64_t>(rest, 24) : rest;
        look(from, static_cast<std::uint32_t>(from + 1 + random.below(most)));
      }
      ASSERT_FALSE(HasFailure()) << "round " << round;
    }
  }
}

// What is not compared is equal.
TEST_P(page_differences, are_found_part_by_part) {
  random_source random(2);
  page_difference difference;
  std::vector<stretch> found;
  constexpr std::size_t length = 8192, part = 16;
  image now(length), then(length);
  for (std::uint64_t round = 0; round < testing::scaled(300) && !HasFailure(); ++round) {
    testing::fill_random(now.data(), length, random);
    then = now;
    for (std::uint64_t n = random.below(60); n > 0; --n) now[random.below(length)] = std::byte{7};
    image compared = then;
    difference.begin_parts(now.data(), then.data(), length);
    bool differs = false;
    for (std::size_t at = 0; at < length;) {
      const std::size_t from = at + part * random.below(round % 90 + 1);
      const std::size_t to = std::min(length, from + part * (1 + random.below(round % 90 + 1)));
      if (from >= length) break;
      std::copy_n(now.begin() + static_cast<std::ptrdiff_t>(from), to - from,
                  compared.begin() + static_cast<std::ptrdiff_t>(from));
      differs = difference.compare_part(from, to) || differs;
      at = to;
    }
    EXPECT_EQ(differs, compared != then);
    found.clear();
    difference.add_stretches(0, length, found);
    expect_right(compared, then, 0, length, found);
  }
}

INSTANTIATE_TEST_SUITE_P(each, page_differences, ::testing::Bool(),
                         [](const auto& with) { return with.param ? "with_vectors" : "plainly"; });

}  // namespace
}  // namespace tenure::rvm
