// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Each of these ends its process or changes its signal handlers, so each runs in a process of its own: a death test in
// the "threadsafe" style starts the test program anew, where ours is not installed before the test does it.
#include "os/fault.hpp"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "os/os_test_support.hpp"
#include "os/system_error.hpp"

namespace tenure::os {
namespace {

class fault : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using fault_explanation = fault;
using fault_chain = fault;
using fault_table = fault;

void write_to(void* address) { *static_cast<volatile char*>(address) = 1; }
void read_from(const void* address) { (void)*static_cast<const volatile char*>(address); }

// Memory that cannot be written, at free_address(3).
char* read_only_memory(std::size_t length = 2 * page) {
  auto* const memory = static_cast<char*>(map_anonymous(free_address(3), length));
  ::mprotect(memory, length, PROT_READ);
  return memory;
}

// A handler as an application would have it.
void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  ::sigaction(signal, &action, nullptr);
}
void install(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

// Makes the page writable, as a garbage collector's handler would. The faulting store then succeeds.
void repair(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  ::mprotect(reinterpret_cast<void*>(address / page * page), page, PROT_READ | PROT_WRITE);
}

void print(const char* text) { (void)!::write(STDERR_FILENO, text, std::char_traits<char>::length(text)); }

// --- What is explained -----------------------------------------------------------------------------------------------

TEST_F(fault_explanation, names_file_and_offset_of_a_page_that_cannot_be_read) {
  EXPECT_EXIT(
      {
        const scratch_directory scratch;
        const auto file = real_disk().create(scratch / "segment", 0600);
        file->resize(3 * page);
        void* const memory = file->map_private(free_address(3), page, 2 * page, os::access::read_write);
        const fault_range range(memory, 2 * page, "the-segment", page);
        file->resize(page);
        std::filesystem::remove_all(scratch.path());
        read_from(static_cast<char*>(memory) + page + 5);
      },
      ended_by(SIGBUS),
      has({"tenure: I/O error (SIGBUS) at address " + hexadecimal(static_cast<char*>(free_address(3)) + page + 5) +
               " = the-segment offset " + std::to_string(2 * page + 5) + ": the storage could not deliver this page",
           "cut short", "dmesg"}));
}

TEST_F(fault_explanation, names_a_write_to_read_only_memory) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        const fault_range range(memory, 2 * page, "the-segment", 0);
        read_from(memory + page);
        write_to(memory + page);
      },
      ended_by(SIGSEGV),
      has({"tenure: write to recoverable memory that is mapped read-only, at address " +
           hexadecimal(static_cast<char*>(free_address(3)) + page) + " = the-segment offset " + std::to_string(page)}));
}

// Ends this process as the child ended.
void end_as(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::signal(WTERMSIG(status), SIG_DFL);
    ::raise(WTERMSIG(status));
  }
  ::_exit(WEXITSTATUS(status));
}

TEST_F(fault_explanation, tells_the_child_of_a_fork_what_it_did_not_inherit) {
  EXPECT_EXIT(
      {
        auto* const memory = static_cast<char*>(map_anonymous(free_address(3), page));
        exclude_from_fork(memory, page);
        const fault_range range(memory, page, "the-segment", 10 * page);
        const pid_t child = ::fork();
        if (child == 0) read_from(memory + 7);
        end_as(child);
      },
      ended_by(SIGSEGV),
      has({"tenure: this process is the child of a fork; the recoverable memory of the-segment was not inherited; open "
           "it again in the child after the parent has closed it",
           " offset " + std::to_string(10 * page + 7)}));
}

TEST_F(fault_explanation, prefers_what_the_child_has_mapped_itself) {
  EXPECT_EXIT(
      {
        auto* const memory = static_cast<char*>(map_anonymous(free_address(3), page));
        exclude_from_fork(memory, page);
        const fault_range inherited(memory, page, "inherited", 0);
        const pid_t child = ::fork();
        if (child == 0) {
          const fault_range own(read_only_memory(page), page, "own", 0);
          write_to(memory + 7);
        }
        end_as(child);
      },
      ended_by(SIGSEGV), has({"mapped read-only", " = own offset 7"}));
}

TEST_F(fault_explanation, is_not_given_for_other_memory) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        write_to(memory + page);  // just behind
      },
      ended_by(SIGSEGV), lacks("tenure: "));
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        const fault_range range(memory + page, page, "the-segment", 0);
        write_to(memory + page - 1);  // just before
      },
      ended_by(SIGSEGV), lacks("tenure: "));
}

TEST_F(fault_explanation, is_not_given_for_memory_that_nothing_is_known_of) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        unmap(memory, page);
        read_from(memory);  // unmapped by the program itself
      },
      ended_by(SIGSEGV), lacks("tenure: "));
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        siginfo_t sent{};  // by somebody who names an address
        sent.si_code = SI_QUEUE;
        sent.si_addr = memory;
        ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), SIGBUS, &sent);
      },
      ended_by(SIGBUS), lacks("tenure: "));
}

