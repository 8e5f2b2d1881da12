// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Restoring, and incremental backups: what they are made of, what is refused, and what failures and crashes leave. Random
// programs are in restore_model_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "records/group.hpp"
#include "records/log_reader.hpp"
#include "replay/backup.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

const std::string backed_up_log = "/d/log";

// A log with an archive, a full backup, and two incremental ones; a segment is made between them.
struct chain {
  explicit chain(bool is_archived = true) {
    options how = small_log(&disk);
    how.background = false;
    if (is_archived) how.archive = archive_options{};
    m.emplace(backed_up_log, how);
    m->create_segment("/d/one", {.length = 64 * kib, .max_length = mib});
    regions.push_back(m->map("/d/one", {.reserve = true}));
    commit("first");
    full = m->backup("/full");
    commit("second");
    m->grow_segment("/d/one", 256 * kib);
    commit("third", 200 * kib);
    m->truncate();
    if (is_archived) first = m->backup("/inc1", {.since = "/full"});
    m->create_segment("/d/sub/two", {.length = 64 * kib, .member = true});
    regions.push_back(m->map("/d/sub/two"));
    commit("fourth", 100, 1);
    if (is_archived) second = m->backup("/inc2", {.since = "/inc1"});
    commit("fifth", 300);
  }
  void commit(const std::string& label, std::size_t at = 100, std::size_t in = 0) {
    m->transact([&](transaction& tx) {
      tx.label(label);
      tx.modify(regions[0].data(), (label + "          ").data(), 8);
      tx.modify(regions[in].data() + at, label.data(), label.size());
    });
  }
  // As it is found when the program is gone.
  [[nodiscard]] std::unique_ptr<sim::disk> left() const { return disk.crash(1, sim::policy::keep_all); }

  sim::disk disk;
  std::optional<memory> m;
  std::vector<region> regions;
  backup_report full, first, second;
};

// The last commit of what is in a directory; "": it does not open.
std::string last_commit_in(sim::disk& disk, const std::string& directory) {
  if (!disk.exists(directory + "/log")) return "";
  memory m(directory + "/log", small_log(&disk, open_mode::open));
  EXPECT_TRUE(m.verify_segment(directory + "/one").empty());
  const region r = m.map(directory + "/one");
  std::string text = get(r, 0, 8);
  text.erase(std::min(text.find_last_not_of(' ') + 1, text.size()));
  if (text == "fourth" || text == "fifth") {
    EXPECT_EQ(get(r, 200 * kib, 5), "third");
    EXPECT_EQ(get(m.map(directory + "/sub/two"), 100, 6), "fourth");
    EXPECT_EQ(m.members().size(), 1U);
  } else {
    EXPECT_FALSE(disk.exists(directory + "/sub/two"));
  }
  return text;
}

TEST(restore, rolls_forward_through_increments_archive_and_log) {
  chain of;
  const auto to = [&](const restore_options& how, const std::string& label) {
    const auto disk = of.left();
    restore_options all = how;
    all.disk = disk.get();
    const backup_report made = restore("/full", "/r", all);
    EXPECT_EQ(made.label, label);
    EXPECT_EQ(last_commit_in(*disk, "/r"), label);
    EXPECT_NE(log_files::open_unlocked(*disk, "/r/log")->id(), log_files::open_unlocked(*disk, backed_up_log)->id());
    EXPECT_EQ(log_files::open_unlocked(*disk, "/full/log")->status().tail, of.full.tail) << "it is not changed";
    return made;
  };
  EXPECT_EQ(to({}, "first").tail, of.full.tail);
  EXPECT_EQ(to({.increments = {"/inc1"}}, "third").tail, of.first.tail);
  EXPECT_EQ(to({.increments = {"/inc2", "/inc1"}}, "fourth").tail, of.second.tail);
  EXPECT_EQ(to({.log = backed_up_log}, "fifth").transactions, 4U);
  to({.log = backed_up_log, .archive = "/d/log.archive"}, "fifth");
  EXPECT_EQ(to({.archive = "/d/log.archive"}, "third").transactions, 2U);
  to({.increments = {"/inc1", "/inc2"}, .log = backed_up_log}, "fifth");
  to({.log = backed_up_log, .until = {.position = of.second.tail}}, "fourth");
  to({.log = backed_up_log, .until = {.transaction = of.first.transaction}}, "third");
  to({.log = backed_up_log, .until = {.transaction = of.full.transaction}}, "first");
  to({.log = backed_up_log, .until = {.time = of.second.time + 1'000'000'000'000}}, "fifth");
}

