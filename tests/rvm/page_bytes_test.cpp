// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// page_bytes against std::bitset, page_index against std::map.
#include "segments/page_bytes.hpp"

#include <gtest/gtest.h>

#include <bitset>
#include <map>
#include <random>

namespace tenure::rvm {
namespace {

using twin = std::bitset<redo_page>;

bool contains(const twin& set, std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t i = from; i < to; ++i)
    if (!set[i]) return false;
  return true;
}
using runs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
runs missing(const twin& set, std::uint32_t from, std::uint32_t to) {
  runs all;
  for (std::uint32_t i = from; i < to; ++i) {
    if (set[i]) continue;
    if (!all.empty() && all.back().second == i)
      all.back().second = i + 1;
    else
      all.emplace_back(i, i + 1);
  }
  return all;
}
runs missing(const page_bytes& set, std::uint32_t from, std::uint32_t to) {
  runs all;
  set.for_each_missing(from, to, [&](std::uint32_t a, std::uint32_t b) { all.emplace_back(a, b); });
  return all;
}

TEST(page_bytes, agrees_with_a_bitset) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    // Short ranges, long ones, and ones that begin and end at words.
    const auto any_range = [&] {
      const std::uint32_t unit = seed % 3 == 2 ? 64 : 1, longest = seed % 3 == 0 ? 40 : 1500;
      const std::uint32_t from = static_cast<std::uint32_t>(random() % redo_page / unit * unit);
      const std::uint32_t to =
          std::min<std::uint32_t>(redo_page, from + static_cast<std::uint32_t>(random() % longest / unit * unit));
      return std::pair(from, to);
    };
    page_bytes set;
    twin expected;
    for (int i = 0; i < 100; ++i) {
      const auto [from, to] = any_range();
      set.insert(from, to);
      for (std::uint32_t b = from; b < to; ++b) expected.set(b);
      for (int question = 0; question < 5; ++question) {
        const auto [a, b] = any_range();
        ASSERT_EQ(set.contains(a, b), contains(expected, a, b)) << a << ' ' << b;
        ASSERT_EQ(missing(set, a, b), missing(expected, a, b)) << a << ' ' << b;
      }
    }
    ASSERT_EQ(missing(set, 0, redo_page), missing(expected, 0, redo_page));
  }
}

TEST(page_bytes, edges) {
  page_bytes set;
  EXPECT_TRUE(set.contains(0, 0));
  EXPECT_TRUE(set.contains(redo_page, redo_page));
  EXPECT_EQ(missing(set, 0, redo_page), (runs{{0, redo_page}}));
  for (const std::uint32_t at : {0u, 63u, 64u, 65u, redo_page - 1}) {
    EXPECT_FALSE(set.contains(at, at + 1));
    set.insert(at, at + 1);
    EXPECT_TRUE(set.contains(at, at + 1));
  }
  EXPECT_EQ(missing(set, 60, 70), (runs{{60, 63}, {66, 70}}));
  set.insert(0, redo_page);
  EXPECT_TRUE(set.contains(0, redo_page));
  EXPECT_TRUE(missing(set, 0, redo_page).empty());
}

TEST(page_index, agrees_with_a_map) {
  std::mt19937_64 random(7);
  page_index index;
  std::map<std::uint64_t, std::uint32_t> expected;
  EXPECT_EQ(index.find({0, 0}), page_index::none);
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    // Neighbouring pages of few segments, and pages anywhere.
    const page_key key{static_cast<std::uint32_t>(random() % 5),
                       i % 3 == 0 ? random() % (std::uint64_t{1} << 48) : random() % 20'000};
    const auto [at, is_new] = expected.emplace(key.packed(), i);
    ASSERT_EQ(index.find(key), is_new ? page_index::none : at->second);
    ASSERT_EQ(index.find_or_insert(key, i), at->second);
    ASSERT_EQ(index.find(key), at->second);
  }
  for (const auto& [packed, i] : expected)
    ASSERT_EQ(index.find({static_cast<std::uint32_t>(packed >> 48), packed & ((std::uint64_t{1} << 48) - 1)}), i);
}

}  // namespace
}  // namespace tenure::rvm
