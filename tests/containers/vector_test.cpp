// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/vector.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "containers/elements.hpp"

namespace tenure::testing {
namespace {

template <class T>
using tested_vector = vector<T, checked_memory>;

class vectors : public containers {};

template <class T>
int plain(const T& x) {
  if constexpr (std::is_same_v<T, int>)
    return x;
  else if constexpr (std::is_same_v<T, marked>)
    return x.value;
  else if constexpr (std::is_same_v<T, text>)
    return std::stoi(std::string(x.view().substr(x.find('#') + 1)));
  else
    return x.value();
}
template <class T>
T make(int n) {
  if constexpr (std::is_same_v<T, text>)
    return text((n % 2 == 0 ? "#" : "a text that needs memory of its own #") + std::to_string(n));
  else
    return T(n);
}

template <class T>
void random_operations(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  tested_vector<T> tested;
  std::vector<int> model;
  std::mt19937 random(seed);
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int step = 0; step < 2000; ++step) {
    const T value = make<T>(step);
    const std::size_t at = below(model.size() + 1);
    const auto where = static_cast<std::ptrdiff_t>(at);
    const std::size_t some = below(6);
    switch (below(model.size() > 200 ? 18 : 12)) {
      case 0: tested.push_back(value), model.push_back(step); break;
      case 1: tested.push_back(make<T>(step)), model.push_back(step); break;
      case 2:
        ASSERT_EQ(tested.insert(tested.begin() + where, value) - tested.begin(), where);
        model.insert(model.begin() + where, step);
        break;
      case 3:
        tested.insert(tested.begin() + where, some, value);
        model.insert(model.begin() + where, some, step);
        break;
      case 4: {
        const std::vector<T> more(some, value);
        ASSERT_EQ(tested.insert(tested.begin() + where, more.begin(), more.end()) - tested.begin(), where);
        model.insert(model.begin() + where, some, step);
        break;
      }
      case 5:  // an element of the vector itself
        if (at < model.size()) {
          const int copy = model[at];
          tested.push_back(tested[at]), model.push_back(copy);
          tested.insert(tested.begin() + where, tested.back()), model.insert(model.begin() + where, copy);
          tested.insert(tested.begin(), 3, tested[at]);
          model.insert(model.begin(), 3, copy);
        }
        break;
      case 6: tested.resize(model.size() + some, value), model.resize(model.size() + some, step); break;
      case 7: tested.reserve(model.size() + some); break;
      case 8: tested.emplace(tested.begin() + where, make<T>(step)), model.emplace(model.begin() + where, step); break;
      case 9: tested.shrink_to_fit(); break;
      case 10: {
        auto copy = tested;
        tested = std::move(copy);
        break;
      }
      case 11:
        if (below(20) == 0) {
          tested.assign(some, value);
          model.assign(some, step);
        }
        break;
      case 12:
      case 13: tested.pop_back(), model.pop_back(); break;
      case 14:
      case 15:
        if (at < model.size()) {
          ASSERT_EQ(tested.erase(tested.begin() + where) - tested.begin(), where);
          model.erase(model.begin() + where);
        }
        break;
      default: {
        const auto last = static_cast<std::ptrdiff_t>(at + below(model.size() + 1 - at));
        tested.erase(tested.begin() + where, tested.begin() + last);
        model.erase(model.begin() + where, model.begin() + last);
      }
    }
    ASSERT_EQ(tested.size(), model.size());
    ASSERT_LE(tested.size(), tested.capacity());
    ASSERT_TRUE(std::equal(tested.begin(), tested.end(), model.begin(), model.end(),
                           [](const T& a, int b) { return plain(a) == b; }));
    if constexpr (std::is_same_v<T, marked>) {
      ASSERT_EQ(checked_memory::words_with(marked::mark), model.size());
    }
    if constexpr (requires { T::objects; }) {
      ASSERT_EQ(checked_memory::words_with(T::mark), model.size());
    }
  }
}

TEST_F(vectors, agree_with_std_vector) {
  const auto seeds = static_cast<unsigned>(5 * test_scale());
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    random_operations<int>(seed);
    random_operations<marked>(seed);
    random_operations<text>(seed);
    random_operations<sturdy>(seed);
    random_operations<fragile>(seed);
  }
  EXPECT_EQ(sturdy::objects, 0);
  EXPECT_EQ(fragile::objects, 0);
}

// After an exception at any point nothing is lost or left; and nothing has changed where std::vector promises that.
template <class T, class Operation>
void throwing_everywhere(Operation operation, bool strong) {
  for (const bool memory : {true, false}) {
    for (long after = 0;; ++after) {
      tested_vector<T> v;
      v.reserve(8);
      for (int i = 0; i < 8; ++i) v.emplace_back(i);
      (memory ? checked_memory::refuse_after : tripwire::calls_left) = after;
      bool thrown = false;
      try {
        operation(v);
      } catch (const std::exception&) {
        thrown = true;
      }
      checked_memory::refuse_after = tripwire::calls_left = -1;
      ASSERT_EQ(static_cast<std::size_t>(T::objects), v.size());
      ASSERT_EQ(checked_memory::words_with(T::mark), v.size());
      if (!thrown) break;
      if (strong) {
        ASSERT_EQ(v.size(), 8U);
        for (int i = 0; i < 8; ++i) ASSERT_EQ(v[static_cast<std::size_t>(i)].value(), i);
      }
    }
  }
}

