// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The OO1 program over plain objects, and over the heap where there is one, gives the answers of the plan.
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "oo1/objects.hpp"
#include "support/temp_dir.hpp"
#include "worlds/plain_world.hpp"
#if __has_include(<tenure/tenure.hpp>)
#include "worlds/cached_world.hpp"
#include "worlds/heap_world.hpp"
#endif

namespace {

using namespace tenure::bench;
using namespace tenure::bench::oo1;

constexpr int parts = 2000;

template <class Contender>
class oo1_test : public ::testing::Test {
 protected:
  oo1_test() {
    tested_.create();
    tested_.begin();
  }
  ~oo1_test() override {
    tested_.remove(1, parts);
    tested_.commit();
  }
  const tenure::support::temp_dir directory_;
  Contender tested_{directory_.path(), parts};
};

using contenders = testing::Types<object_contender<plain_world>, object_contender<plain_world, creation_order::shuffled>
#if __has_include(<tenure/tenure.hpp>)
                                  ,
                                  object_contender<heap_world>, object_contender<cached_world>
#endif
                                  >;
TYPED_TEST_SUITE(oo1_test, contenders);

TYPED_TEST(oo1_test, answers_are_the_plans) {
  const planned_reverse reverse{parts};
  const std::vector<int> some{1, 17, 999, 2000};
  EXPECT_EQ(this->tested_.look_up(some), planned_lookup(some, parts));
  for (const int id : some) {
    const answer right = planned_traversal(id, parts, 0);
    EXPECT_EQ(right.visited, traversal_visits);
    EXPECT_EQ(this->tested_.traverse(id, 0), right);
    EXPECT_EQ(this->tested_.traverse_reverse(id), reverse.traversal(id));
  }
}

TYPED_TEST(oo1_test, updates_are_seen_in_the_sum) {
  const answer before = this->tested_.sum();
  std::uint64_t updated = 0;
  for (const int percent : {0, 5, 50, 100}) {
    const answer found = this->tested_.traverse(7, percent);
    EXPECT_EQ(found, planned_traversal(7, parts, percent)) << percent;
    updated += found.updated;
    if (percent == 100) {
      EXPECT_EQ(found.updated, traversal_visits);
    }
  }
  EXPECT_GT(updated, traversal_visits * 4 / 3);
  EXPECT_EQ(this->tested_.sum().checksum, before.checksum + 2 * updated);
}

TYPED_TEST(oo1_test, what_is_inserted_can_be_removed) {
  const answer before = this->tested_.sum(), backwards = this->tested_.traverse_reverse(parts - 5);
  for (int round = 0; round < 3; ++round) {
    this->tested_.insert(parts + 1, 100);
    EXPECT_EQ(this->tested_.traverse(parts + 1, 0).visited, traversal_visits);
    EXPECT_NE(this->tested_.traverse_reverse(parts - 5), backwards) << "new parts lead to old ones";
    this->tested_.remove(parts + 1, 100);
    EXPECT_EQ(this->tested_.traverse_reverse(parts - 5), backwards);
  }
  EXPECT_EQ(this->tested_.sum(), before);
}

TEST(oo1_plan, connections_are_local) {
  int near = 0;
  for (int id = 1; id <= parts; ++id)
    for (const auto& out : plan_part(id, parts).out) {
      ASSERT_GE(out.to, 1);
      ASSERT_LE(out.to, parts);
      near += std::abs(out.to - id) <= parts / 100 ? 1 : 0;
    }
  // Nine in ten, and those of the tenth that come near by chance.
  EXPECT_NEAR(near / (3.0 * parts), 0.9 + 0.1 * 0.02, 0.015);
}

}  // namespace
