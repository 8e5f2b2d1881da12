// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that are made and destroyed in a cache.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cache/made_library.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace cache_making_types;
using tenure::cache::ref;

namespace {

class cache_making : public making_in_cache {};

TEST_F(cache_making, objects_and_containers_are_found_by_the_object_heap) {
  make_library();
  for (int round = 0; round < 3; ++round) {
    open();
    opened->transact([&] {
      library& all = shelves().change();
      for (std::uint64_t n = 0; n < 100; ++n) {
        const std::uint64_t number = static_cast<std::uint64_t>(round) * 100 + n;
        const ref<leaf> made = opened->make<leaf>();
        leaf& i = made.change();
        i.number = number;
        i.text.assign("text " + std::string(n, 'x'));
        i.next = all.first;
        all.first = made;
        all.items.push_back(made);
        all.by_number.emplace(number, made);
        all.names.emplace(number, tenure::string("name " + std::to_string(number)));
        all.rows.emplace_back();
        for (std::uint32_t k = 0; k < n; ++k) all.rows.back().push_back(k);
      }
    });
    opened->check();
    close();
    look([&](store& mapped) {
      const library& all = mapped.root<library>("library");
      const std::uint64_t count = static_cast<std::uint64_t>(round + 1) * 100;
      ASSERT_EQ(all.items.size(), count);
      ASSERT_EQ(all.by_number.size(), count);
      ASSERT_EQ(all.names.size(), count);
      ref<leaf> at = all.first;
      for (std::uint64_t n = count; n-- > 0;) {
        ASSERT_EQ(at->number, n);
        ASSERT_EQ(at->text.size(), 5 + n % 100);
        ASSERT_EQ(all.by_number.find(n)->second, at);
        ASSERT_EQ(all.items[n], at);
        ASSERT_EQ(all.names.find(n)->second, tenure::string("name " + std::to_string(n)));
        ASSERT_EQ(all.rows[n].size(), n % 100);
        at = at->next;
      }
      EXPECT_FALSE(at);
    });
  }
  look([&](store& mapped) { EXPECT_EQ(garbage_in(mapped), 0u); });
}

TEST_F(cache_making, an_abort_takes_back_what_was_made) {
  make_library();
  open();
  opened->transact([&] {
    library& all = shelves().change();
    for (int n = 0; n < 20; ++n) all.items.push_back(opened->make<leaf>());
  });
  const std::uint64_t objects = opened->stats().objects;
  for (int round = 0; round < 50; ++round) {
    auto tx = opened->begin();
    library& all = shelves().change();
    for (int n = 0; n < 30; ++n) {
      all.items.push_back(opened->make<leaf>());
      all.items.back().change().text.assign(std::string(100, 'a'));
      all.names.emplace(static_cast<std::uint64_t>(n), tenure::string("a name that is not short"));
    }
    tx.abort();
    opened->check();
  }
  EXPECT_EQ(opened->stats().objects, objects);
  opened->read([&] {
    EXPECT_EQ(shelves()->items.size(), 20u);
    EXPECT_TRUE(shelves()->names.empty());
  });
  close();
  look([&](store& mapped) { EXPECT_EQ(mapped.root<library>("library").items.size(), 20u); });
}

TEST_F(cache_making, places_of_destroyed_objects_are_used_again) {
  make_library();
  open();
  const auto replace_all = [&] {
    opened->transact([&] {
      library& all = shelves().change();
      for (const ref<leaf>& old : all.items) opened->destroy(old);
      all.items.clear();
      for (std::uint64_t n = 0; n < 500; ++n) {
        const ref<leaf> made = opened->make<leaf>();
        made.change().number = n;
        made.change().text.assign(std::string(30 + n % 5, 'b'));
        all.items.push_back(made);
      }
    });
    opened->check();
  };
  for (int n = 0; n < 3; ++n) replace_all();
  close();
  open();
  for (int n = 0; n < 3; ++n) replace_all();
  const std::uint64_t before = file_size();
  look([](store&) {});
  open();
  for (int n = 0; n < 20; ++n) replace_all();
  EXPECT_GE(opened->stats().destroyed_objects, 20u * 500u);
  close();
  EXPECT_EQ(file_size(), before);
  look([&](store& mapped) {
    EXPECT_EQ(mapped.root<library>("library").items.size(), 500u);
    EXPECT_EQ(garbage_in(mapped), 0u);
  });
}

TEST_F(cache_making, an_aborted_destruction_leaves_the_object) {
  make_library();
  open();
  opened->transact([&] {
    library& all = shelves().change();
    const ref<leaf> made = opened->make<leaf>();
    made.change().text.assign("a text that needs memory of its own, certainly");
    made.change().number = 7;
    all.first = made;
  });
  {
    auto tx = opened->begin();
    const ref<leaf> gone = shelves()->first;
    opened->destroy(gone);
    expect_error(errc::bad_free, {"destroyed already"}, [&] { opened->destroy(gone); });
    expect_error(errc::bad_transaction, {"was destroyed"}, [&] { (void)gone.change(); });
    expect_error(errc::cannot_persist, {"has destroyed"}, [&] {
      const ref<leaf> other = opened->make<leaf>();
      other.change().next = gone;
      tx.commit();
    });
    tx.abort();
  }
  opened->check();
  opened->read([&] {
    EXPECT_EQ(shelves()->first->number, 7u);
    EXPECT_EQ(shelves()->first->text, tenure::string("a text that needs memory of its own, certainly"));
  });
  opened->transact([&] {
    opened->destroy(shelves()->first);
    shelves().change().first = {};
  });
  opened->check();
  close();
  look([&](store& mapped) {
    EXPECT_FALSE(mapped.root<library>("library").first);
    EXPECT_EQ(garbage_in(mapped), 0u);
  });
}

TEST_F(cache_making, types_that_the_store_has_not_seen_are_described) {
  make([](store& s) { (void)s.root<shelf_root>("root"); });
  open();
  {
    auto tx = opened->begin();  // what an abort leaves has numbers, but no descriptions
    (void)opened->make<broad>();
    (void)opened->make<triangle>();
    tx.abort();
  }
  opened->transact([&] {
    const auto root = opened->root<shelf_root>("root");
    root.change().held = opened->make<keeper>();
    keeper& h = root->held.change();
    for (std::uint64_t n = 0; n < 40; ++n) {
      const ref<triangle> t = opened->make<triangle>();
      t.change().id = n;
      t.change().parts[1].b = static_cast<std::uint32_t>(n);
      t.change().scratch = 9;
      h.all.push_back(t);
    }
    h.one = h.all[7];
  });
  opened->read([&] {
    const auto root = opened->root<shelf_root>("root");
    EXPECT_EQ(root->held->one->corners(), 3u);
  });
  close();
  open();
  opened->read([&] {
    const auto root = opened->root<shelf_root>("root");
    ASSERT_EQ(root->held->all.size(), 40u);
    EXPECT_EQ(root->held->one->id, 7u);
    EXPECT_EQ(root->held->one->corners(), 3u);
    for (std::uint64_t n = 0; n < 40; ++n) {
      EXPECT_EQ(root->held->all[n]->parts[1].b, n);
      EXPECT_EQ(root->held->all[n]->scratch, 0u);
    }
  });
  close();
  look([&](store& mapped) {
    const auto& root = mapped.root<shelf_root>("root");
    EXPECT_EQ(root.held->one->corners(), 3u);
    for (std::uint64_t n = 0; n < 40; ++n) EXPECT_EQ(root.held->all[n]->scratch, 0u);
    EXPECT_EQ(garbage_in(mapped), 0u);
  });
}

TEST_F(cache_making, many_types_make_a_larger_table) {
  make_library();
  open();
  std::size_t count = 0;
  const auto make_one = [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
    opened->make<std::array<std::uint32_t, N + 3>>();
    ++count;
  };
  const auto make_all = [&]<std::size_t... N>(std::index_sequence<N...>) {
    (make_one(std::integral_constant<std::size_t, N>{}), ...);
  };
  opened->transact([&] { make_all(std::make_index_sequence<40>{}); });
  opened->transact([&] { make_all(std::make_index_sequence<90>{}); });
  close();
  open();
  opened->transact([&] { make_all(std::make_index_sequence<90>{}); });
  close();
  look([&](store& mapped) { EXPECT_EQ(garbage_in(mapped), count); });
}

TEST_F(cache_making, objects_of_all_sizes) {
  make([](store& s) { (void)s.root<library>("library"); });
  open();
  std::vector<std::uint64_t> homes;
  opened->transact([&] {
    library& all = shelves().change();
    for (const std::size_t length : {1U, 8U, 100U, 1000U, 5000U, 8200U, 40'000U, 300'000U, 3'000'000U}) {
      const ref<leaf> made = opened->make<leaf>();
      made.change().text.assign(std::string(length, static_cast<char>('a' + length % 26)));
      all.items.push_back(made);
    }
    for (int n = 0; n < 30; ++n) {
      const ref<broad> w = opened->make<broad>();
      EXPECT_EQ(w.home() % 64, 0u);
      w.change().words[7] = 7;
      const ref<big> b = opened->make<big>();
      b.change().words[2999] = 8;
      homes.push_back(w.home());
      homes.push_back(b.home());
    }
  });
  close();
  look([&](store& mapped) {
    const library& all = mapped.root<library>("library");
    for (const auto& i : all.items)
      for (const char c : i->text) ASSERT_EQ(c, static_cast<char>('a' + i->text.size() % 26));
    for (std::size_t n = 0; n < homes.size(); n += 2) {
      EXPECT_EQ(reinterpret_cast<const broad*>(homes[n])->words[7], 7u);
      EXPECT_EQ(reinterpret_cast<const big*>(homes[n + 1])->words[2999], 8u);
    }
    EXPECT_EQ(garbage_in(mapped), homes.size());  // nothing leads to them
  });
  open();
  opened->transact([&] {
    library& all = shelves().change();
    for (const auto& i : all.items) opened->destroy(i);
    all.items.clear();
  });
  close();
  look([&](store& mapped) { EXPECT_EQ(garbage_in(mapped), 0u); });
}

TEST_F(cache_making, misuse_is_refused) {
  make_library();
  open();
  expect_error(errc::bad_transaction, {"cannot make an object", "begin one"}, [&] { (void)opened->make<leaf>(); });
  opened->read([&] { expect_error(errc::read_only, {"only reads"}, [&] { (void)opened->make<leaf>(); }); });
  auto tx = opened->begin();
  expect_error(errc::bad_option, {"no database \"other\""}, [&] { (void)opened->make_in<leaf>("other"); });
  EXPECT_THROW(opened->make<refuses>(true), std::runtime_error);
  opened->check();
  library& all = shelves().change();
  all.items.push_back(opened->make<leaf>());
  all.odd = all.items[0];
  const ref<ref<leaf>> element(&all.items[0]);
  expect_error(errc::bad_free, {"array"}, [&] { opened->destroy(element); });
  const ref<std::uint64_t> number(&all.items[0].change().number);
  expect_error(errc::bad_free, {"no object of its own"}, [&] { opened->destroy(number); });
  opened->destroy(ref<leaf>{});
  tx.abort();
  close();
  open({.mode = rvm::open_mode::read_only});
  expect_error(errc::read_only, {"for reading"}, [&] { (void)opened->begin(); });
  close();
}

TEST_F(cache_making, needs_room_in_the_cache) {
  make_library();
  open({.object_bytes = 64 << 10});
  expect_error(errc::cache_full, {"bytes in the cache"}, [&] {
    opened->transact([&] {
      library& all = shelves().change();
      for (int n = 0; n < 1000; ++n) all.items.push_back(opened->make<leaf>());
    });
  });
  opened->check();
  for (int round = 0; round < 40; ++round)
    opened->transact([&] {
      ref<leaf> first = shelves()->first;
      for (int n = 0; n < 20; ++n) {
        const ref<leaf> made = opened->make<leaf>();
        made.change().next = first;
        made.change().number = static_cast<std::uint64_t>(round * 20 + n);
        first = made;
      }
      shelves().change().first = first;
    });
  EXPECT_GT(opened->stats().evictions, 0u);
  close();
  look([&](store& mapped) {
    std::uint64_t n = 800;
    for (ref<leaf> at = mapped.root<library>("library").first; at; at = at->next) ASSERT_EQ(at->number, --n);
    EXPECT_EQ(n, 0u);
  });
}

// Each thread has a library of its own, and all count in one object.
TEST_F(cache_making, in_several_transactions_at_once) {
  constexpr std::uint64_t threads = 4, rounds = 30;
  make([](store& s) {
    for (std::uint64_t n = 0; n < threads; ++n) (void)s.root<library>("library " + std::to_string(n));
    (void)s.root<leaf>("counter");
  });
  open({.transactions = cache::concurrency::object_locks});
  std::vector<std::thread> running;
  for (std::uint64_t me = 0; me < threads; ++me)
    running.emplace_back([&, me] {
      for (std::uint64_t round = 0; round < rounds;) {
        auto tx = opened->begin();
        try {
          const auto mine = opened->root<library>("library " + std::to_string(me));
          for (std::uint64_t n = 0; n < 5; ++n) {
            const ref<leaf> made = opened->make<leaf>();
            made.change().number = round * 5 + n;
            made.change().text.assign(std::string(40, static_cast<char>('a' + me)));
            made.change().next = mine->first;
            mine.change().first = made;
            mine.change().items.push_back(made);
            mine.change().by_number.emplace(made->number, made);
          }
          if (round % 3 == 2) {
            const ref<leaf> old = mine->items[0];
            mine.change().items.erase(mine.change().items.begin());
            mine.change().by_number.erase(old->number);
            for (ref<leaf> at = mine->first; at; at = at->next)
              if (at->next == old) at.change().next = {};
            opened->destroy(old);
          }
          ++opened->root<leaf>("counter").change().number;
          if (round % 7 == 3) {
            tx.abort();
          } else {
            tx.commit(cache::commit_mode::lazy);
          }
          ++round;
        } catch (const error& e) {
          ASSERT_EQ(e.code(), errc::deadlock) << e.what();
        }
      }
    });
  for (auto& t : running) t.join();
  opened->check();
  close();
  look([&](store& mapped) {
    std::uint64_t aborted = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) aborted += round % 7 == 3 ? 1 : 0;
    EXPECT_EQ(mapped.root<leaf>("counter").number, threads * (rounds - aborted));
    for (std::uint64_t me = 0; me < threads; ++me) {
      const auto& all = mapped.root<library>("library " + std::to_string(me));
      EXPECT_EQ(all.by_number.size(), all.items.size());
      for (const auto& l : all.items) EXPECT_EQ(l->text, tenure::string(std::string(40, static_cast<char>('a' + me))));
    }
    EXPECT_EQ(garbage_in(mapped), 0u);
  });
}

