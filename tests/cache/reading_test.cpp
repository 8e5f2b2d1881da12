// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects of a mapped store, read in a cache.
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "cache/cached_graph.hpp"
#include "support/child_process.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_reading_types {

struct thing {
  std::uint64_t number;
};
// The same class for the store, whichever of the two Link is.
template <class Link>
struct box {
  Link first;
  tenure::vector<Link> all;
  Link pair[2];
  tenure::map<std::uint64_t, Link> by_number;
  std::uint64_t count;
};

struct animal {
  virtual ~animal() = default;
  [[nodiscard]] virtual std::uint64_t legs() const = 0;
  std::uint64_t age = 0;
  static constexpr auto persistent = tenure::members<&animal::age>{};
};
struct bird : animal {
  [[nodiscard]] std::uint64_t legs() const override { return 2; }
  std::uint64_t eggs = 0;
  static constexpr auto persistent = tenure::bases<animal>{} + tenure::members<&bird::eggs>{};
};
struct owned {
  std::uint64_t owner = 0;
};
struct dog : owned, animal {
  [[nodiscard]] std::uint64_t legs() const override { return 4; }
  ref<dog> friend_of;
  static constexpr auto persistent = tenure::bases<owned, animal>{} + tenure::members<&dog::friend_of>{};
};
struct zoo {
  tenure::vector<ref<animal>> animals;
  ref<std::uint64_t> oldest;  // into one of them
};

struct chain {
  std::uint64_t id;
  ref<chain> next;
};
struct block {
  char bytes[300000];
};
struct holder {
  ref<block> large;
  ref<chain> last_of_array;
  tenure::vector<chain> array;
  chain* plain;
};

}  // namespace cache_reading_types
using namespace cache_reading_types;
using namespace cache_test_types;

namespace {

TEST(refs_in_types, are_stored_as_pointers_are) {
  const auto same = [](const type& one, const type& other) {
    EXPECT_NE(&one, &other);
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.fingerprint, other.fingerprint);
    ASSERT_EQ(one.fields.size(), other.fields.size());
    for (std::size_t n = 0; n < one.fields.size(); ++n) {
      EXPECT_EQ(one.fields[n].name, other.fields[n].name);
      EXPECT_EQ(one.fields[n].type_name, other.fields[n].type_name);
      EXPECT_EQ(one.fields[n].kind, other.fields[n].kind);
    }
  };
  same(type_of<ref<thing>>(), type_of<thing*>());
  same(type_of<ref<const thing>>(), type_of<const thing*>());
  same(type_of<box<ref<thing>>>(), type_of<box<thing*>>());
  same(type_of<tenure::vector<ref<thing>>>(), type_of<tenure::vector<thing*>>());
  same(type_of<tenure::vector<tenure::vector<ref<thing>>>>(), type_of<tenure::vector<tenure::vector<thing*>>>());
  same(type_of<tenure::hash_map<ref<thing>, int>>(), type_of<tenure::hash_map<thing*, int>>());
  EXPECT_EQ(type_of<box<ref<thing>>>().name, "cache_reading_types::box<cache_reading_types::thing*>");
  EXPECT_TRUE(is_exact_v<box<ref<thing>>>);
}

class cache_reading : public cached_store {};

