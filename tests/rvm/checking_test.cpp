// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checking mode: the forgotten set_range is named [RVM §6].
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include <tenure/rvm/participant.hpp>

#include "os/file.hpp"
#include "os/virtual_memory.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

// On real files, because what the kernel knows about private copies matters here. The parameter: copied in or mapped.
class checking : public ::testing::TestWithParam<bool> {
 protected:
  static options how() {
    options o = small_log();
    o.tune.check_undeclared = true;
    return o;
  }
  temp_dir dir;
  memory m{dir / "log", how()};
  region r = m.map(dir / "seg", {.create_length = 64 * kib, .copy_in = GetParam()});
};

INSTANTIATE_TEST_SUITE_P(regions, checking, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "copied_in" : "mapped"; });

TEST_P(checking, names_the_undeclared_write) {
  transaction tx = m.begin();
  tx.label("transfer");
  tx.modify(r.data(), "declared", 8);
  r.at<std::uint32_t>(5000) = 0xffffffff;
  expect_error(errc::undeclared_write, {"transaction 1 (transfer)", "bytes 5000 to 5004", dir / "seg", "set_range"},
               [&] { tx.commit(); });
  EXPECT_EQ(m.stats().undeclared_writes, 1u);
  // Nothing was logged; it can be put right and committed.
  EXPECT_EQ(m.stats().flush_commits, 0u);
  EXPECT_TRUE(tx.is_open());
  tx.set_range(r.at<std::uint32_t>(5000));
  tx.commit();
  EXPECT_EQ(m.stats().undeclared_writes, 1u);
  m.close();
  memory again(dir / "log", small_log());
  EXPECT_EQ(again.map(dir / "seg").at<std::uint32_t>(5000), 0xffffffff);
}

// What an abort leaves where it puts nothing back is no undeclared write.
TEST_P(checking, passes_what_aborts_of_bulk_writes_leave) {
  const auto fill = [&](transaction& tx, std::size_t at, char with) {
    tx.hold(r.data() + at, 2 * page);
    std::memset(r.data() + at, with, 2 * page);
    const std::span<const std::byte> whole(r.data() + at, 2 * page);
    tx.write_bulk(r, at, {&whole, 1});
  };
  transaction tx = m.begin();
  fill(tx, 2 * page, 'x');
  tx.abort();
  transaction outer = m.begin();
  fill(outer, 4 * page, 'y');
  inner_transaction inner = outer.begin_inner();
  fill(outer, 6 * page, 'z');
  inner.abort();
  outer.modify(r.data(), "one", 3);
  outer.commit();
  m.transact([&](transaction& next) { next.modify(r.data(), "two", 3); });
  EXPECT_EQ(m.stats().undeclared_writes, 0u);
  r.at<char>(2 * page) = 'q';
  transaction last = m.begin();
  last.modify(r.data(), "end", 3);
  expect_error(errc::undeclared_write, {"bytes 8192 to 8193"}, [&] { last.commit(); });
}

TEST_P(checking, of_a_raw_segment_that_ends_within_a_page) {
  const std::size_t length = 2 * page + 512;
  os::real_disk().create(dir / "raw", 0600)->write_at(0, std::vector<std::byte>(length, std::byte{'q'}));
  const region raw = m.map(dir / "raw", {.length = length, .raw = true, .copy_in = GetParam()});
  for (const std::size_t at : {std::size_t{0}, length - 3})
    m.transact([&](transaction& tx) { tx.modify(raw.data() + at, "new", 3); });
  transaction tx = m.begin();
  *(raw.data() + length - 9) = std::byte{'x'};
  expect_error(errc::undeclared_write, {"bytes " + std::to_string(length - 9)}, [&] { tx.commit(); });
}

TEST_P(checking, edges_of_declared_ranges) {
  transaction tx = m.begin();
  tx.set_range(r.data() + 100, 10);
  r.at<char>(99) = 'x';
  expect_error(errc::undeclared_write, {"bytes 99 to 100"}, [&] { tx.commit(); });
  r.at<char>(99) = 0;
  r.at<char>(110) = 'x';
  expect_error(errc::undeclared_write, {"bytes 110 to 111"}, [&] { tx.commit(); });
  r.at<char>(110) = 0;
  r.at<char>(0) = 'x';
  expect_error(errc::undeclared_write, {"bytes 0 to 1"}, [&] { tx.commit(); });
  r.at<char>(0) = 0;
  r.at<char>(64 * kib - 1) = 'x';
  expect_error(errc::undeclared_write, {"bytes 65535 to 65536"}, [&] { tx.commit(); });
  r.at<char>(64 * kib - 1) = 0;
  std::memset(r.data() + 100, 'y', 10);
  tx.commit();
  EXPECT_EQ(get(r, 100, 10), "yyyyyyyyyy");
}

TEST_P(checking, a_write_of_the_same_value_is_none) {
  transaction tx = m.begin();
  r.at<char>(0) = 0;
  r.at<char>(10) = 'x';
  r.at<char>(10) = 0;
  tx.commit();
}

TEST_P(checking, an_aborted_transaction_leaves_nothing_to_complain_of) {
  {
    transaction tx = m.begin();
    tx.modify(r.data(), "gone", 4);
  }
  m.begin().commit();
  {
    transaction tx = m.begin();
    r.at<char>(9) = 'x';
    expect_error(errc::undeclared_write, {"bytes 9 to 10"}, [&] { tx.commit(); });
    tx.abort();  // knows nothing of it
  }
  EXPECT_EQ(r.at<char>(9), 'x');
  expect_error(errc::undeclared_write, {"bytes 9 to 10"}, [&] { m.begin().commit(commit_mode::no_flush); });
}

