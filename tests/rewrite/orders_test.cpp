// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers whose keys are pointers, or have some: in a rewritten store each entry is found where the new addresses want it,
// and pointers to entries lead to them.
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tenure/hash_set.hpp>
#include <tenure/ordered_index.hpp>
#include <tenure/set.hpp>

#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace orders_test_types {

struct thing {
  std::uint64_t number;
  char ballast[40];
};
struct entry_value {
  std::uint64_t number;
  tenure::string name;
  std_list<int> list;  // refers to itself
};
struct by_number {
  bool operator()(const thing* a, const thing* b) const { return a->number < b->number; }
};
struct keyed {
  tenure::vector<thing*> all;  // in the order in which they were made
  tenure::hash_map<thing*, entry_value> hashed;
  tenure::hash_set<thing*> hashed_set;
  tenure::hash_set<std::pair<std::uint32_t, thing*>> hashed_pairs;
  tenure::hash_map<std::pair<tenure::string, thing*>, int> hashed_text;
  tenure::map<thing*, entry_value> map;
  tenure::set<thing*> set;
  tenure::multimap<thing*, int> multi;
  tenure::set<std::pair<int, thing*>> pairs;
  tenure::ordered_index<int, thing*> index;
  tenure::ordered_index<tenure::string, thing*> text_index;
  std_map<thing*, entry_value> standard_map;
  std_set<thing*> standard_set;
  std_multimap<thing*, int> standard_multi;
  std_unordered_map<thing*, entry_value> standard_hashed;
  std_unordered_multimap<thing*, int> standard_hashed_multi;
  tenure::vector<tenure::string*> names;  // of the values: in hashed, map, standard_map and standard_hashed in turn
};
struct own_order {
  tenure::map<thing*, int, by_number> map;
};

}  // namespace orders_test_types
using namespace orders_test_types;

namespace {

entry_value value_of(std::uint64_t n) {
  entry_value v{n, long_name(n), {}};
  v.list.push_back(static_cast<int>(n));
  return v;
}
int group_of(std::uint64_t n) { return static_cast<int>(n / 7); }
std::string text_of(std::uint64_t n) { return n % 2 == 0 ? "short " + std::to_string(n / 9) : long_name(n / 9); }

class keyed_by_addresses : public ::testing::Test {
 protected:
  void make(std::uint64_t count, std::uint64_t seed) {
    store s(path, how);
    auto& k = s.root<keyed>("keyed");
    std::mt19937_64 random(seed);
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        auto* const t = s.make<thing>();
        t->number = n;
        k.all.push_back(t);
      }
      // Addresses follow no order of the containers.
      std::ranges::shuffle(k.all, random);
      for (std::uint64_t n = 0; n < count; ++n) {
        thing* const t = k.all[n];
        t->number = n;
        k.hashed[t] = value_of(n);
        k.hashed_set.insert(t);
        k.hashed_pairs.emplace(static_cast<std::uint32_t>(group_of(n)), t);
        k.hashed_text[{tenure::string(text_of(n)), t}] = static_cast<int>(n);
        k.map[t] = value_of(n);
        k.set.insert(t);
        k.pairs.emplace(group_of(n), t);
        k.index.insert(group_of(n), t);
        k.text_index.insert(tenure::string(text_of(n)), t);
        k.standard_map[t] = value_of(n);
        k.standard_set.insert(t);
        k.standard_hashed[t] = value_of(n);
        for (int m = 0; m < static_cast<int>(n % 3); ++m) {
          k.multi.emplace(t, m);
          k.standard_multi.emplace(t, m);
          k.standard_hashed_multi.emplace(t, m);
        }
      }
    });
    s.transact([&] {
      // Holes.
      for (std::uint64_t n = 0; n < count; n += 5) {
        thing* const t = k.all[n];
        k.hashed.erase(t);
        k.hashed_set.erase(t);
        k.map.erase(t);
        k.set.erase(t);
        k.standard_map.erase(t);
        k.standard_set.erase(t);
        k.standard_hashed.erase(t);
      }
      for (std::uint64_t n = 0; n < count; ++n) {
        if (n % 5 == 0) {
          k.names.push_back(nullptr);
          continue;
        }
        entry_value* const values[] = {&k.hashed.at(k.all[n]), &k.map.at(k.all[n]), &k.standard_map.at(k.all[n]),
                                       &k.standard_hashed.at(k.all[n])};
        k.names.push_back(&values[n % 4]->name);
      }
    });
    expect_sound(s);
  }

  static void expect_value(const entry_value& v, std::uint64_t n) {
    EXPECT_EQ(v.number, n);
    EXPECT_EQ(v.name, long_name(n));
    ASSERT_EQ(v.list.size(), 1u);
    EXPECT_EQ(v.list.front(), static_cast<int>(n));
  }
  template <class Container>
  static void expect_sorted(const Container& c) {
    EXPECT_TRUE(std::is_sorted(c.begin(), c.end(), [&](const auto& a, const auto& b) { return c.value_comp()(a, b); }));
  }

  static void expect_whole(const store& s, std::uint64_t count) {
    keyed& k = *s.find_root<keyed>("keyed");
    k.hashed.check();
    k.hashed_set.check();
    k.hashed_pairs.check();
    k.hashed_text.check();
    k.map.check();
    k.set.check();
    k.multi.check();
    k.pairs.check();
    k.index.check();
    k.text_index.check();
    expect_sorted(k.standard_map);
    expect_sorted(k.standard_set);
    expect_sorted(k.standard_multi);
    ASSERT_EQ(k.all.size(), count);
    const std::uint64_t left = count - (count + 4) / 5;
    for (const std::uint64_t size : {k.hashed.size(), k.hashed_set.size(), k.map.size(), k.set.size(),
                                     k.standard_map.size(), k.standard_set.size(), k.standard_hashed.size()})
      EXPECT_EQ(size, left);
    for (std::uint64_t n = 0; n < count; ++n) {
      SCOPED_TRACE(n);
      thing* const t = k.all[n];
      ASSERT_EQ(t->number, n);
      const bool is_there = n % 5 != 0;
      EXPECT_EQ(k.hashed.contains(t), is_there);
      EXPECT_EQ(k.hashed_set.contains(t), is_there);
      EXPECT_EQ(k.map.contains(t), is_there);
      EXPECT_EQ(k.set.contains(t), is_there);
      EXPECT_EQ(k.standard_map.contains(t), is_there);
      EXPECT_EQ(k.standard_set.contains(t), is_there);
      EXPECT_EQ(k.standard_hashed.contains(t), is_there);
      EXPECT_TRUE(k.hashed_pairs.contains({static_cast<std::uint32_t>(group_of(n)), t}));
      EXPECT_EQ(k.hashed_text.at({tenure::string(text_of(n)), t}), static_cast<int>(n));
      EXPECT_TRUE(k.pairs.contains({group_of(n), t}));
      EXPECT_TRUE(k.index.contains(group_of(n), t));
      EXPECT_TRUE(k.text_index.contains(tenure::string(text_of(n)), t));
      EXPECT_EQ(k.multi.count(t), n % 3);
      EXPECT_EQ(k.standard_multi.count(t), n % 3);
      EXPECT_EQ(k.standard_hashed_multi.count(t), n % 3);
      if (!is_there) continue;
      entry_value* const values[] = {&k.hashed.at(t), &k.map.at(t), &k.standard_map.at(t), &k.standard_hashed.at(t)};
      for (const entry_value* const v : values) expect_value(*v, n);
      EXPECT_EQ(k.names[n], &values[n % 4]->name);
    }
  }

  temp_dir dir;
  std::string path = dir / "store";
  store_options how = small_store();
};

