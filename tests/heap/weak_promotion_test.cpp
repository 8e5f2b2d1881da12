// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Weak references and queues that become persistent while a collection goes on, which has found that what they lead to is
// garbage [heap.weak.before-sweep].
#include <string>
#include <string_view>
#include <tuple>

#include <gtest/gtest.h>

#include <tenure/finalization_queue.hpp>
#include <tenure/tenure.hpp>
#include <tenure/weak.hpp>

#include "support/test_store.hpp"

namespace promoted_weak_references {

using namespace tenure;

struct target {
  std::uint64_t id = 0;
  std::uint64_t words[4] = {};
};
struct watcher {
  weak<target> weakly;
  finalization_queue<target>* queue = nullptr;
};
struct holder {
  watcher* watching = nullptr;
  target* only = nullptr;
  target* other = nullptr;
  weak<target> to_other;  // the collection has something to clear
};

// The phase in whose end it becomes persistent; whether there is a queue.
class promoted : public support::reopened_store, public ::testing::WithParamInterface<std::tuple<const char*, bool>> {};

TEST_P(promoted, lead_to_nothing_that_is_gone) {
  const std::string_view in_phase = std::get<0>(GetParam());
  const bool has_queue = std::get<1>(GetParam());
  store& s = *opened;
  handle<holder> h;
  handle<watcher> w;
  s.transact([&] {
    h = &s.root<holder>("holder");
    h->only = s.make<target>();
    h->only->id = 42;
    h->other = s.make<target>();
    h->to_other = weak<target>(h->other);
  });
  s.transact([&] {
    w = s.make<watcher>();
    w->weakly = weak<target>(h->only);
    if (!has_queue) return;
    w->queue = s.make<finalization_queue<target>>();
    w->queue->watch(h->only);
  });
  s.transact([&] { h->only = nullptr; });
  s.transact([&] { h->other = nullptr; });
  bool is_attached = false;
  const collect_report report = s.collect(
      {.roots = program_roots::handles, .quarantine = quarantine::check, .on_progress = [&](const rvm::progress& now) {
         if (is_attached || now.phase != in_phase || (in_phase == "marking" && now.done != now.total)) return;
         is_attached = true;
         s.transact([&] { h->watching = w.get(); });
       }});
  ASSERT_TRUE(is_attached);
  support::expect_sound(s);
  // Marking finds the queue, which keeps its message. Later nothing is kept that was garbage.
  const bool is_told = has_queue && in_phase == "marking";
  EXPECT_EQ(report.finalization_messages, is_told ? 1U : 0U);
  s.transact([&] {
    EXPECT_EQ(w->weakly.lock(), nullptr);
    if (!has_queue) return;
    const target* const message = w->queue->take();
    ASSERT_EQ(message != nullptr, is_told);
    EXPECT_EQ(is_told ? message->id : 42, 42U);
  });
  const collect_report after = s.collect({.roots = program_roots::handles, .quarantine = quarantine::check});
  EXPECT_EQ(after.used_after_collection, 0U);
  support::expect_sound(s);
}

class damaged_queues : public support::reopened_store {};

// As one that an earlier version has left. It would be looked for until it were marked, for ever.
TEST_F(damaged_queues, watch_nothing_where_nothing_is) {
  store& s = *opened;
  auto& queue = s.root<finalization_queue<target>>("queue");
  auto*& watched = s.root<target*>("watched");
  s.transact([&] {
    watched = s.make<target>();
    queue.watch(watched);
  });
  s.transact([&] {
    detail::finalization_entry* const entry = *reinterpret_cast<detail::finalization_entry**>(&queue);
    ASSERT_EQ(entry->watched.hidden, detail::hide(watched));
    const target* nothing = watched;
    while (s.is_persistent(nothing)) ++nothing;
    entry->watched.hidden = detail::hide(nothing);
    watched = nullptr;
  });
  const collect_report report = s.collect({.roots = program_roots::handles, .quarantine = quarantine::none});
  EXPECT_EQ(report.finalization_messages, 0U);
  EXPECT_GE(report.garbage, 1U);
  s.transact([&] { EXPECT_EQ(queue.take(), nullptr); });
}

INSTANTIATE_TEST_SUITE_P(weak_references, promoted,
                         ::testing::Combine(::testing::Values("marking", "clearing"), ::testing::Bool()));

}  // namespace promoted_weak_references