// The new log has another identity: what is committed in it is another history.
TEST(restore, makes_a_log_that_the_originals_archive_and_backups_do_not_belong_to) {
  chain of;
  const auto disk = of.left();
  (void)restore("/full", "/r", {.increments = {"/inc1"}, .disk = disk.get()});
  {
    options how = small_log(disk.get(), open_mode::open);
    how.archive = archive_options{};
    memory m("/r/log", how);
    region r = m.map("/r/one");
    put(m, r, 0, "other");
    m.truncate();
    put(m, r, 8, "more");
    expect_error(errc::wrong_log, {"/inc1", "another log"}, [&] { (void)m.backup("/no", {.since = "/inc1"}); });
    (void)m.backup("/own");
    put(m, r, 0, "later");
    (void)m.backup("/own_inc", {.since = "/own"});
  }
  expect_error(errc::wrong_log, {"/r/log", "is not the log"},
               [&] { (void)restore("/full", "/no", {.log = "/r/log", .disk = disk.get()}); });
  expect_error(errc::wrong_log, {"/r/log.archive", "no archive"},
               [&] { (void)restore("/full", "/no", {.archive = "/r/log.archive", .disk = disk.get()}); });
  expect_error(errc::wrong_log, {"/own_inc", "another log"},
               [&] { (void)restore("/full", "/no", {.increments = {"/own_inc"}, .disk = disk.get()}); });
  (void)restore("/own", "/again", {.increments = {"/own_inc"}, .disk = disk.get()});
  memory m("/again/log", small_log(disk.get(), open_mode::open));
  EXPECT_EQ(get(m.map("/again/one"), 0, 5), "later");
  EXPECT_FALSE(disk->exists("/no/log"));
}

TEST(restore, says_what_is_missing) {
  chain of;
  const auto refused = [&](auto code, std::initializer_list<std::string> parts, restore_options how,
                           const std::function<void(sim::disk&)>& change = {}, const std::string& from = "/full") {
    const auto disk = of.left();
    if (change) change(*disk);
    how.disk = disk.get();
    expect_error(code, parts, [&] { (void)restore(from, "/r", how); });
    EXPECT_FALSE(disk->exists("/r/log"));
  };
  const auto at = [](lsn position) { return std::to_string(position); };
  refused(errc::no_history, {at(of.full.tail), at(of.first.tail), "are missing"}, {.increments = {"/inc2"}});
  refused(errc::no_history, {at(of.full.tail), "are missing"}, {.log = backed_up_log, .archive = ""},
          [](sim::disk& disk) { disk.remove("/d/log.archive.1"); });
  refused(errc::bad_option, {"is of later than LSN " + at(of.full.tail - 1)},
          {.until = {.position = of.full.tail - 1}});
  refused(errc::bad_option, {"is of later than the time"}, {.log = backed_up_log, .until = {.time = 1}});
  refused(errc::no_history, {"is not reached", at(of.first.tail), "\"third\""},
          {.increments = {"/inc1"}, .until = {.position = of.first.tail + 1}});
  refused(errc::no_history, {"is not passed", "\"third\""},
          {.increments = {"/inc1"}, .until = {.time = of.second.time + 1'000'000'000'000}});
  refused(errc::no_history, {"transaction 77"}, {.log = backed_up_log, .until = {.transaction = 77}});
  refused(errc::bad_option, {"give one"}, {.log = backed_up_log, .until = {.position = 1, .transaction = 2}});
  refused(errc::bad_option, {"/inc1", "give the full one first"}, {}, {}, "/inc1");
  refused(errc::bad_option, {"/full", "only the first one"}, {.increments = {"/full"}});
  refused(errc::not_a_log, {"/d: no backup is there"}, {}, {}, "/d");
  refused(errc::segment_missing, {"/full/one", "is missing"}, {}, [](sim::disk& disk) { disk.remove("/full/one"); });
  refused(errc::segment_missing, {"sub/two", "made after the backup"}, {.archive = "/d/log.archive"},
          [](sim::disk& disk) {
            options how = small_log(&disk);
            how.archive = archive_options{};
            memory m(backed_up_log, how);  // recovery moves the rest to the archive
          });
  refused(std::errc::file_exists, {"/r: is not empty"}, {}, [](sim::disk& disk) { disk.install("/r/any", {}); });
  refused(errc::wrong_log, {"/full", "opened and changed"}, {}, [](sim::disk& disk) {
    memory m("/full/log", small_log(&disk, open_mode::open));
    region r = m.map("/full/one");
    put(m, r, 0, "x");
  });
  // Damage, where it is needed and where it is not.
  const auto damage = [](const std::string& path, std::uint64_t from_end) {
    return [=](sim::disk& disk) {
      auto bytes = disk.current_bytes(path);
      bytes[bytes.size() - from_end] ^= std::byte{1};
      disk.install(path, bytes);
    };
  };
  refused(errc::damaged, {"/inc1/log.archive.1"}, {.increments = {"/inc1"}}, damage("/inc1/log.archive.1", 20));
  refused(errc::damaged, {"/inc1/log.backup"}, {.increments = {"/inc1"}}, damage("/inc1/log.backup", 20));
  refused(errc::damaged, {"/full/log.backup"}, {}, damage("/full/log.backup", 100));
  const auto disk = of.left();
  damage("/inc1/log.archive.1", 20)(*disk);
  (void)restore("/full", "/r", {.increments = {"/inc1", "/inc2"}, .log = backed_up_log, .disk = disk.get()});
  EXPECT_EQ(last_commit_in(*disk, "/r"), "fifth") << "the archive has it, too";
}

