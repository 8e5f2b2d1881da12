// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What programs get wrong: stores at the same addresses, transactions in other threads, references into other stores; and what looks
// wrong and is not: keys that are pointers, pointers between objects of which one is changed.
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "cache/cached_graph.hpp"
#include "support/child_process.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_misuse_types {

struct cargo {
  std::uint64_t number;
  char bytes[3000];
};
struct ship {
  std::uint64_t number;
  cargo* load;
  ref<ship> next;
};
struct crew {
  tenure::vector<std::uint64_t> members;
  std::uint64_t* captain;  // one of them, not the first one
};
struct log_book {
  ref<ship> of;
  tenure::weak_map<ship, std::uint64_t> notes;
};
struct harbour {
  tenure::vector<ref<ship>> ships;
  ref<crew> pilots;
  tenure::hash_map<cargo*, std::uint64_t> by_hash;
  tenure::map<cargo*, std::uint64_t> by_order;
  tenure::set<std::pair<std::uint64_t, cargo*>> in_pairs;
};

}  // namespace cache_misuse_types
using namespace cache_misuse_types;

namespace {

class cache_misuse : public cached_store {
 protected:
  static constexpr std::uint64_t count = 20;

  static void fill(store& s) {
    auto& h = s.root<harbour>("harbour");
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        auto* const made = s.make<ship>(ship{n, s.make<cargo>(), {}});
        made->load->number = n;
        h.ships.push_back(made);
      }
    });
  }
  ref<ship> at(std::size_t n) { return opened->root<harbour>("harbour")->ships[n]; }
};

// Nothing weak can be followed in a cache. A weak map does not say that it has nothing.
TEST_F(cache_misuse, weak_maps_refuse_to_look) {
  make([](store& s) {
    auto& book = s.root<log_book>("book");
    s.transact([&] {
      auto* const made = s.make<ship>();
      book.of = made;
      book.notes[made] = 7;
    });
  });
  open();
  opened->transact([&] {
    const auto book = opened->root<log_book>("book");
    const ship* const kept = book->of.get();
    expect_error(errc::closed, {"in a cache it cannot be followed"}, [&] { (void)book->notes.contains(kept); });
  });
}

// Keys are hashed and ordered by where they are stored, and not by where they are in memory.
TEST_F(cache_misuse, pointers_are_keys_as_in_a_mapped_store) {
  make([](store& s) {
    fill(s);
    auto& h = s.root<harbour>("harbour");
    s.transact([&] {
      for (const auto& each : h.ships) {
        h.by_hash[each->load] = each->number;
        h.by_order[each->load] = each->number;
        h.in_pairs.emplace(each->number / 10, each->load);
      }
    });
  });
  auto& s = open();
  s.read([&] {
    const auto h = s.root<harbour>("harbour");
    // The last ones come into memory first.
    for (std::uint64_t n = count; n-- != 0;) {
      cargo* const key = at(n)->load;
      ASSERT_TRUE(h->by_hash.contains(key)) << n;
      EXPECT_EQ(h->by_hash.find(key)->second, n);
      ASSERT_TRUE(h->by_order.contains(key)) << n;
      EXPECT_EQ(h->by_order.find(key)->second, n);
      EXPECT_TRUE(h->in_pairs.contains({n / 10, key})) << n;
    }
  });
}

// [cache.homes]
TEST_F(cache_misuse, stores_at_the_same_addresses) {
  make([](store& s) { fill(s); });
  store_options same = how;
  const std::string other = dir / "other";
  {
    store made(other, same);
    fill(made);
    made.close();
  }
  open({.mode = rvm::open_mode::read_only});
  expect_error(errc::address_taken, {other, path, "rebase"}, [&] { (void)cache::store(other); });
  expect_error(errc::in_use, {path, "in a cache already"},
               [&] { (void)cache::store(path, {.mode = rvm::open_mode::read_only}); });
  close();
  cache::store now(other);
  now.read([&] { EXPECT_EQ(now.root<harbour>("harbour")->ships[3]->number, 3u); });
}

