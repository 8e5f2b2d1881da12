// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Classes: copies of all sizes, construction, virtual functions, exceptions, lambdas, coroutines.
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <array>
#include <coroutine>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "barriers/construct.hpp"

using namespace constructs;

namespace {

template <std::size_t N>
struct bytes {
  unsigned char data[N];
};

template <std::size_t N>
[[gnu::noinline]] void copy_object(bytes<N>* to, const bytes<N>* from) {
  *to = *from;
}
template <std::size_t N>
[[gnu::noinline]] void zero_object(bytes<N>* to) {
  *to = bytes<N>{};
}
template <std::size_t N>
[[gnu::noinline]] bytes<N> return_object() {
  bytes<N> made;
  for (std::size_t n = 0; n < N; ++n) made.data[n] = static_cast<unsigned char>(n);
  return made;
}

template <std::size_t N>
struct size_constructs {
  size_constructs() {
    const std::string size = std::to_string(N);
    construct("copy_of_" + size, [] {
      auto& to = place<bytes<N>>();
      static bytes<N> from = return_object<N>();
      watch();
      copy_object(&to, hidden(&from));
    });
    construct("zero_of_" + size, [] {
      auto* const to = static_cast<bytes<N>*>(room_for<bytes<N>>());
      watch();
      zero_object(to);
    });
    construct("return_of_" + size, [] {
      auto& to = place<bytes<N>>();
      watch();
      to = return_object<N>();
    });
    construct("construct_returned_" + size, [] {
      void* const to = room_for<bytes<N>>();
      watch();
      new (to) bytes<N>(return_object<N>());
    });
    construct("swap_of_" + size, [] {
      auto& one = place<bytes<N>>();
      auto& other = place<bytes<N>>(return_object<N>());
      watch();
      std::swap(one, other);
    });
    construct("memcpy_of_" + size, [] {
      auto& to = place<bytes<N>>();
      static bytes<N> from = return_object<N>();
      watch();
      std::memcpy(&to, hidden(&from), N);
    });
    construct("memset_of_" + size, [] {
      auto& to = place<bytes<N>>();
      watch();
      std::memset(&to, 7, N);
    });
  }
};

template <std::size_t... N>
struct all_sizes : size_constructs<N>... {};
const all_sizes<1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200, 256,
                1000, 4096, 9000>
    sizes;

struct base {
  virtual ~base() = default;
  virtual int id() { return 1; }
  int b = 3;
};
struct derived : base {
  int id() override { return 2; }
  long d = 4;
};
struct left : virtual base {
  int l = 5;
};
struct right : virtual base {
  int r = 6;
};
struct diamond : left, right {
  explicit diamond(int n) : last(n) {}
  int last;
};
struct members {
  int a = 1;
  double b = 2;
  std::array<int, 5> c{1, 2, 3, 4, 5};
  const char* d = "d";
  derived e;
};

}  // namespace

