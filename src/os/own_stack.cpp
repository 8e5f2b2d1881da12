// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/own_stack.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdint>

namespace tenure::os {

namespace {

// Of the main thread the library reads it in /proc, which takes some 20 us: once.
[[nodiscard]] memory_stretch whole_stack() {
  thread_local const memory_stretch mine = [] {
    pthread_attr_t attributes;
    void* begin = nullptr;
    std::size_t length = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return memory_stretch{};
    pthread_attr_getstack(&attributes, &begin, &length);
    pthread_attr_destroy(&attributes);
    const auto* const first = static_cast<const std::byte*>(begin);
    return memory_stretch{first, first + length};
  }();
  return mine;
}

}  // namespace

[[gnu::noinline]] void with_own_stack(void (*f)(void* to, memory_stretch), void* to) {
  __builtin_unwind_init();  // registers that this function would have to preserve are in its frame now
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  // The frame's registers lie below the frame address. What is there besides is of no thread's business.
  constexpr std::size_t most_registers = 256;
  const memory_stretch whole = whole_stack();
  if (here < whole.begin || here >= whole.end) return;
  const std::byte* const begin = here - static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                            most_registers, static_cast<std::size_t>(here - whole.begin)));
  const auto misaligned = reinterpret_cast<std::uintptr_t>(begin) % sizeof(void*);
  f(to, {begin + (misaligned == 0 ? 0 : sizeof(void*) - misaligned), whole.end});
}

}  // namespace tenure::os
