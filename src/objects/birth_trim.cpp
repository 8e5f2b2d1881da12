// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Free blocks whose disk space is given back [heap.blocks.space].
#include <algorithm>

#include "objects/birth.hpp"

namespace tenure::heap {

std::vector<free_runs::run> birth::take_for_trim(std::uint64_t from) {
  constexpr std::size_t most_runs = 24;           // a segment's header can note 28
  constexpr std::uint64_t most_blocks = 1 << 15;  // 1 GiB
  const std::scoped_lock lock(mutex_);
  while (scan_from_ < scan_end_) scan_old_blocks();
  // What was never used is as free as the rest. The bookkeeping of its zones keeps its space.
  for (const std::uint64_t end = region_.size() / block_size; unused_from_ < end;) {
    free_.make_room(1);
    run never_used = take_never_used(1, end - unused_from_);
    give_back(never_used);
  }
  std::vector<free_runs::run> taken;
  std::uint64_t blocks = 0;
  free_.for_each([&](std::uint64_t first, std::uint64_t length) {
    // The zones of an object that lay over several are free to their ends, but the segment ends before.
    const std::uint64_t end = std::min(first + length, region_.size() / block_size);
    for (std::uint64_t at = std::max(first, from); at < end;) {
      const std::uint64_t next = trimmed_.end_of_run(at, end);
      if (!trimmed_.contains(at) && taken.size() < most_runs && blocks < most_blocks) {
        taken.push_back({at, std::min(next - at, most_blocks - blocks)});
        blocks += taken.back().blocks;
      }
      at = next;
    }
  });
  in_hand_.reserve(in_hand_.size() + taken.size());
  free_.make_room(2 * taken.size());  // each may leave two parts
  for (const auto& [first, length] : taken) {
    free_.take_at(first, length);
    in_hand_.push_back({first, length});
  }
  return taken;
}

// What memory is too short for stays in hand: it is not used before the database is opened again.
void birth::trimmed(std::span<const free_runs::run> runs, bool is_done) noexcept {
  const std::scoped_lock lock(mutex_);
  for (const auto& [first, length] : runs) {
    try {
      if (is_done) {
        spaceless_.add(first, first + length);
        trimmed_.add(first, first + length);
      }
      free_.add(first, length);
      std::erase_if(in_hand_, [first = first](const run& r) { return r.first == first; });
    } catch (const std::bad_alloc&) {
    }
  }
}

}  // namespace tenure::heap
