// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/contender_table.hpp"
#include "oo7/contender.hpp"
#include "worlds/heap_contenders.hpp"

namespace tenure::bench::oo7 {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("plain", make_plain) \
  HEAP_CONTENDERS(one) \
  one("boost-interprocess", make_boost) \
  one("pmemobj", make_pmemobj, .build_environment = "PMEM_IS_PMEM_FORCE", .most_runs_of_changes = 3) \
  one("sqlite-wal", make_sqlite)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::oo7
