// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which transactions have dropped what is garbage now, and how it was reached last, as far as the history of the store knows
// [heap.garbage.past].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tenure/store/statistics.hpp>

#include "history.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

struct known_transaction {
  std::size_t number = 0;  // in the history, from 1 on
  rvm::lsn at = 0;
  std::uint64_t id = 0;
  std::int64_t time = 0;  // ns since 1970
  std::string label;
};

// Objects that became garbage together.
struct dropped_together {
  std::uint64_t objects = 0, bytes = 0;
  std::vector<type_count> types = {};  // most bytes first
  // The transaction that has dropped them. Nothing: it was before the history begins, or what it has overwritten is not known.
  std::optional<known_transaction> by = {};
  // If this was not looked for to the end: a transaction before that one, behind which something led to them; its number is 0 for the
  // begin of the history.
  std::optional<known_transaction> not_before = {};
  std::string last_path = {};  // to one of them, before they were dropped; empty: not known, or nothing ever led there
};

struct garbage_past {
  std::vector<dropped_together> dropped;  // most bytes first
  std::int64_t begin_time = 0;            // of the first transaction that is known; 0: there is none
};

// Of these objects of the store, all garbage. Looks for `most` of the transactions that have dropped the most bytes; of others it
// may only say between which ones they were. The store is then not as it is any more. Goes through the history log2 of its
// transactions times, and each time, for each of those sought, through what roots led to then. Needs memory for the pages that the history
// has changed.
[[nodiscard]] garbage_past find_past(const surveyed_store& store, history& past,
                                     const std::vector<heap::address>& garbage, std::size_t most);

}  // namespace tenure::tools
