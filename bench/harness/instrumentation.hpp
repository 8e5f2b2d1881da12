// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Tells valgrind's callgrind, if the program runs under it, where the hot part is:
//   valgrind --tool=callgrind --instr-atstart=no bench_… --child …
// counts its instructions only, which is repeatable where time is not.
#pragma once

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif

namespace tenure::bench {

inline void start_instrumentation() {
#ifdef CALLGRIND_START_INSTRUMENTATION
  CALLGRIND_START_INSTRUMENTATION;
#endif
}
inline void stop_instrumentation() {
#ifdef CALLGRIND_STOP_INSTRUMENTATION
  CALLGRIND_STOP_INSTRUMENTATION;
#endif
}

}  // namespace tenure::bench
