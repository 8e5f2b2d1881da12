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
  // If memory is short, add() and remove() throw, and have changed nothing.
  void add(std::uint64_t from, std::uint64_t to) {
    assert(from < to);
    const auto after = parts_.upper_bound(from);
    const bool extends = after != parts_.begin() && std::prev(after)->second >= from;
    const auto into = extends ? std::prev(after) : parts_.emplace(from, to).first;
    to = std::max(to, into->second);
    for (auto at = std::next(into); at != parts_.end() && at->first <= to; at = parts_.erase(at))
      to = std::max(to, at->second);
    into->second = to;
  }
  void remove(std::uint64_t from, std::uint64_t to) {
    assert(from <= to);
    auto at = parts_.lower_bound(to);
    if (at == parts_.begin() || from == to) return;
    if (const std::uint64_t end = std::prev(at)->second; end > to) at = parts_.emplace(to, end).first;
    while (at != parts_.begin() && std::prev(at)->second > from) {
      --at;
      if (at->first < from) {
        at->second = from;
        return;
      }
      at = parts_.erase(at);
    }
  }
  [[nodiscard]] bool contains(std::uint64_t at) const {
    const auto after = parts_.upper_bound(at);
    return after != parts_.begin() && std::prev(after)->second > at;
  }
  // Whether it has some number of [from, to).
  [[nodiscard]] bool intersects(std::uint64_t from, std::uint64_t to) const {
    return contains(from) || end_of_run(from, to) < to;
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
