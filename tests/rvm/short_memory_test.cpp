// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory runs out in the middle of a transaction: it fails, memory is as it was before, and the process goes on. And: what
// large transactions have needed is given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenure/recoverable_heap.hpp>

#include "records/batch.hpp"
#include "records/commit_gathering.hpp"
#include "segments/interval_set.hpp"
#include "sim/disk.hpp"
#include "support/failing_allocations.hpp"
#include "support/mechanisms.hpp"
#include "support/model.hpp"
#include "support/segments_on_sim.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;
using testing::random_source;

// Words, each the number of the transaction that wrote it.
struct short_memory : ::testing::TestWithParam<tracking_mechanism> {
  static constexpr std::size_t pages = 200;

  void open() {
    r = {};
    m.reset();
    options how = small_log(&disk);
    how.background = false;
    m.emplace("/d/log", how);
    r = m->map("/d/seg",
               {.create_length = pages * page, .tracking = tracking_mode::automatic, .force_mechanism = GetParam()});
  }
  void write(random_source& random, std::uint64_t number) {
    for (std::size_t n = 1 + random.below(60); n > 0; --n) r.at<std::uint64_t>(random.below(pages) * page) = number;
  }
  [[nodiscard]] std::vector<std::byte> content() const { return {r.data(), r.data() + r.size()}; }

  sim::disk disk;
  std::optional<memory> m;
  region r;
};

// [rvm.tracking.no-memory]
TEST_P(short_memory, at_the_end_of_an_automatic_transaction) {
  std::uint64_t failed = 0, number = 0, reopened = 0;
  for (const bool for_ever : {false, true}) {
    open();
    random_source random(11);
    for (long long nth = 0; nth < 240; ++nth) {
      const auto before = content();
      bool committed = false, threw = false;
      std::vector<std::byte> wanted;
      {
        transaction tx = m->begin_automatic();
        write(random, ++number);
        wanted = content();
        succeeding = nth % 80;
        failing = for_ever ? 1'000'000'000 : 1;
        try {
          if (nth % 3 == 2)
            tx.abort();
          else
            tx.commit();
          committed = nth % 3 != 2;
        } catch (const std::exception&) {
          threw = true;
        }
      }  // which aborts
      succeeding = -1;
      failed += threw;
      std::error_code state;
      try {
        m->require_usable();
      } catch (const error& e) {
        state = e.code();
      }
      if (state) {  // the log's fate is not known: memory keeps what was captured
        ASSERT_EQ(state, errc::outcome_unknown);
        ASSERT_TRUE(content() == before || content() == wanted) << nth;
        ++reopened;
        open();
        ASSERT_TRUE(content() == before || content() == wanted) << nth;
        continue;
      }
      ASSERT_TRUE(content() == (committed ? wanted : before)) << nth << (for_ever ? " for ever" : " once");
      // And what was committed is what the segment gets.
      if (nth % 16 == 0) {
        m->truncate();
        const auto kept = content();
        open();
        ASSERT_TRUE(content() == kept) << nth;
      }
    }
  }
  EXPECT_GT(failed, 10u);
  std::printf("    %llu failed, %llu of them with the log\n", static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(reopened));
}

INSTANTIATE_TEST_SUITE_P(each, short_memory, support::every_mechanism, support::mechanism_name);

// A range that could not be declared is none that an abort puts back.
TEST(short_memory_of, declarations_that_fail) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = 64 * page});
  std::uint64_t failed = 0, in_a_row = 0;
  for (long long allocations = 0; in_a_row < 3; ++allocations) {
    transaction tx = m.begin();
    bool has_failed = false;
    try {
      for (std::size_t n = 0; n < 150; ++n) {
        auto& word = r.at<std::uint64_t>(n * 37 % 1000 * 64);
        succeeding = n == 0 ? allocations : succeeding;
        failing = n == 0 ? 1 : failing;
        tx.set_range(word);
        word = n + 1;
      }
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    succeeding = -1;
    tx.abort();
    for (std::size_t at = 0; at < 1000; ++at) ASSERT_EQ(r.at<std::uint64_t>(at * 64), 0U) << allocations << ", " << at;
    failed += has_failed;
    in_a_row = has_failed ? 0 : in_a_row + 1;
  }
  EXPECT_GT(failed, 5U);
}

