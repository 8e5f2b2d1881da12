// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Disk space that is given back: blocks without objects lose it, and have it again before new objects lie there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "objects/database_set.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

namespace tenure::support::trimming {

struct leaf {
  std::uint64_t number;
  char bytes[240];
};

struct sheet {
  std::array<std::uint64_t, 4000> numbers;
};

struct tree {
  tenure::vector<leaf*> leaves;
  tenure::vector<sheet*> sheets;
};

namespace {

class trim : public ::testing::Test {
 protected:
  trim() {
    how.memory.disk = &disk;
    how.memory.background = false;
    how.memory.log.size = 1 << 20;
    open(disk);
  }
  void open(sim::disk& on) {
    how.memory.disk = &on;
    s = std::make_unique<store>("/s", how);
  }
  void close() {
    if (s) s->close();
    s.reset();
  }
  [[nodiscard]] tree& all() const { return s->root<tree>("tree"); }
  void make(std::size_t leaves, std::size_t sheets) {
    s->transact([&] {
      for (std::size_t n = 0; n < leaves; ++n) {
        all().leaves.push_back(s->make<leaf>());
        all().leaves.back()->number = all().leaves.size();
      }
      for (std::size_t n = 0; n < sheets; ++n) {
        all().sheets.push_back(s->make<sheet>());
        all().sheets.back()->numbers.fill(n + 1);
      }
    });
  }
  // All but every `kept`th.
  void destroy_most(std::size_t kept) {
    s->transact([&] {
      const auto thin_out = [&](auto& of) {
        std::size_t n = 0, last = 0;
        for (auto* each : of)
          if (n++ % kept == 0)
            of[last++] = each;
          else
            s->destroy(each);
        of.resize(last);
      };
      thin_out(all().leaves);
      thin_out(all().sheets);
    });
  }
  void expect_whole() const {
    for (const leaf* each : all().leaves) ASSERT_NE(each->number, 0U);
    for (const sheet* each : all().sheets)
      for (const auto number : each->numbers) ASSERT_EQ(number, each->numbers[0]);
    expect_sound(*s);
  }
  [[nodiscard]] std::uint64_t holes(const sim::disk& on) const { return on.holes("/s/main.db"); }

