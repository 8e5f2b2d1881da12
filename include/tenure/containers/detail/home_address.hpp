// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The home address of what a pointer leads to, by which containers hash and order pointers: it is the same in every process.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::detail {

#pragma GCC visibility push(default)  // one for the program, also where the library is a shared one

// Where the object is stored whose copy in a cache has this address (tenure/cache.hpp); of others, the address itself.
// Set while stores are in caches.
using home_in_caches = std::uint64_t(std::uint64_t) noexcept;
inline std::atomic<home_in_caches*> home_of_cached{nullptr};

#pragma GCC visibility pop

// Databases that are mapped are mapped at home.
inline std::uint64_t home_address(const volatile void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  home_in_caches* const of_cached = home_of_cached.load(std::memory_order_relaxed);
  return of_cached == nullptr ? address : of_cached(address);
}

}  // namespace tenure::detail
