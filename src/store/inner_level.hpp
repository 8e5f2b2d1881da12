// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What an inner transaction puts back if it is aborted, beside what the parts of the store note themselves.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "store/saved_objects.hpp"

namespace tenure {

struct inner_level {
  std::shared_ptr<bool> is_open;  // shared with the program's transaction
  rvm::inner_transaction memory;
  saved_objects objects;
  std::string label;
  std::vector<std::size_t> retired;  // of each database: how many were, in inner transactions
  std::size_t weak_made = 0;         // cells of weak references
};

}  // namespace tenure
