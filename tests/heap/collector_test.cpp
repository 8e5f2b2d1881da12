// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Garbage collection of open stores: which words of the program keep objects, and who is told when it cannot be done.
#include <alloca.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/refused_calls.hpp"
#include "support/sanitizers.hpp"
#include "support/test_store.hpp"
#include "support/waiting_thread.hpp"

using namespace tenure;
using namespace tenure::support;

namespace collector_test_types {

struct kept_node {
  std::uint64_t id;
  kept_node* next;
  transient<kept_node*> scratch;
  std::uint64_t pad[3];
};
struct kept_list {
  tenure::vector<kept_node*> all;
  kept_node* first;
};
struct kept_buffer {
  char bytes[100'000];
};

}  // namespace collector_test_types
using namespace collector_test_types;

namespace {

// What is hidden here keeps nothing.
std::uintptr_t hidden(const void* p) { return ~reinterpret_cast<std::uintptr_t>(p); }
template <class T = kept_node>
T* shown(std::uintptr_t of) {
  return reinterpret_cast<T*>(~of);
}

// Overwrites what calls have left on the stack.
[[gnu::noinline]] void clear_stack() {
  void* const area = alloca(64 << 10);
  std::memset(area, 0, 64 << 10);
  asm volatile("" : : "r"(area) : "memory");
}

class collecting_an_open_store : public reopened_store {
 protected:
  // Persistent objects to which nothing leads; returns one, as hidden() has it. What calls have left in registers and memory
  // may keep some, so there are many.
  [[gnu::noinline]] std::uintptr_t make_garbage(std::uint64_t id) {
    kept_list& l = s().root<kept_list>("list");
    s().transact([&] {
      for (std::size_t n = 0; n < objects; ++n) {
        l.all.push_back(s().make<kept_node>());
        l.all.back()->id = id;
        l.all.back()->next = s().make<kept_node>();
      }
    });
    garbage.clear();
    for (const kept_node* each : l.all) garbage.push_back(hidden(each));
    s().transact([&] { l.all.clear(); });
    s().transact([&] { l.first = nullptr; });
    clear_stack();
    return garbage[objects / 2];
  }
  [[nodiscard]] std::size_t left() {
    return static_cast<std::size_t>(std::ranges::count_if(garbage, [&](std::uintptr_t g) { return is_there(g); }));
  }
  [[nodiscard]] bool is_there(std::uintptr_t garbage) { return s().is_persistent(shown(garbage)); }
  collect_report collect() {
    clear_stack();
    const collect_report report = s().collect();
    expect_sound(s());
    return report;
  }
  // The program keeps the object as `f(object, collect)` does, which calls collect() meanwhile.
  template <class F>
  void expect_kept(F&& f) {
    const std::uintptr_t it = make_garbage(77);
    f(it, [&] { collect(); });
    ASSERT_TRUE(is_there(it));
    EXPECT_LT(left(), objects / 2);
    EXPECT_EQ(shown(it)->id, 77U);
    ASSERT_NE(shown(it)->next, nullptr);
    EXPECT_TRUE(s().is_persistent(shown(it)->next));
  }