TEST_F(keyed_by_addresses, entries_are_found_in_every_order) {
  constexpr std::uint64_t count = 700;
  make(count, 1);
  for (const object_order order :
       {object_order::breadth_first, object_order::depth_first, object_order::by_address, object_order::by_type}) {
    (void)compact(path, {.order = order});
    store s(path, how);
    expect_sound(s);
    expect_whole(s, count);
  }
}

TEST_F(keyed_by_addresses, of_every_small_size) {
  for (std::uint64_t count = 0; count < 24; ++count) {
    std::filesystem::remove_all(path);
    make(count, count);
    (void)compact(path);
    store s(path, how);
    expect_sound(s);
    expect_whole(s, count);
  }
}

TEST_F(keyed_by_addresses, the_program_goes_on) {
  constexpr std::uint64_t count = 200;
  make(count, 3);
  (void)compact(path);
  store s(path, how);
  keyed& k = *s.find_root<keyed>("keyed");
  s.transact([&] {
    for (std::uint64_t n = 0; n < count; n += 5) {
      thing* const t = k.all[n];
      k.hashed[t] = k.map[t] = k.standard_map[t] = k.standard_hashed[t] = value_of(n);
      k.hashed_set.insert(t);
      k.set.insert(t);
      k.standard_set.insert(t);
    }
  });
  s.transact([&] {
    for (std::uint64_t n = 0; n < count; n += 5) {
      thing* const t = k.all[n];
      for (const std::size_t erased :
           {k.hashed.erase(t), k.map.erase(t), k.standard_map.erase(t), k.hashed_set.erase(t), k.set.erase(t),
            k.standard_set.erase(t), k.standard_hashed.erase(t)})
        EXPECT_EQ(erased, 1u);
    }
  });
  expect_sound(s);
  expect_whole(s, count);
}

// The array of its buckets is copied in several pieces.
TEST_F(keyed_by_addresses, a_table_of_many_buckets) {
  constexpr std::uint64_t count = 20'000;
  {
    store s(path, how);
    auto& k = s.root<keyed>("keyed");
    s.transact([&] {
      k.standard_hashed_multi.reserve(300'000);
      for (std::uint64_t n = 0; n < count; ++n) {
        k.all.push_back(s.make<thing>());
        k.standard_hashed_multi.emplace(k.all.back(), static_cast<int>(n));
      }
    });
  }
  (void)compact(path);
  store s(path, how);
  const auto& k = *s.find_root<keyed>("keyed");
  for (std::uint64_t n = 0; n < count; ++n) {
    const auto found = k.standard_hashed_multi.find(k.all[n]);
    ASSERT_TRUE(found != k.standard_hashed_multi.end()) << n;
    ASSERT_EQ(found->second, static_cast<int>(n));
  }
}

TEST_F(keyed_by_addresses, an_order_of_the_program_is_refused) {
  {
    store s(path, how);
    auto& root = s.root<own_order>("own");
    s.close();
    (void)compact(path);  // it is empty
    (void)root;
  }
  {
    store s(path, how);
    s.transact([&] { s.root<own_order>("own").map[s.make<thing>()] = 1; });
  }
  expect_error(errc::bad_type, {"orders_test_types::own_order", "the program's own function orders it"},
               [&] { (void)compact(path); });
  store s(path, how);
  expect_sound(s);
}

}  // namespace
