// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Truncation, watched from below: what it writes and in which order, how far the log's head may go, and what never
// reaches a segment.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "records/format.hpp"
#include "support/model.hpp"

namespace tenure::rvm::testing {
namespace {

constexpr std::size_t page = 4096;

struct truncating : ::testing::Test {
  void open(std::uint64_t segment_length = 1 << 20) {
    where.segments[0].length = segment_length;
    m.emplace(where.log_path, how());
    r = m->map(where.segments[0].path, {.create_length = segment_length});
  }
  options how() {
    auto o = where.how(disk);
    o.background = background;
    return o;
  }
  void change_page(std::size_t n, std::uint64_t value, commit_mode mode = commit_mode::flush) {
    m->transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(n * page), value); }, mode);
  }
  // The manifest that holds.
  manifest_header status(bool durable = true) const {
    const auto bytes = durable ? disk.durable_bytes(where.log_path) : disk.current_bytes(where.log_path);
    manifest_header copies[2];
    for (std::size_t i = 0; i < 2; ++i)
      std::memcpy(&copies[i], bytes.data() + i * manifest_copy_size, sizeof(manifest_header));
    return copies[copies[1].sequence > copies[0].sequence ? 1 : 0];
  }
  // The durable header of a file of the log that holds.
  log_file_header file_header(const std::string& path) const {
    const auto bytes = disk.durable_bytes(path);
    log_file_header copies[2];
    for (std::size_t i = 0; i < 2; ++i)
      std::memcpy(&copies[i], bytes.data() + i * log_file_copy_size, sizeof(log_file_header));
    return copies[copies[1].sequence > copies[0].sequence ? 1 : 0];
  }
  // Where the pages of the segment were written, by the trace.
  std::vector<std::size_t> pages_written() const {
    std::vector<std::size_t> pages;
    for (const auto& t : disk.trace())
      if (t.kind == sim::operation::write && t.path == where.segments[0].path && t.offset >= data_offset())
        for (std::uint64_t at = t.offset; at < t.offset + t.length; at += page)
          pages.push_back((at - data_offset()) / page);
    return pages;
  }
  std::uint64_t data_offset() const {
    segment_header header;
    const auto bytes = disk.current_bytes(where.segments[0].path);
    std::memcpy(&header, bytes.data(), sizeof header);
    return header.data_offset;
  }

  sim::disk disk;
  layout where = [] {
    layout l;
    l.segments = {{"/store/a.seg", 1 << 20, false}};
    l.log = {.size = 256 << 10, .max_size = 256 << 10};
    l.tune.truncation_threshold = 2;
    return l;
  }();
  bool background = false;
  std::optional<memory> m;
  region r;
};

// A value that changes to what the file holds, back and forth: equal to the file is not enough to give a page back.
TEST_F(truncating, keeps_the_private_copy_of_a_page_that_changed_meanwhile) {
  open();
  auto& word = r.at<std::uint64_t>(8);
  change_page(0, 7);  // the page is dirty
  bool changed = false;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (changed || at.kind != sim::operation::sync || at.path != where.segments[0].path) return;
    changed = true;
    m->transact([&](transaction& tx) { tx.modify(word, std::uint64_t{1}); });
    m->transact([&](transaction& tx) { tx.modify(word, std::uint64_t{0}); }, commit_mode::no_flush);
  });
  EXPECT_NE(m->truncate_incrementally(1), 0U);
  disk.on_operation({});
  EXPECT_TRUE(changed);
  EXPECT_EQ(m->stats().private_pages_kept, 1U);
  EXPECT_EQ(word, 0U);
  EXPECT_NE(m->truncate_incrementally(1), 0U);  // writes the 1
  EXPECT_EQ(word, 0U);
}

TEST_F(truncating, keeps_the_private_copy_of_a_page_with_a_reference) {
  open();
  change_page(0, 7);
  auto tx = m->begin();
  tx.set_range(r.at<std::uint64_t>(8));  // it may be about to write
  m->truncate();
  EXPECT_EQ(m->stats().private_pages_kept, 1U);
  EXPECT_EQ(m->stats().private_pages_dropped, 0U);
  tx.abort();
  change_page(0, 8);
  m->truncate();
  EXPECT_EQ(m->stats().private_pages_dropped, 1U);
}

