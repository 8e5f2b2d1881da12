// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <array>

#include "objects/contender.hpp"

namespace tenure::bench::objects {

std::span<const contender_kind> all_contenders() {
  static const std::array<contender_kind, 6> all{
      {{"tenure-pobj", [] { return make_pobj(reflection::field); }},
       {"tenure-pobj-once", [] { return make_pobj(reflection::once); }, true},
       {"tenure-pobj-whole", [] { return make_pobj(reflection::whole); }, true},
       {"tenure-heap", make_heap},
       {"tenure", make_recoverable},
       {"lmdb", make_lmdb}}};
  return all;
}

}  // namespace tenure::bench::objects
