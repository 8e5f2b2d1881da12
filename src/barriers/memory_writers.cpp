// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that write to memory, in the program and before libc's own: they announce, and call the next definition.
//
// The first ones are called before next definitions can be looked for: by the resolvers of other functions, while the
// program is relocated. Until start() they copy by themselves. No header that declares what is defined here is included.
#include <cstddef>
#include <cstdint>

#include "barriers/linked.hpp"
#include "barriers/next_definition.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_store;
using tenure::barriers::next_definition;

namespace {

using copy_function = void*(void*, const void*, std::size_t);
using fill_function = void*(void*, int, std::size_t);

constinit next_definition<copy_function> next_memcpy("memcpy"), next_memmove("memmove"), next_mempcpy("mempcpy");
constinit next_definition<fill_function> next_memset("memset");

// Of memory that libc has checked the length of.
using checked_copy_function = void*(void*, const void*, std::size_t, std::size_t);
using checked_fill_function = void*(void*, int, std::size_t, std::size_t);
constinit next_definition<checked_copy_function> next_memcpy_chk("__memcpy_chk"), next_memmove_chk("__memmove_chk"),
    next_mempcpy_chk("__mempcpy_chk");
constinit next_definition<checked_fill_function> next_memset_chk("__memset_chk");

constinit next_definition<void*(void*, const void*, int, std::size_t)> next_memccpy("memccpy");
constinit next_definition<void(const void*, void*, std::ptrdiff_t)> next_swab("swab");

void* move_bytes(void* to, const void* from, std::size_t length) {
  auto* const target = static_cast<volatile unsigned char*>(to);
  const auto* const source = static_cast<const unsigned char*>(from);
  if (reinterpret_cast<std::uintptr_t>(to) <= reinterpret_cast<std::uintptr_t>(from))
    for (std::size_t n = 0; n < length; ++n) target[n] = source[n];
  else
    for (std::size_t n = length; n > 0; --n) target[n - 1] = source[n - 1];
  return to;
}

[[gnu::constructor(101)]] void find_next() {
  next_memcpy.find();
  next_memmove.find();
  next_memset.find();
  next_mempcpy.find();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* memcpy(void* to, const void* from, std::size_t length) {
  before_store(to, length);
  copy_function* const next = next_memcpy.known();
  return next != nullptr ? next(to, from, length) : move_bytes(to, from, length);
}

void* memmove(void* to, const void* from, std::size_t length) {
  before_store(to, length);
  copy_function* const next = next_memmove.known();
  return next != nullptr ? next(to, from, length) : move_bytes(to, from, length);
}

void* memset(void* to, int value, std::size_t length) {
  before_store(to, length);
  if (fill_function* const next = next_memset.known()) return next(to, value, length);
  auto* const target = static_cast<volatile unsigned char*>(to);
  for (std::size_t n = 0; n < length; ++n) target[n] = static_cast<unsigned char>(value);
  return to;
}

void* mempcpy(void* to, const void* from, std::size_t length) {
  return static_cast<unsigned char*>(memcpy(to, from, length)) + length;
}
void* __mempcpy(void* to, const void* from, std::size_t length) { return mempcpy(to, from, length); }

void* __memcpy_chk(void* to, const void* from, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_memcpy_chk(to, from, length, room);
}
void* __memmove_chk(void* to, const void* from, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_memmove_chk(to, from, length, room);
}
void* __mempcpy_chk(void* to, const void* from, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_mempcpy_chk(to, from, length, room);
}
void* __memset_chk(void* to, int value, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_memset_chk(to, value, length, room);
}

// The names of later compilers.
void* __asan_memcpy(void* to, const void* from, std::size_t length) { return memcpy(to, from, length); }
void* __asan_memmove(void* to, const void* from, std::size_t length) { return memmove(to, from, length); }
void* __asan_memset(void* to, int value, std::size_t length) { return memset(to, value, length); }

void* memccpy(void* to, const void* from, int last, std::size_t length) {
  before_store(to, length);
  return next_memccpy(to, from, last, length);
}
void bcopy(const void* from, void* to, std::size_t length) { memmove(to, from, length); }
void bzero(void* to, std::size_t length) { memset(to, 0, length); }
void explicit_bzero(void* to, std::size_t length) {
  memset(to, 0, length);
  __asm__ volatile("" : : "r"(to) : "memory");
}
void __explicit_bzero_chk(void* to, std::size_t length, std::size_t room) { __memset_chk(to, 0, length, room); }
void swab(const void* from, void* to, std::ptrdiff_t length) {
  if (length > 0) before_store(to, static_cast<std::size_t>(length));
  next_swab(from, to, length);
}

}  // extern "C"
#pragma GCC visibility pop

void tenure::barriers::link_memory_writers() noexcept {}
