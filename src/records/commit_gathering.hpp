// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How long a batch waits for commits that are about to come.
//
// Threads that the last sync released are about to commit again. A batch that leaves without them makes them wait for two
// syncs: with 8 threads, batches alternated between one and seven commits, at 0.67 of the throughput that there is now.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace tenure::rvm {

class commit_gathering {
 public:
  using duration = std::chrono::steady_clock::duration;
  // A disk that has stalled says nothing about the next write. The wait is of use for syncs of up to 20 ms.
  static constexpr duration longest_patience = std::chrono::milliseconds(5);

  // Somebody begins to wait for a batch. Any thread.
  void arrive() noexcept { ++waiting_; }
  // Whether as many have come as the last batch had.
  [[nodiscard]] bool all_here() const noexcept { return waiting_ >= expected_; }
  [[nodiscard]] duration patience() const noexcept { return patience_; }
  // A batch leaves with all who wait. Returns how many.
  std::size_t leave() noexcept { return waiting_.exchange(0); }
  // It has been written, for so many, and took so long.
  void written(std::size_t with, duration took) noexcept {
    expected_ = with + waiting_;
    patience_ = std::min(took / 4, longest_patience);
  }

 private:
  std::atomic<std::size_t> waiting_{0};
  // With the commit lock.
  std::size_t expected_ = 0;
  duration patience_{};
};

}  // namespace tenure::rvm