  static constexpr std::size_t objects = 60;
  std::vector<std::uintptr_t> garbage;  // hidden
};

// ThreadSanitizer has a thread of its own, which blocks all signals, and so cannot be stopped.
class ambiguous_roots : public collecting_an_open_store {
 protected:
  void SetUp() override {
    if (thread_sanitizer) GTEST_SKIP() << "not under ThreadSanitizer";
  }
};

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
  const auto make = [&]() __attribute__((noinline)) {
    kept_node* last = nullptr;
    for (std::uint64_t n = 0; n < many; ++n) {
      kept_node* const made = s().make<kept_node>();
      made->next = last;  // a cycle in the end
      last = made;
    }
    last->next = last;
  };
  make();
  const collect_report report = collect();
  EXPECT_GE(report.transient_garbage, many / 2);
  EXPECT_EQ(report.garbage, 0U);
}

TEST_F(collecting_an_open_store, tells_what_would_go) {
  const std::uintptr_t it = make_garbage(1);
  std::vector<std::string> phases;
  const collect_report report = s().collect({.dry_run = true, .roots = program_roots::handles, .on_progress = [&](const rvm::progress& p) {
                                               if (phases.empty() || phases.back() != p.phase)
                                                 phases.emplace_back(p.phase);
                                             }});
  EXPECT_EQ(report.garbage, 2 * objects);
  EXPECT_EQ(report.transactions, 0U);
  EXPECT_TRUE(is_there(it));
  EXPECT_EQ(phases, (std::vector<std::string>{"marking", "sweeping"}));
}

TEST_F(ambiguous_roots, space_is_used_again) {
  kept_list& l = s().root<kept_list>("list");
  std::uint64_t length = 0;
  for (int round = 0; round < 12; ++round) {
    s().transact([&] {
      l.all.clear();
      for (int n = 0; n < 3'000; ++n) l.all.push_back(s().make<kept_node>());
    });
    collect();
    const std::uint64_t now = std::filesystem::file_size(path + "/main.db");
    if (round == 2) length = now;
    if (round > 2) {
      EXPECT_LE(now, 2 * length);
    }
  }
}

TEST_F(ambiguous_roots, keeps_what_handles_refer_to) {
  for (const program_roots roots : {program_roots::handles, program_roots::all_memory}) {
    const std::uintptr_t kept = make_garbage(5);
    {
      handle<kept_node> h = shown(kept);
      const handle<kept_node> other = h;
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

// --- Ambiguous roots ----------------------------------------------------------------------------------------------------------

TEST_F(ambiguous_roots, keeps_what_the_stack_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    kept_node* volatile const here = shown(it);
    collect_now();
    EXPECT_EQ(here->id, 77U);
  });
}

kept_node* global = nullptr;
thread_local kept_node* of_the_thread = nullptr;

TEST_F(ambiguous_roots, keeps_what_static_data_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    global = shown(it);
    collect_now();
    global = nullptr;
  });
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    of_the_thread = shown(it);
    collect_now();
    of_the_thread = nullptr;
  });
}

TEST_F(ambiguous_roots, keeps_what_memory_of_malloc_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    auto one = std::make_unique<kept_node*>(shown(it));
    const auto moved = std::make_unique<std::unique_ptr<kept_node*>>(std::move(one));
    collect_now();
  });
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {  // large blocks are mappings of their own
    std::vector<kept_node*> many(100'000);
    many[77'777] = shown(it);
    collect_now();
  });
}

TEST_F(ambiguous_roots, keeps_what_shared_memory_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    void* const shared = ::mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    static_cast<kept_node**>(shared)[777] = shown(it);
    collect_now();
    ::munmap(shared, 1 << 16);
  });
}

TEST_F(ambiguous_roots, keeps_what_pointers_into_an_object_mean) {
  for (const std::size_t offset : {8UL, 20UL, sizeof(kept_node) - 1, sizeof(kept_node)})
    expect_kept([&](std::uintptr_t it, auto&& collect_now) {
      const char* volatile const inside = reinterpret_cast<const char*>(shown(it)) + offset;
      collect_now();
      EXPECT_NE(inside, nullptr);
    });
}

TEST_F(ambiguous_roots, keeps_what_pointers_to_the_end_of_a_large_object_mean) {
  kept_list& l = s().root<kept_list>("list");
  tenure::vector<kept_buffer*>& buffers = s().root<tenure::vector<kept_buffer*>>("buffers");
  s().transact([&] { buffers.push_back(s().make<kept_buffer>()); });
  const std::uintptr_t it = hidden(buffers[0]);
  const char* volatile const end = reinterpret_cast<const char*>(buffers[0] + 1);
  s().transact([&] { buffers.clear(); });
  (void)l;
  collect();
  EXPECT_TRUE(s().is_persistent(shown<kept_buffer>(it)));
  EXPECT_NE(end, nullptr);
}

