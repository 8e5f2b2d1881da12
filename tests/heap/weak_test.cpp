// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Weak references, weak maps and finalization queues: who keeps what, and when they learn that an object is gone.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/collect.hpp>
#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"

using namespace tenure;
using namespace tenure::support;

namespace weak_test_types {

struct named {
  named* next;
  std::uint64_t id;
};
struct derived_named : named {
  std::uint64_t more;
  static constexpr auto persistent = bases<named>{} + members<&derived_named::more>{};
};
struct holder {
  tenure::vector<named*> strong;
  tenure::vector<weak<named>> all;
  weak<named> one;
  weak<std::uint64_t> inside;
};
using queue = finalization_queue<named>;
struct observed {
  observed* next;
  weak<observed> itself, other;
};
struct with_queue {
  queue messages;
};
using notes = weak_map<named, tenure::string>;

}  // namespace weak_test_types
using namespace weak_test_types;

namespace {

class weak_references_of_a_store : public reopened_store {
 protected:
  holder& h() { return s().root<holder>("holder"); }
  queue& q() { return s().root<queue>("queue"); }
  notes& n() { return s().root<notes>("notes"); }
  named* make(std::uint64_t id) {
    named* const made = s().make<named>();
    made->id = id;
    return made;
  }
  // A persistent object that `strong` keeps.
  named* make_kept(std::uint64_t id) {
    holder& in = h();
    return s().transact([&] {
      named* const made = make(id);
      made->next = make(1000 + id);
      in.strong.push_back(made);
      return made;
    });
  }
  void drop_all() {
    holder& in = h();
    s().transact([&] { in.strong.clear(); });
  }
  collect_report collect() {
    const collect_report report = s().collect({.roots = program_roots::handles});
    expect_sound(s());
    return report;
  }
};

TEST_F(weak_references_of_a_store, lead_to_objects_that_are_kept) {
  named* const it = make_kept(7);
  const weak<named> none;
  EXPECT_EQ(none.lock(), nullptr);
  s().transact([&] {
    h().one = weak(it);
    h().all.assign(3, weak(it));
    h().inside = weak(&it->id);
  });
  EXPECT_EQ(h().one.lock(), it);
  EXPECT_EQ(h().inside.lock(), &it->id);
  EXPECT_TRUE(h().one == h().all[2]);
  EXPECT_FALSE(h().one == none);
  EXPECT_EQ(collect().weak_cleared, 0U);
  reopen();
  ASSERT_NE(h().one.lock(), nullptr);
  EXPECT_EQ(h().one.lock()->id, 7U);
  EXPECT_EQ(h().inside.lock(), &h().strong[0]->id);
  // One object for all of them, also after opening again.
  s().transact([&] { EXPECT_TRUE(weak(h().strong[0]) == h().all[1]); });
  s().transact([&] { h().one = nullptr; });
  EXPECT_TRUE(h().one.expired());
}

TEST_F(weak_references_of_a_store, keep_nothing) {
  named* const it = make_kept(7);
  s().transact([&] {
    h().one = weak(it);
    h().all.assign(3, weak(it));
    h().inside = weak(&it->id);
  });
  drop_all();
  EXPECT_EQ(h().one.lock(), it);  // nobody has collected yet
  const collect_report report = collect();
  EXPECT_EQ(report.garbage, 2U);
  EXPECT_EQ(report.weak_cleared, 2U);  // two places
  for (const auto& each : h().all) EXPECT_TRUE(each.expired());
  EXPECT_EQ(h().one.lock(), nullptr);
  EXPECT_EQ(h().inside.lock(), nullptr);
  reopen();
  EXPECT_TRUE(h().one.expired());
  s().transact([&] { h().all.clear(), h().one = nullptr, h().inside = nullptr; });
  EXPECT_EQ(collect().garbage, 2U);  // the cells
}

TEST_F(weak_references_of_a_store, are_cleared_when_the_object_is_destroyed) {
  named* const it = make_kept(7);
  weak<named> outside;
  s().transact([&] { h().one = outside = weak(it); });
  reopen();
  outside = h().one;
  const auto destroy = [&] {
    s().destroy(h().strong[0]);
    h().strong.clear();
    EXPECT_EQ(h().one.lock(), nullptr);  // not for this thread
  };
  {
    transaction tx = s().begin();
    destroy();
    tx.abort();
  }
  EXPECT_EQ(h().one.lock(), h().strong[0]);
  s().transact(destroy);
  EXPECT_TRUE(outside.expired());
  s().transact([&] { EXPECT_FALSE(weak(make(1)) == h().one); });  // may lie where the other one lay
  EXPECT_TRUE(h().one.expired());
  reopen();
  EXPECT_TRUE(h().one.expired());
}

// Cells of which no root knows: an abort does not put them back by itself.
TEST_F(weak_references_of_a_store, of_the_program_only_are_put_back_by_an_abort) {
  named* const it = make_kept(7);
  const weak<named> of_program = s().transact([&] { return weak(it); });
  {
    transaction tx = s().begin();
    s().destroy(it);
    h().strong.clear();
    tx.abort();
  }
  EXPECT_EQ(of_program.lock(), it);
  {  // a commit that fails
    transaction tx = s().begin();
    s().destroy(it);
    h().strong.push_back(it);
    expect_error(errc::cannot_persist, {}, [&] { tx.commit(); });
    tx.abort();
  }
  EXPECT_EQ(of_program.lock(), it);
  s().transact([&] {
    s().destroy(it);
    h().strong.clear();
  });
  EXPECT_EQ(of_program.lock(), nullptr);
}

TEST_F(weak_references_of_a_store, made_by_an_aborted_transaction_are_gone) {
  named* const it = make_kept(7);
  {
    transaction tx = s().begin();
    h().one = weak(it);
    tx.abort();
  }
  EXPECT_TRUE(h().one == weak<named>());
  s().transact([&] { h().one = weak(it); });
  EXPECT_EQ(h().one.lock(), it);
}

TEST_F(weak_references_of_a_store, are_cleared_by_the_commit_that_leaves_their_object_behind) {
  weak<named> of_program;
  named* const behind = s().transact([&] {
    named* const it = make(1);
    h().one = weak(it);
    EXPECT_EQ(h().one.lock(), it);
    named* const stays = make(2);
    h().strong.push_back(stays);
    h().all.push_back(weak(stays));
    of_program = weak(make(3));
    return it;
  });
  EXPECT_EQ(behind->id, 1U);
  EXPECT_TRUE(h().one.expired());
  EXPECT_EQ(h().all[0].lock(), h().strong[0]);
  EXPECT_EQ(of_program.lock()->id, 3U);  // neither is persistent
  reopen();
  EXPECT_EQ(h().all[0].lock(), h().strong[0]);
}

TEST_F(weak_references_of_a_store, and_bases_and_other_databases) {
  database other = s().create_database("other", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  auto& far = other.root<holder>("far");
  s().transact([&] {
    derived_named* const made = s().make<derived_named>();
    made->id = 5;
    h().strong.push_back(made);
    far.one = weak<named>(made);
  });
  EXPECT_EQ(far.one.lock(), h().strong[0]);
  drop_all();
  EXPECT_EQ(collect().weak_cleared, 1U);
  EXPECT_TRUE(far.one.expired());
}

TEST_F(weak_references_of_a_store, refuse_what_has_no_end_of_its_own) {
  named* const it = make_kept(7);
  named on_the_stack{};
  expect_error(errc::bad_transaction, {"make a weak reference"}, [&] { (void)weak(it); });
  auto& elements = s().root<tenure::vector<named>>("elements");
  s().transact([&] {
    elements.resize(3);
    expect_error(errc::bad_weak_reference, {"in no open store"}, [&] { (void)weak(&on_the_stack); });
    expect_error(errc::bad_weak_reference, {"belongs to a container"}, [&] { (void)weak(&elements[1]); });
    expect_error(errc::bad_weak_reference, {"in no open store"}, [&] { queue().watch(&on_the_stack); });
    queue elsewhere;
    expect_error(errc::bad_weak_reference, {"finalization queue", "make it there"}, [&] { elsewhere.watch(it); });
    s().destroy(it);
    h().strong.clear();
    expect_error(errc::bad_weak_reference, {"was destroyed"}, [&] { (void)weak(it); });
  });
  expect_error(errc::bad_transaction, {}, [&] { q().watch(it); });
}

// --- While a collection goes on ------------------------------------------------------------------------------------------

TEST_F(weak_references_of_a_store, what_is_locked_while_marking_is_kept) {
  for (const bool by_reader : {false, true}) {
    named* const it = make_kept(7);
    s().transact([&] { h().one = weak(it); });
    drop_all();
    std::optional<handle<named>> got;
    const collect_report report =
        s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                       if (p.phase != std::string_view("marking") || got) return;
                       if (!by_reader) got.emplace(h().one.lock());
                       if (by_reader) s().read([&] { got.emplace(h().one.lock()); });
                     }});
    ASSERT_TRUE(got);
    EXPECT_EQ(report.garbage, by_reader ? 1U : 0U);  // the cell of the round before
    EXPECT_EQ(h().one.lock(), it);
    EXPECT_EQ((*got)->next->id, 1007U);
    expect_sound(s());
    got.reset();
    EXPECT_EQ(collect().garbage, 2U);
  }
}

