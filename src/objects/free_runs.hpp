// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs of free blocks. No run crosses the end of a zone, and two adjacent runs of a zone are always merged.
//
// Not thread-safe. The caller holds the lock of births. What is taken leaves its memory for the runs that are added, so that
// giving back fails for want of memory only before anything has changed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include "log/invariant.hpp"
#include "objects/format.hpp"

namespace tenure::heap {

class free_runs {
 public:
  struct run {
    std::uint64_t first = 0, blocks = 0;  // 0 blocks: none
  };

  // Of a database with so many blocks: its last zone may be shorter than others.
  explicit free_runs(std::uint64_t blocks) : blocks_(blocks) {}

  // The next `runs` calls of add() do not fail.
  void make_room(std::size_t runs) {
    while (spare_places_.size() < runs) spare_places_.emplace(spare_places_.size(), 0);
    while (spare_lengths_.size() < runs) spare_lengths_.insert(spare_lengths_.size());
  }

  // The blocks belong to one zone. Blocks that are free already are skipped: if one commit removes the last persistent
  // and the last transient objects of a block, the block is given back for both.
  void add(std::uint64_t first, std::uint64_t blocks) {
    assert(blocks != 0 && first / blocks_in_zone == (first + blocks - 1) / blocks_in_zone);
    make_room(1);
    auto after = by_place_.upper_bound(first);
    if (after != by_place_.begin()) {
      const auto before = std::prev(after);
      const std::uint64_t end = before->first + before->second;
      if (end > first) {
        assert(end >= first + blocks);
        return;
      }
      if (end == first && before->first / blocks_in_zone == first / blocks_in_zone) {
        first = before->first;
        blocks += before->second;
        remove(before);
      }
    }
    if (after != by_place_.end() && first + blocks == after->first &&
        after->first / blocks_in_zone == first / blocks_in_zone) {
      blocks += after->second;
      remove(after);
    }
    insert(first, blocks);
  }

  // Takes a run of at least `least` blocks, or the first `most` of a longer one. Prefers the front, to keep the end of
  // the database free, except that a few runs that are hardly longer than `least` are tried first. O(log n): when all
  // runs were searched, 20 000 runs that were too short doubled the cost of an insertion.
  [[nodiscard]] run take(std::uint64_t least, std::uint64_t most) {
    auto at = by_place_.end();
    const auto consider = [&](std::uint64_t first) {
      if (at == by_place_.end() || first < at->first) at = by_place_.find(first);
    };
    const std::size_t own = class_of(least);
    int looked_at = 0;
    for (const std::uint64_t first : by_size_[own]) {
      if (by_place_.at(first) >= least) {
        consider(first);
        break;
      }
      if (++looked_at == 16) break;
    }
    for (std::size_t larger = own + 1; larger < classes; ++larger)
      if (!by_size_[larger].empty()) consider(*by_size_[larger].begin());
    if (at == by_place_.end()) return {};
    const auto [first, blocks] = *at;
    const std::uint64_t taken = std::min(blocks, most);
    remove(at);
    if (blocks > taken) add(first + taken, blocks - taken);
    return {first, taken};
  }

  // Takes blocks of one run.
  void take_at(std::uint64_t first, std::uint64_t blocks) {
    const auto at = std::prev(by_place_.upper_bound(first));
    const auto [begin, length] = *at;
    assert(blocks != 0 && begin <= first && first + blocks <= begin + length);
    make_room(1);
    remove(at);
    if (begin < first) add(begin, first - begin);
    if (first + blocks < begin + length) add(first + blocks, begin + length - first - blocks);
  }

  [[nodiscard]] bool has_whole_zone(std::uint64_t zone) const {
    const auto at = by_place_.find(zone * blocks_in_zone + bookkeeping_blocks);
    return at != by_place_.end() && at->first + at->second == std::min((zone + 1) * blocks_in_zone, blocks_);
  }
  void take_zone(std::uint64_t zone) {
    const auto at = by_place_.find(zone * blocks_in_zone + bookkeeping_blocks);
    assert(has_whole_zone(zone));
    remove(at);
  }
  // Calls f(zone) for each zone that is wholly free, in ascending order, until f returns true.
  template <class F>
  void find_whole_zone(F&& f) const {
    for (const std::uint64_t first : by_size_[class_of(blocks_in_zone - bookkeeping_blocks)])
      if (has_whole_zone(first / blocks_in_zone) && f(first / blocks_in_zone)) return;
  }
  // Calls f(first, blocks) for each run, in ascending order.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [first, blocks] : by_place_) f(first, blocks);
  }
  // Throws if an invariant does not hold.
  void check() const {
    using rvm::require_invariant;
    std::uint64_t end = 0;  // of the run before
    for (const auto& [first, blocks] : by_place_) {
      const std::uint64_t zone = first / blocks_in_zone;
      require_invariant(
          blocks != 0 && first % blocks_in_zone >= bookkeeping_blocks && (first + blocks - 1) / blocks_in_zone == zone,
          "a run of free blocks lies among the blocks of one zone");
      require_invariant(first >= end, "runs of free blocks are disjoint");
      require_invariant(first != end || end % blocks_in_zone == 0, "adjacent runs of free blocks are merged");
      require_invariant(by_size_[class_of(blocks)].contains(first), "a run of free blocks is found by its length");
      end = first + blocks;
    }
    std::size_t found = 0;
    for (const auto& runs : by_size_) found += runs.size();
    require_invariant(found == by_place_.size(), "what is found by its length is a run of free blocks");
  }

 private:
  // Runs of 2^n to 2^(n + 1) - 1 blocks.
  static constexpr std::size_t classes = std::bit_width(blocks_in_zone);
  static std::size_t class_of(std::uint64_t blocks) { return static_cast<std::size_t>(std::bit_width(blocks | 1)) - 1; }

  using place = std::map<std::uint64_t, std::uint64_t>::iterator;
  void insert(std::uint64_t first, std::uint64_t blocks) noexcept {
    auto where = spare_places_.extract(std::prev(spare_places_.end()));
    where.key() = first;
    where.mapped() = blocks;
    by_place_.insert(std::move(where));
    auto length = spare_lengths_.extract(std::prev(spare_lengths_.end()));
    length.value() = first;
    by_size_[class_of(blocks)].insert(std::move(length));
  }
  void remove(place at) noexcept {
    auto length = by_size_[class_of(at->second)].extract(at->first);
    auto where = by_place_.extract(at);
    if (spare_places_.size() >= most_spare) return;
    length.value() = where.key() = spare_places_.size();
    spare_lengths_.insert(std::move(length));
    spare_places_.insert(std::move(where));
  }

  static constexpr std::size_t most_spare = 16;
  const std::uint64_t blocks_;
  std::map<std::uint64_t, std::uint64_t> by_place_;       // first block, blocks
  std::array<std::set<std::uint64_t>, classes> by_size_;  // first blocks
  // Memory for runs: entries that count from 0 on.
  std::map<std::uint64_t, std::uint64_t> spare_places_;
  std::set<std::uint64_t> spare_lengths_;
};

}  // namespace tenure::heap
