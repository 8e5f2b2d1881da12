// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages of a segment that fail their checksums: whatever is committed and truncated afterwards, they are reported until they
// are overwritten as a whole. A new checksum never makes damage look sound.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "records/format.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"

namespace tenure::rvm::testing {
namespace {

using support::expect_error;

constexpr std::uint64_t page = 4096;
using offsets = std::vector<std::uint64_t>;

struct page_damage : ::testing::Test {
  page_damage() {
    where.segments = {{"/store/a.seg", 64 * page, false}};
    where.log = {.size = 1 << 20, .max_size = 1 << 20};
    where.tune.truncation_threshold = 2;
    open();
    for (std::uint64_t n = 0; n < 64; ++n) change(n * page + 104, 1000 + n);
    close();
  }
  void open(open_mode mode = open_mode::open_or_create) {
    options how = where.how(*disk);
    how.mode = mode;
    m.emplace(where.log_path, how);
    r = m->map(where.segments[0].path, {.create_length = where.segments[0].length});
  }
  void close() {
    r = region();
    m->close();
    m.reset();
  }
  void reopen() {
    close();
    open();
  }
  void change(std::uint64_t at, std::uint64_t value) {
    m->transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(at), value); });
  }
  void overwrite(std::uint64_t n) {
    m->transact([&](transaction& tx) {
      tx.set_range(r.data() + n * page, page);
      std::memset(r.data() + n * page, 7, page);
    });
  }
  // A bit of the segment's data, on the disk.
  void damage(std::uint64_t at) {
    segment_header h;
    const auto bytes = disk->current_bytes(where.segments[0].path);
    std::memcpy(&h, bytes.data(), sizeof h);
    const std::byte with = bytes[h.data_offset + at] ^ std::byte{0x10};
    disk->poke(where.segments[0].path, h.data_offset + at, {&with, 1});
  }
  offsets bad() { return m->verify_segment(where.segments[0].path); }
  // The process ends now, without truncation.
  void crash(sim::policy what = sim::policy::drop_all) {
    auto left = disk->crash(1, what);
    disk->power_off();
    r = region();
    m.reset();
    disk = std::move(left);
  }

  layout where;
  std::unique_ptr<sim::disk> disk = std::make_unique<sim::disk>();
  std::optional<memory> m;
  region r;
};

TEST_F(page_damage, survives_truncation_of_other_bytes_of_the_page) {
  damage(5 * page + 3000);
  open();
  EXPECT_EQ(bad(), offsets{5 * page});
  change(5 * page + 200, 7);
  change(6 * page + 200, 7);
  m->truncate();
  EXPECT_EQ(bad(), offsets{5 * page});
  for (int n = 0; n < 3; ++n) {
    reopen();
    EXPECT_EQ(bad(), offsets{5 * page});
    EXPECT_EQ(r.at<std::uint64_t>(5 * page + 200), 7u + (n > 0 ? n - 1 : 0));
    change(5 * page + 200, 7 + n);
  }
}

TEST_F(page_damage, is_told_and_counted_once) {
  damage(5 * page + 3000);
  std::vector<std::string> told;
  options how = where.how(*disk);
  how.on_damage = [&](const damaged_page& d) { told.push_back(d.segment_path + " " + std::to_string(d.offset)); };
  m.emplace(where.log_path, how);
  r = m->map(where.segments[0].path);
  for (std::uint64_t n = 0; n < 3; ++n) {
    change(5 * page + 200, n);
    m->truncate();
  }
  EXPECT_EQ(told, std::vector<std::string>{"/store/a.seg " + std::to_string(5 * page)});
  EXPECT_EQ(m->stats().damaged_pages, 1u);
  reopen();
  EXPECT_EQ(m->totals().damaged_pages, 1u);
}

