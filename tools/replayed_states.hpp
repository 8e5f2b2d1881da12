// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The states of a store behind each transaction that its history knows, one after the other, in memory: what is asked of an
// opened store is then answered of such a state.
//
// What a byte was before the history begins is only known if the history never changes it. So at the begin it is what the first change made
// it: references, sizes and start bits are there, as they were soon after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "history.hpp"
#include "segments/page_bytes.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

class replayed_states {
 public:
  // Called before a change of the memory to `value`, by the transaction that leads to this state, and behind it.
  struct change_seen {
    std::function<void(std::size_t state, heap::address from, os::const_bytes value)> before = {};
    std::function<void(std::size_t state, heap::address from, std::size_t length)> behind = {};
  };
  // Called when the memory is in a state, with the transaction that led there; returns whether to go on.
  using state_seen = std::function<bool(std::size_t state, const rvm::transaction_view& by, rvm::lsn at)>;

  // Goes through the history once. The store is then as at the begin, and never again as it is.
  replayed_states(const surveyed_store& of, history& past);

  // State 0 is the begin, the last one is now.
  [[nodiscard]] std::size_t last() const { return transactions_; }
  [[nodiscard]] std::int64_t first_time() const { return first_time_; }  // of the first transaction; 0: there is none
  void go_to_begin();
  // States before which something of the history is missing.
  [[nodiscard]] const std::vector<std::size_t>& behind_gaps() const { return behind_gaps_; }
  // From the begin through all states. Functions may be empty.
  void go_on(const change_seen& changed, const state_seen& seen);

 private:
  // Calls apply(memory, value) for each change of a database, in order, and end(transaction, LSN) behind each transaction, until
  // it returns false.
  template <class Apply, class End>
  void walk(Apply&& apply, End&& end);

  history& past_;
  struct database {
    named_segment segment;
    std::span<std::byte> memory;
  };
  std::vector<database> databases_;
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> begin_;  // pages that the history changes
  std::vector<std::size_t> behind_gaps_;
  std::size_t transactions_ = 0;
  std::int64_t first_time_ = 0;
};

}  // namespace tenure::tools
