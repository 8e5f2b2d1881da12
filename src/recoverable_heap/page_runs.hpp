// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The free pages of a recoverable heap, as runs. Takes the run that fits best, at the lowest address; adjacent runs are
// merged at once.
#pragma once

#include <cassert>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <utility>

#include "log/invariant.hpp"

namespace tenure::rvm {

class page_runs {
 public:
  explicit page_runs(std::pmr::memory_resource* nodes) : by_start_(nodes), by_length_(nodes) {}

  // Takes out `count` pages and returns the first; nothing if there is no such run.
  std::optional<std::uint32_t> take(std::uint32_t count) {
    assert(count != 0);
    const auto fit = by_length_.lower_bound({count, 0});
    if (fit == by_length_.end()) return {};
    const auto [length, start] = *fit;
    by_length_.erase(fit);
    by_start_.erase(start);
    if (length > count) insert(start + count, length - count);
    total_ -= count;
    return start;
  }
  void give(std::uint32_t start, std::uint32_t count) {
    assert(count != 0);
    total_ += count;
    auto next = by_start_.lower_bound(start);
    assert(next == by_start_.end() || next->first >= start + count);
    if (next != by_start_.end() && next->first == start + count) {
      count += next->second;
      next = remove(next);
    }
    if (next != by_start_.begin()) {
      const auto before = std::prev(next);
      assert(before->first + before->second <= start);
      if (before->first + before->second == start) {
        start = before->first;
        count += before->second;
        remove(before);
      }
    }
    insert(start, count);
  }

  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint32_t longest() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }
  // Start and length of each run. No two runs are adjacent.
  [[nodiscard]] const std::pmr::map<std::uint32_t, std::uint32_t>& runs() const { return by_start_; }
  // Throws if an invariant does not hold.
  void check() const {
    std::uint64_t end = 0, total = 0;
    bool is_first = true;
    for (const auto& [start, count] : by_start_) {
      require_invariant(count != 0 && (is_first || start > end), "runs of free pages are disjoint, and not adjacent");
      require_invariant(by_length_.contains({count, start}), "a run of free pages is found by its length");
      end = std::uint64_t{start} + count;
      total += count;
      is_first = false;
    }
    require_invariant(by_length_.size() == by_start_.size(), "what is found by its length is a run of free pages");
    require_invariant(total == total_, "free pages are counted");
  }

 private:
  using iterator = std::pmr::map<std::uint32_t, std::uint32_t>::iterator;
  void insert(std::uint32_t start, std::uint32_t count) {
    by_start_.emplace(start, count);
    by_length_.emplace(count, start);
  }
  iterator remove(iterator run) {
    by_length_.erase({run->second, run->first});
    return by_start_.erase(run);
  }

  std::pmr::map<std::uint32_t, std::uint32_t> by_start_;
  std::pmr::set<std::pair<std::uint32_t, std::uint32_t>> by_length_;
  std::uint64_t total_ = 0;
};

}  // namespace tenure::rvm
