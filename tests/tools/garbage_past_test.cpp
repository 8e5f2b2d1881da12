// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which transactions have dropped what is garbage, and how it was reached last [heap.garbage.past]: of the ways in which something is dropped, and of
// random programs that know it themselves.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/collect.hpp>
#include <tenure/tenure.hpp>

#include "garbage_past.hpp"
#include "gc_command.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"
#include "tools/shown.hpp"

namespace garbage_past_types {

struct node {
  int number = 0;
  garbage_past_types::node* next = nullptr;
};
struct holders {
  garbage_past_types::node* one = nullptr;
  tenure::vector<garbage_past_types::node*> many;
  tenure::map<int, garbage_past_types::node*> ordered;
  tenure::hash_map<int, garbage_past_types::node*> hashed;
};
struct drawn {
  garbage_past_types::drawn* to[2] = {};
  tenure::vector<garbage_past_types::drawn*> many;
};

}  // namespace garbage_past_types

namespace tenure::tools {
namespace {

using namespace support;
using rvm::testing::scaled;
using namespace garbage_past_types;
using nlohmann::json;

class garbage_history : public ::testing::Test {
 protected:
  garbage_history() { how.memory.archive.emplace(); }

  void change(const std::string& label, const std::function<void()>& f) {
    auto tx = opened->begin();
    tx.label(label);
    f();
    tx.commit();
  }
  node* make(int number, node* next = nullptr) {
    node* const made = opened->make<node>();
    *made = {number, next};
    return made;
  }
  // Transactions that drop nothing.
  void pass_time(int transactions) {
    for (int n = 0; n < transactions; ++n) change("time", [&] { ++opened->root<node>("clock").number; });
  }
  [[nodiscard]] shown collect_dry(bool as_json, std::uint64_t most = 100) {
    return show([&](std::FILE* out) {
      return collect_store(path, {.dry_run = true, .most_past = most}, as_json, out, nullptr);
    });
  }
  // The objects of a type that a transaction with the label has dropped.
  [[nodiscard]] static std::uint64_t dropped_by(const json& history, const std::string& label,
                                                const std::string& type) {
    std::uint64_t sum = 0;
    for (const json& each : history["dropped"]) {
      if ((each["dropped_by"].is_null() ? "" : each["dropped_by"]["label"].get<std::string>()) != label) continue;
      for (const json& of : each["types"])
        if (of["type"] == type) sum += of["objects"].get<std::uint64_t>();
    }
    return sum;
  }

