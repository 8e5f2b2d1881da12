// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Inner transactions: what is undone without the rest [pobj.inner.lists].
#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "pobj/scenario.hpp"
#include "support/model.hpp"

namespace tenure::pobj {
namespace {

class pobj_inner : public pobj_test {};

node* anchor;
node* other_anchor;
std::uint64_t numbers[8];

TEST_F(pobj_inner, an_abort_undoes_only_what_was_done_in_it) {
  start();
  node* const first = new_node(1);
  node* const second = new_node(2);
  EXPECT_OK(pobj_static_set_ref(&anchor, first));
  EXPECT_OK(pobj_start());
  node* const made_before = new_node(3, second);
  first->next = made_before;
  EXPECT_OK(pobj_update(first));
  auto* const transient = static_cast<node*>(pobj_calloc_transient(1, sizeof(node)));
  EXPECT_OK(pobj_start_inner());
  EXPECT_EQ(pobj_depth(), 2);
  node* const made = new_node(4);
  made_before->value = 33;
  made_before->next = made;
  EXPECT_OK(pobj_update(made_before));
  first->value = 11;
  first->next = made;
  EXPECT_OK(pobj_update(first));
  EXPECT_OK(pobj_free(second));
  EXPECT_OK(pobj_persistify(transient));
  EXPECT_OK(pobj_static_set_ref(&anchor, made));
  EXPECT_OK(pobj_static_set_ref(&other_anchor, made));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_depth(), 1);
  EXPECT_EQ(pobj_is_object(made), 0);
  EXPECT_EQ(made_before->value, 3u);
  EXPECT_EQ(made_before->next, second);
  EXPECT_EQ(first->value, 1u);
  EXPECT_EQ(first->next, made_before);
  EXPECT_EQ(pobj_is_persistent(second), 1);
  EXPECT_EQ(pobj_is_persistent(transient), 0);
  EXPECT_EQ(anchor, first);
  EXPECT_EQ(other_anchor, nullptr);
  EXPECT_OK(pobj_set_ulong(first, &first->value, 12));
  EXPECT_OK(pobj_end());
  crash_and_restart();
  EXPECT_EQ(report().objects, 3u);
  EXPECT_EQ(report().statics, 1u);
  EXPECT_EQ(anchor->value, 12u);
  EXPECT_EQ(anchor->next->value, 3u);
  EXPECT_EQ(anchor->next->next->value, 2u);
}

// A memory manager with one block, which everybody gets.
alignas(16) std::byte only_block[256];
bool is_given = false;
void* give_only_block(std::size_t size) {
  if (is_given || size > sizeof only_block) return nullptr;
  is_given = true;
  return only_block;
}
void take_only_block(void*) { is_given = false; }

// The memory of an object that was made in it goes to another thread, whose object has nothing to do with it.
TEST_F(pobj_inner, an_abort_forgets_what_was_made_in_it) {
  start();
  const pobj_allocator only{&give_only_block, nullptr, &take_only_block};
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start_inner());
  void* const made = pobj_malloc_adhoc(sizeof(node), &only);
  ASSERT_NE(made, nullptr);
  EXPECT_OK(pobj_unpersistify(made));
  EXPECT_OK(pobj_persistify(made));
  EXPECT_OK(pobj_abort());
  node* others = nullptr;
  std::thread([&] {
    others = static_cast<node*>(pobj_malloc_adhoc(sizeof(node), &only));
    if (others == nullptr) return;
    others->value = 7;  // not updated: an abort of its own would not touch it either
  }).join();
  ASSERT_EQ(others, made);
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(others->value, 7u);
  EXPECT_OK(pobj_free(others));
}

TEST_F(pobj_inner, an_end_makes_it_part_of_the_outer_one) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  const auto commits = [] { return open_store()->memory.stats().flush_commits; };
  const auto before = commits();
  for (const bool commit : {false, true}) {
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_start_inner());
    EXPECT_OK(pobj_start_inner());
    EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
    node* const made = new_node(5);
    EXPECT_OK(pobj_end());
    EXPECT_OK(pobj_set_ref(anchor, &anchor->next, made));
    EXPECT_OK(pobj_end());
    EXPECT_EQ(commits(), before);
    if (commit) {
      EXPECT_OK(pobj_end());
    } else {
      EXPECT_OK(pobj_abort());
      EXPECT_EQ(anchor->value, 1u);
      EXPECT_EQ(anchor->next, nullptr);
      EXPECT_EQ(pobj_is_object(made), 0);
    }
  }
  crash_and_restart();
  EXPECT_EQ(report().objects, 2u);
  EXPECT_EQ(anchor->value, 2u);
  EXPECT_EQ(anchor->next->value, 5u);
}

