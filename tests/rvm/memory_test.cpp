// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The life of a memory: creating, opening, options, query, tickets, closing.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <optional>
#include <thread>

#include "log/log_files.hpp"
#include "sim/disk.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

TEST(memory, modes_of_opening) {
  temp_dir dir;
  { memory m(dir / "log", small_log(nullptr, open_mode::create)); }
  { memory m(dir / "log", small_log(nullptr, open_mode::open)); }
  { memory m(dir / "log", small_log(nullptr, open_mode::open_or_create)); }
  { memory m(dir / "log", small_log(nullptr, open_mode::read_only)); }
  { memory m(dir / "other", small_log(nullptr, open_mode::open_or_create)); }
  memory::create_log(dir / "made", {.size = 100'000, .block_size = 4096});
  EXPECT_EQ(std::filesystem::file_size(dir / "made"), 2 * manifest_copy_size);
  EXPECT_EQ(std::filesystem::file_size(dir / "made.1"), log_file_data + 28'672u);  // a quarter, in whole blocks
  options how = small_log(nullptr, open_mode::open);
  how.log.size = 5 * mib;  // of no meaning for a log that exists
  memory m(dir / "made", how);
  EXPECT_EQ(m.stats().log_size, 28'672u);
  EXPECT_EQ(m.log_path(), dir / "made");
  EXPECT_FALSE(std::filesystem::exists(dir / "made.tenure-new"));
}

// [rvm.log.use-noted]
TEST(memory, a_log_that_was_closed_cleanly_is_written_to_when_it_is_used) {
  sim::disk disk;
  {
    memory m("/d/log", small_log(&disk));
    m.create_segment("/d/seg", {.length = 1 << 16});
  }
  const auto generation = [&] { return log_files::open_unlocked(disk, "/d/log")->status().generation; };
  const auto made = generation();
  const auto operations = disk.operations();
  {
    memory m("/d/log", small_log(&disk));
    const region r = m.map("/d/seg");
    m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(0), std::uint64_t{1}); }, commit_mode::no_flush);
    EXPECT_EQ(disk.operations(), operations);
    EXPECT_EQ(generation(), made);
    std::string order;
    disk.on_operation([&](const sim::trace_entry& at) {
      if (at.kind == sim::operation::durable_write && at.path == "/d/log") order += 's';
      if (at.kind == sim::operation::durable_write && at.path == "/d/log.1") order += 'b';
    });
    m.flush();
    disk.on_operation({});
    EXPECT_EQ(order.substr(order.find_first_not_of('s')), "b") << order;
    EXPECT_GE(order.find('b'), 2U);
    EXPECT_EQ(generation(), made + 1);
  }
  const auto used = disk.operations();
  { memory m("/d/log", small_log(&disk)); }
  EXPECT_EQ(disk.operations(), used);
}

// A log that will soon need another file gets it before it is used, and is closed cleanly all the same.
TEST(memory, a_log_that_was_closed_may_grow_before_anything_is_committed) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log.size = 32 * mib;
  how.background = false;
  how.tune.truncation_threshold = 2;
  std::uint64_t length = 0;
  {
    memory m("/log", how);
    length = m.stats().log_size;
    region r = m.map("/segment", {.create_length = mib});
    while (m.stats().log_used < length / 8 * 7) put(m, r, 0, "x");
    ASSERT_EQ(m.stats().log_size, length);
    m.close();
  }
  how.background = true;
  {
    memory m("/log", how);
    m.set_tuning(m.tune());
    m.close();
  }
  const manifest now = log_files::open_unlocked(disk, "/log")->status();
  EXPECT_EQ(now.clean, 1);
  EXPECT_GT(memory("/log", how).stats().log_size, length);
}

TEST(memory, relative_paths_become_absolute) {
  temp_dir dir;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  memory m("log", small_log());
  region r = m.map("seg", {.create_length = 4 * kib});
  std::filesystem::current_path(before);
  EXPECT_EQ(std::filesystem::path(m.log_path()).filename(), "log");
  EXPECT_TRUE(std::filesystem::path(m.log_path()).is_absolute());
  put(m, r, 0, "there");
  r.unmap();
  m.close();
  EXPECT_TRUE(std::filesystem::exists(dir / "log"));
  EXPECT_TRUE(std::filesystem::exists(dir / "seg"));
}