  sim::disk disk;
  store_options how = small_store();
  std::unique_ptr<store> s;
};

TEST_F(trim, gives_space_back_and_gets_it_again) {
  make(20'000, 100);
  destroy_most(50);
  const std::uint64_t given = s->trim();
  EXPECT_GT(given, 1U << 20);
  EXPECT_EQ(given % (32 << 10), 0U);
  EXPECT_EQ(holes(disk), given);
  EXPECT_EQ(s->trim(), 0U) << "it is gone already";
  expect_whole();
  close();
  open(disk);
  expect_whole();
  EXPECT_EQ(holes(disk), given);
  make(20'000, 100);
  EXPECT_LT(holes(disk), given / 4) << "old blocks are used again";
  expect_whole();
}

// A database grows by more than it needs just then.
TEST_F(trim, gives_space_back_that_was_never_used) {
  make(20'000, 100);
  const std::uint64_t size = disk.current_bytes("/s/main.db").size(), given = s->trim();
  EXPECT_GT(given, size / 8);
  EXPECT_EQ(holes(disk), given);
  EXPECT_EQ(s->trim(), 0U);
  expect_whole();
  make(4, 4);
  EXPECT_EQ(disk.current_bytes("/s/main.db").size(), size) << "it is used before the database grows again";
  EXPECT_LT(holes(disk), given);
  expect_whole();
  close();
  open(disk);
  expect_whole();
  make(40'000, 200);
  EXPECT_GT(disk.current_bytes("/s/main.db").size(), size);
  EXPECT_EQ(holes(disk), 0U);
  expect_whole();
}

class trim_on_a_full_disk : public trim, public ::testing::WithParamInterface<bool> {};

TEST_P(trim_on_a_full_disk, what_exists_goes_on) {
  make(20'000, 100);
  destroy_most(50);
  s->trim();
  s->flush();
  if (GetParam()) {  // another process knows of it, too
    close();
    open(disk);
  }
  disk.fill_up();
  // A new object finds no space, and says so. The transaction can be aborted.
  try {
    for (int n = 0; n < 4000; ++n) make(50, 0);  // few, so that the log takes them, and not the segment at once
    ADD_FAILURE() << "the disk is full";
  } catch (const error& e) {
    EXPECT_TRUE(e.code() == std::errc::no_space_on_device) << e.what();
  }
  expect_whole();
  // Commits and deletes go on, and so does truncation.
  for (int round = 0; round < 20; ++round) {
    s->transact([&] {
      for (std::size_t n = 0; n < 300; ++n) {
        leaf* const each = all().leaves[all().leaves.size() - 1 - n];
        std::memset(each->bytes, round, sizeof each->bytes);
      }
      all().sheets.back()->numbers.fill(static_cast<std::uint64_t>(round));
    });
    s->flush();
  }
  for (int round = 0; round < 20; ++round)
    s->transact([&] {
      for (int n = 0; n < 50; ++n) {
        s->destroy(all().leaves.back());
        all().leaves.pop_back();
      }
    });
  s->trim();
  expect_whole();
  const auto left = disk.crash(1, sim::policy::drop_all);
  left->fill_up();
  close();
  open(*left);
  expect_whole();
  left->fill_up(false);
  make(1000, 10);
  expect_whole();
  close();
}

INSTANTIATE_TEST_SUITE_P(reopened, trim_on_a_full_disk, ::testing::Bool());

// Space was also taken where no object was ever persistent, and the header does not say that this was used.
TEST_F(trim, gives_space_to_what_was_never_used_for_good) {
  make(10, 1);
  {
    transaction tx = s->begin();
    for (int n = 0; n < 8; ++n) (void)s->make<sheet>();
    tx.abort();
  }
  s->trim();
  const std::uint64_t given = holes(disk);
  EXPECT_GT(given, 6 * sizeof(sheet));
  close();
  open(disk);
  make(0, 8);
  EXPECT_LT(holes(disk), given);
  disk.fill_up();
  close();  // what was committed is truncated
  open(disk);
  expect_whole();
}

// What is made meanwhile does not lie where space is being given back.
TEST_F(trim, takes_no_space_from_objects_that_are_made_meanwhile) {
  make(20'000, 100);
  destroy_most(50);
  const database_state& d = *open_set_with(&all())->at(&all());
  const std::vector<heap::free_runs::run> taken = d.birth->take_for_trim(0);
  std::uint64_t inside = 0, blocks = 0;
  for (const auto& run : taken) blocks += run.blocks;
  for (std::uint64_t n = 0; n < 2 * blocks * heap::block_size / sizeof(leaf); ++n) {
    const std::uint64_t block = d.map->block_of(reinterpret_cast<heap::address>(s->make<leaf>()));
    inside += std::ranges::any_of(taken, [&](const auto& run) { return block - run.first < run.blocks; });
  }
  EXPECT_EQ(inside, 0U);
  expect_invariants(*s);
  d.birth->trimmed(taken, false);
  expect_invariants(*s);
}

TEST_F(trim, with_several_databases_and_objects_over_zones) {
  s->create_database("more", {.reservation = std::uint64_t{1} << 28, .home = next_home(std::uint64_t{1} << 28)});
  make(1000, 10);
  for (const bool again : {false, true}) {
    // Larger than a zone: what was trimmed is used for it.
    constexpr std::size_t length = (70 << 20) / sizeof(sheet);
    s->transact([&] {
      for (std::size_t n = 0; n < length; ++n) all().sheets.push_back(s->make<sheet>());
      for (sheet* each : all().sheets) each->numbers.fill(7);
    });
    destroy_most(1000);
    EXPECT_GT(s->trim(), 32U << 20) << again;
    expect_whole();
  }
}

TEST_F(trim, refuses_to_begin_in_a_transaction) {
  make(10, 1);
  const transaction tx = s->begin();
  expect_error(errc::bad_transaction, {"trim()"}, [&] { s->trim(); });
}

TEST_F(trim, is_whole_after_a_crash_at_every_operation) {
  make(3000, 40);
  destroy_most(30);
  close();
  const auto objects = [&] { return std::pair(all().leaves.size(), all().sheets.size()); };
  open(disk);
  const auto before = objects(), fewer = std::pair((before.first + 1) / 2, (before.second + 1) / 2);
  close();
  std::uint64_t count = 0, with_holes = 0;
  for (std::uint64_t at = 1;; at += 1 + at % 3) {
    const auto on = disk.crash(1, sim::policy::keep_all);
    on->crash_at(at);
    bool is_over = false;
    try {
      open(*on);
      s->transact([&] {
        for (leaf* each : all().leaves) each->bytes[0] = 'x';
      });
      destroy_most(2);
      s->trim();
      s->trim();
      make(200, 3);
      s->flush();
      close();
      is_over = true;
    } catch (const sim::power_failure&) {
    }
    try {
      s.reset();
    } catch (const sim::power_failure&) {
    }
    if (is_over) break;
    for (const auto policy : {sim::policy::drop_all, sim::policy::random}) {
      const auto left = on->crash(at, policy);
      left->fill_up();
      open(*left);
      expect_whole();
      EXPECT_TRUE(objects() == before || objects() == fewer ||
                  objects() == std::pair(fewer.first + 200, fewer.second + 3));
      ++count;
      with_holes += holes(*left) != 0;
      left->fill_up(false);
      close();
    }
  }
  EXPECT_GT(count, 30U);
  EXPECT_GT(with_holes, 10U);
}

// Before space goes, the database says so.
TEST_F(trim, no_space_is_gone_without_a_word_after_a_crash) {
  make(3000, 40);
  destroy_most(30);
  close();
  std::uint64_t with_holes = 0;
  for (std::uint64_t at = 1;; ++at) {
    const auto on = disk.crash(1, sim::policy::keep_all);
    open(*on);
    on->crash_at(on->operations() + at);
    bool is_over = false;
    try {
      s->trim();
      is_over = true;
    } catch (const sim::power_failure&) {
    }
    try {
      s.reset();
    } catch (const sim::power_failure&) {
    }
    if (is_over) break;
    for (const auto policy : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all}) {
      const auto left = on->crash(at, policy);
      const bool has_holes = holes(*left) != 0;
      open(*left);
      EXPECT_TRUE(!has_holes || open_set_with(&all())->at(&all())->header().trims != 0) << at;
      with_holes += has_holes ? 1 : 0;
      close();
    }
  }
  EXPECT_GT(with_holes, 2U);
}

// Its last zone is free to the end, beyond the end of the segment.
TEST(trim_of_a_large_object, ends_where_the_segment_ends) {
  const temp_dir dir;
  store s(dir / "store", small_store());
  auto& numbers = s.root<tenure::vector<std::uint64_t>>("numbers");
  s.transact([&] { numbers.resize((std::size_t{80} << 20) / 8); });
  s.transact([&] {
    numbers.clear();
    numbers.shrink_to_fit();
  });
  EXPECT_GT(s.trim(), std::uint64_t{79} << 20);
  s.transact([&] { numbers.resize(100000, 7); });
  expect_sound(s);
}

}  // namespace
}  // namespace tenure::support::trimming
