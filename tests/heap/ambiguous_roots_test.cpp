// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which words of the program keep objects of an open store, and who is told when it cannot be found out.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"
#include "support/expect_error.hpp"
#include "support/refused_calls.hpp"

using namespace tenure;
using namespace tenure::support;

namespace {

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

TEST_F(ambiguous_roots, keeps_what_data_of_a_library_has_that_was_loaded_later) {
  void* const library = ::dlopen(TENURE_LOADED_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* const name : {"tenure_test_initialized_word", "tenure_test_zero_words"}) {
    SCOPED_TRACE(name);
    auto** const words = static_cast<kept_node**>(::dlsym(library, name));
    ASSERT_NE(words, nullptr);
    expect_kept([&](std::uintptr_t it, auto&& collect_now) {
      words[0] = shown(it);
      collect_now();
      words[0] = nullptr;
    });
  }
  ::dlclose(library);
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
      // Its beginning is nowhere.
      const char* volatile const inside = reinterpret_cast<const char*>(offset - it - 1);
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

// Each element refers to the next: one word that leads to an element, and stays, keeps all that come later. So the library's own
// lists must leave none [heap.collection.addresses]. On the stack some are left for a while.
// By chance a word may do that. The library's own did it each time.
TEST_F(ambiguous_roots, leave_little_of_a_queue) {
  if (address_sanitizer) GTEST_SKIP() << "AddressSanitizer keeps what was freed";
  constexpr int rounds = 8, transactions = 500, at_once = 5, length = 100;
  const auto taken_of = [&](kept_list& queue) {
    const auto add = [&]() __attribute__((noinline)) {
      kept_node** end = &queue.first;
      while (*end != nullptr) end = &(*end)->next;
      for (int n = 0; n < at_once; ++n, end = &(*end)->next) *end = s().make<kept_node>();
    };
    const auto take = [&]() __attribute__((noinline)) { queue.first = queue.first->next; };
    std::uint64_t taken = 0;
    for (int round = 0; round < rounds; ++round) {
      for (int n = 0; n < transactions; ++n) {
        const auto pass = [&] {
          add();
          if (round != 0 || n >= length / at_once)
            for (int i = 0; i < at_once; ++i) take();
        };
        s().transact(pass, commit_mode::lazy);
      }
      clear_stack();
      taken += s().collect().garbage;
    }
    return taken;
  };
  std::uint64_t most = 0;
  for (const char* name : {"first", "second", "third", "fourth"}) {
    most = std::max(most, taken_of(s().root<kept_list>(name)));
    if (most > rounds * transactions * at_once / 10) break;
  }
  EXPECT_GT(most, rounds * transactions * at_once / 10);
  expect_sound(s());
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

std::atomic<bool> created_is_over;
void* run_created(void* given) {
  kept_node* volatile const here = static_cast<kept_node*>(given);
  while (!created_is_over) std::this_thread::yield();
  EXPECT_EQ(here->id, 77U);
  return nullptr;
}

// Whoever creates it forgets what he hands over, at any moment of the collection.
TEST_F(ambiguous_roots, keeps_what_a_thread_gets_that_is_being_created) {
  for (int n = 0; n < 20; ++n)
    expect_kept([&](std::uintptr_t it, auto&& collect_now) {
      created_is_over = false;
      std::atomic<bool> has_it{false};
      std::thread creator([&] {
        kept_node* volatile here = shown(it);
        has_it = true;
        for (int spin = 0; spin < n * 20'000; ++spin) asm volatile("" : : : "memory");
        ::pthread_t other{};
        ASSERT_EQ(::pthread_create(&other, nullptr, &run_created, here), 0);
        here = nullptr;
        ::pthread_join(other, nullptr);
      });
      while (!has_it) std::this_thread::yield();
      collect_now();
      created_is_over = true;
      creator.join();
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
  struct sigaction action {
  }, before{};
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
  expect_error(errc::not_stopped, {"a-deaf-one", "blocks signal", "nothing was collected"},
               [&] { (void)s().collect(); });
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
  struct sigaction action {
  }, before{};
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

}  // namespace
