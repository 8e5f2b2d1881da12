// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread that reads a region before it is asked for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenure::rvm {

class segment;

class ahead_reader {
 public:
  // Reads `length` bytes of the segment, from `offset` on, which are mapped at `base`. Nullptr if there can be no thread.
  // It looks whether it should end after `step` bytes each.
  static std::shared_ptr<ahead_reader> start(segment& in, std::uint64_t offset, std::byte* base, std::size_t length,
                                             std::size_t step);
  // Returns when it has stopped. Where the segment or the memory is about to go.
  void end() noexcept;

 private:
  void read(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step);

  std::atomic<bool> stop_{false}, done_{false};
};

}  // namespace tenure::rvm
