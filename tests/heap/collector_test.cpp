// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Garbage collection of open stores: what goes and what stays, misuse, many threads, collections by themselves.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/waiting_thread.hpp"

namespace collector_test_types {

template <std::size_t N>
struct numbered {
  std::uint64_t number;
};

}  // namespace collector_test_types

using namespace tenure;
using namespace tenure::support;

namespace {

// --- What goes and what stays -----------------------------------------------------------------------------------------------

TEST_F(collecting_an_open_store, takes_what_nothing_leads_to) {
  kept_list& l = s().root<kept_list>("list");
  constexpr std::size_t many = 2'000;
  const auto fill = [&] {
    for (std::size_t n = 0; n < many; ++n) {
      l.all.push_back(s().make<kept_node>());
      l.all.back()->id = n;
      l.all.back()->next = n == 0 ? nullptr : l.all[n - 1];  // one chain
    }
  };
  s().transact(fill);
  EXPECT_EQ(s().collect({.roots = program_roots::handles}).garbage, 0U);
  s().transact([&] { l.all.resize(many / 2); });
  const collect_report report = s().collect({.roots = program_roots::handles});
  EXPECT_EQ(report.garbage, many / 2);
  EXPECT_GT(report.transactions, 0U);
  ASSERT_FALSE(report.types.empty());
  EXPECT_TRUE(report.types.front().type.ends_with("kept_node"));
  for (std::size_t n = 0; n < many / 2; ++n) ASSERT_EQ(l.all[n]->id, n);
  expect_sound(s());
  s().transact([&] { l.all.clear(); });
  EXPECT_EQ(s().collect({.roots = program_roots::handles}).garbage, many / 2);
  reopen();
  kept_list& again = s().root<kept_list>("list");
  EXPECT_TRUE(again.all.empty());
}

TEST_F(ambiguous_roots, takes_transient_objects_too) {
  constexpr std::uint64_t many = 1'000;
  // Cycles of two, because the stack may still have the address of one.
  const auto make = [&]() __attribute__((noinline)) {
    for (std::uint64_t n = 0; n < many / 2; ++n) {
      kept_node* const made = s().make<kept_node>();
      made->next = s().make<kept_node>();
      made->next->next = made;
    }
  };
  make();
  const collect_report report = collect();
  EXPECT_GE(report.transient_garbage, many / 2);
  EXPECT_EQ(report.garbage, 0U);
}

TEST_F(collecting_an_open_store, tells_what_would_go) {
  const std::uintptr_t it = make_garbage(1);
  std::vector<std::string> phases;
  const collect_report report =
      s().collect({.dry_run = true, .roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                     if (phases.empty() || phases.back() != p.phase) phases.emplace_back(p.phase);
                   }});
  EXPECT_EQ(report.garbage, 2 * objects);
  ASSERT_EQ(report.dropped.size(), 1U);  // each of these refers to another one
  EXPECT_EQ(report.dropped[0].type, type_of<kept_node>().name);
  EXPECT_EQ(report.dropped[0].objects, objects);
  ASSERT_EQ(report.dropped_objects.size(), objects);
  for (const void* each : report.dropped_objects) EXPECT_EQ(std::ranges::count(garbage, hidden(each)), 1);
  EXPECT_EQ(report.transactions, 0U);
  EXPECT_TRUE(is_there(it));
  EXPECT_EQ(phases, (std::vector<std::string>{"marking", "sweeping"}));
}

TEST_F(collecting_an_open_store, gives_disk_space_back_if_asked) {
  auto& buffers = s().root<tenure::vector<kept_buffer*>>("buffers");
  s().transact([&] {
    for (int n = 0; n < 40; ++n) buffers.push_back(s().make<kept_buffer>());
  });
  s().transact([&] { buffers.resize(10); });
  EXPECT_EQ(s().collect({.dry_run = true, .roots = program_roots::handles, .trim = true}).trimmed_bytes, 0U);
  EXPECT_EQ(s().collect({.roots = program_roots::handles}).trimmed_bytes, 0U);
  s().transact([&] { buffers.resize(5); });
  std::vector<std::string> phases;
  const collect_report report =
      s().collect({.roots = program_roots::handles, .trim = true, .on_progress = [&](const rvm::progress& p) {
                     if (phases.empty() || phases.back() != p.phase) phases.emplace_back(p.phase);
                   }});
  EXPECT_EQ(report.garbage, 5U);
  EXPECT_GE(report.trimmed_bytes, 30 * sizeof(kept_buffer));
  EXPECT_EQ(phases.back(), "trimming");
  expect_sound(s());
  s().transact([&] { buffers.push_back(s().make<kept_buffer>()); });
  reopen();
}

