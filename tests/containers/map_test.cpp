// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/map.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <tenure/plain_memory.hpp>
#include <tenure/string.hpp>

#include "containers/elements.hpp"

namespace tenure::testing {
namespace {

template <class K, class V, class Compare = less<K>>
using tested_map = map<K, V, Compare, checked_memory>;
template <class K, class V, class Compare = less<K>>
using tested_multimap = multimap<K, V, Compare, checked_memory>;

class maps : public containers {};

// --- Against std::map ---

template <class K>
K key_of(std::uint64_t n) {
  if constexpr (std::is_constructible_v<K, std::string_view>) {
    std::string name = "key-" + std::to_string(n * 2654435761U % 1000003);
    if (n % 3 == 0) name += " with more characters than fit inside";
    return K(std::string_view(name));
  } else {
    return K(n);
  }
}
template <class K>
auto plain(const K& key) {
  if constexpr (std::is_same_v<K, text>)
    return std::string(key.view());
  else if constexpr (std::is_same_v<K, bulky>)
    return key.value;
  else
    return key;
}

template <class Map, class Model>
void expect_same(const Map& tested, const Model& model) {
  ASSERT_EQ(tested.size(), model.size());
  ASSERT_EQ(tested.empty(), model.empty());
  auto expected = model.begin();
  for (const auto& [key, value] : tested) {
    ASSERT_EQ(plain(key), expected->first);
    ASSERT_EQ(value, expected->second);
    ++expected;
  }
  auto from_behind = model.rbegin();
  for (auto i = tested.rbegin(); i != tested.rend(); ++i, ++from_behind) ASSERT_EQ(plain(i->first), from_behind->first);
}

template <class Iterator, class Map, class Expected, class Model>
void expect_at(Iterator at, const Map& tested, Expected expected, const Model& model) {
  ASSERT_EQ(at == tested.end(), expected == model.end());
  if (expected == model.end()) return;
  ASSERT_EQ(plain(at->first), expected->first);
  ASSERT_EQ(at->second, expected->second);
}

template <class K, bool Multi>
void random_operations(std::uint64_t seed, std::uint64_t keys, int steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  using plain_key = decltype(plain(std::declval<K>()));
  std::conditional_t<Multi, tested_multimap<K, int>, tested_map<K, int>> tested;
  std::conditional_t<Multi, std::multimap<plain_key, int>, std::map<plain_key, int>> model;
  std::mt19937_64 random(seed);
  auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t growing = 1;  // of 100 steps, how many insert; changes, so that trees fill and become empty again

  for (int step = 0; step < steps; ++step) {
    if (step % 500 == 0) {
      growing = step % 1000 == 0 ? 75 : 15;
      ASSERT_NO_THROW(tested.check());
      expect_same(tested, model);
      if (::testing::Test::HasFatalFailure()) return;
    }
    const K key = key_of<K>(below(keys));
    const plain_key model_key = plain(key);
    if (below(100) < growing) {
      switch (below(4)) {
        case 0: {
          const auto expected = model.emplace(model_key, step);
          const auto at = tested.emplace(key, step);
          if constexpr (Multi)
            expect_at(at, tested, expected, model);
          else
            expect_at(at.first, tested, expected.first, model);
          break;
        }
        case 1: {  // with a hint that is right, or nearly
          auto hint = tested.upper_bound(key);
          if (below(4) == 0 && hint != tested.begin()) --hint;
          tested.emplace_hint(hint, key, step);
          model.emplace(model_key, step);
          break;
        }
        case 2:
          if constexpr (Multi) {
            tested.insert({key, step});
            model.insert({model_key, step});
          } else {
            tested.insert_or_assign(key, step);
            model.insert_or_assign(model_key, step);
          }
          break;
        default:
          if constexpr (Multi) {
            tested.insert(tested.end(), {key, step});
            model.emplace(model_key, step);
          } else {
            ASSERT_EQ(tested[key], model[model_key]);
            tested[key] = model[model_key] = step;
          }
      }
    } else {
      switch (below(5)) {
        case 0: ASSERT_EQ(tested.erase(key), model.erase(model_key)); break;
        case 1: {
          const auto at = tested.lower_bound(key);
          const auto expected = model.lower_bound(model_key);
          expect_at(at, tested, expected, model);
          if (expected != model.end()) expect_at(tested.erase(at), tested, model.erase(expected), model);
          break;
        }
        case 2: {
          const auto last = tested.upper_bound(key);
          const auto expected_last = model.upper_bound(model_key);
          expect_at(last, tested, expected_last, model);
          auto first = last;
          auto expected_first = expected_last;
          for (auto n = below(12); n > 0 && expected_first != model.begin(); --n) --first, --expected_first;
          expect_at(tested.erase(first, last), tested, model.erase(expected_first, expected_last), model);
          break;
        }
        case 3: {
          expect_at(tested.find(key), tested, model.find(model_key), model);
          ASSERT_EQ(tested.count(key), model.count(model_key));
          ASSERT_EQ(tested.contains(key), model.contains(model_key));
          const auto [first, last] = tested.equal_range(key);
          const auto [expected_first, expected_last] = model.equal_range(model_key);
          expect_at(first, tested, expected_first, model);
          expect_at(last, tested, expected_last, model);
          ASSERT_EQ(std::distance(first, last), std::distance(expected_first, expected_last));
          break;
        }
        default:
          if constexpr (Multi) {
            const auto [first, last] = model.equal_range(model_key);
            if (first == last) {
              ASSERT_FALSE(tested.erase_one(key, -1));
            } else {
              auto expected = std::next(first, static_cast<long>(below(model.count(model_key))));
              ASSERT_TRUE(tested.erase_one(key, expected->second));
              model.erase(std::find(first, last, *expected));
            }
          }
      }
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  const auto copy = tested;
  copy.check();
  expect_same(copy, model);
  EXPECT_EQ(copy, tested);
  auto moved = std::move(tested);
  expect_same(moved, model);
  EXPECT_TRUE(tested.empty());  // NOLINT(bugprone-use-after-move)
}

TEST_F(maps, agree_with_std_map) {
  const auto seeds = static_cast<std::uint64_t>(4 * test_scale());
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    random_operations<std::uint64_t, false>(seed, 2000, 10000);
    random_operations<bulky, false>(seed, 400, 10000);
    random_operations<text, false>(seed, 1000, 5000);
  }
}

TEST_F(maps, multimap_agrees_with_std_multimap) {
  const auto seeds = static_cast<std::uint64_t>(4 * test_scale());
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    random_operations<std::uint64_t, true>(seed, 20, 10000);
    random_operations<std::uint64_t, true>(seed, 2000, 10000);
    random_operations<bulky, true>(seed, 3, 5000);
    random_operations<bulky, true>(seed, 100, 10000);
    random_operations<text, true>(seed, 100, 5000);
  }
}

// --- Building ---

TEST_F(maps, sorted_input_fills_nodes) {
  const std::uint64_t n = 100000;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sorted;
  for (std::uint64_t i = 0; i < n; ++i) sorted.emplace_back(i, i * i);
  const tested_map<std::uint64_t, std::uint64_t> m(sorted.begin(), sorted.end());
  m.check();
  EXPECT_EQ(m.size(), n);
  const std::size_t leaves = n / detail::tree_leaf<std::pair<const std::uint64_t, std::uint64_t>>::slots;
  EXPECT_LE(checked_memory::blocks.size(), leaves * 104 / 100 + 4);

  tested_map<std::uint64_t, std::uint64_t> backward;
  for (std::uint64_t i = n; i-- > 0;) backward[i] = i * i;
  backward.check();
  EXPECT_EQ(backward, m);
}

TEST_F(maps, of_millions) {
  const auto n = static_cast<std::uint64_t>(1e6 * test_scale());
  map<std::uint64_t, std::uint64_t, less<std::uint64_t>, plain_memory> m;
  for (std::uint64_t i = 0; i < n; ++i) m.try_emplace(i * 0x9E3779B97F4A7C15U, i);
  m.check();
  EXPECT_EQ(m.size(), n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto found = m.find(i * 0x9E3779B97F4A7C15U);
    ASSERT_NE(found, m.end());
    ASSERT_EQ(found->second, i);
  }
  for (std::uint64_t i = 0; i < n; i += 2) ASSERT_EQ(m.erase(i * 0x9E3779B97F4A7C15U), 1U);
  m.check();
  EXPECT_EQ(m.size(), n / 2);
}

TEST_F(maps, erasing_everything_in_any_order_gives_all_memory_back) {
  for (const int order : {0, 1, 2}) {
    tested_map<bulky, int> m;
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < 2000; ++i) keys.push_back(i);
    for (const auto key : keys) m[key] = 0;
    if (order == 1) std::reverse(keys.begin(), keys.end());
    if (order == 2) std::shuffle(keys.begin(), keys.end(), std::mt19937(7));
    for (const auto key : keys) {
      ASSERT_EQ(m.erase(key), 1U);
      if (key % 16 == 0) m.check();
    }
    EXPECT_TRUE(m.empty());
    EXPECT_TRUE(checked_memory::blocks.empty());
    EXPECT_EQ(m.begin(), m.end());
    m[1] = 2;
    EXPECT_EQ(m.begin()->second, 2);
  }
}

TEST_F(maps, few_entries_do_not_keep_many_nodes) {
  tested_map<std::uint64_t, std::uint64_t> m;
  for (std::uint64_t i = 0; i < 100000; ++i) m[i * 2654435761U % 1000003] = i;
  const std::size_t full = checked_memory::blocks.size();
  std::uint64_t n = 0;
  erase_if(m, [&](const auto&) { return ++n % 50 != 0; });
  m.check();
  EXPECT_EQ(m.size(), 2000U);
  EXPECT_LT(checked_memory::blocks.size(), full / 8);
}

// --- Many equal keys ---

TEST_F(maps, multimap_keeps_the_order_of_insertion_and_erases_any_of_many) {
  tested_multimap<int, int> m;
  m.emplace(1, -1);
  m.emplace(9, -9);
  const int n = 50000;
  for (int i = 0; i < n; ++i) m.emplace(5, i);
  m.check();
  EXPECT_EQ(m.count(5), static_cast<std::size_t>(n));
  int expected = 0;
  for (auto [i, last] = m.equal_range(5); i != last; ++i) ASSERT_EQ(i->second, expected++);
  // Every third by its iterator.
  auto [i, last] = m.equal_range(5);
  for (int at = 0; i->first == 5; ++at) i = at % 3 == 0 ? m.erase(i) : std::next(i);
  m.check();
  EXPECT_EQ(m.count(5), static_cast<std::size_t>(n - (n + 2) / 3));
  EXPECT_TRUE(m.erase_one(5, n - 1));
  EXPECT_FALSE(m.erase_one(5, n - 1));
  EXPECT_FALSE(m.erase_one(6, 1));
  EXPECT_EQ(m.erase(5), static_cast<std::size_t>(n - (n + 2) / 3 - 1));
  m.check();
  EXPECT_EQ(m.size(), 2U);
}

// --- Text keys ---

TEST_F(maps, text_keys_are_looked_up_without_making_one) {
  tested_map<text, int> m;
  const std::string long_name = "a name that does not fit into a string";
  m[std::string_view(long_name)] = 1;
  m["b"] = 2;
  m[text("c")] = 3;
  checked_memory::refuse_after = 0;
  EXPECT_EQ(m.find(long_name)->second, 1);
  EXPECT_EQ(m.at(std::string_view(long_name)), 1);
  EXPECT_EQ(m[long_name], 1);
  EXPECT_EQ(m.count("b"), 1U);
  EXPECT_TRUE(m.contains(text("c")));
  EXPECT_EQ(m.lower_bound("bb")->second, 3);
  EXPECT_EQ(m.upper_bound("a")->second, 1);
  EXPECT_FALSE(m.try_emplace("b", 7).second);
  EXPECT_FALSE(m.insert_or_assign("b", 8).second);
  EXPECT_EQ(m.equal_range("b").first->second, 8);
  EXPECT_EQ(m.erase("b"), 1U);
  EXPECT_THROW((void)m.at("b"), std::out_of_range);
  EXPECT_EQ(m.size(), 2U);
}

TEST_F(maps, separators_of_text_are_short) {
  tested_map<text, int> m;
  const int n = 20000;
  for (int i = 0; i < n; ++i) m["/a/rather/long/path/" + std::to_string(i * 7919 % n) + "/and what follows"] = i;
  m.check();
  EXPECT_EQ(m.size(), static_cast<std::size_t>(n));
  std::size_t texts = 0;
  for (const auto& [start, is] : checked_memory::blocks) texts += *is.of == typeid(char);
  EXPECT_LT(texts, static_cast<std::size_t>(n) * 105 / 100);  // keys, and separators
}

// [types.containers.in-place]
TEST_F(maps, new_keys_and_values_are_made_where_they_stay) {
  tested_map<text, text> m;
  m["x"];
  const auto inside_a_block = [](const void* at) {
    for (const auto& [start, is] : checked_memory::blocks)
      if (at >= start && at < static_cast<const std::byte*>(start) + is.bytes) return true;
    return false;
  };
  m.try_emplace("a key that needs memory of its own", "short");
  EXPECT_TRUE(inside_a_block(checked_memory::last_near));
  m.try_emplace("short", "a value that needs memory of its own");
  EXPECT_TRUE(inside_a_block(checked_memory::last_near));
}

// --- What is left behind ---

// [types.containers.zero-slots]
TEST_F(maps, free_slots_are_zero) {
  tested_map<int, marked> m;
  std::mt19937 random(3);
  for (int step = 0; step < 20000; ++step) {
    const int key = static_cast<int>(random() % 500);
    if (random() % 100 < (step / 2000 % 2 == 0 ? 70U : 30U))
      m.try_emplace(key, step);
    else
      m.erase(key);
    if (step % 100 == 0) {
      ASSERT_EQ(checked_memory::words_with(marked::mark), m.size());
    }
  }
  tested_multimap<int, sturdy> counted_ones;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 100 < (step / 500 % 2 == 0 ? 70U : 30U))
      counted_ones.emplace(static_cast<int>(random() % 50), step);
    else if (!counted_ones.empty())
      counted_ones.erase(std::next(counted_ones.begin(), static_cast<long>(random() % counted_ones.size())));
    if (step % 50 == 0) {
      ASSERT_EQ(checked_memory::words_with(sturdy::mark), counted_ones.size());
    }
  }
  EXPECT_EQ(sturdy::objects, static_cast<long>(counted_ones.size()));
  counted_ones.clear();
  EXPECT_EQ(sturdy::objects, 0);
}

