// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "barriers/contender.hpp"

namespace tenure::bench::barriers {

const std::vector<contender_kind>& all_contenders() {
  static const std::vector<contender_kind> all = [] {
    std::vector<contender_kind> made = tenure_contenders();
    made.push_back({"lmdb", make_lmdb});
    made.push_back({"pmemobj", make_pmemobj});
    return made;
  }();
  return all;
}

}  // namespace tenure::bench::barriers
