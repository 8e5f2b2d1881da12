// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores in two-phase commits, and transactions over several stores.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>
#include <tenure/transact_all.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/short_memory.hpp"
#include "support/test_store.hpp"
#include "support/watched_disk.hpp"

using namespace tenure;
using namespace tenure::support;

namespace ledger_types {

struct entry {
  std::uint64_t number = 0;
  entry* next = nullptr;
  tenure::string text;
};
struct ledger {
  std::uint64_t commits = 0;
  entry* first = nullptr;
  tenure::vector<std::uint64_t> numbers;
};

}  // namespace ledger_types
using namespace ledger_types;

namespace {

// A store on a disk of its own. Its process, or its machine, may end without the others.
struct party {
  explicit party(std::uint64_t seed) {
    how = small_store();
    how.memory.background = false;
    how.memory.log.size = 256 << 10;
    if (seed % 2 == 0) how.memory.log.size = 64 << 10;
    if (seed % 3 == 0) {
      how.stabilize = stabilization::copying;
      how.collection.roots = program_roots::handles;
    }
  }
  void open(store* coordinator = nullptr) {
    store_options with = how;
    with.memory.disk = watched != nullptr ? static_cast<os::disk*>(watched) : disk.get();
    if (coordinator != nullptr) with.memory.in_doubt = outcomes_of(*coordinator);
    of.emplace(directory, with);
  }
  ledger& book() { return of->root<ledger>("ledger"); }
  void add(std::uint64_t number) {
    ledger& l = book();
    ++l.commits;
    entry* const made = of->make<entry>();
    made->number = number;
    made->next = l.first;
    made->text = std::string(number % 50, 'x');
    l.first = made;
    if (l.numbers.size() > 20) l.numbers.clear();
    l.numbers.push_back(number);
    if (number % 5 == 0 && made->next != nullptr) {
      entry* const gone = made->next;
      made->next = gone->next;
      of->destroy(gone);
    }
  }
  // What is durable is left, or some of what is not.
  void crash(std::uint64_t seed) {
    of.reset();
    disk = disk->crash(seed, seed % 2 == 0 ? sim::policy::random : sim::policy::drop_all);
  }
  // The process ends, and what it does from now on nobody sees.
  void die() {
    auto durable = disk->crash(1, sim::policy::drop_all);
    of.reset();
    disk = std::move(durable);
  }
  void expect_right(std::uint64_t commits) {
    EXPECT_EQ(book().commits, commits);
    EXPECT_EQ(book().numbers.empty() ? 0 : book().numbers.back(), commits);
    expect_sound(*of);
  }