template <class T>
void exceptions() {
  throwing_everywhere<T>([](auto& v) { v.push_back(v[3]); }, true);
  throwing_everywhere<T>([](auto& v) { v.emplace_back(5); }, true);
  throwing_everywhere<T>([](auto& v) { v.reserve(50); }, true);
  throwing_everywhere<T>([](auto& v) { v.resize(30); }, true);
  throwing_everywhere<T>([](auto& v) { v.resize(30, v[1]); }, true);
  throwing_everywhere<T>([](auto& v) { v.shrink_to_fit(); }, true);
  throwing_everywhere<T>([](auto& v) { v.insert(v.begin() + 2, v[5]); }, false);
  throwing_everywhere<T>([](auto& v) { v.insert(v.begin() + 2, 9, v[5]); }, false);
  throwing_everywhere<T>([](auto& v) { v.erase(v.begin() + 1, v.begin() + 3); }, false);
  throwing_everywhere<T>([](auto& v) { v.assign(20, v[5]); }, false);
  throwing_everywhere<T>(
      [](auto& v) {
        auto copy = v;
        v = copy;
      },
      false);
  throwing_everywhere<T>([](auto&) { tested_vector<T> other(20); }, true);
  throwing_everywhere<T>([](auto&) { tested_vector<T> other{T(1), T(2), T(3)}; }, true);
}

TEST_F(vectors, exceptions_lose_and_leave_nothing) {
  exceptions<sturdy>();
  exceptions<fragile>();
  throwing_everywhere<sturdy>([](auto& v) { v.insert(v.begin() + 2, v[5]); }, true);
}

TEST_F(vectors, interface) {
  tested_vector<int> v;
  EXPECT_TRUE(v.empty());
  EXPECT_EQ(v.begin(), v.end());
  EXPECT_EQ(v.data(), nullptr);
  EXPECT_TRUE(checked_memory::blocks.empty());
  v = {3, 1, 2};
  std::sort(v.begin(), v.end());
  EXPECT_EQ(v, (tested_vector<int>{1, 2, 3}));
  EXPECT_LT(v, (tested_vector<int>{1, 3}));
  EXPECT_EQ(v.front() * 10 + v.back(), 13);
  EXPECT_EQ(std::accumulate(v.rbegin(), v.rend(), 0), 6);
  EXPECT_THROW((void)v.at(3), std::out_of_range);
  EXPECT_THROW(v.reserve(v.max_size() + 1), std::length_error);
  EXPECT_EQ(v.at(1), 2);
  EXPECT_EQ(erase(v, 2), 1U);
  EXPECT_EQ(erase_if(v, [](int i) { return i > 2; }), 1U);
  EXPECT_EQ(v.size(), 1U);
  tested_vector<int> other(3, 7);
  swap(v, other);
  EXPECT_EQ(v, (tested_vector<int>{7, 7, 7}));
  EXPECT_EQ(tested_vector<int>(4), (tested_vector<int>{0, 0, 0, 0}));
  const auto& same = v;
  v = same;
  EXPECT_EQ(v.size(), 3U);
  std::istringstream numbers("4 5 6");
  v.insert(v.begin() + 1, std::istream_iterator<int>(numbers), std::istream_iterator<int>());
  EXPECT_EQ(v, (tested_vector<int>{7, 4, 5, 6, 7, 7}));
  v.clear();
  v.shrink_to_fit();
  EXPECT_EQ(v.capacity(), 0U);

  tested_vector<bool> flags(3, true);
  bool& flag = flags[1];
  flag = false;
  EXPECT_FALSE(flags[1]);
  static_assert(std::contiguous_iterator<tested_vector<text>::iterator>);
}

TEST_F(vectors, of_vectors_move_by_their_bytes) {
  tested_vector<tested_vector<text>> v;
  for (int i = 0; i < 100; ++i) v.insert(v.begin() + i / 2, tested_vector<text>{make<text>(i), make<text>(i + 1)});
  const text* inner = v[3].data();
  v.insert(v.begin(), tested_vector<text>());
  EXPECT_EQ(v[4].data(), inner);
  v.erase(v.begin(), v.begin() + 2);
  EXPECT_EQ(v[2].data(), inner);
  auto moved = std::move(v);
  EXPECT_EQ(moved[2].data(), inner);
}

TEST_F(vectors, memory_is_near_the_vector) {
  tested_vector<int> v{1};
  EXPECT_EQ(checked_memory::last_near, &v);
}

}  // namespace
}  // namespace tenure::testing