TEST_P(checking, ranges_of_other_open_transactions_are_declared) {
  transaction other = m.begin();
  other.modify(r.data() + 200, "theirs", 6);
  put(m, r, 0, "ours");
  std::jthread([&] { put(m, r, 64, "another thread's"); }).join();
  // But not what lies beside them.
  transaction tx = m.begin();
  r.at<char>(206) = 'x';
  expect_error(errc::undeclared_write, {"bytes 206 to 207"}, [&] { tx.commit(); });
  r.at<char>(206) = 0;
  tx.commit();
  other.abort();
  m.begin().commit();
}

TEST_P(checking, undeclared_write_by_another_thread) {
  transaction first = m.begin(), second = m.begin();
  first.modify(r.data(), "first", 5);
  second.modify(r.data() + 4096, "second", 6);
  std::jthread([&] { r.at<char>(8192) = 'x'; }).join();
  expect_error(errc::undeclared_write, {"transaction 1:", "bytes 8192 to 8193"}, [&] { first.commit(); });
  expect_error(errc::undeclared_write, {"transaction 2:", "bytes 8192 to 8193"}, [&] { second.commit(); });
  r.at<char>(8192) = 0;
  first.commit();
  second.commit();
}

TEST_P(checking, after_truncation_and_dropped_pages) {
  put(m, r, 0, "committed");
  put(m, r, 4096, "also");
  m.truncate();
  if (!GetParam()) {
    EXPECT_EQ(m.stats().private_pages_dropped, 2u);
  }
  put(m, r, 0, "again");
  r.at<char>(4096) = 'X';  // in a page that has been given back
  expect_error(errc::undeclared_write, {"bytes 4096 to 4097"}, [&] { put(m, r, 0, "no"); });
  r.at<char>(4096) = 'a';
  // A stray write keeps its page from being given back, and stays known.
  r.at<char>(5) = '!';
  m.truncate();
  expect_error(errc::undeclared_write, {"bytes 5 to 6"}, [&] { put(m, r, 4096, "no"); });
  r.at<char>(5) = 't';
  put(m, r, 4096, "yes!");
  EXPECT_EQ(get(r, 0, 9), "againtted");
}

TEST_P(checking, with_the_kernel_s_older_ways) {
  for (const auto way : {os::page_mechanism::pagemap_file, os::page_mechanism::none}) {
    os::force_page_mechanism(way);
    put(m, r, 0, "fine");
    r.at<char>(12345) = 'x';
    expect_error(errc::undeclared_write, {"bytes 12345 to 12346"}, [&] { put(m, r, 0, "no"); });
    r.at<char>(12345) = 0;
    put(m, r, 0, "good");
  }
  os::force_page_mechanism(os::page_mechanism::best);
}

TEST_P(checking, every_region_is_looked_at) {
  region other = m.map(dir / "other", {.create_length = 16 * kib});
  region part = m.map(dir / "other2", {.create_length = 4 * kib});
  transaction tx = m.begin();
  tx.modify(r.data(), "x", 1);
  other.at<char>(10) = 'y';
  expect_error(errc::undeclared_write, {dir / "other", "bytes 10 to 11"}, [&] { tx.commit(); });
  other.at<char>(10) = 0;
  tx.commit();
  part.unmap();
  // Offsets are the segment's, not the region's.
  other.unmap();
  other = m.map(dir / "other", {.offset = 8 * kib});
  other.at<char>(10) = 'y';
  expect_error(errc::undeclared_write, {dir / "other", "bytes 8202 to 8203"}, [&] { put(m, r, 0, "z"); });
}

TEST_P(checking, switched_off_and_on) {
  tuning off = m.tune(), on = off;
  off.check_undeclared = false;
  m.set_tuning(off);
  put(m, r, 0, "unchecked");
  r.at<char>(100) = 'x';
  put(m, r, 64, "unchecked");
  m.set_tuning(on);
  // What was committed meanwhile is no complaint, what was forgotten is.
  expect_error(errc::undeclared_write, {"bytes 100 to 101"}, [&] { put(m, r, 0, "checked"); });
  r.at<char>(100) = 0;
  put(m, r, 0, "checked");
}

TEST_P(checking, participants_declare_what_they_write) {
  struct counting final : participant {
    explicit counting(int& in) : where(in) {}
    void prepare(commit_scope& tx) override { tx.modify(where, where + 1); }
    void undo_prepare(commit_scope&) noexcept override { --where; }
    void committed(commit_scope&) noexcept override {}
    void aborted(commit_scope&) noexcept override {}
    int& where;
  } who(r.at<int>(1000));
  transaction tx = m.begin();
  tx.join(who);
  r.at<char>(0) = 'x';
  expect_error(errc::undeclared_write, {"bytes 0 to 1"}, [&] { tx.commit(); });
  EXPECT_EQ(r.at<int>(1000), 0);
  tx.set_range(r.data(), 1);
  tx.commit();
  EXPECT_EQ(r.at<int>(1000), 1);
}

TEST_P(checking, while_threads_commit) {
  std::vector<std::jthread> threads;
  std::atomic<int> complaints{0};
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        transaction tx = m.begin();
        for (std::size_t n = 0; n < 100; n += 10) {
          tx.set_range(r.data() + t * 4096 + n * 20, 10);
          std::memset(r.data() + t * 4096 + n * 20, i, 10);
        }
        try {
          if (i % 7 == 0)
            tx.abort();
          else
            tx.commit(commit_mode::no_flush);
        } catch (const error& e) {
          std::printf("%s\n", e.what());
          ++complaints;
        }
        if (i % 20 == 0) m.truncate();
      }
    });
  threads.clear();
  EXPECT_EQ(complaints, 0);
}

}  // namespace
}  // namespace tenure::rvm
