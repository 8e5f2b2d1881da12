// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Garbage collection of open stores in programs that do what they should not, or fork, or have few resources.
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"
#include "support/expect_error.hpp"
#include "support/waiting_thread.hpp"

using namespace tenure;
using namespace tenure::support;

namespace {

// Runs f() in a child, and returns whether it comes to an end.
bool ends_in_a_child(const std::function<void()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(20);
    f();
    ::_exit(0);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

// --- Misuse -------------------------------------------------------------------------------------------------------------------

// The marker has seen a field without the pointer that the next transaction has put back.
TEST_F(collecting_an_open_store, a_stray_write_that_is_put_back_ends_it) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] {
    l.first = s().make<kept_node>();
    l.first->next = s().make<kept_node>();
  });
  for (std::uint64_t n = 0; n < 200; ++n) s().transact([&] { l.first->id = n; });  // its page stays open
  const std::uintptr_t second = hidden(l.first->next);
  for (const bool by_collector : {false, true}) {
    bool is_written = false, is_back = false;
    const auto look = [&](const rvm::progress& p) {
      if (!is_written) {
        is_written = true;
        l.first->next = nullptr;
      } else if (p.total != 0 && !is_back && !by_collector) {
        is_back = true;
        expect_error(errc::stray_write, {"have been put back"}, [&] { (void)s().begin(); });
      }
    };
    expect_error(by_collector ? errc::stray_write : errc::not_stopped, {},
                 [&] { s().collect({.roots = program_roots::handles, .on_progress = look}); });
    EXPECT_EQ(l.first->next, shown(second));
    EXPECT_TRUE(is_there(second));
    expect_sound(s());
    s().transact([&] { l.first->id = 7; });
  }
  s().collect({.roots = program_roots::handles});
  EXPECT_TRUE(is_there(second));
}

TEST_F(collecting_an_open_store, its_callbacks_cannot_wait_for_it) {
  const std::uintptr_t it = make_garbage(1);
  bool is_first = true;
  s().collect({.roots = program_roots::handles, .on_progress = [&](const rvm::progress&) {
                 if (!std::exchange(is_first, false)) return;
                 expect_error(errc::bad_transaction, {"callback"}, [&] { s().collect(); });
                 expect_error(errc::bad_transaction, {"callback"}, [&] { s().close(); });
               }});
  EXPECT_FALSE(is_there(it));
}

TEST_F(collecting_an_open_store, closing_does_not_wait_for_who_closes) {
  std::optional<transaction> tx = s().begin();
  std::atomic<pid_t> id{0};
  std::exception_ptr failed;
  std::thread other([&] {
    try {
      id = ::gettid();
      s().collect({.roots = program_roots::handles});
    } catch (...) {
      failed = std::current_exception();
    }
  });
  while (id == 0 || !is_waiting(id)) std::this_thread::yield();
  expect_error(errc::transactions_open, {"open transactions"}, [&] { s().close(); });
  other.join();
  expect_error(errc::closed, {"being closed"}, [&] {
    if (failed) std::rethrow_exception(failed);
  });
  tx->commit();
  tx.reset();
  s().collect({.roots = program_roots::handles});
  expect_sound(s());
}

// A collection is due when close() ends another one, and is refused.
TEST_F(collecting_an_open_store, happens_by_itself_after_a_close_that_was_refused) {
  s().close();
  std::atomic<int> cycles{0};
  how.collection.enabled = true;
  how.collection.roots = program_roots::handles;
  how.collection.after_bytes = 100'000;
  how.collection.on_collected = [&](const collect_report&) { ++cycles; };
  open();
  kept_list& l = s().root<kept_list>("list");
  const auto make_many = [&] {
    s().transact([&] {
      l.all.clear();
      for (int n = 0; n < 5'000; ++n) l.all.push_back(s().make<kept_node>());
    });
  };
  std::latch has_begun(1), may_end(1);
  bool is_first = true;
  std::thread other([&] {
    const auto waits_for_close = [&](const rvm::progress&) {
      if (!std::exchange(is_first, false)) return;
      has_begun.count_down();
      may_end.wait();
      expect_error(errc::closed, {"being closed"}, [&] { (void)s().begin(); });
    };
    expect_error(errc::closed, {"being closed"},
                 [&] { s().collect({.roots = program_roots::handles, .on_progress = waits_for_close}); });
  });
  has_begun.wait();
  make_many();
  {
    const transaction tx = s().begin();
    may_end.count_down();
    expect_error(errc::transactions_open, {"open transactions"}, [&] { s().close(); });
    other.join();
  }
  const int before = cycles;
  while (cycles == before) make_many();
}

// The program cannot know when a collection by itself goes on.
TEST_F(collecting_an_open_store, databases_are_made_beside_it) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] { l.all.resize(10); });
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over) s().collect({.roots = program_roots::handles});
  });
  for (std::size_t n = 0; n < 8; ++n) {
    constexpr std::uint64_t reservation = std::uint64_t{256} << 20;
    database made =
        s().create_database("more-" + std::to_string(n), {.reservation = reservation, .home = next_home(reservation)});
    for (std::size_t each = 0; each < l.all.size(); ++each)
      s().transact([&] {
        auto* const node = made.make<kept_node>();
        node->next = l.all[each];
        l.all[each] = node;
      });
  }
  is_over = true;
  other.join();
  for (const kept_node* each : l.all) {
    std::size_t nodes = 0;
    for (; each != nullptr; each = each->next) ++nodes;
    EXPECT_EQ(nodes, 8U);
  }
  expect_sound(s());
  expect_error(errc::bad_transaction, {"inside a transaction"}, [&] {
    const read_transaction tx = s().begin_read();
    (void)s().create_database("another");
  });
}