// The cell of garbage is not found again, nor is the object.
TEST_F(weak_references_of_a_store, what_is_not_locked_in_time_is_gone) {
  named* const it = make_kept(7);
  s().transact([&] { h().one = weak(it); });
  drop_all();
  bool asked = false;
  const detail::weak_cell* const cell = s().transact([&] { return detail::weak_cell_of(it); });
  s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                 if (p.phase != std::string_view("clearing") || asked) return;
                 asked = true;
                 EXPECT_NE(cell->hidden, 0U);
                 EXPECT_EQ(h().one.lock(), nullptr);
               }});
  EXPECT_TRUE(asked);
  expect_sound(s());
}

TEST_F(weak_references_of_a_store, a_cell_that_is_garbage_is_not_used_again) {
  named* const it = make_kept(7);
  s().transact([&] { h().one = weak(it); });
  s().transact([&] { h().one = nullptr; });
  bool asked = false;
  s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                 if (p.phase != std::string_view("sweeping") || asked) return;
                 asked = true;
                 s().transact([&] { h().one = weak(it); });
               }});
  EXPECT_TRUE(asked);
  expect_sound(s());
  EXPECT_EQ(h().one.lock(), it);
  drop_all();
  EXPECT_EQ(collect().weak_cleared, 1U);
  EXPECT_TRUE(h().one.expired());
}

