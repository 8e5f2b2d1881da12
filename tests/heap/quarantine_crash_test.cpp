// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collections of an open store one after the other: each confirms what the last one has put into quarantine, and gives space
// back, while the program goes on. Power is lost at any operation
// [heap.collection.quarantine].
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

namespace collections_in_a_row {

using namespace tenure;

struct node {
  std::uint64_t id = 0;
  node* twin = nullptr;
  tenure::string name;
  std::uint64_t words[20] = {};
};
struct list {
  tenure::vector<node*> all;
};

constexpr std::uint64_t count = 400, rounds = 4;

// The nodes after so many rounds: each takes away three of four, and puts new ones there.
std::vector<std::uint64_t> ids_after(std::uint64_t round) {
  std::vector<std::uint64_t> ids(count);
  for (std::uint64_t r = 0; r < round; ++r)
    for (std::uint64_t n = 0; n < count; ++n)
      if (r == 0 || (n + r) % 4 != 0) ids[n] = r * count + n;
  return ids;
}
std::string name_of(std::uint64_t id) { return "the name of the node with the number " + std::to_string(id); }

class in_a_row : public ::testing::TestWithParam<quarantine> {
 protected:
  in_a_row() {
    how.memory.log.size = 256 << 10;
    how.memory.background = false;
  }
  [[nodiscard]] store_options options(sim::disk& disk) const {
    store_options as = how;
    as.memory.disk = &disk;
    return as;
  }
  // Returns how many rounds are committed, in `done`, as it may end anywhere.
  void run(sim::disk& disk, std::uint64_t& done) const {
    store s("/store", options(disk));
    auto& root = s.root<list>("list");
    for (std::uint64_t round = 0; round < rounds; ++round) {
      s.transact([&] {
        root.all.resize(count);
        const std::vector<std::uint64_t> ids = ids_after(round + 1);
        for (std::uint64_t n = 0; n < count; ++n) {
          node*& at = root.all[n];
          if (at != nullptr && at->id == ids[n]) continue;
          node* const made = s.make<node>();
          made->id = ids[n];
          made->name = name_of(ids[n]);
          made->twin = s.make<node>();
          made->twin->twin = made;  // a circle
          at = made;
        }
      });
      done = round + 1;
      const collect_report report = s.collect(collecting(round % 2 == 1));
      EXPECT_TRUE(report.uses.empty());
    }
    s.close();
  }
  [[nodiscard]] collection_options collecting(bool trim) const {
    return {.roots = program_roots::handles, .quarantine = GetParam(), .objects_at_once = 100, .trim = trim};
  }
  void expect_state(sim::disk& disk, std::uint64_t done) const {
    store s("/store", options(disk));
    support::expect_sound(s);
    auto& root = s.root<list>("list");
    if (root.all.empty()) {
      EXPECT_EQ(done, 0U);
      return;
    }
    ASSERT_EQ(root.all.size(), count);
    std::vector<std::uint64_t> ids;
    for (const node* const n : root.all) {
      ids.push_back(n->id);
      ASSERT_EQ(std::string(n->name), name_of(n->id));
      ASSERT_EQ(n->twin->twin, n);
    }
    EXPECT_TRUE(ids == ids_after(done) || ids == ids_after(done + 1)) << done << " rounds were committed";
    // Nothing is left behind: what one collection has found, the next one has the space of.
    (void)s.collect(collecting(false));
    const collect_report report = s.collect(collecting(true));
    EXPECT_TRUE(report.uses.empty());
    EXPECT_EQ(report.garbage, 0U);
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) root.all.push_back(s.make<node>());
    });
    support::expect_sound(s);
    for (std::uint64_t n = 0; n < count; ++n) ASSERT_EQ(root.all[n]->id, ids[n]);
  }

  store_options how = support::small_store();
};

TEST_P(in_a_row, a_crash_at_any_operation_leaves_what_was_committed) {
  std::uint64_t operations = 0, done = 0;
  {
    sim::disk disk;
    run(disk, done);
    operations = disk.operations();
    ASSERT_NO_FATAL_FAILURE(expect_state(disk, done));
  }
  ASSERT_GT(operations, 100U);
  std::uint64_t in_rounds = 0;
  for (std::uint64_t at = 1; at <= operations; at += rvm::testing::scaled_stride(2)) {
    SCOPED_TRACE("crash at operation " + std::to_string(at) + " of " + std::to_string(operations));
    sim::disk disk;
    disk.crash_at(at);
    done = 0;
    try {
      run(disk, done);
    } catch (const sim::power_failure&) {
    }
    if (done != 0 && done != rounds) ++in_rounds;
    const auto left = disk.crash(at, at % 3 == 0   ? sim::policy::drop_all
                                     : at % 3 == 1 ? sim::policy::keep_all
                                                   : sim::policy::random);
    ASSERT_NO_THROW(expect_state(*left, done));
    if (HasFailure()) return;
  }
  EXPECT_GT(in_rounds, 3U);
}

INSTANTIATE_TEST_SUITE_P(quarantines, in_a_row,
                         ::testing::Values(quarantine::none, quarantine::hold, quarantine::check));

}  // namespace collections_in_a_row
