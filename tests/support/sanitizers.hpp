// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which sanitizer the tests are compiled with.
#pragma once

#include "os/sanitizers.hpp"

namespace tenure::support {

using os::address_sanitizer, os::thread_sanitizer;
inline constexpr bool sanitized = address_sanitizer || thread_sanitizer;

// A child of a program with several threads may allocate. AddressSanitizer's allocator has no handlers of forks: a lock that
// another thread held is held in the child for ever.
inline constexpr bool children_of_threads_allocate = !address_sanitizer;

// clang's AddressSanitizer: the symbol of a variable has the size of the variable with its redzone.
#if defined(__clang__)
inline constexpr bool symbols_have_redzones = address_sanitizer;
#else
inline constexpr bool symbols_have_redzones = false;
#endif

}  // namespace tenure::support
