// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups and restores beside a program that removes segments and makes others under their names, replaces the log, truncates it, or
// ends.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "replay/backup.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/watched_disk.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class files_replaced_meanwhile : public ::testing::Test {
 protected:
  options how_on(os::disk* on) {
    options how = small_log(on);
    how.background = false;
    how.tune.truncation_threshold = 2;
    return how;
  }
  // A log that lists the segment, is open, and has a change of it.
  void open() {
    {
      memory first("/d/log", how_on(&disk));
      region r = first.map("/d/seg", {.create_length = 64 * kib});
      put(first, r, 5000, "of the first one");
    }
    m = std::make_unique<memory>("/d/log", how_on(&disk));
    r = m->map("/d/seg");
    put(*m, r, 9000, "of the first one");
  }
  // Another segment gets the name, and is changed.
  void make_another(const std::string& text) {
    r = m->map("/d/seg", {.create_length = 128 * kib});
    put(*m, r, 0, text);
  }
  std::string in_copy(const std::string& path, std::size_t offset, std::size_t length) {
    memory again("/backup/log", small_log(&disk, open_mode::open));
    EXPECT_TRUE(again.verify_segment(path).empty());
    return get(again.map(path), offset, length);
  }
  // Calls `then` once, when the copy of what is at /d/seg has been made.
  backup_options when_copied(std::function<void()> then) {
    backup_options how;
    how.on_progress = [this, then = std::move(then), done = false](const progress& p) mutable {
      if (done || std::string(p.phase) != "copying" || !disk.exists("/backup/seg")) return;
      done = true;
      then();
    };
    return how;
  }

  sim::disk disk;
  watched_disk watched{disk};
  std::unique_ptr<memory> m;
  region r;
};

TEST_F(files_replaced_meanwhile, a_segment_that_is_made_again_is_copied_again) {
  open();
  const backup_report made = back_up(disk, "/d/log", "/backup", when_copied([&] {
                                       r.unmap();
                                       disk.remove("/d/seg");
                                       make_another("second");
                                     }));
  EXPECT_EQ(made.files, std::vector<std::string>{"/backup/seg"});
  EXPECT_EQ(in_copy("/backup/seg", 0, 6), "second");
  for (const std::size_t at : {5000, 9000}) EXPECT_EQ(in_copy("/backup/seg", at, 16), std::string(16, '\0'));
}

TEST_F(files_replaced_meanwhile, a_segment_that_has_got_another_name_is_under_that) {
  open();
  (void)back_up(disk, "/d/log", "/backup", when_copied([&] {
                  r.unmap();
                  disk.rename("/d/seg", "/d/renamed");
                  region renamed = m->map("/d/renamed");
                  put(*m, renamed, 0, "renamed");
                  make_another("second");
                }));
  EXPECT_EQ(in_copy("/backup/seg", 0, 6), "second");
  EXPECT_EQ(in_copy("/backup/renamed", 0, 7), "renamed");
  EXPECT_EQ(in_copy("/backup/renamed", 5000, 16), "of the first one");
}

// The manifest that was read does not know it, nor has the log anything of it before the end that was found.
TEST_F(files_replaced_meanwhile, a_segment_that_is_made_again_before_it_is_copied_is_the_right_one) {
  open();
  m->truncate();
  bool is_done = false;
  watched.before_exists = [&](const std::string& path) {
    if (path != "/d/seg" || std::exchange(is_done, true)) return;
    r.unmap();
    disk.remove("/d/seg");
    make_another("second");
  };
  (void)back_up(watched, "/d/log", "/backup", {});
  EXPECT_TRUE(is_done);
  EXPECT_EQ(in_copy("/backup/seg", 0, 6), "second");
  EXPECT_EQ(in_copy("/backup/seg", 5000, 16), std::string(16, '\0'));
}

TEST_F(files_replaced_meanwhile, a_segment_that_is_removed_is_gone) {
  for (const bool is_changed : {false, true}) {
    SCOPED_TRACE(is_changed);
    open();
    region other = m->map("/d/other", {.create_length = 64 * kib});
    put(*m, other, 0, "other");
    m->truncate();
    if (is_changed) put(*m, other, 0, "again");
    const backup_report made =
        back_up(disk, "/d/log", "/backup", {.on_progress = [&](const progress&) {
                  if (!disk.exists("/d/other") || !disk.exists("/backup/seg") || !disk.exists("/backup/other")) return;
                  other.unmap();
                  disk.remove("/d/other");
                }});
    EXPECT_FALSE(disk.exists("/d/other"));
    EXPECT_EQ(made.gone, std::vector<std::string>{"other"});
    EXPECT_EQ(made.files, std::vector<std::string>{"/backup/seg"});
    EXPECT_FALSE(disk.exists("/backup/other"));
    EXPECT_EQ(in_copy("/backup/seg", 9000, 16), "of the first one");
    r = {};
    m.reset();
    for (const std::string& file : disk.names()) disk.remove(file);
  }
}