CONSTRUCT(new_in_place) {
  void* const to = room_for<members>();
  watch();
  new (to) members;
}
CONSTRUCT(new_derived) {
  void* const to = room_for<derived>();
  watch();
  new (to) derived;
}
CONSTRUCT(new_diamond) {
  void* const to = room_for<diamond>();
  watch();
  new (to) diamond(hidden(7));
}
CONSTRUCT(new_array_of_classes) {
  void* const to = room_for<derived>(5);
  watch();
  std::uninitialized_default_construct_n(static_cast<derived*>(to), hidden(5));
}
CONSTRUCT(new_array_with_cookie) {
  struct counted {
    int n = 3;
    ~counted() { n = 4; }
    static void* operator new[](std::size_t length) { return take(length, 16); }
    static void operator delete[](void*) {}
  };
  watch();
  delete[] hidden(new counted[static_cast<std::size_t>(hidden(4))]);
}
CONSTRUCT(destructor_writes) {
  struct counted {
    int n = 3;
    ~counted() { *hidden(&n) = 4; }
  };
  auto& to = place<counted>();
  watch();
  to.~counted();
}
CONSTRUCT(virtual_destructor) {
  auto& to = place<diamond>(3);
  watch();
  to.~diamond();
}
CONSTRUCT(copy_of_derived) {
  auto& to = place<derived>();
  derived from;
  from.d = hidden(77);
  from.b = hidden(78);
  watch();
  to = from;
}
CONSTRUCT(aggregate) {
  struct aggregate {
    int a;
    short b[3];
    struct {
      char c;
      double d;
    } e;
  };
  auto& to = place<aggregate>();
  watch();
  to = {.a = hidden(1), .b = {1, 2, 3}, .e = {'c', 4.0}};
}
CONSTRUCT(member_by_pointer) {
  auto& to = place<members>();
  int members::*const which = &members::a;
  watch();
  to.*which = hidden(9);
}
CONSTRUCT(union_member) {
  union either {
    int i;
    double d;
    char c[16];
  };
  auto& to = place<either>();
  watch();
  to.d = 3.5;
}
CONSTRUCT(union_copy) {
  union either {
    int i;
    double d;
    char c[24];
  };
  auto& to = place<either>();
  either from;
  std::memset(&from, 8, sizeof from);
  watch();
  to = *hidden(&from);
}
CONSTRUCT(anonymous_union) {
  struct one {
    int kind;
    union {
      long l;
      float f;
    };
  };
  auto& to = place<one>();
  watch();
  to.kind = 2;
  to.f = 2.5f;
}
CONSTRUCT(two_dimensions) {
  using table = int[7][11];
  int(*const to)[11] = static_cast<int(*)[11]>(room_for<table>());
  const int n = hidden(7);
  watch();
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < 11; ++k) to[k % n][i] = i * k;
}
CONSTRUCT(reversed_loop) {
  int* const to = places<int>(100);
  const int n = hidden(100);
  watch();
  for (int i = n; i-- > 0;) to[i] = i * i;
}
CONSTRUCT(strided_loop) {
  int* const to = places<int>(300);
  const int n = hidden(100);
  watch();
  for (int i = 0; i < n; ++i) to[3 * i] = i;
}
CONSTRUCT(scattered_loop) {
  int* const to = places<int>(128);
  int where[64];
  for (int i = 0; i < 64; ++i) where[i] = i * 37 % 128;
  hidden(&where);
  watch();
  for (int i = 0; i < 64; ++i) to[where[i]] = i + 1;
}
#ifdef __SSE__
CONSTRUCT(half_of_a_register) {
  __m64* const to = places<__m64>(2);
  const __m128 value = _mm_set1_ps(static_cast<float>(hidden(5)));
  watch();
  _mm_storeh_pi(to, value);
  _mm_storel_pi(to + 1, value);
}
#endif
CONSTRUCT(conditional_loop) {
  int* const to = places<int>(128);
  const int n = hidden(128);
  watch();
  for (int i = 0; i < n; ++i)
    if (i % 3 == 0) to[i] = i;
}
CONSTRUCT(zero_loop) {
  long* const to = places<long>(128);
  for (int i = 0; i < 128; ++i) to[i] = i + 1;
  const int n = hidden(128);
  watch();
  for (int i = 0; i < n; ++i) to[i] = 0;
}
CONSTRUCT(copy_loop) {
  long* const to = places<long>(128);
  long from[128];
  for (int i = 0; i < 128; ++i) from[i] = i + 1;
  hidden(&from);
  const int n = hidden(128);
  watch();
  for (int i = 0; i < n; ++i) to[i] = from[i];
}
CONSTRUCT(thrown_and_caught) {
  int& to = place<int>(0);
  watch();
  try {
    to = 1;
    if (hidden(true)) throw std::runtime_error("thrown");
    to = 2;
  } catch (const std::exception&) {
    to = 3;
  }
}
CONSTRUCT(stored_by_unwinding) {
  struct leaves {
    int* to;
    ~leaves() { *to = 5; }
  };
  int& to = place<int>(0);
  watch();
  try {
    const leaves left{&to};
    if (hidden(true)) throw 1;
  } catch (int) {
  }
}
CONSTRUCT(exception_pointer) {
  auto& to = place<std::exception_ptr>();
  watch();
  to = std::make_exception_ptr(3);
  to = nullptr;
}
CONSTRUCT(lambda_by_reference) {
  int& to = place<int>(0);
  const auto write = [&](int n) { to = n; };
  watch();
  write(hidden(4));
}
CONSTRUCT(lambda_in_place) {
  const auto make = [](int a, long b) { return [a, b](long c) { return a + b + c; }; };
  using closure = decltype(make(1, 2));
  void* const to = room_for<closure>();
  watch();
  new (to) closure(make(hidden(1), 2));
}
CONSTRUCT(mutable_lambda) {
  auto next = [n = 0]() mutable { return ++n; };
  auto& to = place<decltype(next)>(next);
  watch();
  to();
}