  temp_dir dir;
  std::string path = dir / "store";
  store_options how = small_store();
  std::optional<store> opened;
};

TEST_F(garbage_history, names_the_transaction_however_something_is_dropped) {
  opened.emplace(path, how);
  auto& in = opened->root<holders>("holders");
  change("make", [&] {
    for (int n = 0; n < 40; ++n) {
      in.many.push_back(make(n));
      in.ordered[n] = make(n);
      in.hashed[n] = make(n);
    }
    in.one = make(0, make(1, make(2)));
    opened->root<node>("gone").next = make(0);
  });
  pass_time(5);
  change("overwrite", [&] { in.one->next = nullptr; });
  change("pop", [&] {
    for (int n = 0; n < 3; ++n) in.many.pop_back();
  });
  pass_time(7);
  change("erase", [&] {
    for (int n = 0; n < 4; ++n) in.ordered.erase(n);
  });
  change("erase hashed", [&] {
    for (int n = 0; n < 5; ++n) in.hashed.erase(n);
  });
  change("link", [&] { in.many[7]->next = make(0, make(1)); });
  pass_time(1);
  change("destroy", [&] {
    opened->destroy(in.many[7]);
    in.many[7] = nullptr;
  });
  change("remove root", [&] { opened->remove_root("gone"); });
  pass_time(2);
  opened->close();

  const shown looked = collect_dry(true);
  EXPECT_EQ(looked.exit_code, 0);
  const json history = looked.parsed()["history"];
  const std::string type = "garbage_past_types::node";
  EXPECT_EQ(dropped_by(history, "overwrite", type), 2U) << looked.text;
  EXPECT_EQ(dropped_by(history, "pop", type), 3U) << looked.text;
  EXPECT_EQ(dropped_by(history, "erase", type), 4U) << looked.text;
  EXPECT_EQ(dropped_by(history, "erase hashed", type), 5U) << looked.text;
  EXPECT_EQ(dropped_by(history, "destroy", type), 2U) << looked.text;
  EXPECT_EQ(dropped_by(history, "remove root", type), 2U) << looked.text;
  EXPECT_EQ(dropped_by(history, "time", type), 0U) << looked.text;
  EXPECT_EQ(dropped_by(history, "", type), 0U) << looked.text;
  const shown text = collect_dry(false);
  for (const char* part : {"\"pop\"", "root holders, ", ".one -> ", ".next -> ", ".many.", "[37] -> ", "root gone, "})
    EXPECT_TRUE(text.has(part)) << part << " is not in\n" << text.text;
}

TEST_F(garbage_history, says_what_it_does_not_know) {
  how.memory.archive.reset();
  opened.emplace(path, how);
  change("make", [&] {
    auto& many = opened->root<holders>("holders").many;
    for (int n = 0; n < 10; ++n) many.push_back(make(n));
  });
  change("before", [&] { opened->root<holders>("holders").many[9] = nullptr; });
  opened->close();
  EXPECT_TRUE(collect_dry(false).has("the history knows none")) << collect_dry(false).text;
  EXPECT_TRUE(collect_dry(true).parsed()["history"]["dropped"][0]["dropped_by"].is_null());

  how.memory.archive.emplace();
  opened.emplace(path, how);
  change("first", [&] { opened->root<holders>("holders").many[8] = nullptr; });  // of what is there no change is known
  change("link", [&] { opened->root<holders>("holders").many[7]->next = make(0); });
  change("after", [&] { opened->root<holders>("holders").many[7]->next = nullptr; });
  opened->close();
  const shown looked = collect_dry(true);
  const json history = looked.parsed()["history"];
  const std::string type = "garbage_past_types::node";
  EXPECT_EQ(dropped_by(history, "after", type), 1U) << looked.text;
  EXPECT_EQ(dropped_by(history, "", type), 2U) << looked.text;
  EXPECT_TRUE(collect_dry(false).has("not known: before the history begins")) << collect_dry(false).text;
}

TEST_F(garbage_history, looks_for_the_largest_only) {
  opened.emplace(path, how);
  auto& many = opened->root<holders>("holders").many;
  change("make", [&] {
    for (int n = 0; n < 100; ++n) many.push_back(make(n));
  });
  for (int n = 0; n < 20; ++n) change("one", [&] { many.pop_back(); });
  change("many", [&] { many.resize(10); });
  for (int n = 0; n < 5; ++n) change("one", [&] { many.pop_back(); });
  opened->close();
  const json history = collect_dry(true, 1).parsed()["history"];
  ASSERT_FALSE(history["dropped"].empty());
  EXPECT_EQ(history["dropped"][0]["dropped_by"]["label"], "many");
  EXPECT_EQ(history["dropped"][0]["objects"], 70);
  std::uint64_t all = 0, within = 0;
  for (const json& each : history["dropped"]) {
    all += each["objects"].get<std::uint64_t>();
    within += each["not_before"].is_null() ? 0 : each["objects"].get<std::uint64_t>();
  }
  EXPECT_EQ(all, 95U);
  EXPECT_GT(within, 0U);
  EXPECT_TRUE(collect_dry(false, 1).has(" at the latest"));
}

// An object is moved from one list to another in two transactions.
TEST_F(garbage_history, means_the_last_time_that_something_was_dropped) {
  for (const int idle : {0, 1, 10}) {
    opened.emplace(path, how);
    auto& in = opened->root<holders>("holders");
    node* moved = nullptr;
    change("make", [&] { in.one = moved = make(1, make(2)); });
    pass_time(idle);
    change("take", [&] { in.one = nullptr; });
    pass_time(3);
    change("put", [&] { in.many.push_back(moved); });
    pass_time(2 * idle);
    change("last", [&] { in.many.pop_back(); });
    pass_time(3);
    opened->close();
    const shown looked = collect_dry(true);
    EXPECT_EQ(dropped_by(looked.parsed()["history"], "last", "garbage_past_types::node"), 2U) << looked.text;
    std::filesystem::remove_all(path);
  }
}

// Nobody knows what a part of the history has dropped that is missing.
TEST_F(garbage_history, names_nobody_across_a_gap) {
  const auto drop = [&](int from, int to) {
    opened.emplace(path, how);
    auto& many = opened->root<holders>("holders").many;
    if (from == 0)
      change("make", [&] {
        for (int n = 0; n < 30; ++n) many.push_back(make(n));
      });
    for (int n = from; n < to; ++n)
      change("drop " + std::to_string(n), [&] { many[static_cast<std::size_t>(n)] = nullptr; });
    opened->close();
  };
  drop(0, 10);
  how.memory.archive.reset();
  drop(10, 20);
  how.memory.archive.emplace();
  drop(20, 25);
  const shown looked = collect_dry(true);
  EXPECT_EQ(looked.exit_code, 1);
  const json history = looked.parsed()["history"];
  EXPECT_FALSE(history["missing"].empty());
  std::uint64_t exactly = 0, all = 0;
  for (const json& each : history["dropped"]) {
    all += each["objects"].get<std::uint64_t>();
    if (each["dropped_by"].is_null() || !each["not_before"].is_null()) continue;
    ++exactly;
    EXPECT_EQ(each["objects"], 1) << each;
  }
  EXPECT_EQ(exactly, 10U) << looked.text;
  EXPECT_EQ(all, 25U) << looked.text;
}

TEST_F(garbage_history, is_for_dry_runs) {
  { const store made(path, how); }
  expect_error(errc::bad_option, {"--dry-run"}, [&] {
    (void)show([&](std::FILE* out) { return collect_store(path, {.most_past = 1}, false, out, nullptr); });
  });
}

// A graph in two databases, and for each object the number of the transaction that has dropped it.
class graph_model {
 public:
  graph_model(const std::string& path, store_options how, std::uint64_t seed)
      : puts_back_(seed % 2 == 0), random_(seed), store_(path, how) {
    store_.create_database("more", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  }
  void run(int transactions) {
    for (now_ = 1; now_ <= transactions; ++now_) {
      auto tx = store_.begin();
      tx.label(std::to_string(now_));
      for (std::uint64_t n = draw(6); n-- > 0;) step();
      tx.commit();
      note_dropped();
      if (draw(60) == 0) forget_dropped();
    }
    store_.close();
  }
  [[nodiscard]] const std::map<const void*, int>& dropped() const { return dropped_; }
  // Some were dropped as parts of others, and came back with them: of these it may be told that they were dropped before.
  void forget_what_came_back() {
    std::erase_if(dropped_, [&](const auto& each) { return came_back_.contains(each.first); });
  }

 private:
  std::uint64_t draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>{0, below - 1}(random_);
  }
  tenure::vector<drawn*>& root() { return store_.root<tenure::vector<drawn*>>("root"); }
  tenure::vector<drawn*>& more() { return store_.find_database("more")->root<tenure::vector<drawn*>>("root"); }
  drawn* any() {
    const auto all = reached();
    if (all.empty()) return nullptr;
    return *std::next(all.begin(), static_cast<std::ptrdiff_t>(draw(all.size())));
  }
  // The program has kept a pointer to it.
  drawn* any_dropped() {
    if (dropped_.empty()) return nullptr;
    const void* const chosen = std::next(dropped_.begin(), static_cast<std::ptrdiff_t>(draw(dropped_.size())))->first;
    return static_cast<drawn*>(const_cast<void*>(chosen));
  }
  drawn* made() { return draw(3) == 0 ? store_.find_database("more")->make<drawn>() : store_.make<drawn>(); }
  void step() {
    tenure::vector<drawn*>& in = draw(4) == 0 ? more() : root();
    drawn* const at = any();
    drawn* const to = puts_back_ && draw(8) == 0 ? any_dropped() : draw(2) == 0 ? made() : any();
    switch (draw(7)) {
      case 0:
        in.push_back(to);
        put_back_.insert(to);
        break;
      case 1:
        if (!in.empty() && !puts_back_) in.pop_back();
        break;
      case 2:
        if (at != nullptr && !at->many.empty() && !puts_back_) at->many.erase(at->many.begin());
        break;
      case 3:
        if (at != nullptr && draw(3) == 0) at->to[draw(2)] = nullptr;
        break;
      case 4:
        if (at != nullptr) at->many.push_back(to);
        if (at != nullptr) put_back_.insert(to);
        break;
      default:
        if (at != nullptr) at->to[draw(2)] = to;
        if (at != nullptr) put_back_.insert(to);
    }
  }
  std::set<drawn*> reached() {
    std::set<drawn*> all;
    std::vector<drawn*> next;
    const auto add = [&](drawn* to) {
      if (to != nullptr && all.insert(to).second) next.push_back(to);
    };
    for (drawn* const to : root()) add(to);
    for (drawn* const to : more()) add(to);
    while (!next.empty()) {
      drawn* const at = next.back();
      next.pop_back();
      for (drawn* const to : at->to) add(to);
      for (drawn* const to : at->many) add(to);
    }
    return all;
  }
  void note_dropped() {
    const std::set<drawn*> here = reached();
    for (drawn* const was : last_)
      if (!here.contains(was)) dropped_[was] = now_;
    for (drawn* const is : here)
      if (dropped_.erase(is) != 0 && !put_back_.contains(is)) came_back_.insert(is);
    put_back_.clear();
    last_ = here;
  }
  // Their places get other objects.
  void forget_dropped() {
    store_.collect({.roots = program_roots::handles, .quarantine = quarantine::none});
    dropped_.clear();
  }

