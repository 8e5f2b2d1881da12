// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure log history | search | diff | replay | forget.
#include "history_command.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "log/log_files.hpp"
#include "log_command.hpp"
#include "log_text.hpp"
#include "records/archive_reader.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"
#include "tools/shown.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using namespace rvm;
using nlohmann::json;
using rvm::commit_mode, rvm::transaction;  // and not those of stores

// A segment whose words change in steps, some of which are in the archive and some in the log.
class past : public ::testing::Test {
 protected:
  past() {
    options how = small_log(&disk_);
    how.archive.emplace();
    how.background = false;
    memory_.emplace("/d/log", how);
    region_ = memory_->map("/d/seg", {.create_length = 64 * kib});
    step("made", 0, 1);
    step("made", 8, 1);
    step("changed", 0, 0x1234);
    memory_->truncate();
    step("changed back", 0, 1);
    memory_->truncate();
    step("elsewhere", 8192, 7);
    step("again", 8, 0xffff, commit_mode::no_flush);
    memory_->flush();
  }
  void step(const char* label, std::size_t offset, std::uint64_t value, commit_mode mode = commit_mode::flush) {
    memory_->transact(
        [&](transaction& tx) {
          tx.label(label);
          tx.modify(region_.data() + offset, &value, sizeof value);
        },
        mode);
  }
  shown history_of(const std::string& range, bool as_json = false, const history_place& where = {}) {
    return show([&](std::FILE* out) { return show_history(disk_, where, range, as_json, out); });
  }
  shown search(const search_selection& which, bool as_json = true) {
    return show([&](std::FILE* out) { return search_history(disk_, {"/d/log", ""}, which, as_json, out); });
  }
  shown replay(const std::string& until, const std::string& output, const std::string& base = "") {
    return show([&](std::FILE* out) { return replay_history(disk_, {}, "/d/seg", until, output, base, true, out); });
  }
  // LSNs of the transactions that changed the word at 0.
  std::vector<lsn> changes() {
    std::vector<lsn> all;
    const json found = history_of("/d/seg:0", true).parsed();
    for (const json& change : found["changes"]) all.push_back(change["lsn"]);
    return all;
  }
  std::uint64_t word_of(const std::string& copy, std::size_t offset) {
    const named_segment in = named_segment::look_at(disk_, copy, false);
    std::uint64_t word = 0;
    disk_.open(copy, os::access::read_only)
        ->read_at(in.layout.find(offset, sizeof word).at, std::as_writable_bytes(std::span{&word, 1}));
    return word;
  }

  sim::disk disk_;
  std::optional<memory> memory_;
  region region_;
};

TEST_F(past, of_a_word_says_who_when_from_what_to_what) {
  const shown text = history_of("/d/seg:0+8");
  EXPECT_EQ(text.exit_code, exit_ok);
  EXPECT_TRUE(text.has("\"made\"\n    offset 0: ???????????????? -> 0100000000000000\n")) << text.text;
  EXPECT_TRUE(text.has("\"changed\"\n    offset 0: 0100000000000000 -> 3412000000000000\n"));
  EXPECT_TRUE(text.has("\"changed back\"\n    offset 0: 3412000000000000 -> 0100000000000000\n"));
  EXPECT_FALSE(text.has("elsewhere"));
  const json parsed = history_of("/d/seg:0+9", true).parsed();
  ASSERT_EQ(parsed["changes"].size(), 5u);
  EXPECT_EQ(parsed["changes"][1]["offset"], 8);
  EXPECT_EQ(parsed["changes"][1]["new"], "01");
  EXPECT_EQ(parsed["changes"][4]["old"], "01");
  EXPECT_EQ(parsed["changes"][4]["new"], "ff");
  EXPECT_EQ(parsed["changes"][4]["flush"], false);
  EXPECT_TRUE(parsed["missing"].empty());
}

TEST_F(past, of_ranges_that_are_written_in_all_ways) {
  for (const char* range : {"/d/seg:8192", "/d/seg:0x2000", "/d/seg:8192-8200", "/d/seg:0x2000+0x8"})
    EXPECT_EQ(history_of(range, true).parsed()["changes"].size(), 1u) << range;
  EXPECT_EQ(history_of("/d/seg", true).parsed()["changes"].size(), 6u);
  EXPECT_TRUE(history_of("/d/seg:100").has("no change since LSN"));
  for (const char* range : {"/d/seg:x", "/d/seg:1+", "/d/seg:-5", "/d/seg:0x", "/d/seg:1e3"})
    expect_error(errc::bad_option, {range, "is no number", "SEGMENT:OFFSET+LENGTH"}, [&] { history_of(range); });
  expect_error(errc::bad_option, {"the range is empty"}, [&] { history_of("/d/seg:8-8"); });
}