TEST_F(truncating, writes_pages_then_syncs_then_moves_the_head_in_both_copies) {
  open();
  for (const bool epoch : {false, true}) {
    for (std::size_t n = 1; n <= 5; ++n) change_page(n * 2, n);
    // An open transaction on the first page makes it an epoch truncation.
    auto tx = m->begin();
    if (epoch) tx.set_range(r.at<std::uint64_t>(2 * page + 8));
    const auto before = m->stats();
    disk.clear_trace();
    disk.record_trace(true);
    m->truncate();
    disk.record_trace(false);
    EXPECT_EQ(m->stats().epoch_truncations - before.epoch_truncations, epoch ? 1U : 0U);
    tx.abort();

    // In this order and nothing else: the segment's header, which says how far it will have the log's changes, writes to the
    // segment, its sync, the two copies of the status.
    std::string order;
    for (const auto& t : disk.trace()) {
      if (!sim::changes_disk(t.kind)) continue;
      const bool segment = t.path == where.segments[0].path;
      char is = '?';
      if (segment && t.kind == sim::operation::write) is = t.offset >= data_offset() ? 'p' : 'c';
      if (segment && t.kind == sim::operation::sync) is = 's';
      if (segment && t.kind == sim::operation::durable_write && t.offset < 8192) is = 'h';
      if (!segment && t.kind == sim::operation::durable_write && t.offset == 0) is = '0';
      if (!segment && t.kind == sim::operation::durable_write && t.offset == manifest_copy_size) is = '1';
      if (order.empty() || order.back() != is) order += is;
    }
    EXPECT_TRUE(order == "hpcs01" || order == "hpcs10") << order;
    EXPECT_EQ(pages_written(), (std::vector<std::size_t>{2, 4, 6, 8, 10}));
    EXPECT_EQ(status().head, status().tail);
    EXPECT_EQ(m->stats().log_used, 0U);
  }
}

// The space of a record is not written again before the durable manifest says that the head is behind it, and the file's
// durable header that it has other bytes of the log.
TEST_F(truncating, space_is_used_again_only_after_the_status_is_durable) {
  where.log = {.size = 64 << 10, .max_size = 64 << 10};
  where.tune.truncation_threshold = 0.5;
  open();
  lsn tail = status().tail;
  std::uint64_t writes = 0;
  disk.on_operation([&](const sim::trace_entry& t) {
    if (!t.path.starts_with(where.log_path + ".") || t.path.ends_with("-new") || t.offset < log_file_data ||
        (t.kind != sim::operation::write && t.kind != sim::operation::durable_write))
      return;
    // Writes go on where the last one ended.
    const lsn at = file_header(t.path).base + (t.offset - log_file_data);
    EXPECT_EQ(at, tail);
    tail += t.length;
    ++writes;
  });
  for (std::size_t n = 0; n < 300; ++n) {
    auto tx = m->begin();
    for (std::size_t i = 0; i < 1 + n % 5; ++i) {
      std::byte* const at = r.data() + (n * 7 + i * 3) % 200 * page;
      tx.set_range(at, 3000);
      std::memset(at, static_cast<int>(n), 3000);
    }
    tx.commit();
  }
  disk.on_operation({});
  EXPECT_GT(writes, 300U);
  EXPECT_GT(tail, 10 * where.log.size);
}

// [RVM fig. 7] The test that the paper's description calls for.
TEST_F(truncating, stops_at_a_page_of_an_open_transaction_and_goes_on_after_its_commit) {
  open();
  const lsn start = status().head;
  change_page(10, 1);
  change_page(11, 1);
  const auto used_before_blocked = m->stats().log_used;
  change_page(12, 1);  // this record's page is going to be held
  change_page(13, 1);
  change_page(14, 1);
  const auto used = m->stats().log_used;

  auto holder = m->begin();
  holder.set_range(r.at<std::uint64_t>(12 * page + 104));
  r.at<std::uint64_t>(12 * page + 104) = 0xbad;
  const auto before = m->stats();
  disk.record_trace(true);
  EXPECT_EQ(m->truncate_incrementally(where.log.size), used_before_blocked);
  EXPECT_EQ(pages_written(), (std::vector<std::size_t>{10, 11}));
  EXPECT_EQ(status().head, start + used_before_blocked);
  EXPECT_EQ(m->stats().truncation_blocked, before.truncation_blocked + 1);
  EXPECT_EQ(m->stats().log_used, used - used_before_blocked);

  // Again: nothing moves, whatever is committed meanwhile.
  change_page(15, 1);
  disk.clear_trace();
  EXPECT_EQ(m->truncate_incrementally(where.log.size), 0U);
  EXPECT_TRUE(pages_written().empty());
  EXPECT_EQ(status().head, start + used_before_blocked);

  holder.commit();
  disk.clear_trace();
  EXPECT_GT(m->truncate_incrementally(where.log.size), 0U);
  EXPECT_EQ(pages_written(), (std::vector<std::size_t>{12, 13, 14, 15}));
  EXPECT_EQ(status().head, status().tail);
  EXPECT_EQ(m->stats().log_used, 0U);
  EXPECT_EQ(m->stats().epoch_truncations, before.epoch_truncations);
  // What was held is there now.
  const auto bytes = disk.durable_bytes(where.segments[0].path);
  std::uint64_t value;
  std::memcpy(&value, bytes.data() + data_offset() + 12 * page + 104, sizeof value);
  EXPECT_EQ(value, 0xbadU);
}

