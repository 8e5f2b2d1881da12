// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random workloads that lose power at every operation of the disk: what is then recovered is exactly one committed
// state, and not older than the last one that was acknowledged.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>

#include "support/drawn_limits.hpp"
#include "support/model.hpp"
#include "support/workload.hpp"

namespace tenure::rvm::testing {
namespace {

struct plan {
  layout where = small_layout();
  workload_options how = {};
  std::uint64_t random_crashes = 2;    // after each operation, besides drop_all
  std::uint64_t interrupt_every = 16;  // operations: recovery itself is interrupted everywhere
};

// Crashes after every operation, without disturbing the workload. Returns what is wrong.
std::string crash_after_every_operation(const plan& p, std::uint64_t& crashes, workload::counts& totals) {
  sim::disk disk(p.how.seed % 2 ? 4096 : 512);
  install_raw_segments(disk, p.where);
  model expected(p.where);
  std::string wrong;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (!wrong.empty()) return;
    const auto judge = [&](std::uint64_t salt, sim::policy what) {
      ++crashes;
      if (wrong.empty()) wrong = judge_crash(disk, p.where, expected, at.index * 8 + salt, what);
    };
    judge(at.index, sim::policy::drop_all);
    for (std::uint64_t i = 0; i < p.random_crashes; ++i) judge(1 + i + at.index / 8, sim::policy::random);
    if (at.index % 4 == 0) judge(5, sim::policy::keep_all);
    if (wrong.empty() && at.index % p.interrupt_every == p.how.seed % p.interrupt_every) {
      const auto left = disk.crash(at.index, at.index % 2 ? sim::policy::random : sim::policy::drop_all);
      wrong = judge_interrupted_recovery(*left, p.where, expected, at.index);
    }
  });
  try {
    workload user(disk, p.where, expected, p.how);
    user.run();
    disk.on_operation({});
    totals = user.totals();
    // Leaving with transactions open is one more crash.
    disk.power_off();
  } catch (const std::exception& e) {
    if (wrong.empty()) wrong = std::string("the workload failed: ") + e.what();
  }
  if (wrong.empty() && disk.weak_durable_writes() != 0) wrong = "a durable write was not durable";
  return wrong;
}

// Crashes in the middle of operation n, of which only some sectors were begun: durable writes tear, too.
std::string crash_inside_every_operation(const plan& p, std::uint64_t stride, std::uint64_t& crashes) {
  for (std::uint64_t n = 1 + p.how.seed % stride;; n += stride) {
    sim::disk disk;
    install_raw_segments(disk, p.where);
    model expected(p.where);
    random_source random(p.how.seed * 7919 + n);
    disk.crash_at(n, random.one_in(2) ? random.below(12) : sim::for_ever);
    try {
      workload user(disk, p.where, expected, p.how);
      user.run();
      disk.power_off();
      return "";
    } catch (const sim::power_failure&) {
    } catch (const std::exception& e) {
      if (!disk.is_off()) return "operation " + std::to_string(n) + ": the workload failed: " + e.what();
    }
    for (const auto what : {sim::policy::random, sim::policy::random, sim::policy::keep_all, sim::policy::drop_all}) {
      ++crashes;
      const auto verdict = judge_crash(disk, p.where, expected, random.next() % 100000, what);
      if (!verdict.empty()) return "inside operation " + std::to_string(n) + ": " + verdict;
    }
  }
}

class crashing : public ::testing::Test {
 protected:
  void TearDown() override {
    RecordProperty("crashes", std::to_string(crashes));
    std::cout << "  crashes: " << crashes << '\n';
  }
  void everywhere(const plan& p) {
    SCOPED_TRACE("workload seed " + std::to_string(p.how.seed));
    workload::counts one;
    const auto wrong = crash_after_every_operation(p, crashes, one);
    ASSERT_EQ(wrong, "");
    laps += static_cast<double>(one.log_bytes_written) / static_cast<double>(p.where.log.size);
    incremental += one.incremental_truncations;
    epoch += one.epoch_truncations;
    grown += one.log_grown;
    saved += one.inter_transactions_saved;
    runs += one.bulk_runs;
    inner_aborts += one.inner_aborts;
    announced += one.announced;
    deepest_inner = std::max(deepest_inner, one.deepest_inner);
  }
  std::uint64_t crashes = 0, incremental = 0, epoch = 0, grown = 0, saved = 0, runs = 0;
  std::uint64_t inner_aborts = 0, deepest_inner = 0, announced = 0;
  double laps = 0;
};

