// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Entries of damaged containers that stay where a program finds them: behind lost groups of a large hash table, and in nodes of a map
// whose other entries have gone.
#include <bit>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "rewrite/damaged_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace {

class repairing_entries : public ::testing::Test {
 protected:
  static constexpr std::uint64_t count = 3000, text_count = 200;
  repairing_entries() {
    how.memory.log.size = 1 << 20;
    how.memory.background = false;
    how.memory.disk = &base;
    store s("/store", how);
    home = s.default_database().home();
    auto& root = s.root<texts_with_index>("indexed");
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) root.numbers[n] = n * n;
      for (std::uint64_t n = 0; n < text_count; ++n)
        root.texts[named_text<tenure::string>(n)] = {n, std_string(std::to_string(n).c_str())};
      root.entries.resize(text_count);
      for (auto& [key, value] : root.texts) root.entries[value.number] = &value;
    });
    groups = reinterpret_cast<std::uint64_t>(&*root.numbers.begin()) - home;
    for (const auto& [key, value] : root.texts) keys.push_back(reinterpret_cast<std::uint64_t>(key.data()) - home);
    s.close();
  }
  store opened(sim::disk& disk) const {
    store_options as = how;
    as.memory.disk = &disk;
    as.mode = rvm::open_mode::open;
    return store("/store", as);
  }

  sim::disk base;
  store_options how = small_store();
  std::uint64_t home = 0, groups = 0;
  std::vector<std::uint64_t> keys;
};
using repairing_large_tables = repairing_entries;
using repairing_moved_entries = repairing_entries;

TEST_F(repairing_large_tables, lose_the_groups_of_a_page_only) {
  for (std::uint64_t n = 1; n < 12; ++n) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    damage_byte(*disk, groups + n * page);
    const findings found = repaired(*disk);
    EXPECT_EQ(found.report.lost_elements, 1u);
    const store s = opened(*disk);
    expect_sound(s);
    const auto& numbers = s.find_root<texts_with_index>("indexed")->numbers;
    numbers.check();
    EXPECT_LT(numbers.size(), count);
    EXPECT_GT(numbers.size(), count - 2 * page / 16);
    std::uint64_t left = 0;
    for (const auto& [key, value] : numbers) {
      EXPECT_EQ(value, key * key);
      ASSERT_EQ(numbers.find(key)->second, value);  // also behind a group that is empty now
      ++left;
    }
    EXPECT_EQ(left, numbers.size());
  }
}

TEST_F(repairing_moved_entries, pointers_to_them_follow) {
  std::uint64_t moved = 0;
  for (std::uint64_t lost = 0; lost < text_count; lost += 37) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    damage_byte(*disk, keys[lost]);
    const findings found = repaired(*disk);
    const store s = opened(*disk);
    expect_sound(s);
    const auto& root = *s.find_root<texts_with_index>("indexed");
    root.texts.check();
    EXPECT_LT(root.texts.size(), text_count);
    if (root.texts.empty() || root.entries.empty()) continue;
    ASSERT_EQ(root.entries.size(), text_count);
    std::uint64_t there = 0;
    for (std::uint64_t n = 0; n < text_count; ++n) {
      const numbered_text* const entry = root.entries[n];
      const auto has = root.texts.find(named_text<tenure::string>(n));
      ASSERT_EQ(entry, has == root.texts.end() ? nullptr : &has->second) << n;
      if (entry == nullptr) continue;
      EXPECT_EQ(entry->number, n);
      EXPECT_EQ(entry->text, std::to_string(n).c_str());
      ++there;
    }
    EXPECT_EQ(there, root.texts.size());
    if (there != 0) ++moved;
  }
  EXPECT_GT(moved, 2u);
}

// Arrays of pointers to containers have names that begin as those of containers.
TEST_F(repairing_entries, takes_no_pointer_for_the_container_that_it_leads_to) {
  const auto disk = base.crash(0, sim::policy::keep_all);
  constexpr std::size_t containers = 40;
  std::uint64_t numbers = 0;
  {
    store s = opened(*disk);
    auto& root = s.root<pointers_to_containers>("pointers");
    const auto fill = [&](auto& pointers, auto&& add) {
      using container = std::remove_pointer_t<std::remove_reference_t<decltype(pointers[0])>>;
      for (std::size_t n = 0; n < containers; ++n) {
        pointers.push_back(s.make<container>());
        for (std::uint64_t i = 0; i < n; ++i) add(*pointers.back(), i);
      }
    };
    const auto insert = [](auto& map, std::uint64_t i) { map[i] = i; };
    s.transact([&] {
      fill(root.lists, [](auto& list, std::uint64_t i) { list.push_back(i); });
      fill(root.maps, insert);
      fill(root.tables, insert);
      fill(root.trees, insert);
      root.numbers.resize(3000);
    });
    numbers = reinterpret_cast<std::uint64_t>(&root.numbers.front()) - home;
    s.close();
  }
  damage_byte(*disk, numbers + page);
  const findings found = repaired(*disk);
  EXPECT_EQ(found.report.lost_elements, 1U);
  const store s = opened(*disk);
  expect_sound(s);
  const auto& root = *s.find_root<pointers_to_containers>("pointers");
  for (std::size_t n = 0; n < containers; ++n) {
    ASSERT_TRUE(root.lists[n] != nullptr && root.maps[n] != nullptr && root.tables[n] != nullptr &&
                root.trees[n] != nullptr)
        << n;
    EXPECT_EQ(root.lists[n]->size(), n);
    EXPECT_EQ(root.maps[n]->size(), n);
    EXPECT_EQ(root.tables[n]->size(), n);
    EXPECT_EQ(root.trees[n]->size(), n);
  }
}