// A transaction that ends when truncation has just seen its page wakes nobody, and need not.
TEST_F(truncating, goes_on_when_what_blocked_it_ends_meanwhile) {
  where.tune.truncation_threshold = 0.25;
  open();
  auto holder = m->begin();
  holder.set_range(r.at<std::uint64_t>(12 * page + 104));
  disk.on_operation([&](const sim::trace_entry& now) {
    if (now.kind == sim::operation::write && now.path == where.segments[0].path && holder.is_open()) holder.abort();
  });
  change_page(10, 1);
  for (std::uint64_t n = 1; holder.is_open(); ++n) change_page(12, n);
  disk.on_operation(nullptr);
  EXPECT_LE(m->stats().log_used, where.log.size / 8 + 2 * page);
}

TEST_F(truncating, incrementally_reclaims_no_more_than_it_must) {
  open();
  for (std::size_t n = 0; n < 10; ++n) change_page(n, 1);
  const auto used = m->stats().log_used;
  disk.record_trace(true);
  const auto reclaimed = m->truncate_incrementally(used / 10);
  EXPECT_EQ(reclaimed, used / 10);
  EXPECT_EQ(pages_written(), (std::vector<std::size_t>{0}));
  EXPECT_EQ(m->truncate_incrementally(0), 0U);
  // As much as there is, and no overflow.
  EXPECT_EQ(m->truncate_incrementally(~std::uint64_t{0}), used - reclaimed);
}

// A page that is changed again and again stands at the front of the queue only once, with its oldest record.
TEST_F(truncating, writes_a_page_once_with_its_newest_committed_value) {
  open();
  for (std::uint64_t n = 1; n <= 20; ++n) change_page(3, n);
  disk.record_trace(true);
  (void)m->truncate_incrementally(1);
  EXPECT_EQ(pages_written(), (std::vector<std::size_t>{3}));
  EXPECT_EQ(m->stats().log_used, 0U);
  const auto bytes = disk.durable_bytes(where.segments[0].path);
  EXPECT_EQ(bytes[data_offset() + 3 * page], std::byte{20});
}

TEST_F(truncating, falls_back_to_epoch_when_blocked_and_space_is_short) {
  where.log = {.size = 64 << 10, .max_size = 64 << 10};
  for (const double threshold : {2.0, 0.5}) {
    where.tune.truncation_threshold = threshold;
    open();
    change_page(0, 1);
    auto holder = m->begin();
    holder.set_range(r.at<std::uint64_t>(8));
    r.at<std::uint64_t>(8) = 0xdead;
    for (std::uint64_t n = 0; n < 200; ++n) change_page(1 + n % 50, n);
    const auto s = m->stats();
    EXPECT_GE(s.epoch_truncations, 1U) << "threshold " << threshold;
    EXPECT_GE(s.truncation_blocked, 1U);
    EXPECT_EQ(r.at<std::uint64_t>(8), 0xdeadU);
    // Committed changes of the held page are in the segment, the uncommitted one is not.
    m->truncate();
    const auto bytes = disk.durable_bytes(where.segments[0].path);
    EXPECT_EQ(bytes[data_offset()], std::byte{1});
    EXPECT_EQ(bytes[data_offset() + 8], std::byte{0});
    holder.commit();
    m->close();
    m.reset();
    r = {};
    m.emplace(where.log_path, how());
    r = m->map(where.segments[0].path);
    EXPECT_EQ(r.at<std::uint64_t>(8), 0xdeadU);
    change_page(0, 0);
    r.at<std::uint64_t>(8) = 0;
    r.unmap();
    m.reset();
    disk.remove(where.segments[0].path);
  }
}

