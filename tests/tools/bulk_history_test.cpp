// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What commands say of pages that were written straight to a segment, and the progress they show.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include "history_command.hpp"
#include "log_command.hpp"
#include "progress_line.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "tools/shown.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using namespace rvm;
using nlohmann::json;

constexpr std::size_t page = 4 * kib;

class bulk_history : public ::testing::Test {
 protected:
  void open(bool with_archive) {
    options how = small_log(&disk_);
    if (with_archive) how.archive.emplace();
    how.background = false;
    memory_.emplace("/d/log", how);
    region_ = memory_->map("/d/seg", {.create_length = 64 * kib});
  }
  void change(std::size_t offset, std::string_view text) { put(*memory_, region_, offset, text); }
  void write_bulk(std::size_t number, char with) {
    memory_->transact([&](transaction& tx) {
      tx.label("in bulk");
      std::memset(region_.data() + number * page, with, 2 * page);
      const std::span<const std::byte> whole(region_.data() + number * page, 2 * page);
      tx.write_bulk(region_, number * page, {&whole, 1});
      tx.modify(region_.data(), "count", 5);
    });
  }
  void TearDown() override {
    region_ = {};
    memory_.reset();
  }
  std::string bytes_of(const std::string& copy, std::size_t offset, std::size_t length) {
    const named_segment in = named_segment::look_at(disk_, copy, false);
    std::string text(length, '\0');
    disk_.open(copy, os::access::read_only)
        ->read_at(in.layout.find(offset, length).at, std::as_writable_bytes(std::span(text)));
    return text;
  }
  json changes(const std::string& range) {
    return show([&](std::FILE* out) { return show_history(disk_, {}, range, true, out); }).parsed()["changes"];
  }
  shown replay(lsn until, const std::string& output, const std::string& base = "") {
    return show([&](std::FILE* out) {
      return replay_history(disk_, {}, "/d/seg", std::to_string(until), output, base, true, out);
    });
  }

  shown difference(lsn from, lsn to) {
    return show([&](std::FILE* out) {
      return show_difference(disk_, {}, "/d/seg:0+4096", std::to_string(from), std::to_string(to), true, out);
    });
  }
  // Of the segment, which has all then.
  void copy(const std::string& to) {
    memory_->truncate();
    const auto from = disk_.open("/d/seg", os::access::read_only);
    std::vector<std::byte> all(from->size());
    (void)from->read_at(0, all);
    disk_.create(to, 0600)->write_at(0, all);
  }

  sim::disk disk_;
  std::optional<memory> memory_;
  region region_;
};

TEST_F(bulk_history, log_commands_name_the_extents) {
  open(false);
  write_bulk(4, 'b');
  const shown status = show([&](std::FILE* out) { return show_log_status(disk_, "/d/log", false, out); });
  EXPECT_TRUE(status.has("1 extents, 8192 bytes, written straight to segments")) << status.text;
  EXPECT_TRUE(status.has("1 transactions, 1 ranges")) << status.text;
  const shown text = show([&](std::FILE* out) { return show_log_records(disk_, "/d/log", {}, false, out); });
  EXPECT_TRUE(text.has("offset 16384  length 8192  written in bulk\n")) << text.text;
  EXPECT_TRUE(text.has("offset 0  length 5\n")) << text.text;
  const json records = show([&](std::FILE* out) { return show_log_records(disk_, "/d/log", {}, true, out); }).parsed();
  ASSERT_EQ(records["records"].size(), 2u);
  EXPECT_EQ(records["records"][0]["extents"][0]["offset"], 16384);
  EXPECT_EQ(records["records"][0]["first"], true);
  EXPECT_EQ(records["records"][0]["last"], false);
  EXPECT_EQ(records["records"][1]["ranges"][0]["length"], 5);
  EXPECT_NE(records["records"][0]["lsn"], records["records"][1]["lsn"]);
}

TEST_F(bulk_history, values_are_unknown_from_then_on) {
  open(false);
  change(4 * page + 8, "old");
  write_bulk(4, 'b');
  change(4 * page + 8, "new");
  const json found = changes("/d/seg:16384+4096");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1]["bulk"], true);
  EXPECT_EQ(found[1]["length"], 2 * page);
  EXPECT_EQ(found[2]["old"], "??????");
  const shown searched = show([&](std::FILE* out) {
    return search_history(disk_, {"/d/log", ""}, {.label = "in bulk"}, false, out);
  });
  EXPECT_TRUE(searched.has("written in bulk")) << searched.text;
  EXPECT_FALSE(show([&](std::FILE* out) {
                 return search_history(disk_, {"/d/log", ""}, {.value = "bbb"}, false, out);
               }).has("bulk"));
  const shown difference = show([&](std::FILE* out) {
    return show_difference(disk_, {}, "/d/seg:16384+4096", std::to_string(lsn{found[0]["lsn"]}),
                           std::to_string(lsn{found[2]["lsn"]}), false, out);
  });
  EXPECT_TRUE(difference.has("offset 16384, length 8192: written in bulk\n")) << difference.text;
  EXPECT_TRUE(difference.has("offset 16392, length 3: 6f6c64 -> 6e6577\n")) << difference.text;
}

