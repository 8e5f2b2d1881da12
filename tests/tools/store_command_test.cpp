// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure info | roots | types | dump | verify, on a small store that the tests make: what they show must be what was put in.
#include "store_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include <tenure/tenure.hpp>

#include "adopt_command.hpp"
#include "backup_command.hpp"
#include "history_command.hpp"
#include "log_command.hpp"
#include "objects/format.hpp"
#include "segments/segment.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "tools/small_store.hpp"

namespace tenure::tools {
namespace {

using nlohmann::json;

TEST_F(store_command, info) {
  make();
  const auto run = [&](bool as_json) { return show([&](std::FILE* out) { return show_store(path, as_json, out); }); };
  const shown text = run(false);
  EXPECT_EQ(text.exit_code, exit_ok);
  for (const char* piece : {"database       main", "database       more", "closed cleanly", "roots        1", "main.db",
                            "conservative nothing"})
    EXPECT_TRUE(text.has(piece)) << piece << "\n" << text.text;
  const json j = run(true).parsed();
  ASSERT_EQ(j["databases"].size(), 2u);
  EXPECT_EQ(j["log"]["recovery_needed"], false);
  const json& main = j["databases"][0];
  EXPECT_EQ(main["reservation"], 1 << 28);
  EXPECT_EQ(main["roots"], 1);
  EXPECT_GT(main["objects"], 3);
  EXPECT_EQ(main["conservative_objects"], 0);
  EXPECT_EQ(main["id"].get<std::string>().size(), 32u);
  EXPECT_NE(main["id"], j["databases"][1]["id"]);
}

TEST_F(store_command, roots_with_what_they_reach) {
  make();
  const auto run = [&](const std::string& database, bool as_json) {
    return show([&](std::FILE* out) { return show_roots(path, database, true, as_json, out); });
  };
  const json j = run("", true).parsed();
  ASSERT_EQ(j["roots"].size(), 2u);
  EXPECT_EQ(j["roots"][0]["name"], "first");
  EXPECT_EQ(j["roots"][0]["type"], "store_command_types::part");
  EXPECT_EQ(j["roots"][0]["address"], address_of_first());
  EXPECT_EQ(j["roots"][0]["reachable_objects"], 4) << "three parts, and the characters of a name";
  EXPECT_EQ(run("more", true).parsed()["roots"].size(), 1u);
  EXPECT_TRUE(run("more", false).has("\"num bers\"")) << "quoted, because of the space";
  expect_error(errc::bad_option, {"none"}, [&] { (void)run("none", false); });
}

TEST_F(store_command, types_with_fields) {
  make();
  const auto run = [&](bool as_json) {
    return show([&](std::FILE* out) {
      return show_types(path, {.name = "store_command_types::part", .with_fields = true}, as_json, out);
    });
  };
  const json all = run(true).parsed()["types"];
  const auto found =
      std::find_if(all.begin(), all.end(), [](const json& t) { return t["name"] == "store_command_types::part"; });
  ASSERT_NE(found, all.end());
  EXPECT_EQ((*found)["size"], sizeof(part));
  EXPECT_EQ((*found)["objects"], 3);
  EXPECT_EQ((*found)["bytes"], 3 * sizeof(part));
  EXPECT_EQ((*found)["exact"], true);
  const json& fields = (*found)["fields"];
  ASSERT_EQ(fields.size(), 10u);
  EXPECT_EQ(fields[9]["offset"], offsetof(part, next));
  EXPECT_EQ(fields[9]["kind"], "reference");
  EXPECT_EQ(fields[0]["scalar"], "signed");
  EXPECT_TRUE(run(false).has("reference")) << run(false).text;
}

TEST_F(store_command, dump_shows_every_kind_of_value) {
  make();
  const json j = dump({.root = "first"}, dump_form::json).parsed();
  ASSERT_EQ(j["objects"].size(), 3u) << "the characters of strings are no objects of their own";
  EXPECT_EQ(j["more"], false);
  const json &others = j["objects"], &first = others[0]["value"];
  EXPECT_EQ(j["objects"][0]["address"], address_of_first());
  EXPECT_EQ(j["objects"][0]["depth"], 0);
  EXPECT_EQ(j["objects"][0]["reached"]["root"], "first");
  EXPECT_EQ(first["number"], -7);
  EXPECT_EQ(first["is_new"], true);
  EXPECT_EQ(first["painted"], 2);
  EXPECT_EQ(first["at"]["x"], 1.5);
  EXPECT_EQ(first["at"]["y"], -2);
  EXPECT_EQ(first["code"], "a\"b\\\n");
  EXPECT_EQ(first["levels"], json::parse("[0, 200, 0]"));
  EXPECT_EQ(first["twin"]["address"], others[1]["address"]) << "what is first in the object is reached first";
  EXPECT_EQ(first["price"], json::parse(R"({"0": -12, "index": 0})"));
  EXPECT_EQ(first["name"], "short");
  EXPECT_EQ(first["next"]["type"], "store_command_types::part");
  EXPECT_EQ(others[2]["value"]["name"], "a name that does not fit into the string itself");
  EXPECT_EQ(others[2]["value"]["price"], json::parse(R"({"1": 0.5, "index": 1})"));
  EXPECT_EQ(others[2]["value"]["twin"], nullptr);
  EXPECT_EQ(others[1]["value"]["twin"]["address"], address_of_first());
  const std::string text = dump({.root = "first"}).text;
  for (const char* piece : {"-7", "true", "1.5", "-2", "a\\\"b\\\\\\n", "200", "\"short\"", "-12", "0.5", "none",
                            "\"a name that does not fit into the string itself\"", "-> store_command_types::part at "})
    EXPECT_NE(text.find(piece), std::string::npos) << piece << "\n" << text;
}

TEST_F(store_command, dump_can_be_limited) {
  make();
  EXPECT_EQ(dump({.root = "first", .depth = 0}, dump_form::json).parsed()["objects"].size(), 1u);
  const json two = dump({.root = "first", .limit = 2}, dump_form::json).parsed();
  EXPECT_EQ(two["objects"].size(), 2u);
  EXPECT_EQ(two["more"], true);
  EXPECT_EQ(two["ended_by"], "limit");
  const json near = dump({.root = "first", .depth = 0}, dump_form::json).parsed();
  EXPECT_EQ(near["more"], true) << "the depth ended it";
  EXPECT_EQ(near["ended_by"], "depth");
  const json all = dump({.root = "first", .depth = 2}, dump_form::json).parsed();
  EXPECT_EQ(all["more"], false) << "nothing lies behind the last ones";
  EXPECT_EQ(all["ended_by"], nullptr);
  const std::uint64_t count = dump({}, dump_form::json).parsed()["objects"].size();
  EXPECT_EQ(dump({.limit = count}, dump_form::json).parsed()["more"], false) << "these are all";
  for (const dump_form form : {dump_form::json, dump_form::dot}) {
    const auto note = [&](std::uint64_t limit) {
      return show([&](std::FILE* notes) {
        (void)show([&](std::FILE* out) { return dump_objects(path, {.limit = limit}, form, out, notes); });
        return 0;
      });
    };
    EXPECT_TRUE(note(2).has("the first 2 objects")) << note(2).text;
    EXPECT_EQ(note(count).text, "");
  }
  EXPECT_EQ(dump({.address = address_of_first()}, dump_form::json).parsed()["objects"].size(), 3u);
  const json numbers = dump({.root = "num bers", .type = "int", .elements = 4}, dump_form::json).parsed();
  bool cut = false;
  for (const json& o : numbers["objects"])
    if (o["type"] == "int") cut = o["value"].size() == 5 && o["value"][3] == 4 && o["value"][4]["left_out"] >= 5;
  EXPECT_TRUE(cut) << numbers.dump(1);
  expect_error(errc::no_such_root, {"third"}, [&] { (void)dump({.root = "third"}); });
  expect_error(errc::bad_option, {"no object"}, [&] { (void)dump({.address = "0x10"}); });
  expect_error(errc::bad_option, {"hexadecimal"}, [&] { (void)dump({.address = "first"}); });
}

// Enough of the DOT language for what is written: braces and quotes are closed, statements end, edges join known nodes.
TEST_F(store_command, dump_draws_a_graph) {
  make();
  const std::string text = dump({.root = "first"}, dump_form::dot).text;
  EXPECT_EQ(text.rfind("digraph store {\n", 0), 0u);
  EXPECT_EQ(text.substr(text.size() - 2), "}\n");
  std::size_t quotes = 0, nodes = 0, edges = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      ++quotes;
    } else if (text[i] == '\n') {
      EXPECT_EQ(quotes % 2, 0u) << "a line ends inside of quotes";
    }
  }
  EXPECT_EQ(quotes % 2, 0u);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" -> ") != std::string::npos && line.rfind("  o", 0) == 0) {
      ++edges;
      EXPECT_NE(
          text.find("  " + line.substr(line.find(" -> ") + 4, line.find(" [") - line.find(" -> ") - 4) + " [label="),
          std::string::npos)
          << line;
    } else if (line.rfind("  o", 0) == 0) {
      ++nodes;
    }
    if (line.rfind("  ", 0) == 0) {
      EXPECT_EQ(line.back(), ';') << line;
    }
  }
  EXPECT_EQ(nodes, 3u) << text;
  EXPECT_EQ(edges, 4u) << text;
}

