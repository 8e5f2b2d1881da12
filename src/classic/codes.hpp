// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Errors as return codes: the one place where they are translated.
#pragma once

#include <utility>

#include <rvm/rvm.h>

namespace tenure::classic {

// Of the exception that is being handled.
[[nodiscard]] rvm_return_t code_of_current_exception() noexcept;

// Runs f, which returns a code; no exception leaves the library.
template <class F>
rvm_return_t guarded(F&& f) noexcept {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    return code_of_current_exception();
  }
}

}  // namespace tenure::classic
