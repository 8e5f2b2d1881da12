// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// All handles of the process (tenure/store/handle.hpp).
#pragma once

#include <mutex>

#include <tenure/store/handle.hpp>

namespace tenure::detail {

struct handles {
  static std::mutex& mutex();
  static handle_base*& first();
  // Calls f(pointer) for each. Called with the mutex.
  template <class F>
  static void for_each(F&& f) {
    for (const handle_base* h = first(); h != nullptr; h = h->next_) f(h->to_);
  }
};

}  // namespace tenure::detail
