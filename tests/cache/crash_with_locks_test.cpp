// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Several transactions change objects of a cache at once, with object locks, on a disk that loses power. What the object heap
// finds afterwards is what some of them have committed, all of each and in their order, and at least those that were
// acknowledged as durable [cache.commit.atomic].
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/cached_graph.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace crash_with_locks_types {

struct ledger {
  std::uint64_t writer;  // the transaction that wrote it last
  char text[80];         // of it
};
struct made_node {
  std::uint64_t number;
  ref<made_node> next;
};
struct thread_of_program {
  std::uint64_t transactions;
  ref<made_node> made;  // a list, as long as `length`
  std::uint64_t length;
};
struct bank {
  tenure::vector<ref<ledger>> ledgers;
  tenure::vector<ref<thread_of_program>> threads;
};

}  // namespace crash_with_locks_types
using namespace crash_with_locks_types;

namespace {

constexpr std::uint64_t thread_count = 3, ledger_count = 24;

// The numbers of transactions are those of their threads: a thread's come one after the other.
[[nodiscard]] std::uint64_t number_of(std::uint64_t thread, std::uint64_t nth) { return nth * thread_count + thread; }

class shared_bank {
 public:
  explicit shared_bank(std::uint64_t seed) : seed_(seed) {
    how_.create.reservation = std::uint64_t{1} << 28;
    how_.create.home = next_home(how_.create.reservation);
    how_.memory.log.size = 64 << 10;
    how_.memory.log.max_size = seed % 3 == 0 ? 64 << 10 : 1 << 20;
    how_.memory.background = seed % 2 == 0;
    how_.tune.typed_from = seed % 2 == 0 ? 0 : how_.tune.typed_from;
    how_.memory.disk = &made_;
    store s("/store", how_);
    auto& root = s.root<bank>("bank");
    s.transact([&] {
      for (std::uint64_t n = 0; n < ledger_count; ++n) root.ledgers.push_back(s.make<ledger>());
      for (std::uint64_t n = 0; n < thread_count; ++n) root.threads.push_back(s.make<thread_of_program>());
    });
    s.close();
    made_.record_trace(false);
  }
  [[nodiscard]] std::unique_ptr<sim::disk> disk() const { return made_.crash(1, sim::policy::keep_all); }

  // All threads commit until they have done so often, or the power is lost. Returns whether it was.
  bool run(sim::disk& disk, std::uint64_t each) {
    std::atomic<bool> is_lost = false;
    wrote_.clear();
    acknowledged_ = {};
    errors_.clear();
    cache::options how;
    how.pool_pages = 1 + seed_ % 4;
    how.object_bytes = seed_ % 3 == 0 ? 6'000 : 64 << 10;
    how.transactions = cache::concurrency::object_locks;
    how.memory = how_.memory;
    how.memory.disk = &disk;
    cache::store s("/store", how);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < thread_count; ++t)
      threads.emplace_back([&, t] {
        try {
          commit_often(s, t, each);
        } catch (const sim::power_failure&) {
          is_lost = true;
        } catch (const error& e) {  // of a log that cannot be written any more
          const std::scoped_lock lock(mutex_);
          errors_.emplace_back(e.what());
        }
      });
    for (auto& t : threads) t.join();
    if (!is_lost) {
      for (const std::string& each_error : errors_) ADD_FAILURE() << each_error;
      try {
        s.close();
      } catch (const sim::power_failure&) {
        is_lost = true;
      }
    }
    return is_lost;
  }

