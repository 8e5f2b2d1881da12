// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions: old values put back, new values logged, each byte once [RVM §5.2, intra-transaction optimization].
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "log/log_files.hpp"
#include "records/log_reader.hpp"
#include "sim/disk.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class transactions : public ::testing::Test {
 protected:
  static constexpr std::size_t length = 1 << 20;

  options how() {
    options o = small_log(&disk);
    o.log.size = 8 * mib;
    o.tune.truncation_threshold = 2;
    return o;
  }
  // Ranges and payload bytes that the last commit has put into the log.
  struct logged {
    std::uint64_t ranges, bytes;
    friend bool operator==(const logged&, const logged&) = default;
  };
  logged take_logged() {
    const statistics s = m.stats();
    const logged now{s.ranges_logged - before.ranges_logged, s.bytes_logged - before.bytes_logged};
    before = s;
    return now;
  }
  // What the log has in it, range by range, first to last.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_in_log() {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    const auto log = log_files::open_unlocked(disk, "/d/log");
    scan_groups(*log, log->status().head, log->end(), [&](const group_header& header, os::const_bytes bytes) {
      const group_view group(bytes, header, "log");
      for (const auto& tx : group.transactions())
        for (const auto& range : tx.ranges)
          if (!all.empty() && all.back().first + all.back().second == range.offset)  // cut at a page
            all.back().second += range.value.size();
          else
            all.emplace_back(range.offset, range.value.size());
      return true;
    });
    return all;
  }
  [[nodiscard]] std::string all_of_it() const { return get(r, 0, r.size()); }

  sim::disk disk;
  memory m{"/d/log", how()};
  region r = m.map("/d/seg", {.create_length = length});
  statistics before = m.stats();
};

TEST_F(transactions, ranges_become_one_where_they_touch) {
  using ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  const auto commit = [&](const ranges& all) {
    transaction tx = m.begin();
    for (const auto& [offset, n] : all) tx.set_range(r.data() + offset, n);
    tx.commit();
    return take_logged();
  };
  EXPECT_EQ(commit({{100, 10}}), (logged{1, 10}));
  EXPECT_EQ(commit({{100, 10}, {100, 10}, {100, 10}}), (logged{1, 10}));  // duplicate
  EXPECT_EQ(commit({{100, 10}, {105, 10}}), (logged{1, 15}));             // overlapping
  EXPECT_EQ(commit({{105, 10}, {100, 10}}), (logged{1, 15}));             // the other way round
  EXPECT_EQ(commit({{100, 10}, {110, 10}}), (logged{1, 20}));             // adjacent
  EXPECT_EQ(commit({{110, 10}, {100, 10}}), (logged{1, 20}));
  EXPECT_EQ(commit({{100, 100}, {120, 10}}), (logged{1, 100}));  // contained
  EXPECT_EQ(commit({{120, 10}, {100, 100}}), (logged{1, 100}));
  EXPECT_EQ(commit({{100, 10}, {111, 10}}), (logged{2, 20}));                         // a byte between them
  EXPECT_EQ(commit({{100, 10}, {111, 10}, {110, 1}}), (logged{1, 21}));               // and filled
  EXPECT_EQ(commit({{100, 10}, {300, 10}, {200, 10}, {90, 230}}), (logged{1, 230}));  // one over all
  EXPECT_EQ(commit({{4090, 12}, {8186, 12}}), (logged{2, 24}));                       // over page ends
  EXPECT_EQ(commit({{0, 1}, {length - 1, 1}}), (logged{2, 2}));                       // the region's ends
  EXPECT_EQ(commit({{0, length}, {5, 7}}), (logged{1, length}));                      // over pages and groups
}

TEST_F(transactions, empty_ranges_and_empty_transactions) {
  transaction tx = m.begin();
  tx.set_range(r.data() + 10, 0);
  tx.modify(r.data() + 10, nullptr, 0);
  tx.commit();
  EXPECT_EQ(take_logged(), (logged{0, 0}));
  EXPECT_EQ(m.stats().batches, 0u);
  m.begin().commit(commit_mode::no_flush);
  m.begin().abort();
  m.begin(restore_mode::no_restore).commit();
  EXPECT_EQ(m.stats().batches, 0u);
  EXPECT_EQ(m.stats().flush_commits, 2u);
  EXPECT_EQ(m.stats().no_flush_commits, 1u);
}

