// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is said of repeated runs: the median, and how far the runs lie apart.
#pragma once

#include <cstddef>
#include <vector>

namespace tenure::bench {

struct summary {
  std::size_t n = 0;
  double median = 0, min = 0, max = 0;
  // (max - min) / median; 0 for a median of 0.
  [[nodiscard]] double spread() const;
};

// Of no values: all zero.
[[nodiscard]] summary summarize(std::vector<double> values);

struct interval {
  double low = 0, high = 0;
};
// Holds the median of what the values are drawn from with a probability of at least 95 %, whatever its distribution: order
// statistics. All of the range for less than six values, which cannot give as much.
[[nodiscard]] interval median_interval(std::vector<double> values);
// Holds the mean with 90 % if the values are normally distributed (Student's t). Of less than two values: the value.
[[nodiscard]] interval mean_interval(const std::vector<double>& values);

// y = a + b x, least squares.
struct line_fit {
  double a = 0, b = 0;
  double correlation = 0;  // of x and y; 0 if all y are equal
};
// At least two different x.
[[nodiscard]] line_fit fit_line(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace tenure::bench