  store_options how;
  std::string directory = "/store";
  std::unique_ptr<sim::disk> disk = std::make_unique<sim::disk>();
  watched_disk* watched = nullptr;
  std::optional<store> of;
};

TEST(prepared_store, commits_and_aborts) {
  party a(1);
  a.open();
  for (const bool commits : {true, false}) {
    transaction tx = a.of->begin();
    a.add(1);
    tx.prepare("global/1");
    expect_error(errc::bad_transaction, {"prepared"}, [&] { (void)a.of->make<entry>(); });
    expect_error(errc::bad_transaction, {"prepared"}, [&] { a.of->destroy(a.book().first); });
    expect_error(errc::bad_transaction, {"prepared"}, [&] { tx.label("late"); });
    expect_error(errc::bad_transaction, {"prepared"}, [&] { (void)a.of->begin(); });
    expect_error(errc::bad_transaction, {"prepared"}, [&] { tx.prepare("global/1"); });
    expect_error(errc::bad_transaction, {"prepared"}, [&] { a.of->remove_root("ledger"); });
    if (commits)
      tx.commit();
    else
      tx.abort();
    a.expect_right(1);
  }
  transaction tx = a.of->begin();
  expect_error(errc::bad_transaction, {"not prepared"}, [&] { tx.leave_in_doubt(); });
  transaction inner = a.of->begin();
  expect_error(errc::bad_transaction, {"inner"}, [&] { inner.prepare("one"); });
  expect_error(errc::bad_transaction, {"inner"}, [&] { tx.prepare("one"); });
  inner.abort();
  a.add(2);
  tx.prepare("two");
  tx.leave_in_doubt();
  EXPECT_EQ(a.book().commits, 1u);
  expect_error(errc::in_doubt, {"open it again"}, [&] { (void)a.of->begin(); });
  a.of.reset();
  expect_error(errc::in_doubt, {"two", "tenure resolve"}, [&] { a.open(); });
  store_options with = a.how;
  with.memory.disk = a.disk.get();
  with.mode = rvm::open_mode::read_only;
  a.of.emplace("/store", with);
  ASSERT_TRUE(a.of->in_doubt());
  EXPECT_EQ(a.of->in_doubt()->global_id, "two");
  EXPECT_EQ(a.of->find_root<ledger>("ledger")->commits, 1u);
  a.of.reset();
  with.mode = rvm::open_mode::open;
  with.memory.in_doubt = [](const rvm::prepared_transaction&) { return rvm::outcome::committed; };
  a.of.emplace("/store", with);
  a.expect_right(2);
}

TEST(prepared_store, needs_a_log_of_four_times_its_bytes) {
  party a(1);
  a.how.memory.log.size = a.how.memory.log.max_size = 1 << 20;
  a.open();
  constexpr std::size_t most = (std::size_t{1} << 20) / sizeof(std::uint64_t);
  a.of->transact([&] { a.book().numbers.resize(most / 2, 1); });
  const auto prepare = [&](std::size_t bytes) {
    transaction tx = a.of->begin();
    for (std::size_t n = 0; n < bytes / sizeof(std::uint64_t); ++n) ++a.book().numbers[n];
    tx.prepare("somebody else decides");
    tx.commit();
  };
  prepare(240'000);
  EXPECT_THROW(prepare(270'000), error);
  a.of->transact([&] {
    for (auto& each : a.book().numbers) ++each;
  });
}

TEST(prepared_store, is_closed_in_doubt) {
  party a(1);
  a.open();
  transaction tx = a.of->begin();
  a.add(1);
  tx.prepare("somebody else decides");
  tx.leave_in_doubt();
  expect_error(errc::in_doubt, {"open it again"}, [&] { a.of->close(); });
  a.of->close();
}

TEST(prepared_store, goes_on_with_nothing_but_its_outcome) {
  party a(1);
  a.open();
  a.of->transact([&] { a.add(1); });
  transaction tx = a.of->begin();
  a.add(2);
  tx.prepare("somebody else decides");
  expect_error(errc::bad_transaction, {"prepared"}, [&] { (void)tx.checkpoint(); });
  expect_error(errc::bad_transaction, {"prepared"}, [&] { (void)tx.chain(); });
  tx.abort();
  a.expect_right(1);
}

TEST(transact_all, commits_in_all_or_none) {
  party a(1), b(2), c(3);
  a.open();
  b.open();
  c.open();
  const auto add = [&](std::uint64_t number) {
    a.add(number);
    b.add(number);
    c.add(number);
  };
  for (std::uint64_t n = 1; n <= 6; ++n) {
    transact_all(*a.of, *b.of, *c.of, [&] { add(n); });
    EXPECT_THROW(transact_all(*a.of, *b.of, *c.of,
                              [&] {
                                add(n + 1);
                                throw std::runtime_error("no");
                              }),
                 std::runtime_error);
    // One of them cannot: after others were prepared, or as the coordinator.
    entry outside;
    for (party* const cannot : {&a, &c})
      expect_error(errc::cannot_persist, {}, [&] {
        transact_all(*a.of, *b.of, *c.of, [&] {
          add(n + 1);
          cannot->book().first->next = &outside;
        });
      });
    for (party* const each : {&a, &b, &c}) each->expect_right(n);
  }
  a.of->transact([&] { a.add(7); });  // each for itself
  expect_error(errc::bad_option, {"twice"}, [&] { transact_all(*a.of, *b.of, *a.of, [] {}); });
  a.of->transact(
      [&] { expect_error(errc::bad_transaction, {"end it first"}, [&] { transact_all(*b.of, *a.of, [] {}); }); });
  for (party* const each : {&a, &b, &c}) each->die();
  a.open();
  b.open(&*a.of);
  c.open(&*a.of);
  a.expect_right(7);
  b.expect_right(6);
  c.expect_right(6);
}

TEST(transact_all, coordinators_may_be_moved_and_not_closed) {
  party a(1), b(2);
  a.open();
  const auto ask = outcomes_of(*a.of);
  rvm::prepared_transaction somebodys;
  somebodys.global_id = "of somebody else";
  expect_error(errc::in_doubt, {"does not coordinate"}, [&] { (void)ask(somebodys); });
  std::optional<store> moved(std::move(*a.of));
  expect_error(errc::in_doubt, {"does not coordinate"}, [&] { (void)ask(somebodys); });
  moved->close();
  expect_error(errc::in_doubt, {"not open any more"}, [&] { (void)ask(somebodys); });
  expect_error(errc::closed, {}, [&] { (void)outcomes_of(*moved); });
  moved.reset();
  expect_error(errc::in_doubt, {"not open any more"}, [&] { (void)ask(somebodys); });
  a.open();
}

// A coordinator of others knows nothing of it.
TEST(transact_all, asks_the_right_coordinator) {
  party a(1), b(2), other(3);
  a.open();
  b.open();
  other.open();
  transaction tx = b.of->begin();
  b.add(1);
  tx.prepare("of somebody else");
  b.die();
  expect_error(errc::in_doubt, {"of somebody else", "does not coordinate"}, [&] { b.open(&*a.of); });
  store_options with = b.how;
  with.memory.disk = b.disk.get();
  with.memory.in_doubt = [](const rvm::prepared_transaction&) { return rvm::outcome::aborted; };
  b.of.emplace("/store", with);
  b.expect_right(0);
  // The process ends between the phases.
  a.disk->crash_at(a.disk->operations() + 1);
  EXPECT_THROW(transact_all(*a.of, *b.of,
                            [&] {
                              a.add(1);
                              b.add(1);
                            }),
               sim::power_failure);
}

// Its last commit was lazy, and the coordinator's number of it is that of the next transaction already.
TEST(transact_all, a_participant_without_changes) {
  party a(1), b(2);
  a.open();
  b.open();
  for (std::uint64_t n = 1; n <= 3; ++n) {
    transact_all(*a.of, *b.of, [&] {
      a.add(2 * n - 1);
      b.add(n);
    });
    transact_all(*a.of, *b.of, [&] { a.add(2 * n); });
    b.die();
    b.open(&*a.of);
    a.expect_right(2 * n);
    b.expect_right(n);
  }
}

// The coordinator's own stores are among those that are announced.
TEST(transact_all, stores_whose_program_announces_its_writes) {
  party a(1), b(2);
  a.how.barriers = b.how.barriers = rvm::write_barriers::checking;
  a.open();
  b.open();
  for (std::uint64_t n = 1; n <= 5; ++n)
    transact_all(*a.of, *b.of, [&] {
      a.book().numbers.push_back(n);
      b.book().numbers.push_back(n);
    });
  EXPECT_EQ(a.of->stats().memory.tracking.unseen_stores, 0U);
}

// [heap.prepared.order] The machine of both loses its power when the second one decides.
TEST(transact_all, coordinators_of_each_other) {
  int interrupted = 0;
  for (std::uint64_t off = 1; off <= 8; ++off) {
    party a(1), b(2);
    a.open();
    b.open();
    const auto add = [&](std::uint64_t number) {
      a.add(number);
      b.add(number);
    };
    transact_all(*a.of, *b.of, [&] { add(1); });
    b.disk->crash_at(b.disk->operations() + off);
    try {
      transact_all(*b.of, *a.of, [&] { add(2); });
    } catch (const sim::power_failure&) {
      ++interrupted;
    }
    a.die();
    b.die();
    party* first = &b;
    try {
      b.open();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::in_doubt) << e.what();
      first = &a;
      a.open();
    }
    (first == &a ? b : a).open(&*first->of);
    const std::uint64_t commits = a.book().commits;
    a.expect_right(commits);
    b.expect_right(commits);
  }
  EXPECT_GE(interrupted, 2);
}

TEST(transact_all, what_is_decided_is_committed_where_it_can_be) {
  party a(1), b(2), c(4);
  b.how.tune.bulk = 0;  // its commit writes to the database at once
  a.open();
  b.open();
  c.open();
  const auto add = [&](std::uint64_t number) {
    for (party* const each : {&a, &b, &c}) each->add(number);
  };
  transact_all(*a.of, *b.of, *c.of, [&] { add(1); });
  b.disk->inject({.kind = sim::operation::write, .path = ".db", .error = ENOSPC});
  expect_error(errc::outcome_unknown, {"/store", "is committed", "in doubt here", "No space"}, [&] {
    transact_all(*a.of, *b.of, *c.of, [&] {
      add(2);
      b.book().first->text = std::string(100000, 'b');
    });
  });
  a.expect_right(2);
  c.expect_right(2);
  expect_error(errc::in_doubt, {"open it again"}, [&] { (void)b.of->begin(); });
  b.of.reset();
  b.open(&*a.of);
  transact_all(*a.of, *b.of, *c.of, [&] { add(3); });
  for (party* const each : {&a, &b, &c}) each->expect_right(3);
}

// Nobody aborts what is decided, and nobody commits what was not.
TEST(transact_all, in_short_memory_commits_in_all_or_none) {
  std::uint64_t in_doubt = 0, refused = 0;
  for (const long long most : {1LL, 2LL, 3LL, 1'000'000'000LL}) {
    bool has_failed = true;
    for (long long allocations = 0; has_failed && allocations < 80; ++allocations) {
      SCOPED_TRACE(std::to_string(allocations) + ", then " + std::to_string(most) + " fail");
      std::array<party, 3> all{party(1), party(5), party(7)};
      watched_disk watched(*all[0].disk);
      all[0].watched = &watched;
      for (party& each : all) each.directory = "/a-store-with-a-long-name";  // no short string has room for it
      const auto open = [&] {
        all[0].open();
        for (std::size_t n = 1; n < all.size(); ++n) all[n].open(&*all[0].of);
      };
      open();
      const auto add = [&](std::uint64_t number) {
        transact_all(*all[0].of, *all[1].of, *all[2].of, [&] {
          for (party& each : all) each.add(number);
        });
      };
      add(1);
      std::uint64_t decided = 2;
      // From the moment on at which the coordinator decides.
      watched.in_durable_write = [&](const std::string&) {
        succeeding = allocations;
        failing = most;
      };
      try {
        add(2);
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::outcome_unknown) << e.what();
        decided = 0;
        ++in_doubt;
      } catch (const std::bad_alloc&) {
        decided = 1;
        ++refused;
      }
      has_failed = failing != most;
      short_memory::end();
      watched.in_durable_write = {};
      for (party& each : all) each.of.reset();
      open();
      if (decided == 0) decided = all[0].book().commits;
      for (party& each : all) each.expect_right(decided);
      for (party& each : all) each.of.reset();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(in_doubt, 20u);
  std::printf("%lu in doubt, %lu refused\n", in_doubt, refused);
}

TEST(transact_all, older_copies) {
  party a(1), b(2);
  a.open();
  b.open();
  const auto add = [&](std::uint64_t number) {
    a.add(number);
    b.add(number);
  };
  transact_all(*a.of, *b.of, [&] { add(1); });
  auto first_a = a.disk->crash(1, sim::policy::drop_all), first_b = b.disk->crash(1, sim::policy::drop_all);
  transact_all(*a.of, *b.of, [&] { add(2); });
  transact_all(*a.of, *b.of, [&] { add(3); });
  a.die();
  b.die();
  std::swap(a.disk, first_a);
  a.open();
  expect_error(errc::in_doubt, {"this store is an older copy", "tenure resolve"}, [&] { b.open(&*a.of); });
  a.of.reset();
  std::swap(a.disk, first_a);
  a.open();
  std::swap(b.disk, first_b);
  expect_error(errc::in_doubt, {"an older copy of the participant", "tenure resolve"}, [&] { b.open(&*a.of); });
  std::swap(b.disk, first_b);
  b.open(&*a.of);
  b.expect_right(3);
}

TEST(transact_all, waits_for_the_disk_as_often_as_it_says) {
  party a(1), b(2);
  a.how.memory.log.size = b.how.memory.log.size = 4 << 20;  // nothing is truncated meanwhile
  a.open();
  b.open();
  const auto change = [&] {
    ++a.book().commits;
    ++b.book().commits;
  };
  for (int n = 0; n < 3; ++n) transact_all(*a.of, *b.of, change);  // files are made, and logs noted as in use
  const auto count = [](party& of) {
    const auto& all = of.disk->trace();
    return std::ranges::count_if(all, [](const sim::trace_entry& e) {
      return e.kind == sim::operation::sync || e.kind == sim::operation::durable_write ||
             e.kind == sim::operation::sync_directory;
    });
  };
  a.disk->record_trace(true);
  b.disk->record_trace(true);
  transact_all(*a.of, *b.of, change);
  EXPECT_EQ(count(a), 1);
  EXPECT_EQ(count(b), 1);
}

TEST(transact_all, threads_take_turns) {
  party a(1), b(2);
  a.open();
  b.open();
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> next{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      store &first = t % 2 == 0 ? *a.of : *b.of, &second = t % 2 == 0 ? *b.of : *a.of;
      for (int n = 0; n < 25; ++n)
        transact_all(first, second, [&] {
          const std::uint64_t number = ++next;
          a.add(number);
          b.add(number);
        });
    });
  for (auto& t : threads) t.join();
  a.expect_right(100);
  b.expect_right(100);
}

// [heap.prepared.outcomes] The power of one machine goes, of another, or of all.
TEST(transact_all, a_crash_anywhere_leaves_all_or_none) {
  std::uint64_t in_doubt = 0, interrupted = 0;
  for (std::uint64_t seed = 1; seed <= rvm::testing::scaled(120); ++seed) {
    rvm::testing::random_source random(seed);
    std::array<party, 3> all{party(seed), party(seed + 1), party(seed + 2)};
    all[0].open();
    for (std::size_t n = 1; n < all.size(); ++n) all[n].open(&*all[0].of);
    std::uint64_t acknowledged = 0;
    for (int round = 0; round < 6; ++round) {
      const std::uint64_t which = random.below(4);  // 3: all at once
      for (std::size_t n = 0; n < all.size(); ++n)
        if (n == which || which == 3) all[n].disk->crash_at(all[n].disk->operations() + 1 + random.below(12));
      std::uint64_t number = acknowledged;
      try {
        while (true) {
          ++number;
          transact_all(*all[0].of, *all[1].of, *all[2].of, [&] {
            for (party& each : all) each.add(number);
          });
          acknowledged = number;
        }
      } catch (const sim::power_failure&) {
      } catch (const error& e) {  // of a store that has noticed before
        EXPECT_TRUE(e.code() == errc::outcome_unknown || e.code() == errc::in_doubt) << e.what();
      }
      ++interrupted;
      // Whoever has not died goes on, or is closed.
      for (party& each : all) each.crash(random.below(1000));
      all[0].open();
      const std::uint64_t decided = all[0].book().commits;
      EXPECT_TRUE(decided == acknowledged || decided == acknowledged + 1) << decided << " of " << acknowledged;
      for (std::size_t n = 1; n < all.size(); ++n) {
        store_options with = all[n].how;
        with.memory.disk = all[n].disk.get();
        with.memory.in_doubt = [&](const rvm::prepared_transaction& what) {
          ++in_doubt;
          return outcomes_of(*all[0].of)(what);
        };
        all[n].of.emplace("/store", with);
        all[n].expect_right(decided);
      }
      all[0].expect_right(decided);
      acknowledged = decided;
      if (HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", round " << round << ", crash of " << which;
        return;
      }
    }
  }
  EXPECT_GT(in_doubt, interrupted / 10);
  std::printf("%lu of %lu were in doubt\n", in_doubt, interrupted);
}

}  // namespace
