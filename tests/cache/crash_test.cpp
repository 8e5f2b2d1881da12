// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects are changed in a cache on a disk that loses power at every operation, or that fails. What the object heap finds
// afterwards must be exactly one committed state, not older than the last one that was acknowledged as durable, and the
// verifier must find nothing [cache.commit.atomic].
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/cached_graph.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_crash_types {

struct cell {
  std::uint64_t value;
  ref<cell> next;
  char text[120];
};
struct cells {
  std::uint64_t commits;
  tenure::vector<ref<cell>> all;
};

}  // namespace cache_crash_types
using namespace cache_crash_types;

namespace {

class cache_workload {
 public:
  static constexpr std::size_t count = 120;

  explicit cache_workload(std::uint64_t seed) : seed_(seed) {
    how_.create.reservation = std::uint64_t{1} << 28;
    how_.create.home = next_home(how_.create.reservation);
    how_.memory.log.size = 64 << 10;
    how_.memory.log.max_size = 64 << 10;
    how_.memory.background = false;
    how_.tune.typed_from = seed % 2 == 0 ? 0 : how_.tune.typed_from;
    how_.memory.disk = made_.get();
    store s("/store", how_);
    auto& root = s.root<cells>("cells");
    s.transact([&] {
      for (std::size_t n = 0; n < count; ++n) root.all.push_back(s.make<cell>());
      for (std::size_t n = 0; n < count; ++n) root.all[n].change().next = root.all[(n + 1) % count];
    });
    note(s, root, true);
    s.close();
    made_->record_trace(false);
  }
  // The store as it was made.
  [[nodiscard]] std::unique_ptr<sim::disk> disk() const { return made_->crash(1, sim::policy::keep_all); }
  void begin_again() {
    const auto first = history_.at(0);
    history_ = {{0, first}};
    acknowledged_ = 0;
  }

  void run(sim::disk& disk, int steps) {
    cache::options how;
    how.pool_pages = 1 + seed_ % 5;
    how.object_bytes = 24 << 10;
    how.memory = how_.memory;
    how.memory.disk = &disk;
    cache::store s("/store", how);
    std::mt19937_64 random(seed_ + history_.size());
    for (int i = 0; i < steps; ++i) step(s, random);
    if (random() % 2 == 0) s.close();
  }

  void expect_a_committed_state(sim::disk& disk) {
    how_.memory.disk = &disk;
    store s("/store", how_);
    for (const auto& wrong : s.verify()) ADD_FAILURE() << wrong;
    const auto& root = s.root<cells>("cells");
    const auto at = history_.find(root.commits);
    ASSERT_NE(at, history_.end()) << "commit " << root.commits << " was never made";
    EXPECT_EQ(snapshot(s, root), at->second) << "after commit " << root.commits;
    EXPECT_GE(root.commits, acknowledged_);
    s.close();
  }

 private:
  static constexpr std::uint64_t named = 12;  // roots that lead to cells
  static std::string name_of(std::uint64_t n) { return "root " + std::string(n, 'x') + std::to_string(n); }
  static std::vector<std::uint64_t> snapshot(store& s, const cells& root) {
    std::vector<std::uint64_t> out;
    std::map<std::uint64_t, std::uint64_t> number;
    for (const auto& c : root.all) number.emplace(c.home(), number.size());
    for (const auto& c : root.all) {
      out.push_back(c->value);
      out.push_back(number.at(c->next.home()));
      for (const char byte : c->text) EXPECT_EQ(byte, static_cast<char>(c->value));
    }
    for (std::uint64_t n = 0; n < named; ++n) {
      cell* const at = s.find_root<cell>(name_of(n));
      out.push_back(at != nullptr ? number.at(reinterpret_cast<std::uintptr_t>(at)) : count);
    }
    return out;
  }
  void note(store& s, const cells& root, bool durable) {
    history_[root.commits] = snapshot(s, root);
    if (durable) acknowledged_ = root.commits;
  }