// Random transfers between accounts, always some transactions open, a log much smaller than the run.
TEST_F(truncating, of_a_long_bank_run_is_incremental) {
  background = true;
  where.log = {.size = 1 << 20, .max_size = 1 << 20};
  where.tune.truncation_threshold = 0.5;
  open(4 << 20);
  constexpr std::size_t accounts = (4 << 20) / 128;
  random_source random(1);
  const std::uint64_t transfers = scaled(20000);
  for (std::uint64_t n = 0; n < transfers; ++n) {
    auto tx = m->begin();
    const auto account = [&]() -> std::uint64_t& {
      // Most transfers have to do with few accounts, as in TPC-A's localized pattern.
      const std::size_t which = random.below(100) < 70 ? random.below(accounts / 20) : random.below(accounts);
      return r.at<std::uint64_t>(which * 128);
    };
    auto& from = account();
    auto& to = account();
    tx.set_range(from);
    tx.set_range(to);
    --from;
    ++to;
    tx.commit();
  }
  const auto s = m->stats();
  const double share = static_cast<double>(s.incremental_bytes_reclaimed) /
                       static_cast<double>(s.incremental_bytes_reclaimed + s.epoch_bytes_reclaimed);
  std::cout << "  log reclaimed: " << s.incremental_bytes_reclaimed << " bytes by " << s.incremental_truncations
            << " incremental steps, " << s.epoch_bytes_reclaimed << " by " << s.epoch_truncations << " epochs ("
            << share * 100 << " % incremental); blocked " << s.truncation_blocked
            << " times, commits that waited: " << s.truncation_waits << "; pages written: " << s.pages_written
            << ", private copies dropped: " << s.private_pages_dropped << '\n';
  RecordProperty("incremental_bytes", std::to_string(s.incremental_bytes_reclaimed));
  RecordProperty("epoch_bytes", std::to_string(s.epoch_bytes_reclaimed));
  EXPECT_GT(s.incremental_bytes_reclaimed, where.log.size);
  // 0.95 and more where the background gets its share of a processor; a scaled-down run is not long.
  EXPECT_TRUE(share > 0.5 || test_scale() < 1) << share;
  // No money was made.
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < accounts; ++i) sum += r.at<std::uint64_t>(i * 128);
  EXPECT_EQ(sum, 0U);
  const auto crashed = disk.crash(1, sim::policy::drop_all);
  const auto found = recovered_image(*crashed, where);
  sum = 0;
  for (std::size_t i = 0; i < accounts; ++i) {
    std::uint64_t balance;
    std::memcpy(&balance, found.data() + i * 128, sizeof balance);
    sum += balance;
  }
  EXPECT_EQ(sum, 0U);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), r.data()));
}

// Blocked for the whole time by one transaction that stays open: space comes from epochs, while others commit.
TEST_F(truncating, by_epoch_goes_on_while_threads_commit) {
  background = true;
  where.tune.truncation_threshold = 0.3;
  open();
  auto holder = m->begin();
  change_page(255, 1);
  holder.set_range(r.at<std::uint64_t>(255 * page + 8));
  r.at<std::uint64_t>(255 * page + 8) = 0xdead;
  const std::uint64_t rounds = scaled(1000);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t n = 1; n <= rounds; ++n) {
        auto tx = m->begin();
        for (std::size_t i = 0; i < 4; ++i) tx.modify(r.at<std::uint64_t>((t * 80 + (n + i) % 80) * page), n);
        // Its own page at another place: epochs see a page half committed.
        tx.modify(r.at<std::uint64_t>(255 * page + 16 + t * 8), n);
        tx.commit(n % 4 == 0 ? commit_mode::flush : commit_mode::no_flush);
      }
    });
  for (auto& thread : threads) thread.join();
  m->truncate();
  EXPECT_GT(m->stats().epoch_truncations, 0U);
  const auto crashed = disk.crash(1, sim::policy::drop_all);
  auto found = recovered_image(*crashed, where);
  EXPECT_NE(std::memcmp(found.data(), r.data(), found.size()), 0);
  std::uint64_t zero = 0;
  EXPECT_EQ(std::memcmp(found.data() + 255 * page + 8, &zero, 8), 0) << "uncommitted bytes were written";
  std::memcpy(found.data() + 255 * page + 8, r.data() + 255 * page + 8, 8);
  EXPECT_EQ(std::memcmp(found.data(), r.data(), found.size()), 0);
  holder.abort();
}

