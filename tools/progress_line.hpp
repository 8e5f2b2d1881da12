// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One line on a terminal that says how far a command has come, or for how long it has worked where nobody says how far. It
// appears when the command has taken a second, changes a few times a second, and is gone when the command prints or ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tenure::tools {

// Thread-safe.
class progress_line {
 public:
  using clock = std::function<std::chrono::steady_clock::time_point()>;

  // Nothing is shown if `to` is nullptr. `working`: what is shown while nothing is known, with the seconds.
  explicit progress_line(std::FILE* to, clock now = std::chrono::steady_clock::now, std::string working = "working");
  ~progress_line() { hide(); }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  // Bytes.
  void show(const char* what, std::uint64_t done, std::uint64_t total);
  // Before anything else is printed.
  void hide();
  // Shows how long it takes, if nothing was shown for a second. Nothing more until the next is due.
  void tick();
  // Ticks, in a thread of its own, until this object goes.
  void tick_by_itself();

 private:
  void print(const std::string& line);

  std::FILE* to_;
  clock now_;
  std::string working_;
  std::mutex mutex_;  // the rest
  std::chrono::steady_clock::time_point begun_, next_, next_tick_;
  bool shown_ = false;
  std::condition_variable_any never_;
  std::jthread ticker_;  // the last: it ends first
};

}  // namespace tenure::tools
