// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that write wide characters. See memory_writers.cpp. What is printed to memory is announced as a whole: its
// length cannot be found by printing it to nowhere.
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "barriers/linked.hpp"
#include "barriers/next_definition.hpp"
#include "barriers/strings.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_append;
using tenure::barriers::before_copy;
using tenure::barriers::before_store;
using tenure::barriers::next_definition;

namespace {

using copy_function = wchar_t*(wchar_t*, const wchar_t*);
using bounded_copy_function = wchar_t*(wchar_t*, const wchar_t*, std::size_t);
using checked_copy_function = bounded_copy_function;
using checked_bounded_copy_function = wchar_t*(wchar_t*, const wchar_t*, std::size_t, std::size_t);

constinit next_definition<bounded_copy_function> next_wmemcpy("wmemcpy"), next_wmemmove("wmemmove"),
    next_wmempcpy("wmempcpy");
constinit next_definition<wchar_t*(wchar_t*, wchar_t, std::size_t)> next_wmemset("wmemset");
constinit next_definition<checked_bounded_copy_function> next_wmemcpy_chk("__wmemcpy_chk"),
    next_wmemmove_chk("__wmemmove_chk"), next_wmempcpy_chk("__wmempcpy_chk");
constinit next_definition<wchar_t*(wchar_t*, wchar_t, std::size_t, std::size_t)> next_wmemset_chk("__wmemset_chk");

constinit next_definition<copy_function> next_wcscpy("wcscpy"), next_wcpcpy("wcpcpy"), next_wcscat("wcscat");
constinit next_definition<bounded_copy_function> next_wcsncpy("wcsncpy"), next_wcpncpy("wcpncpy"),
    next_wcsncat("wcsncat");
constinit next_definition<checked_copy_function> next_wcscpy_chk("__wcscpy_chk"), next_wcpcpy_chk("__wcpcpy_chk"),
    next_wcscat_chk("__wcscat_chk");
constinit next_definition<checked_bounded_copy_function> next_wcsncpy_chk("__wcsncpy_chk"),
    next_wcpncpy_chk("__wcpncpy_chk"), next_wcsncat_chk("__wcsncat_chk");

constinit next_definition<int(wchar_t*, std::size_t, const wchar_t*, std::va_list)> next_vswprintf("vswprintf");
constinit next_definition<int(wchar_t*, std::size_t, int, std::size_t, const wchar_t*, std::va_list)>
    next_vswprintf_chk("__vswprintf_chk");

constinit next_definition<wchar_t*(wchar_t*, int, std::FILE*)> next_fgetws("fgetws");
constinit next_definition<wchar_t*(wchar_t*, std::size_t, int, std::FILE*)> next_fgetws_chk("__fgetws_chk");

void before_stores(const wchar_t* to, std::size_t count) { before_store(to, count * sizeof *to); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

wchar_t* wmemcpy(wchar_t* to, const wchar_t* from, std::size_t count) {
  before_stores(to, count);
  return next_wmemcpy(to, from, count);
}
wchar_t* wmemmove(wchar_t* to, const wchar_t* from, std::size_t count) {
  before_stores(to, count);
  return next_wmemmove(to, from, count);
}
wchar_t* wmempcpy(wchar_t* to, const wchar_t* from, std::size_t count) {
  before_stores(to, count);
  return next_wmempcpy(to, from, count);
}
wchar_t* wmemset(wchar_t* to, wchar_t value, std::size_t count) {
  before_stores(to, count);
  return next_wmemset(to, value, count);
}
wchar_t* __wmemcpy_chk(wchar_t* to, const wchar_t* from, std::size_t count, std::size_t room) {
  before_stores(to, count);
  return next_wmemcpy_chk(to, from, count, room);
}
wchar_t* __wmemmove_chk(wchar_t* to, const wchar_t* from, std::size_t count, std::size_t room) {
  before_stores(to, count);
  return next_wmemmove_chk(to, from, count, room);
}
wchar_t* __wmempcpy_chk(wchar_t* to, const wchar_t* from, std::size_t count, std::size_t room) {
  before_stores(to, count);
  return next_wmempcpy_chk(to, from, count, room);
}
wchar_t* __wmemset_chk(wchar_t* to, wchar_t value, std::size_t count, std::size_t room) {
  before_stores(to, count);
  return next_wmemset_chk(to, value, count, room);
}

wchar_t* wcscpy(wchar_t* to, const wchar_t* from) {
  before_copy(to, from);
  return next_wcscpy(to, from);
}
wchar_t* wcpcpy(wchar_t* to, const wchar_t* from) {
  before_copy(to, from);
  return next_wcpcpy(to, from);
}
wchar_t* wcscat(wchar_t* to, const wchar_t* from) {
  before_append(to, from);
  return next_wcscat(to, from);
}
wchar_t* wcsncpy(wchar_t* to, const wchar_t* from, std::size_t count) {
  before_stores(to, count);
  return next_wcsncpy(to, from, count);
}
wchar_t* wcpncpy(wchar_t* to, const wchar_t* from, std::size_t count) {
  before_stores(to, count);
  return next_wcpncpy(to, from, count);
}
wchar_t* wcsncat(wchar_t* to, const wchar_t* from, std::size_t count) {
  before_append(to, from, count);
  return next_wcsncat(to, from, count);
}
wchar_t* __wcscpy_chk(wchar_t* to, const wchar_t* from, std::size_t room) {
  before_copy(to, from);
  return next_wcscpy_chk(to, from, room);
}
wchar_t* __wcpcpy_chk(wchar_t* to, const wchar_t* from, std::size_t room) {
  before_copy(to, from);
  return next_wcpcpy_chk(to, from, room);
}
wchar_t* __wcscat_chk(wchar_t* to, const wchar_t* from, std::size_t room) {
  before_append(to, from);
  return next_wcscat_chk(to, from, room);
}
wchar_t* __wcsncpy_chk(wchar_t* to, const wchar_t* from, std::size_t count, std::size_t room) {
  before_stores(to, count);
  return next_wcsncpy_chk(to, from, count, room);
}
wchar_t* __wcpncpy_chk(wchar_t* to, const wchar_t* from, std::size_t count, std::size_t room) {
  before_stores(to, count);
  return next_wcpncpy_chk(to, from, count, room);
}
wchar_t* __wcsncat_chk(wchar_t* to, const wchar_t* from, std::size_t count, std::size_t room) {
  before_append(to, from, count);
  return next_wcsncat_chk(to, from, count, room);
}

int vswprintf(wchar_t* to, std::size_t room, const wchar_t* format, std::va_list arguments) {
  before_stores(to, room);
  return next_vswprintf(to, room, format, arguments);
}
int __vswprintf_chk(wchar_t* to, std::size_t room, int flag, std::size_t known, const wchar_t* format,
                    std::va_list arguments) {
  before_stores(to, room);
  return next_vswprintf_chk(to, room, flag, known, format, arguments);
}
int swprintf(wchar_t* to, std::size_t room, const wchar_t* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = vswprintf(to, room, format, arguments);
  va_end(arguments);
  return length;
}
int __swprintf_chk(wchar_t* to, std::size_t room, int flag, std::size_t known, const wchar_t* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = __vswprintf_chk(to, room, flag, known, format, arguments);
  va_end(arguments);
  return length;
}

wchar_t* fgetws(wchar_t* to, int room, std::FILE* file) {
  if (room > 0) before_stores(to, static_cast<std::size_t>(room));
  return next_fgetws(to, room, file);
}
wchar_t* __fgetws_chk(wchar_t* to, std::size_t room, int count, std::FILE* file) {
  if (count > 0) before_stores(to, static_cast<std::size_t>(count));
  return next_fgetws_chk(to, room, count, file);
}

}  // extern "C"
#pragma GCC visibility pop

void tenure::barriers::link_wide_writers() noexcept {}
