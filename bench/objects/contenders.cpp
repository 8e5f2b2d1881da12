// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/contender_table.hpp"
#include "objects/contender.hpp"

namespace tenure::bench::objects {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("tenure-pobj", make_pobj) \
  one("tenure-pobj-once", make_pobj_once, .only_for_writes = true) \
  one("tenure-pobj-whole", make_pobj_whole, .only_for_writes = true) \
  one("tenure-heap", make_heap) \
  one("tenure", make_recoverable) \
  one("lmdb", make_lmdb)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::objects