TEST_F(past, needs_a_log_that_is_there) {
  expect_error(std::errc::no_such_file_or_directory, {"/d/nothing"}, [&] { history_of("/d/nothing:0"); });
  expect_error(errc::not_a_segment, {"/d/log"}, [&] { history_of("/d/log:0"); });
  disk_.create("/d/raw", 0600)->resize(64 * kib);
  region raw = memory_->map("/d/raw", {.raw = true});
  put(*memory_, raw, 100, "raw");
  const shown text = history_of("/d/raw:100+3", true, {"/d/log", ""});
  EXPECT_EQ(text.parsed()["changes"][0]["new"], "726177");
  segment::create(disk_, "/d/fresh", {.length = 4096});
  expect_error(errc::bad_option, {"/d/fresh: this segment was never changed under a log", "--log"},
               [&] { history_of("/d/fresh:0"); });
}

TEST_F(past, can_be_searched) {
  EXPECT_EQ(search({}).parsed()["records"].size(), 6u);
  EXPECT_EQ(search({.label = "changed"}).parsed()["records"].size(), 2u);
  EXPECT_EQ(search({.limit = 2}).parsed()["records"].size(), 2u);
  EXPECT_EQ(search({.transaction = 3}).parsed()["records"][0]["label"], "changed");
  EXPECT_EQ(search({.value = from_hex("3412")}).parsed()["records"].size(), 1u);
  EXPECT_EQ(search({.value = from_hex("4444")}).parsed()["records"].size(), 0u);
  EXPECT_EQ(search({.segment = "/d/seg"}).parsed()["records"].size(), 6u);
  const std::string second = std::to_string(changes()[1]);
  EXPECT_EQ(search({.since = second}).parsed()["records"].size(), 4u);
  EXPECT_EQ(search({.until = second}).parsed()["records"].size(), 3u);
  EXPECT_EQ(search({.since = "2000-01-01 00:00:00", .until = "2000-01-02T00:00:00.5Z"}).parsed()["records"].size(), 0u);
  const shown text = search({.label = "elsewhere", .with_data = true}, false);
  EXPECT_TRUE(text.has("\"elsewhere\"\n    seg  offset 8192  length 8\n            8192  07 00")) << text.text;
  for (const char* wrong : {"yesterday", "2026-11-21", "2026-11-21 08:50:04.", "2026-11-21 08:50:04 CET", ""})
    expect_error(errc::bad_option, {"is no moment", "2026-11-21 08:50:04.5"}, [&] { moment::parse(wrong); });
  for (const char* wrong : {"1", "0g", "abc"})
    expect_error(errc::bad_option, {"pairs of hexadecimal digits"}, [&] { (void)from_hex(wrong); });
}

TEST_F(past, differs_between_two_moments) {
  const auto at = changes();
  const auto difference = [&](lsn from, lsn to, bool as_json = true) {
    return show([&](std::FILE* out) {
      return show_difference(disk_, {}, "/d/seg", std::to_string(from), std::to_string(to), as_json, out);
    });
  };
  const json changed = difference(at[0], at[1]).parsed()["differences"];
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[0], json({{"offset", 0}, {"length", 2}, {"old", "0100"}, {"new", "3412"}}));
  EXPECT_EQ(changed[1]["old"], "????????????????");  // made in between
  // There and back again is no difference.
  EXPECT_TRUE(difference(at[1] - 1, at[2]).parsed()["differences"].empty());
  EXPECT_TRUE(difference(at[1] - 1, at[2], false).has("0 bytes differ"));
  EXPECT_TRUE(difference(at[2], at[2] + (1 << 20), false).has("offset 8192, length 8: ???????????????? -> 0700"));
}