TEST_F(weak_references_of_a_store, threads_lock_while_others_collect) {
  constexpr std::uint64_t many = 400;
  s().transact([&] {
    for (std::uint64_t id = 0; id < many; ++id) {
      h().strong.push_back(make(id));
      h().all.push_back(weak(h().strong.back()));
    }
  });
  holder& in = h();
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t n = static_cast<std::uint64_t>(t); !over || n < many; ++n)
        s().read([&] {
          const named* const it = in.all[n % many].lock();
          if (it != nullptr) {
            EXPECT_EQ(it->id, n % many);
          }
        });
    });
  for (int round = 0; round < 5; ++round) {
    s().transact([&] { in.strong.resize(in.strong.size() - many / 8); });
    s().collect({.roots = program_roots::handles});
  }
  over = true;
  for (auto& each : threads) each.join();
  collect();  // what was locked while the last one marked was kept
  for (std::uint64_t id = 0; id < many; ++id) EXPECT_EQ(in.all[id].expired(), id >= in.strong.size());
}

TEST_F(weak_references_of_a_store, and_collections_of_closed_stores) {
  named* const kept = make_kept(1);
  s().transact([&] { h().all.push_back(weak(kept)); });
  s().transact([&] {
    named* const made = make(2);
    h().strong.push_back(made);
    h().all.push_back(weak(made));
    named* const watched = make(3);
    watched->next = make(4);
    h().strong.push_back(watched);
    q().watch(watched);
  });
  s().transact([&] { h().strong.resize(1); });
  s().close();
  opened.reset();
  EXPECT_EQ(tenure::collect(path, {.dry_run = true}).garbage, 1U);
  const collect_report report = tenure::collect(path);
  EXPECT_EQ(report.weak_cleared, 1U);
  EXPECT_EQ(report.finalization_messages, 1U);
  EXPECT_EQ(report.garbage, 1U);
  open();
  expect_sound(s());
  EXPECT_EQ(h().all[0].lock()->id, 1U);
  EXPECT_TRUE(h().all[1].expired());
  s().transact([&] { EXPECT_EQ(q().take()->next->id, 4U); });
}

