// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What this layer counts itself: flushes and truncations that the program has asked for.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <rvm/rvm.h>
#include <rvm/rvm_statistics.h>

namespace tenure::classic {

// The upper limits of a histogram's bins. Larger values go to one more bin.
template <std::size_t bins>
class histogram {
 public:
  void add(std::uint64_t value, const std::array<std::uint64_t, bins - 1>& limits) noexcept {
    std::size_t bin = 0;
    while (bin < limits.size() && value > limits[bin]) ++bin;
    counts_[bin].fetch_add(1, std::memory_order_relaxed);
  }
  void add_to(rvm_length_t* sums) const noexcept {
    for (std::size_t i = 0; i < bins; ++i) sums[i] += counts_[i].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, bins> counts_{};
};

struct activity {
  histogram<flush_times_len> flush_times;
  histogram<truncation_times_len> truncation_times;
  std::atomic<std::uint64_t> flush_calls{0};
  std::atomic<std::uint64_t> aborts_without_restore{0};
  std::atomic<std::uint64_t> last_flush_ms{0}, last_truncation_s{0};

  using clock = std::chrono::steady_clock;
  void flushed(clock::time_point began) noexcept;
  void truncated(clock::time_point began) noexcept;
};
[[nodiscard]] activity& the_activity() noexcept;
}  // namespace tenure::classic