TEST(memory, permissions) {
  temp_dir dir;
  options how = small_log();
  how.log.permissions = 0640;
  memory m(dir / "log", how);
  m.create_segment(dir / "seg", {.length = 1, .permissions = 0600});
  struct stat of {};
  ASSERT_EQ(::stat((dir / "log").c_str(), &of), 0);
  EXPECT_EQ(of.st_mode & 0777u & ~0640u, 0u);
  ASSERT_EQ(::stat((dir / "seg").c_str(), &of), 0);
  EXPECT_EQ(of.st_mode & 0777u, 0600u);
}

TEST(memory, progress_is_reported) {
  temp_dir dir;
  options how = small_log();
  std::uint64_t calls = 0, last = 0;
  how.on_progress = [&](const progress& p) {
    EXPECT_LE(p.done, p.total);
    EXPECT_GE(p.done, last);
    EXPECT_EQ(std::string(p.phase), "creating log");
    last = p.done;
    ++calls;
  };
  how.log.size = 20 * mib;
  memory m(dir / "log", how);
  EXPECT_GT(calls, 0u);
}

TEST(memory, settings_at_start_and_at_run_time) {
  temp_dir dir;
  options how = small_log();
  how.tune = {.truncation_threshold = 2, .spool_limit = 100 * kib, .check_undeclared = false};
  memory m(dir / "log", how);
  EXPECT_EQ(m.tune().truncation_threshold, 2);
  EXPECT_EQ(m.tune().spool_limit, 100 * kib);
  region r = m.map(dir / "seg", {.create_length = 256 * kib});
  // The spool limit: what is committed and not yet written stays near it.
  for (int i = 0; i < 400; ++i) {
    put(m, r, static_cast<std::size_t>(i) * 512, std::string(500, 'x'), commit_mode::no_flush);
    ASSERT_LE(m.stats().spooled_bytes, 102 * kib);
  }
  m.set_tuning({.truncation_threshold = 2, .spool_limit = 0});
  EXPECT_EQ(m.tune().spool_limit, 0u);
  put(m, r, 0, "a", commit_mode::no_flush);
  put(m, r, 0, "b", commit_mode::no_flush);  // waits for the one before
  EXPECT_LE(m.stats().spooled_bytes, 1024u);
  // A threshold above 1: truncation waits for a full log or a request.
  m.flush();
  EXPECT_EQ(m.stats().incremental_truncations + m.stats().epoch_truncations, 0u);
}

// Without a background thread truncation is where the threshold is crossed, so it can be counted on.
TEST(memory, threshold_starts_truncation) {
  for (const double threshold : {0.25, 0.75}) {
    sim::disk disk;
    options how = small_log(&disk);
    how.background = false;
    how.tune.truncation_threshold = threshold;
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    while (m.stats().incremental_truncations == 0) put(m, r, 0, "x");
    EXPECT_NEAR(static_cast<double>(m.stats().log_used_max), threshold * mib, 8 * kib);
    EXPECT_LE(m.stats().log_used, m.stats().log_used_max);
    m.truncate();
    const auto before = m.stats().incremental_truncations;
    m.set_tuning({.truncation_threshold = 2});
    for (int i = 0; i < 180; ++i) put(m, r, 0, "x");  // there is room for no more: the file with the head is not free
    EXPECT_EQ(m.stats().incremental_truncations, before);
    m.set_tuning({.truncation_threshold = 0.5});  // acts at once
    EXPECT_EQ(m.stats().incremental_truncations, before + 1);
    EXPECT_LE(m.stats().log_used, mib / 2);
  }
}

