// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A program's contenders, one line each. The list is a macro that is given another one, which it calls for every contender with
// its name, the function that makes it and, if there is any, what is special about it (members of contender_kind). The
// function is defined in the contender's file, and declared nowhere else but here. make_contender is its type.
#pragma once

#define TENURE_BENCH_DECLARE(NAME, FUNCTION, ...) make_contender FUNCTION;
#define TENURE_BENCH_KIND(NAME, FUNCTION, ...) \
  contender_kind{.name = (NAME), .make = FUNCTION __VA_OPT__(, ) __VA_ARGS__},

#define TENURE_BENCH_TABLE(CONTENDERS)                                   \
  CONTENDERS(TENURE_BENCH_DECLARE)                                       \
  std::span<const contender_kind> all_contenders() {                     \
    static const contender_kind all[] = {CONTENDERS(TENURE_BENCH_KIND)}; \
    return all;                                                          \
  }