TEST_F(maps, what_an_insertion_refers_to_may_move) {
  tested_map<bulky, text> m;
  for (std::uint64_t i = 0; i < 500; ++i) m.try_emplace(i * 2, "a value that needs memory " + std::to_string(i * 2));
  for (std::uint64_t i = 0; i < 500; ++i) {
    const auto at = m.find(i * 2);
    m.try_emplace(bulky(i * 2 + 1), at->second);
    ASSERT_EQ(m.at(i * 2 + 1), m.at(i * 2));
  }
  m.check();
}

// --- Exceptions ---

TEST_F(maps, insertions_that_throw_have_not_happened) {
  for (const bool memory : {true, false}) {
    tested_map<sturdy, sturdy> m;
    std::mt19937 random(11);
    for (int step = 0; step < 3000; ++step) {
      const int key = static_cast<int>(random() % 100000);
      const std::size_t before = m.size();
      for (long after = 0;; ++after) {
        (memory ? checked_memory::refuse_after : tripwire::calls_left) = after;
        bool thrown = false;
        try {
          m.try_emplace(key, step);
        } catch (const std::exception&) {
          thrown = true;
        }
        checked_memory::refuse_after = tripwire::calls_left = -1;
        ASSERT_EQ(sturdy::objects, static_cast<long>(checked_memory::words_with(sturdy::mark)));
        if (!thrown) break;
        ASSERT_EQ(m.size(), before);
        if (step % 100 == 0) m.check();
      }
    }
    m.check();
  }
  EXPECT_EQ(sturdy::objects, 0);
}

