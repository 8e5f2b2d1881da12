// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Decides how long a batch waits for commits that are about to come.
//
// Threads that the last sync released will soon commit again. If a batch is written without them, they must wait for
// two syncs. With 8 threads, batches then alternated between one and seven commits, and throughput was 0.67 of what it
// is with the wait.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

#include "log/invariant.hpp"

namespace tenure::rvm {

class commit_gathering {
 public:
  using duration = std::chrono::steady_clock::duration;
  // A stalled disk says nothing about the next write. The wait is useful for syncs of up to 20 ms.
  static constexpr duration longest_patience = std::chrono::milliseconds(5);

  // A thread begins to wait for a batch. May be called by any thread.
  void arrive() noexcept { ++waiting_; }
  // Whether as many threads wait as the last batch had.
  [[nodiscard]] bool all_here() const noexcept { return waiting_ >= expected_; }
  [[nodiscard]] duration patience() const noexcept { return patience_; }
  // A batch is about to be written for all threads that wait. Returns how many they are.
  std::size_t leave() noexcept { return waiting_.exchange(0); }
  // The batch was written: for this many threads, and in this time.
  void written(std::size_t with, duration took) noexcept {
    expected_ = with + waiting_;
    patience_ = std::min(took / 4, longest_patience);
  }
  // Throws if an invariant does not hold.
  void check() const {
    require_invariant(patience_ >= duration{} && patience_ <= longest_patience, "a batch waits for a bounded time");
  }

 private:
  std::atomic<std::size_t> waiting_{0};
  // Guarded by the commit lock.
  std::size_t expected_ = 0;
  duration patience_{};
};

}  // namespace tenure::rvm