TEST_F(pobj_inner, without_an_outer_one_it_is_a_transaction) {
  start();
  expect_failure(POBJ_ETRANSACTION, pobj_end(), {"pobj_start"});
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_OK(pobj_start_inner());
  EXPECT_EQ(pobj_depth(), 1);
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_depth(), 0);
  EXPECT_EQ(anchor->value, 1u);
  EXPECT_OK(pobj_start_inner());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 3));
  EXPECT_OK(pobj_end());
  crash_and_restart();
  EXPECT_EQ(anchor->value, 3u);
}

// Nested ones are part of the inner one in which they were begun; outer ones go on.
TEST_F(pobj_inner, a_nested_abort_in_one_undoes_that_one) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
  EXPECT_OK(pobj_start_inner());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 3));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(anchor->value, 2u);
  EXPECT_EQ(pobj_depth(), 4);
  expect_failure(POBJ_EABORTED, pobj_set_ulong(anchor, &anchor->value, 4), {"nested pobj_abort"});
  expect_failure(POBJ_EABORTED, pobj_start_inner(), {"nested pobj_abort"});
  EXPECT_EQ(pobj_malloc(8), nullptr);
  EXPECT_OK(pobj_end());
  EXPECT_EQ(pobj_depth(), 3);
  expect_failure(POBJ_EABORTED, pobj_end(), {"inner", "goes on"});
  EXPECT_EQ(pobj_depth(), 2);
  EXPECT_OK(pobj_set_ref(anchor, &anchor->next, new_node(5)));
  // The nested one, with nothing inner in it, dooms all.
  EXPECT_OK(pobj_start_inner());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_abort());
  EXPECT_OK(pobj_abort());
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_end());
  crash_and_restart();
  EXPECT_EQ(anchor->value, 2u);
  EXPECT_EQ(anchor->next->value, 5u);
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start_inner());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 6));
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(anchor->value, 2u);
  expect_failure(POBJ_EABORTED, pobj_end(), {"is over"});
  EXPECT_EQ(pobj_depth(), 0);
}

// What objects are typed as when a level begins, also word by word, is what an abort goes back to.
TEST_F(pobj_inner, types_go_back_to_those_at_its_begin) {
  start(POBJ_STRICT);
  node* const target = new_node(7);
  EXPECT_OK(pobj_static_set_ref(&anchor, target));
  auto* const committed = static_cast<void**>(pobj_calloc(4, sizeof(void*)));
  EXPECT_OK(pobj_static_set_ref(&other_anchor, committed));
  EXPECT_OK(pobj_start());
  auto* const made = static_cast<void**>(pobj_calloc(4, sizeof(void*)));
  for (void** const each : {committed, made}) EXPECT_OK(pobj_set_ref(each, &each[0], target));
  EXPECT_OK(pobj_start_inner());
  for (void** const each : {committed, made}) {
    EXPECT_OK(pobj_set_ref(each, &each[1], target));
    EXPECT_OK(pobj_ref_unflag(each, &each[0]));
  }
  EXPECT_OK(pobj_abort());
  for (void** const each : {committed, made}) {
    EXPECT_EQ(each[0], target);
    EXPECT_EQ(each[1], nullptr);
    each[2] = target;
    expect_failure(POBJ_EUNTYPED, pobj_update(each), {"offset 16"});  // and not at offset 0
    each[2] = nullptr;
  }
  EXPECT_OK(pobj_set_ref(committed, &committed[3], made));
  EXPECT_OK(pobj_end());
  crash_and_restart(POBJ_STRICT);
  auto** const found = reinterpret_cast<void**>(other_anchor);
  EXPECT_EQ(found[0], anchor);
  EXPECT_EQ(found[1], nullptr);
  EXPECT_EQ(static_cast<void**>(found[3])[0], anchor);
  EXPECT_EQ(report().null_unknown + report().null_dangling, 0u);
}