TEST_F(weak_references_of_a_store, verify_finds_those_that_lead_to_nothing) {
  named* const it = make_kept(7);
  s().transact([&] { h().one = weak(it); });
  s().transact([&] { change(*detail::weak_cell_of(it)).hidden -= 4 << 20; });
  const auto wrong = s().verify();
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_NE(wrong[0].find("leads to"), std::string::npos) << wrong[0];
  EXPECT_NE(wrong[0].find("root holder"), std::string::npos) << wrong[0];
  s().transact([&] { h().one = nullptr; });
}

// --- Finalization ---------------------------------------------------------------------------------------------------------

TEST_F(weak_references_of_a_store, a_queue_gets_what_nothing_else_keeps) {
  named* const it = make_kept(7);
  s().transact([&] {
    q().watch(it);
    h().one = weak(it);
    h().all.push_back(weak(it->next));
  });
  EXPECT_EQ(collect().finalization_messages, 0U);
  EXPECT_TRUE(q().empty());
  drop_all();
  reopen();
  const collect_report report = collect();
  EXPECT_EQ(report.finalization_messages, 1U);
  EXPECT_EQ(report.weak_cleared, 2U);  // also to what only the message keeps
  EXPECT_EQ(report.garbage, 0U);
  EXPECT_TRUE(h().one.expired());
  EXPECT_TRUE(h().all[0].expired());
  reopen();
  EXPECT_EQ(collect().garbage, 0U);
  ASSERT_EQ(q().size(), 1U);
  {
    transaction tx = s().begin();
    EXPECT_EQ(q().take()->next->id, 1007U);
    EXPECT_EQ(q().take(), nullptr);
    tx.abort();
  }
  named* const got = s().transact([&] {
    named* const taken = q().take();
    q().watch(taken);
    h().strong.push_back(taken);
    return taken;
  });
  EXPECT_EQ(got->id, 7U);
  EXPECT_EQ(collect().finalization_messages, 0U);
  drop_all();
  EXPECT_EQ(collect().finalization_messages, 1U);
  s().transact([&] { EXPECT_EQ(q().take()->id, 7U); });
  EXPECT_EQ(collect().finalization_messages, 0U);
  EXPECT_TRUE(q().empty());
}

// Nor does a dry run count it as garbage, nor what it leads to, also by way of other queues.
TEST_F(weak_references_of_a_store, a_dry_run_says_what_queues_will_keep) {
  make_kept(8);
  s().transact([&] {
    with_queue* const other = s().make<with_queue>();
    s().root<finalization_queue<with_queue>>("queues").watch(other);
    s().root<with_queue*>("other") = other;
    other->messages.watch(make_kept(9));
    q().watch(make_kept(7));
  });
  drop_all();
  s().transact([&] { s().root<with_queue*>("other") = nullptr; });
  const collect_report dry = s().collect({.dry_run = true, .roots = program_roots::handles});
  ASSERT_EQ(dry.dropped_objects.size(), 1U);
  EXPECT_EQ(static_cast<const named*>(dry.dropped_objects[0])->id, 8U);
  EXPECT_TRUE(q().empty());
  EXPECT_EQ(dry.garbage, collect().garbage);
  EXPECT_EQ(q().size(), 1U);
}

