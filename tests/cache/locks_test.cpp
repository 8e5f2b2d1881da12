// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Several transactions at once, with object locks: what they have read and written is written down, and no transaction may
// come before itself.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "cache/cached_graph.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_locks_types {

struct account {
  std::uint64_t writer;  // the transaction that wrote it last
  std::uint64_t pair;    // the same number in both accounts of a transfer
  ref<account> next;
};
struct accounts {
  tenure::vector<ref<account>> all;
};
struct owner {
  std::uint64_t number;
  account* part;  // a plain pointer: both are in one group
};
struct couple {
  account *one, *other;
};
struct couples {
  ref<account> one, other;
  ref<couple> both;
};
struct owners {
  tenure::vector<ref<owner>> all;
  ref<account> shared;
};

}  // namespace cache_locks_types
using namespace cache_locks_types;

namespace {

constexpr std::size_t account_count = 12;

class cache_locks : public cached_store {
 protected:
  void make_accounts() {
    make([](store& s) {
      auto& root = s.root<accounts>("accounts");
      s.transact([&] {
        for (std::size_t n = 0; n < account_count; ++n) root.all.push_back(s.make<account>());
      });
    });
  }
  cache::store& open_locking(std::uint64_t bytes = 1 << 20) {
    return open({.pool_pages = 3, .object_bytes = bytes, .transactions = cache::concurrency::object_locks});
  }
  ref<account> at(std::size_t n) { return opened->root<accounts>("accounts")->all[n]; }
};

// What transactions did, by what they saw.
class history {
 public:
  struct access {
    std::size_t which;
    std::uint64_t saw;  // whose value
    bool wrote;
  };
  void committed(std::uint64_t tx, std::vector<access> accesses) {
    const std::scoped_lock lock(mutex_);
    all_.emplace(tx, std::move(accesses));
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

  // Whether the transactions are as if they had run one after the other: no circle among who wrote what others read, who
  // overwrote what others wrote, and who overwrote what others read. Values that are nobody's committed one are wrong, too.
  void expect_serializable() const {
    std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> overwritten;  // (account, writer) by
    for (const auto& [tx, accesses] : all_)
      for (const access& a : accesses) {
        EXPECT_TRUE(a.saw == 0 || all_.contains(a.saw)) << tx << " saw what " << a.saw << " never committed";
        if (a.wrote) {
          EXPECT_TRUE(overwritten.emplace(std::pair(a.which, a.saw), tx).second)
              << "lost: a change of account " << a.which;
        }
      }
    std::map<std::uint64_t, std::set<std::uint64_t>> before;
    for (const auto& [tx, accesses] : all_)
      for (const access& a : accesses) {
        if (a.saw != 0) before[a.saw].insert(tx);
        const auto by = overwritten.find({a.which, a.saw});
        if (by != overwritten.end() && by->second != tx) before[tx].insert(by->second);
      }
    std::map<std::uint64_t, int> state;
    for (const auto& [tx, accesses] : all_) EXPECT_FALSE(has_circle(tx, before, state)) << "around transaction " << tx;
  }

 private:
  static bool has_circle(std::uint64_t tx, const std::map<std::uint64_t, std::set<std::uint64_t>>& before,
                         std::map<std::uint64_t, int>& state) {
    if (state[tx] != 0) return state[tx] == 1;
    state[tx] = 1;
    if (const auto found = before.find(tx); found != before.end())
      for (const std::uint64_t later : found->second)
        if (has_circle(later, before, state)) return true;
    state[tx] = 2;
    return false;
  }

  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<access>> all_;
};

TEST_F(cache_locks, recorded_histories_are_serializable) {
  how.memory.background = false;
  make_accounts();
  // One budget in which transactions hardly ever meet an eviction, and one in which they often do.
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{4500}}) {
    history all;
    auto& s = open_locking(bytes);
    s.transact([&] {
      for (std::size_t n = 0; n < account_count; ++n) at(n).change() = {};
    });
    std::atomic<std::uint64_t> next_number{1}, victims{0}, refused{0};
    const auto work = [&](std::uint64_t seed) {
      std::mt19937_64 random(seed);
      for (std::uint64_t done = 0; done < rvm::testing::scaled(150);) {
        const std::uint64_t number = next_number++;
        std::vector<history::access> accesses;
        try {
          auto tx = s.begin();
          std::set<std::size_t> chosen;
          while (chosen.size() < 1 + random() % 4) chosen.insert(random() % account_count);
          std::vector<std::size_t> order(chosen.begin(), chosen.end());
          std::ranges::shuffle(order, random);
          for (const std::size_t n : order) {
            const ref<account> c = at(n);
            const std::uint64_t saw = c->writer;
            const bool writes = random() % 2 == 0;
            std::this_thread::yield();
            if (writes) c.change().writer = number;
            EXPECT_EQ(c->writer, writes ? number : saw);
            accesses.push_back({n, saw, writes});
          }
          if (random() % 8 == 0) {
            tx.abort();
            continue;
          }
          // Before the locks are gone: others may see what was written, and be committed first.
          tx.commit(random() % 16 == 0 ? cache::commit_mode::durable : cache::commit_mode::lazy);
          all.committed(number, accesses);
          ++done;
        } catch (const error& e) {
          if (e.code() == errc::deadlock)
            ++victims;
          else if (e.code() == errc::cache_full)
            ++refused;
          else
            throw;
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, t + bytes);
    for (auto& t : threads) t.join();
    all.expect_serializable();
    EXPECT_EQ(s.stats().deadlocks, victims.load());
    RecordProperty("victims", static_cast<int>(victims.load()));
    s.check();
    close();
  }
  look([](store&) {});
}

// Two transactions that want what the other one has: one of them is told, and the other one goes on.
TEST_F(cache_locks, a_deadlock_has_one_victim) {
  make_accounts();
  auto& s = open_locking();
  std::mutex mutex;
  std::condition_variable changed;
  int have_first = 0, victims = 0, committed = 0;
  const auto work = [&](std::size_t first, std::size_t second) {
    auto tx = s.begin();
    at(first).change().writer = first + 1;
    {
      std::unique_lock lock(mutex);
      ++have_first;
      changed.notify_all();
      changed.wait(lock, [&] { return have_first == 2; });
    }
    try {
      at(second).change().writer = first + 1;
      tx.commit();
      const std::scoped_lock lock(mutex);
      ++committed;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::deadlock) << e.what();
      tx.abort();
      const std::scoped_lock lock(mutex);
      ++victims;
    }
  };
  std::thread one(work, 0, 1), other(work, 1, 0);
  one.join();
  other.join();
  EXPECT_EQ(victims, 1);
  EXPECT_EQ(committed, 1);
  s.read([&] {
    EXPECT_EQ(at(0)->writer, at(1)->writer);
    EXPECT_NE(at(0)->writer, 0u);
  });
  EXPECT_EQ(s.stats().deadlocks, 1u);
  s.check();
}

// Two that have read the same object, and both want to change it.
TEST_F(cache_locks, a_deadlock_of_two_readers) {
  make_accounts();
  auto& s = open_locking();
  std::mutex mutex;
  std::condition_variable changed;
  int have_read = 0;
  std::atomic<int> victims{0};
  const auto work = [&](std::uint64_t number) {
    auto tx = s.begin();
    const ref<account> c = at(0);
    EXPECT_EQ(c->writer, 0u);
    {
      std::unique_lock lock(mutex);
      ++have_read;
      changed.notify_all();
      changed.wait(lock, [&] { return have_read == 2; });
    }
    try {
      c.change().writer = number;
      tx.commit();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::deadlock);
      ++victims;
      tx.abort();
    }
  };
  std::thread one(work, 1), other(work, 2);
  one.join();
  other.join();
  EXPECT_EQ(victims, 1);
}