TEST_F(past, can_be_made_a_copy_of_at_every_moment) {
  const auto at = changes();
  const json made = replay(std::to_string(at[1]), "/d/then").parsed();
  EXPECT_EQ(made["unknown_bytes"], 0);
  EXPECT_EQ(made["transactions"], 3);
  EXPECT_EQ(word_of("/d/then", 0), 0x1234u);
  EXPECT_EQ(word_of("/d/then", 8), 1u);
  EXPECT_EQ(word_of("/d/then", 8192), 0u);
  EXPECT_EQ(replay(std::to_string(at[1] - 1), "/d/before").exit_code, exit_ok);
  EXPECT_EQ(word_of("/d/before", 0), 1u);
  EXPECT_EQ(replay("2100-01-01 00:00:00", "/d/now").exit_code, exit_ok);
  EXPECT_EQ(word_of("/d/now", 8), 0xffffu);
  EXPECT_EQ(word_of("/d/now", 8192), 7u);
  expect_error(std::errc::file_exists, {"/d/now"}, [&] { replay("2100-01-01 00:00:00", "/d/now"); });
  // It is a segment like any other.
  memory other("/d/other", small_log(&disk_));
  EXPECT_EQ(other.map("/d/then").at<std::uint64_t>(0), 0x1234u);
  EXPECT_TRUE(other.verify_segment("/d/then").empty());
}

// Of transactions that became durable together, the one that later ones have overwritten is in no history.
TEST_F(past, between_transactions_of_one_batch_is_not_known) {
  step("first", 0, 2);
  step("lost", 0, 3, commit_mode::no_flush);
  step("left", 16, 4, commit_mode::no_flush);
  step("last", 0, 5, commit_mode::no_flush);
  memory_->flush();
  const json left = search({.label = "left"}).parsed()["records"];
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(search({.label = "lost"}).parsed()["records"].size(), 0u);
  const std::string within = std::to_string(left[0]["lsn"].get<lsn>());
  const shown made = replay(within, "/d/within");
  EXPECT_EQ(made.exit_code, exit_damaged);
  EXPECT_TRUE(made.parsed()["within_batch"].get<bool>());
  const shown told = show(
      [&](std::FILE* out) { return show_difference(disk_, {}, "/d/seg", within, "2100-01-01 00:00:00", false, out); });
  EXPECT_EQ(told.exit_code, exit_damaged);
  EXPECT_TRUE(told.has("UNKNOWN  a moment lies between transactions"));
  const std::string before = std::to_string(changes()[changes().size() - 2]);
  EXPECT_EQ(replay(before, "/d/before").exit_code, exit_ok);
  EXPECT_EQ(replay("2100-01-01 00:00:00", "/d/now").exit_code, exit_ok);
}

// It would be taken for a whole segment.
TEST_F(past, leaves_no_copy_that_could_not_be_made) {
  const auto at = changes();
  auto bytes = disk_.current_bytes("/d/seg");
  bytes.resize(8000);
  disk_.install("/d/seg", bytes);
  expect_error(errc::segment_too_short, {"/d/seg", "cut off"}, [&] { replay(std::to_string(at[1]), "/d/then"); });
  EXPECT_FALSE(disk_.exists("/d/then"));
}

// [rvm.file.making] Half a copy would open as a segment.
TEST_F(past, has_no_copy_under_the_name_before_it_is_whole) {
  std::vector<std::vector<std::byte>> seen;
  disk_.on_operation([&](const sim::trace_entry& at) {
    const auto left = disk_.crash(at.index, sim::policy::keep_all);
    if (left->exists("/d/then")) seen.push_back(left->current_bytes("/d/then"));
  });
  EXPECT_EQ(replay(std::to_string(changes()[1]), "/d/then").exit_code, exit_ok);
  disk_.on_operation({});
  EXPECT_FALSE(seen.empty());
  for (const auto& bytes : seen) EXPECT_EQ(bytes, disk_.current_bytes("/d/then"));
  EXPECT_FALSE(disk_.exists("/d/then.tenure-new"));
  expect_error(std::errc::file_exists, {"/d/then"}, [&] { (void)replay(std::to_string(changes()[1]), "/d/then"); });
}

