// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory runs out in the thread of a collection: the cycle fails, and nothing else.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <new>
#include <set>
#include <string_view>
#include <utility>

#include <tenure/tenure.hpp>

#include "objects/format.hpp"
#include "support/short_memory.hpp"
#include "support/test_store.hpp"

namespace short_memory_collections {

struct watched {
  std::uint64_t number;
};
struct watching {
  tenure::vector<watched*> all;
  tenure::vector<tenure::weak<watched>> weakly;
};
struct quarter {  // of a block
  char bytes[7'000];
};
struct quarters {
  tenure::vector<quarter*> all;
};

}  // namespace short_memory_collections

namespace tenure::support::collections_in_short_memory {

using namespace short_memory_collections;

namespace {

class collections_in_short_memory : public reopened_store {
 protected:
  // Whether it was done. `on_progress` decides when memory is short for the collector's thread.
  [[nodiscard]] bool is_collected(const rvm::progress_callback& on_progress, bool moves = false) {
    collection_options with{.roots = program_roots::handles, .on_progress = on_progress};
    with.evacuation = {.enabled = moves, .sparse_percent = 90};
    try {
      s().collect(with);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  // A new store.
  void renew() {
    s().close();
    opened.reset();
    std::filesystem::remove_all(path);
    how.create.home = next_home(how.create.reservation);
    open();
  }
  [[nodiscard]] static std::uintptr_t block_of(const void* object) {
    return reinterpret_cast<std::uintptr_t>(object) / heap::block_size;
  }
  // Each block has four of them.
  void make_quarters(std::size_t count) {
    s().transact([&] {
      auto& q = s().root<quarters>("quarters");
      for (std::size_t n = 0; n < count; ++n) q.all.push_back(s().make<quarter>());
    });
  }
  void drop_all_but_every(std::size_t kept) {
    s().transact([&] {
      auto& q = s().root<quarters>("quarters");
      for (std::size_t n = 0; n < q.all.size(); ++n)
        if (n % kept != 0) q.all[n] = nullptr;
    });
  }
};

}  // namespace

// The collector's thread has a transaction meanwhile.
TEST_F(collections_in_short_memory, keep_nobody_from_writing) {
  std::uint64_t failed = 0;
  for (long long allocations = 0; allocations < 60; ++allocations) {
    SCOPED_TRACE(allocations);
    weak<watched> mine;
    s().transact([&] {
      auto& w = s().root<watching>("watching");
      w.all.push_back(s().make<watched>());
      w.weakly.push_back(weak<watched>(w.all.back()));
      w.all.push_back(s().make<watched>());
      mine = weak<watched>(w.all.back());  // its cell is not persistent
    });
    const bool is_done = is_collected([&](const rvm::progress& p) {
      const bool is_clearing = std::string_view(p.phase) == "clearing";
      succeeding = is_clearing ? allocations : -1;
      failing = is_clearing ? 1 : 0;
    });
    failed += is_done ? 0 : 1;
    try {
      s().close();
    } catch (const error& e) {
      ADD_FAILURE() << e.what();
      opened.reset();
      return;
    }
    opened.reset();
    open();
  }
  EXPECT_GT(failed, 0U);
}

// Blocks from which something was to be moved are left when the cycle fails.
TEST_F(collections_in_short_memory, leave_the_blocks_that_they_have_chosen) {
  how.tune.refill = 100;
  reopen();
  make_quarters(100);
  drop_all_but_every(4);
  ASSERT_TRUE(is_collected({}));
  bool is_moving = false;
  EXPECT_FALSE(is_collected(
      [&](const rvm::progress& p) {
        if (std::string_view(p.phase) != "moving") return;
        is_moving = true;
        make_quarters(8);  // births see that the blocks are closed
        succeeding = 0;
        failing = 1'000'000'000;
        throw std::bad_alloc();
      },
      true));
  EXPECT_TRUE(is_moving);
  reopen();
  EXPECT_TRUE(is_collected({}, true));
}

// New objects are made beside what was kept, if the cycle fails.
TEST_F(collections_in_short_memory, that_choose_blocks_close_none_for_ever) {
  how.tune.refill = 100;
  std::uint64_t failed = 0;
  for (long long allocations = 0, in_a_row = 0; in_a_row < 3; allocations += 1 + allocations / 8) {
    SCOPED_TRACE(allocations);
    renew();
    make_quarters(100);
    drop_all_but_every(4);
    ASSERT_TRUE(is_collected({}));
    ASSERT_TRUE(is_collected({}));  // nothing is in quarantine any more
    std::set<std::uintptr_t> blocks;
    for (const quarter* each : s().root<quarters>("quarters").all)
      if (each != nullptr) blocks.insert(block_of(each));
    const bool is_done = is_collected(
        [&](const rvm::progress& p) {
          const bool is_choosing = std::string_view(p.phase) == "choosing";
          succeeding = is_choosing ? allocations : -1;
          failing = is_choosing ? 1 : 0;
        },
        true);
    in_a_row = is_done ? in_a_row + 1 : 0;
    if (is_done) continue;
    ++failed;
    make_quarters(80);
    std::size_t beside = 0;
    for (const quarter* each : s().root<quarters>("quarters").all)
      beside += each != nullptr && blocks.contains(block_of(each)) ? 1 : 0;
    EXPECT_GT(beside, blocks.size() + 20);
    expect_invariants(s());
  }
  EXPECT_GT(failed, 5U);
}

// What is in quarantine no longer may have been taken by somebody else when the next cycle comes.
TEST_F(collections_in_short_memory, give_no_block_to_two) {
  how.tune.refill = 100;
  how.tune.least_hole = sizeof(quarter);
  std::uint64_t failed = 0;
  for (long long allocations = 0, in_a_row = 0; in_a_row < 8; ++allocations) {
    SCOPED_TRACE(allocations);
    renew();
    make_quarters(80);
    for (int n = 0; n < 200; ++n) (void)s().make<quarter>();  // from now on many blocks are taken at once
    std::set<std::uintptr_t> blocks;
    for (const quarter* each : s().root<quarters>("quarters").all) blocks.insert(block_of(each));
    drop_all_but_every(4);
    ASSERT_TRUE(is_collected({}));
    make_quarters(60);  // births have looked for room in blocks where all is in quarantine
    const bool is_done = is_collected([&](const rvm::progress& p) {
      const bool is_confirming = std::string_view(p.phase) == "marking" && p.done == p.total;
      succeeding = is_confirming ? allocations : -1;
      failing = is_confirming ? 1 : 0;
    });
    in_a_row = is_done ? in_a_row + 1 : 0;
    failed += is_done ? 0 : 1;
    s().transact([&] {
      auto& q = s().root<quarters>("quarters");
      for (quarter*& each : q.all)
        if (each != nullptr) s().destroy(std::exchange(each, nullptr));
    });
    for (int n = 0; n < 300; ++n)
      if (blocks.contains(block_of(s().make<quarter>()))) break;
    ASSERT_TRUE(is_collected({}));
    expect_sound(s());
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 0U);
}

}  // namespace tenure::support::collections_in_short_memory
