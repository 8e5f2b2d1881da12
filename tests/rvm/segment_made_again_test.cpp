// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups of a segment that was removed while its log was closed, and made again under its name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class segment_made_again : public ::testing::Test {
 protected:
  sim::disk disk;

  // Calls then(memory) before the memory is closed.
  template <class F>
  void commit(const std::string& text, F&& then) {
    options how = small_log(&disk);
    how.archive.emplace();
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 0, text);
    then(m);
    m.close();
  }
  std::string restored(const std::string& directory) {
    memory m(directory + "/log", small_log(&disk, open_mode::open));
    EXPECT_TRUE(m.verify_segment(directory + "/seg").empty());
    return get(m.map(directory + "/seg"), 0, 6);
  }
};

TEST_F(segment_made_again, is_backed_up) {
  commit("first ", [](memory&) {});
  disk.remove("/d/seg");
  commit("second", [](memory& m) { (void)m.backup("/full"); });
  (void)restore("/full", "/copy", {.disk = &disk});
  EXPECT_EQ(restored("/copy"), "second");
}

TEST_F(segment_made_again, is_restored_in_place_of_the_removed_one) {
  commit("first ", [](memory& m) { (void)m.backup("/full"); });
  const auto removed = disk.current_bytes("/d/seg");
  disk.remove("/d/seg");
  commit("second", [](memory& m) { (void)m.backup("/since", {.since = "/full"}); });
  (void)restore("/full", "/of_both", {.increments = {"/since"}, .disk = &disk});
  EXPECT_EQ(restored("/of_both"), "second");
  (void)restore("/full", "/of_log", {.log = "/d/log", .disk = &disk});
  EXPECT_EQ(restored("/of_log"), "second");
  (void)restore("/full", "/before", {.disk = &disk});
  EXPECT_EQ(restored("/before"), "first ");
  // The removed one is not the one that the log has used last.
  disk.install("/d/seg", removed);
  memory m("/d/log", small_log(&disk, open_mode::open));
  expect_error(errc::wrong_log, {"/d/seg", "is not the file that the log"}, [&] { (void)m.backup("/other"); });
}

// An incremental backup that has changes of both.
TEST_F(segment_made_again, is_restored_from_a_backup_of_both) {
  commit("first ", [](memory& m) { (void)m.backup("/full"); });
  commit("changed", [](memory&) {});
  disk.remove("/d/seg");
  commit("second", [](memory& m) { (void)m.backup("/since", {.since = "/full"}); });
  (void)restore("/full", "/copy", {.increments = {"/since"}, .disk = &disk});
  EXPECT_EQ(restored("/copy"), "second");
}

// It was not there when the full backup was made, and is not any more.
TEST_F(segment_made_again, is_left_out_if_it_was_removed_again) {
  commit("first ", [](memory& m) { (void)m.backup("/full"); });
  commit("second", [&](memory& m) {
    region r = m.map("/d/other", {.create_length = 16 * kib});
    put(m, r, 0, "of no use");
  });
  disk.remove("/d/other");
  commit("third ", [](memory& m) { (void)m.backup("/since", {.since = "/full"}); });
  const backup_report made = restore("/full", "/copy", {.increments = {"/since"}, .disk = &disk});
  EXPECT_EQ(made.gone, std::vector<std::string>{"other"});
  EXPECT_EQ(restored("/copy"), "third ");
  EXPECT_FALSE(disk.exists("/copy/other"));
  // Of the log alone nobody knows that it was removed on purpose.
  expect_error(errc::segment_missing, {"other", "nothing says how"},
               [&] { (void)restore("/full", "/of_log", {.log = "/d/log", .disk = &disk}); });
}

// An older copy of the log was put back, and used without the archive, which had gone on [rvm.archive.one-past].
TEST_F(segment_made_again, or_whose_log_is_an_older_copy_is_not_restored_from_the_archive) {
  commit("first ", [](memory& m) { (void)m.backup("/full"); });
  const auto log = disk.current_bytes("/d/log"), file = disk.current_bytes("/d/log.1"),
             segment = disk.current_bytes("/d/seg");
  for (int n = 0; n < 3; ++n) commit("second", [](memory&) {});
  disk.install("/d/log", log);
  disk.install("/d/log.1", file);
  disk.install("/d/seg", segment);
  {
    memory m("/d/log", small_log(&disk));
    region r = m.map("/d/seg");
    put(m, r, 0, "other ");
    m.close();
  }
  expect_error(errc::wrong_log, {"/d/log.archive", "older copy"},
               [&] { (void)restore("/full", "/copy", {.log = "/d/log", .disk = &disk}); });
  (void)restore("/full", "/of_archive", {.archive = "/d/log.archive", .disk = &disk});
  EXPECT_EQ(restored("/of_archive"), "second");
}

}  // namespace
}  // namespace tenure::rvm
