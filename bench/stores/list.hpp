// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The items of the loop, in a store.
#pragma once

#include <tenure/vector.hpp>

#include "stores/loop.hpp"

namespace tenure::bench::stores {

struct list {
  tenure::vector<item*> all;
};

}  // namespace tenure::bench::stores
