// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "peers/tpca_contender.hpp"
#include "harness/contender_table.hpp"

namespace tenure::bench::tpca {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("raw", make_raw, .bare = true) \
  one("group-log", make_group_log, .bare = true, .can_be_lazy = false) \
  one("memory-log", make_memory_log, .bare = true) \
  one("tenure", make_tenure) \
  one("tenure-fields", make_tenure, .whole_records = false) \
  one("tenure-archive", make_tenure, .whole_records = false, .archive = true, .only_case = "lazy-1t-archive") \
  one("tenure-heap", make_heap) \
  one("lmdb", make_lmdb) \
  one("sqlite-wal", make_sqlite) \
  one("rocksdb", make_rocksdb) \
  one("wiredtiger", make_wiredtiger) \
  one("pmemobj", make_pmemobj, .can_be_lazy = false)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::tpca
