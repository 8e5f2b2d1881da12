// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The faulting schemes of the laboratory: all answer alike, from whatever is in memory, and have the references that they promise.
#include "faulting/world.hpp"

#include <filesystem>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "faulting/making.hpp"
#include "faulting/scheme.hpp"
#include "faulting/stored_objects.hpp"
#include "oo1/graph.hpp"
#include "support/temp_dir.hpp"

namespace tenure::bench::faulting {
namespace {

constexpr int parts = 700, hops = 4;

class faulting_schemes : public testing::TestWithParam<scheme> {
 public:
  static void SetUpTestSuite() {
    scratch = std::make_unique<tenure::support::temp_dir>();
    make_database(store(), parts);
  }
  static void TearDownTestSuite() { scratch.reset(); }
  static std::filesystem::path store() { return std::filesystem::path(scratch->path()) / "store"; }
  inline static std::unique_ptr<tenure::support::temp_dir> scratch;
};

TEST_P(faulting_schemes, answer_alike) {
  for (const program which : {program::interpreted, program::checked})
    for (const std::uint64_t pool_pages : {1, 3, 1000}) {
      SCOPED_TRACE(pool_pages);
      stored_objects objects(store(), pool_pages);
      const auto w = make_world(GetParam(), which, objects);
      oo1::random_numbers random{7};
      for (int round = 0; round < 6; ++round) {
        std::vector<int> ids(20);
        for (int& id : ids) id = random.up_to(parts);
        EXPECT_EQ(w->look_up(ids), planned_lookup(ids, parts));
        EXPECT_EQ(w->traverse(ids[0], hops), planned_traversal(ids[0], hops, parts));
      }
      const fault_counts first = w->counts();
      EXPECT_EQ(first.faults == 0, GetParam().unswizzled == references::direct);
      // What is in memory faults no more.
      EXPECT_EQ(w->traverse(5, hops), planned_traversal(5, hops, parts));
      const fault_counts cold = w->counts();
      EXPECT_EQ(w->traverse(5, hops), planned_traversal(5, hops, parts));
      EXPECT_EQ(w->counts().faults, cold.faults);
      EXPECT_EQ(w->counts().objects, cold.objects);
      EXPECT_EQ(w->counts().redirected == cold.redirected,
                w->indirections() == 0 || GetParam().when == bypass::faulting);
    }
}

// Bypassed at faults, no reference to an object in memory is anything but its address; never bypassed, all are; else some.
TEST_P(faulting_schemes, bypass_as_they_say) {
  stored_objects objects(store(), 1000);
  const auto w = make_world(GetParam(), program::checked, objects);
  for (int from = 1; from < parts; from += 50) (void)w->traverse(from, hops);
  switch (GetParam().when) {
    case bypass::never: EXPECT_GT(w->indirections(), 3 * w->counts().objects / 2); break;
    case bypass::swizzling: EXPECT_EQ(w->indirections() == 0, GetParam().unswizzled == references::direct); break;
    case bypass::faulting: EXPECT_EQ(w->indirections(), 0U); break;
  }
}

TEST_P(faulting_schemes, bring_what_belongs_together) {
  stored_objects objects(store(), 1000);
  const auto w = make_world(GetParam(), program::checked, objects);
  const int id = 300;
  (void)w->look_up({&id, 1});
  const fault_counts counts = w->counts();
  switch (GetParam().faulted) {
    case granularity::object:
      if (GetParam().unswizzled != references::direct) {
        EXPECT_EQ(counts.objects, counts.faults + 2);  // two classes
      }
      break;
    case granularity::logical_segment: EXPECT_GT(counts.objects, 20 * counts.faults); break;
    case granularity::physical_segment: EXPECT_GT(counts.objects, 100 * counts.faults); break;
  }
}

INSTANTIATE_TEST_SUITE_P(all, faulting_schemes, testing::ValuesIn(all_schemes().begin(), all_schemes().end()),
                         [](const auto& of) {
                           std::string name = name_of(of.param);
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(faulting_scheme_names, are_all_of_the_table) {
#if defined(__x86_64__)
  EXPECT_EQ(all_schemes().size(), 19U);
#endif
  for (const scheme& each : all_schemes()) EXPECT_EQ(scheme_named(name_of(each)), each);
  EXPECT_THROW((void)scheme_named("fb-never-object"), std::invalid_argument);
}

}  // namespace
}  // namespace tenure::bench::faulting
