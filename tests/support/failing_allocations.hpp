// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail. Included in one file of a program: it replaces the operators.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "support/short_memory.hpp"

namespace tenure::support {

[[gnu::noinline]] inline void* allocate(std::size_t size, std::size_t alignment) {
  if (succeeding > 0) {
    --succeeding;
  } else if (succeeding == 0 && failing > 0) {
    --failing;
    throw std::bad_alloc();
  }
  void* const made = alignment <= alignof(std::max_align_t)
                         ? std::malloc(size != 0 ? size : 1)
                         : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

// Not inlined: gcc takes malloc's memory that it sees in an operator delete for a mistake.
[[gnu::noinline]] inline void release(void* at) noexcept { std::free(at); }

}  // namespace tenure::support

void* operator new(std::size_t size) { return tenure::support::allocate(size, 1); }
void* operator new[](std::size_t size) { return tenure::support::allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t at) {
  return tenure::support::allocate(size, static_cast<std::size_t>(at));
}
void* operator new[](std::size_t size, std::align_val_t at) {
  return tenure::support::allocate(size, static_cast<std::size_t>(at));
}
// libstdc++'s own call the above; those of AddressSanitizer do not.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return tenure::support::allocate(size, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& how) noexcept { return operator new(size, how); }
void operator delete(void* at) noexcept { tenure::support::release(at); }
void operator delete[](void* at) noexcept { tenure::support::release(at); }
void operator delete(void* at, std::size_t) noexcept { tenure::support::release(at); }
void operator delete[](void* at, std::size_t) noexcept { tenure::support::release(at); }
void operator delete(void* at, std::align_val_t) noexcept { tenure::support::release(at); }
void operator delete[](void* at, std::align_val_t) noexcept { tenure::support::release(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { tenure::support::release(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { tenure::support::release(at); }
