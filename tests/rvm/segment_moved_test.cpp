// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups of segments that were renamed, or changed under another log in between: what a restore cannot have, nobody gets as
// zeros [rvm.backup.whole].
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class segment_moved : public ::testing::Test {
 protected:
  sim::disk disk;

  [[nodiscard]] options archived() {
    options how = small_log(&disk);
    how.archive.emplace();
    return how;
  }
  // Writes a byte of a segment under a log.
  template <class F>
  void with(const std::string& log, const std::string& name, std::size_t at, const std::string& text, F&& then) {
    options how = small_log(&disk);
    if (log == "/d/log") how.archive.emplace();
    memory m(log, how);
    region r = m.map("/d/" + name, {.create_length = 64 * kib});
    if (!text.empty()) put(m, r, at, text);
    then(m, r);
    r.unmap();
    m.close();
  }
  void with(const std::string& log, const std::string& name, std::size_t at, const std::string& text) {
    with(log, name, at, text, [](memory&, region&) {});
  }
  std::string in(const std::string& directory, const std::string& name) {
    memory m(directory + "/log", small_log(&disk, open_mode::open));
    return get(m.map(directory + "/" + name), 0, 3);
  }
  void expect_not_backed_up(memory& m) {
    expect_error(errc::no_history, {"take a full backup"}, [&] { (void)m.backup("/since", {.since = "/full"}); });
    EXPECT_EQ(m.backup("/whole").gone, std::vector<std::string>());
  }
};

TEST_F(segment_moved, from_another_log_is_in_no_incremental_backup) {
  with("/d/old", "seg", 0, "1");
  with("/d/log", "seg", 1, "", [&](memory& m, region& r) {
    EXPECT_TRUE(m.backup("/full").files.empty()) << "it was not changed under this log";
    put(m, r, 1, "2");
    expect_not_backed_up(m);
  });
  EXPECT_EQ(in("/whole", "seg"), std::string("12\0", 3));
}

TEST_F(segment_moved, to_another_log_and_back_is_in_no_incremental_backup) {
  with("/d/log", "seg", 0, "1", [&](memory& m, region&) { (void)m.backup("/full"); });
  with("/d/other", "seg", 1, "2");
  with("/d/log", "seg", 2, "3", [&](memory& m, region&) { expect_not_backed_up(m); });
  EXPECT_EQ(in("/whole", "seg"), "123");
  expect_error(errc::no_history, {"under another log"},
               [&] { (void)restore("/full", "/copy", {.log = "/d/log", .disk = &disk}); });
}

TEST_F(segment_moved, to_another_name_is_in_a_full_backup) {
  with("/d/log", "old", 0, "1");
  disk.rename("/d/old", "/d/new");
  // Nobody has opened it under its new name yet.
  EXPECT_EQ(memory("/d/log", archived()).backup("/without").gone, std::vector<std::string>{"old"});
  with("/d/log", "new", 1, "", [&](memory& m, region& r) {
    EXPECT_EQ(m.backup("/full").files, std::vector<std::string>{"/full/new"});
    put(m, r, 1, "2");
    (void)m.backup("/since", {.since = "/full"});
    expect_error(errc::no_history, {"new", "was renamed", "take a full backup"},
                 [&] { (void)m.backup("/since_without", {.since = "/without"}); });
  });
  (void)restore("/full", "/copy", {.increments = {"/since"}, .disk = &disk});
  EXPECT_EQ(in("/copy", "new"), std::string("12\0", 3));
  expect_error(errc::no_history, {"new", "renamed"},
               [&] { (void)restore("/without", "/none", {.log = "/d/log", .disk = &disk}); });
}

TEST_F(segment_moved, to_another_name_keeps_it_when_another_one_has_the_old_name) {
  with("/d/log", "seg", 0, "1", [&](memory& m, region&) { (void)m.backup("/full"); });
  disk.rename("/d/seg", "/d/moved");
  with("/d/log", "moved", 1, "2");
  with("/d/log", "seg", 0, "3", [&](memory& m, region&) { (void)m.backup("/since", {.since = "/full"}); });
  for (const bool by_log : {false, true}) {
    restore_options how{.disk = &disk};
    (by_log ? how.log : how.increments.emplace_back()) = by_log ? "/d/log" : "/since";
    const std::string to = by_log ? "/of_log" : "/of_both";
    EXPECT_EQ(restore("/full", to, how).gone, std::vector<std::string>());
    EXPECT_EQ(in(to, "moved"), std::string("12\0", 3));
    EXPECT_EQ(in(to, "seg"), std::string("3\0\0", 3));
  }
}

// Its new name is not known: nothing was written to it since.
TEST_F(segment_moved, without_a_change_is_reported_when_another_one_has_its_name) {
  with("/d/log", "seg", 0, "1", [&](memory& m, region&) { (void)m.backup("/full"); });
  disk.rename("/d/seg", "/d/moved");
  with("/d/log", "seg", 0, "3", [&](memory& m, region&) { (void)m.backup("/since", {.since = "/full"}); });
  EXPECT_EQ(restore("/full", "/copy", {.increments = {"/since"}, .disk = &disk}).gone, std::vector<std::string>{"seg"});
  EXPECT_EQ(in("/copy", "seg"), std::string("3\0\0", 3));
}

TEST_F(segment_moved, to_the_name_of_a_removed_one_is_backed_up) {
  with("/d/log", "one", 0, "1");
  with("/d/log", "two", 0, "2");
  disk.remove("/d/two");
  disk.rename("/d/one", "/d/two");
  with("/d/log", "two", 1, "", [&](memory& m, region&) { (void)m.backup("/full"); });
  EXPECT_EQ(in("/full", "two"), std::string("1\0\0", 3));
}

}  // namespace
}  // namespace tenure::rvm
