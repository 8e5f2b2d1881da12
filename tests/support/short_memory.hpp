// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which allocations fail, in a program of which one file includes failing_allocations.hpp.
#pragma once

namespace tenure::support {

// Of this thread: allocations that succeed, and how many fail then. Negative: all succeed.
inline thread_local long long succeeding = -1, failing = 0;

// As long as it is there: so many succeed, and then so many fail.
class short_memory {
 public:
  explicit short_memory(long long allocations, long long most = 1) {
    succeeding = allocations;
    failing = most;
  }
  ~short_memory() { end(); }
  short_memory(const short_memory&) = delete;
  short_memory& operator=(const short_memory&) = delete;

  static void end() {
    succeeding = -1;
    failing = 0;
  }
};

}  // namespace tenure::support
