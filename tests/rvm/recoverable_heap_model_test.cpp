// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The recoverable heap against a model: random histories of interleaved transactions, a crash at every operation of the
// disk, and threads.
#include <tenure/recoverable_heap.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "rvm/heap_test_support.hpp"

namespace tenure::rvm {
namespace {

struct model_object {
  std::size_t bytes;
  std::uint32_t tag;  // of its contents
};
using model_state = std::map<std::uint64_t, model_object>;  // by offset in the region

// --- Random histories ---

class history {
 public:
  history(std::uint64_t seed, bool checking) : random_(seed) {
    how_ = heap_world::quiet();
    how_.tune.check_undeclared = checking;
    open_world();
  }

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      step();
      if (i % 64 == 0) verify();
    }
    while (!open_.empty()) finish(open_.size() - 1, true);
    free_everything();
  }

 private:
  struct open_transaction {
    transaction tx;
    model_state allocated;
    std::set<std::uint64_t> freed;      // of the committed ones
    std::set<std::uint64_t> cancelled;  // of its own
  };

  std::uint64_t pick(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }
  recoverable_heap& heap() { return *world_->heap; }

  void open_world() {
    world_.reset();
    world_ = std::make_unique<heap_world>(disk_, length, how_);
  }

  void step() {
    const std::uint64_t what = pick(100);
    if (open_.empty() || (what < 5 && open_.size() < 6))
      open_.push_back({world_->memory.begin(), {}, {}, {}});
    else if (what < 50)
      allocate(open_[pick(open_.size())]);
    else if (what < 80)
      deallocate(open_[pick(open_.size())]);
    else if (what < 84)
      free_wrongly(open_[pick(open_.size())]);
    else if (what < 96)
      finish(pick(open_.size()), what < 92);
    else if (what == 96 && pick(4) == 0)
      reopen();
  }

  void allocate(open_transaction& in) {
    const std::uint64_t kind = pick(100);
    const std::size_t bytes = 1 + (kind < 70 ? pick(200) : kind < 95 ? pick(9000) : pick(120000));
    const std::size_t alignment = std::size_t{1} << (pick(8) == 0 ? pick(13) : pick(5));
    std::byte* p = nullptr;
    try {
      p = static_cast<std::byte*>(heap().allocate(in.tx, bytes, alignment));
    } catch (const error& e) {
      ASSERT_EQ(e.code(), make_error_code(errc::out_of_memory)) << e.what();
      return;
    }
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    const std::uint64_t offset = world_->offset(p);
    // No byte of it is anybody else's, not even of what is being freed or was given up by its own transaction.
    const auto after = used_.upper_bound(offset);
    ASSERT_TRUE(after == used_.end() || after->first >= offset + bytes) << "aliases the object at " << after->first;
    ASSERT_TRUE(after == used_.begin() || std::prev(after)->second <= offset)
        << "aliases the object at " << std::prev(after)->first;
    used_.emplace(offset, offset + bytes);
    fill(p, bytes, ++last_tag_);
    in.allocated.emplace(offset, model_object{bytes, last_tag_});
  }

  void deallocate(open_transaction& in) {
    if (pick(4) == 0 && !in.allocated.empty()) {
      const auto own = std::next(in.allocated.begin(), static_cast<std::ptrdiff_t>(pick(in.allocated.size())));
      heap().deallocate(in.tx, world_->at(own->first));
      in.cancelled.insert(own->first);
      in.allocated.erase(own);
    } else if (!committed_.empty()) {
      const auto any = std::next(committed_.begin(), static_cast<std::ptrdiff_t>(pick(committed_.size())));
      if (is_being_freed(any->first)) return;
      heap().deallocate(in.tx, world_->at(any->first));
      in.freed.insert(any->first);
    }
  }

  void free_wrongly(open_transaction& in) {
    std::uint64_t wrong = pick(length);
    if (pick(2) == 0 && !in.freed.empty()) wrong = *in.freed.begin();
    if (pick(3) == 0 && !in.cancelled.empty()) wrong = *in.cancelled.rbegin();
    if (pick(3) == 0 && !open_.front().allocated.empty() && &in != &open_.front())
      wrong = open_.front().allocated.begin()->first;
    if ((committed_.contains(wrong) && !is_being_freed(wrong)) || in.allocated.contains(wrong)) return;
    try {
      heap().deallocate(in.tx, world_->at(wrong));
      FAIL() << "the object at " << wrong << " could be freed";
    } catch (const error& e) {
      ASSERT_EQ(e.code(), make_error_code(errc::bad_free)) << e.what();
    }
  }

  [[nodiscard]] bool is_being_freed(std::uint64_t offset) const {
    return std::ranges::any_of(open_, [&](const open_transaction& t) { return t.freed.contains(offset); });
  }