TEST_F(pobj_inner, static_variables_go_back_level_by_level) {
  start();
  const auto store_numbers = [](std::size_t count, std::uint64_t value) {
    std::fill(numbers, numbers + count, value);
    EXPECT_OK(pobj_static_update(numbers, count * 8, nullptr));
  };
  store_numbers(1, 1);
  for (const bool commit : {false, true}) {
    EXPECT_OK(pobj_start());
    store_numbers(2, 2);
    EXPECT_OK(pobj_start_inner());
    store_numbers(4, 3);
    EXPECT_OK(pobj_start_inner());
    store_numbers(8, 4);
    EXPECT_OK(pobj_end());
    expect_failure(POBJ_ESTATIC, pobj_static_update(numbers, 32, nullptr), {"64 bytes"});
    EXPECT_OK(pobj_abort());
    EXPECT_EQ(numbers[0], 2u);
    EXPECT_EQ(numbers[1], 2u);
    EXPECT_OK(pobj_start_inner());
    store_numbers(3, 5);
    EXPECT_OK(pobj_end());
    if (commit) {
      EXPECT_OK(pobj_end());
    } else {
      EXPECT_OK(pobj_abort());
      EXPECT_EQ(numbers[0], 1u);
    }
  }
  std::fill(numbers, numbers + 8, 0);
  crash_and_restart();
  EXPECT_EQ(numbers[0], 5u);
  EXPECT_EQ(numbers[2], 5u);
  expect_failure(POBJ_ESTATIC, pobj_static_update(numbers, 16, nullptr), {"24 bytes"});
}

// [pobj.inner.transient]
TEST_F(pobj_inner, what_one_has_updated_goes_back_to_the_image_that_the_outer_one_took) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  for (const int levels : {1, 2}) {
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_unpersistify(anchor));
    for (int i = 0; i < levels; ++i) EXPECT_OK(pobj_start_inner());
    anchor->value = 2;
    EXPECT_OK(pobj_persistify(anchor));
    for (int i = 0; i < levels; ++i) EXPECT_OK(pobj_abort());
    EXPECT_EQ(pobj_is_persistent(anchor), 0);
    EXPECT_EQ(anchor->value, 2u);
    EXPECT_OK(pobj_abort());
    EXPECT_EQ(pobj_is_persistent(anchor), 1);
    EXPECT_EQ(anchor->value, 1u);
  }
}

// [pobj.inner.taken]
TEST_F(pobj_inner, what_refers_to_an_object_without_an_image_does_so_after_an_abort) {
  start();
  node* const from = new_node(1);
  node* const to = new_node(2);
  EXPECT_OK(pobj_set_ref(from, &from->next, to));
  EXPECT_OK(pobj_static_set_ref(&anchor, to));
  for (const bool is_persistent_again : {false, true}) {
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_unpersistify(to));
    if (is_persistent_again) {
      EXPECT_OK(pobj_persistify(to));
    }
    EXPECT_OK(pobj_start_inner());
    EXPECT_OK(pobj_set_ref(from, &from->next, nullptr));
    EXPECT_OK(pobj_static_set_ref(&anchor, nullptr));
    EXPECT_OK(pobj_abort());
    EXPECT_EQ(from->next, to);
    EXPECT_EQ(anchor, to);
    EXPECT_OK(pobj_abort());
    EXPECT_EQ(pobj_is_persistent(to), 1);
    EXPECT_EQ(from->next, to);
    EXPECT_EQ(anchor, to);
  }
}

// An aborted level leaves no space behind, and neither does an outer one in which levels have made objects.
TEST_F(pobj_inner, space_of_aborted_ones_is_used_again) {
  start();
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  for (int i = 0; i < 500; ++i) {
    EXPECT_OK(pobj_start_inner());
    for (int k = 0; k < 3; ++k) EXPECT_NE(pobj_malloc(1000 + static_cast<std::size_t>(i)), nullptr);
    if (i % 100 == 0) {
      EXPECT_OK(pobj_end());
    } else {
      EXPECT_OK(pobj_abort());
    }
  }
  EXPECT_OK(pobj_end());
  EXPECT_EQ(open_store()->region.size(), 256u << 10);
  restart();
  EXPECT_EQ(report().objects, 16u);
}