TEST_F(cache_reading, what_was_written_with_plain_pointers) {
  make([](store& s) {
    auto& b = s.root<box<thing*>>("box");
    s.transact([&] {
      for (std::uint64_t n = 0; n < 100; ++n) {
        b.all.push_back(s.make<thing>(thing{n}));
        b.by_number[n * 7] = b.all.back();
      }
      b.first = b.all[3];
      b.pair[1] = b.all[4];
      b.count = 100;
    });
  });
  auto& s = open();
  s.read([&] {
    const auto b = s.root<box<ref<thing>>>("box");
    EXPECT_EQ(b->first->number, 3u);
    EXPECT_FALSE(b->pair[0]);
    EXPECT_EQ(b->pair[1]->number, 4u);
    EXPECT_EQ(b->count, b->all.size());
    for (std::uint64_t n = 0; n < 100; ++n) {
      EXPECT_EQ(b->all[n]->number, n);
      EXPECT_EQ(b->by_number.at(n * 7), b->all[n]);
      EXPECT_EQ(b->by_number.at(n * 7)->number, n);
    }
  });
  s.check();
  EXPECT_EQ(s.stats().changed_objects, 0u);
  // A store that was written with refs has the schema of plain pointers.
  close();
  look([](store& mapped) { EXPECT_EQ(mapped.root<box<thing*>>("box").first->number, 3u); });
}

// One program text: in a mapped store a ref is an address.
TEST_F(cache_reading, what_was_written_with_refs_in_a_mapped_store) {
  make([](store& s) {
    auto& b = s.root<box<ref<thing>>>("box");
    s.transact([&] {
      thing* const made = s.make<thing>(thing{7});
      b.first = made;
      b.all.push_back(b.first);
    });
    EXPECT_EQ(b.first->number, 7u);
    EXPECT_TRUE(b.first == b.all[0]);
    EXPECT_EQ(b.first.home(), reinterpret_cast<std::uintptr_t>(b.first.get()));
    s.transact([&] { b.first.change().number = 8; });
  });
  auto& s = open();
  s.read([&] { EXPECT_EQ(s.root<box<ref<thing>>>("box")->all[0]->number, 8u); });
  close();
  look([](store& mapped) { EXPECT_EQ(mapped.root<box<thing*>>("box").first->number, 8u); });
}

// [cache.ref.word]
TEST_F(cache_reading, swizzles_each_ref_once) {
  make([](store& s) {
    auto& first = s.root<chain>("first");
    s.transact([&] {
      chain* last = &first;
      for (std::uint64_t n = 1; n < 1000; ++n) {
        chain* const next = s.make<chain>(chain{n, {}});
        last->next = next;
        last = next;
      }
      last->next = &first;
    });
  });
  auto& s = open();
  const auto go_round = [&] {
    std::uint64_t sum = 0, swizzled = 0;
    ref<chain> at = s.root<chain>("first");
    for (int n = 0; n < 1000; ++n, at = at->next) {
      sum += at->id;
      swizzled += at->next.is_swizzled() ? 1 : 0;
    }
    EXPECT_EQ(sum, 499500u);
    return swizzled;
  };
  s.read([&] {
    EXPECT_EQ(go_round(), 1u);  // the last one's target was in memory when it came
    const auto before = s.stats();
    EXPECT_EQ(before.loaded, 1000u);
    EXPECT_EQ(before.discovered, 1u);
    EXPECT_EQ(go_round(), 1u);  // each copy finds its target in memory, and swizzles what it copies
    EXPECT_EQ(s.stats().faults, before.faults + 1);  // that of root()
    EXPECT_EQ(s.stats().discovered, 1000u);
    EXPECT_EQ(go_round(), 1000u);
    EXPECT_EQ(s.stats().discovered, 1000u);
  });
  s.check();
  s.read([&] { EXPECT_EQ(go_round(), 1000u); });
}

