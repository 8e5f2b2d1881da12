// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a store counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tenure/rvm/statistics.hpp>

namespace tenure {

// The objects of one type that a commit made persistent [PM3 §7.4, figures 7 and 8].
struct type_count {
  std::string type;
  std::uint64_t objects = 0, bytes = 0;  // bytes include headers
};

// Counters since the store was opened. Bytes include headers.
struct store_statistics {
  std::uint64_t write_transactions = 0, read_transactions = 0, commits = 0, aborts = 0;
  std::uint64_t objects_made = 0, bytes_made = 0;              // by make() and containers
  std::uint64_t objects_stabilized = 0, bytes_stabilized = 0;  // became persistent
  std::uint64_t objects_destroyed = 0;                         // persistent ones
  std::uint64_t bulk_bytes = 0;                                // written to databases without the log
  std::uint64_t conservative_objects = 0;                      // stabilized, with unknown layout
  std::vector<type_count> last_commit;                         // of the last commit that stabilized something
  std::vector<type_count> total;                               // since the store was opened
  rvm::statistics memory;
};

}  // namespace tenure
