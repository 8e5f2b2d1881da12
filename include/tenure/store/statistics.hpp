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
  // Collections that were made, but for dry runs, and what they took, persistent or not; those that could not be.
  std::uint64_t collections = 0, collected_objects = 0, collected_bytes = 0, collections_put_off = 0;
  std::uint64_t used_after_collection = 0;  // objects in quarantine of which collections told that they were used
  double longest_stop = 0;                  // seconds that a collection stopped all threads for, at most
  std::uint64_t young_collections = 0, young_objects = 0, young_bytes = 0;  // transient objects that commits took back
  // With stabilization::copying: copied before they became persistent, without headers; and made persistent where they were.
  std::uint64_t objects_copied = 0, bytes_copied = 0, objects_pinned = 0;
  std::uint64_t bulk_bytes = 0;            // written to databases without the log
  std::uint64_t conservative_objects = 0;  // stabilized, with unknown layout
  std::vector<type_count> last_commit;     // of the last commit that stabilized something
  std::vector<type_count> total;           // since the store was opened
  rvm::statistics memory;
};

}  // namespace tenure
