// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatic tracking: what transactions change is found, logged, and put back.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tenure/rvm.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"
#include "support/waiting_thread.hpp"

namespace tenure::rvm {
namespace {

using support::get, support::kib, support::mib, support::small_log;

map_options automatic(std::uint64_t create_length = mib) {
  return {.create_length = create_length, .tracking = tracking_mode::automatic};
}

struct tracking : ::testing::Test {
  support::temp_dir dir;
  std::optional<memory> m;
  region r;

  void SetUp() override { open(); }
  void open(const map_options& how = automatic()) {
    r = {};
    m.reset();
    m.emplace(dir / "log", small_log());
    r = m->map(dir / "segment", how);
  }
  void write(std::size_t offset, const std::string& text) const {
    std::memcpy(r.data() + offset, text.data(), text.size());
  }
  [[nodiscard]] tracking_statistics counts() const { return m->stats().tracking; }
};

TEST_F(tracking, commits_what_was_written) {
  {
    transaction tx = m->begin_automatic();
    write(100, "hello");
    write(50000, "world");
    tx.commit();
  }
  EXPECT_EQ(counts().traps, 2U);
  EXPECT_EQ(counts().changed_pages, 2U);
  open();
  EXPECT_EQ(get(r, 100, 5), "hello");
  EXPECT_EQ(get(r, 50000, 5), "world");
  EXPECT_EQ(get(r, 49990, 10), std::string(10, 0));
}

TEST_F(tracking, logs_only_what_differs) {
  m->transact_automatically([&](transaction&) { write(4096, std::string(4096, 'x')); });
  const auto before = m->stats().bytes_logged;
  m->transact_automatically([&](transaction&) {
    write(4096, std::string(4096, 'x'));  // the same
    write(5000, "y");
  });
  EXPECT_EQ(m->stats().bytes_logged - before, 8U);
}

TEST_F(tracking, abort_puts_back) {
  m->transact_automatically([&](transaction&) { write(100, "committed"); });
  {
    transaction tx = m->begin_automatic();
    write(100, "discarded");
    write(9000, "as well");
    tx.abort();
  }
  EXPECT_EQ(get(r, 100, 9), "committed");
  EXPECT_EQ(get(r, 9000, 7), std::string(7, 0));
  try {
    m->transact_automatically([&](transaction&) {
      write(100, "thrown away");
      throw 1;
    });
  } catch (int) {
  }
  EXPECT_EQ(get(r, 100, 9), "committed");
  open();
  EXPECT_EQ(get(r, 100, 9), "committed");
  EXPECT_EQ(get(r, 9000, 7), std::string(7, 0));
}

TEST_F(tracking, abort_puts_back_the_newest) {
  for (const char* text : {"first", "next!", "last!"}) m->transact_automatically([&](transaction&) { write(8, text); });
  {
    transaction tx = m->begin_automatic();
    write(8, "other");
  }
  EXPECT_EQ(get(r, 8, 5), "last!");
}

TEST_F(tracking, hot_pages_trap_no_more) {
  for (int i = 0; i < 100; ++i) m->transact_automatically([&](transaction&) { write(100, std::to_string(i)); });
  EXPECT_EQ(counts().traps, 2U);
  EXPECT_EQ(counts().changed_pages, 100U);
  open();
  EXPECT_EQ(get(r, 100, 2), "99");
}

TEST_F(tracking, truncation_gives_pages_back) {
  for (std::size_t page = 0; page < 64; ++page)
    m->transact_automatically([&](transaction&) { write(page * 4096, "page " + std::to_string(page)); });
  EXPECT_EQ(counts().before_images, 64U);
  m->truncate();
  EXPECT_EQ(counts().before_images, 0U);
  EXPECT_EQ(counts().pages_given_back, 64U);
  for (std::size_t page = 0; page < 64; ++page) {
    const std::string text = "page " + std::to_string(page);
    EXPECT_EQ(get(r, page * 4096, text.size()), text);
  }
}

// The page equals the file for a moment, but a commit on its way to the file will change that, and a later one change it back.
TEST(tracking_truncation, keeps_pages_with_unsynced_commits) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log.size = how.log.max_size = 64 * kib;
  how.background = false;
  how.tune.truncation_threshold = 2;
  memory m("/log", how);
  map_options closed = automatic();
  closed.force_mechanism = tracking_mechanism::traps;  // hot pages are kept anyway
  region r = m.map("/segment", closed);
  region filler = m.map("/filler", {.create_length = mib});
  const auto set = [&](std::size_t word, std::uint64_t value, commit_mode mode) {
    return m.transact_automatically([&](transaction&) { r.at<std::uint64_t>(8 * word) = value; }, mode);
  };
  set(0, 5, commit_mode::flush);
  const ticket first = set(10, 1, commit_mode::no_flush);
  m.transact([&](transaction& tx) { tx.set_range(filler.data(), 17 * kib); }, commit_mode::no_flush);
  const ticket second = set(10, 0, commit_mode::no_flush);
  ASSERT_LT(first.batch, second.batch);
  (void)m.truncate_incrementally(mib);
  EXPECT_EQ(m.stats().tracking.pages_given_back, 0U);
  m.wait(first);
  (void)m.truncate_incrementally(mib);
  EXPECT_EQ(r.at<std::uint64_t>(80), 0U);
  m.truncate();
  EXPECT_EQ(r.at<std::uint64_t>(80), 0U);
  EXPECT_EQ(m.stats().tracking.pages_given_back, 1U);
}

TEST_F(tracking, hot_pages_are_closed_when_they_cool_down) {
  for (int i = 0; i < 3; ++i) m->transact_automatically([&](transaction&) { write(100, std::to_string(i)); });
  const auto compared = [&](int transactions) {
    const auto before = counts().hot_pages_compared;
    for (int i = 0; i < transactions; ++i) m->transact_automatically([](transaction&) {}, commit_mode::no_flush);
    return counts().hot_pages_compared - before;
  };
  EXPECT_EQ(compared(31), 62U);
  EXPECT_EQ(compared(100), 2U);
}

TEST_F(tracking, any_thread_may_write_in_an_automatic_transaction) {
  constexpr std::size_t threads = 4, pages = 256;
  for (std::size_t round = 0; round < 5; ++round) {
    transaction tx = m->begin_automatic();
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        for (std::size_t i = 0; i < pages; ++i)  // every page has bytes of all threads
          r.at<std::uint64_t>((i * 37 % pages) * 4096 + 8 * t) = round * 1000 + i + 1;
      });
    for (auto& each : all) each.join();
    if (round % 2 == 0)
      tx.commit();
    else
      tx.abort();
  }
  open();
  for (std::size_t t = 0; t < threads; ++t)
    for (std::size_t i = 0; i < pages; ++i) ASSERT_EQ(r.at<std::uint64_t>((i * 37 % pages) * 4096 + 8 * t), 4001 + i);
}

