// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collect/contender.hpp"
#include "harness/contender_table.hpp"

namespace tenure::bench::collect {

// In the order of the tables, a line each.
// clang-format off
#define CONTENDERS(one) \
  one("new", make_new) \
  one("boehm", make_boehm) \
  one("tenure", make_tenure) \
  one("tenure-handles", make_tenure_handles) \
  one("tenure-destroys", make_tenure_destroys) \
  one("tenure-keeps", make_tenure_keeps) \
  one("lmdb", make_lmdb) \
  one("sqlite-wal", make_sqlite) \
  one("sqlite-auto-vacuum", make_sqlite_auto_vacuum)
// clang-format on
TENURE_BENCH_TABLE(CONTENDERS)

}  // namespace tenure::bench::collect