TEST(memory, background_truncation_keeps_the_log_from_filling) {
  sim::disk disk;
  memory m("/d/log", small_log(&disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  for (int i = 0; i < 600; ++i) put(m, r, static_cast<std::size_t>(i % 16) * 4 * kib, std::to_string(i));
  const statistics s = m.stats();
  EXPECT_GT(s.log_bytes_written, 2 * mib);  // the log went around several times
  EXPECT_GT(s.incremental_bytes_reclaimed + s.epoch_bytes_reclaimed, mib);
  EXPECT_LE(s.log_used_max, s.log_size);
}

TEST(memory, open_transactions_by_region) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region first = m.map(dir / "one", {.create_length = 8 * kib}),
         second = m.map(dir / "two", {.create_length = 8 * kib});
  EXPECT_TRUE(m.open_transactions().empty());
  transaction a = m.begin(), b = m.begin(restore_mode::no_restore), idle = m.begin();
  a.label("alice");
  a.set_range(first.data(), 10);
  a.set_range(second.data() + 100, 20);
  a.set_range(second.data() + 100, 20);  // as declared, not as optimized
  b.set_range(second.data() + 200, 5);
  EXPECT_EQ(m.open_transactions().size(), 3u);
  EXPECT_EQ(m.open_transactions(&second).size(), 2u);
  const auto in_first = m.open_transactions(&first);
  ASSERT_EQ(in_first.size(), 1u);
  EXPECT_EQ(in_first[0].id, a.id());
  EXPECT_EQ(in_first[0].label, "alice");
  EXPECT_EQ(in_first[0].mode, restore_mode::restore);
  EXPECT_EQ(in_first[0].ranges, 3u);
  EXPECT_EQ(in_first[0].bytes, 50u);
  a.commit();
  EXPECT_TRUE(m.open_transactions(&first).empty());
  const auto in_second = m.open_transactions(&second);
  ASSERT_EQ(in_second.size(), 1u);
  EXPECT_EQ(in_second[0].mode, restore_mode::no_restore);
  b.commit();
  idle.abort();
  EXPECT_TRUE(m.open_transactions().empty());
}

TEST(memory, labels) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 4 * kib});
  transaction tx = m.begin();
  tx.label(std::string(300, 'n'));
  EXPECT_EQ(m.open_transactions()[0].label, std::string(255, 'n'));
  tx.label("");
  EXPECT_EQ(m.open_transactions()[0].label, "");
  tx.label("name");
  tx.modify(r.at<int>(0), 1);
  tx.commit();
  transaction next = m.begin();  // may use the same memory inside
  EXPECT_EQ(m.open_transactions()[0].label, "");
}

TEST(memory, several_logs_in_one_process) {
  temp_dir dir;
  memory one(dir / "one.log", small_log()), two(dir / "two.log", small_log());
  region a = one.map(dir / "a", {.create_length = 8 * kib}), b = two.map(dir / "b", {.create_length = 8 * kib});
  transaction in_one = one.begin(), in_two = two.begin();
  in_one.modify(a.at<int>(0), 1);
  in_two.modify(b.at<int>(0), 2);
  in_one.abort();
  in_two.commit();
  EXPECT_EQ(a.at<int>(0), 0);
  EXPECT_EQ(b.at<int>(0), 2);
  EXPECT_EQ(one.stats().batches, 0u);
  EXPECT_EQ(two.stats().batches, 1u);
  one.close();
  put(two, b, 64, "goes on");
  EXPECT_EQ(get(b, 64, 7), "goes on");
}

