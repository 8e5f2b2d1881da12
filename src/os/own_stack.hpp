// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The stack of the calling thread: what a collector scans for pointers that this thread has.
#pragma once

#include "os/writable_memory.hpp"

namespace tenure::os {

// Calls f(to, stretch) for the part of the stack that the thread uses, with the registers that a call preserves. Nothing if the
// thread runs on another stack than the one it was made with: on a coroutine's, or a signal's.
void with_own_stack(void (*f)(void* to, memory_stretch), void* to);
template <class F>
void with_own_stack(F&& f) {
  with_own_stack([](void* to, memory_stretch each) { (*static_cast<F*>(to))(each); }, &f);
}

}  // namespace tenure::os
