// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A set of numbers that consists of few long intervals: for example of a region's bytes, or of a segment's pages.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace tenure::rvm {

class interval_set {
 public:
  void add(std::uint64_t from, std::uint64_t to) {
    assert(from < to);
    auto at = parts_.upper_bound(from);
    if (at != parts_.begin() && std::prev(at)->second >= from) {
      from = (--at)->first;
      to = std::max(to, at->second);
    }
    while (at != parts_.end() && at->first <= to) {
      to = std::max(to, at->second);
      at = parts_.erase(at);
    }
    parts_[from] = to;
  }
  void remove(std::uint64_t from, std::uint64_t to) {
    assert(from <= to);
    auto at = parts_.upper_bound(from);
    if (at != parts_.begin() && std::prev(at)->second > from) --at;
    while (at != parts_.end() && at->first < to) {
      const auto [begin, end] = *at;
      at = parts_.erase(at);
      if (begin < from) parts_[begin] = from;
      if (end > to) parts_[to] = end;
    }
  }
  [[nodiscard]] bool contains(std::uint64_t at) const {
    const auto after = parts_.upper_bound(at);
    return after != parts_.begin() && std::prev(after)->second > at;
  }
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  void clear() { parts_.clear(); }
  // Calls f(from, to) for each interval, in order.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [from, to] : parts_) f(from, to);
  }
  // Where the interval ends that holds `at`, or the gap that holds it; `limit` if the end is not before `limit`.
  [[nodiscard]] std::uint64_t end_of_run(std::uint64_t at, std::uint64_t limit) const {
    const auto after = parts_.upper_bound(at);
    if (contains(at)) return std::min(std::prev(after)->second, limit);
    return after != parts_.end() ? std::min(after->first, limit) : limit;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> parts_;  // ends by begins; disjoint and not adjacent
};

}  // namespace tenure::rvm
