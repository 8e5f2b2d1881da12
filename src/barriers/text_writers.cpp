// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that print to memory. See memory_writers.cpp. How long a text will be is found by printing it to nowhere,
// for watched memory only.
#include <algorithm>
#include <cstdarg>
#include <cstddef>

#include "barriers/linked.hpp"
#include "barriers/next_definition.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_store;
using tenure::barriers::may_be_watched;
using tenure::barriers::next_definition;

namespace {

constinit next_definition<int(char*, std::size_t, const char*, std::va_list)> next_vsnprintf("vsnprintf");
constinit next_definition<int(char*, const char*, std::va_list)> next_vsprintf("vsprintf");
constinit next_definition<int(char*, int, std::size_t, const char*, std::va_list)> next_vsprintf_chk("__vsprintf_chk");
constinit next_definition<int(char*, std::size_t, int, std::size_t, const char*, std::va_list)> next_vsnprintf_chk(
    "__vsnprintf_chk");

void before_print(const char* to, std::size_t room, const char* format, std::va_list arguments) {
  if (room == 0 || !may_be_watched(to)) return;
  std::va_list copy;
  va_copy(copy, arguments);
  const int length = next_vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  before_store(to, length < 0 ? room : std::min(room, static_cast<std::size_t>(length) + 1));
}

constexpr std::size_t no_limit = std::size_t{1} << 31;  // more is not printed

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int vsnprintf(char* to, std::size_t room, const char* format, std::va_list arguments) {
  before_print(to, room, format, arguments);
  return next_vsnprintf(to, room, format, arguments);
}
int vsprintf(char* to, const char* format, std::va_list arguments) {
  before_print(to, no_limit, format, arguments);
  return next_vsprintf(to, format, arguments);
}
int __vsnprintf_chk(char* to, std::size_t room, int flag, std::size_t known, const char* format,
                    std::va_list arguments) {
  before_print(to, room, format, arguments);
  return next_vsnprintf_chk(to, room, flag, known, format, arguments);
}
int __vsprintf_chk(char* to, int flag, std::size_t known, const char* format, std::va_list arguments) {
  before_print(to, no_limit, format, arguments);
  return next_vsprintf_chk(to, flag, known, format, arguments);
}

int snprintf(char* to, std::size_t room, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(to, room, format, arguments);
  va_end(arguments);
  return length;
}
int sprintf(char* to, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = vsprintf(to, format, arguments);
  va_end(arguments);
  return length;
}
int __snprintf_chk(char* to, std::size_t room, int flag, std::size_t known, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = __vsnprintf_chk(to, room, flag, known, format, arguments);
  va_end(arguments);
  return length;
}
int __sprintf_chk(char* to, int flag, std::size_t known, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = __vsprintf_chk(to, flag, known, format, arguments);
  va_end(arguments);
  return length;
}

}  // extern "C"
#pragma GCC visibility pop

void tenure::barriers::link_text_writers() noexcept {}