TEST_F(weak_references_of_a_store, messages_are_read_in_their_order) {
  constexpr std::uint64_t many = 50;
  s().transact([&] {
    for (std::uint64_t id = 0; id < many; ++id) {
      h().strong.push_back(make(id));
      if (id % 2 == 0) q().watch(h().strong.back());
    }
  });
  s().transact([&] { h().strong.resize(many / 2); });
  const auto take_all = [&] {
    std::uint64_t sum = 0;
    s().transact([&] {
      while (const named* const taken = q().take()) sum += taken->id;
    });
    return sum;
  };
  EXPECT_EQ(collect().finalization_messages, many / 4);
  drop_all();
  EXPECT_EQ(collect().finalization_messages, many / 4 + 1);
  EXPECT_EQ(q().size(), many / 2);
  EXPECT_EQ(take_all(), 2 * (many / 2) * (many / 2 - 1) / 2);
}

TEST_F(weak_references_of_a_store, there_is_no_message_of_what_was_destroyed_or_has_no_queue) {
  named* const first = make_kept(1);
  named* const second = make_kept(2);
  auto& other = s().root<with_queue*>("other");
  s().transact([&] {
    other = s().make<with_queue>();
    q().watch(first);
    q().watch(make(9));  // does not become persistent
    other->messages.watch(second);
  });
  EXPECT_EQ(collect().finalization_messages, 0U);
  s().transact([&] {
    h().strong.erase(h().strong.begin());
    s().destroy(first);
    other = nullptr;  // the queue goes, too
  });
  drop_all();
  EXPECT_EQ(collect().finalization_messages, 0U);
  EXPECT_TRUE(q().empty());
  // Nothing is left but the roots and what they have.
  s().transact([&] { other = s().make<with_queue>(); });
  s().transact([&] {
    named* const third = make(3);
    h().strong.push_back(third);
    other->messages.watch(third);
  });
  s().transact([&] {
    s().destroy(other);
    other = nullptr;
  });
  drop_all();
  EXPECT_EQ(collect().finalization_messages, 0U);
}

TEST_F(weak_references_of_a_store, a_message_of_what_was_destroyed_is_gone) {
  s().transact([&] {
    named* before = nullptr;
    for (std::uint64_t id = 0; id < 4; ++id) {
      named* const made = make(id);
      made->next = before;
      q().watch(before = made);
    }
    h().strong.push_back(before);
  });
  drop_all();
  EXPECT_EQ(collect().finalization_messages, 4U);
  named* others[4] = {};
  s().transact([&] {
    for (named*& each : others) each = q().take();
    for (named* each : others) q().watch(each);
    std::ranges::sort(others, {}, &named::id);
    h().strong.push_back(others[3]);
  });
  drop_all();
  EXPECT_EQ(collect().finalization_messages, 4U);
  for (const std::uint64_t id : {2U, 0U}) {  // in the middle, and at one end or the other
    s().transact([&] {
      others[id + 1]->next = nullptr;
      s().destroy(others[id]);
    });
    expect_sound(s());
  }
  reopen();
  ASSERT_EQ(q().size(), 2U);
  s().transact([&] {
    const std::uint64_t first = q().take()->id, second = q().take()->id;
    EXPECT_EQ(first + second, 4U);
    EXPECT_EQ(q().take(), nullptr);
  });
}

TEST_F(weak_references_of_a_store, no_message_is_read_of_what_this_transaction_destroyed) {
  named* const first = make_kept(1);
  named* const second = make_kept(2);
  s().transact([&] {
    q().watch(second);
    q().watch(first);
  });
  drop_all();
  EXPECT_EQ(collect().finalization_messages, 2U);
  {
    transaction tx = s().begin();
    s().destroy(first);
    EXPECT_EQ(q().take(), second);
    EXPECT_EQ(q().take(), nullptr);
    tx.abort();
  }
  EXPECT_EQ(q().size(), 2U);
  s().transact([&] {
    s().destroy(second);
    EXPECT_EQ(q().take(), first);
    EXPECT_EQ(q().take(), nullptr);
  });
  expect_sound(s());
  EXPECT_TRUE(q().empty());
}

