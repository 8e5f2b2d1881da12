// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random graphs in a store on a disk that loses power at every operation. What is found afterwards must be exactly one
// committed graph, not older than the last one that was acknowledged as durable, and the verifier must find nothing.
#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap_models/graph_workload.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;

namespace {

void crash_everywhere(std::uint64_t seed, int steps, std::uint64_t distance,
                      graph_workload::kind what_runs = graph_workload::kind::plain) {
  distance = rvm::testing::scaled_stride(distance);
  std::uint64_t operations = 0;
  {
    sim::disk whole;
    graph_workload work(seed, what_runs);
    work.run(whole, steps, true);
    EXPECT_EQ(work.copied() > 0, what_runs == graph_workload::kind::copying);
    operations = whole.operations();
  }
  ASSERT_GT(operations, 20u);
  for (std::uint64_t at = 1 + seed % distance; at <= operations; at += distance) {
    sim::disk disk;
    disk.crash_at(at);
    graph_workload work(seed, what_runs);
    try {
      work.run(disk, steps);
    } catch (const sim::power_failure&) {
    }
    for (std::uint64_t k = 0; k < 3; ++k) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", crash at operation " + std::to_string(at) + ", " +
                   std::to_string(k));
      const auto what = k == 0 ? sim::policy::drop_all : k == 1 ? sim::policy::keep_all : sim::policy::random;
      const auto left = disk.crash(seed + k, what);
      try {
        work.expect_a_committed_state(*left);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace

TEST(store_crash, at_every_operation) { crash_everywhere(1, 40, 3); }

// [heap.inner.outermost]
TEST(store_crash, with_inner_transactions) { crash_everywhere(5, 25, 3, graph_workload::kind::with_inner); }

// [heap.copying]
TEST(store_crash, with_objects_that_are_copied) { crash_everywhere(9, 40, 7, graph_workload::kind::copying); }

// [heap.zone.headed]
TEST(headed_zones, hold_at_every_operation) { crash_everywhere(2, 40, 5); }

TEST(store_crash, with_other_seeds) {
  const auto seeds = static_cast<std::uint64_t>(3 * rvm::testing::test_scale());
  for (std::uint64_t seed = 100; seed < 100 + seeds; ++seed) crash_everywhere(seed, 60, 17);
}

TEST(store_crash, after_a_crash_work_goes_on) {
  graph_workload work(7);
  auto disk = std::make_unique<sim::disk>();
  for (std::uint64_t round = 1; round <= 12; ++round) {
    disk->crash_at(20 + 13 * round);
    try {
      work.run(*disk, 30, true);
    } catch (const sim::power_failure&) {
    }
    disk = disk->crash(round);
    work.expect_a_committed_state(*disk);
    if (HasFailure()) return;
  }
}