  void step(cache::store& s, std::mt19937_64& random) {
    auto tx = s.begin();
    const auto root = s.root<cells>("cells");
    const cache::pin kept(root);
    for (std::uint64_t i = random() % 12; i != 0; --i) {
      const ref<cell> c = root->all[random() % count];
      auto& changed = c.change();
      changed.value = random();
      for (char& byte : changed.text) byte = static_cast<char>(changed.value);
      if (random() % 3 == 0) changed.next = root->all[random() % count];
      tx.release();
    }
    for (std::uint64_t i = random() % 3; i != 0; --i) {
      const std::string name = name_of(random() % named);
      if (random() % 2 == 0)
        s.set_root(name, root->all[random() % count]);
      else if (s.find_root<cell>(name))
        s.remove_root(name);
    }
    root.change().commits += 1;
    const std::uint64_t number = root->commits;
    if (random() % 5 == 0) return tx.abort();
    // What will be seen if the commit is. All cells are looked at, beside those that stay.
    history_[number] = expected(s, *root, tx);
    const bool durable = random() % 3 == 0;
    tx.commit(durable ? cache::commit_mode::durable : cache::commit_mode::lazy);
    if (durable) acknowledged_ = number;
  }
  static std::vector<std::uint64_t> expected(cache::store& s, const cells& root, cache::transaction& tx) {
    std::vector<std::uint64_t> out;
    std::map<std::uint64_t, std::uint64_t> number;
    for (const auto& c : root.all) number.emplace(c.home(), number.size());
    for (const auto& c : root.all) {
      out.push_back(c->value);
      out.push_back(number.at(c->next.home()));
      tx.release();
    }
    for (std::uint64_t n = 0; n < named; ++n) {
      const ref<cell> at = s.find_root<cell>(name_of(n));
      out.push_back(at ? number.at(at.home()) : count);
    }
    return out;
  }

  const std::uint64_t seed_;
  std::unique_ptr<sim::disk> made_ = std::make_unique<sim::disk>();
  store_options how_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> history_;
  std::uint64_t acknowledged_ = 0;
};

void crash_everywhere(std::uint64_t seed, int steps, std::uint64_t stride) {
  cache_workload work(seed);
  const auto whole = work.disk();
  work.run(*whole, steps);
  work.expect_a_committed_state(*whole);
  const std::uint64_t operations = whole->operations();
  ASSERT_GT(operations, 30u);
  for (std::uint64_t at = 1 + seed % stride; at <= operations; at += stride)
    for (const sim::policy what : {sim::policy::random, sim::policy::drop_all}) {
      work.begin_again();
      const auto disk = work.disk();
      disk->crash_at(at);
      try {
        work.run(*disk, steps);
      } catch (const sim::power_failure&) {
      }
      const auto left = disk->crash(seed + at, what);
      work.expect_a_committed_state(*left);
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", power lost at operation " << at;
        return;
      }
    }
}

TEST(cache_crash, at_every_operation) { crash_everywhere(1, 40, 2); }

TEST(cache_crash, with_other_seeds) {
  for (std::uint64_t seed = 100; seed < 100 + rvm::testing::scaled(4); ++seed) crash_everywhere(seed, 60, 11);
}

TEST(cache_crash, after_a_crash_work_goes_on) {
  cache_workload work(7);
  auto disk = work.disk();
  for (std::uint64_t round = 1; round <= 12; ++round) {
    disk->crash_at(5 + 9 * round);
    try {
      work.run(*disk, 40);
    } catch (const sim::power_failure&) {
    }
    disk = disk->crash(round);
    work.expect_a_committed_state(*disk);
    if (HasFailure()) return;
    disk = disk->crash(round, sim::policy::keep_all);
  }
}

// A write or a sync fails, once or for ever: a commit throws, or nobody sees it, and nothing is half done.
TEST(cache_faults, leave_a_committed_state) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= rvm::testing::scaled(40); ++seed) {
    cache_workload work(seed);
    const auto disk = work.disk();
    const bool reads = seed % 4 == 0;
    disk->inject({.kind = reads           ? sim::operation::read
                          : seed % 2 == 0 ? sim::operation::sync
                                          : sim::operation::write,
                  .nth = 1 + seed % 23,
                  .count = seed % 3 == 0 ? sim::for_ever : 1});
    try {
      work.run(*disk, 40);
    } catch (const error& e) {
      ++failed;
    }
    disk->clear_faults();
    const auto left = disk->crash(seed, seed % 2 == 0 ? sim::policy::random : sim::policy::keep_all);
    work.expect_a_committed_state(*left);
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  EXPECT_GT(failed, 0u);
}

}  // namespace