TEST_F(ambiguous_roots, keeps_what_transient_objects_and_fields_refer_to) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    kept_node* const outer = s().make<kept_node>();
    outer->next = s().make<kept_node>();
    outer->next->next = shown(it);
    global = outer;
    collect_now();
    EXPECT_EQ(hidden(outer->next->next), it);
    global = nullptr;
  });
  kept_node& holder = s().root<kept_node>("holder");
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    holder.scratch = s().make<kept_node>();
    holder.scratch.get()->next = shown(it);
    s().collect({.roots = program_roots::handles});
    collect_now();
    holder.scratch = nullptr;
  });
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

// --- Threads --------------------------------------------------------------------------------------------------------------

// The thread keeps the object as `f(hidden, is_ready, go_on)` does, while the store is collected.
template <class F>
void keep_in_thread(std::uintptr_t it, F&& f, const std::function<void()>& collect_now) {
  std::atomic<bool> is_ready{false}, is_over{false};
  std::thread other([&] { f(it, is_ready, is_over); });
  while (!is_ready) std::this_thread::yield();
  collect_now();
  is_over = true;
  other.join();
}

TEST_F(ambiguous_roots, keeps_what_another_threads_stack_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    keep_in_thread(
        it,
        [](std::uintptr_t hid, std::atomic<bool>& is_ready, const std::atomic<bool>& is_over) {
          kept_node* volatile const here = shown(hid);
          is_ready = true;
          while (!is_over) std::this_thread::yield();
          EXPECT_EQ(here->id, 77U);
        },
        collect_now);
  });
}

TEST_F(ambiguous_roots, keeps_what_a_thread_in_a_system_call_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    std::atomic<bool> started{false};
    std::thread other([&] {
      kept_node* volatile const here = shown(it);
      char byte = 0;
      started = true;
      EXPECT_EQ(::read(ends[0], &byte, 1), 1);  // the kernel goes on with it after the stop
      EXPECT_EQ(here->id, 77U);
    });
    while (!started) std::this_thread::yield();
    collect_now();
    ASSERT_EQ(::write(ends[1], "x", 1), 1);
    other.join();
    ::close(ends[0]);
    ::close(ends[1]);
  });
}

#if defined(__x86_64__)
// In the register, or below the stack's end, the only pointer.
TEST_F(ambiguous_roots, keeps_what_only_a_register_has) {
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    keep_in_thread(
        it,
        [](std::uintptr_t hid, std::atomic<bool>& is_ready, const std::atomic<bool>& is_over) {
          asm volatile(
              "movq %0, %%xmm9\n"
              "pcmpeqd %%xmm10, %%xmm10\n"
              "pxor %%xmm10, %%xmm9\n"
              "movb $1, (%1)\n"
              "1: cmpb $0, (%2)\n"
              "je 1b\n"
              "pxor %%xmm9, %%xmm9\n"
              :
              : "r"(hid), "r"(&is_ready), "r"(&is_over)
              : "xmm9", "xmm10", "memory", "cc");
        },
        collect_now);
  });
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    keep_in_thread(
        it,
        [](std::uintptr_t hid, std::atomic<bool>& is_ready, const std::atomic<bool>& is_over) {
          asm volatile(
              "movq %0, %%r9\n"
              "notq %%r9\n"
              "movq %%r9, -96(%%rsp)\n"
              "xorl %%r9d, %%r9d\n"
              "movb $1, (%1)\n"
              "1: cmpb $0, (%2)\n"
              "je 1b\n"
              "movq $0, -96(%%rsp)\n"
              :
              : "r"(hid), "r"(&is_ready), "r"(&is_over)
              : "r9", "memory", "cc");
        },
        collect_now);
  });
}
#endif

TEST_F(ambiguous_roots, keeps_what_a_handler_on_another_stack_has) {
  static std::atomic<bool> is_ready, is_over;
  static std::uintptr_t here;
  is_ready = is_over = false;
  struct sigaction action {}, before {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) {
    kept_node* volatile const kept = shown(here);
    is_ready = true;
    while (!is_over) std::this_thread::yield();
    EXPECT_NE(kept, nullptr);
  };
  ::sigaction(SIGUSR1, &action, &before);
  expect_kept([&](std::uintptr_t it, auto&& collect_now) {
    here = it;
    std::thread other([&] {
      std::vector<char> area(256 << 10);
      stack_t stack{};
      stack.ss_sp = area.data();
      stack.ss_size = area.size();
      ::sigaltstack(&stack, nullptr);
      ::pthread_kill(::pthread_self(), SIGUSR1);
      stack.ss_flags = SS_DISABLE;
      ::sigaltstack(&stack, nullptr);
    });
    while (!is_ready) std::this_thread::yield();
    collect_now();
    is_over = true;
    other.join();
  });
  ::sigaction(SIGUSR1, &before, nullptr);
}

