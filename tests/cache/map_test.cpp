// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// cache::map: map_owner that are larger than a cache, and the same map_owner where the store is mapped [cache.map].
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/cached_graph.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_map_types {

struct map_item {
  std::uint64_t number = 0;
};
struct broad_value {
  std::uint64_t words[30] = {};
  friend bool operator==(const broad_value&, const broad_value&) = default;
};
struct broad_key {
  std::uint64_t padding[28] = {}, number = 0;
  friend bool operator==(const broad_key&, const broad_key&) = default;
  friend bool operator<(const broad_key& a, const broad_key& b) { return a.number < b.number; }
};
struct map_owner {
  tenure::cache::map<std::uint64_t, std::uint64_t> numbers;
  tenure::cache::map<std::uint64_t, ref<map_item>> things;
  tenure::cache::map<tenure::string, tenure::string> texts;
  tenure::cache::map<broad_key, broad_value> broad_ones;  // nodes with few slots
};

}  // namespace cache_map_types
using namespace cache_map_types;

namespace {

class cache_map : public cached_store {
 protected:
  void make_maps() {
    make([](store& s) { (void)s.root<map_owner>("maps"); });
  }
  ref<map_owner> all() { return opened->root<map_owner>("maps"); }
  static tenure::string text_of(std::uint64_t n) { return tenure::string(plain_text_of(n)); }
  static std::string plain_text_of(std::uint64_t n) {
    return std::string(n % 7 * 5, static_cast<char>('a' + n % 11)) + std::to_string(n);
  }
};

// What a map should have.
template <class Map, class Expected>
void expect_same(const Map& found, const Expected& expected) {
  ASSERT_NO_THROW(found.check());
  auto at = expected.begin();
  for (auto i = found.begin(); i != found.end(); ++i, ++at) {
    ASSERT_NE(at, expected.end());
    ASSERT_TRUE(i.key() == at->first);
    ASSERT_TRUE(i.value() == at->second);
  }
  ASSERT_EQ(at, expected.end());
}

TEST_F(cache_map, is_found_entry_by_entry) {
  make_maps();
  constexpr std::uint64_t count = 40'000;
  // A cache with room for a third of it.
  open({.pool_pages = 16, .object_bytes = 400'000});
  for (std::uint64_t n = 0; n < count;) {
    auto tx = opened->begin();
    for (const std::uint64_t end = n + 10; n < end; ++n) ASSERT_TRUE(all()->numbers.insert(n * 7919 % count, n));
    tx.commit(cache::commit_mode::lazy);
  }
  opened->check();
  EXPECT_GT(opened->stats().evictions, 5u);
  opened->read([&] {
    const std::uint64_t faults = opened->stats().loaded;
    for (std::uint64_t n = 0; n < 10; ++n) ASSERT_EQ(*all()->numbers.find(n * 7919 % count), n);
    EXPECT_LT(opened->stats().loaded, faults + 40);  // three levels
    EXPECT_EQ(all()->numbers.find(count), nullptr);
    std::uint64_t next = 0;
    for (auto i = all()->numbers.lower_bound(1000); next < 500; ++i, ++next) ASSERT_EQ(i.key(), 1000 + next);
  });
  close();
  look([&](store& mapped) {
    const auto& numbers = mapped.root<map_owner>("maps").numbers;
    numbers.check();
    EXPECT_EQ(numbers.size(), count);
    mapped.transact([&] {
      for (std::uint64_t n = 0; n < count; n += 2) ASSERT_TRUE(numbers.erase(n));
      *numbers.change(1) = 7;
    });
    EXPECT_EQ(mapped.collect({.roots = program_roots::handles}).garbage, 0u);
  });
  open({.pool_pages = 16, .object_bytes = 400'000});
  opened->read([&] {
    EXPECT_EQ(*all()->numbers.find(1), 7u);
    EXPECT_FALSE(all()->numbers.contains(2));
    EXPECT_TRUE(all()->numbers.contains(3));
  });
}

TEST_F(cache_map, sorted_input_makes_dense_nodes) {
  make_maps();
  open();
  opened->transact([&] {
    for (std::uint64_t n = 0; n < 50'000; ++n) all()->numbers.insert(n, n);
    all()->numbers.check();
  });
  EXPECT_LT(opened->stats().made_objects * 120, 52'000u);
  opened->transact([&] {
    for (std::uint64_t n = 50'000; n-- > 0;) ASSERT_TRUE(all()->numbers.erase(n));
    EXPECT_TRUE(all()->numbers.empty());
    all()->numbers.insert(1, 2);
    all()->numbers.clear();
    EXPECT_TRUE(all()->numbers.empty());
    all()->numbers.clear();
  });
  close();
  look([&](store& mapped) { EXPECT_EQ(mapped.collect({.roots = program_roots::handles}).garbage, 0u); });
}

// Nobody else would free its nodes.
TEST_F(cache_map, that_ends_without_being_stored_leaves_nothing) {
  make_maps();
  open();
  opened->read([&] { EXPECT_TRUE(all()->numbers.empty()); });
  const std::uint64_t objects = opened->stats().objects;
  const auto fill = [](const auto& numbers) {
    for (std::uint64_t n = 0; n < 500; ++n) numbers.insert(n, n);
  };
  for (const bool commits : {true, false}) {
    {
      auto tx = opened->begin();
      const ref<map_owner> made = opened->make<map_owner>();
      fill(made->numbers);
      for (std::uint64_t n = 0; n < 50; ++n) made->texts.insert(text_of(n), text_of(n + 1));
      opened->destroy(made);
      commits ? (void)tx.commit() : tx.abort();
    }
    EXPECT_EQ(opened->stats().objects, objects);
    {
      const cache::map<std::uint64_t, std::uint64_t> local;
      auto tx = opened->begin();
      fill(local);
      commits ? (void)tx.commit() : tx.abort();
      EXPECT_GT(opened->stats().objects, objects);
    }
    EXPECT_EQ(opened->stats().objects, objects);
    {
      auto tx = opened->begin();
      const cache::map<std::uint64_t, std::uint64_t> local;
      fill(local);
      fill(opened->make<map_owner>()->numbers);
      tx.abort();
    }
    EXPECT_EQ(opened->stats().objects, objects);
    opened->check();
  }
  close();
  look([&](store& mapped) { EXPECT_EQ(mapped.collect({.roots = program_roots::handles}).garbage, 0u); });
}

// Stored leaves lead to new ones, which collections take. What is new above them goes with the map.
TEST_F(cache_map, that_is_destroyed_may_have_got_levels_in_the_same_transaction) {
  make_maps();
  for (const auto mode : {cache::concurrency::one_writer, cache::concurrency::object_locks})
    for (const std::uint64_t more : {100U, 2000U, 30'000U}) {
      open({.transactions = mode});
      ref<map_owner> made;
      opened->transact([&] {
        made = opened->make<map_owner>();
        opened->set_root("made", made);
        for (std::uint64_t n = 0; n < 100; ++n) made->numbers.insert(n * 1000, n);
      });
      const std::uint64_t objects = opened->stats().objects, stored = opened->stats().made_objects;
      for (const bool commits : {false, true}) {
        auto tx = opened->begin();
        made = opened->root<map_owner>("made");
        for (std::uint64_t n = 0; n < more; ++n) made->numbers.insert(n * 7919 % 100'000 + 1, n);
        opened->remove_root("made");
        opened->destroy(made);
        commits ? (void)tx.commit() : tx.abort();
        opened->check();
        if (commits) continue;
        EXPECT_EQ(opened->stats().objects, objects);
        opened->read([&] { opened->root<map_owner>("made")->numbers.check(); });
      }
      EXPECT_EQ(opened->stats().objects, objects + opened->stats().made_objects - stored - 1) << "nothing else is left";
      close();
    }
  look([&](store& mapped) {
    EXPECT_GT(mapped.collect({.roots = program_roots::handles}).garbage, 0u);
    EXPECT_TRUE(mapped.verify().empty());
  });
}

// Inner nodes have up to 8 children here. One that has a single child left gets another one from a full neighbour.
TEST_F(cache_map, small_nodes_beside_full_ones) {
  make_maps();
  open({.object_bytes = 16 << 20});
  constexpr std::uint64_t in_inner = 7 * 8;  // entries that ascending keys put into an inner node
  for (std::uint64_t victim = 0; victim < 5; ++victim)
    for (const bool ascending : {true, false}) {
      auto tx = opened->begin();
      const auto& m = all()->broad_ones;
      std::map<broad_key, broad_value> expected;
      const auto add = [&](std::uint64_t number) {
        broad_key key;
        key.number = number;
        m.insert(key, {});
        expected.emplace(key, broad_value{});
      };
      for (std::uint64_t n = 0; n < 5 * in_inner; ++n) add(2 * n);
      for (std::uint64_t n = 0; n < 5; ++n)
        if (n != victim) add(2 * n * in_inner + 1);
      for (std::uint64_t n = 0; n < in_inner; ++n) {
        broad_key key;
        key.number = 2 * (victim * in_inner + (ascending ? n : in_inner - 1 - n));
        ASSERT_TRUE(m.erase(key));
        expected.erase(key);
        expect_same(m, expected);
      }
      m.clear();
      tx.commit(cache::commit_mode::lazy);
      opened->check();
    }
}

// In caches of several sizes, and mapped, in turn.
class cache_map_model : public cache_map, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  void change(const map_owner& m) {
    const std::uint64_t key = draw(keys_);
    const bool erases = draw(100) < erasing_;
    switch (draw(4)) {
      case 0:
        ++last_;
        if (erases) {
          const bool was_there = m.numbers.erase(key);
          ASSERT_EQ(was_there, now_.numbers.erase(key) != 0);
        } else if (draw(2) == 0) {
          const bool is_new = m.numbers.insert(key, last_);
          ASSERT_EQ(is_new, now_.numbers.emplace(key, last_).second);
        } else {
          m.numbers.insert_or_assign(key, last_);
          now_.numbers.insert_or_assign(key, last_);
        }
        break;
      case 1:
        ++last_;
        if (erases) {
          const bool was_there = m.texts.erase(std::string_view(plain_text_of(key)));
          ASSERT_EQ(was_there, now_.texts.erase(plain_text_of(key)) != 0);
        } else {
          m.texts.insert_or_assign(text_of(key), text_of(last_));
          now_.texts.insert_or_assign(plain_text_of(key), plain_text_of(last_));
        }
        break;
      case 2: {
        broad_key broad;
        broad.number = key;
        broad_value value;
        value.words[29] = ++last_;
        if (erases) {
          const bool was_there = m.broad_ones.erase(broad);
          ASSERT_EQ(was_there, now_.broad_ones.erase(broad) != 0);
        } else {
          m.broad_ones.insert_or_assign(broad, value);
          now_.broad_ones.insert_or_assign(broad, value);
        }
        break;
      }
      default:
        if (std::uint64_t* const value = m.numbers.change(key)) *value = now_.numbers.at(key) = ++last_;
        const auto i = m.numbers.lower_bound(key);
        const auto expected = now_.numbers.lower_bound(key);
        ASSERT_EQ(i == m.numbers.end(), expected == now_.numbers.end());
        if (expected != now_.numbers.end()) {
          ASSERT_EQ(i.key(), expected->first);
        }
    }
  }
  void expect_all(const map_owner& m) {
    expect_same(m.numbers, now_.numbers);
    expect_same(m.texts, now_.texts);
    expect_same(m.broad_ones, now_.broad_ones);
  }

  struct expected_maps {
    std::map<std::uint64_t, std::uint64_t> numbers;
    std::map<std::string, std::string> texts;  // the library's own strings would be the store's
    std::map<broad_key, broad_value> broad_ones;
  };
  std::mt19937_64 random_{GetParam()};
  std::uint64_t keys_ = 0, erasing_ = 0, last_ = 0;
  expected_maps now_;
};

TEST_P(cache_map_model, in_caches_and_mapped_in_turn) {
  make_maps();
  std::uint64_t refused = 0;
  for (int round = 0; round < 6; ++round) {
    keys_ = std::uint64_t{30} << draw(7);
    erasing_ = draw(3) == 0 ? 80 : 20 + draw(40);
    const bool is_mapped = round % 3 == 2;
    if (is_mapped) {
      look([&](store& mapped) {
        const map_owner& m = mapped.root<map_owner>("maps");
        expect_all(m);
        for (int n = 0; n < 6 && !HasFailure(); ++n) {
          const expected_maps before = now_;
          transaction tx = mapped.begin();
          for (std::uint64_t i = draw(400); i != 0 && !HasFatalFailure(); --i) change(m);
          if (draw(4) == 0) {
            tx.abort();
            now_ = before;
          } else {
            tx.commit(commit_mode::lazy);
          }
          expect_all(m);
        }
        EXPECT_EQ(mapped.collect({.dry_run = true, .roots = program_roots::handles}).garbage, 0u);
      });
    } else {
      open({.pool_pages = 1 + draw(40),
            .object_bytes = std::uint64_t{1} << (18 + draw(6)),
            .transactions = draw(2) == 0 ? cache::concurrency::one_writer : cache::concurrency::object_locks});
      for (int n = 0; n < 10 && !HasFailure(); ++n) {
        const expected_maps before = now_;
        auto tx = opened->begin();
        try {
          for (std::uint64_t i = draw(300); i != 0 && !HasFatalFailure(); --i) change(*all());
        } catch (const error& e) {  // what has thrown has changed nothing
          ASSERT_EQ(e.code(), errc::cache_full) << e.what();
          ++refused;
        }
        if (draw(4) == 0) {
          tx.abort();
          now_ = before;
        } else {
          tx.commit(cache::commit_mode::lazy);
        }
        ASSERT_NO_THROW(opened->check());
      }
      close();
    }
    if (HasFailure()) return;
  }
  RecordProperty("refused", static_cast<int>(refused));
  look([&](store& mapped) { expect_all(mapped.root<map_owner>("maps")); });
}
INSTANTIATE_TEST_SUITE_P(seeds, cache_map_model, ::testing::Range<std::uint64_t>(1, 25));

// Writers of different parts do not wait for each other but for splits; who meets another one in a circle tries again.
TEST_F(cache_map, several_writers_at_once) {
  make_maps();
  open({.transactions = cache::concurrency::object_locks});
  constexpr std::uint64_t writers = 4, each = 800;
  std::atomic<std::uint64_t> again{0};
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < writers; ++w)
    threads.emplace_back([&, w] {
      for (std::uint64_t n = 0; n < each;) {
        try {
          opened->transact(
              [&] {
                const ref<map_item> made = opened->make<map_item>();
                made.change().number = n;
                all()->things.insert(w * 1'000'000 + n, made);
              },
              cache::commit_mode::lazy);
          ++n;
        } catch (const error& e) {
          ASSERT_EQ(e.code(), errc::deadlock) << e.what();
          ++again;
        }
      }
    });
  for (std::thread& t : threads) t.join();
  opened->check();
  close();
  look([&](store& mapped) {
    const auto& things = mapped.root<map_owner>("maps").things;
    things.check();
    ASSERT_EQ(things.size(), writers * each);
    for (std::uint64_t w = 0; w < writers; ++w)
      for (std::uint64_t n = 0; n < each; ++n) ASSERT_EQ((*things.find(w * 1'000'000 + n))->number, n);
  });
}

}  // namespace
