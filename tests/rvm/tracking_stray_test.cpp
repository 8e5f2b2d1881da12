// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Writes outside of automatic transactions: those that are trapped end the process, which therefore is one of its own; those
// on pages that were left open are found and rolled back.
#include <gtest/gtest.h>
#include <setjmp.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tenure/rvm.hpp>

#include "os/system_error.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using support::child_end, support::child_process, support::expect_error, support::get, support::mib, support::page,
    support::small_log;

struct world {
  support::temp_dir dir;
  memory m;
  region r;

  explicit world(options how = small_log(), bool strict = false)
      : m(dir / "log", how),
        r(m.map(dir / "segment",
                {.create_length = mib, .tracking = tracking_mode::automatic, .tracking_strict = strict})) {}
  void write(std::size_t offset, const std::string& text) const {
    std::memcpy(r.data() + offset, text.data(), text.size());
  }
  // One byte: memcpy writes in an order that depends on the processor, and the first that is refused is reported.
  void write_byte(std::size_t offset) const { write_byte(r, offset); }
  static void write_byte(const region& to, std::size_t offset) {
    *reinterpret_cast<volatile char*>(to.data() + offset) = 's';
  }
  void make_hot(std::size_t offset) {
    for (int i = 0; i < 3; ++i) m.transact_automatically([&](transaction&) { write(offset, std::to_string(i)); });
  }
  [[nodiscard]] tracking_statistics counts() const { return m.stats().tracking; }
};

bool ended_badly(const child_end& end) {
  return (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGSEGV) ||
         (WIFEXITED(end.status) && WEXITSTATUS(end.status) != 0);  // a sanitizer's handler
}

void expect_stray(const child_end& end, std::uint64_t offset) {
  EXPECT_TRUE(ended_badly(end)) << end.status << "\n" << end.output;
  for (const std::string& part : {std::string("write to recoverable memory outside of any transaction, at address 0x"),
                                  "/segment offset " + std::to_string(offset), std::string("_test(")})
    EXPECT_NE(end.output.find(part), std::string::npos) << part << "\n" << end.output;
}

// [rvm.tracking.stray]
TEST(stray_write, outside_of_transactions_ends_the_process) {
  child_process child([] {
    support::temp_dir dir;
    support::write_file(dir / "segment", std::string(mib, 0));
    memory m(dir / "log", small_log());
    region r = m.map(dir / "segment", {.raw = true, .tracking = tracking_mode::automatic});
    m.transact_automatically([&](transaction&) { std::memcpy(r.data(), "allowed", 7); });
    world::write_byte(r, 5 * page + 10);
    return 0;
  });
  expect_stray(child.wait(), 5 * page + 10);
}

TEST(stray_write, in_an_explicit_transaction_is_one_too) {
  child_process child([] {
    world w;
    transaction tx = w.m.begin();
    w.write_byte(7);
    return 0;
  });
  expect_stray(child.wait(), 7);
}

TEST(stray_write, on_a_page_that_was_hot_is_trapped_when_strict) {
  child_process child([] {
    world w(small_log(), true);
    w.make_hot(0);
    w.write_byte(1);
    return 0;
  });
  expect_stray(child.wait(), 1);
}

TEST(stray_write, is_shown_to_the_observer_first) {
  child_process child([] {
    options how = small_log();
    how.on_stray_write = [](const stray_write& w) {
      if (w.trapped && w.offset == page + 3 && std::string(w.segment_path).ends_with("/segment")) ::_exit(42);
    };
    world w(how);
    w.write_byte(page + 3);
    return 0;
  });
  const child_end end = child.wait();
  EXPECT_TRUE(end.exited_with(42)) << end.status << "\n" << end.output;
}

TEST(stray_write, on_a_hot_page_is_rolled_back_and_thrown) {
  world w;
  w.make_hot(2 * page);
  w.write(2 * page + 100, "stray");
  expect_error(errc::stray_write, {"/segment", "1 page was", "tracking_strict"}, [&] { (void)w.m.begin_automatic(); });
  EXPECT_EQ(get(w.r, 2 * page + 100, 5), std::string(5, 0));
  EXPECT_EQ(get(w.r, 2 * page, 1), "2");
  EXPECT_EQ(w.counts().stray_writes, 1U);
  w.m.transact_automatically([&](transaction&) { w.write(2 * page + 100, "right"); });
  EXPECT_EQ(get(w.r, 2 * page + 100, 5), "right");
}