TEST_F(crashing, after_every_operation) {
  for (std::uint64_t seed = 1; seed <= scaled(18) && !HasFailure(); ++seed) {
    plan p;
    p.how.seed = seed;
    p.how.steps = 350;
    p.how.longest_range = seed % 2 == 0 ? 5000 : 15000;
    // Different truncation habits: by threshold, only when full, nearly always.
    p.where.tune.truncation_threshold = seed % 3 == 0 ? 0.5 : seed % 3 == 1 ? 2 : 0.1;
    if (seed % 3 == 2) p.how.flush_every = 20, p.how.longest_range = 300;  // many commits in a batch
    if (seed % 4 == 0) p.where.tune.spool_limit = 4000;
    if (seed % 5 == 0) p.where.log.block_size = 512;
    if (seed % 2 == 0) p.where.log.size = p.where.log.max_size = 128 << 10;
    everywhere(p);
  }
  // The workload is what it is meant to be.
  std::cout << "  laps " << laps << ", truncations: " << incremental << " incremental, " << epoch
            << " epoch; commits never logged: " << saved << '\n';
  if (test_scale() >= 1) {
    EXPECT_GT(laps, 15);
    EXPECT_GT(incremental, 100U);
    EXPECT_GT(epoch, 5U);
    EXPECT_GT(saved, 0U);
    EXPECT_GT(inner_aborts, 100U);
    EXPECT_GT(deepest_inner, 2U);
    EXPECT_GT(announced, 100U);
  }
}

TEST_F(crashing, with_automatic_tracking) {
  for (std::uint64_t seed = 500; seed < 500 + scaled(12) && !HasFailure(); ++seed) {
    plan p;
    p.how.seed = seed;
    p.how.steps = 250;
    p.how.automatic = true;
    p.how.longest_range = seed % 2 == 0 ? 5000 : 15000;
    p.where.tune.truncation_threshold = seed % 3 == 0 ? 0.5 : seed % 3 == 1 ? 2 : 0.1;
    if (seed % 3 == 2) p.how.flush_every = 20, p.how.longest_range = 300;
    if (seed % 4 == 0) p.where.log.size = p.where.log.max_size = 128 << 10;
    everywhere(p);
    plan inside = p;
    inside.how.steps = 60;
    ASSERT_EQ(crash_inside_every_operation(inside, 3, crashes), "");
  }
}

TEST_F(crashing, inside_every_operation) {
  for (std::uint64_t seed = 100; seed < 100 + scaled(6) && !HasFailure(); ++seed) {
    SCOPED_TRACE("workload seed " + std::to_string(seed));
    plan p;
    p.how.seed = seed;
    p.how.steps = 70;
    p.where.tune.truncation_threshold = seed % 2 == 0 ? 0.3 : 2;
    ASSERT_EQ(crash_inside_every_operation(p, 1, crashes), "");
  }
}

TEST_F(crashing, with_large_ranges_in_a_small_log) {
  for (std::uint64_t seed = 200; seed < 200 + scaled(6) && !HasFailure(); ++seed) {
    plan p;
    p.how.seed = seed;
    p.how.steps = 100;
    p.how.longest_range = 12000;
    p.where.log.size = 64 << 10;
    p.where.log.max_size = 1 << 20;
    everywhere(p);
  }
}

// A log that starts small and must grow for large transactions.
TEST_F(crashing, while_the_log_grows) {
  for (std::uint64_t seed = 300; seed < 300 + scaled(4) && !HasFailure(); ++seed) {
    plan p;
    p.how.seed = seed;
    p.how.steps = 120;
    p.how.longest_range = 250000;
    p.where.segments[0].length = p.where.segments[1].length = 256 << 10;
    p.where.log.max_size = 4 << 20;
    p.random_crashes = 1;
    p.interrupt_every = 64;
    everywhere(p);
  }
  EXPECT_GT(grown, 0U);
}

