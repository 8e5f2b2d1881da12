// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One allocation of a commit fails, each in turn: the commit is done, or nothing has changed, in the cache and in the store.
#include <cstdint>
#include <filesystem>
#include <new>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "cache/made_library.hpp"
#include "support/failing_allocations.hpp"
#include "support/model.hpp"

namespace short_memory_types {

struct new_part {
  std::uint64_t number;
};
struct large_part {
  std::uint64_t numbers[500];
};
struct new_in_the_database {
  new_part parts[2];
  tenure::vector<new_part> more;
};

}  // namespace short_memory_types
using namespace short_memory_types;

namespace {

using namespace tenure;
using namespace tenure::support;
using namespace cache_making_types;

class cache_in_short_memory : public making_in_cache {};

TEST_F(cache_in_short_memory, commits_are_done_or_have_changed_nothing) {
  make_library();
  const std::uint64_t stride = rvm::testing::scaled_stride();
  std::uint64_t failed = 0, in_a_row = 0, rows = 0;
  for (long long allocations = 0; in_a_row < 5; allocations += static_cast<long long>(stride)) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    open();
    opened->transact(
        [&] {
          shelves().change().first = opened->make<leaf>();
          shelves().change().rows.resize(1);
          shelves().change().rows[0].resize(100);
        },
        cache::commit_mode::lazy);
    cache::transaction tx = opened->begin();
    opened->destroy(shelves()->first);
    shelves().change().first = opened->make<leaf>();
    shelves().change().first.change().text.assign(std::string(100, 'a'));
    shelves().change().rows[0] = tenure::vector<std::uint32_t>(5000, 7U);
    shelves().change().names.emplace(static_cast<std::uint64_t>(allocations), tenure::string(std::string(60, 'n')));
    bool is_done = true;
    succeeding = allocations;
    failing = 1;
    try {
      tx.commit(cache::commit_mode::lazy);
    } catch (const std::bad_alloc&) {
      is_done = false;
    }
    succeeding = -1;
    failing = 0;
    if (!is_done) {
      ASSERT_TRUE(tx.is_open());
      tx.abort();
    }
    opened->check();
    rows = is_done ? 5000 : 100;
    opened->read([&] {
      EXPECT_EQ(shelves()->rows[0].size(), rows);
      EXPECT_EQ(shelves()->names.contains(static_cast<std::uint64_t>(allocations)), is_done);
    });
    opened->transact(
        [&] { shelves().change().names.emplace(1'000'000 + static_cast<std::uint64_t>(allocations), "more"); });
    close();
    look([&](store& mapped) {
      const library& all = *mapped.find_root<library>("library");
      EXPECT_EQ(all.rows[0].size(), rows);
      EXPECT_EQ(all.first->text.size(), is_done ? 100U : 0U);
    });
    failed += is_done ? 0 : 1;
    in_a_row = is_done ? in_a_row + 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 20U / stride);
}

// What was not made the first time is made the next time.
TEST_F(cache_in_short_memory, types_that_are_new_can_be_made_afterwards) {
  std::uint64_t failed = 0;
  bool has_failed = true;
  for (long long allocations = 0; has_failed; allocations += static_cast<long long>(rvm::testing::scaled_stride())) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    std::filesystem::remove_all(path);
    make_library();
    open();
    cache::transaction tx = opened->begin();
    succeeding = allocations;
    failing = 1;
    try {
      (void)opened->make<new_in_the_database>();
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    succeeding = -1;
    has_failed = failing == 0;
    tx.abort();
    opened->transact([&] { (void)opened->make<new_in_the_database>(); });
    opened->check();
    close();
  }
  EXPECT_GT(failed, 3U / rvm::testing::scaled_stride());
}

// With object locks an object is made and locked, or not made at all: its place is nobody else's.
TEST_F(cache_in_short_memory, objects_are_made_with_their_locks_or_not_at_all) {
  make_library();
  cache::options options;
  options.transactions = cache::concurrency::object_locks;
  std::uint64_t failed = 0;
  for (long long allocations = 0, in_a_row = 0; in_a_row < 3; ++allocations) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    opened = std::make_unique<cache::store>(path, options);
    cache::transaction tx = opened->begin();
    succeeding = allocations;
    failing = 1;
    try {
      (void)opened->make<large_part>();
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    succeeding = -1;
    in_a_row = failing == 0 ? 0 : in_a_row + 1;
    const std::uint64_t objects = opened->stats().objects;
    const cache::ref<large_part> one = opened->make<large_part>(), other = opened->make<large_part>();
    EXPECT_EQ(opened->stats().objects, objects + 2);
    EXPECT_EQ(objects, failing);
    EXPECT_NE(one.home(), other.home());
    opened->check();
    tx.abort();
    opened->check();
    close();
  }
  EXPECT_GT(failed, 3U);
}

