// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The writable memory of the process, as far as it is in memory or swapped out: what a collector scans for pointers. Makes
// system calls only: neither allocates nor locks.
#pragma once

#include <cstddef>
#include <span>

namespace tenure::os {

struct memory_stretch {
  const std::byte *begin, *end;
};

enum class mapping_kind {
  private_memory,  // stacks, static data, malloc's memory; copies of pages of private mappings of files
  shared_memory,   // shared with other processes or mappings. Not devices
};

// Calls f(to, stretch) for what is writable memory of this kind, in the order of addresses, but for what lies in `except`,
// which is in this order, too. Pages that were never touched, and may be many, are left out. Returns whether the kernel told all
// of it.
[[nodiscard]] bool for_each_writable(mapping_kind kind, std::span<const memory_stretch> except,
                                     void (*f)(void* to, memory_stretch), void* to) noexcept;
template <class F>
[[nodiscard]] bool for_each_writable(mapping_kind kind, std::span<const memory_stretch> except, F&& f) noexcept {
  return for_each_writable(
      kind, except, [](void* to, memory_stretch each) { (*static_cast<F*>(to))(each); }, &f);
}

// The same for the pages of one private mapping that the process has its own copy of.
[[nodiscard]] bool for_each_own_page(memory_stretch in, void (*f)(void* to, memory_stretch), void* to) noexcept;
template <class F>
[[nodiscard]] bool for_each_own_page(memory_stretch in, F&& f) noexcept {
  return for_each_own_page(
      in, [](void* to, memory_stretch each) { (*static_cast<F*>(to))(each); }, &f);
}

}  // namespace tenure::os
