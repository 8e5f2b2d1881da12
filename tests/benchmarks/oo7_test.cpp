// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The OO7 program gives the answers of the original one and leaves the database as it should be: over plain objects, and
// over the heap where there is one.
#include <string>

#include <gtest/gtest.h>

#include "oo7/operations.hpp"
#include "support/temp_dir.hpp"
#include "worlds/plain_world.hpp"
#if __has_include(<tenure/tenure.hpp>)
#include "worlds/heap_world.hpp"
#endif

namespace {

using namespace tenure::bench;
using oo7::operation;

template <class W>
struct tiny {
  using world = W;
  static constexpr const char* name = "tiny";
};
template <class W>
struct small3 {
  using world = W;
  static constexpr const char* name = "small3";
};

template <class Case>
class oo7_test : public ::testing::Test {
 protected:
  using world = typename Case::world;
  using database = typename oo7::schema<world>::database;

  oo7_test() {
    world::create(directory_.path(), how_.bytes());
    world::begin();
    in_ = &world::template root<database>();
    oo7::generation<world>{how_, *in_}.build();
    program_.emplace(how_, *in_);
  }
  ~oo7_test() override {
    if (!world::persistent) oo7::generation<world>{how_, *in_}.destroy_all();
    world::commit();
    world::close();
  }
  std::uint64_t run(operation what) {
    oo7::restart_random();
    const std::uint64_t count = program_->run(what);
    world::checkpoint();
    return count;
  }
  // The sums after running it `times`.
  oo7::totals after(operation what, int times) {
    for (int i = 0; i < times; ++i) run(what);
    return program_->sum();
  }

  const tenure::support::temp_dir directory_;
  const oo7::configuration how_ = oo7::configuration_of(Case::name);
  const oo7::golden_answers golden_ = oo7::golden_of(how_);
  database* in_ = nullptr;
  std::optional<oo7::operations<world>> program_;
};

using cases = testing::Types<tiny<plain_world>, small3<plain_world>
#if __has_include(<tenure/tenure.hpp>)
                             ,
                             tiny<heap_world>, small3<heap_world>
#endif
                             >;
TYPED_TEST_SUITE(oo7_test, cases);

TYPED_TEST(oo7_test, counts_are_those_of_the_original) {
  ASSERT_FALSE(this->golden_.counts.empty());
  for (const auto& [what, count] : this->golden_.counts) {
    EXPECT_EQ(this->run(what), count) << oo7::name_of(what);
    // Twice is not at all; the queries count dates.
    if (what == operation::t3a || what == operation::t3b) {
      EXPECT_EQ(this->run(what), count);
    }
  }
}

TYPED_TEST(oo7_test, sums_are_those_of_the_original) {
  const oo7::totals sums = this->program_->sum();
  EXPECT_EQ(sums.atomics, static_cast<std::uint64_t>(this->how_.atomics()));
  EXPECT_EQ(sums.connections, sums.atomics * static_cast<std::uint64_t>(this->how_.connections_per_atomic));
  EXPECT_EQ(sums.dates, this->golden_.dates.value_or(sums.dates));
  EXPECT_EQ(sums.x, this->golden_.x.value_or(sums.x));
  EXPECT_EQ(sums.lengths, this->golden_.lengths.value_or(sums.lengths));
}

TYPED_TEST(oo7_test, what_is_undone_leaves_no_trace) {
  const oo7::totals before = this->program_->sum();
  EXPECT_EQ(this->after(operation::t2c, 1), before);
  EXPECT_EQ(this->after(operation::t3c, 1), before);
  EXPECT_NE(this->after(operation::t2a, 1), before);
  EXPECT_EQ(this->after(operation::t2a, 1), before);
  EXPECT_NE(this->after(operation::t3b, 1), before);
  EXPECT_EQ(this->after(operation::t3b, 1), before);
  EXPECT_EQ(this->after(operation::t2b, 2), before);
  EXPECT_EQ(this->after(operation::t3a, 2), before);
}

TYPED_TEST(oo7_test, replaced_texts_are_longer) {
  using where = typename TypeParam::world;
  const auto document = this->in_->modules[0]->all_bases[0]->private_components[0]->documentation;
  const auto text = [&] { return where::view(document->text); };
  const std::string before{text()};
  ASSERT_TRUE(before.starts_with("I am the documentation"));
  this->run(operation::t5do);
  EXPECT_EQ(text(), "This is" + before.substr(4));
  EXPECT_EQ(document->text_length, static_cast<int>(before.size()) + 3);
  this->run(operation::t5undo);
  EXPECT_EQ(text(), before);
}

TYPED_TEST(oo7_test, insert_and_delete) {
  const oo7::totals before = this->program_->sum();
  const std::uint64_t parts = this->run(operation::t1);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(this->run(operation::insert), 10U);
    const std::uint64_t added = 10U * static_cast<std::uint64_t>(this->how_.atomic_per_composite);
    EXPECT_EQ(this->run(operation::q7), this->golden_.atomics_after_insert.value_or(before.atomics + added));
    EXPECT_EQ(this->run(operation::t1), this->golden_.t1_after_insert.value_or(parts + added));
    EXPECT_EQ(this->run(operation::remove), 10U);
    EXPECT_EQ(this->program_->sum(), before);
    EXPECT_EQ(this->run(operation::t1), parts);
    EXPECT_EQ(this->run(operation::q2), this->golden_.counts.at(operation::q2));
  }
}

TYPED_TEST(oo7_test, an_old_database_has_the_structure_of_a_new_one) {
  using where = typename TypeParam::world;
  const oo7::totals before = this->program_->sum();
  const std::uint64_t parts = this->run(operation::t1), roots = this->run(operation::t6);
  oo7::restart_random();
  for (int round = 0; round < 10; ++round) {
    // What is left to a collection is in a store only: nobody else would find it.
    oo7::generation<where>{this->how_, *this->in_}.replace_composites(!where::persistent || round % 2 == 0);
    where::checkpoint();
  }
  const oo7::totals after = this->program_->sum();
  EXPECT_NE(after, before);
  EXPECT_EQ(after.atomics, before.atomics);
  EXPECT_EQ(after.connections, before.connections);
  EXPECT_EQ(after.documents, before.documents);
  EXPECT_EQ(this->run(operation::t1), parts);
  EXPECT_EQ(this->run(operation::t6), roots);
  EXPECT_EQ(this->run(operation::insert), 10U);
  EXPECT_EQ(this->run(operation::remove), 10U);
  EXPECT_EQ(this->program_->sum(), after);
}

TYPED_TEST(oo7_test, structure) {
  if (this->how_.assembly_levels != 7) return;
  std::uint64_t used_privately = 0, used_shared = 0;
  for (const auto& base : this->in_->modules[0]->all_bases) {
    used_privately += base->private_components.size();
    used_shared += base->shared_components.size();
  }
  EXPECT_EQ(this->in_->modules[0]->all_bases.size(), 729U);
  EXPECT_EQ(used_privately, 2187U);
  EXPECT_EQ(used_shared, 2187U);
}

TEST(oo7_configuration, unknown_names_are_refused) {
  EXPECT_THROW(static_cast<void>(oo7::configuration_of("small4")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(oo7::configuration_of("smal3")), std::invalid_argument);
  EXPECT_EQ(oo7::configuration_of("large9").atomics(), 1'000'000);
}

}  // namespace