// [rvm.log.memory] One allocation fails, in a commit or in the truncation that it causes. Then commits go on, and the power fails.
TEST(short_memory_of, files_of_the_log_that_change) {
  std::uint64_t failed = 0, died = 0;
  bool has_failed_any = true;
  for (long long allocations = 0; has_failed_any; allocations += static_cast<long long>(testing::scaled_stride())) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    sim::disk disk;
    options how = small_log(&disk);
    how.background = false;
    how.log.size = 64 << 10;
    std::uint64_t acknowledged = 0, last = 0;
    {
      memory m("/d/log", how);
      region r = m.map("/d/seg", {.create_length = 64 * page});
      auto& number = r.at<std::uint64_t>(0);
      succeeding = allocations;
      failing = 1;
      // At first the log gets its files, and then goes round.
      for (std::uint64_t n = 1; n <= 60; ++n) try {
          last = n;
          transaction tx = m.begin();
          tx.set_range(&number, 3000);
          number = n;
          std::memset(&number + 1, static_cast<int>(n), 2000);
          tx.commit(n % 3 == 0 ? commit_mode::flush : commit_mode::no_flush);
          if (n % 3 == 0) acknowledged = n;
        } catch (const std::bad_alloc&) {
          ++failed;
          succeeding = -1;
        } catch (const error&) {  // it is not known what has become of the log
          succeeding = -1;
          ++died;
          break;
        }
      succeeding = -1;
      has_failed_any = failing == 0;
      const auto left = disk.crash(1, sim::policy::drop_all);
      how.disk = left.get();
      memory after("/d/log", how);
      region again = after.map("/d/seg");
      ASSERT_GE(again.at<std::uint64_t>(0), acknowledged);
      ASSERT_LE(again.at<std::uint64_t>(0), last);
    }
  }
  EXPECT_GT(failed + died, 20U / testing::scaled_stride());
}

// One allocation fails, in some commit. What was aborted then is nowhere, whatever was committed afterwards; the rest is there.
TEST(short_memory_of, commits_that_are_aborted_then) {
  constexpr std::uint64_t commits = 150;  // more than lists of what waits hold without another allocation
  std::uint64_t failed = 0;
  bool has_failed = true;
  for (long long allocations = 0; has_failed; allocations += static_cast<long long>(testing::scaled_stride())) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    sim::disk disk;
    options how = small_log(&disk);
    how.background = false;
    std::vector<std::uint64_t> expected(commits);
    {
      memory m("/d/log", how);
      region r = m.map("/d/seg", {.create_length = 64 * page});
      succeeding = allocations;
      failing = 1;
      for (std::uint64_t n = 0; n < commits; ++n) {
        transaction tx;
        try {
          tx = m.begin();
          tx.set_range(r.at<std::uint64_t>(n * 64));
          r.at<std::uint64_t>(n * 64) = n + 1;
          tx.commit(n % 3 == 0 ? commit_mode::no_flush : commit_mode::flush);
          expected[n] = n + 1;
        } catch (const std::bad_alloc&) {
          ++failed;
          if (tx.is_open()) tx.abort();
        } catch (const error&) {  // the log has failed: this one may be there, and lazy ones may not
          for (std::uint64_t each = n / 3 * 3; each <= n; ++each) expected[each] = ~std::uint64_t{0};
          break;
        }
      }
      succeeding = -1;
      has_failed = failing == 0;
    }
    const auto left = disk.crash(1, sim::policy::keep_all);
    how.disk = left.get();
    memory after("/d/log", how);
    region r = after.map("/d/seg");
    for (std::uint64_t n = 0; n < commits; ++n) {
      if (expected[n] == ~std::uint64_t{0}) continue;
      ASSERT_EQ(r.at<std::uint64_t>(n * 64), expected[n]) << n;
    }
  }
  EXPECT_GT(failed, 20U / testing::scaled_stride());
}