// fork() would wait for malloc's lock for ever.
TEST_F(ambiguous_roots, does_while_threads_are_in_malloc_or_come_and_go) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!is_over) {
      std::vector<char> large(200'000);
      auto small = std::make_unique<std::array<char, 40>>();
      asm volatile("" : : "r"(large.data()), "r"(small.get()) : "memory");
    }
  });
  others.emplace_back([&] {
    while (!is_over) std::thread([] {}).join();
  });
  for (int n = 0; n < 30; ++n) {
    const std::uintptr_t it = make_garbage(3);
    collect();
    (void)it;
  }
  is_over = true;
  for (std::thread& t : others) t.join();
}

TEST_F(ambiguous_roots, names_a_thread_that_cannot_be_stopped) {
  const std::uintptr_t it = make_garbage(3);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::atomic<bool> started{false};
  std::thread other([&] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), "a-deaf-one");
    char byte = 0;
    started = true;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  });
  while (!started) std::this_thread::yield();
  expect_error(errc::not_stopped, {"a-deaf-one", "blocks signal", "nothing was collected"}, [&] { (void)s().collect(); });
  EXPECT_TRUE(is_there(it));
  s().collect({.roots = program_roots::handles});
  EXPECT_FALSE(is_there(it));
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  other.join();
  ::close(ends[0]);
  ::close(ends[1]);
}

// --- The copy of the process ------------------------------------------------------------------------------------------------

TEST_F(ambiguous_roots, is_not_heard_of_by_wait) {
  static std::atomic<int> children;
  children = 0;
  struct sigaction action {}, before {};
  action.sa_handler = [](int) { ++children; };
  ::sigaction(SIGCHLD, &action, &before);
  make_garbage(1);
  const collect_report report = collect();
  EXPECT_TRUE(report.was_copied);
  EXPECT_GT(report.scanned_bytes, 0U);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(children, 0);
  ::sigaction(SIGCHLD, &before, nullptr);
}

// Where no process can be made, the cycle looks itself, while all stand still.
TEST_F(ambiguous_roots, does_without_a_copy) {
  const std::uintptr_t it = make_garbage(1);
  kept_node* volatile const here = shown(it);
  collect_report report;
  // The collector's thread, which is made now, may not either.
  if (!without_calls({SYS_clone, SYS_fork, SYS_vfork}, EAGAIN, [&] { report = s().collect(); }))
    GTEST_SKIP() << "system calls cannot be refused here";
  EXPECT_FALSE(report.was_copied);
  EXPECT_GT(report.scanned_bytes, 0U);
  EXPECT_TRUE(is_there(it));
  EXPECT_EQ(here->id, 1U);
  expect_sound(s());
}

// --- Misuse ---------------------------------------------------------------------------------------------------------------

TEST_F(collecting_an_open_store, refuses_to_wait_for_the_callers_own_transaction) {
  const auto refused = [&] { expect_error(errc::bad_transaction, {"collect()", path}, [&] { (void)s().collect(); }); };
  s().transact(refused);
  s().read(refused);
  expect_error(errc::bad_option, {"objects_at_once"}, [&] { (void)s().collect({.objects_at_once = 0}); });
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
  EXPECT_THROW((void)s().collect({.roots = program_roots::handles, .on_progress = [](const rvm::progress&) { throw std::runtime_error("no"); }}),
               std::runtime_error);
  EXPECT_TRUE(is_there(it));
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
  for (std::uint64_t cycles = 0; cycles < rvm::testing::scaled(12); ++cycles) {
    allowed += 1'500;
    garbage += in.collect({.roots = roots}).garbage;
    while (rounds < allowed) std::this_thread::yield();
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

}  // namespace
