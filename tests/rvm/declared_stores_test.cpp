// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Barriers in regions whose ranges are declared: an announced store is a declaration. [rvm.barriers.declared]
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::page, support::small_log;

class declared_stores : public ::testing::Test {
 public:
  static constexpr std::size_t pages = 16;

  void open(write_barriers how = write_barriers::announced) {
    close();
    options o = small_log(&disk);
    o.background = false;
    memory.emplace("/log", o);
    region_ = memory->map("/segment", {.create_length = pages * page, .barriers = how});
  }
  void close() {
    region_ = {};
    if (memory) memory->close();
    memory.reset();
  }
  void TearDown() override { close(); }

  [[nodiscard]] std::uint64_t& word(std::size_t index) {
    return *reinterpret_cast<std::uint64_t*>(region_.data() + 8 * index);
  }

  sim::disk disk;
  std::optional<rvm::memory> memory;
  region region_;
};

TEST_F(declared_stores, are_in_the_commit_to_the_byte) {
  open();
  {
    transaction tx = memory->begin();
    change(word(5)) = 7;
    word(6) = 8;  // nobody is told
    tx.commit();
  }
  open();
  EXPECT_EQ(word(5), 7U);
  EXPECT_EQ(word(6), 0U);
}

TEST_F(declared_stores, are_undone_by_an_abort) {
  open();
  {
    transaction tx = memory->begin();
    change(word(5)) = 7;
    change(word(5)) = 8;
    tx.abort();
  }
  EXPECT_EQ(word(5), 0U);
}

TEST_F(declared_stores, stay_in_memory_when_a_transaction_without_old_values_is_dropped) {
  open();
  {
    const transaction tx = memory->begin(restore_mode::no_restore);
    change(word(5)) = 7;
  }
  EXPECT_EQ(word(5), 7U);
  open();
  EXPECT_EQ(word(5), 0U);
}

TEST_F(declared_stores, belong_to_the_newest_transaction_of_the_thread) {
  open();
  transaction first = memory->begin();
  transaction second = memory->begin();
  transaction third = memory->begin();
  change(word(1)) = 1;
  third.commit();
  change(word(2)) = 2;  // found among all: the newest has ended
  second.commit();
  change(word(3)) = 3;
  first.abort();
  EXPECT_EQ(word(1), 1U);
  EXPECT_EQ(word(2), 2U);
  EXPECT_EQ(word(3), 0U);
}

TEST_F(declared_stores, belong_to_an_automatic_transaction_if_there_is_no_other) {
  open();
  {
    transaction tx = memory->begin_automatic();
    change(word(1)) = 1;
    tx.commit();
  }
  open();
  EXPECT_EQ(word(1), 1U);
}

TEST_F(declared_stores, of_threads_belong_to_transactions_of_theirs) {
  open();
  constexpr std::size_t threads = 4, rounds = 200;
  const std::size_t each = pages * page / 8 / threads;
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::size_t n = 0; n < rounds; ++n) {
        transaction tx = memory->begin();
        const std::uint64_t before = word(t * each + n % each);
        change(word(t * each + n % each)) = n + 1;
        if (n % 3 != 0) {
          tx.commit(commit_mode::no_flush);
        } else {
          tx.abort();
          EXPECT_EQ(word(t * each + n % each), before);
        }
      }
    });
  for (std::thread& t : all) t.join();
  memory->flush();
  open();
  for (std::size_t t = 0; t < threads; ++t)
    for (std::size_t n = 0; n < rounds; ++n) EXPECT_EQ(word(t * each + n), n % 3 != 0 ? n + 1 : 0);
}

// Transaction objects are used again by other threads. One that was taken, and does not say by whom yet, is of no thread: each
// thread uses two memories in turn, so that none has an object of its own.
TEST_F(declared_stores, are_never_in_the_transaction_that_another_thread_begins) {
  open(write_barriers::checking);
  options o = small_log(&disk);
  o.background = false;
  rvm::memory other("/other-log", o);
  region in_other = other.map("/other", {.create_length = pages * page, .barriers = write_barriers::checking});
  constexpr std::size_t threads = 8, rounds = 40'000;
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::size_t n = 0; n < rounds && !HasFailure(); ++n) {
        const bool in_first = n / threads % 2 == t % 2;
        transaction tx = (in_first ? *memory : other).begin();
        std::uint64_t& mine = *reinterpret_cast<std::uint64_t*>((in_first ? region_ : in_other).data() + t * page);
        for (int stores = 0; stores < 4; ++stores) change((&mine)[8 * stores]) = n;
        EXPECT_NO_THROW(tx.commit(commit_mode::no_flush));
      }
    });
  for (std::thread& t : all) t.join();
  in_other = {};
  other.close();
}

TEST_F(declared_stores, of_a_thread_without_a_transaction_are_not_logged) {
  open();
  {
    transaction tx = memory->begin();
    std::thread([&] { change(word(1)) = 1; }).join();
    tx.commit();
  }
  change(word(2)) = 2;
  open();
  EXPECT_EQ(word(1), 0U);
  EXPECT_EQ(word(2), 0U);
}