// Transactions of several groups (a group has at most 1 MiB), that must count whole or not at all.
TEST_F(crashing, with_transactions_of_several_groups) {
  for (std::uint64_t seed = 400; seed < 400 + scaled(2) && !HasFailure(); ++seed) {
    SCOPED_TRACE("workload seed " + std::to_string(seed));
    plan p;
    p.how.seed = seed;
    p.how.steps = 40;
    p.how.longest_range = 2500000;
    p.where.segments[0].length = p.where.segments[1].length = 3 << 20;
    p.where.log.size = p.where.log.max_size = 9 << 20;
    p.random_crashes = 1;
    p.interrupt_every = 1 << 30;
    const std::uint64_t before = crashes;
    ASSERT_EQ(crash_inside_every_operation(p, 3, crashes), "");
    EXPECT_GT(crashes, before);
  }
}

// Pages that are written straight to the segments, which grow meanwhile; used, freed and used again, and changed by
// ordinary ranges too.
TEST_F(crashing, with_bulk_writes_and_growth) {
  for (std::uint64_t seed = 500; seed < 500 + scaled(12) && !HasFailure(); ++seed) {
    plan p;
    p.where = bulk_layout();
    p.how.seed = seed;
    p.how.steps = 350;
    p.how.longest_range = 3000;
    p.where.tune.truncation_threshold = seed % 3 == 0 ? 0.5 : seed % 3 == 1 ? 2 : 0.1;
    if (seed % 3 == 2) p.how.flush_every = 10;
    if (seed % 4 == 0) p.where.log.size = p.where.log.max_size = 256 << 10;
    everywhere(p);
  }
  std::cout << "  extents " << runs << '\n';
  EXPECT_GT(runs, test_scale() >= 1 ? 50U : 0U);
}

TEST_F(crashing, inside_bulk_writes_and_growth) {
  for (std::uint64_t seed = 600; seed < 600 + scaled(4) && !HasFailure(); ++seed) {
    SCOPED_TRACE("workload seed " + std::to_string(seed));
    plan p;
    p.where = bulk_layout();
    p.how.seed = seed;
    p.how.steps = 120;
    p.where.tune.truncation_threshold = seed % 2 == 0 ? 0.3 : 2;
    ASSERT_EQ(crash_inside_every_operation(p, 1, crashes), "");
  }
}

// A segment that is not mapped: its pages are read after each step.
TEST_F(crashing, with_a_segment_that_is_open_for_pages) {
  for (std::uint64_t seed = 800; seed < 800 + scaled(6) && !HasFailure(); ++seed) {
    random_source random(seed);
    plan p;
    p.where = seed % 2 == 0 ? paged_layout() : drawn_layout(paged_layout(), random);
    p.how.seed = seed;
    p.how.steps = 250;
    p.how.paged = true;
    p.how.longest_range = 3000;
    p.how.flush_every = 1 + random.below(20);
    p.where.log.size = p.where.log.max_size = seed % 3 == 0 ? 64 << 10 : 256 << 10;
    everywhere(p);
    p.how.steps = 60;
    ASSERT_EQ(crash_inside_every_operation(p, 3, crashes), "") << "workload seed " << seed;
  }
  EXPECT_GT(incremental, test_scale() >= 1 ? 40U : 0U);
}

// Anything with anything.
TEST_F(crashing, with_drawn_limits) {
  for (std::uint64_t seed = 700; seed < 700 + scaled(20) && !HasFailure(); ++seed) {
    random_source random(seed);
    plan p;
    const bool bulk = random.one_in(2);
    p.where = drawn_layout(bulk ? bulk_layout() : small_layout(), random);
    p.how.automatic = !bulk && random.one_in(2);
    p.how.seed = seed;
    p.how.steps = 150;
    constexpr std::uint64_t ranges[] = {300, 3000, 15000};
    p.how.longest_range = ranges[random.below(3)];
    p.how.flush_every = 1 + random.below(20);
    const std::uint64_t log = (bulk ? 256 : 64) << (10 + random.below(2));
    p.where.log.size = log;
    p.where.log.max_size = random.one_in(3) ? 4 * log : log;
    p.random_crashes = 1;
    p.interrupt_every = 64;
    everywhere(p);
    p.how.steps = 40;
    ASSERT_EQ(crash_inside_every_operation(p, 5, crashes), "") << "workload seed " << seed;
  }
}

}  // namespace
}  // namespace tenure::rvm::testing