// An object of another store that is not in memory: its address could be anything.
TEST_F(cache_misuse, references_into_other_stores) {
  make([](store& s) { fill(s); });
  store_options elsewhere = how;
  elsewhere.create.home = next_home(how.create.reservation);
  const std::string other = dir / "other";
  {
    store made(other, elsewhere);
    fill(made);
    made.close();
  }
  auto& s = open();
  cache::store foreign(other);
  const auto reading = foreign.begin_read();
  const ref<ship> target = foreign.root<harbour>("harbour")->ships[0];
  for (const bool is_in_memory : {false, true}) {
    if (is_in_memory) {
      EXPECT_EQ(target->number, 0u);
    }
    EXPECT_EQ(target.is_swizzled(), is_in_memory);
    auto tx = s.begin();
    at(1).change().next = target;
    expect_error(errc::cannot_persist, {"ship", "next"}, [&] { tx.commit(); });
    at(1).change().next = at(2);
    tx.commit();
  }
  s.check();
}

TEST_F(cache_misuse, transactions_end_in_their_thread) {
  make([](store& s) { fill(s); });
  for (const auto mode : {cache::concurrency::one_writer, cache::concurrency::object_locks}) {
    auto& s = open({.transactions = mode});
    std::optional<cache::transaction> left;
    std::optional<cache::read_transaction> left_reading;
    {
      auto tx = s.begin();
      at(0).change().number = 100;
      std::thread([&] {
        expect_error(errc::bad_transaction, {path, "thread"}, [&] { tx.commit(); });
        expect_error(errc::bad_transaction, {path, "thread"}, [&] { tx.abort(); });
        expect_error(errc::bad_transaction, {path, "thread"}, [&] { tx.release(); });
      }).join();
      EXPECT_TRUE(tx.is_open());
      tx.abort();
    }
    // The thread is gone, and its transaction is open still.
    std::thread([&] {
      left.emplace(s.begin());
      at(0).change().number = 100;
    }).join();
    expect_error(errc::bad_transaction, {path, "thread"}, [&] { left->commit(); });
    left.reset();
    std::thread([&] { left_reading.emplace(s.begin_read()); }).join();
    left_reading.reset();
    // A transaction of this thread that another one has ended.
    left.emplace(s.begin());
    const auto kept = at(0);
    kept.change().number = 100;
    std::thread([&] { left.reset(); }).join();
    if (mode == cache::concurrency::object_locks) {  // it gets no locks any more
      expect_error(errc::bad_transaction, {path, "transaction"}, [&] { (void)kept->number; });
      std::thread([&] { s.transact([&] { at(0).change().number = 0; }); }).join();
    }
    s.transact([&] {
      EXPECT_EQ(at(0)->number, 0u);
      at(1).change().number = 1;
    });
    close();
  }
}

// The thread that began it has not looked at its list since, and lives on.
TEST_F(cache_misuse, what_has_ended_keeps_no_store_open) {
  make(fill);
  for (const auto mode : {cache::concurrency::one_writer, cache::concurrency::object_locks}) {
    auto& s = open({.transactions = mode});
    std::optional<cache::transaction> left;
    std::optional<cache::pin<ship>> pinned;
    std::barrier hand_over(2);
    std::thread other([&] {
      left.emplace(s.begin());
      pinned.emplace(at(0));
      hand_over.arrive_and_wait();
      hand_over.arrive_and_wait();
    });
    hand_over.arrive_and_wait();
    opened.reset();  // ends with the transaction and the pin
    expect_error(errc::in_use, {path}, [&] { open(); });
    left.reset();
    expect_error(errc::in_use, {path}, [&] { open(); });
    pinned.reset();
    EXPECT_NO_THROW(open({.transactions = mode}));
    hand_over.arrive_and_wait();
    other.join();
    opened.reset();
  }
}

