// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/room_for_one.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace tenure::os {
namespace {

TEST(room_for_one, is_made_for_many_at_once) {
  std::vector<int> list;
  std::size_t moves = 0;
  for (int n = 0; n < 10'000; ++n) {
    const std::size_t before = list.capacity();
    reserve_one_more(list);
    ASSERT_GT(list.capacity(), list.size());
    moves += list.capacity() != before ? 1 : 0;
    list.push_back(n);
  }
  EXPECT_LT(moves, 20U);
}

}  // namespace
}  // namespace tenure::os
