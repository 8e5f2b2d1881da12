// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that write strings. See memory_writers.cpp.
#include <algorithm>
#include <cstddef>
#include <ctime>

#include "barriers/linked.hpp"
#include "barriers/next_definition.hpp"
#include "barriers/strings.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_append;
using tenure::barriers::before_copy;
using tenure::barriers::before_store;
using tenure::barriers::length_of;
using tenure::barriers::may_be_watched;
using tenure::barriers::next_definition;

extern "C" [[noreturn]] void __chk_fail();

namespace {

using copy_function = char*(char*, const char*);
using bounded_copy_function = char*(char*, const char*, std::size_t);
using checked_copy_function = char*(char*, const char*, std::size_t);
using checked_bounded_copy_function = char*(char*, const char*, std::size_t, std::size_t);

constinit next_definition<copy_function> next_strcpy("strcpy"), next_stpcpy("stpcpy"), next_strcat("strcat");
constinit next_definition<bounded_copy_function> next_strncpy("strncpy"), next_stpncpy("stpncpy"),
    next_strncat("strncat");
constinit next_definition<checked_copy_function> next_strcpy_chk("__strcpy_chk"), next_stpcpy_chk("__stpcpy_chk"),
    next_strcat_chk("__strcat_chk");
constinit next_definition<checked_bounded_copy_function> next_strncpy_chk("__strncpy_chk"),
    next_stpncpy_chk("__stpncpy_chk"), next_strncat_chk("__strncat_chk");
constinit next_definition<char*(char*, const char*, char**)> next_strtok_r("strtok_r");
constinit next_definition<char*(char**, const char*)> next_strsep("strsep");
constinit next_definition<std::size_t(char*, std::size_t, const char*, const std::tm*)> next_strftime("strftime");

void before_split(const char* text) {
  if (text != nullptr && may_be_watched(text)) before_store(text, length_of(text) + 1);
}

constinit thread_local char* strtok_rest = nullptr;  // of the string that strtok was given last

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

char* strcpy(char* to, const char* from) {
  before_copy(to, from);
  return next_strcpy(to, from);
}
char* stpcpy(char* to, const char* from) {
  before_copy(to, from);
  return next_stpcpy(to, from);
}
char* __stpcpy(char* to, const char* from) { return stpcpy(to, from); }
char* strcat(char* to, const char* from) {
  before_append(to, from);
  return next_strcat(to, from);
}
char* strncpy(char* to, const char* from, std::size_t length) {
  before_store(to, length);
  return next_strncpy(to, from, length);
}
char* stpncpy(char* to, const char* from, std::size_t length) {
  before_store(to, length);
  return next_stpncpy(to, from, length);
}
char* strncat(char* to, const char* from, std::size_t length) {
  before_append(to, from, length);
  return next_strncat(to, from, length);
}

char* __strcpy_chk(char* to, const char* from, std::size_t room) {
  before_copy(to, from);
  return next_strcpy_chk(to, from, room);
}
char* __stpcpy_chk(char* to, const char* from, std::size_t room) {
  before_copy(to, from);
  return next_stpcpy_chk(to, from, room);
}
char* __strcat_chk(char* to, const char* from, std::size_t room) {
  before_append(to, from);
  return next_strcat_chk(to, from, room);
}
char* __strncpy_chk(char* to, const char* from, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_strncpy_chk(to, from, length, room);
}
char* __stpncpy_chk(char* to, const char* from, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_stpncpy_chk(to, from, length, room);
}
char* __strncat_chk(char* to, const char* from, std::size_t length, std::size_t room) {
  before_append(to, from, length);
  return next_strncat_chk(to, from, length, room);
}

// libc has them since 2.38 only.
std::size_t strlcpy(char* to, const char* from, std::size_t room) {
  const std::size_t length = length_of(from);
  if (room == 0) return length;
  const std::size_t copied = std::min(length, room - 1);
  before_store(to, copied + 1);
  std::copy_n(from, copied, to);
  to[copied] = 0;
  return length;
}
std::size_t strlcat(char* to, const char* from, std::size_t room) {
  const std::size_t length = length_of(to, room);
  return length + (length == room ? length_of(from) : strlcpy(to + length, from, room - length));
}
// libc calls __chk_fail() where more room is told than there is.
std::size_t __strlcpy_chk(char* to, const char* from, std::size_t room, std::size_t known) {
  if (room > known) __chk_fail();
  return strlcpy(to, from, room);
}
std::size_t __strlcat_chk(char* to, const char* from, std::size_t room, std::size_t known) {
  if (room > known) __chk_fail();
  return strlcat(to, from, room);
}

char* strtok_r(char* text, const char* separators, char** rest) {
  before_split(text != nullptr ? text : *rest);
  before_store(rest, sizeof *rest);
  return next_strtok_r(text, separators, rest);
}
char* __strtok_r(char* text, const char* separators, char** rest) { return strtok_r(text, separators, rest); }
char* strtok(char* text, const char* separators) { return strtok_r(text, separators, &strtok_rest); }
char* strsep(char** rest, const char* separators) {
  before_split(*rest);
  before_store(rest, sizeof *rest);
  return next_strsep(rest, separators);
}

std::size_t strftime(char* to, std::size_t room, const char* format, const std::tm* time) {
  before_store(to, room);
  return next_strftime(to, room, format, time);
}

}  // extern "C"
#pragma GCC visibility pop

void tenure::barriers::link_string_writers() noexcept {}
