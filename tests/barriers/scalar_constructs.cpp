// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Numbers, pointers, bit-fields, atomics.
#include <atomic>
#include <bit>
#include <complex>
#include <cstdint>
#include <string>

#include "barriers/construct.hpp"

using namespace constructs;

namespace constructs {
#ifdef __clang__
const bool by_clang = true;
#else
const bool by_clang = false;
#endif
#ifdef __OPTIMIZE__
const bool optimized = true;
#else
const bool optimized = false;
#endif
}  // namespace constructs

namespace {

template <class T>
[[gnu::noinline]] void assign(T* to, T value) {
  *to = value;
}
template <class T>
[[gnu::noinline]] void assign_volatile(volatile T* to, T value) {
  *to = value;
}
template <class T>
[[gnu::noinline]] void increment(T* to) {
  ++*to;
}
template <class T>
[[gnu::noinline]] void add_to(T* to, T value) {
  *to += value;
}
template <class T>
[[gnu::noinline]] void exclusive_or(T* to, T value) {
  *to ^= value;
}
template <class T>
[[gnu::noinline]] void assign_if(T* to, T value, bool really) {
  if (really) *to = value;
}
template <class T>
[[gnu::noinline]] void assign_unaligned(T* to, T value) {
  __builtin_memcpy(reinterpret_cast<char*>(to) + 1, &value, sizeof value);
}

template <class T>
struct number_constructs {
  explicit number_constructs(const std::string& type) {
    construct("assign_" + type, [] {
      T& to = place<T>(T(1));
      watch();
      assign(&to, T(7));
    });
    construct("assign_volatile_" + type, [] {
      T& to = place<T>(T(1));
      watch();
      assign_volatile(&to, T(7));
    });
    construct("increment_" + type, [] {
      T& to = place<T>(T(1));
      watch();
      increment(&to);
    });
    construct("add_to_" + type, [] {
      T& to = place<T>(T(1));
      watch();
      add_to(&to, T(5));
    });
    construct("assign_if_" + type, [] {
      T& to = place<T>(T(1));
      watch();
      assign_if(&to, T(9), hidden(true));
    });
    construct("assign_unaligned_" + type, [] {
      T* const to = places<T>(2);
      watch();
      assign_unaligned(to, T(11));
    });
    construct("array_of_" + type, [] {
      T* const to = places<T>(37);
      const int n = hidden(37);
      watch();
      for (int i = 0; i < n; ++i) to[i] = T(i + 1);
    });
    construct("sum_of_two_arrays_of_" + type, [] {
      T* const to = places<T>(53);
      T* const from = places<T>(53);
      for (int i = 0; i < 53; ++i) from[i] = T(i);
      const int n = hidden(53);
      watch();
      for (int i = 0; i < n; ++i) to[i] = T(from[i] + from[n - 1 - i] + T(1));
    });
  }
};

const number_constructs<signed char> chars("char");
const number_constructs<unsigned short> shorts("short");
const number_constructs<int> ints("int");
const number_constructs<std::int64_t> longs("long");
const number_constructs<float> floats("float");
const number_constructs<double> doubles("double");
const number_constructs<long double> long_doubles("long_double");
__extension__ using wide_int = __int128;
const number_constructs<wide_int> wide_ints("int128");

template <class T>
struct atomic_constructs {
  explicit atomic_constructs(const std::string& type) {
    const auto add = [&](const char* what, auto change) {
      construct("atomic_" + std::string(what) + "_" + type, [change] {
        auto& to = place<std::atomic<T>>(T(1));
        watch();
        change(to);
      });
    };
    add("store", [](auto& to) { to.store(T(7)); });
    add("relaxed_store", [](auto& to) { to.store(T(7), std::memory_order_relaxed); });
    add("exchange", [](auto& to) { to.exchange(T(7)); });
    add("fetch_add", [](auto& to) { to.fetch_add(T(7)); });
    add("fetch_or", [](auto& to) { to.fetch_or(T(6)); });
    add("compare_exchange", [](auto& to) {
      T old(1);
      to.compare_exchange_strong(old, T(7));
    });
  }
};
const atomic_constructs<unsigned char> atomic_chars("char");
const atomic_constructs<short> atomic_shorts("short");
const atomic_constructs<int> atomic_ints("int");
const atomic_constructs<std::int64_t> atomic_longs("long");

}  // namespace

