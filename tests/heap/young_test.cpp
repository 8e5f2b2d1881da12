// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [heap.collection.young]: commits take back transient objects to which neither handles nor transient fields lead.
#include <sys/resource.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace young_types {

struct referring {
  vector<weak<kept_node>> all;
  vector<kept_node*> strong;
};

}  // namespace young_types
using namespace young_types;

namespace {

class young : public collecting_an_open_store {
 protected:
  young() {
    how.collection.roots = program_roots::handles;
    how.collection.young_bytes = 1;
    how.tune.most_blocks = 1;
    how.memory.background = false;  // what is checked must not change meanwhile
    reopen();
  }
  kept_node* make(std::uint64_t id) {
    kept_node* const made = s().make<kept_node>();
    made->id = id;
    return made;
  }
  // Returns how many were taken.
  std::uint64_t commit() {
    const std::uint64_t before = s().stats().young_objects;
    s().transact([&] { make(0); });  // one more
    return s().stats().young_objects - before - 1;
  }
};

TEST_F(young, takes_what_nothing_leads_to) {
  s().root<kept_list>("list");
  commit();
  for (int n = 0; n < 3'000; ++n) make(1);
  s().make<kept_buffer>();
  EXPECT_EQ(commit(), 3'001U);
  EXPECT_EQ(s().space().transient, 0U);
  EXPECT_EQ(commit(), 0U);
  expect_sound(s());
  // The space is used again.
  for (int round = 0; round < 50; ++round) {
    for (int n = 0; n < 3'000; ++n) make(1);
    s().make<kept_buffer>();
    EXPECT_EQ(commit(), 3'001U);
  }
  expect_sound(s());
  EXPECT_LE(s().space().file_bytes, 8U << 20);
}

TEST_F(young, keeps_what_handles_and_transient_fields_lead_to) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] { l.first = make(1); });
  const handle<kept_node> by_handle = make(2);
  by_handle->next = make(3);
  by_handle->next->scratch = make(4);
  make(0);  // stays: a word of a transient field may mean the end of what lies before
  l.first->scratch = make(5);
  l.first->scratch->next = make(6);
  l.first->scratch->next->next = l.first->scratch;  // a cycle
  const handle<std::uint64_t> inside = &make(7)->pad[1];
  EXPECT_EQ(commit(), 0U);
  EXPECT_EQ(s().space().transient, 7U);
  EXPECT_EQ(by_handle->next->scratch->id, 4U);
  EXPECT_EQ(l.first->scratch->next->next->id, 5U);
  make(8);
  by_handle->next->scratch = nullptr;
  EXPECT_EQ(commit(), 2U);
  l.first->scratch = nullptr;
  EXPECT_EQ(commit(), 3U);
  s().transact([&] { l.first->next = by_handle.get(); });
  EXPECT_TRUE(s().is_persistent(by_handle.get()));
  EXPECT_EQ(s().space().transient, 1U);
  expect_sound(s());
}

TEST_F(young, weak_references_to_it_are_cleared) {
  struct watched {
    weak<kept_node> first, second;
  };
  s().root<kept_list>("list");
  commit();
  handle<kept_node> kept;
  std::optional<transaction> t = s().begin();
  const handle<weak<kept_node>> first = s().make<weak<kept_node>>(), second = s().make<weak<kept_node>>();
  kept = make(1);
  *first = weak(kept.get());
  *second = weak(make(2));
  t->commit();
  EXPECT_EQ(first->lock(), kept.get());
  EXPECT_EQ(second->lock(), nullptr);
  commit();
  EXPECT_EQ(first->lock(), kept.get());
  kept = nullptr;
  commit();
  EXPECT_EQ(first->lock(), nullptr);
  expect_sound(s());
}

TEST_F(young, only_when_enough_was_made) {
  s().close();
  how.collection.young_bytes = 1 << 20;
  open();
  s().root<kept_list>("list");
  for (int n = 0; n < 1'000; ++n) make(1);
  s().transact([] {});
  EXPECT_EQ(s().stats().young_collections, 0U);
  for (int n = 0; n < 40'000; ++n) make(1);
  s().transact([] {});
  EXPECT_EQ(s().stats().young_collections, 1U);
  EXPECT_EQ(s().stats().young_objects, 41'000U);
  EXPECT_GE(s().stats().young_bytes, 41'000 * sizeof(kept_node));
}

TEST_F(young, needs_handles) {
  s().close();
  how.collection.roots = program_roots::all_memory;
  try {
    open();
    ADD_FAILURE();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
  }
  opened.reset();
}

// The thread goes on with what it has made.
TEST_F(young, not_at_a_checkpoint) {
  kept_list& l = s().root<kept_list>("list");
  transaction t = s().begin();
  kept_node* const made = make(5);
  t.checkpoint();
  l.first = made;
  t.commit();
  EXPECT_EQ(l.first->id, 5U);
  expect_sound(s());
}

// The commit is done, and others go on.
TEST_F(young, want_of_memory_for_it_is_no_failure) {
  if (address_sanitizer || thread_sanitizer) GTEST_SKIP() << "sanitizers need address space";
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] { l.first = make(1); });
  for (int n = 0; n < 1'000; ++n) make(2);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  transaction t = s().begin();
  l.first->id = 3;
  const rlimit none{1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  bool is_done = true;
  try {
    t.commit();
  } catch (...) {
    is_done = false;
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(is_done);
  std::thread([&] { s().transact([&] { EXPECT_EQ(l.first->id++, 3U); }); }).join();
  (void)commit();
  EXPECT_EQ(s().space().transient, 0U);
  expect_sound(s());
}

// What is known of weak references is still known afterwards.
TEST_F(young, weak_references_stay_what_they_are) {
  referring& r = s().root<referring>("referring");
  s().transact([&] {
    for (std::uint64_t n = 0; n < 10; ++n) {
      r.strong.push_back(make(n));
      r.all.push_back(weak(r.strong.back()));
    }
  });
  const handle<weak<kept_node>> young_one = s().make<weak<kept_node>>();
  for (std::uint64_t n = 0; n < 10; ++n) {
    s().transact([&] {
      *young_one = weak(make(n));
      (void)weak(make(n));
      EXPECT_EQ(weak(r.strong[n]), r.all[n]);
    });
    EXPECT_EQ(young_one->lock(), nullptr);
  }
  s().transact([&] {
    s().destroy(r.strong[4]);
    r.strong[4] = nullptr;
  });
  for (std::uint64_t n = 0; n < 10; ++n) EXPECT_EQ(r.all[n].lock(), r.strong[n]);
  expect_sound(s());
}

// What other threads make meanwhile, and have handles to, stays; and a collection of everything goes on beside.
TEST_F(young, while_threads_make_objects) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] { l.first = make(1); });
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t] {
      handle<kept_node> mine[8];
      for (std::uint64_t n = 0; !stop; ++n) {
        // In a reading transaction, so that no commit comes between making and keeping.
        s().read([&] {
          handle<kept_node>& place = mine[n % 8];
          kept_node* const made = make(t);
          made->next = place.get() != nullptr && n % 16 < 8 ? place.get() : nullptr;
          place = made;
        });
        s().read([&] {
          for (const handle<kept_node>& each : mine)
            for (const kept_node* at = each.get(); at != nullptr; at = at->next)
              if (at->id != t) stop = true, ADD_FAILURE();
        });
      }
    });
  for (int n = 0; n < 300 && !stop; ++n) {
    commit();
    if (n % 50 == 0) s().collect({.roots = program_roots::handles});
  }
  stop = true;
  for (std::thread& each : threads) each.join();
  expect_sound(s());
}

}  // namespace
