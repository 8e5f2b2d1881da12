// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Write barriers in software: the program says what it writes to, instead of being trapped [Hosking §3.3, §5.2]. A store or
// region that was opened with barriers (store_options::barriers, map_options::barriers) finds changes by what was announced
// here. Others ignore announcements.
//
// The containers of this library announce what they store themselves, and members of type tenure::field (field.hpp)
// each assignment.
//
// Compilers can announce each store of a program by themselves: see docs/barriers.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// The program is about to write to these bytes. Thread-safe. Memory that is in no region with barriers costs a few
// comparisons. Outside of transactions it allows nothing: the write is a stray one, as ever.
// In automatically tracked regions it is async-signal-safe. In others it declares the bytes, as transaction::set_range, in the
// newest open transaction that the calling thread has begun: not in signal handlers, and if memory is too short for the old
// value, the process ends [rvm.barriers.declared].
void announce_store(const void* at, std::size_t length) noexcept;

namespace detail {

// Behind the last byte of all memory whose stores somebody wants to hear of; 0 if there is none. Read and written
// atomically.
extern std::uintptr_t watched_end;
inline std::uintptr_t end_of_watched() noexcept { return __atomic_load_n(&watched_end, __ATOMIC_RELAXED); }

// The program is about to write to `count` objects. Where nobody wants to hear of it, this is one comparison.
template <class T>
void announce(const T* first, std::size_t count) noexcept {
  if (reinterpret_cast<std::uintptr_t>(first) < end_of_watched()) [[unlikely]]
    announce_store(static_cast<const void*>(first), count * sizeof(T));
}
// To these objects. There may be no object yet: the places are what counts.
template <class... T>
[[gnu::noinline, gnu::cold]] void announce_watched(const T&... objects) noexcept {
  (announce(__builtin_addressof(objects), 1), ...);
}
template <class... T>
void announce_each(const T&... objects) noexcept {
  if (end_of_watched() != 0) [[unlikely]]
    announce_watched(objects...);
}
// To `to`, and writes to it.
template <class T, class V>
void announced_set(T& to, V&& value) noexcept(std::is_nothrow_assignable_v<T&, V>) {
  announce(__builtin_addressof(to), 1);
  to = static_cast<V&&>(value);
}

}  // namespace detail

// The same for an object, which it returns: change(*part).weight = 7.
template <class T>
T& change(T& object) noexcept {
  detail::announce(__builtin_addressof(object), 1);
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