// The rest of the transaction can be aborted, and its thread may end.
TEST_F(pobj_inner, open_ones_end_with_the_store_of_a_crash) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start_inner());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
  expect_failure(POBJ_ETRANSACTION, pobj_close(), {});
  crash_and_restart();
  EXPECT_EQ(pobj_depth(), 0);
  EXPECT_EQ(anchor->value, 1u);
}

// --- A random program, and a copy of all that it has for each level ---

constexpr std::size_t object_words = 6;  // the first two are references
struct things {
  struct thing {
    bool persistent = false;
    std::uint64_t words[object_words] = {};
  };
  std::map<std::uint64_t*, thing> all;
  std::uint64_t* roots[3] = {};
};
std::uint64_t* roots[3];

// Each change is an update, so that memory and images are the same: an abort gives both what the copy of its level has.
class nested_program {
 public:
  explicit nested_program(std::uint64_t seed) : random_(seed) {}

  // Between transactions.
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      compare();
      if (::testing::Test::HasFailure()) return;
    }
    while (pobj_depth() != 0) leave(false);
  }
  // What the next execution must find from the anchors on: words of all objects, in the order in which they are met.
  [[nodiscard]] static std::vector<std::uint64_t> contents() {
    std::vector<std::uint64_t> out;
    std::map<std::uint64_t*, std::size_t> met;
    std::vector<std::uint64_t*> order;
    const auto see = [&](std::uint64_t* p) {
      if (pobj_is_persistent(p) == 0) return out.push_back(0);
      const auto [at, is_new] = met.emplace(p, met.size() + 1);
      out.push_back(at->second);
      if (is_new) order.push_back(p);
    };
    for (std::uint64_t* const r : roots) see(r);
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t w = 0; w < 2; ++w) see(reinterpret_cast<std::uint64_t*>(order[i][w]));
      out.insert(out.end(), order[i] + 2, order[i] + object_words);
    }
    return out;
  }
  [[nodiscard]] int deepest() const { return deepest_; }

 private:
  struct level {
    bool is_inner;
    things before;
  };

  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }
  [[nodiscard]] std::uint64_t* any() {
    if (now_.all.empty()) return nullptr;
    return std::next(now_.all.begin(), static_cast<std::ptrdiff_t>(below(now_.all.size())))->first;
  }

  void step() {
    const auto kind = below(24);
    if (levels_.empty() || kind < 3) return enter(below(3) != 0);
    if (kind < 6) return leave(below(3) == 0);
    if (doomed_) return;
    std::uint64_t* const o = any();
    if (kind < 13 || o == nullptr) return make();
    if (kind == 13) return free(o);
    if (kind == 14) return set_root();
    if (kind == 15) return toggle(o);
    change(o);
  }

  void enter(bool inner) {
    if (levels_.size() >= 12) return;
    if (inner && doomed_) {
      EXPECT_EQ(pobj_start_inner(), POBJ_EABORTED);
      return;
    }
    EXPECT_OK(inner ? pobj_start_inner() : pobj_start());
    levels_.push_back({inner || levels_.empty(), now_});
    deepest_ = std::max(deepest_, static_cast<int>(std::ranges::count(levels_, true, &level::is_inner)));
    EXPECT_EQ(pobj_depth(), static_cast<int>(levels_.size()));
  }

  void leave(bool abort) {
    const bool is_real = levels_.back().is_inner;
    if (levels_.size() == 1 && !abort && !doomed_) update_references();
    if (abort) {
      EXPECT_OK(pobj_abort());
      // That of the innermost one that is not just counted.
      now_ = std::ranges::find(levels_.rbegin(), levels_.rend(), true, &level::is_inner)->before;
    } else {
      EXPECT_EQ(pobj_end(), doomed_ && is_real ? POBJ_EABORTED : POBJ_OK) << pobj_error();
    }
    levels_.pop_back();
    doomed_ = !is_real && (doomed_ || abort);
    EXPECT_EQ(pobj_depth(), static_cast<int>(levels_.size()));
  }

  void make() {
    auto* const o = static_cast<std::uint64_t*>(pobj_calloc(object_words, 8));
    static constexpr std::size_t references[] = {0, 8, POBJ_END};
    EXPECT_OK(pobj_ref_typify(o, references));
    now_.all[o].persistent = true;
    change(o);
  }

  // An abort leaves what was changed while it was transient.
  void change(std::uint64_t* o) {
    if (!now_.all.at(o).persistent) return;
    const std::size_t w = below(object_words);
    std::uint64_t* const to = below(3) == 0 ? nullptr : any();
    EXPECT_OK(w < 2 ? pobj_set_ref(o, &o[w], to) : pobj_set_ulong(o, &o[w], random_()));
    std::memcpy(now_.all[o].words, o, sizeof now_.all[o].words);
  }

  // First nothing that is persistent refers to it any more.
  void free(std::uint64_t* gone) {
    for (auto& [o, t] : now_.all)
      for (std::size_t w = 0; w < 2 && t.persistent; ++w)
        if (o[w] == reinterpret_cast<std::uint64_t>(gone)) {
          EXPECT_OK(pobj_set_ref(o, &o[w], nullptr));
          t.words[w] = 0;
        }
    for (std::size_t i = 0; i < 3; ++i)
      if (roots[i] == gone) {
        EXPECT_OK(pobj_static_set_ref(&roots[i], nullptr));
        now_.roots[i] = nullptr;
      }
    EXPECT_OK(pobj_free(gone));
    now_.all.erase(gone);
  }

  void set_root() {
    const auto i = below(3);
    EXPECT_OK(pobj_static_set_ref(&roots[i], any()));
    now_.roots[i] = roots[i];
  }

  // Makes it transient, or persistent again. Then what refers to it must be updated again, at the latest before the commit.
  void toggle(std::uint64_t* o) {
    things::thing& t = now_.all.at(o);
    if (t.persistent) {
      EXPECT_OK(pobj_unpersistify(o));
    } else {
      // No abort has put back what it refers to.
      for (std::size_t w = 0; w < 2; ++w)
        if (!now_.all.contains(reinterpret_cast<std::uint64_t*>(o[w]))) o[w] = 0;
      EXPECT_OK(pobj_persistify(o));
      std::memcpy(t.words, o, sizeof t.words);
    }
    t.persistent = !t.persistent;
    if (t.persistent || below(2) == 0) update_references_to(o);
  }
  void update_references_to(std::uint64_t* o) {
    for (const auto& [other, what] : now_.all)
      if (std::ranges::count(what.words, reinterpret_cast<std::uint64_t>(o)) != 0) {
        EXPECT_OK(pobj_update(other));
      }
    for (std::uint64_t*& r : roots)
      if (r == o) {
        EXPECT_OK(pobj_static_update_ref(&r));
      }
  }
  void update_references() {
    for (const auto& [o, t] : now_.all)
      if (!t.persistent) update_references_to(o);
  }

  void compare() {
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(roots[i], now_.roots[i]);
    for (const auto& [o, t] : now_.all) {
      ASSERT_EQ(pobj_is_object(o), 1);
      EXPECT_EQ(pobj_is_persistent(o), t.persistent ? 1 : 0);
      if (!t.persistent) continue;
      for (std::size_t w = 0; w < object_words; ++w) EXPECT_EQ(o[w], t.words[w]) << w;
    }
  }

  std::mt19937_64 random_;
  std::vector<level> levels_;
  bool doomed_ = false;
  int deepest_ = 0;
  things now_;
};

TEST_F(pobj_inner, random_levels) {
  const auto seeds = std::max<std::uint64_t>(12, static_cast<std::uint64_t>(40 * rvm::testing::test_scale()));
  int deepest = 0;
  std::size_t largest = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    use(std::make_unique<sim::disk>());
    std::ranges::fill(roots, nullptr);
    start();
    nested_program p(seed);
    p.run(500);
    if (HasFailure()) return;
    const std::vector<std::uint64_t> expected = nested_program::contents();
    deepest = std::max(deepest, p.deepest());
    largest = std::max(largest, expected.size());
    std::ranges::fill(roots, nullptr);
    seed % 2 == 0 ? restart() : crash_and_restart();
    EXPECT_EQ(nested_program::contents(), expected);
  }
  // Or it has not tried what it is for.
  EXPECT_GE(deepest, 5);
  EXPECT_GE(largest, 15u);
}

}  // namespace
}  // namespace tenure::pobj
