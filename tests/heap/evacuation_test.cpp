// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collections that move objects out of mostly empty blocks: what follows them, what must stay, what changes meanwhile.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/finalization_queue.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/ordered_index.hpp>
#include <tenure/set.hpp>
#include <tenure/tenure.hpp>
#include <tenure/weak_map.hpp>

#include "heap/collected_store.hpp"
#include "sim/disk.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;
using rvm::testing::random_source;
using rvm::testing::scaled;

namespace evacuation_test_types {

struct cell {
  std::uint64_t id;
  cell* next;
  std::uint64_t words[6];
};
struct large {
  cell* to;
  char bytes[100'000];
};
class opaque_words {
 public:
  void set(cell* to) { words_[1] = reinterpret_cast<std::uintptr_t>(to); }

 private:
  std::uintptr_t words_[3] = {};
};
struct having {
  tenure::vector<cell*> all;
  opaque_words words;
  transient<cell*> scratch;
  tenure::set<cell*> in_order;
  tenure::hash_set<cell*> hashed;
  tenure::hash_map<std::pair<std::uint64_t, cell*>, std::uint64_t> pairs;
  tenure::map<std::uint64_t, cell*> by_number;
  tenure::ordered_index<std::uint64_t, cell*> index;
  std_map<cell*, std::uint64_t> standard;
  std_unordered_map<cell*, std::uint64_t> standard_hashed;
  std_map<std::uint64_t, cell*> standard_by_number;
  weak<cell> weakly;
  tenure::weak_map<cell, std::uint64_t> noted;
  finalization_queue<cell> queue;
};

}  // namespace evacuation_test_types
using namespace evacuation_test_types;

namespace {

const evacuation everything_sparse{.enabled = true, .sparse_percent = 90};

class evacuating : public reopened_store {
 protected:
  evacuating() {
    how.check_destroyed = destroy_check::always;
    how.tune.refill = 0;  // blocks that were half emptied stay so
    reopen();
  }
  having& root() { return s().root<having>("having"); }
  // Every `nth` of many cells, so that all blocks of cells are mostly empty.
  void make_sparse(std::uint64_t count, std::uint64_t nth) {
    having& r = root();
    s().transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        if (n == count / 2) (void)s().root<cell>("named");
        cell* const made = s().make<cell>();
        made->id = n;
        std::ranges::fill(made->words, n);
        if (n % nth == 0) r.all.push_back(made);
      }
    });
    (void)s().collect({.roots = program_roots::handles, .quarantine = quarantine::none});
  }
  collect_report evacuate(evacuation what = everything_sparse, quarantine held = quarantine::none) {
    const collect_report done = s().collect({.roots = program_roots::handles, .quarantine = held, .evacuation = what});
    expect_sound(s());
    return done;
  }
  void expect_cells(std::uint64_t nth) {
    std::uint64_t n = 0;
    for (const cell* each : root().all) {
      ASSERT_EQ(each->id, n);
      for (const std::uint64_t w : each->words) ASSERT_EQ(w, n);
      n += nth;
    }
  }
};

// [heap.evacuation]
TEST_F(evacuating, empties_sparse_blocks) {
  constexpr std::uint64_t count = 20'000, nth = 10;
  make_sparse(count, nth);
  const cell* const before = root().all[count / nth / 2];
  const std::uint64_t free_before = s().space().free_bytes;
  const collect_report done = evacuate();
  // But for those in a block where more will be made, and with the texts of types.
  EXPECT_GT(done.moved, count / nth * 9 / 10);
  EXPECT_LT(done.moved, count / nth + 400);
  EXPECT_GT(done.moved_bytes, count / nth * 9 / 10 * sizeof(cell));
  EXPECT_LT(done.pinned, 5U);  // of the root's name
  EXPECT_GT(done.emptied_blocks, 30U);
  EXPECT_GT(done.longest_move, 0.0);
  EXPECT_NE(root().all[count / nth / 2], before);
  EXPECT_FALSE(s().is_persistent(before));
  EXPECT_EQ(s().space().objects, done.kept);
  EXPECT_LE(s().space().free_bytes, free_before + (1 << 20));
  expect_cells(nth);
  // What lies side by side stays.
  EXPECT_EQ(evacuate().moved, 0U);
  reopen();
  expect_cells(nth);
}

