// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Threads with transactions of their own, on objects of their own that refer to shared ones.
#include <latch>
#include <thread>
#include <vector>

#include "pobj/scenario.hpp"

namespace tenure::pobj {
namespace {

class pobj_threads : public pobj_test {};

constexpr std::size_t thread_count = 4;
node* anchors[thread_count];
node* shared;

struct pair {
  node* next;
  node* shared;
  std::uint64_t value;
};
constexpr std::size_t pair_references[] = {offsetof(pair, next), offsetof(pair, shared), POBJ_END};

// One more in front of the list, one at its end less; sometimes all of it aborted.
void one_transaction(std::size_t which, std::uint64_t n) {
  EXPECT_OK(pobj_start());
  auto* const p = static_cast<pair*>(pobj_malloc(sizeof(pair)));
  EXPECT_OK(n % 2 == 0 ? pobj_ref_typify(p, pair_references) : pobj_ref_flag(p, &p->next));
  EXPECT_OK(pobj_ref_flag(p, &p->shared));
  *p = {anchors[which], shared, n};
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_static_set_ref(&anchors[which], p));
  void* const scratch = pobj_malloc_transient(100);
  EXPECT_OK(pobj_persistify(scratch));
  EXPECT_OK(pobj_free(scratch));
  EXPECT_OK(pobj_update_recursive(p, 0));
  EXPECT_OK(pobj_start_inner());
  EXPECT_NE(pobj_malloc(50), nullptr);
  p->value = n + 1;
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(p->value, n);
  if (n % 5 == 0) {
    EXPECT_OK(pobj_abort());
  } else {
    EXPECT_OK(pobj_end());
  }
}

TEST_F(pobj_threads, work_side_by_side) {
  test_hooks::background = true;
  start();
  constexpr std::uint64_t transactions = 100;
  shared = new_node(42);
  EXPECT_OK(pobj_static_update_ref(&shared));
  for (auto*& a : anchors) EXPECT_OK(pobj_static_set_ref(&a, nullptr));
  std::vector<std::thread> threads;
  for (std::size_t which = 0; which < thread_count; ++which)
    threads.emplace_back([which] {
      for (std::uint64_t n = 1; n <= transactions; ++n) one_transaction(which, n);
    });
  // Another one looks at what is not its own, as far as that is allowed.
  std::thread looking([] {
    pobj_report report;
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(pobj_is_persistent(shared), 1);
      EXPECT_EQ(pobj_size(shared), sizeof(node));
      EXPECT_OK(pobj_get_report(&report));
      EXPECT_EQ(pobj_unbound(0), nullptr);
    }
  });
  for (auto& t : threads) t.join();
  looking.join();
  crash_and_restart();
  EXPECT_EQ(report().objects, 1 + thread_count * transactions * 4 / 5);
  for (node* const a : anchors) {
    std::uint64_t expected = transactions;
    for (const auto* p = reinterpret_cast<const pair*>(a); p != nullptr; p = reinterpret_cast<const pair*>(p->next)) {
      if (expected % 5 == 0) --expected;
      EXPECT_EQ(p->value, expected--);
      EXPECT_EQ(p->shared, shared);
    }
    EXPECT_EQ(expected, 0u);
  }
}

// No store is open yet whose lock they could take.
TEST_F(pobj_threads, name_variables_before_there_is_a_store) {
  static node* named[thread_count][20];
  std::latch all(thread_count);
  std::vector<std::thread> threads;
  for (auto& mine : named)
    threads.emplace_back([&all, &mine] {
      all.arrive_and_wait();
      for (int round = 0; round < 2000; ++round)
        for (auto& each : mine) {
          const std::string name = std::to_string(reinterpret_cast<std::uintptr_t>(&each));
          EXPECT_OK(pobj_static_named(name.c_str(), &each, sizeof each, nullptr));
          if (&each == &mine[0]) continue;
          EXPECT_OK(pobj_static_named(name.c_str(), nullptr, 0, nullptr));
        }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(named_statics().size(), thread_count);
  named_statics().clear();
}

}  // namespace
}  // namespace tenure::pobj