// The next insertion would make more buckets than there is memory for.
TEST_F(repairing_entries, gives_tables_of_the_standard_library_a_load_that_is_possible) {
  const auto original = base.crash(0, sim::policy::keep_all);
  std::uint64_t at = 0;
  {
    store s = opened(*original);
    auto& root = s.root<std_unordered_map<std::uint64_t, std::uint64_t>>("hashed");
    s.transact([&] {
      for (std::uint64_t n = 0; n < 100; ++n) root[n] = n;
    });
    at = reinterpret_cast<std::uint64_t>(&root) - home + 32;
    s.close();
  }
  for (const float load : {0.0F, -1.0F, 1e-30F, 0.0005F, std::numeric_limits<float>::quiet_NaN(), 0.25F, 1e30F}) {
    SCOPED_TRACE(load);
    const auto disk = original->crash(0, sim::policy::keep_all);
    overwrite(*disk, at, std::uint64_t{std::bit_cast<std::uint32_t>(load)});
    const bool is_possible = load > 0.01F;
    EXPECT_EQ(repaired(*disk).report.is_damaged(), !is_possible);
    store s = opened(*disk);
    auto& root = *s.find_root<std_unordered_map<std::uint64_t, std::uint64_t>>("hashed");
    EXPECT_EQ(root.max_load_factor(), is_possible ? load : 1.0F);
    s.transact([&] {
      for (std::uint64_t n = 100; n < 2000; ++n) root[n] = n;
    });
    for (std::uint64_t n = 0; n < 2000; ++n) ASSERT_EQ(root.at(n), n);
    expect_sound(s);
  }
}

// A table that has buckets elsewhere does not use its own one, and would not notice when a node is destroyed to which that leads.
TEST_F(repairing_entries, clears_the_bucket_that_a_table_of_the_standard_library_does_not_use) {
  using table = std_unordered_map<std::uint64_t, std::uint64_t>;
  const auto original = base.crash(0, sim::policy::keep_all);
  std::uint64_t first = 0, second = 0, head = 0, node = 0;
  {
    store s = opened(*original);
    auto &one = s.root<table>("first"), &two = s.root<table>("second");
    s.transact([&] {
      one[1] = 1;  // in its own bucket
      for (std::uint64_t n = 0; n < 100; ++n) two[n] = n;
      one.swap(two);
      one.erase(99);
    });
    first = reinterpret_cast<std::uint64_t>(&one) - home;
    second = reinterpret_cast<std::uint64_t>(&two) - home;
    head = home + second + 16;
    node = reinterpret_cast<std::uint64_t>(&*one.begin()) - 8;
    s.close();
  }
  for (const std::uint64_t word : {head, node, node + 8, home + first + 8}) {
    const auto disk = original->crash(0, sim::policy::keep_all);
    overwrite(*disk, first + 48, word);
    EXPECT_EQ(repaired(*disk).report.is_damaged(), word != head) << word;
    store s = opened(*disk);
    auto& root = *s.find_root<table>("first");
    EXPECT_EQ(root.size(), 99u);
    s.transact([&] {
      while (!root.empty()) root.erase(root.begin());
      s.find_root<table>("second")->clear();
    });
    expect_sound(s);
  }
}

