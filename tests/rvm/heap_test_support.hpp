// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A recoverable heap on a simulated disk, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <tenure/recoverable_heap.hpp>
#include <tenure/rvm.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"

namespace tenure::rvm {

inline const char* const heap_segment = "/heap.seg";

// A memory without threads of its own, one region, one heap. Opens what is on the disk, or makes it.
struct heap_world {
  explicit heap_world(sim::disk& on, std::uint64_t length = 1 << 20, options how = quiet())
      : memory((how.disk = &on, "/heap.log"), how), area(memory.map(heap_segment, {.create_length = length})) {
    if (!recoverable_heap::is_formatted(area))
      memory.transact([&](transaction& tx) { recoverable_heap::format(tx, area); });
    heap.emplace(area);
  }
  static options quiet() {
    options how;
    how.log.size = 1 << 20;
    how.background = false;
    return how;
  }
  [[nodiscard]] std::uint64_t offset(const void* p) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - area.data());
  }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return area.data() + offset; }

  rvm::memory memory;
  region area;
  std::optional<recoverable_heap> heap;
};

using support::expect_error;

// The seed of a random test: TENURE_TEST_SEED, or a new one each time, printed.
inline std::uint64_t test_seed() {
  const char* given = std::getenv("TENURE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("TENURE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}
// How much deeper than usual random tests go: TENURE_TEST_SCALE, 1 by default.
inline std::uint64_t test_scale() {
  const char* given = std::getenv("TENURE_TEST_SCALE");
  return given != nullptr ? std::max<std::uint64_t>(std::strtoull(given, nullptr, 10), 1) : 1;
}

// Fills bytes with something that tells the tag, and says whether they still hold it.
inline void fill(std::byte* bytes, std::size_t length, std::uint32_t tag) {
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(tag * 37 + tag / 256 + i * 11);
}
inline bool holds(const std::byte* bytes, std::size_t length, std::uint32_t tag) {
  for (std::size_t i = 0; i < length; ++i)
    if (bytes[i] != static_cast<std::byte>(tag * 37 + tag / 256 + i * 11)) return false;
  return true;
}

}  // namespace tenure::rvm