TEST_F(cache_reading, comparisons_and_hashes_do_not_see_what_is_in_memory) {
  make([](store& s) {
    auto& b = s.root<box<ref<thing>>>("box");
    s.transact([&] {
      for (std::uint64_t n = 0; n < 10; ++n) b.all.push_back(s.make<thing>(thing{n}));
      b.first = b.all[5];
      b.pair[0] = b.all[6];
    });
  });
  auto& s = open();
  s.read([&] {
    const auto b = s.root<box<ref<thing>>>("box");
    const ref<thing> tagged = b->all[5];
    const auto home = tagged.home();
    const auto hashed = std::hash<ref<thing>>()(tagged);
    EXPECT_EQ(b->first->number, 5u);
    EXPECT_TRUE(b->first.is_swizzled());
    EXPECT_FALSE(tagged.is_swizzled());
    EXPECT_TRUE(tagged == b->first);
    EXPECT_FALSE(tagged == b->pair[0]);
    EXPECT_TRUE(b->first < b->pair[0]);
    EXPECT_TRUE(tagged < b->pair[0]);
    EXPECT_EQ(b->first.home(), home);
    EXPECT_EQ(std::hash<ref<thing>>()(b->first), hashed);
    EXPECT_TRUE(ref<thing>() == nullptr);
    EXPECT_TRUE(b->pair[1] == nullptr);
    EXPECT_EQ(b->pair[1].home(), 0u);
    EXPECT_EQ(ref<thing>(nullptr), ref<thing>());
    EXPECT_TRUE(ref<thing>() < b->first);
  });
}

TEST_F(cache_reading, virtual_functions_bases_and_references_into_objects) {
  make([](store& s) {
    auto& z = s.root<zoo>("zoo");
    s.transact([&] {
      auto* const b = s.make<bird>();
      auto* const d = s.make<dog>();
      b->age = 3;
      d->age = 9;
      d->owner = 77;
      d->friend_of = d;
      z.animals.push_back(ref<animal>(b));
      z.animals.push_back(ref<animal>(d));
      z.oldest = &d->age;
    });
  });
  for (const auto mode : {cache::concurrency::one_writer, cache::concurrency::object_locks}) {
    auto& s = open({.transactions = mode});
    s.read([&] {
      const auto z = s.root<zoo>("zoo");
      EXPECT_EQ(z->animals[0]->legs(), 2u);
      EXPECT_EQ(z->animals[1]->legs(), 4u);
      EXPECT_EQ(z->animals[1]->age, 9u);
      EXPECT_EQ(*z->oldest, 9u);
      const auto* const d = dynamic_cast<const dog*>(z->animals[1].get());
      ASSERT_NE(d, nullptr);
      EXPECT_EQ(d->owner, 77u);
      EXPECT_EQ(d->friend_of.get(), d);
      EXPECT_EQ(z->oldest.get(), &d->age);
      // Converted to a base that lies behind others, in memory or not.
      const ref<animal> as_animal = d->friend_of;
      EXPECT_EQ(as_animal.get(), d);
      EXPECT_TRUE(as_animal == z->animals[1]);
      EXPECT_EQ(ref<animal>(ref<dog>()), nullptr);
      EXPECT_EQ(dynamic_cast<const dog*>(z->animals[0].get()), nullptr);
    });
    s.transact([&] {
      const auto z = s.root<zoo>("zoo");
      z->animals[1].change().age = 10;
      z->oldest.change() += 1;
    });
    EXPECT_EQ(s.stats().changed_bytes, 1u);
    close();
    look([](store& mapped) {
      auto& z = mapped.root<zoo>("zoo");
      EXPECT_EQ(z.animals[1]->legs(), 4u);
      EXPECT_EQ(*z.oldest, 11u);
      mapped.transact([&] { z.oldest.change() = 9; });
      mapped.close();
    });
  }
}

