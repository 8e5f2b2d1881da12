// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "support/drawn_limits.hpp"

#include <initializer_list>

#include "os/virtual_memory.hpp"

namespace tenure::rvm::testing {

thresholds drawn_limits(random_source& random) {
  thresholds drawn;
  const auto draw = [&]<class T>(T& what, std::initializer_list<std::uint64_t> others) {
    if (random.one_in(2)) what = static_cast<T>(others.begin()[random.below(others.size())]);
  };
  const std::uint64_t page = os::page_size(), kib = 1024;
  draw(drawn.largest_batch, {4 * kib, 20 * kib, 100 * kib});
  draw(drawn.group, {32 * kib, 64 * kib, 256 * kib});
  draw(drawn.buffers_kept, {0, 1024 * kib});
  if (random.one_in(2)) drawn.archive_frame = drawn.group + random.below(8) * 16 * kib;
  if (drawn.archive_frame > max_stretch) drawn.archive_frame = max_stretch;
  drawn.least_recovery_memory = 64 * kib;
  draw(drawn.fewest_pages, {1, 2, 5});
  draw(drawn.dropped_at_once, {1, 2, 5});
  draw(drawn.backing_unit, {page, 2 * page, 8 * page});
  draw(drawn.read_ahead_step, {page, 4 * page});
  draw(drawn.most_before_images, {1, 4, 30});
  draw(drawn.hot_within, {1, 4, 1000});
  draw(drawn.hot_patience, {1, 3, 200});
  draw(drawn.whole_patience, {1, 3});
  draw(drawn.first_look, {1, 2, 20});
  draw(drawn.trap_cost, {100, 1'000'000});
  draw(drawn.longest_run, {2, 8});
  draw(drawn.most_kept_pages, {1, 4});
  return drawn;
}

layout drawn_layout(layout from, random_source& random) {
  from.limits = drawn_limits(random);
  constexpr std::uint64_t memories[] = {64 << 10, 256 << 10, 1 << 20, 8 << 20};
  from.recovery_memory = memories[random.below(4)];
  from.archived = random.one_in(4);
  constexpr double habits[] = {0.1, 0.3, 0.5, 2};
  from.tune.truncation_threshold = habits[random.below(4)];
  if (random.one_in(3)) from.tune.spool_limit = 4000;
  if (random.one_in(3)) from.log.block_size = 512;
  return from;
}

}  // namespace tenure::rvm::testing