TEST_F(collecting_an_open_store, tells_what_refers_to_an_object) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] {
    l.all.push_back(s().make<kept_node>());
    l.first = l.all[0];
    l.first->next = s().make<kept_node>();
  });
  kept_node* const transient = s().make<kept_node>();
  transient->next = l.first->next;
  const auto ends_with = [](const std::vector<std::string>& found, std::string_view end) {
    return std::ranges::count_if(found, [&](const std::string& each) { return each.ends_with(end); });
  };
  auto found = s().who_refers(&l);
  EXPECT_EQ(found, std::vector<std::string>{"root list of main"});
  found = s().who_refers(&l.first->id);
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(ends_with(found, "[0]"), 1);
  EXPECT_EQ(ends_with(found, ".first"), 1);
  const handle<kept_node> held = l.first->next;
  found = s().who_refers(held.get());
  EXPECT_EQ(found.size(), 3U);
  EXPECT_EQ(ends_with(found, ".next"), 2);
  EXPECT_EQ(ends_with(found, "a handle of the program"), 1);
  EXPECT_TRUE(s().who_refers(transient).empty());
  l.first->scratch = transient;
  EXPECT_EQ(ends_with(s().who_refers(transient), ".scratch"), 1);
  expect_error(errc::bad_option, {"there is no object"}, [&] { (void)s().who_refers(&found); });
}

// And not the one that ends where it begins.
TEST_F(collecting_an_open_store, a_handle_keeps_its_object_only) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] {
    for (int n = 0; n < 300; ++n) l.all.push_back(s().make<kept_node>());
  });
  const auto next =
      std::ranges::adjacent_find(l.all, [](const kept_node* a, const kept_node* b) { return a + 1 == b; });
  ASSERT_NE(next, l.all.end());
  const handle<kept_node> held = *(next + 1);
  s().transact([&] { l.all.erase(next, next + 2); });
  EXPECT_EQ(s().collect({.roots = program_roots::handles}).garbage, 1U);
  EXPECT_FALSE(s().who_refers(held.get()).empty());
}

