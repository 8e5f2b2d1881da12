// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// For check(), which every structure with state has: tests and debug builds call it after each operation.
#pragma once

#include <string>

#include <tenure/error.hpp>

namespace tenure::rvm {

// Throws errc::damaged, naming the invariant, unless it holds.
inline void require_invariant(bool holds, const std::string& which) {
  if (!holds)
    throw error(errc::damaged, "an invariant of the library does not hold in memory: " + which +
                                   "; this is a mistake in the library: please report it");
}

}  // namespace tenure::rvm
