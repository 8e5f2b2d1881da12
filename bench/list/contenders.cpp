// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <array>

#include "list/contender.hpp"

namespace tenure::bench::list {

std::span<const contender_kind> all_contenders() {
  static const std::array<contender_kind, 10> all{{{"raw", make_raw, true},
                                                   {"tenure", make_tenure},
                                                   {"tenure-heap", make_heap},
                                                   {"tenure-pobj", make_pobj},
                                                   {"manual", make_manual},
                                                   {"boost-interprocess", make_boost},
                                                   {"lmdb", make_lmdb},
                                                   {"sqlite-wal", make_sqlite},
                                                   {"rocksdb", make_rocksdb},
                                                   {"pmemobj", make_pmemobj}}};
  return all;
}

#ifndef TENURE_HAVE_HEAP
std::unique_ptr<contender> make_heap(const std::filesystem::path&) { return nullptr; }
#endif

}  // namespace tenure::bench::list