// What a transaction has changed is seen by nobody before it is committed, nor if it is aborted; those on other objects do not wait.
TEST_F(cache_locks, changes_are_seen_when_they_are_committed) {
  make_accounts();
  auto& s = open_locking();
  auto tx = s.begin();
  at(0).change() = {5, 5, at(1)};
  std::thread reader([&] {
    s.read([&] { EXPECT_EQ(at(2)->writer, 0u); });  // not in the way
    s.transact([&] { at(3).change().writer = 9; });
    s.read([&] { EXPECT_EQ(at(0)->writer, 0u); });  // waits
  });
  std::thread ends([&] {
    while (s.stats().lock_waits == 0) std::this_thread::yield();
  });
  ends.join();
  tx.abort();
  reader.join();
  tx = s.begin();
  EXPECT_EQ(at(3)->writer, 9u);
  at(0).change() = {6, 6, ref<account>(const_cast<account*>(at(3).get()))};
  tx.commit();
  s.read([&] {
    EXPECT_EQ(at(0)->writer, 6u);
    EXPECT_FALSE(at(0)->next.is_swizzled());  // even if it was made of a pointer: who follows it gets a lock
    EXPECT_EQ(at(0)->next->writer, 9u);
  });
  s.check();
}

// [cache.locks.turn] A reader that comes after a writer waits behind it.
TEST_F(cache_locks, a_writer_that_waits_gets_its_turn) {
  make_accounts();
  auto& s = open_locking();
  const auto waiters_are = [&](std::uint64_t n) {
    while (s.stats().lock_waits < n) std::this_thread::yield();
  };
  std::optional<cache::read_transaction> first(s.begin_read());
  EXPECT_EQ(at(0)->writer, 0u);
  std::thread writer([&] { s.transact([&] { at(0).change().writer = 4; }); });
  waiters_are(1);
  std::thread second([&] { s.read([&] { EXPECT_EQ(at(0)->writer, 4u); }); });
  waiters_are(2);
  EXPECT_EQ(at(0)->writer, 0u) << "who has it already is let through";
  first.reset();
  writer.join();
  second.join();
  s.check();
}