// [rvm.heap.no-memory] One allocation fails in each transaction: in a call, which has changed nothing then, or at the end.
TEST(short_memory_of, a_recoverable_heap) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  std::optional<memory> m;
  region r;
  std::optional<recoverable_heap> heap;
  const auto open = [&] {
    heap.reset();
    r = {};
    m.reset();
    m.emplace("/d/log", how);
    r = m->map("/d/seg", {.create_length = 300 * page});
    if (!recoverable_heap::is_formatted(r)) m->transact([&](transaction& tx) { recoverable_heap::format(tx, r); });
    heap.emplace(r);
    heap->check();
  };
  open();
  using objects =
      std::map<std::ptrdiff_t, std::pair<std::size_t, int>>;  // by offset: sizes, and what they are filled with
  objects live;
  const auto expect_live = [&] {
    std::size_t found = 0;
    heap->for_each_object([&](void* at, std::size_t size) {
      const auto known = live.find(static_cast<std::byte*>(at) - r.data());
      ASSERT_TRUE(known != live.end() && known->second.first <= size);
      for (std::size_t n = 0; n < known->second.first; ++n)
        ASSERT_EQ(static_cast<std::byte*>(at)[n], static_cast<std::byte>(known->second.second));
      ++found;
    });
    ASSERT_EQ(found, live.size());
  };
  const auto is_live = [&](const std::byte* object) {
    bool is = false;
    heap->for_each_object([&](void* at, std::size_t) { is |= at == object; });
    return is;
  };
  random_source random(5);
  constexpr std::array<std::size_t, 6> sizes{8, 100, 600, 5000, 33'000, 50'000};
  std::uint64_t failed_calls = 0, failed_commits = 0, of_others = 0;
  for (std::uint64_t round = 0; round < testing::scaled(1200); ++round) {
    SCOPED_TRACE(round);
    objects now = live;
    transaction tx = m->begin();
    succeeding = static_cast<long long>(random.below(60));
    failing = 1;
    const auto quietly = [](auto&& f) {
      const long long left = std::exchange(succeeding, -1);
      f();
      succeeding = left;
    };
    // Another transaction commits meanwhile. What this one was refused, it may get.
    const auto commit_another = [&] {
      quietly([&] {
        try {
          transaction other = m->begin();
          objects made;
          for (std::uint64_t n = 1 + random.below(3); n != 0; --n) {
            const std::size_t size = sizes[random.below(sizes.size())];
            const int fill = static_cast<int>(random.below(256));
            void* const at = heap->allocate(other, size);
            std::memset(at, fill, size);
            made[static_cast<std::byte*>(at) - r.data()] = {size, fill};
          }
          other.commit();
          live.insert(made.begin(), made.end());
          now.insert(made.begin(), made.end());
          of_others += made.size();
        } catch (const error&) {  // no room, or the log has failed
        }
      });
    };
    for (std::uint64_t ops = 1 + random.below(12); ops != 0; --ops) try {
        if (!now.empty() && random.one_in(2)) {
          const auto which = std::next(now.begin(), static_cast<std::ptrdiff_t>(random.below(now.size())));
          heap->deallocate(tx, r.data() + which->first);
          quietly([&] { now.erase(which); });
        } else {
          const std::size_t size = sizes[random.below(sizes.size())];
          const int fill = static_cast<int>(random.below(256));
          void* const made = heap->allocate(tx, size);
          std::memset(made, fill, size);
          quietly([&] { now[static_cast<std::byte*>(made) - r.data()] = {size, fill}; });
        }
      } catch (const std::bad_alloc&) {
        ++failed_calls;
        if (random.one_in(2)) commit_another();
      } catch (const error& e) {
        if (e.code() != errc::out_of_memory) throw;
      }
    bool is_done = random.one_in(3), is_committed = false;
    if (is_done)
      tx.abort();
    else
      for (int tries = 0; tries < 2 && !is_done; ++tries) try {
          tx.commit();
          is_done = is_committed = true;
        } catch (const std::bad_alloc&) {
          ++failed_commits;
          if (random.one_in(2)) commit_another();
          // What is declared after a commit that has failed is put back by an abort, too.
          auto& word = r.at<std::uint64_t>(128);  // a root
          quietly([&] { tx.set_range(word); });
          word = 7;
          if (random.one_in(2)) {
            tx.abort();
            ASSERT_EQ(word, 0U);
            is_done = true;
          } else {
            word = 0;
          }
        } catch (const error&) {
          break;
        }
    succeeding = -1;
    if (!is_done) {  // the log has failed: what is there was committed before, or with this
      tx.abort();
      open();
      is_committed = std::ranges::all_of(
          now, [&](const auto& o) { return live.contains(o.first) || is_live(r.data() + o.first); });
      is_committed = is_committed && std::ranges::none_of(live, [&](const auto& o) {
                       return !now.contains(o.first) && is_live(r.data() + o.first);
                     });
    }
    if (is_committed) live = now;
    heap->check();
    expect_live();
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(failed_calls, 5U);
  EXPECT_GT(failed_commits, 5U);
  EXPECT_GT(of_others, 5U);
}

