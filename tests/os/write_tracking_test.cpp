// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finding and trapping writes: the kernel's notes, protection, and traps in the fault handler.
#include "os/write_tracking.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <set>
#include <thread>

#include "os/fault.hpp"
#include "os/os_test_support.hpp"
#include "support/refused_calls.hpp"

namespace tenure::os {
namespace {

// A private mapping of a file, all zeros.
struct mapped_file {
  static constexpr std::size_t pages = 512;
  scratch_directory scratch;
  std::unique_ptr<file> on;
  std::byte* base;

  mapped_file() : on(real_disk().create(scratch / "file", 0600)) {
    on->resize(pages * page);
    base = static_cast<std::byte*>(on->map_private(nullptr, 0, pages * page, os::access::read_write));
  }
  ~mapped_file() { unmap(base, pages * page); }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  void write(std::size_t number) const { *static_cast<volatile std::byte*>(base + number * page) = std::byte{1}; }
  void read(std::size_t number) const { (void)*static_cast<volatile std::byte*>(base + number * page); }
};

std::set<std::size_t> collected(write_tracking& notes, const mapped_file& in) {
  page_runs runs;
  EXPECT_TRUE(notes.collect(runs));
  std::set<std::size_t> pages;
  for (const page_run& run : runs)
    for (std::size_t at = 0; at < run.length; at += page)
      pages.insert(static_cast<std::size_t>(run.address + at - in.base) / page);
  return pages;
}

TEST(write_tracking, tells_exactly_what_was_written) {
  const mapped_file in;
  for (std::size_t i = 0; i < 100; ++i) in.read(i);
  for (std::size_t i = 0; i < 10; ++i) in.write(i);
  write_tracking notes;
  if (!notes.start(in.base, mapped_file::pages * page)) GTEST_SKIP() << "not on this kernel";
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{}));
  in.write(3);    // had a copy before
  in.write(50);   // was read before
  in.write(400);  // was not in memory
  in.read(401);
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{3, 50, 400}));
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{}));
  in.write(3);
  in.write(401);
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{3, 401}));
  // What the kernel writes counts, and changes of protection do not matter.
  ASSERT_EQ(protect(in.base, mapped_file::pages * page, os::access::read_only), 0);
  ASSERT_EQ(protect(in.base, mapped_file::pages * page, os::access::read_write), 0);
  ASSERT_GT(::read(::open("/dev/zero", O_RDONLY | O_CLOEXEC), in.base + 77 * page, 10), 0);
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{77}));
}

TEST(write_tracking, goes_on_in_a_mapping_that_has_become_longer) {
  const mapped_file in;
  write_tracking notes;
  if (!notes.start(in.base, 100 * page)) GTEST_SKIP() << "not on this kernel";
  in.write(5);
  ASSERT_TRUE(notes.grow(200 * page));
  in.write(150);
  // Anonymous memory behind, as a region has it that has grown.
  map_anonymous_over(in.base + 200 * page, 100 * page);
  ASSERT_TRUE(notes.grow(300 * page));
  in.write(250);
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{5, 150, 250}));
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{}));
  in.write(6);
  in.write(151);
  in.write(250);
  EXPECT_EQ(collected(notes, in), (std::set<std::size_t>{6, 151, 250}));
}

TEST(write_tracking, counts_what_is_in_memory) {
  const mapped_file in;
  write_tracking notes;
  const std::uint64_t none = notes.count_present(in.base, mapped_file::pages * page, ~std::uint64_t{0});
  if (none == ~std::uint64_t{0}) GTEST_SKIP() << "not on this kernel";
  EXPECT_EQ(none, 0U);
  for (std::size_t i = 0; i < 300; ++i) in.write(i);
  EXPECT_GE(notes.count_present(in.base, mapped_file::pages * page, ~std::uint64_t{0}), 300U);
}

TEST(write_tracking, is_refused_quietly) {
  const mapped_file in;
  for (const long call : {SYS_userfaultfd, SYS_ioctl, SYS_openat}) {
    ASSERT_TRUE(support::without_calls({call}, EPERM, [&] {
      write_tracking notes;
      EXPECT_FALSE(notes.start(in.base, mapped_file::pages * page));
      EXPECT_FALSE(notes.is_on());
    }));
  }
}

TEST(protection, limit_of_mappings_is_reported) {
  auto* const memory = static_cast<std::byte*>(map_anonymous(nullptr, 100'000 * page));
  int failure = 0;
  for (std::size_t i = 0; i < 100'000 && failure == 0; i += 2)
    failure = protect(memory + i * page, page, os::access::read_only);
  EXPECT_EQ(failure, ENOMEM);  // 65 530 mappings, usually
  EXPECT_EQ(protect(memory, 100'000 * page, os::access::read_write), 0);
  unmap(memory, 100'000 * page);
}

TEST(access_advice, knows_how_much_memory_there_is) {
  EXPECT_GT(usable_memory(), std::uint64_t{16} << 20);
  EXPECT_LE(usable_memory(), static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page);
}

TEST(access_advice, knows_which_pages_of_a_file_are_in_memory) {
  mapped_file m;
  std::vector<unsigned char> pages(mapped_file::pages);
  EXPECT_TRUE(look_for_pages(m.base, pages));
  EXPECT_FALSE(look_for_pages(m.base + 1, pages));
  m.base[0] = std::byte{1};
  EXPECT_TRUE(look_for_pages(m.base, {pages.data(), 1}));
  EXPECT_EQ(pages[0] & 1, 1);
}

// --- Traps -----------------------------------------------------------------------------------------------------------

struct opener final : write_trap {
  std::atomic<int> calls{0};
  std::atomic<bool> signals_blocked{true};
  answer on_write(std::byte* at) noexcept override {
    ++calls;
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    if (sigismember(&mask, SIGUSR1) != 1) signals_blocked = false;
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    return protect(reinterpret_cast<void*>(address / page * page), page, os::access::read_write) == 0 ? answer::resume
                                                                                                      : answer::stray;
  }
};

TEST(write_traps, open_pages_and_the_write_goes_on) {
  auto* const memory = static_cast<std::byte*>(map_anonymous(nullptr, 8 * page));
  ASSERT_EQ(protect(memory, 8 * page, os::access::read_only), 0);
  opener trap;
  {
    const fault_range range(memory, 8 * page, "name", 0, &trap);
    EXPECT_TRUE(is_known(range));
    for (std::size_t i = 0; i < 8 * page; i += page / 4) *static_cast<volatile std::byte*>(memory + i) = std::byte{1};
    EXPECT_EQ(trap.calls, 8);
    EXPECT_TRUE(trap.signals_blocked);
    // From several threads at once.
    ASSERT_EQ(protect(memory, 8 * page, os::access::read_only), 0);
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < 4; ++t)
      all.emplace_back([=] {
        for (std::size_t i = 0; i < 8; ++i) *static_cast<volatile std::byte*>(memory + i * page + 8 * t) = std::byte{2};
      });
    for (auto& each : all) each.join();
  }
  unmap(memory, 8 * page);
}

TEST(write_traps, are_not_asked_about_reads_and_jumps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static opener trap;
        auto* const memory = static_cast<std::byte*>(map_anonymous(nullptr, page));
        const fault_range range(memory, page, "name", 0, &trap);
        reinterpret_cast<void (*)()>(memory)();  // cannot be executed
      },
      ended_by(SIGSEGV), "");
}

}  // namespace
}  // namespace tenure::os
