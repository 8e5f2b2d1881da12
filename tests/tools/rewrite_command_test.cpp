// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Commands that write stores anew, and those that compare stores and schemas.
#include "rewrite_command.hpp"

#include <filesystem>
#include <fstream>
#include <utility>

#include <tenure/allocator.hpp>
#include <tenure/evolve.hpp>
#include <tenure/finalization_queue.hpp>
#include <tenure/schema.hpp>
#include <tenure/weak.hpp>

#include "log/log_files.hpp"
#include "log_command.hpp"
#include "object_values.hpp"
#include "records/archive_reader.hpp"
#include "records/log_reader.hpp"
#include "schema_command.hpp"
#include "store_difference.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "tools/small_store.hpp"

namespace rewrite_command_types {

struct linked_part {
  tenure::weak<linked_part> weakly;
};
struct grown {
  int x = 0;
  signed char small = 0;
};
struct weakly_linked {
  tenure::vector<int> numbers;
  tenure::std_vector<int> standard;
  tenure::std_deque<int> deque;
  tenure::set<int> set;
  tenure::map<int, tenure::string> texts;
  tenure::vector<linked_part*> parts;
  tenure::finalization_queue<linked_part> queue;
};

}  // namespace rewrite_command_types
template <>
struct tenure::evolve<rewrite_command_types::grown> {
  static void describe(tenure::changes<rewrite_command_types::grown>& of) {
    of.since(0).added("small", 500).added("none", 1).converted(nothing).converted(nothing);
  }
  static void nothing(const tenure::old_object&, rewrite_command_types::grown&, tenure::conversion&) {}
};
using namespace rewrite_command_types;

