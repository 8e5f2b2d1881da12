// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Translates errors to return codes. This is the only place that does.
#pragma once

#include <utility>

#include <rvm/rvm.h>

namespace tenure::classic {

// The code for the exception that is being handled.
[[nodiscard]] rvm_return_t code_of_current_exception() noexcept;

// Runs f, which returns a code. No exception leaves the library.
template <class F>
rvm_return_t guarded(F&& f) noexcept {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    return code_of_current_exception();
  }
}

}  // namespace tenure::classic