// What is logged is exactly the union of what was declared, in ranges that do not touch.
TEST_F(transactions, scattered_ranges_in_random_order) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    m.truncate();
    std::mt19937 random(seed);
    std::vector<bool> declared(length + 1);
    transaction tx = m.begin();
    const std::size_t many = seed % 4 == 0 ? 5000 : 300, span = seed % 2 == 0 ? length : 20'000,
                      longest = seed % 3 == 0 ? 300 : 20;
    for (std::size_t i = 0; i < many; ++i) {
      const std::size_t at = random() % (span - longest), n = 1 + random() % longest;
      tx.set_range(r.data() + at, n);
      std::memset(r.data() + at, static_cast<int>(random()), n);
      std::fill_n(declared.begin() + static_cast<std::ptrdiff_t>(at), n, true);
    }
    before = m.stats();
    tx.commit();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
    for (std::size_t i = 0; i < length; ++i) {
      if (!declared[i]) continue;
      if (!expected.empty() && expected.back().first + expected.back().second == i)
        ++expected.back().second;
      else
        expected.emplace_back(i, 1);
    }
    ASSERT_EQ(ranges_in_log(), expected);
    std::uint64_t bytes = 0;
    for (const auto& [offset, n] : expected) bytes += n;
    EXPECT_EQ(take_logged(), (logged{expected.size(), bytes}));
  }
}

