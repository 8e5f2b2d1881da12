// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/statistics.hpp"

#include <algorithm>

namespace tenure::bench {

double summary::spread() const { return median != 0 ? (max - min) / median : 0; }

summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.size(), median, values.front(), values.back()};
}

}  // namespace tenure::bench
