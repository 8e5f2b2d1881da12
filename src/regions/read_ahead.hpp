// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread that reads a region before it is asked for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace tenure::rvm {

class segment;

class ahead_reader {
 public:
  ahead_reader() = default;
  ~ahead_reader() { end(); }
  ahead_reader(const ahead_reader&) = delete;
  ahead_reader& operator=(const ahead_reader&) = delete;

  // Reads `length` bytes of the segment, from `offset` on, which are mapped at `base`; not if there can be no thread. It
  // looks whether it should end after `step` bytes each. Once.
  void start(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step);
  // Returns when it has stopped. Before the segment or the memory goes.
  void end() noexcept;

 private:
  void read(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step);

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tenure::rvm