// Many declarations cost no more than sorting them: nothing here is quadratic.
TEST_F(transactions, a_hundred_thousand_ranges) {
  transaction tx = m.begin();
  for (std::size_t i = 0; i < 100'000; ++i) tx.set_range(r.data() + i * 7919 % length / 8 * 8, 4);
  tx.commit();
  EXPECT_EQ(take_logged(), (logged{100'000, 400'000}));
}

TEST_F(transactions, old_values_come_back_in_the_right_order) {
  put(m, r, 0, "0123456789");
  transaction tx = m.begin();
  tx.modify(r.data() + 2, "ab", 2);
  tx.modify(r.data() + 1, "xyz", 3);   // declared over it: its old value holds "ab"
  tx.modify(r.data() + 3, "QQQQ", 4);  // and once more
  tx.modify(r.data(), "wwwwwwwwww", 10);
  EXPECT_EQ(get(r, 0, 10), "wwwwwwwwww");
  tx.abort();
  EXPECT_EQ(get(r, 0, 10), "0123456789");
}

TEST_F(transactions, without_old_values) {
  transaction tx = m.begin(restore_mode::no_restore);
  tx.modify(r.data(), "kept", 4);
  tx.set_range(r.data() + 2, 10);
  tx.commit();
  EXPECT_EQ(take_logged(), (logged{1, 12}));
  EXPECT_EQ(get(r, 0, 4), "kept");
}

TEST_F(transactions, modify_copies_from_anywhere) {
  put(m, r, 0, "abcdefgh");
  m.transact([&](transaction& tx) { tx.modify(r.data() + 2, r.data(), 6); });  // overlapping
  EXPECT_EQ(get(r, 0, 8), "ababcdef");
  m.transact([&](transaction& tx) {
    tx.modify(r.at<std::uint32_t>(64), 5);
    tx.set_range(r.at<std::uint64_t>(72));
    r.at<std::uint64_t>(72) = 6;
  });
  EXPECT_EQ(r.at<std::uint32_t>(64), 5u);
}

// A commit takes the values of its own time, also for ranges that a transaction open at the same time has declared.
TEST_F(transactions, interleaved_on_distinct_ranges) {
  transaction a = m.begin(), b = m.begin();
  a.modify(r.data(), "a", 1);
  b.modify(r.data() + 1, "b", 1);
  a.modify(r.data() + 2, "a", 1);
  b.commit();
  EXPECT_EQ(take_logged(), (logged{1, 1}));
  a.abort();
  EXPECT_EQ(get(r, 0, 3), std::string("\0b\0", 3));
  const auto left = disk.crash(1, sim::policy::drop_all);
  memory after("/d/log", small_log(left.get()));
  EXPECT_EQ(get(after.map("/d/seg"), 0, 3), std::string("\0b\0", 3));
}

TEST_F(transactions, counters_of_table_2) {
  {
    transaction tx = m.begin();
    for (int i = 0; i < 3; ++i) tx.set_range(r.data(), 100);
    tx.set_range(r.data() + 100, 20);
    tx.set_range(r.data() + 500, 30);
    tx.commit();
  }
  statistics s = m.stats();
  EXPECT_EQ(s.ranges_declared, 5u);
  EXPECT_EQ(s.bytes_declared, 350u);
  EXPECT_EQ(s.ranges_logged, 2u);
  EXPECT_EQ(s.bytes_logged, 150u);
  EXPECT_EQ(s.intra_ranges_saved, 3u);
  EXPECT_EQ(s.intra_bytes_saved, 200u);
  EXPECT_EQ(s.inter_transactions_saved, 0u);
  EXPECT_EQ(s.begun, 1u);
  EXPECT_EQ(s.flush_commits, 1u);
  EXPECT_EQ(s.batches, 1u);
  EXPECT_EQ(s.syncs, 1u);
  EXPECT_EQ(s.log_bytes_written, s.log_used);
  EXPECT_EQ(s.log_used_max, s.log_used);
  // What was never to be logged is no saving.
  {
    transaction tx = m.begin();
    tx.set_range(r.data(), 1000);
    tx.set_range(r.data(), 1000);
    const statistics open = m.stats();
    EXPECT_EQ(open.intra_bytes_saved, 200u);
    tx.abort();
  }
  s = m.stats();
  EXPECT_EQ(s.aborts, 1u);
  EXPECT_EQ(s.begun, 2u);
  EXPECT_EQ(s.intra_ranges_saved, 3u);
  EXPECT_EQ(s.intra_bytes_saved, 200u);
}

// --- Against a byte array ---

struct model_transaction {
  transaction real;
  std::vector<std::pair<std::size_t, std::string>> changes;  // applied to the model when it commits
};

// Several transactions at once, each on bytes that no other open one has declared, as isolation demands. After every
// end the memory shows the committed bytes and those of the open ones; after a crash, the committed ones.
TEST_F(transactions, agree_with_a_byte_array) {
  constexpr std::size_t small = 64 * 1024;
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string committed = get(r, 0, small), shown = committed;
    std::vector<int> owner(small, -1);
    std::vector<std::optional<model_transaction>> open(4);
    for (int step = 0; step < 3000; ++step) {
      const std::size_t which = random() % open.size();
      auto& tx = open[which];
      if (!tx) {
        tx.emplace(model_transaction{m.begin(), {}});
      } else if (random() % 12 != 0) {
        const std::size_t at = random() % (small - 300), n = random() % 300;
        const auto begin = owner.begin() + static_cast<std::ptrdiff_t>(at),
                   end = begin + static_cast<std::ptrdiff_t>(n);
        if (std::any_of(begin, end, [&](int o) { return o != -1 && o != static_cast<int>(which); })) continue;
        std::fill(begin, end, static_cast<int>(which));
        std::string text(n, '\0');
        for (char& c : text) c = static_cast<char>(random());
        if (random() % 2 == 0) {
          tx->real.modify(r.data() + at, text.data(), n);
        } else {  // declared in pieces, written at once
          for (std::size_t piece = 0; piece < n; piece += 50)
            tx->real.set_range(r.data() + at + piece, std::min<std::size_t>(50, n - piece));
          std::memcpy(r.data() + at, text.data(), n);
        }
        shown.replace(at, n, text);
        tx->changes.emplace_back(at, std::move(text));
      } else {
        if (random() % 3 == 0) {
          tx->real.abort();
          for (const auto& [at, text] : tx->changes) shown.replace(at, text.size(), committed, at, text.size());
        } else {
          tx->real.commit(random() % 2 == 0 ? commit_mode::flush : commit_mode::no_flush);
          for (const auto& [at, text] : tx->changes) committed.replace(at, text.size(), text);
        }
        tx.reset();
        std::ranges::replace(owner, static_cast<int>(which), -1);
        ASSERT_TRUE(get(r, 0, small) == shown) << "step " << step;
        if (random() % 40 == 0) m.truncate();
      }
    }
    m.flush();
    const auto left = disk.crash(seed, sim::policy::drop_all);
    memory after("/d/log", small_log(left.get()));
    ASSERT_TRUE(get(after.map("/d/seg"), 0, small) == committed);
    open.clear();  // aborts what is open
    ASSERT_TRUE(get(r, 0, small) == committed);
  }
}

}  // namespace
}  // namespace tenure::rvm
