// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Old values of large arrays are kept by part [cache.commit.parts].
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/cached_graph.hpp"
#include "cache/old_value.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;

namespace old_value_types {

struct wardrobe {
  tenure::vector<std::uint64_t> numbers;
  tenure::vector<tenure::string> names;
  tenure::vector<tenure::vector<std::uint64_t>> lists;
  tenure::hash_map<std::uint64_t, tenure::string> hashed;
};

// The same in memory of the program.
struct plain_wardrobe {
  std::vector<std::uint64_t> numbers;
  std::vector<std::string> names;
  std::vector<std::vector<std::uint64_t>> lists;
  std::unordered_map<std::uint64_t, std::string> hashed;
};

}  // namespace old_value_types
using namespace old_value_types;

namespace {

TEST(old_value, keeps_parts_that_begin_and_end_with_elements) {
  std::mt19937_64 random(7);
  for (const std::size_t stride : {1, 8, 24, 1000, 1024, 1025, 3000}) {
    for (const std::size_t count : {1, 2, 7, 300, 5000}) {
      std::vector<std::byte> now(stride * count), was;
      for (std::byte& b : now) b = static_cast<std::byte>(random());
      was = now;
      const cache::old_value::shape shape{now.size(), stride};
      cache::old_value kept;
      std::vector<bool> is_announced(now.size());
      for (int n = 0; n < 6; ++n) {
        const std::size_t at = random() % now.size(), length = std::min<std::size_t>(random() % 2000, now.size() - at);
        const std::uint64_t more = kept.missing_bytes(shape, at, length), before = kept.kept_bytes();
        kept.keep(now.data(), shape, at, length);
        EXPECT_EQ(kept.kept_bytes(), before + more);
        EXPECT_EQ(kept.missing_bytes(shape, at, length), 0U);
        for (std::size_t i = at; i < at + length; ++i) {
          now[i] = static_cast<std::byte>(random());
          is_announced[i] = true;
        }
      }
      std::size_t end = 0, sum = 0;
      kept.for_each(shape, [&](std::size_t at, std::size_t length) {
        EXPECT_GE(at, end);
        EXPECT_EQ(at % stride, 0U);
        EXPECT_EQ(length % stride, 0U);
        EXPECT_TRUE(std::equal(&was[at], &was[at] + length, kept.bytes(shape) + at));
        end = at + length;
        sum += length;
        std::fill(is_announced.begin() + static_cast<std::ptrdiff_t>(at),
                  is_announced.begin() + static_cast<std::ptrdiff_t>(end), false);
      });
      EXPECT_EQ(sum, kept.kept_bytes());
      EXPECT_EQ(std::ranges::count(is_announced, true), 0) << "all that was announced is kept";
    }
  }
}

class large_arrays : public cached_store, public testing::WithParamInterface<std::uint64_t> {
 protected:
  std::size_t draw(std::size_t below) { return random_() % below; }
  std::string draw_name() { return std::string(draw(3) == 0 ? 30 : 5, static_cast<char>('a' + draw(26))); }

  // One operation, on what is stored and on the model.
  void change(wardrobe& s, plain_wardrobe& m) {
    const auto at = [](auto& of, std::size_t n) { return of.begin() + static_cast<std::ptrdiff_t>(n); };
    switch (draw(14)) {
      case 0:
        for (std::size_t n = draw(400); n != 0; --n) {
          const std::uint64_t number = random_();
          s.numbers.push_back(number);
          m.numbers.push_back(number);
        }
        break;
      case 1: {
        const std::size_t where = draw(m.names.size() + 1);
        for (std::size_t n = draw(40); n != 0; --n) {
          const std::string name = draw_name();
          s.names.insert(at(s.names, where), tenure::string(name));
          m.names.insert(at(m.names, where), name);
        }
        break;
      }
      case 2: {
        if (m.names.empty()) break;
        const std::size_t first = draw(m.names.size()),
                          last = first + draw(std::min<std::size_t>(40, m.names.size() - first));
        s.names.erase(at(s.names, first), at(s.names, last));
        m.names.erase(at(m.names, first), at(m.names, last));
        break;
      }
      case 3: {
        if (m.numbers.empty()) break;
        const std::size_t n = draw(m.numbers.size());
        cache::change(s.numbers[n]) = m.numbers[n] = random_();
        break;
      }
      case 4: {
        if (m.names.empty()) break;
        const std::size_t n = draw(m.names.size());
        m.names[n] = draw_name();
        s.names[n] = m.names[n];
        break;
      }
      case 5: {
        const std::size_t to = m.lists.size() + draw(60);
        s.lists.resize(to);
        m.lists.resize(to);
        break;
      }
      case 6: {
        if (m.lists.empty()) break;
        const std::size_t n = draw(m.lists.size());
        for (std::size_t i = draw(100); i != 0; --i) {
          s.lists[n].push_back(i);
          m.lists[n].push_back(i);
        }
        break;
      }
      case 7: {
        if (m.lists.size() < 2) break;
        const std::size_t a = draw(m.lists.size()), b = draw(m.lists.size());
        if (a == b) break;
        std::swap(s.lists[a], s.lists[b]);
        std::swap(m.lists[a], m.lists[b]);
        break;
      }
      case 8:
      case 9:
        for (std::size_t n = draw(100); n != 0; --n) {
          const std::uint64_t key = draw(3000);
          m.hashed[key] = draw_name();
          s.hashed[key] = m.hashed[key];
        }
        break;
      case 10:
        for (std::size_t n = draw(50); n != 0; --n) {
          const std::uint64_t key = draw(3000);
          s.hashed.erase(key);
          m.hashed.erase(key);
        }
        break;
      case 11: {
        const std::size_t rest = m.numbers.size() - draw(m.numbers.size() + 1) / 3;
        s.numbers.resize(rest);
        m.numbers.resize(rest);
        if (draw(2) == 0) s.numbers.shrink_to_fit();
        break;
      }
      case 12:
        if (draw(6) != 0) break;
        s.names.clear();
        m.names.clear();
        if (draw(2) == 0) s.names.shrink_to_fit();
        break;
      default:
        if (draw(3) != 0) break;
        s.lists.clear();
        m.lists.clear();
    }
  }