TEST_F(bulk_history, copies_of_a_moment_say_what_they_lack) {
  open(false);
  change(4 * page + 8, "old");
  const lsn before = changes("/d/seg:16384+4096")[0]["lsn"];
  write_bulk(4, 'b');
  const json found = changes("/d/seg:16384+4096");
  const lsn bulk = found[1]["lsn"];
  // Nothing is newer: the segment has it.
  EXPECT_EQ(replay(bulk + 4000, "/d/now").exit_code, exit_ok);
  EXPECT_EQ(bytes_of("/d/now", 4 * page, 2 * page), std::string(2 * page, 'b'));
  // Before it, only what the history has of the pages is known.
  const shown old = replay(before, "/d/before");
  EXPECT_EQ(old.exit_code, exit_damaged);
  EXPECT_EQ(old.parsed()["unknown_bytes"], 2 * page - 3 + 5);
  EXPECT_EQ(bytes_of("/d/before", 4 * page + 8, 3), "old");
  EXPECT_EQ(bytes_of("/d/before", 5 * page, 1), std::string(1, '\0'));
  // With an older copy, what was written in bulk since is unknown.
  const shown based = replay(bulk + 4000, "/d/based", "/d/before");
  EXPECT_EQ(based.exit_code, exit_damaged);
  EXPECT_EQ(based.parsed()["unknown_bytes"], 2 * page);
}

TEST_F(bulk_history, older_copies_may_be_newer_than_the_moment) {
  open(true);
  change(8, "one");
  change(16, "old");
  const lsn then = changes("/d/seg:16+3")[0]["lsn"];
  change(8, "two");
  change(24, "new");
  copy("/d/newer");
  change(24, "end");
  const shown found = replay(then, "/d/then", "/d/newer");
  EXPECT_EQ(found.exit_code, exit_ok) << found.text;
  EXPECT_EQ(bytes_of("/d/then", 8, 19), "one" + std::string(5, '\0') + "old" + std::string(8, '\0'));
}

// A backup has a log of its own, and its note says which moment it has.
TEST_F(bulk_history, backups_may_be_newer_than_the_moment) {
  open(true);
  change(8, "one");
  const lsn then = changes("/d/seg:8+3")[0]["lsn"];
  change(16, "new");
  (void)memory_->backup("/backup");
  change(8, "end");
  const shown found = replay(then, "/d/then", "/backup/seg");
  EXPECT_EQ(found.exit_code, exit_ok) << found.text;
  EXPECT_EQ(bytes_of("/d/then", 8, 11), "one" + std::string(8, '\0'));
  {  // nobody knows what it has now
    memory other("/backup/log", small_log(&disk_, open_mode::open));
    region changed = other.map("/backup/seg");
    put(other, changed, 24, "other");
  }
  const shown unknown = replay(then, "/d/unknown", "/backup/seg");
  EXPECT_EQ(unknown.exit_code, exit_damaged) << unknown.text;
  EXPECT_EQ(unknown.parsed()["base_unknown"], true);
}

TEST_F(bulk_history, other_segments_are_no_older_copies) {
  open(true);
  change(8, "one");
  const lsn then = changes("/d/seg:8+3")[0]["lsn"];
  {
    memory other("/other/log", small_log(&disk_));
    region of = other.map("/other/seg", {.create_length = 64 * kib});
    put(other, of, 0, "other");
  }
  expect_error(errc::wrong_log, {"/other/seg", "/d/seg", "another segment"},
               [&] { (void)replay(then, "/d/then", "/other/seg"); });
  EXPECT_FALSE(disk_.exists("/d/then"));
}

// Segments that were used before the log was made are not made of zeros.
TEST_F(bulk_history, begins_with_what_segments_had_before_the_log) {
  open(false);
  for (std::size_t n = 0; n < 16; ++n) change(n * page, std::string(200, 'A'));
  region_ = {};
  memory_->close();
  memory_.emplace("/d/other", small_log(&disk_));
  region_ = memory_->map("/d/seg");
  change(400, "later");
  const lsn then = changes("/d/seg:400+5")[0]["lsn"];
  change(100, "later");
  const shown found = replay(then, "/d/then");
  EXPECT_EQ(found.exit_code, exit_damaged) << found.text;
  EXPECT_EQ(found.parsed()["unknown_bytes"], 5);
  change(100, std::string(5, 'B'));
  EXPECT_EQ(replay(then, "/d/older", "/d/then").parsed()["unknown_bytes"], 0);
  const std::vector<std::byte> raw(page, std::byte{'A'});
  disk_.create("/d/raw", 0600)->write_at(0, raw);
  region mapped = memory_->map("/d/raw", {.raw = true});
  put(*memory_, mapped, 8, "later");
  const shown of_raw = show([&](std::FILE* out) {
    return replay_history(disk_, {"/d/other", ""}, "/d/raw", std::to_string(then), "/d/raw.then", "", true, out);
  });
  EXPECT_EQ(of_raw.exit_code, exit_damaged);
  EXPECT_EQ(of_raw.parsed()["unknown_bytes"], 5);
}

