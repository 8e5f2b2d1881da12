// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stabilization by copying: what is copied at commits, what stays, and that nothing differs but addresses.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/set.hpp>
#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace copying_test_types {

struct leaf {
  std::uint64_t id;
  leaf *left, *right;
  std::uint64_t words[5];
};
struct trees {
  tenure::vector<leaf*> all;
  tenure::set<leaf*> keys;
  leaf* one;
};

}  // namespace copying_test_types
using namespace copying_test_types;

namespace {

class copying : public reopened_store {
 protected:
  copying() {
    how.collection.roots = program_roots::handles;
    how.stabilize = stabilization::copying;
    how.check_destroyed = destroy_check::always;
    opened.reset();
    open();
  }
  // In an order that has nothing to do with how they are reached.
  [[gnu::noinline]] void grow(std::uint64_t count) {
    trees& t = s().root<trees>("trees");
    std::vector<std::uintptr_t> made(count);  // hidden
    for (std::uint64_t n = 0; n < count; ++n) {
      const std::uint64_t id = n * 7 % count;
      leaf* const at = s().make<leaf>();
      at->id = id;
      made[id] = hidden(at);
    }
    for (std::uint64_t id = 0; id < count; ++id) {
      leaf* const at = shown<leaf>(made[id]);
      at->left = 2 * id + 1 < count ? shown<leaf>(made[2 * id + 1]) : nullptr;
      at->right = 2 * id + 2 < count ? shown<leaf>(made[2 * id + 2]) : nullptr;
    }
    t.one = shown<leaf>(made[0]);
    middle = made[count / 2];
  }
  static std::uint64_t count_of(const leaf* at) {
    return at == nullptr ? 0 : 1 + count_of(at->left) + count_of(at->right);
  }