// [cache.locks.word] What a transaction has a lock of, it finds without looking for it; so do others the first time.
TEST_F(cache_locks, a_second_dereference_is_no_fault) {
  make_accounts();
  auto& s = open_locking();
  const auto read_all = [&](const accounts& root) {
    std::uint64_t sum = 0;
    for (const auto& c : root.all) sum += c->writer + 1;
    return sum;
  };
  for (int n = 0; n < 3; ++n) {
    const auto tx = s.begin_read();
    const accounts& root = *s.root<accounts>("accounts");
    if (n == 0) {
      EXPECT_EQ(read_all(root), account_count);
    }
    const std::uint64_t before = s.stats().faults;
    EXPECT_EQ(read_all(root), account_count);
    EXPECT_EQ(s.stats().faults, before);
  }
  ref<account> kept;
  {
    const auto tx = s.begin_read();
    kept = at(0);
    EXPECT_EQ(kept->writer, 0u);
  }
  expect_error(errc::bad_transaction, {"outside of a transaction"}, [&] { (void)kept->writer; });
  s.check();
}

// Of which some have a bit in lock words, and some have none [cache.locks.word].
TEST_F(cache_locks, more_threads_than_bits) {
  constexpr std::size_t bits = 48;
  make_accounts();
  for (const std::size_t idle : {bits - 2, bits}) {
    auto& s = open_locking();
    s.transact([&] {
      for (std::size_t n = 0; n < account_count; ++n) at(n).change() = {};
    });
    std::barrier begun(static_cast<std::ptrdiff_t>(idle) + 1), ends(static_cast<std::ptrdiff_t>(idle) + 1);
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < idle; ++n)
      threads.emplace_back([&] {
        const auto tx = s.begin_read();
        begun.arrive_and_wait();
        ends.arrive_and_wait();
      });
    begun.arrive_and_wait();
    std::atomic<std::uint64_t> commits{0};
    std::vector<std::thread> workers;
    for (std::uint64_t t = 0; t < 4; ++t)
      workers.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (std::uint64_t n = 0; n < rvm::testing::scaled(100); ++n) {
          try {
            auto tx = s.begin();
            const ref<account> one = at(random() % account_count), other = at(random() % account_count);
            const std::uint64_t saw = one->writer;
            std::this_thread::yield();
            EXPECT_EQ(other->writer, other->pair);
            EXPECT_EQ(one->writer, saw);
            one.change().writer += 1;
            std::this_thread::yield();
            one.change().pair += 1;
            if (random() % 4 == 0) continue;
            tx.commit(cache::commit_mode::lazy);
            ++commits;
          } catch (const error& e) {
            EXPECT_EQ(e.code(), errc::deadlock) << e.what();
          }
        }
      });
    for (auto& t : workers) t.join();
    ends.arrive_and_wait();
    for (auto& t : threads) t.join();
    std::uint64_t sum = 0;
    s.read([&] {
      for (std::size_t n = 0; n < account_count; ++n) sum += at(n)->writer;
    });
    EXPECT_EQ(sum, commits.load());
    EXPECT_GT(sum, 0u);
    s.check();
    close();
  }
}

