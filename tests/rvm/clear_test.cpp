// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages whose disk space is given back. What crashes leave of them, the models with bulk writes look at, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "replay/backup.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm::clearing {
namespace {

using namespace support;

constexpr std::size_t page = 4 * kib;

// The first page is in use; from `first` on `pages` pages were, and are free: nothing committed refers to them.
class clear : public ::testing::Test {
 protected:
  static constexpr std::size_t first = 16, pages = 64;

  void open(sim::disk& on, bool archived = false) {
    options how = small_log(&on);
    how.log.size = how.log.max_size = 256 * kib;
    how.background = false;
    how.tune.truncation_threshold = 2;
    if (archived) how.archive.emplace();
    m.emplace("/d/log", how);
    r = m->map("/d/seg", {.create_length = 1 * mib});
  }
  void fill(std::size_t from, std::size_t count, char with) {
    for (std::size_t n = from; n < from + count; ++n) put(*m, r, n * page, std::string(page, with));
  }
  ticket clear_pages() {
    transaction tx = m->begin();
    tx.clear(r, first * page, pages * page);
    return tx.commit();
  }
  void close() {
    r = {};
    m.reset();
  }
  [[nodiscard]] static bool is_full(const error& e) { return e.code() == std::errc::no_space_on_device; }

  sim::disk disk;
  std::optional<memory> m;
  region r;
};

TEST_F(clear, gives_space_back) {
  open(disk);
  fill(0, first + pages + 2, 'a');
  m->truncate();
  clear_pages();
  EXPECT_EQ(disk.holes("/d/seg"), pages * page);
  EXPECT_EQ(m->stats().cleared_bytes, pages * page);
  EXPECT_EQ(m->stats().bulk_bytes, 0U);
  EXPECT_TRUE(m->verify_segment("/d/seg").empty());
  close();
  open(disk);
  EXPECT_EQ(get(r, first * page, pages * page), std::string(pages * page, '\0'));
  EXPECT_EQ(get(r, 0, first * page), std::string(first * page, 'a'));
  EXPECT_EQ(get(r, (first + pages) * page, 2 * page), std::string(2 * page, 'a'));
  EXPECT_TRUE(m->verify_segment("/d/seg").empty());
}

TEST_F(clear, gives_space_back_with_an_archive_or_a_hold_too) {
  open(disk, true);
  fill(0, first + pages, 'a');
  const auto before = m->stats().log_bytes_written;
  clear_pages();
  EXPECT_EQ(disk.holes("/d/seg"), pages * page);
  EXPECT_LT(m->stats().log_bytes_written - before, 2 * page) << "no zeros in the log";
  close();
  open(disk, true);
  EXPECT_EQ(get(r, first * page, page), std::string(page, '\0'));
}

// What the log has of the pages was committed before. Truncation writes it nowhere.
TEST_F(clear, needs_no_space_for_what_the_log_has) {
  open(disk);
  fill(0, first + 40, 'a');
  clear_pages();
  put(*m, r, 0, "b");
  disk.fill_up();
  m->truncate();
  EXPECT_EQ(disk.holes("/d/seg"), pages * page);
  close();
  open(disk);
  EXPECT_EQ(get(r, 0, 2), "ba");
}

TEST_F(clear, pages_get_space_before_they_are_used_again) {
  open(disk);
  fill(first, pages, 'a');
  clear_pages();
  disk.fill_up();
  try {
    r.allocate(first * page, page);
    ADD_FAILURE() << "the disk is full";
  } catch (const error& e) {
    EXPECT_TRUE(is_full(e)) << e.what();
  }
  disk.fill_up(false);
  r.allocate(first * page, 2 * page);
  disk.fill_up();
  fill(first, 2, 'c');
  // Also after a crash, before a truncation and after it.
  for (const bool is_truncated : {false, true}) {
    if (is_truncated) m->truncate();
    const auto left = disk.crash(1, sim::policy::drop_all);
    left->fill_up();
    close();
    open(*left);
    EXPECT_EQ(get(r, first * page, 2 * page), std::string(2 * page, 'c'));
    close();
    open(disk);
  }
}

// Without space a truncation fails, and says so; when there is some again, nothing is lost.
TEST_F(clear, used_without_space_waits_for_it) {
  open(disk);
  fill(first, pages, 'a');
  clear_pages();
  disk.fill_up();
  fill(first, 1, 'c');
  EXPECT_THROW(m->truncate(), error);
  const auto left = disk.crash(1, sim::policy::drop_all);
  close();
  open(*left);
  EXPECT_EQ(get(r, first * page, page), std::string(page, 'c'));
  close();
}

TEST_F(clear, refuses_what_makes_no_sense) {
  open(disk);
  transaction tx = m->begin();
  expect_error(errc::misaligned, {"multiples of 4096"}, [&] { tx.clear(r, 1, page); });
  expect_error(errc::misaligned, {"multiples of 4096"}, [&] { tx.clear(r, page, 100); });
  expect_error(errc::partly_mapped, {"do not lie in the region"}, [&] { tx.clear(r, r.size(), page); });
  expect_error(errc::partly_mapped, {"does not lie in the region"}, [&] { r.allocate(r.size(), page); });
  tx.clear(r, page, 0);
  tx.abort();
  EXPECT_EQ(disk.holes("/d/seg"), 0U);
}

TEST_F(clear, is_whole_after_a_crash_at_every_operation) {
  open(disk);
  fill(0, first + pages + 2, 'a');
  close();
  std::uint64_t count = 0;
  for (std::uint64_t at = 1;; ++at) {
    const auto on = disk.crash(1, sim::policy::keep_all);
    on->crash_at(at);
    bool is_over = false;
    try {
      open(*on);
      put(*m, r, 0, "b");
      clear_pages();
      r.allocate(first * page, page);
      fill(first, 1, 'c');
      m->truncate();
      is_over = true;
    } catch (const sim::power_failure&) {
    }
    try {
      close();
    } catch (const sim::power_failure&) {
    }
    if (is_over) break;
    for (const auto policy : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
      const auto left = on->crash(at, policy);
      open(*left);
      ASSERT_TRUE(m->verify_segment("/d/seg").empty()) << "operation " << at;
      EXPECT_EQ(get(r, 1, first * page - 1), std::string(first * page - 1, 'a'));
      EXPECT_EQ(get(r, (first + pages) * page, 2 * page), std::string(2 * page, 'a'));
      ++count;
      close();
    }
  }
  EXPECT_GT(count, 60U);
}

TEST_F(clear, does_not_keep_backups_from_being_continued) {
  open(disk, true);
  fill(0, first + pages, 'a');
  (void)back_up(disk, "/d/log", "/full", {});
  clear_pages();
  r.allocate(first * page, page);
  fill(first, 1, 'c');
  (void)back_up(disk, "/d/log", "/later", {.since = "/full"});
  fill(1, 1, 'd');
  (void)back_up(disk, "/d/log", "/all", {.verify = true});
  close();
  (void)restore("/full", "/restored", {.increments = {"/later"}, .disk = &disk});
  for (const std::string in : {"/restored", "/all"}) {
    options how = small_log(&disk, open_mode::open);
    memory again(in + "/log", how);
    EXPECT_TRUE(again.verify_segment(in + "/seg").empty());
    const region all = again.map(in + "/seg");
    EXPECT_EQ(get(all, first * page, page), std::string(page, 'c'));
    EXPECT_EQ(get(all, page, page), std::string(page, in == "/all" ? 'd' : 'a'));
  }
}

// A commit that the log's files cannot hold is refused by itself: the log goes on.
TEST(full_disk, refuses_commits_that_need_a_longer_log) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log.size = 1 * mib;
  how.log.max_size = 8 * mib;
  how.background = false;
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = 4 * mib});
  put(m, r, 0, "first");
  disk.fill_up();
  const auto change = [&](std::size_t bytes) {
    m.transact([&](transaction& tx) {
      tx.set_range(r.data() + page, bytes);
      std::memset(r.data() + page, 'x', bytes);
    });
  };
  for (const std::size_t bytes : {500 * kib, 3 * mib}) try {
      change(bytes);
      ADD_FAILURE() << "there is no space";
    } catch (const error& e) {
      EXPECT_TRUE(e.code() == std::errc::no_space_on_device) << e.what();
    }
  EXPECT_EQ(get(r, page, 1), std::string(1, '\0')) << "it was aborted";
  for (int n = 0; n < 200; ++n) change(20 * kib);
  for (int n = 0; n < 2000; ++n)
    m.transact([&](transaction& tx) { tx.modify(r.data() + 2 * page * n % (3 * mib), "lazy", 4); },
               commit_mode::no_flush);
  m.truncate();
  disk.fill_up(false);
  change(3 * mib);
  m.check();
}

}  // namespace
}  // namespace tenure::rvm::clearing
