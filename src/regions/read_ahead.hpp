// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread that reads a region before it is asked for: all of it, or what will probably be asked for next.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace tenure::rvm {

class segment;

class ahead_reader {
 public:
  ahead_reader() = default;
  ~ahead_reader() { end(); }
  ahead_reader(const ahead_reader&) = delete;
  ahead_reader& operator=(const ahead_reader&) = delete;

  // Once, one of these; not if there can be no thread.
  // Reads `length` bytes of the segment, from `offset` on, which are mapped at `base`. It looks whether it should end after
  // `step` bytes each.
  void start(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step);
  // Reads the next pages while the program reads one page after the other (read_streams).
  void follow(segment& in, std::uint64_t offset, const std::byte* base, const std::atomic<std::size_t>& length);
  // Returns when it has stopped. Before the segment or the memory goes.
  void end() noexcept;

 private:
  template <class F>
  void begin(F f);
  void read(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step);

  void run_streams(segment& in, std::uint64_t offset, const std::byte* base, const std::atomic<std::size_t>& length);
  // Returns whether to end.
  bool wait(std::chrono::milliseconds time);

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable stopping_;
  std::thread thread_;
};

}  // namespace tenure::rvm
