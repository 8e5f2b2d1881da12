// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "classic/activity.hpp"

namespace tenure::classic {

activity& the_activity() noexcept {
  static constinit activity only;
  return only;
}

void activity::flushed(clock::time_point began) noexcept {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began).count();
  flush_times.add(static_cast<std::uint64_t>(took), {flush_times_dist});
  last_flush_ms.store(static_cast<std::uint64_t>(took), std::memory_order_relaxed);
}

void activity::truncated(clock::time_point began) noexcept {
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(clock::now() - began).count();
  truncation_times.add(static_cast<std::uint64_t>(took), {truncation_times_dist});
  last_truncation_s.store(static_cast<std::uint64_t>(took), std::memory_order_relaxed);
}

}  // namespace tenure::classic
