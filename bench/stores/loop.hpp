// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A loop of stores, compiled several times: without barriers, and with either form of compiled-in ones (docs/barriers.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenure::bench::stores {

struct item {
  std::uint64_t a = 1, b = 2;
  item* next = nullptr;
};

// Swaps a and b of each: two stores.
void swap_bare(item* const* all, std::size_t count);
void swap_inline(item* const* all, std::size_t count);
void swap_outlined(item* const* all, std::size_t count);
// The sum of all a: no store.
[[nodiscard]] std::uint64_t sum_bare(item* const* all, std::size_t count);
[[nodiscard]] std::uint64_t sum_inline(item* const* all, std::size_t count);
[[nodiscard]] std::uint64_t sum_outlined(item* const* all, std::size_t count);

}  // namespace tenure::bench::stores
