// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a program waits for: its transactions while a collection goes on beside them, the stop by how much memory the program has,
// and commits that take back young objects.
#pragma once

#include <cstdint>
#include <filesystem>

#include <tenure/tenure.hpp>

#include "harness/rounds.hpp"

namespace tenure::bench::collect {

struct replaced {
  replaced *a = nullptr, *b = nullptr;
  std::uint64_t numbers[5] = {};
};

// Live objects of 56 bytes in a table. A transaction puts new ones into four places, drawn at random; what was there is garbage.
class replaced_graph {
 public:
  replaced_graph(const std::filesystem::path& directory, std::uint64_t objects, rvm::write_barriers barriers);

  enum class beside { nothing, marking, collections };
  // Of lazy transactions, in us: p50_us, p99_us, p999_us, longest_us; and tx_per_s.
  measurement replace(beside what);

 private:
  void replace_four();

  store store_;
  vector<replaced*>& all_;
  std::uint64_t draw_ = 7;
};

enum class memory_kind { own, shared };
// stop_ms of a collection that scans so much memory of the program besides: its own, which a copy of the process has, or what it
// shares with other processes, which is scanned in the stop, as all is where there can be no copy. was_copied: 1 or 0.
measurement stop_with(const std::filesystem::path& directory, std::uint64_t bytes, memory_kind kind);

// us_per_mb: of a commit that takes back a megabyte of young objects of 64 bytes, beyond one that has none.
measurement reclaim_young(const std::filesystem::path& directory);

}  // namespace tenure::bench::collect