// Uncommitted and undeclared bytes are marked, and looked for in everything that is on the disk.
TEST_F(truncating, never_writes_uncommitted_or_undeclared_bytes) {
  for (const double threshold : {2.0, 0.2}) {
    where.tune.truncation_threshold = threshold;
    open();
    const std::string uncommitted = "UNCOMMITTED-MARK", undeclared = "UNDECLARED-MARK!", aborted = "ABORTED-MARK-XYZ";
    for (std::size_t n = 0; n < 100; ++n) std::memcpy(r.data() + n * page + 512, undeclared.data(), undeclared.size());
    auto holder = m->begin();
    random_source random(7);
    for (std::size_t n = 0; n < 300; ++n) {
      change_page(random.below(100), n, n % 3 == 0 ? commit_mode::flush : commit_mode::no_flush);
      if (n % 5 == 0) {
        std::byte* const at = r.data() + random.below(100) * page + 1024 + n * 8;
        holder.set_range(at, uncommitted.size());
        std::memcpy(at, uncommitted.data(), uncommitted.size());
      }
      if (n % 7 == 0) {
        auto tx = m->begin();
        std::byte* const at = r.data() + random.below(100) * page + 256;
        tx.set_range(at, aborted.size());
        std::memcpy(at, aborted.data(), aborted.size());
      }
      if (n % 50 == 0) (void)m->truncate_incrementally(random.below(50000));
      if (n % 90 == 0) m->truncate();
    }
    m->truncate();
    for (const auto& name : disk.names()) {
      const auto durable = disk.durable_bytes(name), current = disk.current_bytes(name);
      for (const auto* bytes : {&durable, &current}) {
        const std::string_view all(reinterpret_cast<const char*>(bytes->data()), bytes->size());
        for (const auto& mark : {uncommitted, undeclared, aborted})
          EXPECT_EQ(all.find(mark), std::string_view::npos) << mark << " is in " << name;
      }
    }
    // Undeclared bytes stay in memory all the time: their pages' private copies were not dropped.
    for (std::size_t n = 0; n < 100; ++n)
      ASSERT_EQ(std::memcmp(r.data() + n * page + 512, undeclared.data(), undeclared.size()), 0);
    EXPECT_EQ(m->stats().private_pages_dropped, 0U);
    EXPECT_GT(m->stats().private_pages_kept, 0U);
    holder.abort();
    r.unmap();
    m.reset();
    disk.remove(where.segments[0].path);
  }
}

// A private copy goes after its page was written, if it equals the file's page and nobody can be writing to it.
TEST_F(truncating, drops_private_pages_only_by_the_rule) {
  open();
  change_page(1, 1);
  change_page(2, 2);
  change_page(3, 3);
  r.at<std::uint64_t>(2 * page + 64) = 0xabc;  // undeclared
  auto holder = m->begin();
  holder.set_range(r.at<std::uint64_t>(3 * page + 64));
  m->truncate();
  EXPECT_EQ(m->stats().private_pages_dropped, 1U);
  EXPECT_EQ(m->stats().private_pages_kept, 2U);
  EXPECT_EQ(r.at<std::uint64_t>(1 * page), 1U);
  EXPECT_EQ(r.at<std::uint64_t>(2 * page), 2U);
  EXPECT_EQ(r.at<std::uint64_t>(2 * page + 64), 0xabcU);
  r.at<std::uint64_t>(3 * page + 64) = 9;
  holder.commit();
  m->truncate();
  EXPECT_EQ(m->stats().private_pages_dropped, 2U);
  EXPECT_EQ(r.at<std::uint64_t>(3 * page + 64), 9U);

  // Not before the segment is synced: when that fails nothing may go.
  change_page(4, 4);
  disk.inject({.kind = sim::operation::sync, .path = where.segments[0].path, .what = sim::effect::lose_writes});
  EXPECT_THROW(m->truncate(), error);
  EXPECT_EQ(m->stats().private_pages_dropped, 2U);
  EXPECT_EQ(r.at<std::uint64_t>(4 * page), 4U);
}

}  // namespace
}  // namespace tenure::rvm::testing
