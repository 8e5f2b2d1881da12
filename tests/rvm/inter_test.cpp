// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Inter-transaction optimization [RVM §5.2]: no_flush commits that later ones overwrite before they were written.
#include <gtest/gtest.h>

#include <random>

#include "sim/disk.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class inter : public ::testing::Test {
 protected:
  options how() {
    options o = small_log(&disk);
    o.log.size = 16 * mib;
    o.tune.truncation_threshold = 2;
    return o;
  }
  void lazy(std::size_t offset, const std::string& text) { put(m, r, offset, text, commit_mode::no_flush); }
  // What a crash now would leave, and how many transactions recovery replays for it.
  std::string after_crash(std::size_t offset, std::size_t length) {
    const auto left = disk.crash(1, sim::policy::drop_all);
    memory after("/d/log", small_log(left.get()));
    replayed = after.recovery().transactions;
    return get(after.map("/d/seg"), offset, length);
  }

  sim::disk disk;
  memory m{"/d/log", how()};
  region r = m.map("/d/seg", {.create_length = mib});
  std::uint64_t replayed = 0;
};

TEST_F(inter, overwritten_commits_are_not_written) {
  for (int i = 0; i < 100; ++i) lazy(0, "value " + std::to_string(100 + i));
  m.flush();
  const statistics s = m.stats();
  EXPECT_EQ(s.inter_transactions_saved, 99u);
  // 9 bytes in a record of 16 + 24 + 16 + 4 bytes each, padded.
  EXPECT_EQ(s.inter_bytes_saved, 99u * 72);
  EXPECT_EQ(s.ranges_logged, 1u);
  EXPECT_EQ(s.bytes_logged, 9u);
  EXPECT_EQ(s.log_bytes_written, 4096u);
  EXPECT_EQ(s.no_flush_commits, 100u);
  EXPECT_EQ(after_crash(0, 9), "value 199");
  EXPECT_EQ(replayed, 1u);
}

TEST_F(inter, commits_that_are_overwritten_in_part_are_kept) {
  lazy(0, "abcdefgh");
  lazy(0, "1234567");  // all but the last byte
  lazy(4096 - 4, "over the page's end");
  lazy(4096 - 4, "over");
  m.flush();
  EXPECT_EQ(m.stats().inter_transactions_saved, 0u);
  EXPECT_EQ(after_crash(0, 8), "1234567h");
  EXPECT_EQ(after_crash(4096 - 4, 19), "over the page's end");
  EXPECT_EQ(replayed, 4u);
}

TEST_F(inter, several_later_commits_may_cover_one_together) {
  lazy(0, "abcdefgh");
  lazy(4, "5678");
  lazy(0, "1234");
  m.transact(
      [&](transaction& tx) {  // two ranges, one of them alive
        tx.modify(r.data() + 100, "x", 1);
        tx.modify(r.data() + 200, "y", 1);
      },
      commit_mode::no_flush);
  lazy(100, "z");
  m.flush();
  EXPECT_EQ(m.stats().inter_transactions_saved, 1u);
  EXPECT_EQ(after_crash(0, 8), "12345678");
  EXPECT_EQ(after_crash(100, 1) + after_crash(200, 1), "zy");
}

TEST_F(inter, a_commit_that_stays_is_no_less_than_it_was) {
  lazy(0, "aaaaaaaa");
  lazy(0, "bbbb");  // covered by the next, and gone
  lazy(0, "cccccc");
  m.flush();
  EXPECT_EQ(m.stats().inter_transactions_saved, 1u);
  EXPECT_EQ(after_crash(0, 8), "ccccccaa");
  EXPECT_EQ(replayed, 2u);
}

TEST_F(inter, never_across_a_flush) {
  lazy(0, "first");
  m.flush();
  EXPECT_EQ(after_crash(0, 5), "first");
  lazy(0, "other");
  m.flush();
  EXPECT_EQ(after_crash(0, 5), "other");
  EXPECT_EQ(m.stats().inter_transactions_saved, 0u);
  EXPECT_EQ(replayed, 2u);
}

TEST_F(inter, flush_commits_are_kept_and_cover_others) {
  lazy(0, "lazy1");
  lazy(0, "lazy2");
  put(m, r, 0, "flush");  // the same batch
  EXPECT_EQ(m.stats().inter_transactions_saved, 2u);
  EXPECT_EQ(after_crash(0, 5), "flush");
  EXPECT_EQ(replayed, 1u);
  EXPECT_EQ(m.stats().flush_commits, 1u);
}

TEST_F(inter, other_segments_are_told_apart) {
  region other = m.map("/d/other", {.create_length = 4096});
  lazy(0, "same place");
  put(m, other, 0, "same place", commit_mode::no_flush);
  lazy(64, "x");
  lazy(64, "y");
  m.flush();
  EXPECT_EQ(m.stats().inter_transactions_saved, 1u);
  EXPECT_EQ(after_crash(0, 10), "same place");
}

// Counters that go up together: no crash may ever show a state between two commits.
TEST_F(inter, what_a_crash_leaves_is_a_state_that_was) {
  std::mt19937 random(11);
  std::vector<std::string> states{get(r, 0, 64)};
  std::size_t flushed = 0;
  for (int i = 1; i <= 400; ++i) {
    m.transact(
        [&](transaction& tx) {
          // Two of eight cells are written, so that most commits are overwritten soon.
          for (int n = 0; n < 2; ++n) tx.modify(r.at<std::uint64_t>(random() % 8 * 8), static_cast<std::uint64_t>(i));
        },
        commit_mode::no_flush);
    states.push_back(get(r, 0, 64));
    if (random() % 20 == 0) {
      m.flush();
      flushed = states.size() - 1;
    }
    if (i % 7 == 0) {
      const std::string found = after_crash(0, 64);
      ASSERT_EQ(found, states[flushed]) << "step " << i;
    }
  }
  EXPECT_GT(m.stats().inter_transactions_saved, 100u);
}

// All that was committed and nothing that was not, whatever was dropped on the way.
TEST_F(inter, random_overlaps) {
  std::mt19937 random(12);
  std::string expected(8192, '\0');
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::size_t at = random() % 8000, n = 1 + random() % (i % 2 == 0 ? 190 : 10);
      const std::string text(n, static_cast<char>('a' + random() % 26));
      lazy(at, text);
      expected.replace(at, n, text);
    }
    m.flush();
    ASSERT_EQ(after_crash(0, 8192), expected);
  }
  EXPECT_GT(m.stats().inter_transactions_saved, 0u);
}

}  // namespace
}  // namespace tenure::rvm