// Objects that are loaded unite groups of which others have locks [cache.locks.united].
TEST_F(cache_locks, groups_that_are_united_while_they_are_locked) {
  make([](store& s) {
    auto& root = s.root<owners>("owners");
    s.transact([&] {
      root.shared = s.make<account>();
      for (std::uint64_t n = 0; n < 8; ++n)
        root.all.push_back(s.make<owner>(owner{n, const_cast<account*>(root.shared.get())}));
    });
  });
  auto& s = open_locking(8000);
  std::atomic<std::uint64_t> changes{0}, victims{0};
  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint64_t n = 0; n < rvm::testing::scaled(150); ++n) {
      try {
        auto tx = s.begin();
        const auto root = s.root<owners>("owners");
        if (random() % 2 == 0) {
          auto& c = root->shared.change();
          c.writer += 1;
          std::this_thread::yield();
          c.pair = c.writer;
        } else {
          const ref<owner> o = root->all[random() % 8];
          auto& c = cache::change(*o->part);
          c.writer += 1;
          std::this_thread::yield();
          c.pair = c.writer;
        }
        const ref<owner> other = root->all[random() % 8];
        EXPECT_EQ(other->part->writer, other->part->pair);
        tx.commit(cache::commit_mode::lazy);
        ++changes;
      } catch (const error& e) {
        EXPECT_TRUE(e.code() == errc::deadlock || e.code() == errc::cache_full) << e.what();
        ++victims;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  s.check();
  close();
  look([&](store& mapped) { EXPECT_EQ(mapped.root<owners>("owners").shared->writer, changes.load()); });
}

// Values move between objects that get plain pointers to each other meanwhile, so that commits and faults unite groups.
TEST_F(cache_locks, groups_that_change_while_they_are_locked) {
  constexpr std::uint64_t each = 1000, count = 16;
  make([](store& s) {
    auto& root = s.root<owners>("owners");
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        root.all.push_back(s.make<owner>(owner{each, s.make<account>()}));
        root.all[n].change().part->pair = each;
      }
    });
  });
  auto& s = open_locking(20000);
  std::atomic<std::uint64_t> commits{0};
  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint64_t n = 0; n < rvm::testing::scaled(400); ++n) {
      try {
        auto tx = s.begin();
        const auto root = s.root<owners>("owners");
        const ref<owner> one = root->all[random() % count], other = root->all[random() % count];
        const std::uint64_t amount = random() % 10;
        const std::uint64_t before = other->number;
        std::this_thread::yield();
        one.change().number -= amount;
        std::this_thread::yield();
        const std::uint64_t now = other->number;
        EXPECT_EQ(now, one == other ? before - amount : before);
        other.change().number += amount;
        if (random() % 2 == 0) one.change().part = other->part;
        auto& part = cache::change(*one->part);
        part.writer += 1;
        std::this_thread::yield();
        part.next = {};
        part.pair += 1;
        if (random() % 4 == 0) continue;
        tx.commit(cache::commit_mode::lazy);
        ++commits;
      } catch (const error& e) {
        EXPECT_TRUE(e.code() == errc::deadlock || e.code() == errc::cache_full) << e.what();
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  s.check();
  close();
  look([&](store& mapped) {
    std::uint64_t sum = 0;
    for (const auto& o : mapped.root<owners>("owners").all) {
      sum += o->number;
      EXPECT_EQ(o->part->pair, o->part->writer + each);
    }
    EXPECT_EQ(sum, each * count);
    EXPECT_GT(commits.load(), 0u);
  });
}

// [cache.locks.united] A pin gives a pointer without a lock. A commit that stores it would unite groups.
TEST_F(cache_locks, plain_pointers_to_what_others_change) {
  make([](store& s) {
    auto& root = s.root<owners>("owners");
    s.transact([&] {
      root.shared = s.make<account>();
      root.all.push_back(s.make<owner>());
    });
  });
  auto& s = open_locking();
  std::optional<cache::pin<account>> pinned;
  s.read([&] { pinned.emplace(s.root<owners>("owners")->shared); });
  const auto point_to_it = [&] {
    s.root<owners>("owners")->all[0].change().part = const_cast<account*>(pinned->get());
  };
  auto tx = s.begin();
  s.root<owners>("owners")->shared.change().writer = 1;
  std::thread([&] {
    expect_error(errc::cannot_persist, {"part", "another transaction changes"}, [&] { s.transact(point_to_it); });
  }).join();
  tx.abort();
  s.transact(point_to_it);
  s.read([&] { EXPECT_EQ(s.root<owners>("owners")->all[0]->part->writer, 0u); });
  s.check();
  pinned.reset();
  close();
}

// A fault unites two groups, of which this transaction has a lock of one, and another transaction of the other one
// [cache.locks.united].
TEST_F(cache_locks, a_fault_that_unites_what_is_locked) {
  make([](store& s) {
    auto& root = s.root<couples>("couples");
    s.transact([&] {
      auto* const one = s.make<account>();
      auto* const other = s.make<account>();
      root.one = one;
      root.other = other;
      root.both = s.make<couple>(couple{one, other});
    });
  });
  for (const bool writer_unites : {false, true}) {
    auto& s = open_locking();
    auto tx = s.begin();
    s.root<couples>("couples")->other.change().writer = 5;
    if (writer_unites) {
      EXPECT_EQ(s.root<couples>("couples")->both->other->writer, 5u);
    }
    std::atomic<bool> has_read{false};
    std::thread reader([&] {
      s.read([&] {
        const auto root = s.root<couples>("couples");
        if (writer_unites) {
          EXPECT_EQ(root->other->writer, 0u);
        } else {
          EXPECT_EQ(root->one->writer, 0u);
          EXPECT_EQ(root->both->other->writer, 0u);
        }
      });
      has_read = true;
    });
    while (s.stats().lock_waits == 0 && !has_read) std::this_thread::yield();
    tx.abort();
    reader.join();
    EXPECT_EQ(s.stats().lock_waits, 1u);
    close();
  }
}

}  // namespace
