// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What docs/barriers.md says that compilers miss.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "barriers/construct.hpp"

namespace constructs {

enum class misses { always, when_optimized, never };
struct known_miss {
  std::string_view construct;
  misses gcc, clang;
};

inline constexpr known_miss known_misses[] = {
    // Written by libstdc++.so.
    {"to_chars_double", misses::always, misses::always},
    {"from_chars_double", misses::always, misses::always},
    {"string_from_stream", misses::when_optimized, misses::when_optimized},
    {"line_from_stream", misses::when_optimized, misses::when_optimized},
    {"int_from_stream", misses::always, misses::always},
    {"char_from_stream", misses::always, misses::always},
    // Written by libc.
    {"sscanf_number", misses::always, misses::always},
    {"frexp_exponent", misses::always, misses::always},
    {"clock_gettime_time", misses::always, misses::always},
    {"mutex_lock", misses::always, misses::always},
    {"strtol_end", misses::always, misses::always},
    {"setjmp_buffer", misses::always, misses::always},
    // Not seen by the compiler.
    {"asm_output", misses::always, misses::always},
    {"half_of_a_register", misses::always, misses::never},
    {"complex_in_c", misses::when_optimized, misses::never},
    {"complex_product", misses::always, misses::never},
    {"complex_parts", misses::always, misses::never},
    {"complex_sum", misses::when_optimized, misses::never},
    {"atomic_flag", misses::always, misses::never},
    {"atomic_flag_clear", misses::always, misses::never},
    {"compare_exchange_expected", misses::always, misses::never},
};

inline bool is_known_miss(std::string_view construct) {
  const auto* const found = std::ranges::find(known_misses, construct, &known_miss::construct);
  if (found == std::end(known_misses)) return false;
  const misses when = by_clang ? found->clang : found->gcc;
  return when == misses::always || (when == misses::when_optimized && optimized);
}

}  // namespace constructs
