// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers whose keys are pointers, inside of other containers: their entries move with what they are in.
#include <random>
#include <string>
#include <vector>

#include <tenure/hash_set.hpp>
#include <tenure/set.hpp>
#include <tenure/weak_map.hpp>

#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace nested_orders_types {

struct owned {
  std::uint64_t number;
  char ballast[40];
};
struct nested {
  tenure::vector<owned*> all;
  tenure::hash_map<owned*, std_set<owned*>> trees_in_hash;
  tenure::hash_map<owned*, std_unordered_set<owned*>> tables_in_hash;
  tenure::hash_map<owned*, tenure::set<owned*>> sets_in_hash;
  tenure::map<owned*, std_set<owned*>> trees_in_map;
  tenure::map<owned*, tenure::hash_set<owned*>> hashes_in_map;
  std_map<owned*, std_unordered_set<owned*>> tables_in_tree;
  tenure::vector<tenure::hash_set<owned*>> hashes_in_vector;
  std_vector<tenure::hash_set<owned*>> hashes;
  std_vector<std_set<owned*>> trees;
  std_vector<std_vector<std_unordered_set<owned*>>> tables;
  std_deque<std_set<owned*>> queue;
};
struct refers_to_entries {
  tenure::hash_set<std::uint64_t*> numbers;  // first, so that it is put in order first
  tenure::hash_map<std::uint64_t*, int> of_those;
  tenure::vector<owned*> all;
  tenure::hash_map<owned*, std::uint64_t> hashed;
};

struct noted {
  tenure::vector<owned*> all;
  tenure::vector<owned*> kept;
  tenure::weak_map<owned, std::uint64_t> notes;
  tenure::hash_map<std::uint64_t, tenure::weak_map<owned, tenure::string>> texts;
};

}  // namespace nested_orders_types
using namespace nested_orders_types;

namespace {

constexpr std::uint64_t owned_count = 150, owner_count = 40;
bool is_of(std::uint64_t owner, std::uint64_t n) { return (owner * 31 + n * 17) % 7 == 0; }

std::vector<owned*> make_owned(store& s) {
  std::vector<owned*> all, others;
  for (std::uint64_t n = 0; n < owned_count; ++n) {
    all.push_back(s.make<owned>());
    others.push_back(s.make<owned>());
  }
  std::mt19937_64 random(7);
  std::ranges::shuffle(all, random);
  for (owned* const each : others) s.destroy(each);
  return all;
}

class nested_in_others : public ::testing::Test {
 protected:
  static void fill_all(nested& k, std::uint64_t owner) {
    owned* const o = k.all[owner];
    k.hashes_in_vector.emplace_back();
    k.hashes.emplace_back();
    k.trees.emplace_back();
    if (owner % 4 == 0) k.tables.emplace_back();
    k.tables.back().emplace_back();
    k.queue.emplace_back();
    for (std::uint64_t n = 0; n < owned_count; ++n) {
      if (!is_of(owner, n)) continue;
      owned* const t = k.all[n];
      k.trees_in_hash[o].insert(t);
      k.tables_in_hash[o].insert(t);
      k.sets_in_hash[o].insert(t);
      k.trees_in_map[o].insert(t);
      k.hashes_in_map[o].insert(t);
      k.tables_in_tree[o].insert(t);
      k.hashes_in_vector.back().insert(t);
      k.hashes.back().insert(t);
      k.trees.back().insert(t);
      k.tables.back().back().insert(t);
      k.queue.back().insert(t);
    }
  }
  void make() {
    store s(path, how);
    auto& k = s.root<nested>("nested");
    s.transact([&] {
      for (owned* const each : make_owned(s)) {
        each->number = k.all.size();
        k.all.push_back(each);
      }
      for (std::uint64_t o = 0; o < owner_count; ++o) fill_all(k, o);
    });
    s.transact([&] {  // slots that have old values, whose memory has others
      for (int n = 0; n < 8; ++n) {
        k.hashes.pop_back();
        k.trees.pop_back();
        k.queue.pop_front();
      }
      k.tables.back().pop_back();
      k.tables.pop_back();
      for (std::uint64_t o = owner_count; o < owner_count + 8; ++o)
        for (std::uint64_t n = 0; n < owned_count; ++n)
          if (is_of(o, n)) {
            k.trees_in_map[k.all[o]].insert(k.all[n]);
            k.hashes_in_map[k.all[o]].insert(k.all[n]);
            k.tables_in_tree[k.all[o]].insert(k.all[n]);
          }
    });
  }