// What is above the leaves gets texts of its own, short ones and long ones.
TEST_F(repairing_entries, builds_trees_anew_whose_texts_have_all_lengths) {
  const auto disk = base.crash(0, sim::policy::keep_all);
  constexpr std::uint64_t all = 6000;
  const auto text = [](std::uint64_t n) {
    return tenure::string(std::to_string(n) + std::string(n % 251 * (n % 7), 'x'));
  };
  std::uint64_t in_map = 0, in_cache = 0;
  {
    store s = opened(*disk);
    auto& root = s.root<maps_of_texts>("texts");
    s.transact([&] {
      for (std::uint64_t n = 0; n < all; ++n) {
        root.map[text(n)] = n;
        root.of_cache.insert(text(n), n);
      }
    });
    in_map = reinterpret_cast<std::uint64_t>(&root.map.find(text(4711))->second) - home;
    in_cache = reinterpret_cast<std::uint64_t>(root.of_cache.find(text(4711))) - home;
    s.close();
  }
  damage_byte(*disk, in_map);
  damage_byte(*disk, in_cache);
  (void)repaired(*disk);
  const store s = opened(*disk);
  expect_sound(s);
  const auto& root = *s.find_root<maps_of_texts>("texts");
  root.map.check();
  root.of_cache.check();
  const std::size_t least = all - 1000;
  EXPECT_GT(root.map.size(), least);
  EXPECT_GT(root.of_cache.size(), least);
  EXPECT_LT(root.map.size(), all);
  EXPECT_LT(root.of_cache.size(), all);
  for (const auto& [key, value] : root.map) EXPECT_EQ(key, text(value));
  for (const auto& [key, value] : root.of_cache) EXPECT_EQ(key, text(value));
}

// Of a large text a part can be lost, and be zeros. As a key it would be found no more.
TEST_F(repairing_entries, drops_those_whose_key_has_lost_a_part) {
  constexpr std::uint64_t all = 41;
  const auto text = [](std::uint64_t n) { return std::to_string(n) + std::string(n == 20 ? 40'000 : n, 'x'); };
  const auto key = [&](std::uint64_t n) { return tenure::string(text(n)); };
  const auto nested_key = [&](std::uint64_t n) {
    return std_vector<std_string>{named_text<std_string>(n), std_string(text(n))};
  };
  const auto disk = base.crash(0, sim::policy::keep_all);
  std::vector<std::uint64_t> places;
  {
    store s = opened(*disk);
    auto& root = s.root<large_keys>("keys");
    s.transact([&] {
      for (std::uint64_t n = 0; n < all; ++n) {
        root.map[key(n)] = n;
        root.set.insert(key(n));
        root.multimap.emplace(key(n), n);
        root.of_cache.insert(key(n), n);
        root.table[key(n)] = n;
        root.table_set.insert(key(n));
        root.nested[nested_key(n)] = n;
        root.standard[std_string(text(n))] = n;
        root.hashed[std_string(text(n))] = n;
      }
    });
    const auto add = [&](const auto& large) {
      places.push_back(reinterpret_cast<std::uint64_t>(large.data()) - home + 20'000);
    };
    add(root.map.find(key(20))->first);
    add(*root.set.find(key(20)));
    add(root.multimap.find(key(20))->first);
    for (auto at = root.of_cache.begin(); at != root.of_cache.end(); ++at)
      if (at.key().size() > 20'000) add(at.key());
    add(root.table.find(key(20))->first);
    add(*root.table_set.find(key(20)));
    add(root.nested.find(nested_key(20))->first[1]);
    add(root.standard.find(std_string(text(20)))->first);
    add(root.hashed.find(std_string(text(20)))->first);
    s.close();
  }
  ASSERT_EQ(places.size(), 9U);
  for (const std::uint64_t place : places) damage_byte(*disk, place);
  EXPECT_EQ(repaired(*disk).report.lost_elements, 9U);
  const store s = opened(*disk);
  expect_sound(s);
  const auto& root = *s.find_root<large_keys>("keys");
  root.map.check();
  root.set.check();
  root.multimap.check();
  root.of_cache.check();
  root.table.check();
  root.table_set.check();
  for (std::uint64_t n = 0; n < all; ++n) {
    const bool is_left = n != 20;
    EXPECT_EQ(root.map.contains(key(n)), is_left) << n;
    EXPECT_EQ(root.set.contains(key(n)), is_left) << n;
    EXPECT_EQ(root.multimap.contains(key(n)), is_left) << n;
    EXPECT_EQ(root.of_cache.find(key(n)) != nullptr, is_left) << n;
    EXPECT_EQ(root.table.contains(key(n)), is_left) << n;
    EXPECT_EQ(root.table_set.contains(key(n)), is_left) << n;
    EXPECT_EQ(root.nested.contains(nested_key(n)), is_left) << n;
    EXPECT_EQ(root.standard.contains(std_string(text(n))), is_left) << n;
    EXPECT_EQ(root.hashed.contains(std_string(text(n))), is_left) << n;
  }
  EXPECT_EQ(root.map.size(), all - 1);
  EXPECT_EQ(root.nested.size(), all - 1);
  EXPECT_EQ(root.standard.size(), all - 1);
  EXPECT_EQ(root.hashed.size(), all - 1);
}

}  // namespace
