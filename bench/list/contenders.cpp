// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/contender_table.hpp"
#include "list/contender.hpp"

namespace tenure::bench::list {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("raw", make_raw, .bare = true) \
  one("tenure", make_tenure) \
  one("tenure-heap", make_heap) \
  one("tenure-pobj", make_pobj) \
  one("manual", make_manual) \
  one("boost-interprocess", make_boost) \
  one("lmdb", make_lmdb) \
  one("sqlite-wal", make_sqlite) \
  one("rocksdb", make_rocksdb) \
  one("pmemobj", make_pmemobj)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::list
