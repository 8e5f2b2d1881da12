// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The containers of bench/worlds against those of the standard library.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "worlds/plain_world.hpp"

namespace {

using namespace tenure::bench;

constexpr unsigned seed = 7;

TEST(btree, is_a_multimap_in_order_of_insertion) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  plain_world::multimap<int, int> tested;
  std::multimap<int, int> model;
  for (int i = 0; i < 60'000; ++i) {
    const int key = static_cast<int>(random() % 300);  // hundreds of equal keys: over several leaves
    if (random() % 3 != 0 || model.empty()) {
      plain_world::insert(tested, key, i);
      model.emplace(key, i);
    } else {
      auto gone = model.lower_bound(key);
      if (gone == model.end()) continue;
      for (auto steps = random() % 4; steps > 0 && std::next(gone) != model.end(); --steps) ++gone;
      plain_world::erase(tested, gone->first, gone->second);
      model.erase(gone);
    }
    if (i % 997 != 0) continue;
    ASSERT_EQ(tested.size(), model.size());
    const int from = static_cast<int>(random() % 320);
    auto expected = model.lower_bound(from);
    plain_world::scan(tested, from, [&](int k, int v) {
      EXPECT_TRUE(expected != model.end() && k == expected->first && v == expected->second) << k << " " << v;
      if (::testing::Test::HasFailure()) return false;
      ++expected;
      return true;
    });
    ASSERT_TRUE(expected == model.end());
  }
}

// A leaf whose upper half is full of the key that also begins its right neighbour splits in front of that neighbour.
TEST(btree, equal_keys_stay_in_order_when_smaller_ones_split_their_leaf) {
  plain_world::multimap<int, int> tested;
  std::multimap<int, int> model;
  const auto insert = [&](int key, int times) {
    for (int i = 0; i < times; ++i) {
      const int value = static_cast<int>(model.size());
      plain_world::insert(tested, key, value);
      model.emplace(key, value);
    }
  };
  insert(5, 33);
  insert(4, 17);
  insert(5, 3);
  auto expected = model.begin();
  plain_world::scan(tested, 0, [&](int key, int value) {
    EXPECT_EQ(key, expected->first);
    EXPECT_EQ(value, expected->second);
    return ++expected != model.end();
  });
  EXPECT_TRUE(expected == model.end());
}

TEST(btree, is_a_map) {
  std::mt19937 random{seed};
  plain_world::map<int, int> tested;
  std::map<int, int> model;
  for (int i = 0; i < 30'000; ++i) {
    const int key = static_cast<int>(random() % 5000);
    const auto known = model.find(key);
    const int* const found = plain_world::find(tested, key);
    ASSERT_EQ(found != nullptr, known != model.end()) << "seed " << seed << ", step " << i;
    if (known == model.end()) {
      plain_world::insert(tested, key, i);
      model[key] = i;
    } else {
      ASSERT_EQ(*found, known->second);
      plain_world::erase(tested, key, known->second);
      model.erase(known);
    }
  }
  EXPECT_EQ(tested.size(), model.size());
}

TEST(hash_table, is_a_map) {
  std::mt19937 random{seed};
  plain_world::hash_map<int, int> tested;
  std::unordered_map<int, int> model;
  for (int i = 0; i < 60'000; ++i) {
    const int key = static_cast<int>(random() % 3000) - 1500;
    const auto known = model.find(key);
    const int* const found = plain_world::find(tested, key);
    ASSERT_EQ(found != nullptr, known != model.end()) << "seed " << seed << ", step " << i;
    if (known == model.end()) {
      plain_world::insert(tested, key, i);
      model[key] = i;
    } else {
      ASSERT_EQ(*found, known->second);
      plain_world::erase(tested, key, known->second);
      model.erase(known);
    }
  }
  EXPECT_EQ(tested.size(), model.size());
}

TEST(string, replaces_its_start) {
  plain_world::string tested;
  std::string model(50, 'x');
  tested.assign(model);
  for (const auto& [length, by] : std::vector<std::pair<std::size_t, std::string>>{
           {4, "longer than that"}, {16, ""}, {0, "ab"}, {2, "ba"}, {1, "and much, much longer than it was before"}}) {
    plain_world::replace_front(tested, length, by);
    model.replace(0, length, by);
    ASSERT_EQ(tested.view(), model);
  }
}

TEST(vector, grows_and_shrinks) {
  plain_world::vector<int> tested;
  std::vector<int> model;
  for (int i = 0; i < 100; ++i) {
    tested.push_back(i);
    model.push_back(i);
    if (i % 3 == 0) {
      tested.pop_back();
      model.pop_back();
    }
  }
  plain_world::set(tested, 5, -1);
  model[5] = -1;
  EXPECT_TRUE(std::ranges::equal(tested, model));
}

}  // namespace