TEST_F(fault_explanation, keeps_the_end_of_a_long_name) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        const fault_range range(memory, page, std::string(300, 'a') + std::string(200, 'b') + "/end", 0);
        write_to(memory);
      },
      ended_by(SIGSEGV), has({" = ...a", std::string(200, 'b') + "/end offset 0"}));
}

// --- The table of ranges ---------------------------------------------------------------------------------------------

TEST_F(fault_table, forgets_a_range_with_its_object) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        { const fault_range range(memory, page, "the-segment", 0); }
        write_to(memory);
      },
      ended_by(SIGSEGV), lacks("tenure: "));
}

TEST_F(fault_table, follows_an_object_that_moves) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        fault_range first(memory, page, "first", 0);
        fault_range second(std::move(first));
        fault_range third;
        third = std::move(second);
        fault_range& same = third;
        third = std::move(same);
        write_to(memory);
      },
      ended_by(SIGSEGV), has({" = first offset 0"}));
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        fault_range first(memory, page, "first", 0);
        fault_range second(memory + page, page, "second", 0);
        second = std::move(first);  // nothing knows the second page now
        write_to(memory + page);
      },
      ended_by(SIGSEGV), lacks("tenure: "));
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory();
        fault_range kept;
        {
          fault_range passing(memory, page, "kept", 0);
          kept = std::move(passing);
        }
        write_to(memory);
      },
      ended_by(SIGSEGV), has({" = kept offset 0"}));
}

TEST_F(fault_table, has_room_for_a_thousand_ranges_and_survives_more) {
  EXPECT_EXIT(
      {
        char* const memory = read_only_memory(3000 * page);
        std::vector<fault_range> ranges;
        for (std::size_t i = 0; i < 3000; ++i) ranges.emplace_back(memory + i * page, page, "full", i * page);
        ranges.clear();
        ranges.emplace_back();
        ranges.emplace_back(memory, 0, "empty", 0);
        for (std::size_t i = 0; i < 1000; ++i) ranges.emplace_back(memory + i * page, page, "reused", i * page);
        write_to(memory + 999 * page + 9);
      },
      ended_by(SIGSEGV), has({" = reused offset " + std::to_string(999 * page + 9)}));
}

TEST_F(fault_table, is_read_while_others_change_it) {
  EXPECT_EXIT(
      {
        install(SIGSEGV, repair);
        char* const memory = read_only_memory(64 * page);
        std::atomic<bool> done{false};
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; ++t)
          threads.emplace_back([&] {
            while (!done.load()) {
              const fault_range one(memory + 40 * page, page, "one", 0);
              const fault_range two(memory + 41 * page, page, "two", 0);
            }
          });
        const fault_range stable(memory, 32 * page, "stable", 0);
        for (std::size_t i = 0; i < 500; ++i) {
          write_to(memory + i % 64 * page);  // in a stable range, a changing one, or none
          ::mprotect(memory, 64 * page, PROT_READ);
        }
        done = true;
        for (std::thread& each : threads) each.join();
        print("all is well\n");
        ::_exit(0);
      },
      testing::ExitedWithCode(0), has({" = stable offset " + std::to_string(31 * page), "all is well"}));
}

// --- Earlier handlers ------------------------------------------------------------------------------------------------

TEST_F(fault_chain, calls_a_handler_that_wants_information) {
  EXPECT_EXIT(
      {
        install(SIGSEGV, [](int signal, siginfo_t* info, void* context) {
          const bool right = signal == SIGSEGV && info->si_addr == free_address(3) && context != nullptr;
          ::_exit(right ? 42 : 1);
        });
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        write_to(memory);
      },
      testing::ExitedWithCode(42), has({"mapped read-only"}));
}

TEST_F(fault_chain, calls_a_handler_that_wants_none) {
  EXPECT_EXIT(
      {
        install(SIGBUS, [](int signal) { ::_exit(signal == SIGBUS ? 43 : 1); });
        const scratch_directory scratch;
        const auto file = real_disk().create(scratch / "segment", 0600);
        void* const memory = file->map_private(nullptr, 0, page, os::access::read_write);
        const fault_range range(memory, page, file->path(), 0);
        std::filesystem::remove_all(scratch.path());
        read_from(memory);
      },
      testing::ExitedWithCode(43), has({"I/O error (SIGBUS)", "/segment offset 0"}));
}