// What its threads wait for there has waiters in the child that are not there.
TEST_F(cache_misuse, a_child_of_a_fork_can_end_it) {
  if (!children_of_threads_allocate) GTEST_SKIP() << "AddressSanitizer's locks are held in the child";
  make(fill);
  open({.transactions = cache::concurrency::one_writer});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      while (!stop) {
        if (n < 2)
          opened->transact([&] { ++opened->root<harbour>("harbour")->ships[0].change().number; },
                           cache::commit_mode::lazy);
        else
          (void)opened->stats();
      }
    });
  for (int n = 0; n < 20 && !HasFailure(); ++n) {
    child_process child([&] {
      ::alarm(30);  // ends one that hangs
      expect_error(errc::forked, {"parent"}, [&] { (void)opened->begin(); });
      expect_error(errc::forked, {"parent"}, [&] { (void)opened->stats(); });
      expect_error(errc::forked, {"parent"}, [&] { opened->close(); });
      if (!thread_sanitizer) {  // has stores of its own; but the sanitizer permits no new threads in a child of threads
        store own(dir / ("own " + std::to_string(::getpid())), small_store());
        own.transact([&] { own.root<crew>("crew").members.assign(100, 7); }, commit_mode::lazy);
        const tenure::string text(std::string(100, 'x'));  // which may be in any store
      }
      opened.reset();
      return HasFailure() ? 1 : 0;
    });
    EXPECT_TRUE(child.wait().exited_with(0));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

TEST_F(cache_misuse, a_store_that_was_moved_away) {
  make([](store& s) { fill(s); });
  auto& s = open();
  cache::store moved = std::move(s);
  expect_error(errc::closed, {"moved"}, [&] { (void)s.begin(); });       // NOLINT(bugprone-use-after-move)
  expect_error(errc::closed, {"moved"}, [&] { s.close(); });             // NOLINT(bugprone-use-after-move)
  expect_error(errc::closed, {"moved"}, [&] { (void)s.root_names(); });  // NOLINT(bugprone-use-after-move)
  moved.read([&] { EXPECT_EQ(moved.root<harbour>("harbour")->ships[2]->number, 2u); });
  moved.close();
}

// [cache.group] An object that is changed stays when the transaction releases what it has reached, and so must what it has got a
// plain pointer to.
TEST_F(cache_misuse, what_a_changed_object_points_to_is_not_released) {
  make([](store& s) { fill(s); });
  auto& s = open({.pool_pages = 1, .object_bytes = 20 << 10});
  for (const bool commits : {false, true}) {
    auto tx = s.begin();
    {
      cargo* const load = at(2)->load;
      at(1).change().load = load;
    }
    for (std::uint64_t n = 3; n < count; ++n) {
      EXPECT_EQ(at(n)->load->number, n);
      tx.release();
    }
    EXPECT_EQ(at(1)->load->number, 2u);
    s.check();
    if (commits)
      tx.commit();
    else
      tx.abort();
    s.read([&] { EXPECT_EQ(at(1)->load->number, commits ? 2u : 1u); });
  }
  EXPECT_GT(s.stats().evictions, 2u);
  close();
  look([](store& mapped) {
    const auto& h = mapped.root<harbour>("harbour");
    EXPECT_EQ(h.ships[1]->load, h.ships[2]->load);
  });
}

TEST_F(cache_misuse, pointers_to_parts_of_objects) {
  make([](store& s) {
    auto& h = s.root<harbour>("harbour");
    s.transact([&] {
      auto* const made = s.make<crew>();
      for (std::uint64_t n = 0; n < 5; ++n) made->members.push_back(n);
      made->captain = &made->members[1];
      h.pilots = made;
    });
  });
  auto& s = open();
  s.transact([&] {
    const auto pilots = s.root<harbour>("harbour")->pilots;
    EXPECT_EQ(*pilots->captain, 1u);
    pilots.change().captain = const_cast<std::uint64_t*>(&pilots->members[4]);
  });
  close();
  look([](store& mapped) {
    const auto pilots = mapped.root<harbour>("harbour").pilots;
    EXPECT_EQ(pilots->captain, &pilots->members[4]);
  });
}

// [cache.evict.quiet] What one thread has reached stays while others release theirs.
TEST_F(cache_misuse, what_other_threads_have_reached_is_not_released) {
  make([](store& s) { fill(s); });
  auto& s = open({.pool_pages = 2, .object_bytes = 60 << 10});
  const auto read = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int n = 0; n < 100; ++n) try {
        auto reading = s.begin_read();
        for (int turn = 0; turn < 4; ++turn) {
          const std::uint64_t which = random() % count;
          const cargo* const reached = at(which)->load;
          for (int i = 0; i < 3; ++i) {
            const std::uint64_t other = random() % count;
            EXPECT_EQ(at(other)->load->number, other);
            std::this_thread::yield();
          }
          EXPECT_EQ(reached->number, which);
          reading.release();
        }
      } catch (const error& e) {  // all together have reached too much
        EXPECT_EQ(e.code(), errc::cache_full) << e.what();
      }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) threads.emplace_back(read, t);
  for (auto& t : threads) t.join();
  EXPECT_GT(s.stats().evictions, 10u);
  s.check();
}

}  // namespace