  template <class Set>
  static void expect_set(const nested& k, const Set& set, std::uint64_t owner) {
    std::uint64_t size = 0;
    for (std::uint64_t n = 0; n < owned_count; ++n) {
      EXPECT_EQ(set.find(k.all[n]) != set.end(), is_of(owner, n)) << n;
      if (is_of(owner, n)) ++size;
    }
    EXPECT_EQ(set.size(), size);
    for (auto at = set.begin(); at != set.end() && size != 0; ++at) --size;
    EXPECT_EQ(size, 0u);
  }
  static void expect_whole(const nested& k) {
    for (std::uint64_t o = 0; o < owner_count + 8; ++o) {
      SCOPED_TRACE(o);
      owned* const t = k.all[o];
      ASSERT_EQ(t->number, o);
      expect_set(k, k.trees_in_map.at(t), o);
      expect_set(k, k.hashes_in_map.at(t), o);
      expect_set(k, k.tables_in_tree.at(t), o);
      if (o >= owner_count) continue;
      expect_set(k, k.trees_in_hash.at(t), o);
      expect_set(k, k.tables_in_hash.at(t), o);
      expect_set(k, k.sets_in_hash.at(t), o);
      expect_set(k, k.hashes_in_vector[o], o);
      if (o < k.hashes.size()) expect_set(k, k.hashes[o], o);
      if (o < k.trees.size()) expect_set(k, k.trees[o], o);
      if (o / 4 < k.tables.size()) expect_set(k, k.tables[o / 4][o % 4], o);
      if (o >= 8) expect_set(k, k.queue[o - 8], o);
    }
  }

  temp_dir dir;
  std::string path = dir / "store";
  store_options how = small_store();
};

TEST_F(nested_in_others, entries_are_found_in_every_order) {
  make();
  for (const object_order order :
       {object_order::breadth_first, object_order::depth_first, object_order::by_address, object_order::by_type}) {
    (void)compact(path, {.order = order});
    store s(path, how);
    expect_sound(s);
    expect_whole(*s.find_root<nested>("nested"));
    if (HasFailure()) return;
  }
}

TEST_F(nested_in_others, keys_may_be_pointers_to_entries) {
  {
    store s(path, how);
    auto& k = s.root<refers_to_entries>("entries");
    s.transact([&] {
      for (owned* const each : make_owned(s)) k.all.push_back(each);
      for (std::uint64_t n = 0; n < owned_count; ++n) k.hashed[k.all[n]] = n;
      for (std::uint64_t n = 0; n < owned_count; ++n) {
        std::uint64_t* const entry = &k.hashed.at(k.all[n]);
        k.numbers.insert(entry);
        k.of_those[entry] = static_cast<int>(n);
      }
    });
  }
  for (int again = 0; again < 3; ++again) {
    (void)compact(path);
    const store s(path, how);
    const auto& k = *s.find_root<refers_to_entries>("entries");
    k.numbers.check();
    for (std::uint64_t n = 0; n < owned_count; ++n) {
      const std::uint64_t* const entry = &k.hashed.at(k.all[n]);
      EXPECT_EQ(*entry, n);
      EXPECT_TRUE(k.numbers.contains(const_cast<std::uint64_t*>(entry)));
      ASSERT_TRUE(k.of_those.contains(const_cast<std::uint64_t*>(entry)));
      EXPECT_EQ(k.of_those.at(const_cast<std::uint64_t*>(entry)), static_cast<int>(n));
    }
  }
}

TEST_F(nested_in_others, weak_maps_find_their_keys) {
  {
    store s(path, how);
    auto& k = s.root<noted>("noted");
    s.transact([&] {
      for (owned* const each : make_owned(s)) k.all.push_back(each);
      for (std::uint64_t n = 0; n < owned_count; ++n) {
        k.notes[k.all[n]] = n;
        k.texts[n % 5][k.all[n]] = long_name(n);
        if (n % 3 != 0) k.kept.push_back(k.all[n]);
      }
      k.all.clear();
    });
  }
  for (int again = 0; again < 3; ++again) {
    (void)compact(path);
    store s(path, how);
    expect_sound(s);
    auto& k = *s.find_root<noted>("noted");
    std::uint64_t n = 0, found = 0;
    for (owned* const each : k.kept) {
      if (n % 3 == 0) ++n;
      ASSERT_NE(k.notes.find(each), nullptr) << n;
      EXPECT_EQ(*k.notes.find(each), n);
      ASSERT_NE(k.texts.at(n % 5).find(each), nullptr) << n;
      EXPECT_EQ(*k.texts.at(n % 5).find(each), long_name(n));
      ++n;
    }
    k.notes.for_each([&](const owned&, std::uint64_t) { ++found; });
    EXPECT_EQ(found, k.kept.size());
    if (again == 1) {
      s.transact([&] {
        EXPECT_EQ(k.notes.purge(), owned_count / 3);
        EXPECT_TRUE(k.notes.erase(k.kept[0]));
        k.notes[k.kept[0]] = 1;
      });
    }
  }
}

}  // namespace
