// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Write barriers in software: the program says what it writes to, instead of being trapped [Hosking §3.3, §5.2]. A store or
// region that was opened with barriers (store_options::barriers, map_options::barriers) finds changes by what was announced
// here. Others ignore announcements.
//
// Compilers can announce each store of a program by themselves: see docs/barriers.md.
#pragma once

#include <cstddef>
#include <memory>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// The program is about to write to these bytes. Thread-safe and async-signal-safe. Memory that is in no region with
// barriers costs a few comparisons. Outside of transactions it allows nothing: the write is a stray one, as ever.
void announce_store(const void* at, std::size_t length) noexcept;

// The same for an object, which it returns: change(*part).weight = 7.
template <class T>
T& change(T& object) noexcept {
  announce_store(std::addressof(object), sizeof object);
  return object;
}

namespace detail {

// For run-times of compiled-in barriers: the memory in which stores are to be announced.
struct watched_memory {
  // Called for each region with barriers before it is used, and after; with a lock held. They must not fail.
  void (*begins)(const void* at, std::size_t length) noexcept;
  void (*ends)(const void* at, std::size_t length) noexcept;
};
// Once, by one run-time. Calls begins() for the memory that there is already.
void tell_watched_memory(const watched_memory& to) noexcept;

}  // namespace detail

#pragma GCC visibility pop

}  // namespace tenure