// [rvm.tracking.right]
TEST_F(tracking, an_automatic_transaction_waits_for_another) {
  transaction tx = m->begin_automatic();
  ++r.at<std::uint64_t>(0);
  EXPECT_TRUE(support::waits_for([&] { tx.commit(); },
                                 [&](std::atomic<bool>& is_in) {
                                   m->transact_automatically([&](transaction&) {
                                     is_in = true;
                                     ++r.at<std::uint64_t>(0);
                                   });
                                 }));
  EXPECT_EQ(r.at<std::uint64_t>(0), 2U);
}

TEST_F(tracking, automatic_transactions_wait_for_each_other) {
  constexpr std::uint64_t threads = 4, times = 50;
  region beside = m->map(dir / "beside", {.create_length = mib});
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < times; ++i) {
        m->transact_automatically([&](transaction&) { ++r.at<std::uint64_t>(0); },
                                  i % 10 == 0 ? commit_mode::flush : commit_mode::no_flush);
        m->transact([&](transaction& tx) { tx.modify(beside.at<std::uint64_t>(8 * t), i); }, commit_mode::no_flush);
        if (i % 20 == 0) m->truncate();
      }
    });
  for (auto& each : all) each.join();
  EXPECT_EQ(r.at<std::uint64_t>(0), threads * times);
  beside = {};
  open();
  EXPECT_EQ(r.at<std::uint64_t>(0), threads * times);
}

