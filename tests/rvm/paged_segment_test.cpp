// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments that are read and changed page by page, without being mapped. Random workloads with them are in crash_test and
// fault_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "log/local_log.hpp"
#include "regions/paged_state.hpp"
#include "segments/format.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"

namespace tenure::rvm::testing {
namespace {

using support::expect_error;

constexpr std::uint64_t page = paged_segment::page_length;

std::vector<std::byte> filled(std::size_t length, int with) {
  return std::vector(length, static_cast<std::byte>(with));
}

struct paged : ::testing::Test {
  paged() {
    where.log = {.size = 1 << 20, .max_size = 1 << 20};
    where.tune.truncation_threshold = 2;
    open_memory();
    m->create_segment(path, {.length = 16 * page, .max_length = 64 * page});
    p = m->open_pages(path);
  }
  void open_memory(open_mode mode = open_mode::open_or_create) {
    options how = where.how(*disk);
    how.mode = mode;
    m.emplace(where.log_path, how);
  }
  void change(std::uint64_t at, const std::vector<std::byte>& value, commit_mode mode = commit_mode::flush) {
    m->transact([&](transaction& tx) { tx.change(p, at, value); }, mode);
  }
  std::vector<std::byte> bytes(std::uint64_t at, std::size_t length) const {
    std::vector<std::byte> whole(round_up(at + length, page) - round_down(at, page));
    p.read(at / page, whole);
    return {whole.begin() + static_cast<std::ptrdiff_t>(at % page),
            whole.begin() + static_cast<std::ptrdiff_t>(at % page + length)};
  }
  void crash(sim::policy what) {
    auto left = disk->crash(1, what);
    disk->power_off();
    p = {};
    m.reset();
    disk = std::move(left);
  }
  // A bit of the segment's data, on the disk.
  void damage(std::uint64_t at) {
    segment_header h;
    const auto file = disk->current_bytes(path);
    std::memcpy(&h, file.data(), sizeof h);
    const std::byte with = file[h.data_offset + at] ^ std::byte{0x10};
    disk->poke(path, h.data_offset + at, {&with, 1});
  }

