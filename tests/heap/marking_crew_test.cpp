// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Threads that mark together: what they mark is what can be reached, whoever has marked it and whenever they were stopped.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "collection/marker.hpp"
#include "collection/marking_crew.hpp"
#include "objects/object_walk.hpp"
#include "store/store_state.hpp"
#include "support/model.hpp"
#include "support/temp_dir.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace marking_crew_test_types {

struct crew_node {
  crew_node* edges[3];
  tenure::vector<crew_node*> row;
};
struct crew_graph {
  crew_node *first, *dropped;
};

}  // namespace marking_crew_test_types
using namespace marking_crew_test_types;

namespace {

using rvm::testing::random_source;
using rvm::testing::scaled;

class a_marking_crew : public ::testing::Test {
 protected:
  a_marking_crew() {
    store made(path_, how_);
    auto& graph = made.root<crew_graph>("graph");
    random_source random(7);
    std::vector<crew_node*> all;
    made.transact([&] {
      for (std::uint64_t n = 0; n < nodes_; ++n) {
        all.push_back(made.make<crew_node>());
        for (crew_node*& edge : all.back()->edges) edge = all[random.below(all.size())];
        if (n != 0) all[(n - 1) / 3]->edges[(n - 1) % 3] = all.back();  // a tree of all of them
        // Arrays are followed in parts.
        if (n % 1000 == 999)
          for (int k = 0; k < 700; ++k) all.back()->row.push_back(all[random.below(all.size())]);
      }
      graph.first = all.front();
      for (crew_node** last = &graph.dropped; all.size() % 20 != 0; last = &all.back()->edges[0])
        all.push_back(*last = made.make<crew_node>());
    });
    made.transact([&] { graph.dropped = nullptr; });
    made.close();
    how_.mode = rvm::open_mode::read_only;
    opened_.emplace(path_, how_);
    reached_.emplace(*opened_->databases);
    reached_->search();
  }

  void expect_reachable(const heap::marker& marked) const {
    EXPECT_EQ(marked.marked(), reached_->count());
    std::uint64_t garbage = 0;
    for (const auto& d : *opened_->databases)
      d->map->for_each_persistent(0, d->header().blocks_end, [&](heap::address object) {
        const std::uint64_t block = d->map->block_of(object);
        const bool is_marked = marked.marked_in(*d, block).test((object - d->map->start_of(block)) / heap::granule);
        EXPECT_EQ(is_marked, reached_->contains(object));
        garbage += is_marked ? 0 : 1;
      });
    EXPECT_EQ(garbage, 19U);
  }

  temp_dir directory_;
  const std::string path_ = directory_ / "store";
  store_options how_ = small_store();
  const std::uint64_t nodes_ = std::max<std::uint64_t>(scaled(1500), 1000) * 20 + 1;
  std::optional<store_state> opened_;
  std::optional<heap::reachable_objects> reached_;
  std::atomic<std::uint32_t> wanted_{0};
};

TEST_F(a_marking_crew, marks_what_can_be_reached) {
  for (const std::size_t followers : {1U, 2U, 3U, 6U}) {
    SCOPED_TRACE(followers);
    heap::marker marks(*opened_->databases, heap::marker::if_nothing::refuse, followers);
    heap::marking_crew crew(marks);
    EXPECT_EQ(crew.helpers(), followers - 1);
    marks.mark_named_roots();
    for (bool more = true; more; more = marks.follow(1)) crew.follow(1 << 16, wanted_);
    expect_reachable(marks);
  }
}

// Whoever is stopped keeps what it has, and goes on with it, or the first one does.
TEST_F(a_marking_crew, can_be_stopped_at_any_time) {
  random_source random(8);
  for (std::uint64_t round = 0; round < scaled(6); ++round) {
    heap::marker marks(*opened_->databases, heap::marker::if_nothing::refuse, 3);
    heap::marking_crew crew(marks);
    marks.mark_named_roots();
    for (bool more = true; more; more = marks.follow(random.below(100))) {
      wanted_ = random.one_in(4) ? 1 : 0;
      const std::uint64_t before = marks.marked();
      crew.follow(1 + random.below(3000), wanted_);
      EXPECT_TRUE(wanted_ == 0 || marks.marked() == before);
    }
    expect_reachable(marks);
  }
}

TEST_F(a_marking_crew, leaves_what_a_helper_has_to_anybody) {
  for (bool has_left = false; !has_left;) {  // helpers need a moment to wake up
    heap::marker marks(*opened_->databases, heap::marker::if_nothing::refuse, 2);
    {
      heap::marking_crew crew(marks);
      marks.mark_named_roots();
      for (bool more = true; more && !has_left; more = marks.follow(1)) {
        crew.follow(100, wanted_);
        has_left = marks.followers().back().has_grey();
      }
    }
    while (marks.follow(1000)) {
    }
    expect_reachable(marks);
  }
}

}  // namespace