// Each transaction changes two segments, so one of them has no first record.
TEST_F(past, of_several_segments_at_once) {
  std::vector<region> both;
  for (const char* const path : {"/d/a", "/d/b"}) both.push_back(memory_->map(path, {.create_length = 64 * kib}));
  for (std::uint64_t value = 1; value <= 3; ++value) {
    memory_->transact([&](transaction& tx) {
      for (const region& each : both) tx.modify(each.data(), &value, sizeof value);
    });
    if (value == 2) memory_->truncate();  // into the archive
  }
  for (const char* const path : {"/d/a", "/d/b"}) {
    SCOPED_TRACE(path);
    const json found = history_of(path, true).parsed()["changes"];
    ASSERT_EQ(found.size(), 3U);
    for (std::uint64_t n = 0; n < 3; ++n) {
      const std::string until = std::to_string(found[n]["lsn"].get<lsn>()), copy = path + until;
      const shown made =
          show([&](std::FILE* out) { return replay_history(disk_, {}, path, until, copy, "", true, out); });
      EXPECT_EQ(made.exit_code, exit_ok);
      EXPECT_EQ(word_of(copy, 0), n + 1);
      const shown differs = show(
          [&](std::FILE* out) { return show_difference(disk_, {}, path, until, "2100-01-01 00:00:00", true, out); });
      EXPECT_EQ(differs.parsed()["differences"].size(), n == 2 ? 0U : 1U);
    }
  }
}

TEST_F(past, of_a_raw_segment_that_ends_within_a_page) {
  const std::size_t length = page + 512;
  disk_.install("/d/raw", std::vector<std::byte>(length, std::byte{'q'}));
  const region raw = memory_->map("/d/raw", {.length = length, .raw = true});
  memory_->transact([&](transaction& tx) { tx.modify(raw.data() + page + 100, "new", 3); });
  const shown made = show([&](std::FILE* out) {
    return replay_history(disk_, {"/d/log", ""}, "/d/raw", "2100-01-01 00:00:00", "/d/copy", "", true, out);
  });
  EXPECT_EQ(made.exit_code, exit_ok);
  std::vector<std::byte> expected(length, std::byte{'q'});
  std::memcpy(expected.data() + page + 100, "new", 3);
  EXPECT_EQ(disk_.current_bytes("/d/copy"), expected);
}

TEST_F(past, that_is_forgotten_is_named_and_can_come_from_an_older_copy) {
  const auto at = changes();
  ASSERT_EQ(replay(std::to_string(at[1]), "/d/base").exit_code, exit_ok);
  memory_->close();
  expect_error(errc::in_use, {}, [&] {
    memory still("/d/log", small_log(&disk_, open_mode::open));
    show([&](std::FILE* out) { return forget_history(disk_, {"/d/log", ""}, "0", true, out); });
  });
  const json cut = show([&](std::FILE* out) {
                     return forget_history(disk_, {"/d/log", ""}, std::to_string(at[2]), true, out);
                   }).parsed();
  EXPECT_EQ(cut["frames_removed"], 1);
  const json rest = history_of("/d/seg:0", true).parsed();
  ASSERT_EQ(rest["changes"].size(), 1u);
  EXPECT_EQ(rest["changes"][0]["old"], "????????????????");
  EXPECT_EQ(rest["begin"], cut["begin"]);
  // What lies at 8 then changed later: nobody knows what it was.
  const shown copy = replay(std::to_string(at[2]), "/d/copy");
  EXPECT_EQ(copy.exit_code, exit_damaged);
  EXPECT_EQ(copy.parsed()["unknown_bytes"], 16);
  EXPECT_EQ(word_of("/d/copy", 0), 1u);
  EXPECT_EQ(word_of("/d/copy", 8), 0u);
  EXPECT_EQ(replay(std::to_string(at[2]), "/d/whole", "/d/base").exit_code, exit_ok);
  EXPECT_EQ(word_of("/d/whole", 0), 1u);
  EXPECT_EQ(word_of("/d/whole", 8), 1u);
  EXPECT_EQ(word_of("/d/whole", 8192), 0u);
}

TEST(forgotten_past, leaves_owners_and_permissions) {
  const temp_dir dir;
  options how = small_log();
  how.archive.emplace();
  const std::string log = dir / "log", part = dir / "log.archive.1";
  memory m(log, how);
  region r = m.map(dir / "seg", {.create_length = 64 * kib});
  for (const char* const text : {"one", "two"}) {
    put(m, r, 0, text);
    m.truncate();
  }
  r = {};
  m.close();
  const auto readable =
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write | std::filesystem::perms::group_read;
  std::filesystem::permissions(part, readable);
  const identity id = log_files::open_unlocked(os::real_disk(), log)->status().log_id;
  const archive_reader before(os::real_disk(), dir / "log.archive", id);
  ASSERT_EQ(before.frames().size(), 2u);
  const lsn second = before.frames()[1].header.from;
  (void)show([&](std::FILE* out) {
    return forget_history(os::real_disk(), {log, ""}, std::to_string(second), true, out);
  });
  const archive_reader after(os::real_disk(), dir / "log.archive", id);
  EXPECT_EQ(after.frames().size(), 1u);
  EXPECT_EQ(std::filesystem::status(part).permissions(), readable);
}