TEST_F(collecting_an_open_store, space_is_used_again) {
  s().close();
  how.memory.background = false;  // what is checked in the end must not change meanwhile
  open();
  kept_list& l = s().root<kept_list>("list");
  tenure::vector<kept_buffer*>& buffers = s().root<tenure::vector<kept_buffer*>>("buffers");
  // Without being used again, it would be 27 MB.
  for (int round = 0; round < 24; ++round) {
    s().transact([&] {
      l.all.clear();
      buffers.clear();
      for (int n = 0; n < 3'000; ++n) l.all.push_back(s().make<kept_node>());
      for (int n = 0; n < 10; ++n) buffers.push_back(s().make<kept_buffer>());
    });
    s().collect({.roots = program_roots::handles});
  }
  EXPECT_LE(std::filesystem::file_size(path + "/main.db"), 16U << 20);
}

TEST_F(ambiguous_roots, keeps_what_handles_refer_to) {
  for (const program_roots roots : {program_roots::handles, program_roots::all_memory}) {
    const std::uintptr_t kept = make_garbage(5);
    {
      handle<kept_node> h = shown(kept);
      const handle<kept_node> other = h;
      const handle<void> untyped = other.get();
      h = nullptr;
      s().collect({.roots = roots});
      EXPECT_TRUE(is_there(kept));
      EXPECT_EQ(other->next->id, 0U);
      EXPECT_LE(left(), roots == program_roots::handles ? 1U : objects / 2);
    }
    s().collect({.roots = program_roots::handles});
    EXPECT_EQ(left(), 0U);
  }
}

TEST_F(collecting_an_open_store, with_handles_takes_what_only_the_stack_has) {
  kept_node* volatile const on_the_stack = shown(make_garbage(5));
  const std::uintptr_t it = hidden(on_the_stack);
  s().collect({.roots = program_roots::handles});
  EXPECT_FALSE(is_there(it));
}

// They are no roots: a cycle over a transient field of garbage is garbage.
TEST_F(collecting_an_open_store, takes_cycles_over_transient_fields) {
  make_garbage(9);
  const auto tie = [&]() __attribute__((noinline)) {
    for (const std::uintptr_t each : garbage) {
      kept_node* const other = s().make<kept_node>();
      other->next = shown(each);
      shown(each)->scratch = other;
    }
  };
  tie();
  const collect_report report = s().collect({.roots = program_roots::handles});
  EXPECT_EQ(left(), 0U);
  EXPECT_EQ(report.garbage, 2 * objects);
  EXPECT_EQ(report.transient_garbage, objects);
}

// --- What changes meanwhile ----------------------------------------------------------------------------------------------

// The change is made at each step of marking in turn: whatever the marker has seen then, it finds what only one reference led to.
class changing_at_every_step : public collecting_an_open_store {
 protected:
  // `change` gets the node that refers to the only one with number 7, and another one; `later` is called three steps after it.
  template <class Change, class Later>
  void run(Change&& change, Later&& later) {
    s().close();
    how.tune.marked_at_once = 1;
    open();
    kept_list& l = s().root<kept_list>("list");
    bool is_over = false;
    for (int step = 0; !is_over && !HasFailure(); ++step) {
      s().transact([&] {
        l.all.clear();
        for (int n = 0; n < 12; ++n) l.all.push_back(s().make<kept_node>());
        l.all[3]->next = s().make<kept_node>();
        l.all[3]->next->id = 7;
      });
      int steps = 0;
      s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                     if (p.phase != std::string_view("marking")) return;
                     const bool is_last = p.done == p.total;
                     if (steps == step && !is_last) change(l);
                     if (steps == step + 3 || (is_last && steps > step && steps < step + 3)) later(l);
                     ++steps;
                   }});
      is_over = steps <= step + 4;
      std::uint64_t found = 0;
      for (const kept_node* each : l.all)
        for (const kept_node* n = each; n != nullptr; n = n->next) found += n->id == 7;
      ASSERT_EQ(found, 1U) << step;
      expect_sound(s());
    }
  }
};

// [heap.collection.snapshot]
TEST_F(changing_at_every_step, a_moved_reference_is_followed) {
  const auto nothing = [](kept_list&) {};
  for (const std::size_t to : {0UL, 11UL})
    run([&](kept_list& l) { s().transact([&] { l.all[to]->next = std::exchange(l.all[3]->next, nullptr); }); },
        nothing);
}
TEST_F(changing_at_every_step, what_a_destroyed_object_referred_to_is_followed) {
  const auto nothing = [](kept_list&) {};
  for (const std::size_t to : {0UL, 11UL})
    run(
        [&](kept_list& l) {
          s().transact([&] {
            kept_node* const gone = l.all[3];
            l.all[to]->next = gone->next;
            l.all.erase(l.all.begin() + 3);
            s().destroy(gone);
          });
        },
        nothing);
}
// A transaction whose end shows no change: what the marker has seen between is nowhere.
TEST_F(changing_at_every_step, what_was_away_for_a_while_is_followed) {
  std::optional<transaction> open_one;
  std::uintptr_t away = hidden(nullptr);
  for (const bool is_committed : {true, false})
    run(
        [&](kept_list& l) {
          open_one = s().begin();
          away = hidden(std::exchange(l.all[3]->next, nullptr));
        },
        [&](kept_list& l) {
          if (!open_one) return;
          l.all[3]->next = shown(away);
          if (is_committed)
            open_one->commit();
          else
            open_one->abort();
          open_one.reset();
        });
}
// [heap.inner.collected]
TEST_F(changing_at_every_step, what_an_inner_abort_puts_back_is_followed) {
  std::optional<transaction> open_one, inner;
  for (const bool is_committed : {true, false})
    for (const bool is_destroyed : {true, false})
      run(
          [&](kept_list& l) {
            open_one = s().begin();
            inner = s().begin();
            kept_node* const gone = l.all[3];
            gone->next = nullptr;
            if (!is_destroyed) return;
            l.all.erase(l.all.begin() + 3);
            s().destroy(gone);
          },
          [&](kept_list&) {
            if (!open_one) return;
            inner->abort();
            if (is_committed)
              open_one->commit();
            else
              open_one->abort();
            inner.reset();
            open_one.reset();
          });
}
TEST_F(changing_at_every_step, what_an_abort_puts_back_is_followed) {
  std::optional<transaction> open_one;
  run(
      [&](kept_list& l) {
        open_one = s().begin();
        l.all[3]->next = nullptr;
      },
      [&](kept_list&) {
        if (open_one) open_one->abort();
        open_one.reset();
      });
}
TEST_F(changing_at_every_step, what_a_transaction_moves_before_it_commits_is_followed) {
  std::optional<transaction> open_one;
  run(
      [&](kept_list& l) {
        open_one = s().begin();
        l.all[0]->next = std::exchange(l.all[3]->next, nullptr);
      },
      [&](kept_list&) {
        if (open_one) open_one->commit();
        open_one.reset();
      });
}