namespace {
struct generator {
  struct promise_type {
    int value = 0;
    static void* operator new(std::size_t length) { return take(length, 16); }
    static void operator delete(void*) {}
    generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int n) {
      value = n;
      return {};
    }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};
generator count_to(int n) {
  for (int i = 0; i < n; ++i) co_yield i * 7;
}
}  // namespace
CONSTRUCT(coroutine_starts) {
  watch();
  const generator g = count_to(hidden(5));
  g.handle.resume();
}
CONSTRUCT(coroutine_goes_on) {
  const generator g = count_to(hidden(5));
  g.handle.resume();
  watch();
  g.handle.resume();
  g.handle.resume();
}

namespace {
thread_local int* to_by_thread = nullptr;
[[gnu::noinline]] int commits(int n) {
  look();  // all that was announced before is gone
  return n;
}
[[gnu::noinline]] void assigns_result(int* to, int n) { *to = commits(n); }
template <class... T>
void assign_all(int* to, T... value) {
  ((*to++ = value), ...);
}
[[gnu::noinline]] void by_reference(int& to, int&& from) { to = std::move(from); }
[[gnu::noinline]] bytes<40> large_result(int n) {
  bytes<40> made{};
  made.data[n] = 5;
  return made;
}
}  // namespace
CONSTRUCT(thread_local_pointer) {
  to_by_thread = &place<int>(0);
  watch();
  *to_by_thread = 5;
}
CONSTRUCT(result_of_a_call) {
  int& to = place<int>(0);
  watch();
  assigns_result(&to, 4);
}
CONSTRUCT(large_result_of_a_call) {
  auto& to = place<bytes<40>>();
  watch();
  to = large_result(hidden(4));
}
CONSTRUCT(fold_expression) {
  int* const to = places<int>(4);
  watch();
  assign_all(to, 1, hidden(2), 3, 4);
}
CONSTRUCT(out_parameter) {
  int& to = place<int>(0);
  watch();
  by_reference(to, hidden(8));
}
CONSTRUCT(unique_pointer) {
  auto& to = place<std::unique_ptr<int>>();
  watch();
  to = std::make_unique<int>(3);
  to.reset();
}
CONSTRUCT(shared_pointer) {
  auto& to = place<std::shared_ptr<int>>();
  watch();
  to = std::make_shared<int>(3);
  to.reset();
}
CONSTRUCT(shared_pointer_count) {
  const std::shared_ptr<int> first = std::allocate_shared<int>(watched_allocator<int>(), 3);
  watch();
  const std::shared_ptr<int> second = first;
  const std::weak_ptr<int> third = second;
}
CONSTRUCT(switch_stores) {
  int& to = place<int>(0);
  watch();
  switch (hidden(3)) {
    case 1: to = 1; break;
    case 3: to = 33; break;
    default: to = 4;
  }
}
CONSTRUCT(comma_and_chain) {
  int* const to = places<int>(3);
  watch();
  to[0] = to[1] = to[2] = hidden(4);
}
CONSTRUCT(many_stores_in_a_block) {
  int* const to = places<int>(64);
  const int n = hidden(3);
  watch();
#define FOUR(i) to[i] = n + i, to[i + 1] = n - i, to[i + 2] = n * i, to[i + 3] = n ^ i;
#define SIXTEEN(i) FOUR(i) FOUR(i + 4) FOUR(i + 8) FOUR(i + 12)
  SIXTEEN(0) SIXTEEN(16) SIXTEEN(32) SIXTEEN(48)
}
// From one end of the watched memory to the other.
CONSTRUCT(every_page) {
  constexpr std::size_t length = std::size_t{64} * 4096;
  char* const to = static_cast<char*>(hidden(take(length, 16)));
  watch();
  for (std::size_t n = 0; n < length; n += 512) to[n] = 'e';
  to[length - 1] = 'e';
}