TEST(memory, tickets_and_flush) {
  sim::disk disk;
  memory m("/d/log", small_log(&disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  const auto survives = [&](std::size_t offset, const std::string& text) {
    const auto left = disk.crash(1, sim::policy::drop_all);
    memory after("/d/log", small_log(left.get()));
    return get(after.map("/d/seg"), offset, text.size()) == text;
  };
  EXPECT_EQ(m.last_commit(), ticket{});
  m.wait(m.last_commit());
  m.flush();  // nothing is there to be flushed
  EXPECT_EQ(m.stats().batches, 0u);

  const ticket flushed = m.transact([&](transaction& tx) { tx.modify(r.data(), "flush", 5); });
  EXPECT_EQ(m.last_commit(), flushed);
  EXPECT_TRUE(survives(0, "flush"));
  const ticket lazy = m.transact([&](transaction& tx) { tx.modify(r.data() + 64, "lazy", 4); }, commit_mode::no_flush);
  EXPECT_GT(lazy, flushed);
  EXPECT_EQ(m.last_commit(), lazy);
  EXPECT_FALSE(survives(64, "lazy"));
  EXPECT_GT(m.stats().spooled_bytes, 0u);
  m.wait(flushed);  // has been for long
  EXPECT_FALSE(survives(64, "lazy"));
  m.wait(lazy);
  EXPECT_TRUE(survives(64, "lazy"));
  EXPECT_EQ(m.stats().spooled_bytes, 0u);

  put(m, r, 128, "spool", commit_mode::no_flush);
  m.flush();
  EXPECT_TRUE(survives(128, "spool"));
  // A flush commit takes the spool with it, even if it changes nothing itself.
  put(m, r, 192, "before", commit_mode::no_flush);
  m.begin().commit();
  EXPECT_TRUE(survives(192, "before"));
  put(m, r, 256, "again", commit_mode::no_flush);
  put(m, r, 320, "flush");
  EXPECT_TRUE(survives(256, "again"));
  EXPECT_TRUE(survives(320, "flush"));
  // A ticket from nowhere is no reason to wait for ever.
  m.wait(ticket{~std::uint64_t{0}});
}

TEST(memory, closing_makes_everything_durable) {
  sim::disk disk;
  {
    memory m("/d/log", small_log(&disk));
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 0, "lazy", commit_mode::no_flush);
    m.close();
    // All of it is in the segment now, and the log is empty.
    const auto left = disk.crash(1, sim::policy::drop_all);
    left->remove("/d/log");
    left->remove("/d/log.1");
    memory after("/d/log", small_log(left.get()));
    EXPECT_EQ(get(after.map("/d/seg"), 0, 4), "lazy");
  }
  // So does the destructor.
  {
    memory m("/d/log", small_log(&disk));
    EXPECT_FALSE(m.recovery().needed);
    region r = m.map("/d/seg");
    put(m, r, 0, "more", commit_mode::no_flush);
  }
  const auto left = disk.crash(1, sim::policy::drop_all);
  memory after("/d/log", small_log(left.get()));
  EXPECT_FALSE(after.recovery().needed);
  EXPECT_EQ(get(after.map("/d/seg"), 0, 4), "more");
}

// [rvm.close.late] Who begins when closing has looked for open transactions is told, unless the commit is in the files.
TEST(memory, a_commit_that_comes_too_late_is_refused) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  {
    memory m("/log", how);
    region r = m.map("/segment", {.create_length = 64 * kib});
    put(m, r, 0, "in time", commit_mode::no_flush);
    transaction tx;
    bool was_late = false;
    disk.on_operation([&](const sim::trace_entry& now) {
      if (now.kind == sim::operation::durable_write && now.path == "/log.1" && !tx.is_open()) {
        tx = m.begin();
        tx.modify(r.data(), "too late", 8);
      }
      if (now.kind != sim::operation::write || now.path != "/segment" || was_late) return;
      was_late = true;
      expect_error(errc::closed, {"/log", "closed"}, [&] { tx.commit(); });
      tx.abort();
    });
    m.close();
    disk.on_operation(nullptr);
    EXPECT_TRUE(was_late);
  }
  memory m("/log", how);
  EXPECT_EQ(get(m.map("/segment"), 0, 8), std::string("in time\0", 8));
}

TEST(memory, destructors_in_any_order) {
  temp_dir dir;
  region outlives;
  {
    std::optional<memory> m;
    m.emplace(dir / "log", small_log());
    outlives = m->map(dir / "seg", {.create_length = 4 * kib});
    put(*m, outlives, 0, "kept");
    region gone = m->map(dir / "two", {.create_length = 4 * kib});
  }
  EXPECT_EQ(outlives.data(), nullptr);
  memory m(dir / "log", small_log());
  outlives = m.map(dir / "seg");  // the old state is of no account
  EXPECT_EQ(get(outlives, 0, 4), "kept");
  // A busy region stays mapped until its transaction has ended.
  transaction tx = m.begin();
  tx.modify(outlives.data(), "busy", 4);
  outlives = {};
  expect_error(errc::region_overlap, {dir / "seg"}, [&] { (void)m.map(dir / "seg"); });
  tx.commit();
  m.close();
  memory again(dir / "log", small_log());
  EXPECT_EQ(get(again.map(dir / "seg"), 0, 4), "busy");
}

TEST(memory, transaction_ends_with_its_object) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 4 * kib});
  {
    transaction tx = m.begin();
    tx.modify(r.at<int>(0), 1);
  }
  EXPECT_EQ(r.at<int>(0), 0);
  EXPECT_EQ(m.stats().aborts, 1u);
  {
    transaction tx = m.begin();
    tx.modify(r.at<int>(0), 1);
    tx = m.begin();  // the first is aborted
    EXPECT_EQ(r.at<int>(0), 0);
    tx.modify(r.at<int>(0), 2);
    transaction moved = std::move(tx);
    EXPECT_FALSE(tx.is_open());  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(moved.is_open());
    transaction& self = moved;
    moved = std::move(self);
    moved.commit();
  }
  EXPECT_EQ(r.at<int>(0), 2);
  {
    transaction tx = m.begin(restore_mode::no_restore);
    tx.modify(r.at<int>(0), 3);
  }
  EXPECT_EQ(r.at<int>(0), 3);  // forgotten: in memory, never in the log
  EXPECT_TRUE(m.open_transactions().empty());
  m.close();
  memory again(dir / "log", small_log());
  EXPECT_EQ(again.map(dir / "seg").at<int>(0), 2);
}