TEST_F(tracking, a_region_is_busy_while_an_automatic_transaction_is_open) {
  transaction tx = m->begin_automatic();
  support::expect_error(errc::region_busy, {"automatic transaction is open"}, [&] { r.unmap(); });
  write(0, "still mapped");
  tx.commit();
  r.unmap();
  r = m->map(dir / "segment", automatic());
  EXPECT_EQ(get(r, 0, 12), "still mapped");
}

TEST_F(tracking, a_region_may_be_mapped_in_an_automatic_transaction) {
  transaction tx = m->begin_automatic();
  region other = m->map(dir / "other", automatic());
  std::memcpy(other.data(), "new", 3);
  tx.commit();
  other.unmap();
  other = m->map(dir / "other", automatic());
  EXPECT_EQ(get(other, 0, 3), "new");
}

TEST_F(tracking, kernel_writes_where_pages_were_touched) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "0123456789", 10), 10);
  {
    transaction tx = m->begin_automatic();
    EXPECT_EQ(::read(ends[0], r.data() + 4094, 5), -1);
    EXPECT_EQ(errno, EFAULT);
    tx.touch(r.data() + 4094, 5);
    EXPECT_EQ(::read(ends[0], r.data() + 4094, 5), 5);
    tx.commit();
  }
  ::close(ends[0]);
  ::close(ends[1]);
  open();
  EXPECT_EQ(get(r, 4094, 5), "01234");
}

TEST_F(tracking, many_before_images_ask_for_truncation) {
  options how = small_log();
  how.log.size = 64 * mib;
  how.background = false;
  r = {};
  m.reset();
  m.emplace(dir / "large log", how);
  r = m->map(dir / "large segment", automatic(80 * mib));
  m->transact_automatically([&](transaction&) {
    for (std::size_t page = 0; page < 17'000; ++page) r.at<std::uint64_t>(page * 4096) = page + 1;
  });
  EXPECT_EQ(counts().before_images_made, 17'000U);
  EXPECT_EQ(counts().before_images, 0U);
}

// After a failed sync memory is ahead of the disk and stays so; everything can be ended and closed.
// [rvm.tracking.captured]
TEST(tracking_failure, leaves_a_transaction_that_can_only_be_aborted) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  memory m("/log", how);
  region r = m.map("/segment", automatic());
  m.transact_automatically([&](transaction&) { r.at<std::uint64_t>(0) = 1; });
  transaction tx = m.begin_automatic();
  r.at<std::uint64_t>(0) = 2;
  disk.inject({.kind = sim::operation::durable_write, .error = EIO});
  support::expect_error(errc::outcome_unknown, {}, [&] { tx.commit(); });
  support::expect_error(errc::outcome_unknown, {"was committed"}, [&] { tx.commit(); });
  support::expect_error(errc::outcome_unknown, {}, [&] { (void)m.begin_automatic(); });
  support::expect_error(errc::wrong_tracking, {}, [&] { tx.set_range(r.data(), 1); });
  EXPECT_EQ(r.at<std::uint64_t>(0), 2U);
  tx.abort();
  EXPECT_EQ(r.at<std::uint64_t>(0), 2U);
  r.at<std::uint64_t>(4096) = 3;  // nothing is tracked any more
}

TEST_F(tracking, explicit_transactions_keep_off) {
  transaction tx = m->begin();
  support::expect_error(errc::wrong_tracking, {"tracked automatically", "begin_automatic"},
                        [&] { tx.set_range(r.data(), 8); });
}

}  // namespace
}  // namespace tenure::rvm