// The references are garbage themselves, until messages keep them.
TEST_F(weak_references_of_a_store, of_what_a_message_keeps_to_what_messages_keep_are_cleared) {
  for (const bool is_open : {true, false}) {
    auto& watched = s().root<finalization_queue<observed>>("watched");
    observed*& kept = s().root<observed*>("kept");
    s().transact([&] {
      auto* const a = s().make<observed>();
      a->next = s().make<observed>();
      a->next->other = weak(a);
      a->next->itself = weak(a->next);
      a->other = weak(kept = s().make<observed>());
      a->itself = weak(a);
      watched.watch(a);
      s().root<observed*>("gone") = a;
    });
    s().transact([&] { s().root<observed*>("gone") = nullptr; });
    if (is_open) {
      EXPECT_EQ(collect().finalization_messages, 1U);
      reopen();
    } else {
      s().close();
      opened.reset();
      EXPECT_EQ(tenure::collect(path).finalization_messages, 1U);
      open();
    }
    s().transact([&] {
      observed* const got = s().root<finalization_queue<observed>>("watched").take();
      ASSERT_NE(got, nullptr);
      EXPECT_TRUE(got->itself.expired());
      EXPECT_TRUE(got->next->itself.expired());
      EXPECT_TRUE(got->next->other.expired());
      EXPECT_EQ(got->other.lock(), s().root<observed*>("kept"));
    });
  }
}

TEST_F(weak_references_of_a_store, of_transient_objects_to_what_a_message_keeps_are_cleared) {
  const handle<holder> transient = s().make<holder>();
  named* const it = make_kept(7);
  s().transact([&] {
    q().watch(it);
    transient->one = weak(it);
    transient->inside = weak(&it->next->id);
  });
  drop_all();
  const collect_report report = collect();
  EXPECT_EQ(report.finalization_messages, 1U);
  EXPECT_EQ(report.weak_cleared, 2U);
  EXPECT_TRUE(transient->one.expired());
  EXPECT_TRUE(transient->inside.expired());
  s().transact([&] { EXPECT_EQ(q().take(), it); });
}

// --- Weak maps ------------------------------------------------------------------------------------------------------------

TEST_F(weak_references_of_a_store, a_map_has_entries_of_what_is_there) {
  constexpr std::uint64_t many = 100;
  s().transact([&] {
    for (std::uint64_t id = 0; id < many; ++id) {
      h().strong.push_back(make(id));
      n()[h().strong.back()] = tenure::string("note " + std::to_string(id));
    }
  });
  reopen();
  ASSERT_EQ(n().size(), many);
  EXPECT_EQ(*n().find(h().strong[42]), "note 42");
  s().transact([&] {
    EXPECT_EQ(n()[h().strong[42]], "note 42");
    EXPECT_TRUE(n().erase(h().strong[42]));
    EXPECT_FALSE(n().erase(h().strong[42]));
    expect_error(errc::bad_weak_reference, {"nullptr"}, [&] { (void)n()[nullptr]; });
    h().strong.resize(many / 2);
  });
  EXPECT_FALSE(n().contains(h().strong[42]));
  EXPECT_EQ(collect().weak_cleared, many / 2);
  std::uint64_t sum = 0;
  s().read([&] { n().for_each([&](const named& key, const tenure::string&) { sum += key.id; }); });
  EXPECT_EQ(sum, (many / 2) * (many / 2 - 1) / 2 - 42);
  EXPECT_EQ(n().size(), many - 1);
  // New objects may lie where those have lain.
  s().transact([&] {
    for (std::uint64_t id = 0; id < many; ++id) {
      named* const made = make(id);
      EXPECT_FALSE(n().contains(made));
      h().strong.push_back(made);
    }
    EXPECT_EQ(n().purge(), many / 2);
    EXPECT_EQ(n().size(), many / 2 - 1);
  });
}

}  // namespace
