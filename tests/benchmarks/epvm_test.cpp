// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The versions of EPVM in the laboratory: all answer alike, and commit the same.
#include "epvm/world.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "epvm/parts.hpp"
#include "support/temp_dir.hpp"

namespace tenure::bench::epvm {
namespace {

constexpr int parts = 600, hops = 4;

struct sums {
  std::uint64_t coordinates = 0, numbers = 0, links = 0;
};

// Of what is committed, as the mapped heap reads it.
template <class Part>
sums sums_of(const std::filesystem::path& directory) {
  sums found;
  store opened((directory / "store").string());
  const auto& all = *opened.find_root<all_parts<Part>>("parts");
  for (const Part* const each : all.by_id) {
    found.coordinates += static_cast<std::uint64_t>(each->x + each->y);
    for (const int n : each->numbers) found.numbers += static_cast<std::uint64_t>(n);
    for (const Part* const to : each->to) found.links += static_cast<std::uint64_t>(to->id);
  }
  return found;
}

class epvm_versions : public testing::TestWithParam<version> {
 protected:
  // The number of updates.
  std::uint64_t run(bool are_wide, const workload& how, bool in_many, const pool_sizes& pools = {}) {
    const auto w = make_world(GetParam().name, directory_.path(), parts, are_wide, pools);
    std::uint64_t updated = 0;
    if (!in_many) w->begin();
    for (int from = 1; from < 100; from += 7) {
      if (in_many) w->begin();
      const visits given = w->traverse(from, hops, how);
      EXPECT_EQ(given, planned_traversal(from, hops, parts, how.percent));
      updated += given.updated;
      if (in_many) w->commit();
    }
    if (!in_many) w->commit();
    return updated;
  }
  const support::temp_dir directory_;
};

TEST_P(epvm_versions, commit_what_they_update) {
  make_parts<small_part>(directory_.path(), parts);
  for (const bool in_many : {false, true}) {
    const sums before = sums_of<small_part>(directory_.path());
    const std::uint64_t updated = run(false, {.percent = 30}, in_many);
    const sums after = sums_of<small_part>(directory_.path());
    EXPECT_GT(updated, 100U);
    if (GetParam().name == "transient") return;
    EXPECT_EQ(after.coordinates - before.coordinates, 2 * updated);
    EXPECT_EQ(after.numbers, before.numbers);
    EXPECT_EQ(after.links, before.links);  // no address of memory is stored
  }
}

TEST_P(epvm_versions, update_a_share_of_wide_parts) {
  make_parts<wide_part>(directory_.path(), parts);
  const sums before = sums_of<wide_part>(directory_.path());
  const std::uint64_t updated = run(true, {.percent = 30, .numbers = 11}, false);
  if (GetParam().name == "transient") return;
  const sums after = sums_of<wide_part>(directory_.path());
  EXPECT_EQ(after.numbers - before.numbers, 11 * updated);
  EXPECT_EQ(after.coordinates, before.coordinates);
  EXPECT_EQ(after.links, before.links);
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