CONSTRUCT(bool_assign) {
  bool& to = place<bool>(false);
  watch();
  assign(&to, true);
}
CONSTRUCT(pointer_assign) {
  int*& to = place<int*>(nullptr);
  int value = 0;
  watch();
  assign(&to, &value);
}
CONSTRUCT(exclusive_or_long) {
  auto& to = place<unsigned long>(5u);
  watch();
  exclusive_or(&to, 77ul);
}
CONSTRUCT(member_pointer_assign) {
  struct point {
    int x, y;
  };
  auto& to = place<int point::*>(&point::x);
  watch();
  to = &point::y;
}
CONSTRUCT(function_pointer_assign) {
  auto& to = place<void (*)()>(nullptr);
  watch();
  to = [] {};
}
CONSTRUCT(reference_cast_assign) {
  auto& to = place<std::uint64_t>(0u);
  watch();
  reinterpret_cast<unsigned char*>(&to)[3] = 9;
}
CONSTRUCT(byte_swap) {
  auto& to = place<std::uint32_t>(0x01020304u);
  watch();
  to = __builtin_bswap32(to);
}
CONSTRUCT(atomic_flag) {
  auto& to = place<std::atomic_flag>();
  watch();
  to.test_and_set();
}
CONSTRUCT(atomic_flag_clear) {
  auto& to = place<std::atomic_flag>();
  to.test_and_set();
  watch();
  to.clear();
}
CONSTRUCT(compare_exchange_expected) {
  std::atomic<int> value{5};
  int& expected = place<int>(4);
  watch();
  value.compare_exchange_strong(expected, 6);
}
CONSTRUCT(atomic_pointer) {
  auto& to = place<std::atomic<int*>>(nullptr);
  int value = 0;
  watch();
  to.store(&value);
}
CONSTRUCT(atomic_reference) {
  int& to = place<int>(1);
  watch();
  std::atomic_ref<int>(to).fetch_add(3);
}
CONSTRUCT(sync_builtin) {
  int& to = place<int>(1);
  watch();
  __sync_fetch_and_add(&to, 3);
}
CONSTRUCT(complex_assign) {
  auto& to = place<std::complex<double>>(1.0, 2.0);
  const std::complex<double> from(hidden(3), hidden(4));
  watch();
  to = from;
}
CONSTRUCT(complex_parts) {
  auto& to = place<std::complex<double>>(1.0, 2.0);
  const double from = hidden(3);
  watch();
  to.real(from);
  to.imag(from);
}
CONSTRUCT(complex_sum) {
  auto& to = place<std::complex<double>>(1.0, 2.0);
  const double from = hidden(3);
  watch();
  to += from;
}
CONSTRUCT(complex_product) {
  auto& to = place<std::complex<double>>(1.0, 2.0);
  const std::complex<double> from(hidden(3), hidden(4));
  watch();
  to *= from;
}
CONSTRUCT(overflow_builtin) {
  int& to = place<int>(1);
  watch();
  (void)__builtin_add_overflow(hidden(3), hidden(4), &to);
}
CONSTRUCT(asm_output) {
  int& to = place<int>(1);
  watch();
  asm volatile("movl $7, %0" : "=m"(to));
}
CONSTRUCT(vector_extension) {
  using four [[gnu::vector_size(16)]] = int;
  four* const to = static_cast<four*>(room_for<four>());
  watch();
  *to = four{hidden(1), 2, 3, 4};
}

namespace {
struct bits {
  unsigned a : 3, b : 7, c : 22;
  unsigned long d : 40;
  bool e : 1;
};
}  // namespace
CONSTRUCT(bit_field_narrow) {
  auto& to = place<bits>();
  watch();
  to.a = 5;
}
CONSTRUCT(bit_field_across_bytes) {
  auto& to = place<bits>();
  watch();
  to.c = 0x3fffffu & static_cast<unsigned>(hidden(123456));
}
CONSTRUCT(bit_field_long) {
  auto& to = place<bits>();
  watch();
  to.d = static_cast<unsigned long>(hidden(0x1234567890l)) & 0xfffffffffful;
}
CONSTRUCT(bit_field_bool) {
  auto& to = place<bits>();
  watch();
  to.e = hidden(true);
}
CONSTRUCT(bit_field_increment) {
  auto& to = place<bits>();
  watch();
  ++to.b;
}
CONSTRUCT(bit_fields_together) {
  auto& to = place<bits>();
  watch();
  to.a = 1;
  to.b = 2;
  to.c = 3;
}
CONSTRUCT(packed_field) {
  struct [[gnu::packed]] packed {
    char c;
    long l;
    short s;
  };
  auto& to = place<packed>();
  watch();
  to.l = hidden(0x123456789l);
  to.s = 3;
}
CONSTRUCT(two_stores_to_one_place) {
  int& to = place<int>(1);
  watch();
  to = 2;
  look();
  hidden(&to);
  to = 3;
}
CONSTRUCT(store_in_a_loop) {
  int& to = place<int>(0);
  const int n = hidden(20);
  watch();
  for (int i = 0; i < n; ++i) {
    to = to * 3 + i;
    hidden(&to);
  }
}