// What is looked at before the first object is made is looked at again by the next one.
TEST_F(cache_in_short_memory, the_end_of_what_is_stored_is_found_the_second_time) {
  how.tune.typed_from = 4096;
  make_library();
  const auto make_one = [&] { return opened->make<leaf>().home(); };
  open();
  std::uint64_t last = 0;
  opened->transact([&] { last = make_one(); });
  close();
  std::uint64_t failed = 0;
  for (long long allocations = 0, in_a_row = 0; in_a_row < 3; ++allocations) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    open();
    cache::transaction tx = opened->begin();
    succeeding = allocations;
    failing = 1;
    try {
      (void)make_one();
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    succeeding = -1;
    in_a_row = failing == 0 ? 0 : in_a_row + 1;
    const std::uint64_t next = make_one();
    EXPECT_LT(next - last, 10000U);  // in the same block
    tx.abort();
    opened->transact([&] { last = make_one(); });
    close();
    look([](store&) {});
  }
  EXPECT_GT(failed, 3U);
}

// A commit that ends with an eviction does not need memory for it: objects stay longer instead.
TEST_F(cache_in_short_memory, evictions_wait) {
  {
    store made(path, small_store());
    auto& all = made.root<tenure::vector<cache::ref<large_part>>>("parts");
    made.transact([&] {
      for (int n = 0; n < 200; ++n) all.push_back(cache::ref<large_part>(made.make<large_part>()));
    });
  }
  cache::options options;
  options.object_bytes = 400 << 10;
  options.pool_pages = 64;
  options.transactions = cache::concurrency::object_locks;
  std::uint64_t failed = 0, evictions = 0, reopened = 0;
  for (long long allocations = 0, in_a_row = 0; in_a_row < 3; ++allocations) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    cache::store opened_here(path, options);
    const auto parts = [&] { return opened_here.root<tenure::vector<cache::ref<large_part>>>("parts"); };
    opened_here.transact([&] { (void)parts().change(); });
    cache::transaction tx = opened_here.begin();
    for (std::size_t n = 0; n < 5; ++n) (*parts())[n].change().numbers[0] = static_cast<std::uint64_t>(allocations) + 1;
    for (std::size_t n = 5; n < 78; ++n) (void)(*parts())[n]->numbers[0];
    bool is_done = true;
    succeeding = allocations;
    failing = 1;
    try {
      tx.commit();
    } catch (const std::bad_alloc&) {
      is_done = false;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::outcome_unknown);
      is_done = false;
      succeeding = -1;
      if (tx.is_open()) tx.abort();
      EXPECT_THROW(opened_here.close(), error);
      cache::store again(path, options);  // as the error says
      again.close();
      in_a_row = 0;
      ++failed;
      ++reopened;
      continue;
    }
    succeeding = -1;
    in_a_row = failing == 0 ? 0 : in_a_row + 1;
    failed += failing == 0 ? 1 : 0;
    if (tx.is_open()) tx.abort();
    evictions += opened_here.stats().evictions;
    if (is_done)
      opened_here.read([&] { EXPECT_EQ((*parts())[4]->numbers[0], static_cast<std::uint64_t>(allocations) + 1); });
  }
  EXPECT_GT(evictions, 0U);
  EXPECT_GT(failed, 3U);
  EXPECT_GT(reopened, 0U);
}

// Whoever gives memory back asks which store it is of.
TEST_F(cache_in_short_memory, memory_is_given_back_without_any) {
  make_library();
  open();
  auto text = std::make_unique<tenure::string>(std::string(100, 't'));
  std::unique_ptr<tenure::string> cached;
  opened->transact([&] { cached = std::make_unique<tenure::string>(std::string(100, 'c')); });
  const std::uint64_t objects = opened->stats().objects;
  succeeding = 0;
  failing = 1;
  text.reset();
  EXPECT_EQ(failing, 1);
  cached.reset();  // its place may be forgotten
  succeeding = -1;
  EXPECT_EQ(opened->stats().objects, objects - 1);
  close();
}

// Nobody is kept out, and the cache can be closed.
TEST_F(cache_in_short_memory, transactions_that_cannot_begin_leave_nothing_open) {
  make_library();
  for (const cache::concurrency transactions : {cache::concurrency::one_writer, cache::concurrency::object_locks})
    for (const bool writes : {true, false}) {
      cache::options options;
      options.transactions = transactions;
      opened = std::make_unique<cache::store>(path, options);
      std::uint64_t failed = 0;
      for (long long allocations = 0; allocations < 8; ++allocations) {
        // In a new thread, which has no list of transactions yet. Its first allocation is the list's.
        std::thread([&] {
          succeeding = allocations;
          failing = 1;
          try {
            if (writes)
              opened->begin().abort();
            else
              (void)opened->begin_read();
          } catch (const std::bad_alloc&) {
            ++failed;
          }
          succeeding = -1;
        }).join();
        opened->transact([&] { shelves().change().first = opened->make<leaf>(); }, cache::commit_mode::lazy);
      }
      EXPECT_GT(failed, 0U);
      close();
    }
}

}  // namespace