// An error that is thrown because there is no memory has a code, also if it is the first one of the process.
TEST(short_memory_of, codes_of_errors) {
  succeeding = 0;
  failing = 1;
  const std::error_code code = make_error_code(errc::damaged);
  const bool is_equal = code == errc::damaged;
  succeeding = -1;
  EXPECT_TRUE(is_equal);
  EXPECT_EQ(failing, 1);
}

TEST(short_memory_of, errors_that_are_copied) {
  const error made(errc::damaged, std::string(100, 'x'));
  succeeding = 0;
  failing = 1;
  std::optional<error> copy(made);
  succeeding = -1;
  EXPECT_EQ(failing, 1);
  EXPECT_EQ(std::string(copy->what()), std::string(100, 'x'));
}

// A region's backing is known by such a set: what is lost from it would show zeros.
TEST(short_memory_of, a_set_of_intervals) {
  interval_set parts;
  parts.add(10, 20);
  parts.add(30, 40);
  const auto expect_unchanged = [&](auto&& change) {
    succeeding = 0;
    failing = 1;
    bool failed = false;
    try {
      change();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    succeeding = -1;
    EXPECT_TRUE(failed);
    std::vector<std::uint64_t> found;
    parts.for_each([&](std::uint64_t from, std::uint64_t to) { found.insert(found.end(), {from, to}); });
    EXPECT_EQ(found, (std::vector<std::uint64_t>{10, 20, 30, 40}));
  };
  expect_unchanged([&] { parts.add(50, 60); });
  expect_unchanged([&] { parts.remove(14, 16); });
  expect_unchanged([&] { parts.remove(5, 15); });
  succeeding = 0;
  failing = 1;
  parts.add(20, 30);  // joins both: needs no memory, nor does taking the end away
  parts.remove(35, 50);
  succeeding = -1;
  EXPECT_TRUE(parts.contains(10) && parts.contains(34) && !parts.contains(35));
}

// --- Given back ---

TEST(group_buffers, of_large_transactions_are_given_back) {
  constexpr std::uint32_t length = 64 * kib;
  group_pool pool(length, 2 * 8 * length);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<group_buffer>> taken;
    for (int i = 0; i < 200; ++i) {
      taken.push_back(pool.take());
      std::memset(taken.back()->bytes, i, length);
    }
    EXPECT_EQ(pool.memory_used(), 25u * 8 * length);
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(taken[static_cast<std::size_t>(i)]->bytes[0], static_cast<std::byte>(i));
      EXPECT_EQ(taken[static_cast<std::size_t>(i)]->bytes[length - 1], static_cast<std::byte>(i));
    }
    // In an order in which slabs become free one by one, and the other way round.
    while (!taken.empty()) {
      const auto at = round == 0 ? taken.end() - 1 : taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
      auto buffer = std::move(*at);
      taken.erase(at);
      pool.give_back(std::move(buffer));
    }
    EXPECT_EQ(pool.memory_used(), 2u * 8 * length);
  }
  // What is kept is used.
  const auto one = pool.take();
  EXPECT_EQ(pool.memory_used(), 2u * 8 * length);
}

// A disk that has stalled for two seconds does not let the next commit wait for half of one.
TEST(waiting_for_companions, ends_soon_whatever_the_disk_did) {
  using namespace std::chrono;
  commit_gathering all;
  EXPECT_TRUE(all.all_here());
  for (int i = 0; i < 3; ++i) all.arrive();
  EXPECT_EQ(all.leave(), 3u);
  all.arrive();
  all.written(3, milliseconds(2));
  EXPECT_EQ(all.patience(), microseconds(500));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(all.all_here()) << "four are expected";
    if (i < 2) all.arrive();
  }
  all.arrive();
  EXPECT_TRUE(all.all_here());
  EXPECT_EQ(all.leave(), 4u);
  all.written(4, seconds(2));
  EXPECT_LE(all.patience(), milliseconds(5));
}

}  // namespace
}  // namespace tenure::rvm
