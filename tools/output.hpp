// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a command writes to its standard output: known to have arrived, or to have failed; and errors in it, for programs.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <exception>
#include <memory>

#include "progress_line.hpp"

namespace tenure::tools {

// Stands in front of another file: knows whether anything has gone there, and what went wrong. Control characters other than
// line feeds and tabs are shown as in C, "\033".
class output {
 public:
  // `progress` is hidden before anything goes to `to`, which this object does not close.
  explicit output(std::FILE* to, progress_line* progress = nullptr);
  output(const output&) = delete;
  output& operator=(const output&) = delete;

  [[nodiscard]] std::FILE* file() { return file_.get(); }
  [[nodiscard]] bool has_begun() const { return begun_; }
  // Throws tenure::error, with the system's reason, unless all that was printed has been taken.
  void finish();
  // Forgets what has not gone on yet.
  void discard();

 private:
  static ssize_t write(void* self, const char* from, std::size_t length);

  std::FILE* to_;
  progress_line* progress_;
  bool begun_ = false;
  int failure_ = 0;  // errno
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// A line for people: "COMMAND: TEXT".
void say(std::FILE* messages, const char* command, const char* text);

// Says on `messages` what went wrong, in a line that begins with the command's name; and as JSON, {"error": ...}, on `out`, if a
// program expects JSON there and nothing else has begun.
void report_error(const std::exception& what, const char* command, bool as_json, output& out, std::FILE* messages);

}  // namespace tenure::tools
