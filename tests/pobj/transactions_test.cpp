// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions: nesting, aborts, and what a crash leaves of them.
#include <thread>

#include "pobj/scenario.hpp"

namespace tenure::pobj {
namespace {

class pobj_transactions : public pobj_test {};

node* anchor;

TEST_F(pobj_transactions, count_whole_or_not_at_all) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_OK(pobj_start());
  anchor->value = 2;
  EXPECT_OK(pobj_update(anchor));
  EXPECT_OK(pobj_set_ref(anchor, &anchor->next, new_node(3)));
  crash_and_restart();
  EXPECT_EQ(report().objects, 1u);
  EXPECT_EQ(anchor->value, 1u);
  EXPECT_EQ(anchor->next, nullptr);
}

TEST_F(pobj_transactions, nest) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_EQ(pobj_depth(), 0);
  expect_failure(POBJ_ETRANSACTION, pobj_end(), {"pobj_start"});
  expect_failure(POBJ_ETRANSACTION, pobj_abort(), {"pobj_start"});
  const auto commits = [] { return open_store()->memory.stats().flush_commits; };
  const auto before = commits();
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start());
  EXPECT_EQ(pobj_depth(), 2);
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 5));
  EXPECT_OK(pobj_end());
  EXPECT_EQ(pobj_depth(), 1);
  EXPECT_EQ(commits(), before);
  EXPECT_OK(pobj_end());
  EXPECT_EQ(commits(), before + 1);
  crash_and_restart();
  EXPECT_EQ(anchor->value, 5u);
}

// [pobj.free.deferred]
TEST_F(pobj_transactions, aborted_ones_leave_everything_as_it_was) {
  start();
  node* const second = new_node(2);
  node* const first = new_node(1, second);
  EXPECT_OK(pobj_static_set_ref(&anchor, first));
  auto* const transient = static_cast<node*>(pobj_calloc_transient(1, sizeof(node)));
  transient->value = 9;
  void* const freed_transient = pobj_malloc_transient(8);
  EXPECT_OK(pobj_start());
  void* const made = pobj_malloc(100);
  first->value = 11;
  first->next = first;
  EXPECT_OK(pobj_update(first));
  EXPECT_OK(pobj_free(second));
  EXPECT_OK(pobj_persistify(transient));
  EXPECT_OK(pobj_free(freed_transient));
  EXPECT_OK(pobj_static_set_ref(&anchor, nullptr));
  second->value = 22;  // never updated: it stays
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_depth(), 0);
  EXPECT_EQ(pobj_is_object(made), 0);
  EXPECT_EQ(first->value, 1u);
  EXPECT_EQ(first->next, second);
  EXPECT_EQ(second->value, 22u);
  EXPECT_EQ(pobj_is_persistent(second), 1);
  EXPECT_EQ(pobj_is_persistent(transient), 0);
  EXPECT_EQ(transient->value, 9u);
  EXPECT_EQ(pobj_is_object(freed_transient), 1);
  EXPECT_EQ(anchor, first);
  restart();
  EXPECT_EQ(report().objects, 2u);
  EXPECT_EQ(anchor->next->value, 2u);
}

TEST_F(pobj_transactions, unpersistified_and_persistified_again) {
  start();
  node* const n = new_node(1);
  EXPECT_OK(pobj_static_set_ref(&anchor, n));
  for (const bool commit : {false, true}) {
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_unpersistify(n));
    n->value = 2;
    EXPECT_OK(pobj_persistify(n));
    EXPECT_OK(pobj_unpersistify(n));
    EXPECT_EQ(pobj_is_persistent(n), 0);
    n->value = 3;
    EXPECT_OK(pobj_persistify(n));
    EXPECT_OK(pobj_static_set_ref(&anchor, n));
    if (commit) {
      EXPECT_OK(pobj_end());
    } else {
      EXPECT_OK(pobj_abort());
    }
    EXPECT_EQ(pobj_is_persistent(n), 1);
  }
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_unpersistify(n));
  EXPECT_OK(pobj_free(n));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_is_persistent(n), 1);
  restart();
  EXPECT_EQ(report().objects, 1u);
  EXPECT_EQ(anchor->value, 3u);
}

TEST_F(pobj_transactions, a_nested_abort_dooms_what_encloses_it) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(anchor->value, 1u);
  EXPECT_EQ(pobj_depth(), 2);
  expect_failure(POBJ_EABORTED, pobj_set_ulong(anchor, &anchor->value, 3), {"nested pobj_abort"});
  EXPECT_EQ(pobj_malloc(8), nullptr);
  EXPECT_NE(pobj_malloc_transient(8), nullptr);
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_end());
  expect_failure(POBJ_EABORTED, pobj_end(), {"over"});
  EXPECT_EQ(pobj_depth(), 0);
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 4));
  // Aborting all the way is no error.
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_abort());
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(anchor->value, 4u);
  restart();
  EXPECT_EQ(anchor->value, 4u);
}

TEST_F(pobj_transactions, space_of_aborted_ones_is_used_again) {
  start();
  for (int i = 0; i < 200; ++i) {
    EXPECT_OK(pobj_start());
    for (int k = 0; k < 10; ++k) EXPECT_NE(pobj_malloc(1000), nullptr);
    EXPECT_OK(pobj_abort());
  }
  EXPECT_EQ(open_store()->region.size(), 256u << 10);
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  crash_and_restart();
  EXPECT_EQ(report().objects, 1u);
}

TEST_F(pobj_transactions, of_a_thread_that_ends_are_aborted) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  std::thread([] {
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
  }).join();
  EXPECT_EQ(anchor->value, 1u);
  EXPECT_OK(pobj_close());
}

TEST_F(pobj_transactions, that_cannot_commit_can_be_aborted) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_set_ulong(anchor, &anchor->value, 2));
  node* const made = new_node(3);
  disk->inject({.kind = sim::operation::durable_write, .path = "log", .count = sim::for_ever});
  expect_failure(POBJ_EIO, pobj_end(), {"log"});
  EXPECT_EQ(pobj_depth(), 1);
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_is_object(made), 0);
  EXPECT_EQ(anchor->value, 1u);
  expect_failure(POBJ_EIO, pobj_update(anchor), {"log"});
  EXPECT_NE(pobj_close(), POBJ_OK);  // says so, and is closed
  disk->clear_faults();
  start();
  EXPECT_EQ(anchor->value, 1u);
}

}  // namespace
}  // namespace tenure::pobj
