// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions that have been prepared, whose outcome somebody else decides [RVM §8]. See transaction::prepare.
#pragma once

#include <cstdint>
#include <string>

namespace tenure::rvm {

struct prepared_transaction {
  std::string global_id;  // as the coordinator knows it
  std::string label;
  std::int64_t time = 0;                // ns since 1970, for people
  std::uint64_t ranges = 0, bytes = 0;  // that it would change
};

enum class outcome { committed, aborted };

}  // namespace tenure::rvm