// --- Forks ----------------------------------------------------------------------------------------------------------------------

TEST_F(collecting_an_open_store, a_child_can_forget_the_store) {
  if (thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer does not allow threads in the child of a program with several";
  s().collect({.roots = program_roots::handles});
  EXPECT_TRUE(ends_in_a_child([&] {
    std::atomic<bool> is_over{false};
    std::thread of_the_child([&] {
      while (!is_over) std::this_thread::yield();
    });
    { const store gone(std::move(s())); }
    is_over = true;
    of_the_child.join();
  }));
  s().collect({.roots = program_roots::handles});
}

TEST_F(ambiguous_roots, children_have_handles) {
  if (!children_of_threads_allocate) GTEST_SKIP() << "AddressSanitizer's locks are held in the child";
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over) s().collect();
  });
  for (int n = 0; n < 50; ++n) EXPECT_TRUE(ends_in_a_child([] { const handle<kept_node> one; }));
  is_over = true;
  other.join();
}

// --- Other threads, and what is scarce --------------------------------------------------------------------------------------

TEST_F(ambiguous_roots, names_a_thread_that_takes_all_signals) {
  std::atomic<pid_t> thread{0};
  std::thread other([&] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), "a-greedy-one");
    thread = ::gettid();
    for (int signal = 0; signal != SIGUSR1;) ::sigwait(&all, &signal);
  });
  const pthread_t id = other.native_handle();
  while (thread == 0 || !is_waiting(thread)) std::this_thread::yield();
  expect_error(errc::not_stopped, {"a-greedy-one", "blocks signal"}, [&] { (void)s().collect(); });
  ::pthread_kill(id, SIGUSR1);
  other.join();
}

// They are listed as threads of the process, and no signal reaches them.
TEST_F(ambiguous_roots, threads_of_the_kernel_need_not_stop) {
  io_uring_params params{};
  const int ring = static_cast<int>(::syscall(SYS_io_uring_setup, 4, &params));
  if (ring < 0) GTEST_SKIP() << "no io_uring here";
  const std::size_t length = params.sq_off.array + params.sq_entries * sizeof(std::uint32_t);
  auto* const queue =
      static_cast<std::byte*>(::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING));
  auto* const entry = static_cast<io_uring_sqe*>(
      ::mmap(nullptr, 4 * sizeof(io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES));
  ASSERT_NE(queue, MAP_FAILED);
  ASSERT_NE(entry, MAP_FAILED);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  static char byte;
  entry->opcode = IORING_OP_READ;
  entry->flags = IOSQE_ASYNC;
  entry->fd = ends[0];
  entry->addr = reinterpret_cast<std::uintptr_t>(&byte);
  entry->len = 1;
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto before = threads();
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(queue + params.sq_off.tail)).store(1);
  ASSERT_EQ(::syscall(SYS_io_uring_enter, ring, 1, 0, 0, nullptr, 0), 1);
  for (int n = 0; n < 10'000 && threads() == before; ++n) std::this_thread::yield();  // it is made a moment later
  make_garbage(1);
  EXPECT_GT(collect().garbage, 0U);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  for (const int file : {ends[0], ends[1], ring}) ::close(file);
  ::munmap(queue, length);
  ::munmap(entry, 4 * sizeof(io_uring_sqe));
}

// A thread that gets no signal goes on.
TEST_F(ambiguous_roots, does_nothing_if_no_signal_can_be_sent) {
  const std::uintptr_t it = make_garbage(1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_SIGPENDING, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_SIGPENDING, &none), 0);
  expect_error(errc::not_stopped, {"cannot be sent", "ulimit -i"}, [&] { (void)s().collect(); });
  ASSERT_EQ(::setrlimit(RLIMIT_SIGPENDING, &before), 0);
  EXPECT_TRUE(is_there(it));
  EXPECT_GT(collect().garbage, 0U);
}

TEST_F(ambiguous_roots, may_be_heard_of_by_who_waits_for_all) {
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over) ::waitpid(-1, nullptr, __WALL | WNOHANG);
  });
  for (int n = 0; n < 5; ++n) {
    make_garbage(1);
    EXPECT_GT(collect().garbage, 0U);
  }
  is_over = true;
  other.join();
}

}  // namespace