  const std::string path = "/store/pages.seg";
  layout where;
  std::unique_ptr<sim::disk> disk = std::make_unique<sim::disk>();
  std::optional<memory> m;
  paged_segment p;
};

TEST_F(paged, reads_what_is_committed_wherever_it_is) {
  change(100, filled(50, 1), commit_mode::no_flush);
  EXPECT_EQ(bytes(100, 50), filled(50, 1));  // in the spool
  EXPECT_EQ(bytes(0, 100), filled(100, 0));
  m->flush();
  EXPECT_EQ(bytes(100, 50), filled(50, 1));  // in the log
  m->check();
  m->truncate();
  m->check();
  EXPECT_EQ(bytes(100, 50), filled(50, 1));  // in the segment
  change(110, filled(10, 2));
  EXPECT_EQ(bytes(100, 10), filled(10, 1));
  EXPECT_EQ(bytes(110, 10), filled(10, 2));
  EXPECT_EQ(bytes(120, 30), filled(30, 1));
  p.close();
  m->close();
  open_memory();
  const region r = m->map(path);  // a mapping sees the same
  EXPECT_EQ(std::vector(r.data() + 110, r.data() + 120), filled(10, 2));
  EXPECT_EQ(std::vector(r.data() + 120, r.data() + 150), filled(30, 1));
}

TEST_F(paged, changes_may_cross_pages_and_overlap) {
  const auto first = filled(3 * page, 1), second = filled(page, 2), third = filled(20, 3);
  m->transact([&](transaction& tx) {
    tx.change(p, page / 2, first);
    tx.change(p, page, second);
    tx.change(p, 2 * page - 10, third);
    tx.change(p, 0, {});
  });
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(bytes(0, page / 2), filled(page / 2, 0));
    EXPECT_EQ(bytes(page / 2, page / 2), filled(page / 2, 1));
    EXPECT_EQ(bytes(page, page - 10), filled(page - 10, 2));
    EXPECT_EQ(bytes(2 * page - 10, 20), third);
    EXPECT_EQ(bytes(2 * page + 10, page / 2), filled(page / 2, 1));
    m->truncate();
  }
}

TEST_F(paged, values_are_those_at_commit) {
  auto value = filled(8, 1);
  transaction tx = m->begin();
  tx.change(p, 0, value);
  std::ranges::fill(value, std::byte{2});
  EXPECT_EQ(bytes(0, 8), filled(8, 0));
  tx.commit();
  EXPECT_EQ(bytes(0, 8), filled(8, 2));
}

TEST_F(paged, nothing_of_an_abort_is_seen) {
  const auto value = filled(8, 1);
  {
    transaction tx = m->begin();
    tx.change(p, 8, value);
    tx.abort();
    tx = m->begin();
    tx.change(p, 16, value);
  }
  EXPECT_EQ(bytes(0, 32), filled(32, 0));
  EXPECT_EQ(m->stats().flush_commits, 0u);
  m->check();
}

TEST_F(paged, a_commit_that_is_refused_can_be_aborted_or_made_smaller) {
  const std::vector<std::byte> much(64 * page);
  m->grow_segment(path, 64 * page);
  EXPECT_EQ(p.size(), 64 * page);
  p = {};
  m->close();
  m.emplace("/store/other.log", options{.mode = open_mode::open_or_create,
                                        .log = {.size = 64 << 10, .max_size = 64 << 10},
                                        .tune = where.tune,
                                        .disk = disk.get()});
  m->create_segment("/store/other.seg", {.length = 64 * page});
  paged_segment other = m->open_pages("/store/other.seg");
  transaction tx = m->begin();
  tx.change(other, 0, much);
  expect_error(errc::too_big, {}, [&] { tx.commit(); });
  m->check();
  expect_error(errc::region_busy, {"commit or abort first"}, [&] { other.close(); });
  tx.abort();
  m->check();
  other.close();
}

// Between making room and giving it back, truncation may write the page.
TEST_F(paged, nothing_is_kept_of_a_written_page_once_a_commit_gives_back_its_room) {
  p = {};
  m->close();
  counters count;
  const local_log log(*disk, where.log_path, os::access::read_only, count, copied_files::refuse);
  const page_queue nothing_dirty(log);
  segment in(*disk, path, path, os::access::read_only, false);
  paged_state state(nullptr, in, 64, [](const auto& f) { f(); });
  const std::vector<std::byte> value = filled(8, 7);
  const auto commit = [&] {
    state.prepare(3);
    state.capture(3, {{{&in, 3 * page, value.data(), value.size()}}});
  };
  commit();
  state.prepare(3);
  state.written(3, nothing_dirty);
  state.cancel(3);
  state.check(nothing_dirty);  // it counts what is kept
  commit();
  state.prepare(3);
  state.written(3, nothing_dirty);
  commit();  // what is kept is newer than what was written
  state.cancel(3);
  std::vector<std::byte> read(page);
  state.read(3, read);
  EXPECT_EQ(read[0], value[0]);
}

TEST_F(paged, is_opened_once_and_not_beside_a_mapping) {
  expect_error(errc::region_overlap, {path}, [&] { (void)m->open_pages(path); });
  expect_error(errc::region_overlap, {path}, [&] { (void)m->map(path); });
  p.close();
  p.close();
  region r = m->map(path);
  expect_error(errc::region_overlap, {path}, [&] { (void)m->open_pages(path); });
  r.unmap();
  p = m->open_pages(path);
  EXPECT_EQ(p.segment_path(), path);
}

TEST_F(paged, misuse_is_refused) {
  std::vector<std::byte> two(2 * page);
  expect_error(errc::misaligned, {path, "4096"}, [&] { p.read(0, std::span(two).first(100)); });
  expect_error(errc::segment_too_short, {path, "grow_segment"}, [&] { p.read(15, two); });
  expect_error(errc::segment_too_short, {path, "grow_segment"}, [&] { p.read(~std::uint64_t{0} / page, two); });
  transaction tx = m->begin();
  expect_error(errc::segment_too_short, {path, "grow_segment"},
               [&] { tx.change(p, 16 * page - 1, std::span(two).first(2)); });
  expect_error(errc::segment_too_short, {path, "grow_segment"},
               [&] { tx.change(p, ~std::uint64_t{0}, std::span(two).first(2)); });
  tx.change(p, 0, two);
  expect_error(errc::region_busy, {"commit or abort first"}, [&] { p.close(); });
  tx.abort();
  transaction automatic = m->begin_automatic();
  expect_error(errc::wrong_tracking, {"begin()"}, [&] { automatic.change(p, 0, two); });
  automatic.abort();
  memory another("/store/other.log", options{.mode = open_mode::open_or_create, .disk = disk.get()});
  transaction elsewhere = another.begin();
  expect_error(errc::not_mapped, {path, "another memory"}, [&] { elsewhere.change(p, 0, two); });
  elsewhere.abort();
  p.close();
  expect_error(errc::closed, {}, [&] { p.read(0, two); });
  tx = m->begin();
  expect_error(errc::closed, {}, [&] { tx.change(p, 0, two); });
  tx.abort();
  p = m->open_pages(path);
  m->close();
  expect_error(errc::closed, {}, [&] { p.read(0, two); });
}

TEST_F(paged, damage_is_told_and_whole_pages_mend_it) {
  change(5 * page, filled(page, 1));
  change(6 * page, filled(page, 2));
  m->truncate();
  damage(5 * page + 77);
  EXPECT_EQ(bytes(6 * page, page), filled(page, 2));
  expect_error(errc::damaged, {path, "offset 20480"}, [&] { (void)bytes(5 * page, 8); });
  change(5 * page + 8, filled(8, 3));
  expect_error(errc::damaged, {path, "offset 20480"}, [&] { (void)bytes(5 * page, 8); });
  change(5 * page, filled(page, 4));
  EXPECT_EQ(bytes(5 * page, page), filled(page, 4));
  m->truncate();
  EXPECT_EQ(bytes(5 * page, page), filled(page, 4));
}

TEST_F(paged, a_memory_that_only_reads_sees_what_waits_in_the_log) {
  change(3 * page + 5, filled(100, 1));
  m->truncate();
  change(3 * page + 50, filled(100, 2));
  crash(sim::policy::keep_all);
  open_memory(open_mode::read_only);
  p = m->open_pages(path);
  EXPECT_EQ(bytes(3 * page + 5, 45), filled(45, 1));
  EXPECT_EQ(bytes(3 * page + 50, 100), filled(100, 2));
  expect_error(errc::read_only, {}, [&] { (void)m->begin(); });
}

// Each commit writes one number to both ends of a page, and to another page. Who reads a page finds the two equal.
TEST_F(paged, readers_see_whole_commits_while_truncation_writes) {
  where.tune.truncation_threshold = 0.1;
  where.limits.most_kept_pages = 4;
  p.close();
  m->close();
  options how = where.how(*disk);
  how.background = true;
  m.emplace(where.log_path, how);
  p = m->open_pages(path);
  std::atomic<bool> done{false};
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < 2; ++t)
    all.emplace_back([&, t] {
      for (std::uint64_t n = 1; n <= scaled(3000); ++n)
        m->transact(
            [&](transaction& tx) {
              const auto value = std::as_bytes(std::span(&n, 1));
              tx.change(p, (2 * t + n % 2) * page, value);
              tx.change(p, (2 * t + n % 2 + 1) * page - sizeof n, value);
            },
            n % 8 == 0 ? commit_mode::flush : commit_mode::no_flush);
    });
  all.emplace_back([&] {
    std::uint64_t newest[4] = {};
    std::vector<std::byte> seen(page);
    while (!done)
      for (std::uint64_t n = 0; n < 4; ++n) {
        p.read(n, seen);
        std::uint64_t first, last;
        std::memcpy(&first, seen.data(), sizeof first);
        std::memcpy(&last, seen.data() + page - sizeof last, sizeof last);
        ASSERT_EQ(first, last);
        ASSERT_GE(first, newest[n]);
        newest[n] = first;
      }
  });
  all[0].join();
  all[1].join();
  done = true;
  all[2].join();
  p.close();
  m->close();
}

}  // namespace
}  // namespace tenure::rvm::testing