// A page of the backup that the log changes in part, and one that it does not change.
TEST(restore, does_not_take_damaged_pages_for_whole_ones) {
  chain of;
  const std::uint64_t data = read_segment_header(of.disk, "/full/one").data_offset;
  const auto restored_with = [&](std::uint64_t offset, bool as_it_is) {
    const auto disk = of.left();
    auto bytes = disk->current_bytes("/full/one");
    bytes[data + offset] ^= std::byte{1};
    disk->install("/full/one", bytes);
    (void)restore("/full", "/r", {.increments = {"/inc1"}, .with_damaged_pages = as_it_is, .disk = disk.get()});
  };
  expect_error(errc::damaged, {"/r/one", "offset 0 ", "/full"}, [&] { restored_with(2000, true); });
  expect_error(errc::damaged, {"/r/one", "offset 40960 ", "/full"}, [&] { restored_with(40960 + 7, false); });
}

// What is missing would be zeros, which look like pages that were never used, where their checksums are missing, too.
TEST(restore, does_not_take_what_was_cut_off_for_zeros) {
  const chain of;
  const std::uint64_t whole = of.disk.current_bytes("/full/one").size();
  for (const std::uint64_t left : {whole - 512, whole / 2, 3 * page, 2 * page, page}) {
    SCOPED_TRACE(left);
    const auto disk = of.left();
    disk->open("/full/one", os::access::read_write)->resize(left);
    expect_error(errc::segment_too_short, {"/full/one", "cut off"},
                 [&] { (void)restore("/full", "/r", {.disk = disk.get()}); });
    EXPECT_FALSE(disk->exists("/r/log"));
  }
}

// What is zeros in a segment that has grown is in no record.
TEST(restore, makes_segments_as_long_as_they_were) {
  chain of;
  region& r = of.regions[0];
  put(*of.m, r, 0, "named", commit_mode::no_flush);
  of.m->grow_segment("/d/one", 512 * kib);
  put(*of.m, r, 0, "grown", commit_mode::no_flush);
  put(*of.m, r, 0, "last");
  (void)restore("/full", "/r", {.log = backed_up_log, .disk = &of.disk});
  memory m("/r/log", small_log(&of.disk, open_mode::open));
  EXPECT_EQ(m.segment_length("/r/one"), 512 * kib);
}

