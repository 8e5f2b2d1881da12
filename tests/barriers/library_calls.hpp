// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What constructs give to functions of libc.
#pragma once

#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "barriers/construct.hpp"

namespace constructs {

// 99 characters and their end.
inline char* room() {
  char* const to = places<char>(100);
  std::memset(to, 'r', 99);
  to[99] = 0;
  return to;
}
inline const char* words() { return hidden("some words to be written"); }

// A file of 90 bytes, at its start.
struct file_of_bytes {
  file_of_bytes() {
    for (int n = 0; n < 9; ++n) std::fputs("123456789\n", file);
    std::rewind(file);
  }
  ~file_of_bytes() { std::fclose(file); }
  std::FILE* file = std::tmpfile();
};
// A stream of wide characters, which no stream of bytes becomes.
struct file_of_characters {
  ~file_of_characters() { std::fclose(file); }
  file_of_bytes bytes;
  std::FILE* file = fdopen(dup(fileno(bytes.file)), "r");
};

}  // namespace constructs