// A larger table of types takes the place of one that the marker has met, and has not followed yet.
template <std::size_t First, std::size_t... N>
void make_numbered(store& in, std::index_sequence<N...>) {
  in.transact([&] { (void)(..., in.root<numbered<First + N>>("number " + std::to_string(First + N))); });
}
TEST_F(changing_at_every_step, the_types_of_a_table_that_is_replaced_are_followed) {
  constexpr std::size_t some = 40;  // more than the table has room for, each time
  constexpr auto types = std::make_index_sequence<some>();
  how.tune.marked_at_once = 1;
  bool is_over = false;
  for (int step = 0; !is_over && !HasFailure(); ++step) {
    s().close();
    path = dir / ("store of step " + std::to_string(step));
    how.create.home = next_home(how.create.reservation);
    open();
    s().transact([&] {  // what follows lies on other pages
      for (kept_list& l = s().root<kept_list>("list"); l.all.size() < 500;) l.all.push_back(s().make<kept_node>());
    });
    make_numbered<0>(s(), types);
    s().transact([&] { s().root<kept_list>("list").all.clear(); });
    int steps = 0;
    s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                   if (p.phase != std::string_view("marking") || p.done == p.total) return;
                   if (steps++ == step) make_numbered<some>(s(), types);
                 }});
    is_over = steps <= step;
    expect_sound(s());
    reopen();
  }
}

// --- Misuse ---------------------------------------------------------------------------------------------------------------

TEST_F(collecting_an_open_store, refuses_to_wait_for_the_callers_own_transaction) {
  const auto refused = [&] { expect_error(errc::bad_transaction, {"collect()", path}, [&] { (void)s().collect(); }); };
  s().transact(refused);
  s().read(refused);
  expect_error(errc::bad_option, {"objects_at_once"}, [&] { (void)s().collect({.objects_at_once = 0}); });
  expect_error(errc::bad_option, {"markers is 0"}, [&] { (void)s().collect({.markers = 0}); });
  s().close();
  expect_error(errc::closed, {path}, [&] { (void)s().collect(); });
  how.mode = rvm::open_mode::read_only;
  open();
  expect_error(errc::read_only, {path}, [&] { (void)s().collect(); });
}

