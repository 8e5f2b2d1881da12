// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The churned graph is what its numbers say, over memory, as rows and in a store, however old objects go there.
#include <vector>

#include <gtest/gtest.h>

#include "collect/contender.hpp"
#include "collect/group.hpp"
#include "support/temp_dir.hpp"

namespace tenure::bench::collect {
make_contender make_tenure, make_tenure_handles, make_tenure_destroys, make_tenure_keeps;
}

namespace {

using namespace tenure::bench::collect;

TEST(collect_group, is_what_its_number_says) {
  for (const std::uint64_t serial : {0U, 1U, 77U, 1'000'000U}) {
    node* const first = make_group(serial, []<class T>(T*& made) { made = new T; });
    EXPECT_EQ(sum_by_following(first), sum_of(serial));
    const node* one = first;
    for (std::uint64_t at = 0; at < group_size; ++at, one = one->next) {
      const row as_row = row_of(serial, at);
      EXPECT_EQ(as_row.number, one->number);
      EXPECT_EQ(as_row.next, one->next->number);
      EXPECT_EQ(as_row.other, one->other->number);
    }
    EXPECT_EQ(one, first);
    std::uint64_t ended = 0;
    end_group(first, [&](auto* each) {
      ++ended;
      delete each;
    });
    EXPECT_EQ(ended, group_size);
  }
}

TEST(collect_group, a_wrong_reference_is_seen) {
  const auto make = []<class T>(T*& made) { made = new T; };
  node* const one = make_group(1, make);
  node* const other = make_group(2, make);
  node* const before = one->next->other;
  one->next->other = other;
  EXPECT_THROW(static_cast<void>(sum_by_following(one)), std::runtime_error);
  one->next->other = before;
  EXPECT_EQ(sum_by_following(one), sum_of(1));
  for (node* each : {one, other}) end_group(each, [](auto* object) { delete object; });
}

class churned_store : public testing::TestWithParam<make_contender*> {};
TEST_P(churned_store, has_what_was_put_there_last) {
  const tenure::support::temp_dir directory;
  constexpr std::uint64_t slots = 100;
  const auto who = GetParam()(directory.path(), slots);
  who->create();
  std::vector<std::uint64_t> serials(slots);
  std::uint64_t next = 0;
  for (int round = 0; round < 20; ++round) {
    who->begin();
    for (std::uint64_t n = 0; n < slots; ++n) {
      const std::uint64_t slot = round == 0 ? n : next * 7 % slots;
      who->replace(slot, next);
      serials[slot] = next++;
    }
    who->commit();
  }
  who->settle();
  for (int time = 0; time < 2; ++time) {
    who->begin();
    for (std::uint64_t slot = 0; slot < slots; ++slot) EXPECT_EQ(who->sum(slot), sum_of(serials[slot])) << slot;
    who->commit();
    who->tidy();
  }
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path{directory.path()} / who->file()));
  who->close();
}
INSTANTIATE_TEST_SUITE_P(endings, churned_store,
                         testing::Values(&make_tenure, &make_tenure_handles, &make_tenure_destroys,
                                         &make_tenure_keeps));

}  // namespace