  // What was dropped, but never where it may have been before: a vector's memory has what was removed, until it is overwritten.
  const bool puts_back_;
  std::mt19937_64 random_;
  store store_;
  int now_ = 0;
  std::set<drawn*> last_;
  std::map<const void*, int> dropped_;
  std::set<const void*> put_back_, came_back_;
};

TEST(garbage_history_model, knows_what_random_programs_know) {
  std::uint64_t objects = 0;
  for (std::uint64_t seed = 1; seed <= scaled(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const temp_dir dir;
    const std::string path = dir / "store";
    store_options how = small_store();
    how.memory.archive.emplace();
    graph_model model(path, how, seed);
    model.run(static_cast<int>(50 + seed * 13 % 200));
    model.forget_what_came_back();

    // Others were made by a transaction that has dropped them itself, with what it put them in.
    std::vector<heap::address> garbage;
    (void)collect(path, {.dry_run = true, .on_garbage = [&](const void* at) {
                           if (model.dropped().contains(at)) garbage.push_back(reinterpret_cast<heap::address>(at));
                         }});
    EXPECT_EQ(garbage.size(), model.dropped().size());
    history past(os::real_disk(), path + "/log", {});
    const garbage_past found = find_past(surveyed_store(path), past, garbage, 10'000);
    std::map<int, std::uint64_t> expected, seen;
    for (const auto& [at, by] : model.dropped()) ++expected[by];
    for (const dropped_together& each : found.dropped)
      for (const type_count& of : each.types)
        seen[each.by && !each.not_before ? std::stoi(each.by->label) : -1] += of.objects;
    EXPECT_EQ(seen, expected);
    objects += model.dropped().size();
  }
  EXPECT_GT(objects, 2 * scaled(20));
}

}  // namespace
}  // namespace tenure::tools