TEST_F(files_replaced_meanwhile, the_log_of_an_incremental_backup) {
  open();
  (void)m->backup("/full");
  put(*m, r, 0, "more");
  { memory other("/d/other", how_on(&disk)); }
  backup_options how{.since = "/full", .verify = true};
  how.on_progress = [&](const progress& p) {
    if (std::string(p.phase) == "verifying" && disk.exists("/d/other")) disk.rename("/d/other", "/d/log");
  };
  expect_error(errc::in_use, {"/d/log", "was replaced"}, [&] { (void)back_up(disk, "/d/log", "/since", how); });
}

// [rvm.bulk.noted] A process has ended in a bulk write, of which the next one knows nothing any more.
TEST_F(files_replaced_meanwhile, notes_of_bulk_writes) {
  std::unique_ptr<sim::disk> left;
  {
    memory program("/d/log", how_on(&disk));
    region in = program.map("/d/seg", {.create_length = 256 * kib});
    const auto fill = [&](std::size_t first, std::size_t pages, char with) {
      std::byte* const at = in.data() + first * page;
      program.transact([&](transaction& tx) {
        tx.hold(at, pages * page);
        std::memset(at, with, pages * page);
        const std::span<const std::byte> whole(at, pages * page);
        tx.write_bulk(in, first * page, {&whole, 1});
      });
    };
    fill(16, 4, 'o');
    put(program, in, 0, "freed");
    bool is_logged = false;
    disk.on_operation([&](const sim::trace_entry& at) {
      is_logged |= at.path == "/d/log.1";
      if (at.path == "/d/seg" && !is_logged) left = disk.crash(at.index, sim::policy::keep_all);
    });
    fill(17, 2, 'n');
    disk.on_operation({});
  }
  ASSERT_NE(left, nullptr);
  watched_disk beside(*left);
  bool is_done = false;
  beside.after_open = [&](const std::string& path) {
    if (path != "/d/log" || !left->exists("/backup/seg") || std::exchange(is_done, true)) return;
    memory next("/d/log", how_on(left.get()));
    next.close();
  };
  (void)back_up(beside, "/d/log", "/backup", {.verify = true});
  EXPECT_TRUE(is_done);
  memory again("/backup/log", small_log(left.get(), open_mode::open));
  EXPECT_TRUE(again.verify_segment("/backup/seg").empty());
  const region copied = again.map("/backup/seg");
  EXPECT_EQ(get(copied, 0, 5), "freed");
  EXPECT_EQ(get(copied, 16 * page, 1), "o");
  EXPECT_EQ(get(copied, 17 * page, 1), "n");  // as the process has left it
}

// What leaves the log after the archive was read.
TEST_F(files_replaced_meanwhile, a_log_that_goes_on_while_it_is_restored_has_no_hole) {
  options how = how_on(&disk);
  how.archive.emplace();
  memory program("/d/log", how);
  region in = program.map("/d/seg", {.create_length = 64 * kib});
  put(program, in, 0, "backed up");
  (void)program.backup("/full");
  put(program, in, 0, "1");
  int truncated = 0;
  const auto go_on = [&](int times, const std::string& text) {
    if (truncated != times) return;
    ++truncated;
    put(program, in, 0, text);
    program.truncate();
  };
  watched.before_exists = [&](const std::string& path) {
    if (path == "/d/log.archive.0") go_on(0, "2");
  };
  watched.before_create = [&](const std::string& path) {
    if (path == "/d/log.hold.2") go_on(1, "3");
  };
  (void)restore("/full", "/backup", {.log = "/d/log", .disk = &watched});
  EXPECT_EQ(truncated, 2);
  EXPECT_EQ(in_copy("/backup/seg", 0, 1), "3");
}

TEST_F(files_replaced_meanwhile, a_log_that_is_held) {
  open();
  for (int n = 0; n < 20; ++n) put(*m, r, 0, "more");
  r = {};
  m.reset();
  { memory other("/d/other", how_on(&disk)); }
  const auto head_of = [&](const std::string& log) { return log_files::open_unlocked(disk, log)->status().head; };
  const lsn lower = head_of("/d/other");
  ASSERT_LT(lower, head_of("/d/log"));
  watched.after_open = [&](const std::string& path) {
    if (path == "/d/log" && disk.exists("/d/other")) disk.rename("/d/other", "/d/log");
  };
  const log_hold held = log_hold::take(watched, "/d/log", "a test");
  EXPECT_EQ(held.position(), lower);
}

}  // namespace
}  // namespace tenure::rvm