  static void expect_same(const wardrobe& s, const plain_wardrobe& m) {
    EXPECT_TRUE(std::ranges::equal(s.numbers, m.numbers));
    EXPECT_TRUE(
        std::ranges::equal(s.names, m.names, [](const auto& a, const auto& b) { return std::string(a.c_str()) == b; }));
    EXPECT_TRUE(
        std::ranges::equal(s.lists, m.lists, [](const auto& a, const auto& b) { return std::ranges::equal(a, b); }));
    ASSERT_EQ(s.hashed.size(), m.hashed.size());
    for (const auto& [key, name] : m.hashed) {
      const auto found = s.hashed.find(key);
      ASSERT_NE(found, s.hashed.end()) << key;
      EXPECT_EQ(std::string(found->second.c_str()), name);
    }
  }

 private:
  std::mt19937_64 random_{GetParam()};
};

// [cache.commit.difference], [cache.abort]
TEST_P(large_arrays, are_committed_or_put_back) {
  make([](store& s) { (void)s.root<wardrobe>("wardrobe"); });
  plain_wardrobe model;
  std::size_t largest = 0;
  for (const auto mode : {cache::concurrency::one_writer, cache::concurrency::object_locks}) {
    open({.object_bytes = 8 << 20, .transactions = mode});
    for (std::uint64_t round = 0; round < rvm::testing::scaled(150) && !HasFailure(); ++round) {
      SCOPED_TRACE(round);
      plain_wardrobe changed = model;
      auto tx = opened->begin();
      wardrobe& all = opened->root<wardrobe>("wardrobe").change();
      for (std::size_t n = draw(6); n != 0; --n) change(all, changed);
      expect_same(all, changed);
      if (draw(3) == 0) {
        tx.abort();
      } else {
        tx.commit(cache::commit_mode::lazy);
        model = changed;
      }
      if (draw(8) == 0) {  // what is in the files, and no more
        close();
        open({.object_bytes = 8 << 20, .transactions = mode});
      }
      opened->read([&] { expect_same(*opened->root<wardrobe>("wardrobe"), model); });
      ASSERT_NO_THROW(opened->check());
      largest = std::max({largest, model.names.size() * sizeof(tenure::string), model.numbers.size() * 8});
    }
    close();
  }
  RecordProperty("largest", static_cast<int>(largest));
  look([&](store& mapped) { expect_same(mapped.root<wardrobe>("wardrobe"), model); });
}

INSTANTIATE_TEST_SUITE_P(seeds, large_arrays, testing::Range<std::uint64_t>(0, 6));

// What a transaction keeps of an array is what it changes, and not the array.
TEST_F(cached_store, insertions_into_large_tables_keep_little) {
  make([](store& s) {
    s.transact([&] {
      wardrobe& all = s.root<wardrobe>("wardrobe");
      all.numbers.resize(100'000);
      for (std::uint64_t n = 0; n < 20'000; ++n) all.hashed[n * 7];
    });
  });
  auto& s = open({.object_bytes = 16 << 20});
  auto tx = s.begin();
  auto& all = const_cast<wardrobe&>(*s.root<wardrobe>("wardrobe"));
  const std::uint64_t before = s.stats().object_bytes;
  EXPECT_EQ(all.numbers.back(), 0U);
  cache::change(all.numbers[50'000]) = 1;
  all.hashed.erase(7);
  const std::uint64_t kept = s.stats().object_bytes - before;
  EXPECT_GT(kept, 0U);
  EXPECT_LT(kept, 10'000U);
  tx.commit();
  EXPECT_EQ(s.stats().object_bytes, before);
}

}  // namespace
