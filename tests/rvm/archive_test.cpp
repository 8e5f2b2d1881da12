// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The archive and the log's head: whatever crash comes, the head is never beyond what the archive has
// [rvm.archive.before-head]. What is in the archive, tests/tools/history_test.cpp looks at.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "log/log_files.hpp"
#include "records/archive_reader.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

options archived(sim::disk& disk) {
  options how = small_log(&disk);
  how.log.size = 64 * kib;
  how.background = false;
  how.archive = archive_options{.max_size = mib};
  return how;
}

void expect_head_in_archive(sim::disk& disk, std::uint64_t operation) {
  if (!disk.exists("/d/log")) return;
  const auto log = log_files::open_unlocked(disk, "/d/log");
  const archive_reader archive(disk, "/d/log.archive", log->status().log_id);
  ASSERT_TRUE(archive.gaps().empty()) << "operation " << operation << ": " << archive.gaps()[0].reason;
  const lsn first = log->status().first;
  ASSERT_GE(std::max(archive.end(), first), log->status().head) << "operation " << operation;
  if (!archive.empty()) {
    ASSERT_EQ(archive.begin(), first) << "operation " << operation;
  }
  for (const auto& frame : archive.frames())  // throws if it is damaged
    if (frame.header.to <= log->status().head)
      archive.read(frame, frame.header.from, [](const group_view&, os::const_bytes) { return true; });
}