TEST_F(cache_reading, an_identifier_of_a_base_that_lies_behind_others) {
  make([](store& s) {
    auto& first = s.root<tenure::vector<ref<dog>>>("dogs");
    s.transact([&] {
      first.push_back(s.make<dog>());
      first[0].change().age = 5;
      first[0].change().owner = 77;
    });
  });
  auto& s = open();
  s.read([&] {
    const auto dogs = s.root<tenure::vector<ref<dog>>>("dogs");
    ASSERT_FALSE((*dogs)[0].is_swizzled());
    const ref<animal> as_animal = (*dogs)[0];
    ASSERT_FALSE(as_animal.is_swizzled());
    EXPECT_EQ(as_animal->age, 5u);
    EXPECT_EQ(as_animal->legs(), 4u);
  });
  close();
  // The guard of an object with locks lies before the whole.
  auto& locking = open({.transactions = cache::concurrency::object_locks});
  locking.read([&] {
    const auto dogs = locking.root<tenure::vector<ref<dog>>>("dogs");
    const ref<dog>& as_dog = (*dogs)[0];
    const ref<owned> before = as_dog;
    EXPECT_EQ(as_dog->age, 5u);
    const ref<owned> after = as_dog;
    EXPECT_EQ(after->owner, 77u);
    EXPECT_EQ(after.get(), before.get());
    EXPECT_NE(static_cast<const void*>(after.get()), as_dog.get());
    EXPECT_EQ(after, before);
  });
}

// [cache.group]
TEST_F(cache_reading, plain_pointers_bring_their_targets_and_large_objects_come_whole) {
  make([](store& s) {
    auto& h = s.root<holder>("holder");
    s.transact([&] {
      h.large = s.make<block>();
      for (std::size_t n = 0; n < sizeof(block); ++n) h.large.change().bytes[n] = static_cast<char>(n % 251);
      for (std::uint64_t n = 0; n < 20; ++n) h.array.push_back(chain{n, {}});
      h.last_of_array = &h.array[19];
      h.plain = s.make<chain>(chain{5, {}});
      h.plain->next = h.plain;
    });
  });
  auto& s = open({.pool_pages = 1});
  s.read([&] {
    const auto h = s.root<holder>("holder");
    EXPECT_EQ(h->plain->id, 5u);  // with the fault of the holder
    EXPECT_EQ(s.stats().faults, 1u);
    EXPECT_EQ(h->array[7].id, 7u);
    EXPECT_EQ(h->plain->next->id, 5u);
    EXPECT_EQ(h->last_of_array.get(), &h->array[19]);
    std::size_t wrong = 0;
    for (std::size_t n = 0; n < sizeof(block); ++n) wrong += h->large->bytes[n] == static_cast<char>(n % 251) ? 0 : 1;
    EXPECT_EQ(wrong, 0u);
  });
  s.check();
}

TEST_F(cache_reading, several_databases) {
  make([&](store& s) {
    database far = s.create_database("far", {.reservation = 1 << 28, .home = next_home(1 << 28)});
    auto& here = s.root<chain>("here");
    auto& there = far.root<chain>("there");
    s.transact([&] {
      here = {1, &there};
      there = {2, &here};
    });
  });
  auto& s = open();
  EXPECT_EQ(s.databases(), (std::vector<std::string>{"main", "far"}));
  EXPECT_EQ(s.root_names("far"), std::vector<std::string>{"there"});
  s.read([&] {
    EXPECT_EQ(s.root<chain>("here")->next->id, 2u);
    EXPECT_EQ(s.root<chain>("there", "far")->next->next->id, 2u);
  });
  s.transact([&] { s.root<chain>("here")->next.change().id = 3; });
  close();
  look([](store& mapped) { EXPECT_EQ(mapped.find_database("far")->root<chain>("there").id, 3u); });
}

