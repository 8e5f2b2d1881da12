// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/string.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <unordered_set>

#include "containers/elements.hpp"

namespace tenure::testing {
namespace {

class strings : public containers {};

TEST_F(strings, agree_with_std_string) {
  const auto seeds = static_cast<unsigned>(10 * test_scale());
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    text tested;
    std::string model;
    std::mt19937 random(seed);
    auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int step = 0; step < 3000; ++step) {
      std::string some(below(20), '\0');
      for (char& c : some) c = static_cast<char>('a' + below(3));
      const std::size_t at = below(model.size() + 1), count = below(12);
      const char c = static_cast<char>('A' + below(3));
      // A part of the string itself.
      const std::size_t part_at = below(model.size() + 1), part_count = below(model.size() + 1 - part_at);
      const auto part = [&] { return tested.view().substr(part_at, part_count); };
      const auto model_part = model.substr(part_at, part_count);
      switch (below(model.size() > 60 ? 22 : 16)) {
        case 0: tested = some, model = some; break;
        case 1: tested += some, model += some; break;
        case 2: tested.push_back(c), model.push_back(c); break;
        case 3: tested.insert(at, some), model.insert(at, some); break;
        case 4: tested.insert(at, count, c), model.insert(at, count, c); break;
        case 5: tested.replace(at, count, some), model.replace(at, count, some); break;
        case 6: tested.replace(at, count, count + 2, c), model.replace(at, count, count + 2, c); break;
        case 7: tested.append(part()), model.append(model_part); break;
        case 8: tested.insert(at, part()), model.insert(at, model_part); break;
        case 9: tested.replace(at, count, part()), model.replace(at, count, model_part); break;
        case 10: tested.append(count, c), model.append(count, c); break;
        case 11: tested.resize(model.size() + count, c), model.resize(model.size() + count, c); break;
        case 12: tested.reserve(model.size() + count); break;
        case 13: tested.shrink_to_fit(); break;
        case 14: tested = text(tested) + some + c, model = model + some + c; break;
        case 15:
          if (below(8) == 0) tested.assign(part()), model.assign(model_part);
          break;
        case 16: tested.pop_back(), model.pop_back(); break;
        case 17: tested.resize(at), model.resize(at); break;
        case 18: {
          text moved = std::move(tested);
          ASSERT_TRUE(tested.empty());  // NOLINT(bugprone-use-after-move)
          tested = std::move(moved);
          break;
        }
        default: tested.erase(at, count), model.erase(at, count);
      }
      ASSERT_EQ(tested, model);
      ASSERT_EQ(tested.size(), model.size());
      ASSERT_LE(tested.size(), tested.capacity());
      ASSERT_EQ(std::strlen(tested.c_str()), model.size());
      ASSERT_EQ(tested.find(some), model.find(some));
      ASSERT_EQ(tested.rfind(some, at), model.rfind(some, at));
      ASSERT_EQ(tested.compare(some) < 0, model.compare(some) < 0);
      ASSERT_EQ(tested.find_first_of("bc", at), model.find_first_of("bc", at));
      ASSERT_EQ(tested.find_last_not_of("ab"), model.find_last_not_of("ab"));
      ASSERT_EQ(tested.substr(model.size() / 2, count), model.substr(model.size() / 2, count));
    }
  }
}

TEST_F(strings, short_ones_need_no_memory_and_have_no_place) {
  static_assert(sizeof(text) == 24);
  const std::string fourteen = "exactly 14 ch.";
  ASSERT_EQ(fourteen.size(), 14U);
  checked_memory::refuse_after = 0;
  text s = fourteen;
  EXPECT_EQ(s.capacity(), 14U);
  EXPECT_THROW(s.push_back('x'), std::bad_alloc);
  EXPECT_EQ(s, fourteen);
  checked_memory::refuse_after = -1;

  alignas(text) std::byte elsewhere[sizeof(text)];
  std::memcpy(elsewhere, static_cast<const void*>(&s), sizeof s);
  EXPECT_EQ(*reinterpret_cast<const text*>(elsewhere), fourteen);
  std::memset(elsewhere, 0, sizeof elsewhere);
  EXPECT_EQ(*reinterpret_cast<const text*>(elsewhere), "");
  EXPECT_EQ(text(fourteen + "!"), fourteen + "!");
  EXPECT_EQ(text(std::string("a\0b", 3)).size(), 3U);
}

TEST_F(strings, comparisons_and_conversions) {
  const text a = "a", b = "b";
  const std::string standard = "a";
  const std::string_view view = "a";
  EXPECT_TRUE(a == "a" && "a" == a && a == standard && standard == a && a == view && view == a);
  EXPECT_TRUE(a != "b" && a < b && a < "b" && "a" < b && standard < b && b > view && a <= a);
  EXPECT_EQ(std::string(a), standard);
  std::string assigned;
  assigned = a;
  EXPECT_EQ(assigned, "a");
  EXPECT_EQ("x" + a + 'y' + standard + view + b, "xayaab");
  EXPECT_EQ('c' + a, "ca");
  EXPECT_EQ(std::hash<text>{}(a), std::hash<std::string_view>{}("a"));
  EXPECT_TRUE((std::unordered_set<text>{a, b, "a"}).contains("b"));
  std::ostringstream out;
  out << a << b;
  EXPECT_EQ(out.str(), "ab");
  EXPECT_THROW((void)a.at(1), std::out_of_range);
  EXPECT_THROW((void)text(a).erase(2), std::out_of_range);
  EXPECT_THROW((void)text(a).insert(2, "x"), std::out_of_range);
  EXPECT_TRUE(a.starts_with('a') && a.ends_with("a") && a.contains("a") && !a.contains('b'));
  text lines = "a-b-c";
  EXPECT_EQ(erase(lines, '-'), 2U);
  EXPECT_EQ(lines, "abc");
  std::reverse(lines.begin(), lines.end());
  EXPECT_EQ(lines, "cba");
  swap(lines, lines);
  EXPECT_EQ((text{'x', 'y'}), "xy");
  EXPECT_EQ(text(3, 'z'), "zzz");
  static_assert(!std::is_constructible_v<text, std::nullptr_t>);
  static_assert(std::is_nothrow_move_constructible_v<text>);
}

TEST_F(strings, operations_that_throw_change_nothing) {
  text s = "fourteen chars";
  for (int round = 0; round < 2; ++round) {
    const std::string before(s);
    checked_memory::refuse_after = 0;
    const std::string much(100, 'm');
    EXPECT_THROW(s.append(much), std::bad_alloc);
    EXPECT_THROW(s.insert(3, much), std::bad_alloc);
    EXPECT_THROW(s.replace(1, 2, much), std::bad_alloc);
    EXPECT_THROW(s = much, std::bad_alloc);
    EXPECT_THROW(s.reserve(200), std::bad_alloc);
    EXPECT_THROW((void)text(much), std::bad_alloc);
    EXPECT_EQ(s, before);
    checked_memory::refuse_after = -1;
    EXPECT_THROW(s.append(text::max_size(), 'x'), std::length_error);
    EXPECT_EQ(s, before);
    s += " and some more";
  }
}

}  // namespace
}  // namespace tenure::testing
