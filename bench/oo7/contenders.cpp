// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo7/contender.hpp"

namespace tenure::bench::oo7 {

std::span<const contender_kind> all_contenders() {
  static const contender_kind all[] = {{"plain", make_plain},
                                       {"tenure", make_heap},
                                       {"boost-interprocess", make_boost},
                                       {"pmemobj", make_pmemobj, "PMEM_IS_PMEM_FORCE", 3},
                                       {"sqlite-wal", make_sqlite}};
  return all;
}

#ifndef TENURE_HAVE_HEAP
std::unique_ptr<contender> make_heap(const std::filesystem::path&, const configuration&) { return nullptr; }
#endif

}  // namespace tenure::bench::oo7
