// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a system tells of itself, by name: "cache-faults", "stabilized-objects/atomic_part". Empty where it tells nothing.
// By type: what became persistent, stabilized-objects/TYPE and stabilized-bytes/TYPE.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace tenure::bench {

using breakdown_counts = std::map<std::string, double>;

// The two phases of a durable commit, in ms: what is logged is found and put into the log's buffer, then that is written and
// synced [Hosking §5.2].
struct commit_phases {
  double finding = 0, writing = 0;
};
// Both as functions.
template <class Find, class Write>
commit_phases measure_commit(Find&& find, Write&& write) {
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  find();
  const auto found = clock::now();
  write();
  const std::chrono::duration<double, std::milli> finding = found - start, writing = clock::now() - found;
  return {finding.count(), writing.count()};
}

}  // namespace tenure::bench
