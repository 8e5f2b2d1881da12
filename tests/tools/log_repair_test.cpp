// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure log cut | renew: what is damaged or lost can be opened again, and what is given up is said.
#include "log_repair.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "log_command.hpp"
#include "records/format.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/log_image.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"
#include "tools/shown.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using namespace rvm;
using nlohmann::json;

class log_repair : public ::testing::Test {
 protected:
  options how(open_mode mode = open_mode::open) {
    options o = small_log(disk.get(), mode);
    o.background = false;
    o.tune.truncation_threshold = 2;
    return o;
  }
  // Six transactions; the process ends after them.
  void crash(bool truncated = false) {
    memory m("/d/log", how(open_mode::open_or_create));
    const region r = m.map("/d/seg", {.create_length = 64 * kib});
    for (std::uint64_t n = 1; n <= 6; ++n) {
      m.transact([&](transaction& tx) {
        tx.label("number " + std::to_string(n));
        tx.modify(r.at<std::uint64_t>(n * 8), n);
      });
      if (truncated && n == 5) {
        // The sync of the status is lost: pages have what the log still has.
        disk->inject({.kind = sim::operation::durable_write, .path = "/d/log", .count = sim::for_ever});
        EXPECT_ANY_THROW(m.truncate());
        break;
      }
    }
    auto left = disk->crash(1, sim::policy::keep_all);
    disk->power_off();
    disk = std::move(left);
  }
  void clean() {
    memory m("/d/log", how(open_mode::open_or_create));
    const region r = m.map("/d/seg", {.create_length = 64 * kib});
    m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(8), std::uint64_t{1}); });
  }
  // Removes what begins with this path.
  void remove_all(const std::string& path) {
    for (const std::string& file : disk->names())
      if (file.starts_with(path)) disk->remove(file);
  }
  // The place of the nth group, and a byte of it that is damaged.
  lsn damage_group(int n) {
    const auto log = log_files::open_unlocked(*disk, "/d/log");
    lsn at = log->status().head;
    std::vector<std::byte> bytes(sizeof(group_header));
    for (;;) {
      log->read(at, bytes);
      group_header h;
      std::memcpy(&h, bytes.data(), sizeof h);
      if (--n == 0) break;
      at += round_up(h.length, log->block());
    }
    log_image image(*disk, "/d/log");
    image[at + 70] = std::byte{0x77};
    image.install(*disk);
    return at;
  }
  shown cut(lsn at, bool as_json = true) {
    return show([&](std::FILE* out) { return cut_log(*disk, "/d/log", at, {"/d/seg"}, as_json, out); });
  }
  shown renew(bool give_up = false, bool as_json = true) {
    return show([&](std::FILE* out) { return renew_log(*disk, "/d/log", {"/d/seg"}, give_up, as_json, out); });
  }
  std::vector<std::uint64_t> words() {
    memory m("/d/log", how());
    const region r = m.map("/d/seg");
    EXPECT_TRUE(m.verify_segment("/d/seg").empty());
    std::vector<std::uint64_t> all;
    for (std::uint64_t n = 1; n <= 6; ++n) all.push_back(r.at<std::uint64_t>(n * 8));
    m.close();
    return all;
  }
  using list = std::vector<std::uint64_t>;

  std::unique_ptr<sim::disk> disk = std::make_unique<sim::disk>();
};

