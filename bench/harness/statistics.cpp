// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tenure::bench {

double summary::spread() const { return median != 0 ? (max - min) / median : 0; }

summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.size(), median, values.front(), values.back()};
}

interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  // The ranks k and n-1-k miss the median with twice the probability of at most k heads in n throws. Leave off as many of
  // the smallest and largest values as 5 % allow.
  std::size_t off = 0;
  double one = std::pow(0.5, static_cast<double>(n)), tail = one;
  while (off + 1 < n / 2) {
    one *= static_cast<double>(n - off) / static_cast<double>(off + 1);
    if (2 * (tail + one) > 0.05) break;
    tail += one;
    ++off;
  }
  return {values[off], values[n - 1 - off]};
}

interval mean_interval(const std::vector<double>& values) {
  // The 95th percentiles of Student's t for 1, 2, … degrees of freedom.
  constexpr std::array t{6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
                         1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725};
  const auto n = values.size();
  if (n == 0) return {};
  const auto count = static_cast<double>(n);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (n == 1) return {mean, mean};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double quantile = n - 2 < t.size() ? t[n - 2] : 1.645 + 1.6 / count;
  const double half = quantile * std::sqrt(squares / (count - 1) / count);
  return {mean - half, mean + half};
}

line_fit fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double together = 0, squares = 0, squares_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    together += (x[i] - mean_x) * (y[i] - mean_y);
    squares += (x[i] - mean_x) * (x[i] - mean_x);
    squares_y += (y[i] - mean_y) * (y[i] - mean_y);
  }
  const double b = together / squares;
  return {mean_y - b * mean_x, b, squares_y == 0 ? 0 : together / std::sqrt(squares * squares_y)};
}

}  // namespace tenure::bench