TEST_F(collecting_an_open_store, closing_ends_it) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] {
    for (int n = 0; n < 1'000; ++n) l.all.push_back(s().make<kept_node>());
  });
  std::atomic<bool> is_marking{false};
  std::exception_ptr failed;
  std::thread other([&] {
    try {
      s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress&) {
                     is_marking = true;
                     while (is_marking) std::this_thread::yield();
                     is_marking = true;
                   }});
    } catch (...) {
      failed = std::current_exception();
    }
  });
  while (!is_marking) std::this_thread::yield();
  // close() waits for the cycle, which finds out when it goes on.
  EXPECT_TRUE(waits_for([&] { is_marking = false; },
                        [&](std::atomic<bool>& is_in) {
                          s().close();
                          is_in = true;
                        }));
  other.join();
  expect_error(errc::closed, {"being closed"}, [&] {
    if (failed) std::rethrow_exception(failed);
  });
  open();
  EXPECT_EQ(s().root<kept_list>("list").all.size(), 1'000U);
}

TEST_F(collecting_an_open_store, a_failure_of_the_callback_ends_it) {
  const std::uintptr_t it = make_garbage(1);
  EXPECT_THROW((void)s().collect({.roots = program_roots::handles,
                                  .on_progress = [](const rvm::progress&) { throw std::runtime_error("no"); }}),
               std::runtime_error);
  EXPECT_TRUE(is_there(it));
  EXPECT_EQ(s().stats().collections_put_off, 1U);
  s().collect({.roots = program_roots::handles});
  EXPECT_EQ(left(), 0U);
}

// --- Many threads -----------------------------------------------------------------------------------------------------------

// Each has a list of its own, which it turns round, cuts and lengthens; half of what is there is in its stack or in malloc's memory
// only from time to time.
template <class Pointer>
void change_beside_collections(store& in, program_roots roots) {
  kept_list& l = in.root<kept_list>("list");
  constexpr std::size_t threads = 8, length = 60;
  in.transact([&] {
    for (std::size_t n = 0; n < threads; ++n) l.all.push_back(nullptr);
  });
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> rounds{0}, allowed{0};
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      rvm::testing::random_source random(t + 1);
      std::vector<Pointer> taken;  // by the program
      const auto expect_list = [&](const kept_node* at) {
        std::size_t found = 0;
        for (; at != nullptr; at = at->next, ++found) ASSERT_EQ(at->id, t);
        ASSERT_LE(found, 2 * length);
      };
      const auto make = [&] {
        auto* const made = in.make<kept_node>();
        made->id = t;
        return made;
      };
      while (!is_over) {
        if (rounds >= allowed) {
          std::this_thread::yield();
          continue;
        }
        in.transact(
            [&] {
              kept_node*& first = l.all[t];
              expect_list(first);
              switch (random.below(4)) {
                case 0:  // round
                  for (kept_node *from = std::exchange(first, nullptr), *next; from != nullptr; from = next) {
                    next = from->next;
                    from->next = first;
                    first = from;
                  }
                  break;
                case 1:  // what is cut off is garbage, or the program's
                  if (first != nullptr) {
                    kept_node* const cut = std::exchange(first->next, nullptr);
                    if (cut != nullptr && random.one_in(2)) taken.push_back(Pointer(cut));
                  }
                  break;
                default:
                  for (std::size_t n = 0; n < length / 4; ++n) {
                    kept_node* const made = make();
                    made->next = first;
                    first = made;
                  }
              }
              if (!taken.empty() && random.one_in(3)) {
                expect_list(&*taken.back());
                kept_node* const made = make();
                made->next = &*taken.back();
                first = made;
                taken.pop_back();
              }
              std::size_t n = 0;
              for (kept_node* at = first; at != nullptr; at = at->next)
                if (++n == length) at->next = nullptr;
            },
            commit_mode::lazy);
        for (const Pointer& each : taken) expect_list(&*each);
        if (taken.size() > 4) taken.erase(taken.begin());
        ++rounds;
      }
    });
  std::uint64_t garbage = 0;
  for (std::uint64_t cycles = std::max<std::uint64_t>(4, rvm::testing::scaled(12)); cycles != 0; --cycles) {
    allowed += 800;
    while (rounds + 400 < allowed) std::this_thread::yield();
    garbage += in.collect({.roots = roots, .markers = static_cast<std::uint32_t>(cycles % 3 + 1)}).garbage;
  }
  is_over = true;
  for (std::thread& each : all) each.join();
  EXPECT_GT(garbage, 100U);
  expect_sound(in);
}

