// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which sanitizer the tests are compiled with: gcc defines a macro, clang answers a question.
#pragma once

namespace tenure::support {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitizer = true, thread_sanitizer = false;
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool address_sanitizer = false, thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool address_sanitizer = __has_feature(address_sanitizer),
                      thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool address_sanitizer = false, thread_sanitizer = false;
#endif
inline constexpr bool sanitized = address_sanitizer || thread_sanitizer;

}  // namespace tenure::support
