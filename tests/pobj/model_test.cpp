// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A random program and its model, over many executions that end in different ways; then the same with the power failing at
// every operation of the disk.
#include "support/model.hpp"
#include "pobj/scenario.hpp"
#include "pobj/world.hpp"

namespace tenure::pobj {
namespace {

class pobj_model : public pobj_test {
 protected:
  pobj_model() { test_hooks::bulk_bytes = 8192; }
  ~pobj_model() override {
    test_hooks::bulk_bytes = std::uint64_t{4} << 20;
    defined_types::all().by_name.clear();
  }
};

// Small, so that the store grows and the log goes around.
pobj_options options() {
  pobj_options o = small_options();
  o.initial_size = 64 << 10;
  o.log_size = 64 << 10;
  return o;
}

TEST_F(pobj_model, many_executions) {
  const auto seeds = static_cast<std::uint64_t>(6 * rvm::testing::test_scale());
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    use(std::make_unique<sim::disk>());
    world w(seed);
    std::mt19937_64 random(seed);
    for (int execution = 0; execution < 12 && !HasFailure(); ++execution) {
      const pobj_options o = options();
      world::begin_process();
      ASSERT_OK(pobj_init_with(&o));
      w.expect_found();
      if (HasFailure()) break;
      EXPECT_TRUE(w.run(25, true)) << pobj_error();
      if (random() % 2 == 0) {
        EXPECT_OK(pobj_close());
      } else {
        use(disk->crash(random(), sim::policy::random));
      }
    }
  }
}

// Two executions; the second goes on with what the first has left.
void work(world& w, int steps) {
  for (int execution = 0; execution < 2; ++execution) {
    const pobj_options o = options();
    world::begin_process();
    if (pobj_init_with(&o) != POBJ_OK) return;
    w.expect_found();
    if (testing::Test::HasFailure() || !w.run(steps, false)) return;
    if (pobj_close() != POBJ_OK) return;
  }
}

TEST_F(pobj_model, crashes_at_every_operation) {
  const auto seeds = static_cast<std::uint64_t>(2 * rvm::testing::test_scale());
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 100; seed < 100 + seeds; ++seed) {
    std::uint64_t operations = 0;
    {
      use(std::make_unique<sim::disk>());
      world w(seed);
      work(w, 12);
      operations = disk->operations();
    }
    ASSERT_FALSE(HasFailure());
    ASSERT_GT(operations, 40u);
    for (std::uint64_t at = 1; at <= operations; ++at) {
      use(std::make_unique<sim::disk>());
      disk->crash_at(at, at % 3 == 0 ? at % 7 : sim::for_ever);
      world w(seed);
      work(w, 12);
      const std::shared_ptr<sim::disk> broken = std::move(disk);
      for (std::uint64_t k = 0; k < 3; ++k) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", crash at operation " + std::to_string(at) + ", " +
                     std::to_string(k));
        ++crashes;
        use(broken->crash(at + k, k == 0   ? sim::policy::drop_all
                                  : k == 1 ? sim::policy::keep_all
                                           : sim::policy::random));
        world after = w;
        const pobj_options o = options();
        world::begin_process();
        ASSERT_OK(pobj_init_with(&o));
        after.expect_found();
        if (HasFailure()) return;
        if (at % 4 == k) {
          EXPECT_TRUE(after.run(3, true)) << pobj_error();
        }
      }
    }
  }
  std::printf("    crashes: %lu\n", static_cast<unsigned long>(crashes));
}

// Calls that fail, one after the other: the program ends there, and nothing that was acknowledged is lost.
TEST_F(pobj_model, failures_of_every_operation) {
  std::uint64_t operations = 0;
  {
    use(std::make_unique<sim::disk>());
    world w(200);
    work(w, 12);
    operations = disk->operations() + disk->reads();
  }
  ASSERT_FALSE(HasFailure());
  for (std::uint64_t nth = 1; nth <= operations; ++nth) {
    SCOPED_TRACE("failure " + std::to_string(nth));
    use(std::make_unique<sim::disk>());
    disk->inject({.nth = nth});
    world w(200);
    work(w, 12);
    if (HasFailure()) return;
    use(disk->crash(nth, nth % 2 == 0 ? sim::policy::drop_all : sim::policy::random));
    const pobj_options o = options();
    world::begin_process();
    ASSERT_OK(pobj_init_with(&o));
    w.expect_found();
    if (HasFailure()) return;
    EXPECT_TRUE(w.run(2, true)) << pobj_error();
  }
}

}  // namespace
}  // namespace tenure::pobj