TEST_F(ambiguous_roots, while_threads_change_it) {
  change_beside_collections<kept_node*>(s(), program_roots::all_memory);
}
TEST_F(collecting_an_open_store, while_threads_with_handles_change_it) {
  change_beside_collections<handle<kept_node>>(s(), program_roots::handles);
}

// ThreadSanitizer says nothing of it: an abort writes again what the sweep reads beside it.
TEST_F(collecting_an_open_store, sweeps_beside_an_abort) {
  make_garbage(5);
  kept_list& l = s().root<kept_list>("list");
  std::atomic<bool> begun{false}, aborted{false};
  std::thread other([&] {
    while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield();
    transaction tx = s().begin();
    l.first = s().make<kept_node>();
    tx.abort();
    aborted.store(true, std::memory_order_relaxed);
  });
  s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                 if (std::string_view(p.phase) != "sweeping") return;
                 begun.store(true, std::memory_order_relaxed);
                 while (!aborted.load(std::memory_order_relaxed)) std::this_thread::yield();
               }});
  other.join();
  EXPECT_EQ(left(), 0U);
}

TEST_F(collecting_an_open_store, space_is_counted) {
  make_garbage(5);
  const auto made = [&]() __attribute__((noinline)) { (void)s().make<kept_node>(); };
  made();
  EXPECT_EQ(s().space().transient, 1U);
  EXPECT_EQ(s().space().garbage_estimate, 0U);
  EXPECT_EQ(s().collect({.dry_run = true, .roots = program_roots::handles}).garbage, 2 * objects);
  EXPECT_EQ(s().stats().collections, 0U);
  s().collect({.roots = program_roots::handles});
  EXPECT_EQ(s().stats().collections, 1U);
  EXPECT_EQ(s().stats().collected_objects, 2 * objects + 1);
  EXPECT_GE(s().stats().collected_bytes, (2 * objects + 1) * sizeof(kept_node));
  EXPECT_EQ(s().stats().collections_put_off, 0U);
  space_report space = s().space();
  EXPECT_EQ(space.transient, 0U);
  for (const type_count& each : space.types) EXPECT_FALSE(each.type.ends_with("kept_node"));
  // What is made next will probably be garbage, too.
  make_garbage(5);
  space = s().space();
  EXPECT_GT(space.garbage_estimate, 0U);
  EXPECT_LE(space.garbage_estimate, space.object_bytes);
}

// --- By itself --------------------------------------------------------------------------------------------------------------

TEST_F(ambiguous_roots, happens_by_itself) {
  s().close();
  std::atomic<int> cycles{0};
  std::atomic<std::uint64_t> garbage{0};
  how.collection.enabled = true;
  how.collection.after_bytes = 100'000;
  how.collection.on_collected = [&](const collect_report& r) {
    garbage += r.garbage;
    ++cycles;
  };
  open();
  kept_list& l = s().root<kept_list>("list");
  while (cycles < 4)
    s().transact([&] {
      l.all.clear();
      for (int n = 0; n < 500; ++n) l.all.push_back(s().make<kept_node>());
    });
  EXPECT_GT(garbage, 500U);
  EXPECT_EQ(l.all.size(), 500U);
}

TEST_F(ambiguous_roots, goes_on_whatever_its_callbacks_throw) {
  s().close();
  std::atomic<int> put_off{0}, cycles{0};
  how.collection.enabled = true;
  how.collection.after_bytes = 10'000;
  how.collection.on_collected = [&](const collect_report&) {
    ++cycles;
    throw std::runtime_error("on_collected");
  };
  how.collection.on_put_off = [&](const error&) {
    ++put_off;
    throw std::runtime_error("on_put_off");
  };
  open();
  kept_list& l = s().root<kept_list>("list");
  const auto make_some = [&] {
    s().transact([&] {
      l.all.clear();
      for (int n = 0; n < 100; ++n) l.all.push_back(s().make<kept_node>());
    });
  };
  {
    const std::jthread blocking([&](const std::stop_token& stop) {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    while (put_off == 0) make_some();
  }
  while (cycles < 2) make_some();
  s().collect();
}

}  // namespace
