// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo1/contender.hpp"

namespace tenure::bench::oo1 {

std::span<const contender_kind> all_contenders() {
  static const contender_kind all[] = {{"plain", make_plain},
                                       {"plain-shuffled", make_plain_shuffled},
                                       {"tenure", make_heap},
                                       {"boost-interprocess", make_boost},
                                       {"pmemobj", make_pmemobj, "PMEM_IS_PMEM_FORCE"},
                                       {"lmdb", make_lmdb},
                                       {"sqlite-wal", make_sqlite},
                                       {"rocksdb", make_rocksdb}};
  return all;
}

#ifndef TENURE_HAVE_HEAP
std::unique_ptr<contender> make_heap(const std::filesystem::path&, int) { return nullptr; }
#endif

}  // namespace tenure::bench::oo1
