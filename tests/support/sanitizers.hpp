// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which sanitizer the tests are compiled with.
#pragma once

#include "os/sanitizers.hpp"

namespace tenure::support {

using os::address_sanitizer, os::thread_sanitizer;
inline constexpr bool sanitized = address_sanitizer || thread_sanitizer;

}  // namespace tenure::support