TEST_F(store_command, verify_of_a_sound_store) {
  make();
  const shown text = verify();
  EXPECT_EQ(text.exit_code, exit_ok) << text.text;
  EXPECT_TRUE(text.has("nothing is wrong"));
  EXPECT_TRUE(verify(true).parsed()["wrong"].empty());
}

TEST_F(store_command, verify_names_the_damaged_object_and_how_it_is_reached) {
  make();
  damage(at - home + offsetof(part, number));
  const shown text = verify();
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has("store_command_types::part at " + address_of_first())) << text.text;
  EXPECT_TRUE(text.has("root first")) << text.text;
  EXPECT_FALSE(verify(true).parsed()["wrong"].empty());
}

TEST_F(store_command, verify_finds_a_wild_reference) {
  make();
  damage(at - home + offsetof(part, next) + 4);
  const shown text = verify();
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has(" refers to ")) << text.text;
  EXPECT_EQ(dump({.root = "first"}).exit_code, exit_ok) << "what is readable is shown";
}

TEST_F(store_command, verify_finds_a_damaged_header_of_an_object) {
  make();
  damage(at - home - 5);  // its flags
  const shown flags = verify();
  EXPECT_EQ(flags.exit_code, exit_damaged);
  EXPECT_TRUE(flags.has("unknown flags")) << flags.text;
  damage(at - home - 7);  // its type
  const shown text = verify();
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has("unknown type")) << text.text;
  EXPECT_EQ(show([&](std::FILE* out) { return show_roots(path, "", true, false, out); }).exit_code, exit_damaged);
}