  void finish(std::size_t index, bool commit) {
    open_transaction ending = std::move(open_[index]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    if (commit) {
      ending.tx.commit(pick(2) == 0 ? commit_mode::flush : commit_mode::no_flush);
      for (const auto offset : ending.freed) committed_.erase(offset), used_.erase(offset);
      for (const auto& [offset, object] : ending.allocated) committed_.emplace(offset, object);
    } else {
      ending.tx.abort();
      for (const auto& [offset, object] : ending.allocated) used_.erase(offset);
    }
    for (const auto offset : ending.cancelled) used_.erase(offset);
  }

  void reopen() {
    while (!open_.empty()) finish(open_.size() - 1, pick(2) == 0);
    world_->memory.close();
    open_world();
    verify();
  }

  void verify() {
    heap().check();
    model_state found;
    heap().for_each_object([&](void* p, std::size_t room) { found.emplace(world_->offset(p), model_object{room, 0}); });
    ASSERT_EQ(found.size(), committed_.size());
    for (const auto& [offset, object] : committed_) {
      ASSERT_TRUE(found.contains(offset));
      ASSERT_GE(found[offset].bytes, object.bytes);
      ASSERT_TRUE(holds(world_->at(offset), object.bytes, object.tag)) << "at offset " << offset;
    }
    for (const auto& t : open_)
      for (const auto& [offset, object] : t.allocated) ASSERT_TRUE(holds(world_->at(offset), object.bytes, object.tag));
  }

  void free_everything() {
    world_->memory.transact([&](transaction& tx) {
      for (const auto& [offset, object] : committed_) heap().deallocate(tx, world_->at(offset));
    });
    committed_.clear();
    used_.clear();
    // Spans that others emptied go with the next commit.
    world_->memory.transact([&](transaction& tx) { heap().deallocate(tx, heap().allocate(tx, 1)); });
    verify();
    const heap_statistics all = heap().stats();
    ASSERT_EQ(all.free_bytes, all.data_bytes);
    ASSERT_EQ(all.objects + all.reserved + all.being_freed + all.spans, 0u);
  }

  static constexpr std::uint64_t length = 1 << 20;
  std::mt19937_64 random_;
  options how_;
  sim::disk disk_;
  std::unique_ptr<heap_world> world_;
  std::vector<open_transaction> open_;
  model_state committed_;
  std::map<std::uint64_t, std::uint64_t> used_;  // everything that must not be given out: begin and end
  std::uint32_t last_tag_ = 0;
};

TEST(heap_model, random_histories) {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t i = 0; i < 8 * test_scale() && !::testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE("TENURE_TEST_SEED=" + std::to_string(seed) + ", history " + std::to_string(i));
    history(seed + i, false).run(2500);
  }
}

TEST(heap_model, random_histories_in_checking_mode) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TENURE_TEST_SEED=" + std::to_string(seed));
  history(seed, true).run(800);
}

// --- Crashes ---

// A fixed little history; `states` gets the committed state after each commit, `acknowledged` how many of them a crash
// may not lose.
struct crash_workload {
  std::vector<model_state> states{{}};
  std::size_t acknowledged = 0;

  void run(sim::disk& disk) {
    heap_world world(disk, 1 << 17, small());
    model_state now;
    std::uint32_t tag = 0;
    const auto allocate = [&](transaction& tx, model_state& into, std::size_t bytes) {
      auto* p = static_cast<std::byte*>(world.heap->allocate(tx, bytes));
      fill(p, bytes, ++tag);
      into.emplace(world.offset(p), model_object{bytes, tag});
    };
    const auto commit = [&](transaction& tx, commit_mode mode) {
      states.push_back(now);  // may be found from here on
      tx.commit(mode);
      if (mode == commit_mode::flush) acknowledged = states.size() - 1;
    };
    acknowledged = 0;
    transaction bystander = world.memory.begin();  // allocates, and aborts at the end
    for (std::uint32_t round = 0; round < 6; ++round) {
      model_state lost;
      allocate(bystander, lost, 40);
      transaction tx = world.memory.begin();
      for (std::size_t bytes : {40, 40, 600, 5000}) allocate(tx, now, bytes + round);
      if (round == 2) allocate(tx, now, 40000);
      if (round >= 1) {
        for (int i = 0; i < 3; ++i) {
          const auto victim = std::next(now.begin(), static_cast<std::ptrdiff_t>(round * 7 % now.size()));
          world.heap->deallocate(tx, world.at(victim->first));
          now.erase(victim);
        }
      }
      commit(tx, round % 3 == 1 ? commit_mode::no_flush : commit_mode::flush);
      if (round == 3) world.memory.truncate();
    }
    bystander.abort();
    transaction last = world.memory.begin();
    for (const auto& [offset, object] : now) world.heap->deallocate(last, world.at(offset));
    now.clear();
    commit(last, commit_mode::flush);
    world.memory.close();
  }