  std::uintptr_t middle = 0;  // hidden: where this one was made
};

// [heap.copying]
TEST_F(copying, puts_together_what_is_reached_together) {
  constexpr std::uint64_t count = 5'000;
  s().root<trees>("trees");
  transaction t = s().begin();
  grow(count);
  clear_stack();
  t.commit();
  expect_sound(s());
  EXPECT_GT(s().stats().objects_copied, count - 20);
  const leaf* const root = s().root<trees>("trees").one;
  EXPECT_EQ(count_of(root), count);
  // Breadth first, the children of one come behind those of the one before.
  std::uint64_t behind = 0, all = 0;
  std::vector<const leaf*> level{root};
  while (!level.empty()) {
    std::vector<const leaf*> next;
    for (const leaf* each : level)
      for (const leaf* child : {each->left, each->right})
        if (child != nullptr) next.push_back(child);
    for (std::size_t n = 1; n < next.size(); ++n) behind += next[n] == next[n - 1] + 1, ++all;
    level = next;
  }
  EXPECT_GT(behind, all * 9 / 10);
  reopen();
  EXPECT_EQ(count_of(s().root<trees>("trees").one), count);
}

TEST_F(copying, leaves_what_the_program_has) {
  trees& t = s().root<trees>("trees");
  const handle<trees> kept = &t;
  const auto held = std::make_unique<handle<leaf>>();  // not on the stack
  const auto in_malloc = std::make_unique<std::uintptr_t>();
  leaf* on_stack = nullptr;
  s().transact([&] {
    for (int n = 0; n < 100; ++n) {
      t.all.push_back(s().make<leaf>());
      t.all.back()->id = static_cast<std::uint64_t>(n);
    }
    *held = t.all[40];
    on_stack = t.all[60];
    *in_malloc = hidden(t.all[80]);
    for (std::size_t n = 0; n < 20; ++n) t.keys.insert(t.all[n * 13 % 20]);
  });
  asm volatile("" : : "r"(on_stack) : "memory");
  EXPECT_EQ(t.all[40], held->get());
  EXPECT_EQ(t.all[60], on_stack);
  for (std::size_t n = 0; n < 20; ++n) {
    EXPECT_EQ(t.all[n]->id, n);
    EXPECT_TRUE(t.keys.contains(t.all[n]));
  }
  EXPECT_NE(hidden(t.all[80]), *in_malloc);
  EXPECT_EQ(t.all[80]->id, 80U);
  EXPECT_FALSE(s().is_persistent(shown<leaf>(*in_malloc)));
  const store_statistics now = s().stats();
  EXPECT_GT(now.objects_copied, 60U);
  EXPECT_GE(now.objects_pinned, 22U);
}

TEST_F(copying, of_everything_that_can_refer) {
  everything& all = s().root<everything>("all");
  fill(s(), all, 200, false);
  expect_filled(s().root<everything>("all"), 200, false);
  EXPECT_GT(s().stats().objects_copied, 600U);
  expect_sound(s());
  // Weak references pin what they lead to.
  fill(s(), s().root<everything>("more"), 50);
  expect_filled(s().root<everything>("more"), 50);
  reopen();
  expect_filled(s().root<everything>("all"), 200, false);
  expect_filled(s().root<everything>("more"), 50);
}

class copying_with : public copying, public ::testing::WithParamInterface<quarantine> {
 protected:
  copying_with() {
    how.collection.quarantine = GetParam();
    opened.reset();
    open();
  }
};

// What has kept a pointer in memory of malloc.
TEST_P(copying_with, leaves_the_old_ones) {
  s().root<trees>("trees");
  {
    transaction t = s().begin();
    grow(100);
    clear_stack();
    t.commit();
  }
  trees& t = s().root<trees>("trees");
  ASSERT_FALSE(s().is_persistent(shown<leaf>(middle)));
  if (GetParam() == quarantine::check) {
    EXPECT_EQ(shown<leaf>(middle)->left, reinterpret_cast<leaf*>(0xd9d9d9d9d9d9d9d9));
  }
  if (GetParam() == quarantine::hold) {
    EXPECT_EQ(shown<leaf>(middle)->id, 50U);
  }
  const std::uint64_t old = s().space().transient;
  if (GetParam() == quarantine::none)
    EXPECT_LT(old, 20U);
  else
    EXPECT_GT(old, 80U);
  (void)s().collect({.roots = program_roots::handles});
  EXPECT_EQ(count_of(t.one), 100U);
  EXPECT_LT(s().space().transient, 20U);
}
INSTANTIATE_TEST_SUITE_P(quarantine, copying_with,
                         ::testing::Values(quarantine::none, quarantine::hold, quarantine::check));

TEST_F(copying, is_done_again_after_a_commit_that_failed) {
  trees& t = s().root<trees>("trees");
  const handle<trees> kept = &t;
  leaf outside{};
  transaction tx = s().begin();
  grow(50);
  t.one->words[0] = 1;
  t.one->left->left->left->left = &outside;
  expect_error(errc::cannot_persist, {"leaf", "which is not in the store"}, [&] { tx.commit(); });
  t.one->left->left->left->left = nullptr;
  tx.commit();
  expect_sound(s());
  EXPECT_EQ(s().root<trees>("trees").one->words[0], 1U);
  // An abort leaves what was there.
  transaction another = s().begin();
  grow(10);
  another.abort();
  expect_sound(s());
  EXPECT_GT(count_of(t.one), 20U);
}

// Who mends it uses the pointers that he had.
TEST_F(copying, a_commit_that_fails_leaves_all_objects_where_they_were) {
  constexpr std::size_t count = 200;
  trees& t = s().root<trees>("trees");
  const handle<trees> kept = &t;
  const auto held = std::make_unique<handle<leaf>>();
  const auto made = std::make_unique<std::vector<std::uintptr_t>>();  // hidden
  leaf outside{};
  transaction tx = s().begin();
  t.all.resize(count);
  for (std::size_t n = 0; n < count; ++n) {
    t.all[n] = s().make<leaf>();
    *t.all[n] = {.id = n, .left = n > 0 ? t.all[n - 1] : nullptr, .right = t.all[n / 2], .words = {}};
    made->push_back(hidden(t.all[n]));
  }
  *held = t.all[count / 3];  // stays, and refers to what does not
  clear_stack();
  const std::uint64_t before = s().space().transient;
  for (int times = 0; times < 3; ++times) {
    t.all[count / 2]->left = &outside;
    expect_error(errc::cannot_persist, {"leaf", "which is not in the store"}, [&] {
      if (times == 2)
        tx.prepare("never");
      else
        tx.commit();
    });
    shown<leaf>((*made)[count / 2])->left = shown<leaf>((*made)[count / 2 - 1]);
    for (std::size_t n = 0; n < count; ++n) {
      ASSERT_EQ(hidden(t.all[n]), (*made)[n]);
      EXPECT_EQ(t.all[n]->left, n > 0 ? t.all[n - 1] : nullptr);
      EXPECT_EQ(t.all[n]->right, t.all[n / 2]);
    }
  }
  clear_stack();
  EXPECT_EQ(s().stats().objects_copied, 0U);
  tx.commit();
  expect_sound(s());
  EXPECT_GT(s().stats().objects_copied, count - 20);
  EXPECT_LT(s().space().transient, before + count + 20);  // the copies of commits that failed are gone
  for (std::size_t n = 0; n < count; ++n) EXPECT_EQ(t.all[n]->id, n);
  reopen();
  const trees& again = s().root<trees>("trees");
  for (std::size_t n = 0; n < count; ++n) {
    EXPECT_EQ(again.all[n]->id, n);
    EXPECT_EQ(again.all[n]->left, n > 0 ? again.all[n - 1] : nullptr);
    EXPECT_EQ(again.all[n]->right, again.all[n / 2]);
  }
}

TEST_F(copying, refuses_a_pointer_to_what_was_copied) {
  trees& t = s().root<trees>("trees");
  const auto in_malloc = std::make_unique<std::uintptr_t>();
  s().transact([&] {
    for (int n = 0; n < 10; ++n) t.all.push_back(s().make<leaf>());
    *in_malloc = hidden(t.all[5]);
    clear_stack();
  });
  ASSERT_NE(hidden(t.all[5]), *in_malloc);
  expect_error(errc::cannot_persist, {"before an earlier commit copied it"},
               [&] { s().transact([&] { t.one = shown<leaf>(*in_malloc); }); });
  expect_sound(s());
}

// Slots behind the end of a vector are not cleared. One may lead to where something is made and copied later.
TEST_F(copying, stale_bytes_lead_to_nothing_that_was_copied) {
  how.collection.quarantine = quarantine::check;
  how.tune.refill = 100;
  opened.reset();
  open();
  trees& t = s().root<trees>("trees");
  auto& stale = s().root<std_vector<leaf*>>("stale");
  constexpr std::size_t count = 2'000;
  std::set<std::uintptr_t> there;  // hidden
  {
    std::vector<handle<leaf>> held(count);  // these stay
    s().transact([&] {
      stale.push_back(s().make<leaf>());
      for (handle<leaf>& each : held) stale.push_back((each = s().make<leaf>()).get());
    });
    for (const handle<leaf>& each : held) there.insert(hidden(each.get()));
    s().transact([&] {
      stale.resize(1);
      for (handle<leaf>& each : held) s().destroy(each.get());
    });
  }
  std::uint64_t found = 0;
  const auto make_some = [&] {
    for (int n = 0; n < 2'000; ++n) {
      t.all.push_back(s().make<leaf>());
      found += static_cast<std::uint64_t>(there.count(hidden(t.all.back())));
    }
    clear_stack();
  };
  for (int n = 0; n < 4 && found < 10; ++n) s().transact(make_some);
  ASSERT_GE(found, 10U);
  s().transact([&] { stale[0] = t.all[0]; });
  std::uint64_t persistent = 0;
  for (const std::uintptr_t each : there) persistent += s().is_persistent(shown<leaf>(each)) ? 1 : 0;
  EXPECT_LT(persistent, 20U);  // a stray word may pin some
  expect_sound(s());
}

// Where there is no room for copies, objects become persistent where they are.
TEST(copying_without_room, leaves_all_objects_where_they_are) {
  sim::disk disk;
  store_options how = small_store();
  how.memory.disk = &disk;
  how.memory.background = false;
  how.memory.log = {.size = 16 << 20, .max_size = 16 << 20, .allocate_all = true};
  how.collection.roots = program_roots::handles;
  how.stabilize = stabilization::copying;
  store s("/store", how);
  trees& t = s.root<trees>("trees");
  std::vector<std::uintptr_t> made;  // hidden
  const auto make_some = [&](std::uint64_t count) {
    t.all.clear();
    made.clear();
    for (std::uint64_t n = 0; n < count; ++n) {
      t.all.push_back(s.make<leaf>());
      t.all.back()->id = n;
      made.push_back(hidden(t.all.back()));
    }
  };
  transaction tx = s.begin();
  make_some(50'000);
  clear_stack();
  disk.fill_up();
  tx.commit();
  disk.fill_up(false);
  EXPECT_EQ(s.stats().objects_copied, 0U);
  for (std::size_t n = 0; n < made.size(); ++n) {
    ASSERT_EQ(hidden(t.all[n]), made[n]);
    ASSERT_EQ(t.all[n]->id, n);
  }
  expect_sound(s);
  s.transact([&] {
    make_some(100);
    clear_stack();
  });
  EXPECT_GT(s.stats().objects_copied, 80U);
  expect_sound(s);
}

TEST_F(copying, needs_handles) {
  opened.reset();
  how.collection.roots = program_roots::all_memory;
  expect_error(errc::bad_option, {"stabilization::copying", "program_roots::handles"},
               [&] { const store never(path, how); });
  how.collection.roots = program_roots::handles;
  open();
}

}  // namespace
