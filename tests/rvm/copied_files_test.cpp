// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Files that are not where the log's manifest says, and manifests that are older than the log.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "log/log_files.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

const std::string used_log = "/d/log", used_segment = "/d/seg";

// A log at /d/log with commits that are in the segment and commits that are not, left by a crash.
std::unique_ptr<sim::disk> left_in_use() {
  sim::disk disk;
  options how = small_log(&disk);
  how.tune.truncation_threshold = 2;
  memory m(used_log, how);
  region r = m.map(used_segment, {.create_length = 64 * kib});
  put(m, r, 0, "first");
  m.truncate();
  put(m, r, 8, "second");
  return disk.crash(1, sim::policy::keep_all);
}

// As after `cp`: other files with the same contents.
void copy(sim::disk& disk, const std::string& path) {
  const auto contents = disk.current_bytes(path);
  disk.remove(path);
  disk.install(path, contents);
}

TEST(copied_files, of_a_log_in_use_are_refused_until_they_are_adopted) {
  for (const std::string& path : {used_log, used_log + ".1", used_segment}) {
    SCOPED_TRACE(path);
    const auto disk = left_in_use();
    { EXPECT_EQ(get(memory(used_log, reading(disk.get())).map(used_segment), 8, 6), "second"); }
    copy(*disk, path);
    const errc expected = path == used_segment ? errc::wrong_log : errc::copied;
    for (const open_mode mode : {open_mode::open, open_mode::read_only})
      expect_error(expected, {path, "is a copy", "in use", "tenure adopt /d/log"}, [&] {
        memory m(used_log, small_log(disk.get(), mode));
        (void)m.map(used_segment);
      });
    options how = small_log(disk.get());
    how.copied = copied_files::adopt;
    {
      how.mode = open_mode::read_only;
      memory m(used_log, how);
      EXPECT_EQ(get(m.map(used_segment), 8, 6), "second");
    }
    how.mode = open_mode::open;
    {
      memory m(used_log, how);
      region r = m.map(used_segment);
      EXPECT_EQ(get(r, 0, 5) + get(r, 8, 6), "firstsecond");
      put(m, r, 16, "third");
    }
    memory m(used_log, small_log(disk.get()));
    EXPECT_EQ(get(m.map(used_segment), 16, 5), "third");
  }
}

// It was adopted: from then on its files are where they are.
TEST(copied_files, are_adopted_once_and_for_all) {
  const auto disk = left_in_use();
  for (const std::string& path : {used_log, used_log + ".1", used_segment}) copy(*disk, path);
  options how = small_log(disk.get());
  how.copied = copied_files::adopt;
  how.tune.truncation_threshold = 2;
  std::unique_ptr<sim::disk> left;
  {
    memory m(used_log, how);
    region r = m.map(used_segment);
    put(m, r, 16, "third");
    left = disk->crash(1, sim::policy::drop_all);
  }
  memory m(used_log, small_log(left.get()));
  EXPECT_TRUE(m.recovery().needed);
  EXPECT_EQ(get(m.map(used_segment), 16, 5), "third");
}

TEST(copied_files, of_a_closed_log_are_as_good_as_the_first) {
  const auto disk = left_in_use();
  { const memory m(used_log, small_log(disk.get())); }
  for (int round = 0; round < 2; ++round) {
    for (const std::string& path : {used_log, used_log + ".1", used_segment}) copy(*disk, path);
    // A crash of the copy is recovered, also where the segment was not used.
    options how = small_log(disk.get());
    how.tune.truncation_threshold = 2;
    memory m(used_log, how);
    region r = m.map("/d/other", {.create_length = 4 * kib});
    put(m, r, 0, "other");
    const auto left = disk->crash(1, sim::policy::drop_all);
    memory again(used_log, small_log(left.get()));
    EXPECT_EQ(get(again.map("/d/other"), 0, 5), "other");
    EXPECT_EQ(get(again.map(used_segment), 8, 6), "second");
  }
}

