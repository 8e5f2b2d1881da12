// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread that must wait for another one: seen to wait, without a clock.
#pragma once

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <unistd.h>

namespace tenure::support {

// Whether a thread of this process sleeps.
inline bool is_waiting(pid_t thread) {
  std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(in, stat);
  const std::size_t behind_name = stat.rfind(')');
  return behind_name != std::string::npos && stat.compare(behind_name + 1, 2, " S") == 0;
}

// Calls `enter` in another thread, which sets its argument once it is in, and `leave` when that thread waits or is in.
// Returns whether it was not in before.
inline bool waits_for(const std::function<void()>& leave, const std::function<void(std::atomic<bool>&)>& enter) {
  std::atomic<pid_t> id = 0;
  std::atomic<bool> is_in = false;
  std::thread other([&] {
    id = ::gettid();
    enter(is_in);
  });
  while (!is_in && (id == 0 || !is_waiting(id))) std::this_thread::yield();
  const bool waited = !is_in;
  leave();
  other.join();
  return waited;
}

}  // namespace tenure::support
