// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The contenders, in the order in which results name them.
#include "rewriting/contender.hpp"

namespace tenure::bench::rewriting {

#define TENURE_BENCH_CONTENDERS(CONTENDER)                                  \
  CONTENDER("compact", make_compact)                                        \
  CONTENDER("clone", make_clone, .like = "compact")                         \
  CONTENDER("depth-first", make_depth_first, .like = "compact")             \
  CONTENDER("by-address", make_by_address, .like = "compact")               \
  CONTENDER("by-type", make_by_type, .like = "compact")                     \
  CONTENDER("convert-verbs", make_convert_verbs, .like = "compact")         \
  CONTENDER("convert-functions", make_convert_functions, .like = "compact") \
  CONTENDER("lmdb", make_lmdb)                                              \
  CONTENDER("sqlite", make_sqlite)

TENURE_BENCH_TABLE(TENURE_BENCH_CONTENDERS)

}  // namespace tenure::bench::rewriting