TEST_F(maps, copies_that_throw_leave_nothing) {
  tested_map<sturdy, text> m;
  for (int i = 0; i < 300; ++i) m.try_emplace(i, "a text that needs memory of its own");
  const std::size_t blocks = checked_memory::blocks.size();
  for (long after = 0; after < static_cast<long>(blocks); after += 7) {
    checked_memory::refuse_after = after;
    EXPECT_THROW((tested_map<sturdy, text>(m)), std::bad_alloc);
    ASSERT_EQ(checked_memory::blocks.size(), blocks);
  }
  checked_memory::refuse_after = -1;
  EXPECT_EQ((tested_map<sturdy, text>(m)), m);
}

// --- The interface ---

TEST_F(maps, interface) {
  tested_map<int, text> m{{3, "c"}, {1, "a"}, {2, "b"}, {1, "again"}};
  EXPECT_EQ(m.size(), 3U);
  EXPECT_EQ(m.begin()->second, "a");
  EXPECT_EQ(m.rbegin()->second, "c");
  for (auto& [key, value] : m) value += std::to_string(key);
  EXPECT_EQ(m[2], "b2");
  auto [at, is_new] = m.insert({2, text("other")});
  EXPECT_FALSE(is_new);
  EXPECT_EQ(at->second, "b2");
  EXPECT_EQ(m.insert(std::make_pair(4, "d")).first->second, "d");
  EXPECT_EQ(m.emplace_hint(m.end(), 5, "e")->first, 5);
  EXPECT_EQ(m.try_emplace(m.begin(), 0, "z")->second, "z");
  tested_map<int, text>::const_iterator constant = m.begin();
  EXPECT_EQ(constant, m.cbegin());
  EXPECT_EQ(m.erase(constant)->first, 1);
  auto other = m;
  EXPECT_TRUE(other == m);
  other[9] = "i";
  EXPECT_TRUE(m < other);
  swap(m, other);
  EXPECT_EQ(m.size(), 6U);
  other = {{7, "g"}};
  EXPECT_EQ(other.size(), 1U);
  other = m;
  EXPECT_EQ(other, m);
  m = std::move(other);
  EXPECT_EQ(m.at(9), "i");
  EXPECT_EQ(std::as_const(m).find(9)->second, "i");
  EXPECT_EQ(erase_if(m, [](const auto& entry) { return entry.first > 3; }), 3U);
  m.clear();
  EXPECT_TRUE(m.empty());
  EXPECT_EQ(m.begin(), m.end());
  EXPECT_EQ(m.find(1), m.end());
  EXPECT_EQ(m.lower_bound(1), m.end());
  EXPECT_EQ(m.erase(1), 0U);

  static_assert(std::bidirectional_iterator<tested_map<int, int>::iterator>);
  static_assert(std::bidirectional_iterator<tested_map<int, int>::const_iterator>);
  static_assert(!std::is_convertible_v<tested_map<int, int>::const_iterator, tested_map<int, int>::iterator>);
}

