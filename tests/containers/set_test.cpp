// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Sets and the ordered index: what they do not share with maps.
#include <tenure/ordered_index.hpp>
#include <tenure/set.hpp>

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>

#include "containers/elements.hpp"

namespace tenure::testing {
namespace {

template <class K, class Compare = less<K>>
using tested_set = set<K, Compare, checked_memory>;
template <class K>
using tested_multiset = multiset<K, less<K>, checked_memory>;
template <class K, class V>
using tested_index = ordered_index<K, V, less<K>, checked_memory>;

class sets : public containers {};
class ordered_indexes : public containers {};

TEST_F(sets, agree_with_std) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    tested_set<bulky> tested;
    tested_multiset<bulky> tested_multi;
    std::set<std::uint64_t> model;
    std::multiset<std::uint64_t> model_multi;
    std::mt19937 random(seed);
    for (int step = 0; step < 4000; ++step) {
      const std::uint64_t key = random() % 300;
      if (random() % 100 < (step / 1000 % 2 == 0 ? 70U : 30U)) {
        ASSERT_EQ(tested.insert(key).second, model.insert(key).second);
        tested_multi.emplace(key);
        model_multi.insert(key);
      } else {
        ASSERT_EQ(tested.erase(key), model.erase(key));
        ASSERT_EQ(tested_multi.erase(key), model_multi.erase(key));
      }
    }
    tested.check();
    tested_multi.check();
    EXPECT_TRUE(std::equal(tested.begin(), tested.end(), model.begin(), model.end(),
                           [](const bulky& a, std::uint64_t b) { return a.value == b; }));
    EXPECT_TRUE(std::equal(tested_multi.begin(), tested_multi.end(), model_multi.begin(), model_multi.end(),
                           [](const bulky& a, std::uint64_t b) { return a.value == b; }));
  }
}

TEST_F(sets, interface) {
  tested_set<text> s{"b", "a", "b"};
  EXPECT_EQ(s.size(), 2U);
  EXPECT_TRUE(s.insert("c").second);
  EXPECT_FALSE(s.insert(text("c")).second);
  EXPECT_EQ(*s.insert(s.end(), "d"), "d");
  EXPECT_EQ(*s.emplace("e").first, "e");
  EXPECT_TRUE(s.contains(std::string_view("e")));
  EXPECT_EQ(*s.lower_bound("bb"), "c");
  EXPECT_EQ(s.erase("a"), 1U);
  EXPECT_EQ(*s.erase(s.begin()), "c");
  EXPECT_EQ(erase_if(s, [](const text& t) { return t == "d"; }), 1U);
  auto copy = s;
  EXPECT_EQ(copy, s);
  auto moved = std::move(copy);
  EXPECT_EQ(moved, s);
  static_assert(std::is_same_v<decltype(*s.begin()), const text&>);

  tested_multiset<int> m{2, 1, 2};
  EXPECT_EQ(m.count(2), 2U);
  m.insert(m.begin(), 2);
  EXPECT_EQ(m.erase(2), 3U);
  EXPECT_EQ(erase_if(m, [](int i) { return i == 1; }), 1U);
}

// A query that several keys are equivalent to.
struct by_tens {
  using is_transparent = void;
  struct ten {
    int number;
  };
  bool operator()(int a, int b) const { return a < b; }
  bool operator()(int a, ten b) const { return a / 10 < b.number; }
  bool operator()(ten a, int b) const { return a.number < b / 10; }
};

TEST_F(sets, queries_may_be_equivalent_to_many_keys) {
  tested_set<int, by_tens> s;
  for (int i = 0; i < 100000; ++i) s.insert(i);
  for (int ten = 0; ten < 10000; ten += 13) {
    const auto [first, last] = s.equal_range(by_tens::ten{ten});
    ASSERT_EQ(*first, ten * 10);
    ASSERT_EQ(std::distance(first, last), 10);
    ASSERT_TRUE(s.contains(by_tens::ten{ten}));
  }
  EXPECT_EQ(s.erase(by_tens::ten{77}), 10U);
  EXPECT_EQ(s.size(), 99990U);
  EXPECT_FALSE(s.contains(by_tens::ten{77}));
}

TEST_F(ordered_indexes, agree_with_a_set_of_pairs) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    tested_index<int, int> tested;
    std::set<std::pair<int, int>> model;
    std::mt19937 random(seed);
    for (int step = 0; step < 20000; ++step) {
      const int key = static_cast<int>(random() % 5), value = static_cast<int>(random() % 3000);
      if (random() % 100 < (step / 5000 % 2 == 0 ? 80U : 40U))
        ASSERT_EQ(tested.insert(key, value), model.emplace(key, value).second);
      else
        ASSERT_EQ(tested.erase(key, value), model.erase({key, value}) == 1);
      ASSERT_EQ(tested.contains(key, value + 1), model.count({key, value + 1}) == 1);
      if (step % 1000 == 0) {
        tested.check();
        const auto [first, last] = tested.equal_range(key);
        ASSERT_TRUE(std::equal(first, last, model.lower_bound({key, 0}), model.lower_bound({key + 1, 0})));
        ASSERT_EQ(tested.count(key), static_cast<std::size_t>(std::distance(first, last)));
      }
    }
    EXPECT_TRUE(std::equal(tested.begin(), tested.end(), model.begin(), model.end()));
    const auto copy = tested;
    EXPECT_EQ(copy, tested);
    EXPECT_GT(tested.erase(3), 0U);
    EXPECT_FALSE(tested.contains(3));
    EXPECT_EQ(tested.find(3), tested.end());
    EXPECT_TRUE(tested.contains(4));
    tested.check();
  }
}

TEST_F(ordered_indexes, of_text) {
  tested_index<text, const int*> index;
  const int values[3] = {};
  EXPECT_TRUE(index.insert("a name that needs memory of its own", values + 1));
  EXPECT_TRUE(index.insert("a name that needs memory of its own", values));
  EXPECT_FALSE(index.insert(std::string("a name that needs memory of its own"), values + 1));
  EXPECT_TRUE(index.insert("b", values + 2));
  checked_memory::refuse_after = 0;
  EXPECT_EQ(index.find("a name that needs memory of its own")->second, values);
  EXPECT_TRUE(index.contains("b", values + 2));
  EXPECT_FALSE(index.contains(std::string_view("b"), values));
  EXPECT_TRUE(index.erase("a name that needs memory of its own", values));
  EXPECT_EQ(index.begin()->second, values + 1);
  index.erase(index.begin());
  EXPECT_EQ(index.size(), 1U);
}

}  // namespace
}  // namespace tenure::testing