TEST(archive, is_never_behind_the_head) {
  sim::disk disk(512);
  disk.on_operation([&](const sim::trace_entry& at) {
    if (::testing::Test::HasFatalFailure()) return;
    for (const auto what : {sim::policy::drop_all, sim::policy::random}) {
      const auto left = disk.crash(at.index, what);
      expect_head_in_archive(*left, at.index);
      // Recovery moves the head, too.
      if (at.index % 4 != 0 || !left->exists("/d/log") || !left->exists("/d/seg")) continue;
      { memory m("/d/log", archived(*left)); }
      expect_head_in_archive(*left->crash(1, sim::policy::drop_all), at.index);
    }
  });
  memory m("/d/log", archived(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  for (std::size_t i = 0; i < 60; ++i) {
    put(m, r, i * 1000, std::string(900, static_cast<char>('a' + i % 26)));
    if (i % 20 == 19) m.truncate();
  }
  m.close();
  disk.on_operation({});
  expect_head_in_archive(disk, disk.operations());
}

// The archive has a thread of its own, so which operations come before the loss of power is not the same each time.
TEST(archive, is_never_behind_the_head_that_is_moved_beside_it) {
  std::uint64_t operations = 60;
  for (std::uint64_t at = 1; at <= operations; at += testing::scaled_stride(3)) {
    sim::disk disk(512);
    if (at > 1) disk.crash_at(at);
    try {
      options how = archived(disk);
      how.background = true;
      how.tune.truncation_threshold = 0.3;
      memory m("/d/log", how);
      region r = m.map("/d/seg", {.create_length = 64 * kib});
      for (std::size_t i = 0; i < 60; ++i) {
        put(m, r, i * 1000, std::string(900, static_cast<char>('a' + i % 26)));
        if (i % 20 == 19) m.truncate();
      }
      m.close();
    } catch (const sim::power_failure&) {
    }
    if (at == 1) operations = disk.operations();
    for (const auto what : {sim::policy::drop_all, sim::policy::random}) {
      const auto left = disk.crash(at, what);
      expect_head_in_archive(*left, at);
      if (!left->exists("/d/log") || !left->exists("/d/seg")) continue;
      { memory m("/d/log", archived(*left)); }
      expect_head_in_archive(*left->crash(1, sim::policy::drop_all), at);
    }
    if (HasFatalFailure()) return;
  }
}

class archive_that_fails : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(beside_truncation_or_not, archive_that_fails, ::testing::Bool());

TEST_P(archive_that_fails, has_what_is_in_it_only_once) {
  sim::disk disk(512);
  options how = archived(disk);
  how.background = GetParam();
  how.tune.truncation_threshold = 2;
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  put(m, r, 0, "none");
  m.truncate();
  put(m, r, 0, "one");
  disk.inject({.kind = sim::operation::sync, .path = ".archive", .what = sim::effect::lose_writes});
  EXPECT_THROW(m.truncate(), error);
  put(m, r, 0, "two");
  m.truncate();
  const auto log = log_files::open_unlocked(disk, "/d/log");
  const archive_reader archive(disk, "/d/log.archive", log->status().log_id);
  std::size_t transactions = 0;
  lsn at = archive.begin();
  for (const auto& frame : archive.frames()) {
    EXPECT_EQ(frame.header.from, at);
    at = frame.header.to;
    transactions += frame.header.transactions;
  }
  EXPECT_EQ(transactions, 3u);
}

// The next stretch may be shorter, and fit into the part before.
TEST_P(archive_that_fails, goes_on_with_a_new_part_where_one_has_not_got_its_name) {
  for (const auto kind : {sim::operation::rename, sim::operation::sync_directory}) {
    sim::disk disk(512);
    options how = archived(disk);
    how.background = GetParam();
    how.archive->max_size = 1 << 20;  // parts of 64 KiB
    how.tune.truncation_threshold = 2;
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    std::mt19937 random(1);
    const auto commit = [&](std::size_t offset, std::size_t length) {  // that cannot be compressed
      std::string bytes(length, ' ');
      for (char& c : bytes) c = static_cast<char>(random());
      put(m, r, offset, bytes);
    };
    commit(0, 100);
    m.truncate();
    const std::size_t named = disk.inject({.kind = kind, .path = ".archive"});
    bool has_failed = false;
    for (int n = 0; n < 20 && !has_failed; ++n) {
      commit(0, 100);
      commit(8 * kib, 12 * kib);
      try {
        m.truncate();
      } catch (const error&) {
        has_failed = true;
      }
    }
    EXPECT_EQ(disk.hits(named), 1U);
    ASSERT_TRUE(has_failed);
    const auto expect_each_once = [&] {
      const auto log = log_files::open_unlocked(disk, "/d/log");
      const archive_reader archive(disk, "/d/log.archive", log->status().log_id);
      lsn at = archive.begin();
      for (const auto& frame : archive.frames()) {
        EXPECT_EQ(frame.header.from, at);
        at = frame.header.to;
      }
      EXPECT_EQ(at, log->status().head);
    };
    EXPECT_GT(m.truncate_incrementally(512), 0U);
    expect_each_once();
    m.truncate();
    expect_each_once();
  }
}

// Each part takes the place of the one that is 16 numbers older, which is the oldest as long as no number is left out.
TEST_P(archive_that_fails, leaves_no_number_out) {
  for (const auto what : {sim::operation::rename, sim::operation::sync_directory})
    for (const int failures : {1, 15}) {
      sim::disk disk(512);
      options how = archived(disk);
      how.background = GetParam();
      how.archive->max_size = mib;  // parts of 64 KiB
      how.log.size = 256 * kib;
      how.tune.truncation_threshold = 2;
      memory m("/d/log", how);
      region r = m.map("/d/seg", {.create_length = 64 * kib});
      std::mt19937 random(1);
      const auto commit = [&] {  // that cannot be compressed, and fills most of a part
        std::string bytes(48 * kib, ' ');
        for (char& c : bytes) c = static_cast<char>(random());
        put(m, r, 0, bytes);
      };
      for (int n = 0; n < 50; ++n) {
        commit();
        if (n == 20) {
          const std::size_t fault =
              disk.inject({.kind = what, .path = ".archive", .count = static_cast<std::uint64_t>(failures)});
          for (int failed = 0; failed < failures; ++failed) EXPECT_THROW(m.truncate(), error);
          EXPECT_EQ(disk.hits(fault), static_cast<std::uint64_t>(failures));
        }
        m.truncate();
        const auto log = log_files::open_unlocked(disk, "/d/log");
        const archive_reader archive(disk, "/d/log.archive", log->status().log_id);
        ASSERT_TRUE(archive.gaps().empty()) << n << ": " << archive.gaps()[0].reason;
        EXPECT_EQ(archive.end(), log->status().head);
        EXPECT_EQ(archive.frames().size(), static_cast<std::size_t>(std::min(n + 1, 16)));
      }
    }
}

// --- [rvm.archive.one-log] -------------------------------------------------------------------------------------------

options archived_together(sim::disk& disk) {
  options how = archived(disk);
  how.archive->path = "/d/together";
  return how;
}

void expect_in_use(const std::function<void()>& what, const std::string& part) {
  try {
    what();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::in_use) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(archive, is_not_opened_while_another_log_writes_to_it) {
  sim::disk disk(512);
  const options how = archived_together(disk);
  {
    memory first("/d/log", how);
    region r = first.map("/d/seg", {.create_length = 64 * kib});
    put(first, r, 0, "one");
    first.truncate();
    expect_in_use([&] { memory("/d/other", how); }, "/d/together.1");
  }
  memory second("/d/other", how);
  region r = second.map("/d/seg2", {.create_length = 64 * kib});
  put(second, r, 0, "two");
  second.truncate();
  EXPECT_TRUE(disk.exists("/d/together.1") && disk.exists("/d/together.2"));
  expect_in_use([&] { memory("/d/log", how); }, "/d/together.2");
}

TEST(archive, has_no_part_that_takes_the_place_of_another_logs) {
  sim::disk disk(512);
  const options how = archived_together(disk);
  memory first("/d/log", how), second("/d/other", how);
  region r = first.map("/d/seg", {.create_length = 64 * kib}),
         other = second.map("/d/seg2", {.create_length = 64 * kib});
  put(first, r, 0, "one");
  first.truncate();
  put(second, other, 0, "two");
  expect_in_use([&] { second.truncate(); }, "/d/together.1");
  const auto log = log_files::open_unlocked(disk, "/d/log");
  const archive_reader archive(disk, "/d/together", log->status().log_id);
  EXPECT_EQ(archive.frames().size(), 1u);
  EXPECT_EQ(archive.end(), log->status().head);
}

}  // namespace
}  // namespace tenure::rvm