  void expect_what_was_committed(sim::disk& disk) {
    how_.memory.disk = &disk;
    store s("/store", how_);
    for (const auto& wrong : s.verify()) ADD_FAILURE() << wrong;
    const auto& root = s.root<bank>("bank");
    const auto is_there = [&](std::uint64_t number) {
      return number / thread_count <= root.threads[number % thread_count]->transactions;
    };
    for (std::uint64_t t = 0; t < thread_count; ++t) {
      const thread_of_program& at = *root.threads[t];
      EXPECT_GE(at.transactions, acknowledged_[t]) << "of thread " << t;
      std::uint64_t length = 0;
      for (const made_node* n = at.made.get(); n != nullptr; n = n->next.get(), ++length)
        EXPECT_EQ(n->number, at.length - length) << "in the list of thread " << t;
      EXPECT_EQ(length, at.length);
      const auto last = wrote_.find(number_of(t, at.transactions));
      EXPECT_TRUE(at.transactions == 0 || (last != wrote_.end() && last->second.length == at.length));
    }
    // The transactions that wrote a ledger, one after the other, up to the last one that is there. Several that saw the same
    // value tried to commit when the power had gone: one of them may be there.
    std::multimap<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> by;  // (ledger, whose value it saw)
    for (const auto& [number, what] : wrote_)
      for (const auto& [which, saw] : what.ledgers) by.emplace(std::pair(which, saw), number);
    for (std::uint64_t n = 0; n < ledger_count; ++n) {
      std::uint64_t last = 0, there = 0;
      for (bool goes_on = true; goes_on;) {
        goes_on = false;
        const auto [from, to] = by.equal_range({n, last});
        for (auto next = from; next != to; ++next)
          if (is_there(next->second)) {
            EXPECT_FALSE(goes_on) << "ledger " << n << ": two have overwritten what " << next->first.second << " wrote";
            last = next->second;
            goes_on = true;
            ++there;
          }
      }
      EXPECT_EQ(root.ledgers[n]->writer, last) << "ledger " << n;
      for (const char byte : root.ledgers[n]->text) EXPECT_EQ(byte, static_cast<char>(last));
      for (const auto& [at, number] : by)
        if (at.first == n && is_there(number)) --there;
      EXPECT_EQ(there, 0U) << "ledger " << n << " lacks what some transactions wrote that are there";
    }
    s.close();
  }

 private:
  struct written {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ledgers;  // and whose value each had
    std::uint64_t length;
  };

  void commit_often(cache::store& s, std::uint64_t thread, std::uint64_t times) {
    std::mt19937_64 random(seed_ * thread_count + thread);
    for (std::uint64_t nth = 1; nth <= times;) try {
        if (commit(s, thread, nth, random)) ++nth;
      } catch (const error& e) {
        if (e.code() != errc::deadlock && e.code() != errc::cache_full) throw;
      }
  }
  bool commit(cache::store& s, std::uint64_t thread, std::uint64_t nth, std::mt19937_64& random) {
    const std::uint64_t number = number_of(thread, nth);
    auto tx = s.begin();
    written what{};
    std::set<std::uint64_t> chosen;
    while (chosen.size() < 1 + random() % 4) chosen.insert(random() % ledger_count);
    const auto root = s.root<bank>("bank");
    for (const std::uint64_t n : chosen) {
      const ref<ledger> at = root->ledgers[n];
      what.ledgers.emplace_back(n, at->writer);
      std::this_thread::yield();
      ledger& changed = at.change();
      changed.writer = number;
      std::fill(std::begin(changed.text), std::end(changed.text), static_cast<char>(number));
    }
    auto& own = root->threads[thread].change();
    own.transactions = nth;
    if (random() % 3 == 0) {
      own.made = s.make<made_node>(own.length + 1, own.made);
      ++own.length;
    } else if (own.made && random() % 3 == 0) {
      const ref<made_node> gone = own.made;
      own.made = gone->next;
      --own.length;
      s.destroy(gone);
    }
    what.length = own.length;
    if (random() % 6 == 0) {
      tx.abort();
      return false;
    }
    {  // before the locks are gone
      const std::scoped_lock lock(mutex_);
      wrote_[number] = what;
    }
    const bool durable = random() % 4 == 0;
    tx.commit(durable ? cache::commit_mode::durable : cache::commit_mode::lazy);
    if (durable) acknowledged_[thread] = nth;
    return true;
  }

  const std::uint64_t seed_;
  sim::disk made_;
  store_options how_;
  std::mutex mutex_;
  std::map<std::uint64_t, written> wrote_;
  std::array<std::uint64_t, thread_count> acknowledged_{};
  std::vector<std::string> errors_;
};

TEST(cache_crash_with_locks, of_several_transactions_at_once) {
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= rvm::testing::scaled(12); ++seed) {
    shared_bank work(seed);
    const auto whole = work.disk();
    ASSERT_FALSE(work.run(*whole, 25));
    work.expect_what_was_committed(*whole);
    const std::uint64_t operations = whole->operations();
    std::mt19937_64 random(seed);
    for (int n = 0; n < 10; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", crash " + std::to_string(n));
      const auto disk = work.disk();
      disk->crash_at(1 + random() % operations);
      try {
        crashes += work.run(*disk, 25);
      } catch (const sim::power_failure&) {  // while it was opened
      }
      for (const sim::policy what : {sim::policy::random, sim::policy::drop_all, sim::policy::keep_all}) {
        const auto left = disk->crash(seed + static_cast<std::uint64_t>(n), what);
        work.expect_what_was_committed(*left);
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(crashes, 0u);
}

}  // namespace
