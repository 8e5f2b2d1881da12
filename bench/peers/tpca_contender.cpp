// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "peers/tpca_contender.hpp"

#include <vector>

namespace tenure::bench::tpca {

std::span<const contender_kind> all_contenders() {
  static const std::vector<contender_kind> all{
      {.name = "raw", .make = make_raw, .bare = true},
      {.name = "group-log", .make = make_group_log, .bare = true, .can_be_lazy = false},
      {.name = "memory-log", .make = make_memory_log, .bare = true},
      {.name = "tenure", .make = make_tenure},
      {.name = "tenure-fields", .make = make_tenure, .whole_records = false},
      {.name = "tenure-archive",
       .make = make_tenure,
       .whole_records = false,
       .archive = true,
       .only_case = "lazy-1t-archive"},
      {.name = "tenure-heap", .make = make_heap},
      {.name = "lmdb", .make = make_lmdb},
      {.name = "sqlite-wal", .make = make_sqlite},
      {.name = "rocksdb", .make = make_rocksdb},
      {.name = "wiredtiger", .make = make_wiredtiger},
      {.name = "pmemobj", .make = make_pmemobj, .can_be_lazy = false},
  };
  return all;
}

#ifndef TENURE_HAVE_HEAP
std::unique_ptr<contender> make_heap(const setup&) { return nullptr; }
#endif

}  // namespace tenure::bench::tpca
