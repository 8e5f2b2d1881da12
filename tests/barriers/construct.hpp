// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pieces of program that write to watched memory. The harness compares the memory before and after each with what was
// announced: a byte that changed and was not announced is a miss.
#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace constructs {

// Watched memory, of the construct that runs.
void* take(std::size_t length, std::size_t alignment);
void give_back(void* at, std::size_t length);

// What the construct writes from here on must be announced. It is called by each, once it has prepared what it writes to.
void watch();
// What was written since the last call was announced; otherwise the construct has missed it.
void look();

struct construct {
  construct(std::string name, std::function<void()> run);
};

// The compiler does not know what it is.
template <class T>
T* hidden(T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}
template <class T>
requires(std::is_integral_v<T>) T hidden(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

template <class T, class... Arguments>
T& place(Arguments&&... arguments) {
  return *hidden(new (take(sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...));
}
// n elements.
template <class T>
T* places(std::size_t n) {
  T* const first = static_cast<T*>(take(n * sizeof(T), alignof(T)));
  for (std::size_t i = 0; i < n; ++i) new (first + i) T();
  return hidden(first);
}
// Where there is no object yet.
template <class T>
void* room_for(std::size_t n = 1) {
  return hidden(take(n * sizeof(T), alignof(T)));
}

// The memory of containers.
template <class T>
struct watched_allocator {
  using value_type = T;
  watched_allocator() = default;
  template <class U>
  watched_allocator(const watched_allocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(take(n * sizeof(T), alignof(T))); }
  void deallocate(T* at, std::size_t n) { give_back(at, n * sizeof(T)); }
  bool operator==(const watched_allocator&) const = default;
};

// How the constructs were compiled.
extern const bool by_clang, optimized;

}  // namespace constructs

// CONSTRUCT(name) { prepare; watch(); write; }
#define CONSTRUCT(name)                                                            \
  static void name();                                                              \
  static const ::constructs::construct construct_of_##name(#name, [] { name(); }); \
  [[gnu::noinline]] static void name()
