// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/statistics.hpp"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace tenure::bench;

std::vector<double> one_to(int n) {
  std::vector<double> all(static_cast<std::size_t>(n));
  std::iota(all.rbegin(), all.rend(), 1.0);
  return all;
}

// Values from the tables of order statistics: the ranks for 95 %.
TEST(median_interval, has_the_known_ranks) {
  for (const auto& [n, low] :
       std::vector<std::pair<int, int>>{{5, 1}, {6, 1}, {8, 1}, {9, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}}) {
    const interval found = median_interval(one_to(n));
    EXPECT_EQ(found.low, low) << n;
    EXPECT_EQ(found.high, n + 1 - low) << n;
  }
}

TEST(mean_interval, is_students) {
  const interval found = mean_interval({1, 2, 3});
  EXPECT_NEAR(found.low, 2 - 2.920 / std::sqrt(3.0), 1e-9);
  EXPECT_NEAR(found.high, 2 + 2.920 / std::sqrt(3.0), 1e-9);
  EXPECT_EQ(mean_interval({4}).low, 4);
}

TEST(fit_line, finds_the_line) {
  const line_fit exact = fit_line({1, 5, 10}, {5, 13, 23});
  EXPECT_NEAR(exact.a, 3, 1e-9);
  EXPECT_NEAR(exact.b, 2, 1e-9);
  EXPECT_NEAR(exact.correlation, 1, 1e-9);
  const line_fit least_squares = fit_line({0, 1, 2}, {0, 2, 1});
  EXPECT_NEAR(least_squares.a, 0.5, 1e-9);
  EXPECT_NEAR(least_squares.b, 0.5, 1e-9);
  EXPECT_NEAR(least_squares.correlation, 0.5, 1e-9);
  EXPECT_EQ(fit_line({0, 1}, {2, 2}).correlation, 0);
}

}  // namespace