TEST_F(log_repair, opens_a_log_with_damage_in_its_middle) {
  crash();
  const lsn at = damage_group(4);
  expect_error(errc::damaged, {"tenure log cut --at " + std::to_string(at) + " /d/log"}, [&] { words(); });
  const log_image before(*disk, "/d/log");
  const json done = cut(at).parsed();
  EXPECT_EQ(done["kept"], 3);
  EXPECT_EQ(done["end"], at);
  ASSERT_EQ(done["given_up"].size(), 2u);
  EXPECT_EQ(done["given_up"][0]["label"], "number 5");
  EXPECT_EQ(done["given_up"][1]["label"], "number 6");
  EXPECT_EQ(done["damage"].size(), 1u);
  EXPECT_TRUE(done["mixed"].empty());
  EXPECT_TRUE(disk->current_bytes("/d/log.replaced") == before.manifest);
  EXPECT_TRUE(disk->current_bytes("/d/log.replaced.1") == before.files[0].contents);
  EXPECT_FALSE(disk->exists("/d/log.1"));
  EXPECT_EQ(words(), (list{1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(words(), (list{1, 2, 3, 0, 0, 0}));
}

// [rvm.prepared.log] The head is in the middle of a batch.
TEST_F(log_repair, cuts_a_log_that_begins_with_what_was_prepared) {
  {
    memory m("/d/log", how(open_mode::open_or_create));
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 0, "lazy", commit_mode::no_flush);
    transaction tx = m.begin();
    tx.modify(r.data() + 100, "raised", 6);
    tx.prepare("one");
    m.truncate();
    tx.commit();
    for (std::size_t n = 1; n <= 5; ++n) put(m, r, 4096 * n, "value");
    auto left = disk->crash(1, sim::policy::keep_all);
    disk->power_off();
    disk = std::move(left);
  }
  (void)cut(damage_group(5));  // what is prepared, its commit, three values
  memory m("/d/log", how());
  const region r = m.map("/d/seg");
  EXPECT_EQ(get(r, 0, 4), "lazy");
  EXPECT_EQ(get(r, 100, 6), "raised");
  EXPECT_EQ(get(r, 2 * 4096, 5), "value");
  EXPECT_EQ(get(r, 3 * 4096, 5), std::string(5, 0));
}

TEST_F(log_repair, says_in_words_what_was_given_up) {
  crash();
  const shown text = cut(damage_group(4), false);
  EXPECT_TRUE(text.has("3 transactions are kept")) << text.text;
  EXPECT_TRUE(text.has("GIVEN UP  what was in LSN ")) << text.text;
  EXPECT_TRUE(text.has("transaction 5")) << text.text;
  EXPECT_TRUE(text.has("\"number 6\"")) << text.text;
  EXPECT_TRUE(text.has("/d/log.replaced: the old file")) << text.text;
}

TEST_F(log_repair, does_not_cut_a_log_that_is_whole_nor_elsewhere) {
  crash();
  expect_error(errc::bad_option, {"/d/log", "is whole", "log forget"}, [&] { cut(0); });
  const lsn at = damage_group(4);
  expect_error(errc::bad_option, {"give --at " + std::to_string(at)}, [&] { cut(at + 512); });
  ASSERT_EQ(cut(at).parsed()["kept"], 3);
  expect_error(errc::bad_option, {"is whole"}, [&] { cut(at); });
  expect_error(errc::in_use, {}, [&] {
    memory m("/d/log", how());
    cut(at);
  });
}

// A truncation had written pages with what is given up.
TEST_F(log_repair, says_where_given_up_changes_are_in_a_segment_already) {
  crash(true);
  const lsn at = damage_group(3);
  const json done = cut(at).parsed();
  ASSERT_EQ(done["mixed"].size(), 1u);
  EXPECT_EQ(done["mixed"][0]["segment"], "/d/seg");
  EXPECT_EQ(words(), (list{1, 2, 3, 4, 5, 0}));
}

TEST_F(log_repair, makes_a_log_that_was_lost_after_a_clean_close) {
  clean();
  for (const char* what : {"missing", "empty", "short", "zero"}) {
    SCOPED_TRACE(what);
    const auto whole = disk->current_bytes("/d/log");
    disk->remove("/d/log");
    const std::string kind = what;
    if (kind != "missing") {
      disk->install("/d/log", std::vector<std::byte>(kind == "empty" ? 0 : kind == "short" ? 5000 : whole.size()));
      expect_error(errc::not_a_log, {"tenure log renew /d/log"}, [&] { words(); });
    }
    const json done = renew().parsed();
    EXPECT_TRUE(done["given_up"].empty());
    EXPECT_EQ(done["old_file"], kind == "missing" ? "" : "/d/log.replaced");
    EXPECT_EQ(words(), (list{1, 0, 0, 0, 0, 0}));
    remove_all("/d/log.replaced");
  }
  // Half of it.
  auto half = disk->current_bytes("/d/log");
  half.resize(half.size() / 2);
  disk->install("/d/log", half);
  expect_error(errc::not_a_log, {"16384 bytes", "tenure log renew /d/log"}, [&] { words(); });
  EXPECT_TRUE(renew(false, false).has("a new log, for 1 segments"));
  EXPECT_EQ(words(), (list{1, 0, 0, 0, 0, 0}));
}

// The new log knows them, although it has nothing of them.
TEST_F(log_repair, renewed_has_the_segments_in_its_backups) {
  clean();
  disk->remove("/d/log");
  renew();
  int n = 0;
  const auto has_all = [&](memory& m) {
    const std::string to = "/backup" + std::to_string(++n);
    EXPECT_EQ(m.backup(to).files, std::vector{to + "/seg"});
    memory copy(to + "/log", how());
    EXPECT_EQ(copy.map(to + "/seg").at<std::uint64_t>(8), 1U);
  };
  {
    memory m("/d/log", how());
    has_all(m);
    const region other = m.map("/d/other", {.create_length = 64 * kib});
    m.transact([&](transaction& tx) { tx.modify(other.at<std::uint64_t>(8), std::uint64_t{1}); });
  }
  EXPECT_EQ(words(), (list{1, 0, 0, 0, 0, 0}));
  memory m("/d/log", how());
  EXPECT_EQ(m.backup("/backup").files.size(), 2U);
}

TEST_F(log_repair, makes_a_log_for_segments_that_have_lost_changes_only_if_told) {
  crash();
  expect_error(errc::bad_option, {"/d/log", "not closed", "recovers"}, [&] { renew(); });
  disk->remove("/d/log");
  expect_error(errc::wrong_log, {"/d/seg was not closed cleanly", "--give-up", "Nothing was changed"},
               [&] { renew(); });
  EXPECT_FALSE(disk->exists("/d/log"));
  const json done = renew(true).parsed();
  EXPECT_EQ(done["given_up"], json({"/d/seg"}));
  EXPECT_EQ(words(), (list{0, 0, 0, 0, 0, 0}));
}

TEST_F(log_repair, replaces_nothing_that_is_whole_or_no_log) {
  clean();
  expect_error(errc::bad_option, {"/d/log", "whole", "not replaced"}, [&] { renew(); });
  // A slip of the path.
  expect_error(errc::not_a_log, {"/d/seg", "no log", "Nothing was changed"},
               [&] { show([&](std::FILE* out) { return renew_log(*disk, "/d/seg", {}, true, true, out); }); });
  disk->install("/d/notes", std::vector<std::byte>(20'000, std::byte{'x'}));
  expect_error(errc::not_a_log, {"/d/notes", "no log"},
               [&] { show([&](std::FILE* out) { return renew_log(*disk, "/d/notes", {}, true, true, out); }); });
  EXPECT_FALSE(disk->exists("/d/notes.replaced"));
  EXPECT_EQ(words(), (list{1, 0, 0, 0, 0, 0}));
}

TEST_F(log_repair, lets_no_segment_go_before_it_was_said) {
  crash();
  disk->remove("/d/log");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"), &std::fclose);
  ASSERT_NE(full, nullptr);
  expect_error(std::errc::io_error, {"/d/log", "could not be said", "again"},
               [&] { (void)renew_log(*disk, "/d/log", {"/d/seg"}, true, false, full.get()); });
  expect_error(errc::wrong_log, {"--give-up"}, [&] { renew(); });
  EXPECT_EQ(renew(true).parsed()["given_up"], json({"/d/seg"}));
}

// Wherever it is interrupted: what is given up is said when it is done again, and is not given up without being told to.
TEST_F(log_repair, says_what_is_given_up_after_an_interruption) {
  crash();
  disk->remove("/d/log");
  const auto before = disk->crash(1, sim::policy::keep_all);
  EXPECT_TRUE(renew(true, false).has("GIVEN UP  what the old log had for /d/seg"));
  const std::uint64_t all = disk->operations();
  std::uint64_t refusals = 0;
  for (std::uint64_t at = 1; at <= all; at = at == 6 ? all - 14 : at + 1) {  // between, zeros are written
    disk = before->crash(1, sim::policy::keep_all);
    disk->crash_at(at);
    try {
      (void)renew(true);
    } catch (const sim::power_failure&) {
    }
    disk = disk->crash(at, at % 2 == 0 ? sim::policy::keep_all : sim::policy::drop_all);
    SCOPED_TRACE("operation " + std::to_string(at));
    bool refused = false;
    try {
      (void)renew();
    } catch (const error& e) {
      refused = e.code() == errc::wrong_log;
      EXPECT_TRUE(refused || e.code() == errc::bad_option) << e.what();  // it was done
    }
    refusals += refused;
    if (refused) {
      EXPECT_EQ(renew(true).parsed()["given_up"], json({"/d/seg"}));
    }
    EXPECT_EQ(words(), (list{0, 0, 0, 0, 0, 0}));
  }
  EXPECT_GT(refusals, 3u);
  EXPECT_LT(refusals, 20u);
}

TEST_F(log_repair, cuts_again_what_was_interrupted) {
  crash();
  const lsn at = damage_group(4);
  const auto before = disk->crash(1, sim::policy::keep_all);
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    disk = before->crash(1, sim::policy::keep_all);
    disk->crash_at(n);
    try {
      (void)cut(at);
    } catch (const sim::power_failure&) {
    }
    const bool whole = !disk->is_off();
    disk = disk->crash(n, sim::policy::keep_all);
    try {
      EXPECT_EQ(cut(at).parsed()["kept"], 3);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::bad_option) << e.what();  // it was done
    }
    EXPECT_EQ(words(), (list{1, 2, 3, 0, 0, 0}));
    if (whole) break;
  }
}

// Only the segments of the log that is named are let go.
TEST(log_repair_files, takes_no_segments_of_other_logs) {
  const temp_dir dir;
  for (const char* const name : {"a", "b"}) {
    memory m(dir / (std::string(name) + ".log"), small_log());
    const region r = m.map(dir / (std::string(name) + ".seg"), {.create_length = 64 * kib});
    m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(8), std::uint64_t{1}); });
  }
  const std::vector<std::string> own{dir / "a.seg"};
  EXPECT_EQ(segments_beside(dir / "a.log"), own);
  std::filesystem::remove(dir / "a.log");
  EXPECT_EQ(segments_beside(dir / "a.log"), own);
  std::filesystem::copy_file(dir / "a.seg", dir / "a.seg.replaced");
  EXPECT_EQ(segments_beside(dir / "a.log"), own);
  std::filesystem::copy_file(dir / "a.seg", dir / "a.seg.rewritten");  // by an interrupted rewriting
  EXPECT_EQ(segments_beside(dir / "a.log"), own);
  std::filesystem::copy_file(dir / "a.seg", dir / "a.seg.old");
  expect_error(errc::bad_option, {"a.seg and ", "a.seg.old", "copies of one segment"},
               [&] { (void)segments_beside(dir / "a.log"); });
}

}  // namespace
}  // namespace tenure::tools