TEST_F(declared_stores, must_have_one_transaction_in_checking_mode) {
  open(write_barriers::checking);
  change(word(3)) = 1;
  {
    transaction tx = memory->begin();
    change(word(4)) = 4;
    expect_error(errc::undeclared_write, {"/segment", "offset 24", "length 8", "no open transaction"},
                 [&] { tx.commit(); });
    tx.commit();  // it was said
  }
  {
    transaction first = memory->begin(), second = memory->begin();
    change(word(5)) = 5;
    expect_error(errc::undeclared_write, {"offset 40", "2 open transactions"}, [&] { second.commit(); });
    second.commit();
    first.commit();
  }
  open();
  EXPECT_EQ(word(3), 0U);
  EXPECT_EQ(word(4), 4U);
  EXPECT_EQ(word(5), 5U);
}

TEST_F(declared_stores, reach_a_region_only_while_it_is_mapped) {
  open();
  std::uint64_t* const old = &word(1);
  region_.unmap();
  EXPECT_EQ(detail::end_of_watched(), 0U);
  {
    transaction tx = memory->begin();
    announce_store(old, 8);
    EXPECT_EQ(memory->stats().ranges_declared, 0U);
    tx.commit();
  }
  region_ = memory->map("/segment", {.barriers = write_barriers::announced});
  {
    transaction tx = memory->begin();
    change(word(pages * page / 8 - 1)) = 3;
    announce_store(region_.data() + pages * page - 4, 100);  // goes beyond it
    tx.commit();
  }
  open();
  EXPECT_EQ(word(pages * page / 8 - 1), 3U);
}

TEST_F(declared_stores, in_the_new_part_of_a_region_that_has_grown) {
  options o = small_log(&disk);
  o.background = false;
  memory.emplace("/log", o);
  memory->create_segment("/grows", {.length = page, .max_length = 8 * page});
  region_ = memory->map("/grows", {.reserve = true, .barriers = write_barriers::announced});
  {
    transaction tx = memory->begin();
    announce_store(region_.data() + page - 8, 16);  // ends where there is no memory yet
    announce_store(region_.data() + 2 * page, 8);
    word(page / 8 - 1) = 8;
    tx.commit();
  }
  memory->grow_segment("/grows", 4 * page);
  {
    transaction tx = memory->begin();
    change(word(4 * page / 8 - 1)) = 9;
    tx.commit();
  }
  region_ = {};
  region_ = memory->map("/grows", {.reserve = true, .barriers = write_barriers::announced});
  EXPECT_EQ(word(page / 8 - 1), 8U);
  EXPECT_EQ(word(4 * page / 8 - 1), 9U);
}

TEST_F(declared_stores, have_no_cards_and_are_ignored_when_read_only) {
  open();
  region_ = {};
  expect_error(errc::bad_option, {"/segment", "exact bytes"},
               [&] { (void)memory->map("/segment", {.barriers = write_barriers::cards}); });
  expect_error(errc::bad_option, {"/segment", "strict"}, [&] {
    (void)memory->map("/segment", {.tracking_strict = true, .barriers = write_barriers::announced});
  });
  close();
  options o = small_log(&disk);
  o.mode = open_mode::read_only;
  memory.emplace("/log", o);
  region_ = memory->map("/segment", {.barriers = write_barriers::announced});
  announce_store(region_.data(), 8);
}

// Random stores, announced one by one, in transactions that commit or abort, against a copy.
TEST_F(declared_stores, agree_with_a_model) {
  std::mt19937_64 draw(7);
  std::vector<std::byte> model(pages * page);
  for (int reopened = 0; reopened < 6; ++reopened) {
    open(draw() % 2 == 0 ? write_barriers::announced : write_barriers::checking);
    ASSERT_EQ(std::memcmp(region_.data(), model.data(), model.size()), 0) << reopened;
    for (int n = 0; n < 60; ++n) {
      const std::vector<std::byte> before = model;
      transaction tx = memory->begin();
      for (std::uint64_t stores = draw() % 40; stores > 0; --stores) {
        const std::size_t from = draw() % model.size();
        const std::size_t length =
            std::min<std::size_t>(draw() % (draw() % 8 == 0 ? 3 * page : 20), model.size() - from);
        announce_store(region_.data() + from, length);
        const int value = static_cast<int>(draw() % 256);
        std::memset(region_.data() + from, value, length);
        std::memset(model.data() + from, value, length);
      }
      if (draw() % 4 == 0) {
        tx.abort();
        model = before;
      } else {
        tx.commit(draw() % 2 == 0 ? commit_mode::flush : commit_mode::no_flush);
      }
      ASSERT_EQ(std::memcmp(region_.data(), model.data(), model.size()), 0) << reopened << ", " << n;
    }
    memory->flush();
  }
}

}  // namespace
}  // namespace tenure::rvm