TEST_F(store_command, an_object_of_damaged_size_is_not_looked_into) {
  make();
  damage(at - home - 1, 0x40);  // larger than the database
  const shown text = verify();
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has("has the size 10737419")) << text.text;
  EXPECT_TRUE(text.has("(root first, ")) << text.text;
  EXPECT_TRUE(dump({.root = "first"}, dump_form::json).parsed()["objects"].empty());
}

// Whatever byte of the metadata is damaged: something is said, nothing crashes.
TEST_F(store_command, damaged_metadata_never_crashes) {
  make();
  std::vector<std::uint64_t> places;
  for (std::uint64_t n = 0; n < sizeof(heap::database_header); n += 5) places.push_back(n);
  for (std::uint64_t n = 0; n < 8; ++n) places.push_back(heap::zone_kinds_at + n);
  for (std::uint64_t b = heap::bookkeeping_blocks; b < heap::bookkeeping_blocks + 4; ++b)
    for (std::uint64_t n = 0; n < heap::record_size; n += n < 40 ? 1 : 7) places.push_back(heap::record_offset(b) + n);
  for (std::uint64_t n = 0; n < 8192; n += 61)
    places.push_back(heap::bookkeeping_size + n);  // the type index and others
  for (std::size_t n = 0; n < places.size(); n += rvm::testing::scaled_stride()) {
    const std::uint64_t place = places[n];
    damage(place);
    EXPECT_EQ(verify().exit_code, exit_damaged) << place;
    for (const auto& look : std::initializer_list<std::function<void()>>{
             [&] { (void)show([&](std::FILE* out) { return show_store(path, false, out); }); },
             [&] { (void)show([&](std::FILE* out) { return show_types(path, {.with_fields = true}, true, out); }); },
             [&] { (void)dump({}, dump_form::json); }, [&] { (void)dump({}, dump_form::dot); }}) {
      try {
        look();
      } catch (const error& e) {
        EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
      }
    }
    damage(place);
  }
  EXPECT_EQ(verify().exit_code, exit_ok) << "everything was put back";
}

