// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A real process on a real disk, killed at random moments. (This keeps the page cache: what a loss of power does is for
// the simulated disk to show.)
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "support/model.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm::testing {
namespace {

constexpr std::uint64_t segment_length = 256 << 10;
constexpr std::size_t words = 500, stride = 512;

class killing : public ::testing::Test {
 protected:
  struct opened {
    opened(const std::string& directory, bool background)
        : m(directory + "/kill.log", {.log = {.size = 128 << 10, .max_size = 128 << 10},
                                      .tune = {.truncation_threshold = 0.3},
                                      .background = background}),
          a(m.map(directory + "/a.seg", {.create_length = segment_length})),
          b(m.map(directory + "/b.seg", {.create_length = segment_length})) {}
    memory m;
    region a, b;
  };

  // Commit number n writes n to the same word of both segments. Every third is durable at once, and acknowledged.
  [[noreturn]] void commit_for_ever(int acknowledgements, std::uint64_t from) const {
    try {
      opened o(directory_.path(), true);
      for (std::uint64_t n = from;; ++n) {
        auto tx = o.m.begin();
        tx.modify(o.a.at<std::uint64_t>(n % words * stride), n);
        tx.modify(o.b.at<std::uint64_t>(n % words * stride), n);
        if (n % 7 == 0) {
          // One that is never committed: its word belongs to the next.
          auto other = o.m.begin();
          other.modify(o.a.at<std::uint64_t>((n + 1) % words * stride), std::uint64_t{0xdead});
        }
        const bool durable = n % 3 == 0;
        tx.commit(durable ? commit_mode::flush : commit_mode::no_flush);
        if (durable && ::write(acknowledgements, &n, sizeof n) != sizeof n) ::_exit(3);
      }
    } catch (const std::exception& e) {
      (void)!::write(2, e.what(), std::strlen(e.what()));
    }
    ::_exit(2);
  }

  support::temp_dir directory_;
};

TEST_F(killing, at_random_moments_loses_nothing_acknowledged) {
  random_source random(static_cast<std::uint64_t>(::getpid()));
  std::uint64_t next = 1;
  for (std::uint64_t round = 0; round < std::max<std::uint64_t>(20, scaled(20)); ++round) {
    int pipes[2];
    ASSERT_EQ(::pipe(pipes), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipes[0]);
      commit_for_ever(pipes[1], next);
    }
    ::close(pipes[1]);
    // Now and then at once: in recovery, or in the making of the files.
    const std::uint64_t wanted = random.one_in(5) ? 0 : 1 + random.below(150);
    std::uint64_t acknowledged = next - 1, n = 0;
    for (std::uint64_t i = 0; i < wanted && ::read(pipes[0], &n, sizeof n) == sizeof n; ++i) acknowledged = n;
    ::kill(child, SIGKILL);
    // What it had acknowledged before it was killed is still in the pipe.
    while (::read(pipes[0], &n, sizeof n) == sizeof n) acknowledged = n;
    ::close(pipes[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "round " << round << ": the child ended by itself, with "
                                     << WEXITSTATUS(status);

    SCOPED_TRACE("round " + std::to_string(round) + ", acknowledged " + std::to_string(acknowledged));
    opened o(directory_.path(), false);
    std::uint64_t newest = 0;
    for (std::size_t w = 0; w < words; ++w) newest = std::max(newest, o.a.at<std::uint64_t>(w * stride));
    ASSERT_GE(newest, acknowledged);
    for (std::size_t w = 0; w < words; ++w) {
      // The largest number up to the newest that belongs to this word.
      const std::uint64_t back = (newest + words - w) % words;
      const std::uint64_t expected = newest >= back ? newest - back : 0;
      ASSERT_EQ(o.a.at<std::uint64_t>(w * stride), expected) << "word " << w;
      ASSERT_EQ(o.b.at<std::uint64_t>(w * stride), expected) << "word " << w;
    }
    next = newest + 1;
    o.a.unmap();
    o.b.unmap();
    EXPECT_TRUE(o.m.verify_segment(directory_ / "a.seg").empty());
    EXPECT_TRUE(o.m.verify_segment(directory_ / "b.seg").empty());
  }
  EXPECT_GT(next, 100U);
}

}  // namespace
}  // namespace tenure::rvm::testing
