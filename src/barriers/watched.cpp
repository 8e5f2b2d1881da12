// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "barriers/watched.hpp"

#include <algorithm>
#include <initializer_list>

#include <dlfcn.h>

#include <tenure/barriers.hpp>

#include "barriers/message.hpp"
#include "barriers/shadow.hpp"

// Weak: the archive is linked into programs with libtenure.a before or after it, with libtenure.so, and with none of them.
// NOLINTBEGIN(readability-redundant-declaration)
namespace tenure {
[[gnu::weak]] void announce_store(const void* at, std::size_t length) noexcept;
namespace detail {
[[gnu::weak]] void tell_watched_memory(const watched_memory& to) noexcept;
}
}  // namespace tenure
// NOLINTEND(readability-redundant-declaration)

extern "C" {
// Of librvm, which hides what it has of tenure.
[[gnu::weak]] void rvm_announce_store(const void* at, unsigned long length);
[[gnu::weak]] void rvm_watch_stores(void (*begins)(const void* at, unsigned long length),
                                    void (*ends)(const void* at, unsigned long length));
// Of other run-times that look at stores.
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace tenure::barriers {

constinit std::atomic<std::uintptr_t> lowest{~std::uintptr_t{0}}, highest{0};

namespace {

// All are called with a lock of tenure's or librvm's held.
void begins(const void* at, std::size_t length) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  if (&mark_watched != nullptr) mark_watched(from, from + length);
  lowest.store(std::min(lowest.load(std::memory_order_relaxed), from), std::memory_order_relaxed);
  highest.store(std::max(highest.load(std::memory_order_relaxed), from + length), std::memory_order_relaxed);
}

void ends(const void* at, std::size_t length) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  if (&mark_unwatched != nullptr) mark_unwatched(from, from + length);
}

void start(int, char**, char**) {
  if (&__asan_init != nullptr || &__tsan_init != nullptr)
    say("tenure: barriers that are compiled in do not go together with AddressSanitizer or ThreadSanitizer: build "
        "without "
        "tenure::barriers there, and announce stores by hand or leave them to traps\n");
  if (dlsym(RTLD_NEXT, "memcpy") == nullptr)
    give_up("tenure: barriers that are compiled in need libc as a shared library: link without -static\n");
  if (&reserve_shadow != nullptr) reserve_shadow();
  if (&detail::tell_watched_memory != nullptr) detail::tell_watched_memory({begins, ends});
  if (&rvm_watch_stores != nullptr) rvm_watch_stores(begins, ends);
}

// Before the constructors of all shared libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const start_first)(int, char**, char**) = start;

}  // namespace

void announce(const void* at, std::size_t length) noexcept {
  if (&announce_store != nullptr) announce_store(at, length);
  if (&rvm_announce_store != nullptr) rvm_announce_store(at, length);
}

}  // namespace tenure::barriers
