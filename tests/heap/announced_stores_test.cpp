// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores that are opened with barriers: what a commit makes of announced stores, and of unseen ones.
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/barriers.hpp>
#include <tenure/tenure.hpp>

#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace announced_objects {

struct measured {
  transient<long> cached;
  long values[200];
};
struct chain {
  long value = 0;
  chain* next = nullptr;
};

struct weak_node {
  long id = 0;
  weak<weak_node> w;
};
struct weak_nodes {
  weak_node* slot[64] = {};
};

}  // namespace announced_objects
using announced_objects::chain, announced_objects::measured, announced_objects::weak_node,
    announced_objects::weak_nodes;

class announced_store_test : public reopened_store {
 protected:
  void open_with(rvm::write_barriers barriers) {
    how.barriers = barriers;
    reopen();
  }
};

TEST_F(announced_store_test, announced_changes_and_new_objects_are_stored) {
  for (const rvm::write_barriers barriers :
       {rvm::write_barriers::announced, rvm::write_barriers::cards, rvm::write_barriers::checking}) {
    how.memory.on_unseen_store = [](const rvm::unseen_store& each) { ADD_FAILURE() << each.what; };
    open_with(barriers);
    chain& root = s().root<chain>("root");
    for (long n = 1; n <= 300; ++n)
      s().transact([&] {
        chain* const made = s().make<chain>();
        made->value = n;
        made->next = root.next;
        change(root.next) = made;
        change(root.value) = n;
      });
    reopen();
    chain* at = s().root<chain>("root").next;
    for (long n = 300; n > 0; --n, at = at->next) ASSERT_EQ(at->value, n);
    EXPECT_EQ(s().root<chain>("root").value, 300);
  }
}

TEST_F(announced_store_test, cards_keep_what_was_unseen_beside_transient_fields) {
  open_with(rvm::write_barriers::cards);
  measured& m = s().root<measured>("root");
  for (int n = 0; n < 5; ++n) s().transact([&] { change(m.values[0]) = n; });
  s().transact([&] {
    change(m.values[0]) = 7;
    m.values[150] = 8;  // in another card
  });
  for (int n = 0; n < 500; ++n) s().transact([] {});
  reopen();
  EXPECT_EQ(s().root<measured>("root").values[0], 7);
  EXPECT_EQ(s().root<measured>("root").values[150], 8);
}

TEST_F(announced_store_test, checking_names_object_type_and_field) {
  open_with(rvm::write_barriers::checking);
  measured& m = s().root<measured>("root");
  s().transact([&] { change(m.values[0]) = 1; });
  {
    transaction tx = s().begin();
    m.values[150] = 8;
    expect_error(errc::unseen_store, {"announced_objects::measured", "values"}, [&] { tx.commit(); });
    tx.abort();
  }
  EXPECT_EQ(m.values[150], 0);
}

// What a transient object had, a collection leaves where it was.
TEST_F(announced_store_test, collections_leave_nothing_that_is_taken_for_unseen) {
  std::atomic<int> told = 0;
  how.memory.on_unseen_store = [&](const rvm::unseen_store&) { ++told; };
  open_with(rvm::write_barriers::announced);
  weak_nodes& root = s().root<weak_nodes>("nodes");
  std::atomic<bool> stop = false;
  std::thread collector([&] {
    while (!stop) (void)s().collect({.roots = program_roots::handles});
  });
  std::mt19937_64 random(11);
  const auto slot = [&]() -> weak_node*& { return root.slot[random() % 64]; };
  for (std::size_t n = 0; n < rvm::testing::scaled(30'000) && told == 0; ++n)
    s().transact(
        [&] {
          for (int k = 0; k < 3; ++k) {
            if (random() % 2 != 0)
              change(slot()) = s().make<weak_node>();
            else if (weak_node* const a = slot(), * const b = slot(); a != nullptr && b != nullptr)
              change(a->w) = weak<weak_node>(b);
          }
        },
        commit_mode::lazy);
  stop = true;
  collector.join();
  EXPECT_EQ(told, 0);
  how.memory.on_unseen_store = {};
}