TEST_F(evacuating, leaves_what_is_dense_or_too_much) {
  make_sparse(4'000, 2);
  EXPECT_EQ(evacuate({.enabled = true, .sparse_percent = 30}).moved, 0U);
  EXPECT_EQ(evacuate({.enabled = false, .sparse_percent = 90}).moved, 0U);
  EXPECT_EQ(s().collect({.dry_run = true, .roots = program_roots::handles, .evacuation = everything_sparse}).moved, 0U);
  const std::uint64_t most = 64 << 10;
  const collect_report some = evacuate({.enabled = true, .sparse_percent = 60, .most_bytes = most});
  EXPECT_GT(some.moved, 0U);
  EXPECT_LE(some.moved_bytes, most);
  EXPECT_GT(evacuate({.enabled = true, .sparse_percent = 60}).moved, 0U);
  expect_cells(2);
}

// Births fill other blocks meanwhile, and those that could not be emptied afterwards.
TEST_F(evacuating, sparse_blocks_are_filled_later) {
  how.tune.refill = 100;
  how.tune.typed_from = 0;
  reopen();
  constexpr std::uint64_t count = 20'000, nth = 10;
  make_sparse(count, nth);
  const handle<cell> held = root().all[count / nth / 2];
  const collect_report done = evacuate();
  EXPECT_GT(done.moved, count / nth / 2);
  const std::uint64_t cells_in_block = (32 << 10) / sizeof(cell);
  EXPECT_GT(done.emptied_blocks, done.moved * nth / cells_in_block * 3 / 4);
  const auto block_of = [](const cell* at) { return reinterpret_cast<std::uintptr_t>(at) >> 15; };
  bool is_filled = false;
  s().transact([&] {
    for (int n = 0; n < 5'000; ++n) {
      root().all.push_back(s().make<cell>());
      is_filled |= block_of(root().all.back()) == block_of(held.get());
    }
  });
  EXPECT_TRUE(is_filled);
}

TEST_F(evacuating, says_which_options_are_wrong) {
  for (const evacuation wrong :
       {evacuation{.enabled = true, .sparse_percent = 0}, evacuation{.enabled = true, .sparse_percent = 91},
        evacuation{.enabled = true, .bytes_at_once = 0}}) {
    expect_error(errc::bad_option, {"evacuation", "from 1 to 90 percent"},
                 [&] { (void)s().collect({.evacuation = wrong}); });
    opened.reset();
    store_options of = how;
    of.collection.evacuation = wrong;
    expect_error(errc::bad_option, {"evacuation", "from 1 to 90 percent"}, [&] { const store never(path, of); });
    open();
  }
}

TEST_F(evacuating, moves_everything_that_can_refer_and_be_referred_to) {
  everything& all = s().root<everything>("all");
  constexpr std::uint64_t count = 300;
  fill(s(), all, count, false, [&](std::uint64_t n) {
    for (int k = 0; k < 4; ++k) {  // garbage between
      item* const i = s().make<item>();
      i->name = long_name(n);
      i->near.push_back(i);
      i->listed.push_back(i);
      i->by_number[n] = i;
      i->words.push_back(std_string(long_name(n).c_str()));
      s().make<triangle>()->name = long_name(n);
    }
  });
  for (const std::uint64_t at_once : {std::uint64_t{1}, std::uint64_t{1} << 20}) {
    const collect_report done = evacuate({.enabled = true, .sparse_percent = 90, .bytes_at_once = at_once});
    EXPECT_GT(done.moved, at_once == 1 ? count : 0);
    expect_filled(s().root<everything>("all"), count, false);
  }
  reopen();
  expect_filled(s().root<everything>("all"), count, false);
}

// Of several zones; it is looked at in parts.
TEST_F(evacuating, finds_references_in_large_objects) {
  make_sparse(4'000, 8);
  auto& large = s().root<tenure::vector<cell*>>("large");
  constexpr std::size_t count = 1'200'000, from = 100;
  s().transact([&] { large.resize(count); });
  const std::vector<std::size_t> at{0, 1, 4095, 600'000, count - 1};
  s().transact([&] {
    for (std::size_t n = 0; n < at.size(); ++n) large[at[n]] = root().all[from + n];
  });
  const std::uintptr_t before = hidden(root().all[from]);
  EXPECT_GT(evacuate().moved, 300U);
  EXPECT_NE(hidden(root().all[from]), before);
  for (std::size_t n = 0; n < at.size(); ++n) EXPECT_EQ(large[at[n]], root().all[from + n]);
}

TEST_F(evacuating, follows_references_between_databases) {
  database far =
      s().create_database("far", {.reservation = std::uint64_t{1} << 28, .home = next_home(std::uint64_t{1} << 28)});
  everything& all = s().root<everything>("all");
  fill(s(), all, 200, false, [&](std::uint64_t) {
    for (int k = 0; k < 4; ++k) far.make<item>(), s().make<item>();
  });
  EXPECT_GT(evacuate().moved, 150U);
  expect_filled(s().root<everything>("all"), 200, false);
  reopen();
  expect_filled(s().root<everything>("all"), 200, false);
}

// [heap.evacuation.pinned]
TEST_F(evacuating, leaves_what_must_stay) {
  make_sparse(4'000, 8);
  having& r = root();
  constexpr std::size_t first = 100;  // in a block of cells alone
  std::size_t next = first;
  std::vector<cell*> staying;
  const auto some = [&] {
    staying.push_back(r.all[next += 3]);
    return staying.back();
  };
  s().transact([&] {
    r.words.set(some());
    r.in_order.insert(some());
    r.hashed.insert(some());
    r.pairs[{7, some()}] = 1;
    r.index.insert(7, some());
    r.standard[some()] = 1;
    r.standard_hashed[some()] = 1;
    r.weakly = weak(some());
    r.noted[some()] = 7;
    r.queue.watch(some());
    r.by_number[1] = r.all[first];
    r.standard_by_number[1] = r.all[first];
  });
  r.scratch = some();
  const handle<cell> held = some();
  const handle<std::uint64_t> inside = &some()->words[3];
  cell* const transient_one = s().make<cell>();
  transient_one->next = some();
  const handle<cell> holds_transient = transient_one;
  cell& named = s().root<cell>("named");
  s().transact([&] { named.next = r.all[first + 1]; });
  const std::set<cell*> before(r.all.begin(), r.all.end());
  const collect_report done = evacuate();
  EXPECT_GT(done.moved, 300U);
  EXPECT_GE(done.pinned, staying.size());
  for (std::size_t n = 0; n < staying.size(); ++n) {
    SCOPED_TRACE(n);
    EXPECT_TRUE(s().is_persistent(staying[n]));
    EXPECT_EQ(r.all[first + 3 * (n + 1)], staying[n]);
  }
  EXPECT_EQ(&s().root<cell>("named"), &named);
  EXPECT_EQ(&root(), &r);
  EXPECT_FALSE(before.contains(r.all[first]));
  EXPECT_EQ(r.by_number.at(1), r.all[first]);
  EXPECT_EQ(r.standard_by_number.at(1), r.all[first]);
  EXPECT_EQ(named.next, r.all[first + 1]);
  EXPECT_TRUE(r.in_order.contains(staying[1]));
  EXPECT_TRUE(r.hashed.contains(staying[2]));
  ASSERT_NE(r.noted.find(staying[8]), nullptr);
  EXPECT_EQ(*r.noted.find(staying[8]), 7U);
  EXPECT_EQ(r.weakly.lock(), staying[7]);
  EXPECT_EQ(transient_one->next, staying.back());
  expect_cells(8);
}

TEST_F(ambiguous_roots, of_moving_collections_are_words_anywhere) {
  if (address_sanitizer) GTEST_SKIP() << "AddressSanitizer keeps what was freed";
  how.tune.refill = 0;
  how.check_destroyed = destroy_check::always;
  reopen();
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] {
    for (std::uint64_t n = 0; n < 4'000; ++n) {
      kept_node* const made = s().make<kept_node>();
      made->id = n;
      if (n % 8 == 0) l.all.push_back(made);
    }
  });
  const auto in_malloc = std::make_unique<kept_node*>(l.all[100]);
  std::vector<std::uintptr_t> before;
  for (const kept_node* each : l.all) before.push_back(hidden(each));
  const std::uint64_t* const inside = &l.all[200]->id;
  clear_stack();
  const collect_report done = s().collect({.evacuation = everything_sparse});
  expect_sound(s());
  EXPECT_GT(done.moved, 100U);  // what freed memory still has pins some
  EXPECT_EQ(*in_malloc, l.all[100]);
  EXPECT_EQ(hidden(l.all[100]), before[100]);
  EXPECT_EQ(inside, &l.all[200]->id);
  for (std::size_t n = 0; n < l.all.size(); ++n) ASSERT_EQ(l.all[n]->id, 8 * n);
}

// Commits note references to blocks of which the collector has just moved the objects. ThreadSanitizer looks at that.
TEST_F(evacuating, beside_threads_that_commit) {
  how.check_destroyed = destroy_check::never;
  reopen();
  make_sparse(20'000, 10);
  having& r = root();
  std::atomic<bool> is_over{false};
  std::vector<std::thread> writers;
  for (std::size_t n = 0; n < 2; ++n)
    writers.emplace_back([&, n] {
      for (std::size_t at = n; !is_over; at += 97)
        s().transact([&] { r.all[at % r.all.size()]->next = r.all[at * 13 % r.all.size()]; }, commit_mode::lazy);
    });
  std::uint64_t moved = 0;
  for (int n = 0; n < 3; ++n)
    moved += s().collect({.roots = program_roots::handles,
                          .quarantine = quarantine::none,
                          .evacuation = {.enabled = true, .sparse_percent = 90, .bytes_at_once = 1}})
                 .moved;
  is_over = true;
  for (std::thread& each : writers) each.join();
  EXPECT_GT(moved, 1'000U);
  expect_cells(10);
  expect_sound(s());
}

TEST_F(evacuating, leaves_old_places_in_quarantine) {
  make_sparse(4'000, 8);
  having& r = root();
  const std::uintptr_t old = hidden(r.all[10]);
  EXPECT_GT(evacuate(everything_sparse, quarantine::check).moved, 400U);
  EXPECT_EQ(shown<cell>(old)->id, 0xd9d9d9d9d9d9d9d9);
  EXPECT_GT(s().space().quarantined, 400U);
  // Who has kept the pointer is told.
  const handle<cell> kept = shown<cell>(old);
  const collect_report next = s().collect({.roots = program_roots::handles});
  ASSERT_EQ(next.uses.size(), 1U);
  EXPECT_EQ(next.uses[0].object, shown<cell>(old));
  EXPECT_TRUE(next.uses[0].type.ends_with("cell"));
}

// What becomes garbage after it was marked may refer to what is destroyed then: what it leads to cannot be made once more, and
// stays, with its block, until the next collection has taken it.
TEST_F(evacuating, leaves_garbage_that_refers_to_what_is_gone) {
  make_sparse(8'000, 8);
  having& r = root();
  const std::uintptr_t beside = hidden(r.all[501]);
  s().transact([&] {
    s().root<large>("garbage").to = r.all[500];
    r.all[500]->next = r.all[200];
  });
  bool is_dropped = false;
  const auto drop = [&](const rvm::progress& p) {
    if (is_dropped || std::string_view(p.phase) != "looking") return;
    is_dropped = true;
    s().transact([&] {
      s().remove_root("garbage");
      s().destroy(std::exchange(r.all[200], nullptr));
      r.all[500] = nullptr;
    });
  };
  const collect_report done = s().collect({.roots = program_roots::handles,
                                           .quarantine = quarantine::none,
                                           .evacuation = everything_sparse,
                                           .on_progress = drop});
  EXPECT_TRUE(is_dropped);
  EXPECT_GT(done.moved, 500U);
  EXPECT_EQ(hidden(r.all[501]), beside);
  expect_sound(s());
  EXPECT_EQ(evacuate().garbage, 2U);
  EXPECT_NE(hidden(r.all[501]), beside);
}

// What the log has no room for at once is moved in smaller parts.
TEST(evacuating_stores, does_with_a_log_that_cannot_grow) {
  sim::disk disk;
  store_options how = small_store();
  how.memory.disk = &disk;
  how.memory.log.size = how.memory.log.max_size = 64 << 10;
  how.memory.background = false;
  how.tune.refill = 0;
  store s("/store", how);
  auto& all = s.root<tenure::vector<cell*>>("all");
  for (std::uint64_t n = 0; n < 6'000; ++n)
    s.transact([&] {
      cell* const made = s.make<cell>();
      made->id = n;
      if (n % 2 == 0) all.push_back(made);
    });
  const collect_report done = s.collect({.roots = program_roots::handles, .evacuation = everything_sparse});
  EXPECT_GT(done.moved, 2'500U);
  for (std::uint64_t n = 0; n < all.size(); ++n) ASSERT_EQ(all[n]->id, 2 * n);
  expect_sound(s);
}

// --- Changes meanwhile ------------------------------------------------------------------------------------------------------

// Holders in one vector, each with a leaf that nothing else refers to. While the collector looks for references and moves, leaves
// change hands, and are away for a while.
class changing_hands {
 public:
  explicit changing_hands(std::uint64_t seed) : random_(seed) {
    how_.memory.disk = &disk_;
    how_.memory.background = false;
    how_.check_destroyed = destroy_check::always;
    how_.tune.refill = random_.one_in(2) ? 0 : 50;
    how_.tune.typed_from = random_.one_in(2) ? 64 : 1 << 30;
    how_.memory.log.size = 256 << 10;
    how_.tune.marked_at_once = 1 + random_.below(8);
    store_ = std::make_unique<store>("/store", how_);
    auto& all = holders();
    store_->transact([&] {
      for (std::uint64_t n = 0; n < 8'000; ++n) {
        cell* const made = store_->make<cell>();
        cell* const leaf = store_->make<cell>();
        made->id = n;
        made->next = leaf;
        leaf->id = n + 10'000;
        std::ranges::fill(leaf->words, leaf->id);
        if (n % 10 != 0) continue;
        all.push_back(made);
        leaves_.push_back(leaf->id);
      }
    });
  }
  void run() {
    for (int n = 0; n < 3; ++n) {
      const collect_report done =
          store_->collect({.roots = program_roots::handles,
                           .quarantine = quarantine::none,
                           .evacuation = {.enabled = true,
                                          .sparse_percent = 90,
                                          .bytes_at_once = std::uint64_t{1} << (8 + random_.below(10))},
                           .on_progress = [&](const rvm::progress& p) {
                             const std::string_view phase = p.phase;
                             if (phase != "looking" && phase != "moving") return;
                             if (phase == "moving") {
                               if (open_) end();
                               if (random_.one_in(2)) return;
                               begin();
                               for (int k = 0; k < 3; ++k) step();
                               return end();
                             }
                             if (!open_) begin();
                             for (int k = 0; k < 10; ++k) step();
                             if (random_.one_in(6)) end();
                           }});
      if (open_) end();
      moved_ += done.moved;
      expect_all();
      // What was dense is sparse again.
      store_->transact([&] {
        auto& all = holders();
        const std::size_t rest = all.size() * 3 / 4;
        all.resize(rest);
        leaves_.resize(rest);
        for (std::size_t k = 0; k < 60; ++k) {
          all.push_back(store_->make<cell>());
          all.back()->next = store_->make<cell>();
          all.back()->next->id = leaves_.emplace_back(20'000 + made_++);
          std::ranges::fill(all.back()->next->words, leaves_.back());
        }
      });
    }
    store_.reset();
    store_ = std::make_unique<store>("/store", how_);
    expect_all();
  }
  [[nodiscard]] std::uint64_t moved() const { return moved_; }
  [[nodiscard]] std::uint64_t aborted() const { return aborted_; }
  [[nodiscard]] std::uint64_t committed() const { return committed_; }

 private:
  [[nodiscard]] tenure::vector<cell*>& holders() { return store_->root<tenure::vector<cell*>>("all"); }
  void begin() {
    open_ = store_->begin();
    aborts_ = random_.one_in(2);
    before_ = leaves_;
  }
  void step() {
    auto& all = holders();
    const std::size_t a = random_.below(all.size()), b = random_.below(all.size());
    if (random_.one_in(3)) {  // nobody has it for a while
      if (std::ranges::count(away_, a, &away_leaf::of) != 0) return;
      away_.push_back({a, all[a]->next});
      all[a]->next = nullptr;
    } else if (std::ranges::count(away_, a, &away_leaf::of) == 0 && std::ranges::count(away_, b, &away_leaf::of) == 0) {
      std::swap(all[a]->next, all[b]->next);
      std::swap(leaves_[a], leaves_[b]);
    }
  }
  void end() {
    for (const away_leaf& each : away_)
      if (!aborts_) holders()[each.of]->next = each.leaf;
    away_.clear();
    if (aborts_) {
      open_->abort();
      leaves_ = before_;
      ++aborted_;
    } else {
      open_->commit(commit_mode::lazy);
      ++committed_;
    }
    open_.reset();
  }
  void expect_all() {
    expect_sound(*store_);
    const auto& all = holders();
    ASSERT_EQ(all.size(), leaves_.size());
    for (std::size_t n = 0; n < all.size(); ++n) {
      ASSERT_NE(all[n]->next, nullptr);
      ASSERT_EQ(all[n]->next->id, leaves_[n]);
      for (const std::uint64_t w : all[n]->next->words) ASSERT_EQ(w, leaves_[n]);
    }
  }

  random_source random_;
  sim::disk disk_;
  store_options how_ = small_store();
  std::unique_ptr<store> store_;
  std::vector<std::uint64_t> leaves_, before_;  // ids, by holder
  struct away_leaf {
    std::size_t of;
    cell* leaf;
  };
  std::vector<away_leaf> away_;
  std::optional<transaction> open_;
  bool aborts_ = false;
  std::uint64_t made_ = 0, moved_ = 0, aborted_ = 0, committed_ = 0;
};

// [heap.evacuation.changes]
TEST(evacuation_model, follows_what_changes_meanwhile) {
  const std::uint64_t seeds = scaled(100);
  std::uint64_t moved = 0, aborted = 0, committed = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    changing_hands graph(seed);
    graph.run();
    moved += graph.moved();
    aborted += graph.aborted();
    committed += graph.committed();
  }
  EXPECT_GT(moved, 500 * seeds);
  EXPECT_GT(aborted, 2 * seeds);
  EXPECT_GT(committed, 2 * seeds);
}

// [heap.evacuation]: each transaction leaves the graph as it was.
TEST(evacuation_model, a_crash_at_any_operation_leaves_the_graph) {
  constexpr std::uint64_t count = 40;
  store_options how = small_store();
  how.memory.background = false;
  how.tune.refill = 0;
  sim::disk made;
  how.memory.disk = &made;
  {
    store s("/store", how);
    fill(s, s.root<everything>("all"), count, false, [&](std::uint64_t) {
      for (int k = 0; k < 40; ++k) s.make<item>(), s.make<triangle>();
    });
    s.close();
  }
  const auto evacuate = [&](sim::disk& on) {
    how.memory.disk = &on;
    store s("/store", how);
    const collect_report done = s.collect({.roots = program_roots::handles,
                                           .quarantine = quarantine::none,
                                           .evacuation = {.enabled = true, .sparse_percent = 90, .bytes_at_once = 1}});
    s.close();
    return done.moved;
  };
  std::uint64_t operations = 0;
  {
    const auto disk = made.crash(0, sim::policy::keep_all);
    const std::uint64_t before = disk->operations();
    EXPECT_GT(evacuate(*disk), count);
    operations = disk->operations() - before;
  }
  ASSERT_GT(operations, 10U);
  for (std::uint64_t n = 1; n <= operations; n += rvm::testing::scaled_stride()) {
    SCOPED_TRACE(n);
    const auto disk = made.crash(0, sim::policy::keep_all);
    disk->crash_at(disk->operations() + n);
    try {
      (void)evacuate(*disk);
    } catch (const sim::power_failure&) {
    }
    const auto left = disk->crash(n, n % 3 == 0   ? sim::policy::drop_all
                                     : n % 3 == 1 ? sim::policy::keep_all
                                                  : sim::policy::random);
    how.memory.disk = left.get();
    {
      const store s("/store", how);
      expect_sound(s);
      expect_filled(*s.find_root<everything>("all"), count, false);
    }
    (void)evacuate(*left);
    how.memory.disk = left.get();
    const store s("/store", how);
    expect_filled(*s.find_root<everything>("all"), count, false);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
