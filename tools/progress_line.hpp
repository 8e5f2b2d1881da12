// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One line on a terminal that says how far a command has come. It appears when the command has taken a second, changes a
// few times a second, and is gone when the command prints or ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>

namespace tenure::tools {

class progress_line {
 public:
  using clock = std::function<std::chrono::steady_clock::time_point()>;

  // Nothing is shown if `to` is nullptr.
  explicit progress_line(std::FILE* to, clock now = std::chrono::steady_clock::now);
  ~progress_line() { hide(); }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  // Bytes.
  void show(const char* what, std::uint64_t done, std::uint64_t total);
  // Before anything else is printed.
  void hide();

 private:
  std::FILE* to_;
  clock now_;
  std::chrono::steady_clock::time_point next_;
  bool shown_ = false;
};

}  // namespace tenure::tools