TEST_F(cache_reading, what_is_refused_says_why) {
  make([](store& s) {
    auto& c = s.root<chain>("chain");
    s.transact([&] { c.next = s.make<chain>(chain{2, {}}); });
  });
  for (const std::uint64_t pages : {std::uint64_t{0}, (std::uint64_t{1} << 32) + 1, ~std::uint64_t{0}})
    expect_error(errc::bad_option, {"pool_pages"}, [&] { open({.pool_pages = pages}); });
  expect_error(errc::bad_option, {"tenure::store"}, [&] { open({.mode = rvm::open_mode::create}); });
  expect_error(std::errc::no_such_file_or_directory, {"nowhere"}, [&] { cache::store(dir / "nowhere"); });
  auto& s = open();
  const auto chained = s.root<chain>("chain");
  expect_error(errc::bad_transaction, {"outside of a transaction", path}, [&] { (void)chained->id; });
  expect_error(errc::no_such_root, {"\"other\""}, [&] { (void)s.root<chain>("other"); });
  EXPECT_FALSE(s.find_root<chain>("other"));
  expect_error(errc::wrong_type, {"chain", "thing"}, [&] { (void)s.root<thing>("chain"); });
  expect_error(errc::bad_option, {"no database \"far\""}, [&] { (void)s.root<chain>("chain", "far"); });
  s.read([&] {
    EXPECT_EQ(chained->next->id, 2u);
    expect_error(errc::read_only, {"only reads", "chain"}, [&] { (void)chained.change(); });
    expect_error(errc::bad_transaction, {"already"}, [&] { (void)s.begin(); });
    expect_error(errc::transactions_open, {path}, [&] { s.close(); });
  });
  expect_error(errc::bad_transaction, {"outside of a transaction"}, [&] { (void)cache::change(*chained.get()); });
  cache::transaction ended = s.begin();
  ended.commit();
  expect_error(errc::bad_transaction, {"ended"}, [&] { ended.commit(); });
  expect_error(errc::bad_transaction, {"ended"}, [&] { ended.abort(); });
  const cache::identity<chain> kept(chained);
  s.close();
  expect_error(errc::closed, {path}, [&] { (void)s.begin(); });
  opened.reset();
  expect_error(errc::bad_transaction, {"was closed"}, [&] { (void)kept.get()->id; });
}

// A store is open mapped or in a cache, never both.
TEST_F(cache_reading, a_store_is_mapped_or_in_a_cache) {
  make([](store& s) { (void)s.root<chain>("chain"); });
  {
    const store mapped(path, how);
    expect_error(errc::in_use, {path}, [&] { open(); });
    EXPECT_TRUE(child_process([&] {
                  try {
                    open();
                  } catch (const error& e) {
                    return e.code() == errc::in_use ? 7 : 1;
                  }
                  return 0;
                })
                    .wait()
                    .exited_with(7));
  }
  open();
  expect_error(errc::in_use, {path}, [&] { store(path, how); });
  EXPECT_TRUE(child_process([&] {
                try {
                  store(path, how);
                } catch (const error& e) {
                  return e.code() == errc::in_use ? 7 : 1;
                }
                return 0;
              })
                  .wait()
                  .exited_with(7));
  close();
  open({.mode = rvm::open_mode::read_only});
  expect_error(errc::read_only, {path}, [&] { (void)opened->begin(); });
  expect_error(errc::in_use, {path}, [&] { store(path, how); });
  opened->read([&] { EXPECT_EQ(opened->root<chain>("chain")->id, 0u); });
}

// Several threads fault and swizzle the same refs.
TEST_F(cache_reading, by_several_threads) {
  make([](store& s) {
    auto& g = s.root<graph>("graph");
    s.transact([&] {
      for (std::uint64_t n = 0; n < 300; ++n) g.entries.push_back(s.make<node>(node{n, {}, {}, {}, {}, {}}));
      std::mt19937_64 random(1);
      for (const auto& n : g.entries)
        for (auto& e : n.change().edges) e = g.entries[random() % 300];
    });
  });
  auto& s = open({.pool_pages = 4, .object_bytes = 200000});
  std::vector<std::uint64_t> sums(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round)
        s.read([&] {
          std::uint64_t sum = 0;
          for (const auto& n : s.root<graph>("graph")->entries)
            for (const auto& e : n->edges) sum = sum * 3 + e->id;
          EXPECT_TRUE(round == 0 || sum == sums[t]);
          sums[t] = sum;
        });
    });
  for (auto& t : threads) t.join();
  for (const auto sum : sums) EXPECT_EQ(sum, sums[0]);
  s.check();
}

}  // namespace