TEST(stray_write, on_a_hot_page_is_shown_to_the_observer) {
  std::vector<std::uint64_t> seen;
  options how = small_log();
  how.on_stray_write = [&](const stray_write& w) {
    EXPECT_FALSE(w.trapped);
    seen.push_back(w.offset);
  };
  world w(how);
  w.make_hot(2 * page);
  w.write(2 * page + 104, "stray");
  w.m.transact_automatically([](transaction&) {});
  EXPECT_EQ(seen, std::vector<std::uint64_t>{2 * page + 104});
  EXPECT_EQ(get(w.r, 2 * page + 104, 5), std::string(5, 0));
}

TEST(stray_write, in_a_region_that_is_open_as_a_whole_is_rolled_back) {
  for (const auto mechanism : {tracking_mechanism::scan, tracking_mechanism::private_copies}) {
    support::temp_dir dir;
    memory m(dir / "log", small_log());
    region r = m.map(dir / "segment",
                     {.create_length = mib, .tracking = tracking_mode::automatic, .force_mechanism = mechanism});
    m.transact_automatically([&](transaction&) { std::memcpy(r.data() + 5, "committed", 9); });
    std::memcpy(r.data() + 5, "overwrite", 9);
    std::memcpy(r.data() + 8 * page, "elsewhere", 9);
    expect_error(errc::stray_write, {"2 pages were"}, [&] { (void)m.begin_automatic(); });
    EXPECT_EQ(get(r, 5, 9), "committed");
    EXPECT_EQ(get(r, 8 * page, 9), std::string(9, 0));
  }
}

// --- Together with the program's own handler ---

sigjmp_buf back;
void jump_back(int) { siglongjmp(back, 1); }
std::atomic<int> earlier_calls{0};
char* earlier_page;
void open_earlier_page(int, siginfo_t* info, void*) {
  if (info->si_addr != earlier_page) ::_exit(3);
  ++earlier_calls;
  if (os::protect(earlier_page, page, os::access::read_write) != 0) ::_exit(4);
}

// In a process of its own from the beginning, in which the library has not installed its handler yet.
struct stray_write_chain : ::testing::Test {
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(stray_write_chain, goes_on_to_the_earlier_handler_which_may_jump_away) {
  const auto act = [] {
    std::signal(SIGSEGV, jump_back);
    world w;
    if (sigsetjmp(back, 1) == 0) {
      w.write(page, "stray");
      return 1;
    }
    w.m.transact_automatically([&](transaction&) { w.write(page, "allowed"); });  // everything still works
    if (sigsetjmp(back, 1) == 0) {
      w.write(3 * page, "stray");
      return 2;
    }
    return get(w.r, page, 7) == "allowed" ? 0 : 5;
  };
  EXPECT_EXIT(::_exit(act()), ::testing::ExitedWithCode(0), "outside of any transaction");
}

TEST_F(stray_write_chain, is_told_from_faults_of_others) {
  const auto act = [] {
    struct sigaction action {};
    action.sa_sigaction = open_earlier_page;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, nullptr);
    earlier_page = static_cast<char*>(os::map_anonymous(nullptr, page));
    if (os::protect(earlier_page, page, os::access::read_only) != 0) return 1;
    world w;
    w.m.transact_automatically([&](transaction&) {
      w.write(9, "allowed");
      *static_cast<volatile char*>(earlier_page) = 1;
    });
    return earlier_calls == 1 && get(w.r, 9, 7) == "allowed" ? 0 : 2;
  };
  EXPECT_EXIT(::_exit(act()), ::testing::ExitedWithCode(0), "");
}

TEST(stray_write, by_the_child_of_a_fork_has_the_message_for_that) {
  world w;
  w.make_hot(0);
  child_process child([&] {
    w.write(0, "child");
    return 0;
  });
  const child_end end = child.wait();
  EXPECT_TRUE(ended_badly(end));
  EXPECT_NE(end.output.find("this process is the child of a fork"), std::string::npos) << end.output;
}

TEST(stray_write, finds_signals_unblocked_by_begin) {
  child_process child([] {
    world w;
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    ::pthread_sigmask(SIG_BLOCK, &faults, nullptr);
    std::thread([&] { w.m.transact_automatically([&](transaction&) { w.write(0, "allowed"); }); }).join();
    return 0;
  });
  const child_end end = child.wait();
  EXPECT_TRUE(end.exited_with(0)) << end.status << "\n" << end.output;
}

}  // namespace
}  // namespace tenure::rvm
