// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The versions of EPVM in the laboratory: all answer alike, and commit the same.
#include "epvm/world.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "epvm/parts.hpp"
#include "oo1/graph.hpp"
#include "support/temp_dir.hpp"

namespace tenure::bench::epvm {
namespace {

constexpr int parts = 600, hops = 4;

// How often each part is updated, by id.
using update_counts = std::vector<int>;
void count_updates(int from, int hops_left, int percent, update_counts& counts) {
  const oo1::planned_part plan = oo1::plan_part(from, parts);
  if (oo1::is_updated(plan.build, percent)) ++counts[static_cast<std::size_t>(from)];
  if (hops_left == 0) return;
  for (const auto& next : plan.out) count_updates(next.to, hops_left - 1, percent, counts);
}

// What is committed, as the mapped heap reads it, is what was planned and updated so often; `numbers` of each in place of x and y.
template <class Part>
void expect_committed(const std::filesystem::path& directory, const update_counts& counts, int numbers) {
  store opened((directory / "store").string());
  const auto& all = *opened.find_root<all_parts<Part>>("parts");
  for (int id = 1; id <= parts; ++id) {
    SCOPED_TRACE(id);
    const oo1::planned_part plan = oo1::plan_part(id, parts);
    const Part& one = *all.by_id[static_cast<std::size_t>(id) - 1];
    const int updates = counts[static_cast<std::size_t>(id)];
    ASSERT_EQ(one.id, id);
    ASSERT_EQ(one.x, plan.x + (numbers == 0 ? updates : 0));
    ASSERT_EQ(one.y, plan.y + (numbers == 0 ? updates : 0));
    for (std::size_t n = 0; n < one.numbers.size(); ++n)
      ASSERT_EQ(one.numbers[n], static_cast<int>(n) < numbers ? updates : 0);
    for (std::size_t n = 0; n < one.to.size(); ++n)
      ASSERT_EQ(one.to[n]->id, plan.out[n].to);  // no address of memory is stored
  }
}

class epvm_versions : public testing::TestWithParam<version> {
 protected:
  void run(bool are_wide, const workload& how, bool in_many, const pool_sizes& pools = {}) {
    const auto w = make_world(GetParam().name, directory_.path(), parts, are_wide, pools);
    if (!in_many) w->begin();
    for (int from = 1; from < 100; from += 7) {
      if (in_many) w->begin();
      EXPECT_EQ(w->traverse(from, hops, how), planned_traversal(from, hops, parts, how.percent));
      if (how.percent != 0) count_updates(from, hops, how.percent, counts_);
      if (in_many) w->commit();
    }
    if (!in_many) w->commit();
  }
  [[nodiscard]] bool keeps() const { return GetParam().name != "transient"; }
  const support::temp_dir directory_;
  update_counts counts_ = update_counts(parts + 1);
};

TEST_P(epvm_versions, commit_what_they_update) {
  make_parts<small_part>(directory_.path(), parts);
  for (const bool in_many : {false, true}) {
    run(false, {.percent = 30}, in_many);
    if (keeps()) expect_committed<small_part>(directory_.path(), counts_, 0);
  }
}

TEST_P(epvm_versions, update_a_share_of_wide_parts) {
  make_parts<wide_part>(directory_.path(), parts);
  run(true, {.percent = 30, .numbers = 11}, false);
  if (keeps()) expect_committed<wide_part>(directory_.path(), counts_, 11);
}

// As many buffers as the deepest visit pins, or one; EPVM 1 needs one for each page of its transaction.
TEST_P(epvm_versions, need_few_buffers) {
  make_parts<small_part>(directory_.path(), parts);
  const pool_sizes few{.pages = hops + 1, .small = 1};
  if (GetParam().name.starts_with("epvm1"))
    EXPECT_THROW(run(false, {}, false, few), std::runtime_error);
  else
    run(false, {}, false, few);
}

INSTANTIATE_TEST_SUITE_P(all, epvm_versions, testing::ValuesIn(all_versions().begin(), all_versions().end()),
                         [](const auto& of) {
                           std::string name = of.param.name;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace tenure::bench::epvm