TEST_F(fault_chain, goes_on_when_the_handler_repairs_the_fault) {
  EXPECT_EXIT(
      {
        install(SIGSEGV, repair);
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        write_to(memory);
        write_to(memory + page);  // in no range
        ::_exit(memory[0] == 1 && memory[page] == 1 ? 42 : 1);
      },
      testing::ExitedWithCode(42), has({"mapped read-only"}));
  EXPECT_EXIT(
      {
        install(SIGSEGV, repair);
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        ::close(STDERR_FILENO);  // so that the message fails, and must not leave its errno to the program
        errno = EXDEV;
        write_to(memory);
        ::_exit(errno == EXDEV ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

sigjmp_buf escape;

TEST_F(fault_chain, lets_the_handler_jump_out) {
  EXPECT_EXIT(
      {
        install(SIGSEGV, [](int) { ::siglongjmp(escape, 1); });
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        volatile int jumps = 0;
        if (sigsetjmp(escape, 1) != 0) jumps = jumps + 1;
        if (jumps < 3) write_to(memory);
        ::_exit(40 + jumps);
      },
      testing::ExitedWithCode(43), has({"mapped read-only"}));
}

TEST_F(fault_chain, blocks_what_the_handler_wants_blocked) {
  EXPECT_EXIT(
      {
        static bool blocked;
        struct sigaction action {};
        action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
          sigset_t now;
          ::pthread_sigmask(SIG_BLOCK, nullptr, &now);
          blocked = ::sigismember(&now, SIGUSR1) == 1 && ::sigismember(&now, SIGSEGV) == 1;
          repair(signal, info, context);
        };
        action.sa_flags = SA_SIGINFO;
        ::sigaddset(&action.sa_mask, SIGUSR1);
        ::sigaction(SIGSEGV, &action, nullptr);
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        write_to(memory);
        sigset_t after;
        ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
        ::_exit(blocked && ::sigismember(&after, SIGUSR1) == 0 && ::sigismember(&after, SIGSEGV) == 0 ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST_F(fault_chain, lets_a_handler_fault_that_may) {
  EXPECT_EXIT(
      {
        install(
            SIGSEGV,
            [](int signal, siginfo_t* info, void* context) {
              // The handler's own fault, in the second page, is handled inside of the first.
              if (info->si_addr == free_address(3)) write_to(static_cast<char*>(free_address(3)) + page);
              repair(signal, info, context);
            },
            SA_NODEFER);
        char* const memory = read_only_memory();
        const fault_range range(memory, 2 * page, "the-segment", 0);
        write_to(memory);
        ::_exit(memory[0] == 1 && memory[page] == 1 ? 42 : 1);
      },
      testing::ExitedWithCode(42),
      has({"the-segment offset 0\n", "the-segment offset " + std::to_string(page) + "\n"}));
}

TEST_F(fault_chain, calls_a_handler_once_that_wants_to_be_called_once) {
  EXPECT_EXIT(
      {
        install(
            SIGSEGV,
            [](int signal, siginfo_t* info, void* context) {
              print("first\n");
              repair(signal, info, context);
            },
            static_cast<int>(SA_RESETHAND));
        char* const memory = read_only_memory();
        const fault_range range(memory, 2 * page, "the-segment", 0);
        write_to(memory);
        print("second\n");
        write_to(memory + page);
      },
      testing::KilledBySignal(SIGSEGV), testing::ContainsRegex("first\nsecond\ntenure.*\n$"));
}

TEST_F(fault_chain, does_not_let_faults_be_ignored) {
  EXPECT_EXIT(
      {
        install(SIGSEGV, SIG_IGN);
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        ::raise(SIGSEGV);  // this may be ignored
        print("ignored\n");
        write_to(memory);
      },
      testing::KilledBySignal(SIGSEGV), has({"ignored\ntenure: write to"}));
}

TEST_F(fault_chain, ends_the_process_by_default) {
  // Without a sanitizer's handler: with the default action, for faults and for signals that somebody sends.
  EXPECT_EXIT(
      {
        install(SIGSEGV, SIG_DFL);
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        write_to(memory);
      },
      testing::KilledBySignal(SIGSEGV), has({"mapped read-only"}));
  EXPECT_EXIT(
      {
        install(SIGBUS, SIG_DFL);
        const fault_range range(free_address(3), page, "the-segment", 0);
        ::raise(SIGBUS);
        ::_exit(1);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(fault_chain, runs_on_the_alternate_stack) {
  EXPECT_EXIT(
      {
        static std::vector<char> stack(std::size_t{1} << 16);
        stack_t alternate{};
        alternate.ss_sp = stack.data();
        alternate.ss_size = stack.size();
        ::sigaltstack(&alternate, nullptr);
        install(SIGSEGV, [](int) {
          stack_t now{};
          ::sigaltstack(nullptr, &now);
          ::_exit((now.ss_flags & SS_ONSTACK) != 0 ? 42 : 1);
        });
        char* const memory = read_only_memory();
        const fault_range range(memory, page, "the-segment", 0);
        write_to(memory);
      },
      testing::ExitedWithCode(42), has({"mapped read-only"}));
}

}  // namespace
}  // namespace tenure::os
