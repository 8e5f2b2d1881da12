// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which memory's stores are announced. All of the run-time asks here first, so that memory that is in no store costs two
// comparisons.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tenure::barriers {

// No watched memory lies outside of [lowest, highest). They only grow.
extern std::atomic<std::uintptr_t> lowest, highest;

// To tenure::announce_store, if the program has it.
void announce(const void* at, std::size_t length) noexcept;

// Before the program, or somebody for it, writes there.
inline void before_store(const void* at, std::size_t length) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  if (from >= highest.load(std::memory_order_relaxed) || from + length <= lowest.load(std::memory_order_relaxed))
    return;
  announce(at, length);
}
[[nodiscard]] inline bool may_be_watched(const void* at) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  return from >= lowest.load(std::memory_order_relaxed) && from < highest.load(std::memory_order_relaxed);
}

}  // namespace tenure::barriers
