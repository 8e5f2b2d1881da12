// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which sanitizer this is compiled with: gcc defines a macro, clang answers a question.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENURE_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define TENURE_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TENURE_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define TENURE_THREAD_SANITIZER 1
#endif
#ifndef TENURE_ADDRESS_SANITIZER
#define TENURE_ADDRESS_SANITIZER 0
#endif
#ifndef TENURE_THREAD_SANITIZER
#define TENURE_THREAD_SANITIZER 0
#endif

// Before a function that reads on purpose what they guard: redzones, and memory of others. Such a function is not inlined, so
// only where there is a sanitizer.
#if TENURE_ADDRESS_SANITIZER || TENURE_THREAD_SANITIZER
#define TENURE_UNSANITIZED __attribute__((no_sanitize("address", "thread")))
#else
#define TENURE_UNSANITIZED
#endif

namespace tenure::os {

inline constexpr bool address_sanitizer = TENURE_ADDRESS_SANITIZER, thread_sanitizer = TENURE_THREAD_SANITIZER;

}  // namespace tenure::os