TEST_F(page_damage, is_told_though_the_truncation_fails) {
  damage(5 * page + 3000);
  std::vector<std::uint64_t> told;
  options how = where.how(*disk);
  how.on_damage = [&](const damaged_page& d) { told.push_back(d.offset); };
  m.emplace(where.log_path, how);
  r = m->map(where.segments[0].path);
  change(5 * page + 200, 7);
  disk->inject({.kind = sim::operation::durable_write, .path = "a.seg", .bytes = 0});
  EXPECT_THROW(m->truncate(), error);
  EXPECT_EQ(told, std::vector<std::uint64_t>{5 * page});
  m->truncate();
  EXPECT_EQ(told.size(), 1u);
  EXPECT_EQ(m->stats().damaged_pages, 1u);
}

TEST_F(page_damage, ends_where_the_page_is_overwritten_as_a_whole) {
  damage(5 * page + 3000);
  damage(6 * page + 3000);
  open();
  change(5 * page, 1);
  m->truncate();
  overwrite(5);
  overwrite(6);
  EXPECT_EQ(bad(), offsets{});
  change(5 * page, 2);
  reopen();
  EXPECT_EQ(bad(), offsets{});
}

// No truncation was writing the page when the process ended.
TEST_F(page_damage, is_found_by_recovery) {
  for (const bool read_first : {true, false}) {
    SCOPED_TRACE(read_first);
    open();
    m->truncate();
    change(5 * page + 200, 7);
    overwrite(6);
    crash();
    damage(5 * page + 3000);
    damage(6 * page + 3000);
    if (read_first) {
      open(open_mode::read_only);
      EXPECT_EQ(bad(), offsets{5 * page});
      close();
    }
    open();
    ASSERT_EQ(m->recovery().damaged.size(), read_first ? 1u : 0u);  // the second time it is known
    EXPECT_EQ(m->recovery().unproven_pages, 0u);
    EXPECT_EQ(bad(), offsets{5 * page});
    close();
  }
}

// Wherever the power goes: in the truncation that meets it first, and in later ones.
TEST_F(page_damage, survives_a_crash_at_every_operation) {
  std::uint64_t crashes = 0;
  for (const bool known : {false, true}) {
    open();
    if (known) {
      change(5 * page + 200, 7);
      m->truncate();
    }
    change(5 * page + 400, 7);
    change(7 * page + 400, 7);
    crash(sim::policy::keep_all);
    if (!known) damage(5 * page + 3000);
    for (std::uint64_t at = 1;; ++at) {
      const auto run = disk->crash(1, sim::policy::keep_all);
      run->crash_at(at, at % 9);
      try {
        memory opened(where.log_path, where.how(*run));
        const region all = opened.map(where.segments[0].path);
        opened.transact([&](transaction& tx) { tx.modify(all.at<std::uint64_t>(5 * page + 600), at); });
        opened.truncate();
        opened.close();
      } catch (const sim::power_failure&) {
      }
      if (!run->is_off()) break;
      ++crashes;
      for (const auto policy : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
        const auto left = run->crash(at, policy);
        memory again(where.log_path, where.how(*left));
        EXPECT_EQ(again.verify_segment(where.segments[0].path), offsets{5 * page}) << "operation " << at;
      }
    }
  }
  EXPECT_GT(crashes, 40u);
}

// A truncation that a crash has interrupted leaves pages with checksums of another moment: that is no damage.
TEST_F(page_damage, is_not_seen_where_a_truncation_was_interrupted) {
  open();
  for (std::uint64_t n = 0; n < 64; n += 3) change(n * page + 200, n);
  crash(sim::policy::keep_all);
  std::uint64_t unproven = 0;
  for (std::uint64_t at = 1;; ++at) {
    const auto run = disk->crash(1, sim::policy::keep_all);
    run->crash_at(at, at % 9);
    try {
      memory opened(where.log_path, where.how(*run));
      const region all = opened.map(where.segments[0].path);
      for (std::uint64_t n = 0; n < 64; n += 5)
        opened.transact([&](transaction& tx) { tx.modify(all.at<std::uint64_t>(n * page + 600), n); });
      opened.truncate();
      opened.close();
    } catch (const sim::power_failure&) {
    }
    for (const auto policy : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
      const auto left = run->crash(at, policy);
      memory again(where.log_path, where.how(*left));
      EXPECT_TRUE(again.recovery().damaged.empty()) << "operation " << at;
      unproven += again.recovery().unproven_pages;
      EXPECT_EQ(again.verify_segment(where.segments[0].path), offsets{}) << "operation " << at;
    }
    if (!run->is_off()) break;
  }
  EXPECT_GT(unproven, 0u);
}

