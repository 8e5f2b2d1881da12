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

}  // namespace tenure::bench
