// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A real process on a real disk that commits to a store while collections take what it drops, killed at random moments.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/tenure.hpp>
#include <tenure/vector.hpp>

#include "support/model.hpp"
#include "support/temp_dir.hpp"
#include "support/test_store.hpp"

namespace killed_store_types {

struct chain_link {
  std::uint64_t number;
  chain_link* next;
};
struct chains {
  std::uint64_t newest;
  tenure::vector<chain_link*> all;
};

}  // namespace killed_store_types

namespace {

using namespace tenure;
using namespace killed_store_types;

constexpr std::uint64_t chain_count = 40;

[[nodiscard]] std::uint64_t length_of(std::uint64_t number) { return number % 60 + 1; }

class killed_store : public ::testing::Test {
 protected:
  // Commit number n puts a new chain, all of n, in place of an older one, which is garbage then. Every third is durable at once,
  // and acknowledged.
  [[noreturn]] void commit_for_ever(int acknowledgements, std::uint64_t from, bool by_handles) {
    try {
      how.collection.roots = by_handles ? program_roots::handles : program_roots::all_memory;
      store s(path, how);
      std::thread collector([&] {
        for (;;) (void)s.collect();
      });
      chains& c = s.root<chains>("chains");
      for (std::uint64_t n = from;; ++n) {
        transaction tx = s.begin();
        if (c.all.empty()) c.all.resize(chain_count);
        chain_link*& chain = c.all[n % chain_count];
        chain = nullptr;
        for (std::uint64_t k = 0; k < length_of(n); ++k) chain = s.make<chain_link>(chain_link{n, chain});
        c.newest = n;
        const bool durable = n % 3 == 0;
        tx.commit(durable ? commit_mode::durable : commit_mode::lazy);
        if (durable && ::write(acknowledgements, &n, sizeof n) != sizeof n) ::_exit(3);
      }
    } catch (const std::exception& e) {
      (void)!::write(2, e.what(), std::strlen(e.what()));
    }
    ::_exit(2);
  }
  void expect_committed(const chains& c) {
    for (std::uint64_t w = 0; w < c.all.size(); ++w) {
      // The largest number up to the newest that belongs to this chain.
      const std::uint64_t back = (c.newest + chain_count - w) % chain_count;
      const std::uint64_t number = c.newest > back ? c.newest - back : 0;
      std::uint64_t length = 0;
      for (const chain_link* at = c.all[w]; at != nullptr; at = at->next, ++length) ASSERT_EQ(at->number, number);
      ASSERT_EQ(length, number == 0 ? 0 : length_of(number)) << "of chain " << w;
    }
  }

  const support::temp_dir directory;
  const std::string path = directory / "store";
  store_options how = [] {
    store_options made = support::small_store();
    made.memory.log = {.size = 256 << 10, .max_size = 4 << 20};
    return made;
  }();
};

TEST_F(killed_store, at_random_moments_loses_nothing_acknowledged) {
  std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
  std::uint64_t next = 1;
  for (std::uint64_t round = 0; round < std::max<std::uint64_t>(12, rvm::testing::scaled(12)); ++round) {
    int pipes[2];
    ASSERT_EQ(::pipe(pipes), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipes[0]);
      commit_for_ever(pipes[1], next, round % 2 == 0);
    }
    ::close(pipes[1]);
    const std::uint64_t wanted = random() % 5 == 0 ? 0 : 1 + random() % 60;
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
    store s(path, how);
    for (const std::string& wrong : s.verify()) ADD_FAILURE() << wrong;
    const chains& c = s.root<chains>("chains");
    ASSERT_GE(c.newest, acknowledged);
    ASSERT_NO_FATAL_FAILURE(expect_committed(c));
    next = c.newest + 1;
    s.close();
    if (HasFailure()) return;
  }
  EXPECT_GT(next, 50U);
}

}  // namespace