TEST_F(maps, greater_and_pointers_as_keys) {
  struct backward {
    bool operator()(int a, int b) const { return a > b; }
  };
  tested_map<int, int, backward> m{{1, 1}, {3, 3}, {2, 2}};
  EXPECT_EQ(m.begin()->first, 3);
  m.check();
  int values[3] = {};
  tested_map<const int*, int> by_address{{values + 2, 2}, {values, 0}, {values + 1, 1}};
  EXPECT_EQ(by_address.begin()->first, values);
  EXPECT_EQ(by_address.at(values + 2), 2);
}

// --- Damage ---

TEST_F(maps, check_finds_damage) {
  tested_map<std::uint64_t, std::uint64_t> m;
  for (std::uint64_t i = 0; i < 1000; ++i) m[i * 2] = i;
  auto at = m.find(500);
  auto& key = const_cast<std::uint64_t&>(at->first);
  key = 999999;
  EXPECT_THROW(m.check(), error);
  key = 500;
  m.check();
  auto* leaf = at.leaf();
  --leaf->count;
  EXPECT_THROW(m.check(), error);
  ++leaf->count;
  auto* previous = std::exchange(leaf->previous, nullptr);
  EXPECT_THROW(m.check(), error);
  leaf->previous = previous;
  auto* parent = std::exchange(leaf->parent, leaf);
  EXPECT_THROW(m.check(), error);
  leaf->parent = parent;
  m.check();
}

}  // namespace
}  // namespace tenure::testing
