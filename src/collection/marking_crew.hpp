// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Threads that mark together, each as one of the marker's followers: the thread that calls follow(), and helpers, which sleep in
// between. Who has nothing left gets the first half of what another one has [heap.collection.markers].
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "collection/marker.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::heap {

// Throws errc::bad_option unless so many threads may mark.
void require_markers(std::uint32_t markers);

class marking_crew {
 public:
  // As many helpers as the marker has followers besides the first one, or fewer, if the system has no threads left.
  explicit marking_crew(marker& of);
  ~marking_crew();
  marking_crew(const marking_crew&) = delete;
  marking_crew& operator=(const marking_crew&) = delete;

  // Follows until the calling thread has followed so many objects, nobody gives it more, or `is_wanted` is not 0. All have stopped
  // then, some objects may be left, and marker::follow() finds them. Throws what a follower has thrown.
  void follow(std::uint64_t most, const std::atomic<std::uint32_t>& is_wanted);
  [[nodiscard]] std::size_t helpers() const { return threads_.size(); }

 private:
  using guard = std::unique_lock<std::mutex>;
  void help(marker::follower& as);
  // Until it has followed so many, or has nothing left.
  void work(marker::follower& as, std::uint64_t& most);
  void give_some(marker::follower& of);
  void take_some(const guard&, marker::follower& to);
  bool wait_for_some(marker::follower& to);
  [[nodiscard]] bool must_stop() const {
    return is_stopped_.load(std::memory_order_relaxed) || is_wanted_->load(std::memory_order_relaxed) != 0;
  }
  void fail() noexcept;

  marker& of_;
  std::mutex mutex_;
  std::condition_variable begun_;
  os::cleared_vector<address> given_;
  bool is_open_ = false, is_ending_ = false;  // open: a helper may begin
  std::exception_ptr failed_;

  const std::atomic<std::uint32_t>* is_wanted_ = nullptr;
  std::atomic<bool> is_stopped_{false};
  std::atomic<std::uint32_t> hungry_{0};  // who waits for objects
  std::atomic<std::uint32_t> busy_{0};    // helpers that follow
  std::vector<std::thread> threads_;
};

}  // namespace tenure::heap
