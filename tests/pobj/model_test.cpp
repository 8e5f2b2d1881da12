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
  ~pobj_model() override {
    granted = SIZE_MAX;
    test_hooks::crash();  // before the memory goes that a garbage collector would have
    configuration::reset_hooks();
    defined_types::all().by_name.clear();
    named_statics().clear();
  }
};

// The first seed has the usual configuration.
configuration configuration_of(std::uint64_t seed) {
  return seed % 100 == 1 ? configuration::usual() : configuration::drawn(seed);
}

TEST_F(pobj_model, many_executions) {
  const auto seeds = static_cast<std::uint64_t>(24 * rvm::testing::test_scale());
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    use(std::make_unique<sim::disk>());
    const configuration how = configuration_of(seed);
    how.set_hooks();
    world w(seed, how);
    std::mt19937_64 random(seed);
    for (int execution = 0; execution < 8 && !HasFailure(); ++execution) {
      w.begin_process();
      ASSERT_OK(pobj_init_with(&how.options));
      w.expect_found();
      if (HasFailure()) break;
      EXPECT_TRUE(w.run(25, true)) << pobj_error();
      if (random() % 2 == 0) {
        EXPECT_OK(pobj_close());
        w.closed();
      } else {
        use(disk->crash(random(), sim::policy::random));
      }
    }
  }
}

// Two executions; the second goes on with what the first has left.
void work(world& w, const configuration& how, int steps) {
  for (int execution = 0; execution < 2; ++execution) {
    w.begin_process();
    if (pobj_init_with(&how.options) != POBJ_OK) return;
    w.expect_found();
    if (::testing::Test::HasFailure() || !w.run(steps, false)) return;
    if (pobj_close() != POBJ_OK) return;
  }
}

// What is no part of a transaction, or is refused, is not for crashes: what is found may then be before or after it.
configuration for_crashes(std::uint64_t seed) {
  configuration how = configuration_of(seed);
  how.misuses = false;
  how.refusals = 0;
  how.options.max_size = 256 << 20;
  how.options.flags = 0;
  how.set_hooks();
  return how;
}

TEST_F(pobj_model, crashes_at_every_operation) {
  const auto seeds = static_cast<std::uint64_t>(4 * rvm::testing::test_scale());
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 101; seed < 101 + std::max<std::uint64_t>(seeds, 1); ++seed) {
    const configuration how = for_crashes(seed);
    std::uint64_t operations = 0;
    {
      use(std::make_unique<sim::disk>());
      world w(seed, how);
      work(w, how, 12);
      operations = disk->operations();
    }
    ASSERT_FALSE(HasFailure());
    ASSERT_GT(operations, 40u);
    for (std::uint64_t at = 1; at <= operations; ++at) {
      use(std::make_unique<sim::disk>());
      disk->crash_at(at, at % 3 == 0 ? at % 7 : sim::for_ever);
      world w(seed, how);
      work(w, how, 12);
      const std::shared_ptr<sim::disk> broken = std::move(disk);
      for (std::uint64_t k = 0; k < 3; ++k) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", crash at operation " + std::to_string(at) + ", " +
                     std::to_string(k));
        ++crashes;
        use(broken->crash(at + k, k == 0   ? sim::policy::drop_all
                                  : k == 1 ? sim::policy::keep_all
                                           : sim::policy::random));
        world after = w;
        after.begin_process();
        ASSERT_OK(pobj_init_with(&how.options));
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
  const configuration how = for_crashes(201);
  std::uint64_t operations = 0;
  {
    use(std::make_unique<sim::disk>());
    world w(200, how);
    work(w, how, 12);
    operations = disk->operations() + disk->reads();
  }
  ASSERT_FALSE(HasFailure());
  for (std::uint64_t nth = 1; nth <= operations; ++nth) {
    SCOPED_TRACE("failure " + std::to_string(nth));
    use(std::make_unique<sim::disk>());
    disk->inject({.nth = nth});
    world w(200, how);
    work(w, how, 12);
    if (HasFailure()) return;
    use(disk->crash(nth, nth % 2 == 0 ? sim::policy::drop_all : sim::policy::random));
    w.begin_process();
    ASSERT_OK(pobj_init_with(&how.options));
    w.expect_found();
    if (HasFailure()) return;
    EXPECT_TRUE(w.run(2, true)) << pobj_error();
  }
}

}  // namespace
}  // namespace tenure::pobj