// The manifest says that the log was closed; since then it was opened again.
TEST(copied_files, an_older_manifest_is_refused) {
  for (const bool closed_again : {false, true}) {
    SCOPED_TRACE(closed_again);
    sim::disk disk;
    options how = small_log(&disk);
    how.tune.truncation_threshold = 2;
    {
      memory m(used_log, how);
      region r = m.map(used_segment, {.create_length = 64 * kib});
      put(m, r, 0, "first");
    }
    const auto older = disk.current_bytes(used_log);
    std::unique_ptr<sim::disk> left;
    {
      memory m(used_log, how);
      region r = m.map(used_segment);
      put(m, r, 8, "second");
      if (!closed_again) left = disk.crash(1, sim::policy::drop_all);
    }
    if (closed_again) left = disk.crash(1, sim::policy::drop_all);
    left->install(used_log, older);
    for (const open_mode mode : {open_mode::open, open_mode::read_only})
      expect_error(errc::wrong_log, {used_log, "older copy of the log's manifest", "same moment"},
                   [&] { memory m(used_log, small_log(left.get(), mode)); });
  }
}

// --- Members ---

TEST(members, are_listed_in_the_order_in_which_they_were_made) {
  sim::disk disk;
  const auto names = [&](const memory& m) {
    std::string all;
    for (const segment_member& member : m.members()) all += member.path + (member.is_pending ? "? " : " ");
    return all;
  };
  {
    memory m(used_log, small_log(&disk));
    EXPECT_EQ(names(m), "");
    m.create_segment("/d/one", {.length = 4 * kib, .member = true});
    m.create_segment("/d/none", {.length = 4 * kib});
    m.create_segment("/d/two", {.length = 4 * kib, .member = true});
    EXPECT_EQ(names(m), "/d/one? /d/two? ");
    m.confirm_member("/d/one");
    EXPECT_EQ(names(m), "/d/one /d/two? ");
    EXPECT_EQ(m.members()[0].id, m.describe_segment("/d/one").id);
    region r = m.map("/d/two");
    put(m, r, 0, "two");
    m.truncate();
  }
  {
    memory m(used_log, small_log(&disk));
    EXPECT_EQ(names(m), "/d/one /d/two? ");
    m.confirm_member("/d/two");
    m.drop_member("/d/one");
    EXPECT_EQ(names(m), "/d/two ");
    m.drop_member("/d/one");
    m.confirm_member("/d/none");
    EXPECT_EQ(names(m), "/d/two ");
  }
  EXPECT_EQ(names(memory(used_log, reading(&disk))), "/d/two ");
  memory reader(used_log, reading(&disk));
  expect_error(errc::read_only, {used_log}, [&] { reader.drop_member("/d/two"); });
}

TEST(members, are_as_many_as_the_manifest_has_room_for) {
  sim::disk disk;
  memory m(used_log, small_log(&disk));
  const std::string name = "/d/" + std::string(100, 'x');
  std::size_t made = 0;
  expect_error(errc::too_big, {used_log, "databases", "no room"}, [&] {
    for (;; ++made) m.create_segment(name + std::to_string(made), {.length = 4 * kib, .member = true});
  });
  EXPECT_GT(made, 50U);
  EXPECT_FALSE(disk.exists(name + std::to_string(made)));
  m.drop_member(name + "0");
  m.create_segment(name + "new", {.length = 4 * kib, .member = true});
  m.close();
  EXPECT_EQ(memory(used_log, small_log(&disk)).members().size(), made);
}

// --- A write of the manifest fails ---

TEST(members, are_listed_or_not_after_a_failure) {
  for (const auto what : {sim::effect::fail, sim::effect::lose_writes})
    for (const bool confirming : {false, true}) {
      sim::disk disk;
      {
        memory m(used_log, small_log(&disk));
        if (confirming) m.create_segment("/d/one", {.length = 4 * kib, .member = true});
        disk.inject({.kind = what == sim::effect::fail ? sim::operation::durable_write : sim::operation::sync,
                     .path = used_log,
                     .what = what});
        const auto change = [&] {
          if (confirming)
            m.confirm_member("/d/one");
          else
            m.create_segment("/d/one", {.length = 4 * kib, .member = true});
        };
        try {
          change();
          continue;  // it was no sync of the manifest
        } catch (const error& e) {
          EXPECT_EQ(e.code(), errc::outcome_unknown) << e.what();
        }
        expect_error(errc::outcome_unknown, {used_log}, [&] { m.require_usable(); });
      }
      const auto left = disk.crash(1, sim::policy::drop_all);
      memory m(used_log, small_log(left.get()));
      EXPECT_LE(m.members().size(), 1U);
      if (m.members().empty()) m.create_segment("/d/two", {.length = 4 * kib, .member = true});
    }
}

}  // namespace
}  // namespace tenure::rvm
