// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which garbage the program has dropped itself: what no other garbage refers to. All else is garbage because of it, or lies in
// cycles.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>

#include <tenure/store/collection.hpp>

#include "objects/database_set.hpp"
#include "objects/granule_bits.hpp"

namespace tenure {

// All garbage is looked at twice, some at a time, while nobody commits.
class dropped_objects {
 public:
  explicit dropped_objects(const database_set& of);

  // First.
  void note_references(const database_state& in, std::span<const heap::address> garbage);
  // Then.
  void count(const database_state& in, std::span<const heap::address> garbage);
  void finish(collect_report& report);

 private:
  const database_set& of_;
  std::deque<heap::granule_bits> referred_to_;  // by database
  std::map<std::string, type_count> counts_;
  std::vector<const void*> some_;
};

}  // namespace tenure
