// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Counters since the start of the heap.
#pragma once

#include <atomic>

namespace tenure::classic {

struct rds_counters {
  std::atomic<unsigned> mallocs{0}, preallocs{0}, frees{0};
  void clear() noexcept { mallocs = preallocs = frees = 0; }
};
[[nodiscard]] rds_counters& rds_counts() noexcept;

}  // namespace tenure::classic