namespace tenure::tools {
namespace {

class rewrite_command : public store_command {
 protected:
  shown rewrite(const wanted_rewrite& what, bool as_json = false) {
    return show([&](std::FILE* out) { return rewrite_store(what, as_json, out, nullptr); });
  }
  shown difference(const std::string& one, const std::string& other, bool as_json = false, std::uint64_t most = 100) {
    return show([&](std::FILE* out) { return show_store_difference(one, other, most, as_json, out, nullptr); });
  }
  void change(const std::string& which) {
    store s(which, small_store());
    s.transact([&] {
      part& first = *s.find_root<part>("first");
      first.number = 8;
      first.next->name = "other";
      first.next->next->twin = nullptr;
      s.find_database("more")->find_root<tenure::vector<int>>("num bers")->push_back(10);
      s.root<int>("fresh") = 1;
    });
    s.close();
  }
  std::string schema_file(const std::string& text) {
    std::string file = dir / "schema.json";
    std::ofstream(file) << text;
    return file;
  }
};

// Who could use the store can use it afterwards, and nobody else.
TEST_F(rewrite_command, leaves_owners_and_permissions) {
  namespace fs = std::filesystem;
  make();
  const auto permissions_of = [&](const fs::path& file) { return fs::status(file).permissions() & fs::perms::mask; };
  for (const auto& file : fs::directory_iterator(path)) {
    const bool is_log = file.path().filename().string().starts_with("log");
    fs::permissions(file, static_cast<fs::perms>(is_log ? 0640 : 0660));
  }
  (void)rewrite({.path = path});
  for (const auto& file : fs::directory_iterator(path)) {
    const bool is_log = file.path().filename().string().starts_with("log");
    EXPECT_EQ(permissions_of(file), static_cast<fs::perms>(is_log ? 0640 : 0660)) << file;
  }
  // A new database, and what the log gets, are as the log is.
  store s(path, small_store());
  (void)s.create_database("another");
  EXPECT_EQ(permissions_of(fs::path(path) / "another.db"), static_cast<fs::perms>(0640));
}

TEST_F(rewrite_command, in_place_and_elsewhere) {
  make();
  const shown cloned = rewrite({.path = path, .to = dir / "clone", .check = true});
  EXPECT_EQ(cloned.exit_code, exit_ok);
  EXPECT_TRUE(cloned.has("0 were left out")) << cloned.text;
  EXPECT_TRUE(cloned.has("nothing is wrong")) << cloned.text;
  for (const char* const order : {"breadth-first", "depth-first", "address", "type"}) {
    const auto j = rewrite({.path = path, .order = order}, true).parsed();
    EXPECT_EQ(j["left_out"], 0);
    EXPECT_GT(j["objects"], 5);
    EXPECT_TRUE(j["wrong"].empty());
    EXPECT_EQ(difference(path, dir / "clone").exit_code, exit_ok);
  }
  (void)rewrite({.path = path, .is_rebase = true});
  const auto home_of = [&] { return surveyed_store(path).databases().front().home; };
  EXPECT_NE(home_of(), home);
  const std::uint64_t wanted = next_home(1 << 28);
  (void)rewrite({.path = path, .homes = {"main=" + address_text(heap::address{wanted})}, .is_rebase = true});
  EXPECT_EQ(home_of(), wanted + heap::vtable_area);
  EXPECT_EQ(difference(path, dir / "clone").exit_code, exit_ok);

  expect_error(errc::bad_option, {"no order \"other\""}, [&] { (void)rewrite({.path = path, .order = "other"}); });
  expect_error(errc::bad_option, {"is no home"}, [&] { (void)rewrite({.path = path, .homes = {"main"}}); });
  expect_error(errc::bad_option, {"is no number"}, [&] { (void)rewrite({.path = path, .reservation = "1G"}); });
}

// A crash came when the new files got their names.
TEST_F(rewrite_command, rebasing_completes_a_rewriting) {
  make();
  const std::string file = path + "/main.db", old = dir / "old.db";
  std::filesystem::copy_file(file, old);
  (void)rewrite({.path = path});
  std::filesystem::rename(file, file + ".rewritten");
  std::filesystem::rename(old, file);
  EXPECT_EQ(rewrite({.path = path, .is_rebase = true, .check = true}).exit_code, exit_ok);
  EXPECT_NE(surveyed_store(path).databases().front().home, home);
}

// [rvm.archive.beside]
TEST_F(rewrite_command, recovers_into_the_archive) {
  make();
  store_options how = small_store();
  how.memory.archive.emplace();
  const auto commit = [&](store& s) { s.transact([&] { ++s.find_root<part>("first")->number; }); };
  {
    store s(path, how);
    commit(s);
    s.close();
  }
  run_and_die([&] {
    store s(path, how);
    commit(s);
    die();
  });
  const auto log = rvm::log_files::open_unlocked(os::real_disk(), path + "/log");
  const rvm::lsn end = rvm::find_tail(*log, log->status()).tail;
  ASSERT_GT(end, log->status().head);
  (void)rewrite({.path = path, .is_rebase = true});
  const rvm::archive_reader archive(os::real_disk(), path + "/log.archive", log->status().log_id);
  EXPECT_GE(archive.end(), end);
}

TEST_F(rewrite_command, differences_are_found_by_their_paths) {
  make();
  (void)rewrite({.path = path, .to = dir / "clone"});
  change(dir / "clone");
  const shown found = difference(path, dir / "clone");
  EXPECT_EQ(found.exit_code, exit_damaged);
  for (const char* const line :
       {"first.number: was -7, is 8\n",
        "first.next.name: was \"a name that does not fit into the string itself\", is \"other\"\n",
        "first.twin.twin: was -> store_command_types::part", "more:num bers.first_: had 9 elements, has 10\n",
        "fresh: is a root that only the second one has\n", "more:num bers.size_: was 9, is 10\n"})
    EXPECT_TRUE(found.has(line)) << line << " is not in " << found.text;
  const auto j = difference(path, dir / "clone", true, 2).parsed();
  EXPECT_EQ(j["first"].size(), 2U);
  EXPECT_GT(j["differences"], 4);
}

// Slots without elements do not count, nor where weak references lead, as long as it is to the same objects.
TEST_F(rewrite_command, what_is_no_value_does_not_differ) {
  const std::string other = dir / "other", clone = dir / "clone";
  const auto with = [](const std::string& which, auto&& f) {
    store s(which, small_store());
    s.transact([&] { f(s, s.root<weakly_linked>("top")); });
    s.close();
  };
  with(path, [](store& owner, weakly_linked& top) {
    for (int n = 0; n < 5; ++n) {
      top.numbers.push_back(n);
      top.standard.push_back(n);
      top.deque.push_back(n);
      top.set.insert(n);
      top.texts.emplace(n, "a text");
      top.parts.push_back(owner.make<linked_part>());
    }
    for (std::size_t n = 0; n < 5; ++n) top.parts[n]->weakly = tenure::weak<linked_part>(top.parts[4 - n]);
    top.queue.watch(top.parts[1]);
  });
  std::filesystem::copy(path, other, std::filesystem::copy_options::recursive);
  with(other, [](store&, weakly_linked& top) {
    top.numbers.push_back(9);
    top.numbers.pop_back();
    top.standard.push_back(9);
    top.standard.pop_back();
    top.deque.push_back(9);
    top.deque.pop_back();
    top.set.insert(9);
    top.set.erase(9);
    top.texts.emplace(9, "gone");
    top.texts.erase(9);
  });
  (void)rewrite({.path = other, .to = clone});
  for (const std::string& one : {other, clone})
    EXPECT_EQ(difference(path, one).exit_code, exit_ok) << difference(path, one).text;
  with(other, [](store&, weakly_linked& top) {
    top.parts[0]->weakly = tenure::weak<linked_part>(top.parts[1]);
    top.set.insert(9);
    top.deque.push_back(9);
  });
  const shown found = difference(path, other);
  EXPECT_TRUE(found.has("had 5 elements, has 6")) << found.text;
  EXPECT_TRUE(found.has("refers to another object")) << found.text;
}

// As a store and its backup have.
TEST_F(rewrite_command, stores_at_the_same_addresses_are_compared) {
  make();
  std::filesystem::copy(path, dir / "copy", std::filesystem::copy_options::recursive);
  EXPECT_EQ(difference(path, dir / "copy").exit_code, exit_ok) << difference(path, dir / "copy").text;
  EXPECT_EQ(difference(path, path).exit_code, exit_ok);
  change(path);
  EXPECT_TRUE(difference(dir / "copy", path).has("first.number: was -7, is 8\n"));
  EXPECT_TRUE(difference(path, dir / "copy").has("first.number: was 8, is -7\n"));
  EXPECT_GT(difference(path, dir / "copy", true).parsed()["objects"], 3);
}

TEST_F(rewrite_command, a_schema_is_checked_for_what_conversion_refuses) {
  const auto of_size = [&](int size, const std::string& file, bool knows_holder) {
    const std::string bytes = std::to_string(size);
    const auto named = [](const std::string& name, const std::string& bytes_of, const std::string& fields) {
      return R"({"name": ")" + name + R"(", "version": 0, "size": )" + bytes_of +
             R"(, "alignment": 4, "fingerprint": )" + bytes_of + R"(, "has_default": true, "fields": [)" + fields +
             "]}";
    };
    const std::string number =
        R"({"name": "n", "kind": "data", "scalar": "signed", "type": "int", "offset": 0, "size": )" + bytes + "}";
    const std::string nested =
        R"({"name": "e", "kind": "nested", "type": "e", "of": "e", "offset": 0, "size": )" + bytes + "}";
    std::string text = R"({"tenure_schema": 1, "types": [)" + named("e", bytes, number) + "," +
                       named("std::deque<e, tenure::allocator<e>>", "80", "");
    if (knows_holder) text += "," + named("holder", bytes, nested);
    std::ofstream(dir / file) << text << "]}";
    return dir / file;
  };
  const std::string was = of_size(4, "was.json", true), is = of_size(8, "is.json", false);
  const shown refused = show([&](std::FILE* out) { return check_schema(was, is, false, out); });
  EXPECT_EQ(refused.exit_code, exit_damaged);
  EXPECT_NE(refused.text.find("a deque cannot be converted"), std::string::npos) << refused.text;
  EXPECT_NE(refused.text.find("holder: has a e, which has changed, and the program does not know holder"),
            std::string::npos)
      << refused.text;
}

// Whatever opening says of declarations, the check says of the schema.
TEST_F(rewrite_command, a_schema_has_the_declarations) {
  register_type<grown>();
  const std::string program = schema_file(schema());
  nlohmann::json was = parse_json(schema());
  const nlohmann::json types = std::exchange(was["types"], nlohmann::json::array());
  for (nlohmann::json of : types) {
    if (of["name"] != "rewrite_command_types::grown") continue;
    of["fields"].erase(1);
    of["fingerprint"] = 1;
    of.erase("changes");
    was["types"].push_back(of);
  }
  std::ofstream(dir / "was.json") << was.dump();
  const shown refused = show([&](std::FILE* out) { return check_schema(dir / "was.json", program, false, out); });
  EXPECT_EQ(refused.exit_code, exit_damaged);
  for (const char* const what : {"field `small`: the value that was declared for it does not fit",
                                 "since(0).added(\"none\", VALUE) is declared, and there is no such field",
                                 "since(0).converted(...) is declared twice"})
    EXPECT_TRUE(refused.has(what)) << refused.text;
}

TEST_F(rewrite_command, schemas_are_compared) {
  make();
  const std::string program = schema_file(schema());
  const auto check = [&](const std::string& with, bool as_json = false) {
    return show([&](std::FILE* out) { return check_schema(path, with, as_json, out); });
  };
  EXPECT_EQ(check(program).exit_code, exit_ok);
  EXPECT_TRUE(check(program).has("opens it as it is"));
  const auto same = [&](const std::string& with) {
    return show([&](std::FILE* out) { return show_schema_difference(path, with, false, out); });
  };
  const shown stored = show([&](std::FILE* out) { return export_schema(path, out); });
  const std::string exported = dir / "exported.json";
  std::ofstream(exported) << stored.text;
  EXPECT_EQ(same(exported).exit_code, exit_ok) << same(exported).text;
  EXPECT_EQ(same(program).exit_code, exit_damaged) << "the program has other types, too";

  // A field gets another name.
  std::string text = schema();
  const std::string field = "\"name\": \"painted\"";
  ASSERT_NE(text.find(field), std::string::npos);
  text.replace(text.find(field), field.size(), "\"name\": \"colored\"");
  nlohmann::json changed = parse_json(text);
  for (auto& t : changed["types"])
    if (t["name"] == "store_command_types::part") t["fingerprint"] = 1;
  const shown refused = check(schema_file(changed.dump()));
  EXPECT_EQ(refused.exit_code, exit_damaged);
  EXPECT_TRUE(
      refused.has("field `painted` (store_command_types::colour) is gone: declare since(0).removed(\"painted\")"))
      << refused.text;
  for (auto& t : changed["types"])
    if (t["name"] == "store_command_types::part")
      t["changes"] = {{{"since", 0},
                       {"renamed", nlohmann::json::array({nlohmann::json::array({"painted", "colored"})})},
                       {"removed", nlohmann::json::array()},
                       {"added", nlohmann::json::array()},
                       {"narrowed", nlohmann::json::array()},
                       {"converted", false}}};
  const shown converted = check(schema_file(changed.dump()));
  EXPECT_EQ(converted.exit_code, exit_ok) << converted.text;
  EXPECT_TRUE(converted.has("is converted by a program")) << converted.text;
  EXPECT_EQ(check(schema_file(changed.dump()), true).parsed()["converted"][0], "store_command_types::part");

  expect_error(errc::damaged, {"is no schema"}, [&] { (void)check(schema_file("{}")); });
  expect_error(errc::damaged, {"is no schema"}, [&] { (void)check(schema_file("no json")); });
  expect_error(std::errc::no_such_file_or_directory, {"no such schema"}, [&] { (void)check(dir / "none"); });
}

}  // namespace
}  // namespace tenure::tools