  static options small() {
    options how = heap_world::quiet();
    how.log.size = how.log.max_size = 1 << 16;
    return how;
  }
};

// What is found after a crash is one of the committed states, not older than the last acknowledged one.
void expect_a_committed_state(sim::disk& disk, const crash_workload& before) {
  options how = crash_workload::small();
  heap_world world(disk, 1 << 17, how);
  world.heap->check();
  std::map<std::uint64_t, std::size_t> found;
  world.heap->for_each_object([&](void* p, std::size_t room) { found.emplace(world.offset(p), room); });
  const auto is = [&](const model_state& state) {
    if (state.size() != found.size()) return false;
    return std::ranges::all_of(state, [&](const auto& entry) {
      return found.contains(entry.first) && holds(world.at(entry.first), entry.second.bytes, entry.second.tag);
    });
  };
  bool matches = false;
  for (std::size_t i = before.acknowledged; i < before.states.size(); ++i) matches = matches || is(before.states[i]);
  EXPECT_TRUE(matches) << "found " << found.size() << " objects; acknowledged: state " << before.acknowledged << " of "
                       << before.states.size() - 1;
  // And it works.
  world.memory.transact([&](transaction& tx) {
    for (const auto& [offset, room] : found) world.heap->deallocate(tx, world.at(offset));
    static_cast<void>(world.heap->allocate(tx, 40));
  });
  world.heap->check();
  EXPECT_EQ(world.heap->stats().objects, 1u);
}

TEST(heap_crash, at_every_operation) {
  std::uint64_t operations = 0;
  {
    sim::disk whole;
    crash_workload().run(whole);
    operations = whole.operations();
  }
  ASSERT_GT(operations, 20u);
  for (std::uint64_t at = 1; at <= operations; ++at) {
    sim::disk disk;
    disk.crash_at(at);
    crash_workload work;
    try {
      work.run(disk);
    } catch (const sim::power_failure&) {
    }
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE("crash at operation " + std::to_string(at) + ", seed " + std::to_string(seed));
      const auto policy = seed == 0 ? sim::policy::drop_all : seed == 1 ? sim::policy::keep_all : sim::policy::random;
      const auto left = disk.crash(seed, policy);
      try {
        expect_a_committed_state(*left, work);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// --- Threads ---

TEST(heap_threads, share_a_heap) {
  sim::disk disk;
  options how = heap_world::quiet();
  how.background = true;
  how.tune.truncation_threshold = 0.3;
  auto world = std::make_unique<heap_world>(disk, 8 << 20, how);
  const std::uint64_t seed = test_seed();
  constexpr int thread_count = 4;
  std::vector<std::map<std::byte*, model_object>> owned(thread_count);
  std::atomic<bool> failed{false};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < thread_count; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(seed + static_cast<std::uint64_t>(t));
        auto& mine = owned[static_cast<std::size_t>(t)];
        std::uint32_t tag = static_cast<std::uint32_t>(t) << 24;
        for (std::uint64_t round = 0; round < 150 * test_scale() && !failed; ++round) {
          transaction tx = world->memory.begin();
          std::map<std::byte*, model_object> fresh;
          std::vector<std::byte*> gone;
          for (std::uint64_t i = 0, count = random() % 12; i < count; ++i) {
            const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 40000 : 300);
            auto* p = static_cast<std::byte*>(world->heap->allocate(tx, bytes));
            fill(p, bytes, ++tag);
            fresh.emplace(p, model_object{bytes, tag});
          }
          for (auto& [p, object] : mine) {
            if (random() % 8 != 0) continue;
            if (!holds(p, object.bytes, object.tag)) failed = true;
            world->heap->deallocate(tx, p);
            gone.push_back(p);
          }
          if (random() % 4 == 0) {
            tx.abort();
          } else {
            tx.commit(random() % 4 == 0 ? commit_mode::flush : commit_mode::no_flush);
            for (auto* p : gone) mine.erase(p);
            mine.merge(fresh);
          }
          if (random() % 32 == 0) world->heap->check();
          if (random() % 32 == 0) static_cast<void>(world->heap->stats());
        }
      });
    }
  }
  EXPECT_FALSE(failed);
  world->heap->check();
  std::map<std::uint64_t, model_object> expected;
  for (const auto& mine : owned)
    for (const auto& [p, object] : mine) EXPECT_TRUE(expected.emplace(world->offset(p), object).second);
  world = nullptr;
  world = std::make_unique<heap_world>(disk, 8 << 20, how);
  world->heap->check();
  EXPECT_EQ(world->heap->stats().objects, expected.size());
  for (const auto& [offset, object] : expected) EXPECT_TRUE(holds(world->at(offset), object.bytes, object.tag));
}

}  // namespace
}  // namespace tenure::rvm