TEST_F(bulk_history, moments_before_it_are_not_known) {
  open(false);
  change(8, "one");
  const lsn first = changes("/d/seg:8+3")[0]["lsn"];
  copy("/d/older");
  change(8, "two");
  const lsn second = changes("/d/seg:8+3")[0]["lsn"];
  copy("/d/newer");
  // The segment has what was committed since then, and the log has not.
  const shown before = replay(first, "/d/first");
  EXPECT_EQ(before.exit_code, exit_damaged) << before.text;
  EXPECT_EQ(before.parsed()["begins_later"], true);
  EXPECT_EQ(difference(first, second).exit_code, exit_damaged);
  change(16, "end");
  const json end = changes("/d/seg:16+3");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(difference(lsn{end[0]["lsn"]}, lsn{end[0]["lsn"]}).exit_code, exit_ok);
  // Between what the copy has and what the history has is something.
  const shown older = replay(end[0]["lsn"], "/d/of_older", "/d/older");
  EXPECT_EQ(older.exit_code, exit_damaged) << older.text;
  EXPECT_EQ(older.parsed()["base_too_old"], true);
  const shown newer = replay(end[0]["lsn"], "/d/of_newer", "/d/newer");
  EXPECT_EQ(newer.exit_code, exit_ok) << newer.text;
  EXPECT_EQ(bytes_of("/d/of_newer", 8, 11), "two" + std::string(5, '\0') + "end");
}

TEST_F(bulk_history, with_an_archive_is_whole) {
  open(true);
  write_bulk(4, 'b');
  write_bulk(4, 'c');
  memory_->truncate();
  const json found = changes("/d/seg:16384+1");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1]["old"], "62");
  EXPECT_EQ(found[1]["new"], "63");
  EXPECT_EQ(replay(found[0]["lsn"], "/d/then").exit_code, exit_ok);
  EXPECT_EQ(bytes_of("/d/then", 4 * page, 2 * page), std::string(2 * page, 'b'));
}

// Extents that were in the log before there was an archive get into it.
TEST_F(bulk_history, extents_are_archived_with_their_pages) {
  open(false);
  change(0, "x");
  write_bulk(4, 'b');
  const auto left = disk_.crash(1, sim::policy::keep_all);
  options how = small_log(left.get());
  how.archive.emplace();
  memory again("/d/log", how);
  const json found =
      show([&](std::FILE* out) { return show_history(*left, {}, "/d/seg:20480+10", true, out); }).parsed()["changes"];
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["bulk"], true);
}

TEST(progress, is_shown_after_a_second_and_hidden_before_output) {
  auto now = std::chrono::steady_clock::time_point{};
  const shown text = show([&](std::FILE* out) {
    progress_line line(out, [&] { return now; });
    line.show("reading", 1 << 20, 4 << 20);
    line.hide();
    EXPECT_EQ(std::ftell(out), 0) << "it has not taken long";
    now += std::chrono::milliseconds(1001);
    line.show("reading", 2 << 20, 4 << 20);
    now += std::chrono::milliseconds(100);
    line.show("reading", 3 << 20, 4 << 20);  // too soon
    now += std::chrono::milliseconds(200);
    line.show("reading", 4 << 20, 4 << 20);
    line.hide();
    line.hide();
    return 0;
  });
  EXPECT_EQ(text.text, "\rreading: 2 of 4 MiB, 50 %\x1b[K\rreading: 4 of 4 MiB, 100 %\x1b[K\r\x1b[K");
  progress_line nowhere(nullptr, [&] { return now += std::chrono::hours(1); });
  nowhere.show("reading", 1, 2);
}

// The commands tell how far they are: to the end of what there is.
TEST_F(bulk_history, reading_it_shows_progress) {
  open(true);
  for (int i = 0; i < 20; ++i) change(0, "x" + std::to_string(i));
  memory_->truncate();
  change(0, "y");
  auto now = std::chrono::steady_clock::time_point{};
  const shown text = show([&](std::FILE* err) {
    progress_line line(err, [&] { return now += std::chrono::seconds(2); });
    const shown searched = show([&](std::FILE* out) {
      return search_history(disk_, {"/d/log", "", &line}, {.label = "none"}, false, out);
    });
    EXPECT_EQ(searched.exit_code, exit_ok);
    return 0;
  });
  EXPECT_TRUE(text.has("reading the history: ")) << text.text;
  EXPECT_TRUE(text.has("100 %")) << text.text;
}

}  // namespace
}  // namespace tenure::tools
