// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Roots that a cache sets and removes [cache.roots].
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/cached_graph.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_root_types {

struct spot {
  std::uint64_t number;
  ref<spot> next;
  tenure::vector<std::uint64_t> parts;
};
struct other_spot {
  std::uint64_t number;
};

}  // namespace cache_root_types
using namespace cache_root_types;

namespace {

class cache_roots : public cached_store {
 protected:
  void make_empty() {
    make([](store& s) { (void)s.root<spot>("first"); });
  }
  ref<spot> made(std::uint64_t number) {
    const ref<spot> at = opened->make<spot>();
    at.change().number = number;
    return at;
  }
};

TEST_F(cache_roots, are_as_a_model_says) {
  std::mt19937_64 random(1);
  std::map<std::string, std::uint64_t> model{{"first", 0}};
  make_empty();
  std::uint64_t number = 0, removed = 0, set = 0, most = 0;
  const auto expect_model = [&](auto& s, auto&& number_of) {
    std::vector<std::string> names = s.root_names(), expected;
    std::ranges::sort(names);
    for (const auto& [name, is] : model) expected.push_back(name);
    ASSERT_EQ(names, expected);
    for (const auto& [name, is] : model) ASSERT_EQ(number_of(name), is) << name;
  };
  for (int round = 0; round < 4; ++round) {
    open({.pool_pages = 1 + random() % 8});
    for (int n = 0; n < 60; ++n) {
      auto tx = opened->begin();
      const auto before = model;
      for (std::uint64_t i = random() % 8; i != 0; --i) {
        const std::string name =
            "root " + std::string(random() % 3 * 40, 'x') + std::to_string(random() % (round == 2 ? 4 : 60));
        if (random() % (round == 1 ? 4 : 2) != 0) {
          opened->set_root(name, made(++number));
          model[name] = number;
          ++set;
        } else if (model.erase(name) != 0) {
          opened->remove_root(name);
          ++removed;
        }
      }
      most = std::max(most, static_cast<std::uint64_t>(model.size()));
      expect_model(*opened, [&](const std::string& name) { return opened->root<spot>(name)->number; });
      if (random() % 4 == 0) {
        tx.abort();
        model = before;
      } else {
        tx.commit(cache::commit_mode::lazy);
      }
      ASSERT_NO_THROW(opened->check());
    }
    close();
    look([&](store& mapped) {
      expect_model(mapped, [&](const std::string& name) { return mapped.find_root<spot>(name)->number; });
      mapped.root<spot>("of round " + std::to_string(round));
      model["of round " + std::to_string(round)] = 0;
      if (model.erase("of round " + std::to_string(round - 2)) != 0)
        mapped.remove_root("of round " + std::to_string(round - 2));
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(removed, 50u);
  EXPECT_GT(set, 300u);
  EXPECT_GT(most, 40u);
}

TEST_F(cache_roots, lead_where_they_were_set_last) {
  make_empty();
  open();
  const std::uint64_t first = opened->root<spot>("first").home();
  {
    auto tx = opened->begin();
    const ref<spot> one = made(1), two = made(2);
    opened->set_root("a", one);
    EXPECT_EQ(opened->root<spot>("a").home(), one.home());
    opened->set_root("a", two);
    opened->set_root("first", one);
    opened->set_root("gone", one);
    opened->remove_root("gone");
    EXPECT_FALSE(opened->find_root<spot>("gone"));
    std::thread([&] {  // sees what is committed, without a transaction
      EXPECT_FALSE(opened->find_root<spot>("a"));
      EXPECT_EQ(opened->root<spot>("first").home(), first);
    })
        .join();
    expect_error(errc::wrong_type, {"the root \"a\" is a cache_root_types::spot, not a cache_root_types::other_spot"},
                 [&] { (void)opened->root<other_spot>("a"); });
    tx.commit();
  }
  opened->read([&] {
    EXPECT_EQ(opened->root<spot>("a")->number, 2u);
    EXPECT_EQ(opened->root<spot>("first")->number, 1u);
  });
  close();
  look([&](store& mapped) {
    EXPECT_EQ(mapped.root<spot>("a").number, 2u);
    EXPECT_EQ(mapped.root<spot>("first").number, 1u);
    EXPECT_EQ(mapped.root_names().size(), 2u);
    EXPECT_EQ(mapped.collect({.roots = program_roots::handles}).garbage, 1u);  // what "first" was
  });
}

TEST_F(cache_roots, are_changed_rightly_or_not_at_all) {
  make([](store& s) {
    (void)s.root<spot>("first");
    s.create_database("other", {.reservation = std::uint64_t{1} << 28, .home = next_home(std::uint64_t{1} << 28)});
  });
  open();
  const auto refuse = [&](errc code, std::initializer_list<std::string> parts, auto&& f) {
    expect_error(code, parts, f);
    opened->check();
  };
  refuse(errc::bad_transaction, {"cannot set a root outside of a transaction"},
         [&] { opened->set_root("a", opened->root<spot>("first")); });
  refuse(errc::bad_transaction, {"cannot remove a root outside of a transaction"},
         [&] { opened->remove_root("first"); });
  opened->read([&] {
    refuse(errc::read_only, {"only reads"}, [&] { opened->set_root("a", opened->root<spot>("first")); });
    refuse(errc::read_only, {"only reads"}, [&] { opened->remove_root("first"); });
  });
  auto tx = opened->begin();
  const ref<spot> one = made(1);
  refuse(errc::cannot_persist, {"\"a\"", "null", "remove_root"}, [&] { opened->set_root("a", ref<spot>()); });
  refuse(errc::bad_option, {"1 to 4096 bytes, and this one 0"}, [&] { opened->set_root("", one); });
  refuse(errc::bad_option, {"and this one 5000"}, [&] { opened->set_root(std::string(5000, 'x'), one); });
  refuse(errc::bad_option, {"no database \"none\""}, [&] { opened->set_root("a", one, "none"); });
  refuse(errc::cannot_persist, {"in another one, or was destroyed"}, [&] { opened->set_root("a", one, "other"); });
  refuse(errc::no_such_root, {"no root \"a\""}, [&] { opened->remove_root("a"); });
  one.change().parts = {1, 2, 3};
  refuse(errc::cannot_persist, {"array", "container"},
         [&] { opened->set_root("a", ref<std::uint64_t>(&one.change().parts[0])); });
  refuse(errc::cannot_persist, {"lies inside"},
         [&] { opened->set_root("a", ref<std::uint64_t>(&one.change().parts[1])); });
  refuse(errc::cannot_persist, {"is not a unsigned long", "made as"},
         [&] { opened->set_root("a", ref<std::uint64_t>(&one.change().number)); });
  opened->set_root("in other", opened->make_in<spot>("other"), "other");
  EXPECT_TRUE(opened->root_names("main") == std::vector<std::string>{"first"});
  EXPECT_TRUE(opened->root_names("other") == std::vector<std::string>{"in other"});
  tx.commit();
  close();
  look([&](store& mapped) {
    EXPECT_EQ(mapped.root_names().size(), 1u);
    EXPECT_NE(mapped.find_database("other")->find_root<spot>("in other"), nullptr);
  });
}

TEST_F(cache_roots, keep_what_they_lead_to_from_being_destroyed) {
  make_empty();
  open();
  opened->transact([&] { opened->set_root("a", made(1)); });
  auto tx = opened->begin();
  const ref<spot> two = made(2);
  opened->set_root("b", two);
  expect_error(errc::bad_free, {"root \"b\""}, [&] { opened->destroy(two); });
  opened->destroy(opened->root<spot>("a"));
  expect_error(errc::bad_transaction, {"was destroyed"}, [&] { (void)opened->root<spot>("a")->number; });
  expect_error(errc::cannot_persist, {"was destroyed, but is the root \"a\""}, [&] { tx.commit(); });
  opened->remove_root("a");
  tx.commit();
  {
    auto again = opened->begin();
    opened->destroy(opened->root<spot>("b"));
    opened->set_root("b", made(3));  // in place of it
    again.commit();
  }
  close();
  look([&](store& mapped) {
    EXPECT_EQ(mapped.root<spot>("b").number, 3u);
    EXPECT_EQ(mapped.root_names().size(), 2u);
    EXPECT_EQ(mapped.collect({.roots = program_roots::handles}).garbage, 0u);
  });
}

// Who looks at a root waits for who changes one.
TEST_F(cache_roots, are_locked) {
  make_empty();
  open({.transactions = cache::concurrency::object_locks});
  auto tx = opened->begin();
  opened->set_root("first", made(1));
  std::uint64_t found = 0;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    opened->read([&] { found = opened->root<spot>("first")->number; });
    done = true;
  });
  while (opened->stats().lock_waits == 0 && !done) std::this_thread::yield();
  EXPECT_FALSE(done);
  tx.commit();
  reader.join();
  EXPECT_EQ(found, 1u);
  // One of two that have both looked at roots, and both change one, is told so.
  opened->check();
  std::atomic<int> looked{0}, told{0};
  std::vector<std::thread> both;
  for (std::uint64_t n = 0; n < 2; ++n)
    both.emplace_back([&, n] {
      auto mine = opened->begin();
      (void)opened->find_root<spot>("none");
      ++looked;
      while (looked != 2) std::this_thread::yield();
      try {
        opened->set_root("of " + std::to_string(n), made(n));
        mine.commit();
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::deadlock);
        ++told;
        mine.abort();
      }
    });
  for (std::thread& each : both) each.join();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(opened->root_names().size(), 2u);
  close();
  look([&](store& mapped) { EXPECT_EQ(mapped.root<spot>("first").number, 1u); });
}

}  // namespace