TEST_F(store_command, a_store_in_use_or_missing_is_said_to_be) {
  make();
  {
    const store open(path);
    expect_error(errc::in_use, {path, "in use"}, [&] { (void)verify(); });
    expect_error(errc::in_use, {path, "in use"}, [&] { (void)dump(); });
  }
  path = dir / "nowhere";
  expect_error(std::errc::no_such_file_or_directory, {"nowhere"}, [&] { (void)verify(); });
}

// A crash leaves commits in the log only; they are shown, and the files stay as they are.
TEST_F(store_command, of_a_store_left_by_a_crash) {
  const std::string copy = dir / "copy";
  {
    store s(path, small_store());
    s.transact([&] { s.root<part>("first").number = 12345; });
    std::filesystem::copy(path, copy);
  }
  // The same files have the contents of before the store was closed.
  std::filesystem::copy(copy, path,
                        std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  const auto before = std::filesystem::last_write_time(path + "/log");
  EXPECT_TRUE(dump().has("12345"));
  EXPECT_EQ(verify().exit_code, exit_ok) << verify().text;
  const json j = show([&](std::FILE* out) { return show_store(path, true, out); }).parsed();
  EXPECT_EQ(j["log"]["recovery_needed"], true);
  EXPECT_GE(j["log"]["transactions"], 1);
  EXPECT_EQ(std::filesystem::last_write_time(path + "/log"), before);
}

// --- adopt ---

TEST_F(store_command, adopts_a_copy_of_a_store_in_use) {
  const auto adopt = [&](const std::string& which) {
    return show([&](std::FILE* out) { return adopt_copy(which, true, out, nullptr); });
  };
  const std::string copy = dir / "copy", worse = dir / "worse", closed = dir / "closed";
  {
    store s(path, small_store());
    s.transact([&] { s.root<part>("first").number = 12345; });
    expect_error(errc::bad_option, {path, "nothing to adopt"}, [&] { (void)adopt(path); });
    for (const std::string& to : {copy, worse, closed}) std::filesystem::copy(path, to);
  }
  // Who may not look finds no damage.
  std::filesystem::remove(closed + "/main.db");
  std::filesystem::create_directory(closed + "/main.db");
  expect_error(std::errc::is_a_directory, {"main.db"}, [&] { (void)adopt(closed); });
  path = copy;
  expect_error(errc::copied, {copy, "tenure adopt"}, [&] { (void)dump(); });
  const json j = adopt(copy).parsed();
  EXPECT_EQ(j["adopted"], true);
  EXPECT_GE(j["transactions"], 1);
  EXPECT_TRUE(dump().has("12345"));
  expect_error(errc::bad_option, {copy, "nothing to adopt"}, [&] { (void)adopt(copy); });

  // A page that the log does not have is not what it was.
  const std::uint64_t page =
      rvm::read_segment_header(os::real_disk(), worse + "/main.db").data_offset + heap::records_at;
  std::fstream(worse + "/main.db", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(page))
      .put('?');
  const auto before = std::filesystem::last_write_time(worse + "/log");
  const shown refused = adopt(worse);
  EXPECT_EQ(refused.exit_code, exit_damaged);
  EXPECT_EQ(refused.parsed()["adopted"], false);
  EXPECT_FALSE(refused.parsed()["wrong"].empty());
  EXPECT_EQ(std::filesystem::last_write_time(worse + "/log"), before);
}

// --- backup ---

TEST_F(store_command, makes_a_backup_of_a_store_in_use) {
  const std::string to = dir / "backup";
  {
    store s(path, small_store());
    s.transact([&] { s.root<part>("first").number = 12345; });
    const shown made = show([&](std::FILE* out) { return make_backup({path, to}, true, out, nullptr); });
    EXPECT_EQ(made.exit_code, exit_ok) << made.text;
    EXPECT_TRUE(made.parsed()["wrong"].empty());
    EXPECT_EQ(made.parsed()["files"].size(), 1U);
    EXPECT_NE(made.parsed()["transaction"], 0);
    s.transact([&] { s.root<part>("first").number = 54321; });
    const shown again = show([&](std::FILE* out) { return make_backup({path, dir / "other"}, false, out, nullptr); });
    EXPECT_TRUE(again.has("after transaction")) << again.text;
    expect_error(std::errc::file_exists, {to}, [&] { (void)s.backup(to); });
    EXPECT_EQ(s.backup(dir / "third", {.verify = true}).files.size(), 1U);
  }
  const shown checked = show([&](std::FILE* out) {
    return make_backup({.path = path, .to = dir / "checked", .check = true}, false, out, nullptr);
  });
  EXPECT_TRUE(checked.has("nothing is wrong")) << checked.text;
  path = to;
  EXPECT_TRUE(dump().has("12345"));
  for (const char* later : {"other", "third"}) {
    path = dir / later;
    EXPECT_TRUE(dump().has("54321"));
    EXPECT_EQ(verify().exit_code, exit_ok) << verify().text;
    store s(path, small_store());
    EXPECT_TRUE(s.verify().empty());
  }
}

TEST_F(store_command, restores_a_store_up_to_a_moment) {
  const std::string full = dir / "full", more = dir / "more", other = dir / "other";
  store_options how = small_store();
  how.memory.archive = rvm::archive_options{};
  std::uint64_t position = 0;
  {
    store s(path, how);
    const auto set = [&](int to) { s.transact([&] { s.root<part>("first").number = to; }); };
    set(1);
    expect_error(errc::bad_option, {path + "/sub", "in the directory of the store"},
                 [&] { (void)s.backup(path + "/sub"); });
    expect_error(errc::bad_option, {"in the directory of the store"}, [&] {
      (void)make_backup({path, path + "/sub"}, false, stdout, nullptr);
    });
    EXPECT_EQ(show([&](std::FILE* out) { return make_backup({path, full}, false, out, nullptr); }).exit_code, exit_ok);
    s.create_database("late", {.reservation = 1 << 28, .home = next_home(1 << 28)});
    s.transact([&] {
      s.find_database("late")->root<tenure::vector<int>>("numbers").assign(300'000, 0);  // zeros: hardly in the log
      s.root<part>("first").number = 2;
    });
    set(3);
    const shown made = show([&](std::FILE* out) {
      return make_backup({.path = path, .to = more, .since = full, .check = true}, true, out, nullptr);
    });
    EXPECT_EQ(made.exit_code, exit_ok) << made.text;
    position = made.parsed()["tail"];
    set(4);
    s.close();
    store again(path, how);
    again.transact([&] { again.root<part>("first").number = 5; });
  }
  const auto restored = [&](wanted_restore what, std::int32_t number, bool has_late = true) {
    static int count = 0;
    what.to = dir / ("restored" + std::to_string(++count));
    what.check = true;
    const shown made = show([&](std::FILE* out) { return restore_backup(what, false, out, nullptr); });
    EXPECT_EQ(made.exit_code, exit_ok) << made.text;
    EXPECT_TRUE(made.has("nothing is wrong")) << made.text;
    store s(what.to, small_store());
    EXPECT_EQ(s.find_root<part>("first")->number, number);
    EXPECT_EQ(s.find_database("late").has_value(), has_late);
    if (has_late) {
      EXPECT_EQ(s.find_database("late")->find_root<tenure::vector<int>>("numbers")->size(), 300'000U);
    }
    EXPECT_TRUE(s.verify().empty());
    s.transact([&] { s.root<part>("first").number = 77; });
  };
  restored({.backups = {full}}, 1, false);
  restored({.backups = {full, more}}, 3);
  restored({.backups = {full, more}, .log = path}, 5);
  restored({.backups = {full}, .log = path, .until = std::to_string(position)}, 3);
  restored({.backups = {full}, .log = path + "/log", .archive = path + "/log.archive"}, 5);
  restored({.backups = {full}, .log = path, .until = "2200-01-01 00:00:00"}, 5);
  const shown made = show(
      [&](std::FILE* out) { return restore_backup({.backups = {full}, .to = dir / "as_json"}, true, out, nullptr); });
  EXPECT_EQ(made.parsed()["wrong"].size(), 0U);
  EXPECT_EQ(made.parsed()["restored"], std::string(dir / "as_json"));
  expect_error(errc::bad_option, {"is of later"}, [&] {
    (void)restore_backup({.backups = {full}, .to = other, .until = "2001-01-01 00:00:00"}, true, stdout, nullptr);
  });
  expect_error(errc::no_history, {"transaction 999"}, [&] {
    (void)restore_backup({.backups = {full, more}, .to = other, .transaction = 999}, true, stdout, nullptr);
  });
  expect_error(errc::bad_option, {"is no moment"}, [&] {
    (void)restore_backup({.backups = {full}, .to = other, .until = "yesterday"}, true, stdout, nullptr);
  });
  EXPECT_FALSE(std::filesystem::exists(other + "/log"));
}

TEST_F(store_command, does_not_adopt_a_copy_of_a_store_that_was_being_made) {
  const std::string making = dir / "making", copy = dir / "half_made";
  std::filesystem::create_directory(making);
  {
    rvm::memory m(making + "/log");
    m.create_segment(making + "/main.db", {.length = 1 << 20,
                                           .max_length = (1 << 28) - heap::vtable_area,
                                           .home = next_home(1 << 28) + heap::vtable_area,
                                           .tag = heap::database_tag,
                                           .member = true});
    std::filesystem::copy(making, copy);
  }
  const shown refused = show([&](std::FILE* out) { return adopt_copy(copy, false, out, nullptr); });
  EXPECT_EQ(refused.exit_code, exit_damaged);
  EXPECT_TRUE(refused.has("nothing was ever committed")) << refused.text;
  EXPECT_FALSE(refused.has("remove it")) << refused.text;
}

// The manifest does not know the segment yet, so only recovery looks at it.
TEST_F(store_command, says_what_was_found_damaged_when_a_copy_was_adopted) {
  const std::string copy = dir / "copy";
  std::filesystem::create_directory(dir / "memory");
  rvm::options how;
  how.log.size = 1 << 20;
  {
    rvm::memory m(dir / "memory/log", how);
    rvm::region r = m.map(dir / "memory/seg", {.create_length = 65536});
    m.transact([&](rvm::transaction& tx) { tx.modify(r.at<int>(0), 7); });
    std::filesystem::copy(dir / "memory", copy);
  }
  const rvm::segment_header header = rvm::read_segment_header(os::real_disk(), copy + "/seg");
  std::fstream(copy + "/seg", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(header.data_offset + 100))
      .put('x');
  const auto adopt = [&](std::FILE* out) { return adopt_copy(copy + "/log", false, out, nullptr); };
  const shown done = show(adopt);
  EXPECT_EQ(done.exit_code, exit_damaged);
  EXPECT_TRUE(done.has("DAMAGED")) << done.text;
  EXPECT_TRUE(done.has("is adopted")) << done.text;
  EXPECT_FALSE(done.has("not adopted")) << done.text;
  expect_error(errc::bad_option, {"nothing to adopt"}, [&] { (void)show(adopt); });
}

TEST_F(store_command, adopts_a_copy_of_a_log_in_use) {
  rvm::options how;
  how.log.size = 1 << 20;
  how.archive.emplace();
  const std::string copy = dir / "copy";
  std::filesystem::create_directory(dir / "memory");
  {
    rvm::memory m(dir / "memory/log", how);
    rvm::region r = m.map(dir / "memory/seg", {.create_length = 65536});
    m.transact([&](rvm::transaction& tx) { tx.modify(r.at<int>(0), 1); });
    m.truncate();
    m.transact([&](rvm::transaction& tx) { tx.modify(r.at<int>(0), 7); });
    std::filesystem::copy(dir / "memory", copy);
  }
  expect_error(errc::copied, {copy + "/log", "tenure adopt"}, [&] { rvm::memory m(copy + "/log", how); });
  const shown done = show([&](std::FILE* out) { return adopt_copy(copy + "/log", false, out, nullptr); });
  EXPECT_EQ(done.exit_code, exit_ok);
  EXPECT_TRUE(done.has("nothing is wrong")) << done.text;
  // What the log had is in the archive.
  const json past =
      show([&](std::FILE* out) { return show_history(os::real_disk(), {}, copy + "/seg:0+4", true, out); }).parsed();
  EXPECT_EQ(past["changes"].size(), 2u);
  EXPECT_TRUE(past["missing"].empty());
  rvm::memory m(copy + "/log", how);
  EXPECT_EQ(m.map(copy + "/seg").at<int>(0), 7);
}

}  // namespace
}  // namespace tenure::tools