TEST(memory, moves) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 4 * kib});
  transaction tx = m.begin();
  tx.modify(r.data(), "moved", 5);
  memory other = std::move(m);
  region place = std::move(r);
  EXPECT_FALSE(r);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(r.data(), nullptr);
  EXPECT_EQ(r.size(), 0u);
  tx.commit();
  EXPECT_EQ(get(place, 0, 5), "moved");
  memory third(dir / "third", small_log());
  third = std::move(other);  // the third log is closed
  EXPECT_EQ(third.log_path(), dir / "log");
  { memory reopened(dir / "third", small_log(nullptr, open_mode::open)); }
  region another = third.map(dir / "two", {.create_length = 4 * kib});
  another = std::move(place);  // the second is unmapped
  EXPECT_EQ(get(another, 0, 5), "moved");
  EXPECT_TRUE(third.map(dir / "two"));
}

TEST(memory, transact) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 4 * kib});
  struct oops {};
  EXPECT_THROW(m.transact([&](transaction& tx) {
    tx.modify(r.at<int>(0), 1);
    throw oops{};
  }),
               oops);
  EXPECT_EQ(r.at<int>(0), 0);
  EXPECT_TRUE(m.open_transactions().empty());
  const ticket done = m.transact([&](transaction& tx) { tx.modify(r.at<int>(0), 2); }, commit_mode::no_flush);
  EXPECT_EQ(done, m.last_commit());
  EXPECT_EQ(r.at<int>(0), 2);
  EXPECT_EQ(m.stats().no_flush_commits, 1u);
  EXPECT_EQ(m.stats().aborts, 1u);
}

// A transaction may begin in one thread and end in another.
TEST(memory, many_threads) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 64 * kib});
  constexpr std::size_t threads = 4, each = 50;
  std::vector<std::jthread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::size_t i = 0; i < each; ++i) {
        transaction tx = m.begin();
        auto& mine = r.at<std::uint64_t>(t * 8);
        tx.set_range(mine);
        ++mine;
        if (i % 5 == 4)
          tx.abort();
        else
          tx.commit(i % 2 == 0 ? commit_mode::flush : commit_mode::no_flush);
      }
    });
  all.clear();
  transaction tx = m.begin();
  std::jthread([&] { tx.modify(r.at<int>(1024), 5); }).join();
  tx.commit();
  EXPECT_EQ(m.stats().flush_commits + m.stats().no_flush_commits, threads * each * 4 / 5 + 1);
  m.close();
  memory again(dir / "log", small_log());
  region seen = again.map(dir / "seg");
  for (std::size_t t = 0; t < threads; ++t) EXPECT_EQ(seen.at<std::uint64_t>(t * 8), each * 4 / 5);
}

// [rvm.log.torn-tail]
TEST(memory, recovery_is_reported) {
  temp_dir dir;
  run_and_die([&] {
    options how = small_log();
    how.tune.truncation_threshold = 2;
    memory m(dir / "log", how);
    region r = m.map(dir / "seg", {.create_length = 64 * kib});
    for (std::size_t i = 0; i < 10; ++i) put(m, r, i * 100, "0123456789");
    put(m, r, 50 * kib, "lost?", commit_mode::no_flush);
    die();
  });
  memory m(dir / "log", small_log());
  const recovery_report& report = m.recovery();
  EXPECT_TRUE(report.needed);
  EXPECT_EQ(report.transactions, 10u);
  EXPECT_EQ(report.ranges, 10u);
  EXPECT_EQ(report.groups, 10u);
  EXPECT_EQ(report.bytes_applied, 100u);
  EXPECT_EQ(report.bytes_read, report.tail - report.head);
  EXPECT_EQ(report.torn_groups, 0u);
  ASSERT_EQ(report.segments.size(), 1u);
  EXPECT_EQ(report.segments[0].path, dir / "seg");
  EXPECT_EQ(report.segments[0].pages, 1u);
  EXPECT_EQ(report.segments[0].bytes, 100u);
  EXPECT_GE(report.seconds, 0);
  region r = m.map(dir / "seg");
  EXPECT_EQ(get(r, 900, 10), "0123456789");
  EXPECT_EQ(r.at<char>(50 * kib), '\0');
}

}  // namespace
}  // namespace tenure::rvm
