// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/contender_table.hpp"
#include "oo1/contender.hpp"
#include "worlds/heap_contenders.hpp"

namespace tenure::bench::oo1 {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("plain", make_plain) \
  one("plain-shuffled", make_plain_shuffled) \
  HEAP_CONTENDERS(one) \
  one("tenure-cache", make_cache) \
  one("tenure-cache-locks", make_cache_with_locks, .only_if_named = true) \
  one("boost-interprocess", make_boost) \
  one("pmemobj", make_pmemobj, .build_environment = "PMEM_IS_PMEM_FORCE") \
  one("lmdb", make_lmdb) \
  one("sqlite-wal", make_sqlite) \
  one("rocksdb", make_rocksdb)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::oo1