TEST_F(past, is_in_the_log_that_the_segment_belongs_to) {
  {
    memory other("/e/log", small_log(&disk_));
    region changed = other.map("/e/seg", {.create_length = 64 * kib});
    put(other, changed, 0, "other");
  }
  for (const bool as_json : {false, true})
    expect_error(errc::wrong_log, {"/d/seg", "another log than /e/log: under /d/log"}, [&] {
      history_of("/d/seg", as_json, {"/e/log", ""});
    });
  expect_error(errc::wrong_log, {"/d/seg", "/e/log"}, [&] {
    (void)show([&](std::FILE* out) {
      return replay_history(disk_, {"/e/log", ""}, "/d/seg", "4096", "/d/then", "", true, out);
    });
  });
  EXPECT_FALSE(disk_.exists("/d/then"));
  expect_error(errc::wrong_log, {"/e/seg", "/d/log"}, [&] { search({.segment = "/e/seg"}); });
}

TEST_F(past, goes_forwards_and_ends_with_the_segment) {
  const std::string first = std::to_string(changes()[0]), second = std::to_string(changes()[1]);
  const auto refused = [&](const std::string& range, const std::string& from, const std::string& to,
                           std::initializer_list<std::string> parts) {
    expect_error(errc::bad_option, parts, [&] {
      (void)show([&](std::FILE* out) { return show_difference(disk_, {}, range, from, to, true, out); });
    });
  };
  const std::string early = "1980-01-01 00:00:00", late = "2100-01-01 00:00:00";
  for (const auto& [from, to] :
       {std::pair(second, first), std::pair(late, early), std::pair(late, first), std::pair(second, early)})
    refused("/d/seg", from, to, {from, "lies behind", to});
  refused("/d/seg:65536", first, second, {"/d/seg", "65536 bytes", "offset 65536"});
  expect_error(errc::bad_option, {"/d/seg", "offset 70000"}, [&] { history_of("/d/seg:70000+8"); });
}

TEST_F(past, with_a_gap_that_a_copy_bridges) {
  const std::string before = std::to_string(changes()[1]);
  const auto open = [&](bool archived) {
    options how = small_log(&disk_, open_mode::open);
    if (archived) how.archive.emplace();
    how.background = false;
    memory_.emplace("/d/log", how);
    region_ = memory_->map("/d/seg");
  };
  memory_->close();
  open(false);
  step("in the gap", 0, 5);
  step("in the gap", 16, 6);
  memory_->close();
  disk_.install("/d/base", disk_.current_bytes("/d/seg"));
  open(true);
  step("behind", 24, 7);
  step("later", 0, 9);
  step("later", 32, 3);
  const std::string moment = std::to_string(lsn{history_of("/d/seg:24", true).parsed()["changes"][0]["lsn"]});
  const shown bridged = replay(moment, "/d/bridged", "/d/base");
  EXPECT_EQ(bridged.exit_code, exit_ok) << bridged.text;
  EXPECT_TRUE(bridged.parsed()["missing"].empty());
  for (const auto& [at, value] : {std::pair(0, 5), std::pair(8, 0xffff), std::pair(16, 6), std::pair(24, 7)})
    EXPECT_EQ(word_of("/d/bridged", static_cast<std::size_t>(at)), static_cast<std::uint64_t>(value)) << at;
  EXPECT_EQ(word_of("/d/bridged", 32), 0U);
  // Without one, what changed later is not known, whatever it was before the gap.
  const shown alone = replay(moment, "/d/alone");
  EXPECT_EQ(alone.exit_code, exit_damaged);
  EXPECT_EQ(alone.parsed()["unknown_bytes"], 16);
  EXPECT_EQ(word_of("/d/alone", 16), 6U);
  // Nor does a copy help where the moment is before the gap.
  const shown earlier = replay(before, "/d/earlier", "/d/base");
  EXPECT_EQ(earlier.exit_code, exit_damaged);
  EXPECT_EQ(earlier.parsed()["missing"].size(), 1U);
  EXPECT_EQ(word_of("/d/earlier", 0), 0x1234U);
}

