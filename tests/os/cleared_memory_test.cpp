// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/cleared_memory.hpp"

#include <cstdint>

#include <gtest/gtest.h>

using namespace tenure::os;

namespace {

TEST(cleared_memory, has_nothing_behind_the_end_of_a_vector) {
  cleared_vector<std::uint64_t> list{1, 2, 3};
  const std::uint64_t* const memory = list.data();
  shorten(list, 7);
  EXPECT_EQ(list.size(), 3U);
  shorten(list, 1);
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(memory[0], 1U);
  EXPECT_EQ(memory[1], 0U);
  EXPECT_EQ(memory[2], 0U);
  clear_all_of(list);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(memory[0], 0U);
}

}  // namespace