// A copy of the log from before the backup went on in another way: its LSNs are no place in the backup's past.
TEST(restore, of_a_log_with_another_past_is_refused) {
  chain of(false);
  const auto before = of.left();
  (void)of.m->backup("/later");
  of.commit("sixth");
  const backup_report later = of.m->backup("/later2");
  for (const std::string& name : of.disk.names())
    if (name.starts_with("/later2/")) before->install(name, of.disk.current_bytes(name));
  options how = small_log(before.get(), open_mode::open);
  how.copied = copied_files::adopt;
  how.background = false;
  memory m(backed_up_log, how);
  region r = m.map("/d/one");
  put(m, r, 0, std::string(40 * kib, 'x'));
  put(m, r, 0, "after");
  ASSERT_GT(m.backup("/other").tail, later.tail);
  expect_error(errc::wrong_log, {"another past", std::to_string(later.tail)},
               [&] { (void)m.backup("/inc", {.since = "/later2"}); });
  expect_error(errc::wrong_log, {"another past", std::to_string(later.tail)},
               [&] { (void)restore("/later2", "/r", {.log = backed_up_log, .disk = before.get()}); });
  EXPECT_FALSE(before->exists("/r/log"));
}

TEST(restore, does_not_skip_what_a_closed_log_had) {
  chain of(false);
  of.m.reset();
  sim::disk& disk = of.disk;
  {
    memory m(backed_up_log, small_log(&disk));
    region r = m.map("/d/one");
    put(m, r, 0, "before  ");
    (void)m.backup("/later");
    for (const char* text : {"sixth   ", "seventh ", "eighth  "}) put(m, r, 0, text);
  }
  // The log was closed: what it had is gone, and without an archive nothing leads from the backup to now.
  expect_error(errc::no_history, {"are missing"},
               [&] { (void)restore("/later", "/r", {.log = backed_up_log, .disk = &disk}); });
  (void)restore("/later", "/r", {.disk = &disk});
  EXPECT_EQ(get(memory("/r/log", small_log(&disk, open_mode::open)).map("/r/one"), 0, 6), "before");
}

TEST(restore, that_fails_or_loses_power_anywhere_leaves_nothing_that_opens) {
  chain of;
  const restore_options how{.increments = {"/inc1"}, .log = backed_up_log};
  for (std::uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    const auto disk = of.left();
    restore_options all = how;
    all.disk = disk.get();
    disk->inject({.path = "/r", .nth = nth, .error = ENOSPC});
    bool is_done = false;
    try {
      (void)restore("/full", "/r", all);
      is_done = true;
    } catch (const error&) {
    }
    disk->clear_faults();
    const std::string found = last_commit_in(*disk, "/r");
    EXPECT_TRUE(found == "fifth" || (found.empty() && !is_done)) << found;
    EXPECT_TRUE(find_holds(*disk, backed_up_log).empty());
    if (is_done) break;
    if (found.empty()) {
      EXPECT_EQ(disk->names_in("/r"), std::vector<std::string>());
    }
    ASSERT_LT(nth, 1000U);
  }
  std::uint64_t opened = 0;
  const std::uint64_t operations = [&] {
    const auto disk = of.left();
    restore_options all = how;
    all.disk = disk.get();
    (void)restore("/full", "/r", all);
    return disk->operations();
  }();
  for (std::uint64_t nth = 1; nth <= operations; ++nth)
    for (const auto what : {sim::policy::random, sim::policy::drop_all, sim::policy::keep_all}) {
      SCOPED_TRACE(nth);
      const auto disk = of.left();
      restore_options all = how;
      all.disk = disk.get();
      disk->crash_at(nth);
      try {
        (void)restore("/full", "/r", all);
      } catch (const sim::power_failure&) {
      } catch (const error&) {
      }
      const auto left = disk->crash(nth, what);
      const std::string found = last_commit_in(*left, "/r");
      EXPECT_TRUE(found == "fifth" || found.empty()) << found;
      opened += found == "fifth";
      // Nor is a new log made beside what is there.
      if (found.empty() && !left->names_in("/r").empty())
        expect_error(errc::damaged, {"/r", "a restore", "remove this directory"},
                     [&] { memory("/r/log", small_log(left.get())); });
      EXPECT_EQ(last_commit_in(*left, "/full"), "first");
    }
  EXPECT_GT(operations, 20U);
  EXPECT_LT(opened, 30U) << "only at the end";
}

// --- Incremental backups ---