TEST_F(past, needs_nothing_of_a_gap_behind_the_moment_and_the_copy) {
  memory_->close();
  disk_.install("/d/base", disk_.current_bytes("/d/seg"));
  options how = small_log(&disk_, open_mode::open);
  how.background = false;
  for (const bool archived : {true, false, true}) {
    if (archived) how.archive.emplace();
    if (!archived) how.archive.reset();
    memory_.emplace("/d/log", how);
    region_ = memory_->map("/d/seg");
    step(archived ? "archived" : "in the gap", 40, archived ? 5 : 6);
    memory_->close();
  }
  const std::string moment = std::to_string(lsn{history_of("/d/seg:40", true).parsed()["changes"][0]["lsn"]});
  const shown made = replay(moment, "/d/made", "/d/base");
  EXPECT_EQ(made.exit_code, exit_ok) << made.text;
  EXPECT_EQ(word_of("/d/made", 40), 5U);
  EXPECT_EQ(replay(moment, "/d/alone").exit_code, exit_damaged) << "what there is now has what the gap had";
}

// Nothing that is damaged gets a new checksum.
TEST_F(past, of_a_damaged_segment_stays_damaged) {
  const std::string moment = std::to_string(changes()[1]);
  memory_->close();
  disk_.install("/d/base", disk_.current_bytes("/d/seg"));
  const auto damage = [&](const std::string& path) {
    const auto file = disk_.open(path, os::access::read_write);
    const std::byte wrong[] = {std::byte{0xba}, std::byte{0xad}};
    file->write_at(128 * kib + 3 * page + 5, wrong);
  };
  const auto expect_damage = [&](const std::string& made, const std::string& base) {
    const shown copy = replay(moment, made, base);
    EXPECT_EQ(copy.exit_code, exit_damaged) << copy.text;
    EXPECT_EQ(copy.parsed()["damaged_pages"], json{3});
    EXPECT_EQ(word_of(made, 0), 0x1234U);
    segment found(disk_, made, made, os::access::read_only, false);
    EXPECT_EQ(found.verify({}), std::vector<std::uint64_t>{3 * page});
  };
  damage("/d/base");
  expect_damage("/d/of_base", "/d/base");
  EXPECT_EQ(replay(moment, "/d/whole").exit_code, exit_ok);
  damage("/d/seg");
  expect_damage("/d/of_itself", "");
  disk_.open("/d/base", os::access::read_write)->resize(128 * kib + page);
  expect_error(errc::segment_too_short, {"/d/base", "was cut off"}, [&] { replay(moment, "/d/cut", "/d/base"); });
}

TEST_F(past, of_a_segment_with_the_name_of_another_is_not_told_as_its_own) {
  const std::string moment = std::to_string(changes()[1]);
  memory_->close();
  disk_.remove("/d/seg");
  options how = small_log(&disk_, open_mode::open);
  how.archive.emplace();
  memory_.emplace("/d/log", how);
  region_ = memory_->map("/d/seg", {.create_length = 64 * kib});
  step("of the second", 0, 9);
  const shown made = replay(moment, "/d/made");
  EXPECT_EQ(made.exit_code, exit_damaged) << made.text;
  EXPECT_TRUE(made.parsed()["name_of_another"]);
  EXPECT_EQ(replay("2100-01-01 00:00:00", "/d/now").exit_code, exit_ok);
  EXPECT_EQ(word_of("/d/now", 0), 9U);
}

TEST_F(past, that_is_damaged_is_shown_as_far_as_it_goes) {
  memory_->close();
  const auto file = disk_.open("/d/log.archive.1", os::access::read_write);
  std::vector<std::byte> zeros(64);
  file->write_at(4096 + 140, zeros);
  const shown text = history_of("/d/seg:0");
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has("MISSING  LSN ")) << text.text;
  EXPECT_TRUE(text.has("/d/log.archive.1 is damaged: the frame at offset 4096"));
  EXPECT_TRUE(text.has("changed back"));
  EXPECT_EQ(history_of("/d/seg:0", true).parsed()["missing"].size(), 1u);
}

}  // namespace
}  // namespace tenure::tools
