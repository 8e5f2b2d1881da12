// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Threads of the library. If the system has none left, the error says which one was wanted.
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include "os/system_error.hpp"

namespace tenure::os {

// `what`: what the thread does, with the file that it is about.
template <class Thread, class F>
[[nodiscard]] Thread begin_thread(const std::string& what, F&& f) {
  try {
    return Thread(std::forward<F>(f));
  } catch (const std::system_error& e) {
    throw_system_error(e.code().value(), "cannot begin a thread that " + what,
                       "raise the limits of memory and processes (ulimit -v, ulimit -u)");
  }
}

}  // namespace tenure::os