TEST(incremental_backup, that_fails_or_loses_power_anywhere_is_none) {
  chain of;
  of.m->truncate();
  of.commit("sixth");
  const auto check = [](sim::disk& disk, bool is_done) {
    if (!disk.exists("/inc3/log.backup")) {
      EXPECT_FALSE(is_done);
      expect_error(errc::not_a_log, {"/inc3"}, [&] {
        (void)restore("/full", "/r", {.increments = {"/inc1", "/inc2", "/inc3"}, .disk = &disk});
      });
      return false;
    }
    (void)restore("/full", "/r", {.increments = {"/inc1", "/inc2", "/inc3"}, .disk = &disk});
    EXPECT_EQ(get(memory("/r/log", small_log(&disk, open_mode::open)).map("/r/one"), 0, 5), "sixth");
    return true;
  };
  std::uint64_t operations = 0, whole = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    const auto disk = of.left();
    disk->inject({.path = "/inc3", .nth = nth, .error = EIO});
    bool is_done = false;
    try {
      (void)back_up(*disk, backed_up_log, "/inc3", {.since = "/inc2"});
      is_done = true;
    } catch (const error&) {
    }
    operations = disk->operations();
    disk->clear_faults();
    EXPECT_TRUE(find_holds(*disk, backed_up_log).empty());
    (void)check(*disk, is_done);
    if (is_done) break;
    ASSERT_LT(nth, 1000U);
  }
  for (std::uint64_t nth = 1; nth <= operations; ++nth) {
    SCOPED_TRACE(nth);
    const auto disk = of.left();
    disk->crash_at(nth);
    try {
      (void)back_up(*disk, backed_up_log, "/inc3", {.since = "/inc2"});
    } catch (const sim::power_failure&) {
    } catch (const error&) {
    }
    whole += check(*disk->crash(nth), false);
  }
  EXPECT_LT(whole, operations / 2);
}

TEST(incremental_backup, needs_the_log_to_reach_back_to_the_earlier_one) {
  chain of(false);  // it was truncated
  expect_error(errc::no_history,
               {backed_up_log, std::to_string(of.full.tail), "are missing", "take a full backup", "archive"},
               [&] { (void)of.m->backup("/inc", {.since = "/full"}); });
  EXPECT_TRUE(of.disk.names_in("/inc").empty() || !of.disk.exists("/inc/log.backup"));
  EXPECT_TRUE(find_holds(of.disk, backed_up_log).empty());
  // As long as nothing is truncated, no archive is needed. What is there is the state after the last commit.
  const backup_report again = of.m->backup("/full2");
  const backup_report none = of.m->backup("/none", {.since = "/full2", .verify = true});
  EXPECT_EQ(none.tail, again.tail);
  EXPECT_TRUE(none.files.empty());
  of.commit("sixth");
  const backup_report made = of.m->backup("/inc3", {.since = "/none", .verify = true});
  EXPECT_EQ(made.label, "sixth");
  EXPECT_EQ(made.transactions, 1U);
  const backup_report to = restore("/full2", "/r", {.increments = {"/none", "/inc3"}, .disk = &of.disk});
  EXPECT_EQ(to.label, "sixth");
  EXPECT_EQ(to.tail, made.tail);
}

// The log is held until all of it was read.
TEST(incremental_backup, of_a_log_that_is_truncated_meanwhile) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log.size = 64 * kib;
  how.background = false;
  how.tune.truncation_threshold = 2;
  memory m(backed_up_log, how);
  region r = m.map("/d/one", {.create_length = 64 * kib});
  put(m, r, 0, "first");
  (void)m.backup("/full");
  for (std::size_t n = 0; n < 5; ++n) put(m, r, n * 4096, std::string(4096, 'x'));
  put(m, r, 0, "second");
  bool busy = false;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (busy || at.kind == sim::operation::create || at.kind == sim::operation::write) return;
    busy = true;
    for (std::size_t n = 0; n < 40; ++n) put(m, r, 8192 + n * 1024, std::string(4096, 'y'));
    m.truncate();
    busy = false;
  });
  (void)back_up(disk, backed_up_log, "/inc", {.since = "/full"});
  disk.on_operation({});
  (void)restore("/full", "/r", {.increments = {"/inc"}, .disk = &disk});
  memory restored("/r/log", small_log(&disk, open_mode::open));
  EXPECT_EQ(get(restored.map("/r/one"), 0, 6), "second");
}

