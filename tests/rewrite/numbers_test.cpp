// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Numbers that get another type in a conversion.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "types/evolution.hpp"
#include "types/numbers.hpp"

namespace {

using namespace tenure;

// Against arithmetic with more digits.
TEST(numbers_that_are_converted, fit_or_are_refused) {
  using types::number_type;
  struct named {
    number_type type;
    long double least, most;
    bool is_whole;
  };
  const auto whole = [](auto example, scalar_kind kind) -> named {
    using T = decltype(example);
    return {{kind, sizeof(T)}, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max(), true};
  };
  const named all[] = {
      whole(std::int8_t{}, scalar_kind::signed_integer),
      whole(std::int16_t{}, scalar_kind::signed_integer),
      whole(std::int32_t{}, scalar_kind::signed_integer),
      whole(std::int64_t{}, scalar_kind::signed_integer),
      whole(std::uint8_t{}, scalar_kind::unsigned_integer),
      whole(std::uint16_t{}, scalar_kind::unsigned_integer),
      whole(std::uint32_t{}, scalar_kind::unsigned_integer),
      whole(std::uint64_t{}, scalar_kind::unsigned_integer),
      {{scalar_kind::boolean, 1}, 0, 1, true},
      {{scalar_kind::floating, 4}, -std::numeric_limits<float>::max(), std::numeric_limits<float>::max(), false},
      {{scalar_kind::floating, 8}, -std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), false}};
  const auto read = [](number_type of, const std::byte* at) -> long double {
    const auto as = [&](auto value) -> long double {
      std::memcpy(&value, at, sizeof value);
      return value;
    };
    const bool has_sign = of.kind == scalar_kind::signed_integer;
    if (of.kind == scalar_kind::floating) return of.size == 4 ? as(float{}) : as(double{});
    switch (of.size) {
      case 1: return has_sign ? as(std::int8_t{}) : as(std::uint8_t{});
      case 2: return has_sign ? as(std::int16_t{}) : as(std::uint16_t{});
      case 4: return has_sign ? as(std::int32_t{}) : as(std::uint32_t{});
      default: return has_sign ? as(std::int64_t{}) : as(std::uint64_t{});
    }
  };
  std::mt19937_64 random(1);
  std::size_t fitting = 0, refused = 0;
  for (const named& from : all)
    for (const named& to : all)
      for (int n = 0; n < 400; ++n) {
        std::byte value[8]{}, result[8]{};
        std::uint64_t bits = random() >> (random() % 64);
        if (random() % 4 == 0) bits = ~bits;
        if (from.type.kind == scalar_kind::boolean) bits &= 1;
        if (from.type.kind == scalar_kind::floating && random() % 2 == 0) {
          const double d = static_cast<double>(static_cast<std::int64_t>(bits)) / (random() % 2 == 0 ? 1 : 8);
          const float f = static_cast<float>(d);
          std::memcpy(&bits, from.type.size == 4 ? static_cast<const void*>(&f) : &d, from.type.size);
        }
        std::memcpy(value, &bits, sizeof bits);
        const long double is = read(from.type, value);
        if (std::isnan(is)) continue;
        bool fits = is >= to.least && is <= to.most && (!to.is_whole || std::trunc(is) == is);
        if (to.type.kind == scalar_kind::floating && fits)
          fits = to.type.size == 4 ? static_cast<long double>(static_cast<float>(is)) == is
                                   : static_cast<long double>(static_cast<double>(is)) == is;
        if (std::isinf(is)) fits = !to.is_whole;
        const bool done = types::convert_number(from.type, value, to.type, result);
        ASSERT_EQ(done, fits) << static_cast<double>(is) << " from " << from.type.size << " to " << to.type.size;
        ++(done ? fitting : refused);
        if (done) {
          ASSERT_EQ(read(to.type, result), is);
        }
        if (types::is_widening(from.type, to.type)) {
          ASSERT_TRUE(done) << static_cast<double>(is);
        }
      }
  EXPECT_GT(fitting, 10000u);
  EXPECT_GT(refused, 5000u);
}

TEST(numbers_that_are_converted, enumerations_that_become_wider_have_no_sign) {
  const types::number_type narrow{scalar_kind::enumeration, 1}, wide{scalar_kind::enumeration, 2};
  EXPECT_TRUE(types::is_widening(narrow, wide));
  std::byte value[2]{std::byte{100}}, result[2]{};
  EXPECT_TRUE(types::convert_number(narrow, value, wide, result));
  EXPECT_EQ(result[0], std::byte{100});
  value[0] = std::byte{200};
  EXPECT_FALSE(types::convert_number(narrow, value, wide, result));
}

// The description of a field has only the name of its type.
TEST(numbers_that_are_converted, characters_have_the_sign_of_their_type) {
  const auto signs = [](std::string_view name, std::uint64_t size) {
    return types::number_of(scalar_kind::character, size, name).kind;
  };
  EXPECT_EQ(signs("char", 1), std::is_signed_v<char> ? scalar_kind::signed_integer : scalar_kind::unsigned_integer);
  EXPECT_EQ(signs("wchar_t", 4),
            std::is_signed_v<wchar_t> ? scalar_kind::signed_integer : scalar_kind::unsigned_integer);
  EXPECT_EQ(signs("std::atomic<wchar_t>", 4), signs("wchar_t", 4));
  for (const auto& [name, size] : {std::pair{"char8_t", 1}, std::pair{"char16_t", 2}, std::pair{"char32_t", 4}})
    EXPECT_EQ(signs(name, static_cast<std::uint64_t>(size)), scalar_kind::unsigned_integer) << name;
  EXPECT_EQ(types::number_of(scalar_kind::floating, 4, "float"), (types::number_type{scalar_kind::floating, 4}));
}

}  // namespace