TEST_F(cache_making, an_object_has_less_than_4_gib) {
  make_library();
  open({.object_bytes = std::uint64_t{8} << 30});
  expect_error(errc::out_of_memory, {"too large for a cache"}, [&] {
    opened->transact([&] {
      library& all = shelves().change();
      all.rows.emplace_back();
      all.rows.back().resize(1 << 30);
    });
  });
  opened->check();
  close();
  look([&](store& mapped) { EXPECT_TRUE(mapped.root<library>("library").rows.empty()); });
}

TEST_F(cache_making, a_commit_refuses_refs_to_what_was_destroyed_that_nobody_has_followed) {
  make_library();
  for (const auto how_many : {cache::concurrency::one_writer, cache::concurrency::object_locks}) {
    open({.transactions = how_many});
    opened->transact([&] { shelves().change().first = opened->make<leaf>(); });
    close();
    open({.transactions = how_many});
    expect_error(errc::cannot_persist, {"has destroyed"}, [&] {
      opened->transact([&] {
        const cache::identity<leaf> first = shelves()->first;
        shelves().change().items.push_back(first.get());
        opened->destroy(first.get());
      });
    });
    opened->check();
    close();
  }
}

TEST_F(cache_making, invariants_hold_while_something_is_being_made) {
  make_library();
  open();
  tenure::vector<tenure::string> own;
  auto tx = opened->begin();
  opened->make<leaf>().change().text.assign(std::string(100, 'a'));
  own.emplace_back(std::string(100, 'b'));
  opened->check();
  tx.commit();
  opened->check();
  own = {};
  opened->check();
}

// Whoever knows its identity waits until it is stored, or gone.
TEST_F(cache_making, what_is_made_is_locked) {
  make_library();
  open({.transactions = cache::concurrency::object_locks});
  auto tx = opened->begin();
  const cache::identity<leaf> made = opened->make<leaf>();
  made.get().change().number = 5;
  std::atomic<bool> has_read{false};
  std::thread other([&] {
    const auto reading = opened->begin_read();
    expect_error(errc::damaged, {"where no object is"}, [&] { (void)made.get()->number; });
    has_read = true;
  });
  while (!has_read && opened->stats().lock_waits == 0) std::this_thread::yield();
  tx.abort();
  other.join();
  opened->check();
}

}  // namespace