TEST_F(page_damage, of_a_single_read_is_none) {
  open();
  change(5 * page + 200, 7);
  // The checksums, then the page.
  const auto fault = disk->inject(
      {.kind = sim::operation::read, .path = "a.seg", .nth = 1, .what = sim::effect::flip_bit, .bytes = 30000});
  m->truncate();
  EXPECT_EQ(disk->hits(fault), 1u);
  disk->clear_faults();
  EXPECT_EQ(m->stats().damaged_pages, 0u);
  EXPECT_EQ(bad(), offsets{});
}

// Random programs: damage is planted while the segment is open, closed, or left by a crash. What verify_segment reports is
// always what was damaged and not overwritten as a whole since.
class damage_model : public page_damage {
 protected:
  void commit(random_source& random) {
    m->transact([&](transaction& tx) {
      for (std::uint64_t ranges = 1 + random.below(3); ranges-- != 0;) {
        const std::uint64_t n = random.below(pages);
        std::uint64_t from = random.below(page), length = 1 + random.below(page - from);
        if (random.one_in(3)) from = 0, length = page;
        if (random.one_in(3)) length = std::min<std::uint64_t>(length, 8);
        tx.set_range(r.data() + n * page + from, length);
        fill_random(r.data() + n * page + from, length, random);
        for (std::uint64_t i = from; i < from + length; ++i) in_log[n][i] = true;
      }
    });
  }
  void truncated() {
    for (std::uint64_t n = 0; n < pages; ++n) {
      if (std::ranges::all_of(in_log[n], [](bool b) { return b; })) damaged[n] = false;
      in_log[n].assign(page, false);
    }
  }
  void plant(random_source& random) {
    const std::uint64_t n = random.below(pages);
    if (damaged[n]) return;
    damage(n * page + random.below(page));
    damaged[n] = true;
  }
  void expect_all_reported() {
    offsets expected;
    for (std::uint64_t n = 0; n < pages; ++n)
      if (damaged[n]) expected.push_back(n * page);
    ASSERT_EQ(bad(), expected);
  }

  static constexpr std::uint64_t pages = 8;
  std::vector<std::vector<bool>> in_log{pages, std::vector<bool>(page)};
  std::vector<bool> damaged = std::vector<bool>(pages);
};

TEST_F(damage_model, nothing_is_ever_laundered) {
  std::uint64_t planted = 0, healed = 0;
  for (std::uint64_t seed = scaled(60); seed-- != 0 && !HasFatalFailure();) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random(seed);
    open();
    for (int step = 0; step < 60 && !HasFatalFailure(); ++step) {
      const auto were = damaged;
      switch (random.below(8)) {
        case 0:
          plant(random);
          ++planted;
          break;
        case 1:
          m->truncate();
          truncated();
          break;
        case 2:
          close();
          truncated();
          if (random.one_in(2)) plant(random);
          open(random.one_in(3) ? open_mode::read_only : open_mode::open);
          expect_all_reported();
          reopen();
          break;
        case 3:
          crash(random.one_in(2) ? sim::policy::keep_all : sim::policy::random);
          if (random.one_in(2)) plant(random);
          open();
          truncated();
          expect_all_reported();
          break;
        default: commit(random);
      }
      for (std::uint64_t n = 0; n < pages; ++n) healed += were[n] && !damaged[n];
    }
    m->truncate();
    truncated();
    expect_all_reported();
    close();
  }
  EXPECT_GT(planted, 0u);
  EXPECT_GT(healed, 0u);
}

}  // namespace
}  // namespace tenure::rvm::testing