TEST(incremental_backup, refuses_what_was_written_in_bulk_past_the_log) {
  chain of(false);
  (void)of.m->backup("/full2");
  const std::string text(4 * page, 'B');
  const os::const_bytes bytes = std::as_bytes(std::span(text));
  of.m->transact([&](transaction& tx) { tx.write_bulk(of.regions[0], 64 * kib, {&bytes, 1}); });
  expect_error(errc::no_history, {"/d/log", "one", "in bulk", "full backup"},
               [&] { (void)of.m->backup("/inc", {.since = "/full2"}); });
  expect_error(errc::no_history, {"one", "in bulk", "before LSN"},
               [&] { (void)restore("/full2", "/r", {.log = backed_up_log, .disk = &of.disk}); });
  const backup_report before = restore(
      "/full2", "/r", {.log = backed_up_log, .until = {.position = of.m->backup("/x").tail - 4096}, .disk = &of.disk});
  EXPECT_EQ(before.label, "fifth");
}

// A full backup has what was changed under the log before. Of a raw segment, nothing else has the bytes that were not.
TEST(incremental_backup, refuses_raw_segments_that_the_full_one_does_not_have) {
  sim::disk disk;
  disk.install("/d/raw", std::vector<std::byte>(64 * kib, std::byte{'q'}));
  options how = small_log(&disk);
  how.background = false;
  memory m("/d/log", how);
  region one = m.map("/d/one", {.create_length = 64 * kib});
  put(m, one, 0, "first");
  (void)m.backup("/full");
  region raw = m.map("/d/raw", {.raw = true});
  put(m, raw, 5000, "second");
  expect_error(errc::no_history, {"raw", "first changed after", "full backup"},
               [&] { (void)m.backup("/inc", {.since = "/full"}); });
  expect_error(errc::segment_missing, {"raw", "behind the backup", "full backup"},
               [&] { (void)restore("/full", "/r", {.log = "/d/log", .disk = &disk}); });
  (void)m.backup("/full2");
  put(m, raw, 5000, "third!");
  (void)m.backup("/inc2", {.since = "/full2"});
  EXPECT_EQ(restore("/full2", "/r2", {.increments = {"/inc2"}, .disk = &disk}).transactions, 1U);
  EXPECT_EQ(disk.current_bytes("/r2/raw"), [&] {
    std::vector<std::byte> bytes(64 * kib, std::byte{'q'});
    std::memcpy(bytes.data() + 5000, "third!", 6);
    return bytes;
  }());
}

TEST(incremental_backup, has_raw_segments_too) {
  sim::disk disk;
  disk.install("/d/raw", std::vector<std::byte>(64 * kib));
  options how = small_log(&disk);
  how.background = false;
  memory m(backed_up_log, how);
  region r = m.map("/d/raw", {.raw = true});
  put(m, r, 0, "one");
  (void)m.backup("/full");
  put(m, r, 5000, "two");
  (void)m.backup("/inc", {.since = "/full"});
  (void)restore("/full", "/r", {.increments = {"/inc"}, .disk = &disk});
  memory restored("/r/log", small_log(&disk, open_mode::open));
  const region found = restored.map("/r/raw", {.raw = true});
  EXPECT_EQ(get(found, 0, 3) + get(found, 5000, 3), "onetwo");
}

// Two backups of one log may not be mixed, although their segments are the same ones.
TEST(restore, refuses_segments_of_another_moment) {
  chain of;
  (void)of.m->backup("/later");
  const auto with = [&](const std::string& from) {
    const auto disk = of.left();
    disk->install("/full/one", disk->current_bytes(from));
    (void)restore("/full", "/r", {.disk = disk.get()});
  };
  expect_error(errc::wrong_log, {"/full/one", "put that one back"}, [&] { with("/later/one"); });
  expect_error(errc::wrong_log, {"/full/one", "put that one back"}, [&] { with("/d/one"); });
  with("/full/one");
}

// A transaction that changes two segments has two records. A position in either of them is behind it.
TEST(restore, goes_to_the_position_of_any_record) {
  chain of;
  std::vector<lsn> records;
  of.m->transact([&](transaction& tx) {
    tx.label("both");
    tx.modify(of.regions[0].data(), "fifth     ", 8);
    tx.modify(of.regions[1].data() + 8, "both", 4);
  });
  const auto log = log_files::open_unlocked(of.disk, backed_up_log);
  scan_groups(*log, log->status().head, find_tail(*log, log->status()).tail,
              [&](const group_header& header, os::const_bytes bytes) {
                const group_view group(bytes, header, "");
                for (const transaction_view& tx : group.transactions())
                  if (tx.label == "both") records.push_back(header.lsn + tx.at);
                return true;
              });
  ASSERT_EQ(records.size(), 2U);
  for (const lsn at : {records[0], records[1], records[0] - 1}) {
    const auto disk = of.left();
    const backup_report made =
        restore("/full", "/r", {.log = backed_up_log, .until = {.position = at}, .disk = disk.get()});
    EXPECT_EQ(made.label, at < records[0] ? "fifth" : "both");
  }
}

// Lazy commits of one batch, some of which left nothing in the log.
TEST(restore, says_what_it_leaves_out) {
  chain of;
  std::vector<lsn> records;
  for (int n = 0; n < 40; ++n)
    of.m->transact([&](transaction& tx) { tx.modify(of.regions[0].data() + 3000 + n % 4, "x", 1); },
                   commit_mode::no_flush);
  of.m->transact([&](transaction& tx) { tx.modify(of.regions[0].data() + 5000, "last", 4); }, commit_mode::no_flush);
  of.m->flush();
  const auto log = log_files::open_unlocked(of.disk, backed_up_log);
  bool is_of_all = true;
  scan_groups(*log, log->status().head, find_tail(*log, log->status()).tail,
              [&](const group_header& header, os::const_bytes bytes) {
                const group_view group(bytes, header, "");
                records.clear();
                for (const transaction_view& tx : group.transactions()) records.push_back(header.lsn + tx.at);
                is_of_all = (header.flags & group_of_all) != 0;
                return true;
              });
  ASSERT_FALSE(is_of_all);
  ASSERT_GT(records.size(), 2U);
  const auto left_out = [&](lsn position) {
    const auto disk = of.left();
    return restore("/full", "/r", {.log = backed_up_log, .until = {.position = position}, .disk = disk.get()}).left_out;
  };
  EXPECT_EQ(left_out(records[0]), 1U);
  EXPECT_EQ(left_out(records[records.size() - 2]), records.size() - 1);
  EXPECT_EQ(left_out(records.back()), 0U);
}

TEST(restore, needs_no_archive_that_does_not_exist_yet) {
  chain of(false);
  const backup_report later = of.m->backup("/later");
  of.commit("sixth");
  const auto disk = of.left();
  EXPECT_EQ(restore("/later", "/r", {.log = backed_up_log, .archive = "/d/none", .disk = disk.get()}).label, "sixth");
  expect_error(errc::wrong_log, {"/d/none", "no archive"},
               [&] { (void)restore("/full", "/r2", {.archive = "/d/none", .disk = disk.get()}); });
}

// An older copy of the log was put back, beside an archive that has what came after it.
TEST(restore, increments_continue_no_archive_of_another_future) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  how.archive = archive_options{.path = "/archive"};
  const auto run = [&](const std::string& with) {
    memory m("/d/log", how);
    region r = m.map("/d/one", {.create_length = 64 * kib});
    for (int n = 0; n < 20; ++n) put(m, r, 0, with + std::to_string(n));
    m.truncate();
  };
  run("a");
  (void)back_up(disk, "/d/log", "/full", {});
  run("b");
  const auto older = disk.crash(1, sim::policy::keep_all);
  run("c");
  for (const std::string& name : disk.names())
    if (name.starts_with("/d/")) disk.remove(name);
  for (const std::string& name : older->names())
    if (name.starts_with("/d/")) disk.install(name, older->current_bytes(name));
  expect_error(errc::wrong_log, {"/d/log", "/archive", "older copy"},
               [&] { (void)back_up(disk, "/d/log", "/no", {.since = "/full", .archive = "/archive"}); });
}

TEST(restore, increments_continue_only_what_is_whole) {
  chain of;
  const auto refused = [&](errc code, const std::string& earlier, const std::function<void(sim::disk&)>& change) {
    const auto disk = of.left();
    change(*disk);
    expect_error(code, {earlier}, [&] { (void)back_up(*disk, backed_up_log, "/no", {.since = earlier}); });
    EXPECT_FALSE(disk->exists("/no/log.backup"));
  };
  refused(errc::wrong_log, "/full", [](sim::disk& on) {
    memory m("/full/log", small_log(&on, open_mode::open));
    region r = m.map("/full/one");
    put(m, r, 0, "changed");
  });
  refused(errc::damaged, "/inc1", [](sim::disk& on) { on.remove("/inc1/log.archive.1"); });
}

}  // namespace
}  // namespace tenure::rvm
