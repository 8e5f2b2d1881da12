// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Redo against byte arrays: the newest value of every byte wins, however the changes overlap.
#include "replay/redo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "records/batch.hpp"
#include "support/expect_error.hpp"
#include "support/segments_on_sim.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

constexpr log_stamp stamp{{std::byte{9}}, 3, 4096};
constexpr std::uint64_t length = 256 << 10;

// A log in memory: groups of one batch each, and what a segment should hold after them.
struct history {
  history(std::uint32_t seed, std::size_t commits, std::size_t longest, bool dense)
      : segments(2, length, true), random(seed) {
    for (const auto& s : segments.all) expected[s.get()].resize(length);
    group_pool pool;
    for (std::uint64_t id = 1; id <= commits;) {
      batch b(1, pool);
      for (std::size_t n = 1 + random() % 4; n-- > 0; ++id) {
        std::vector<std::vector<std::byte>> kept;
        std::vector<new_value> values;
        for (const auto& s : segments.all) {
          std::uint64_t at = random() % (dense ? 10'000 : length);
          for (std::size_t r = random() % 5; r-- > 0;) {
            const std::size_t many = 1 + random() % longest;
            if (at + many > length) break;
            kept.emplace_back(many, static_cast<std::byte>(random()));
            values.push_back({s.get(), at, kept.back().data(), many});
            std::ranges::copy(kept.back(), expected[s.get()].begin() + static_cast<std::ptrdiff_t>(at));
            at += many + 1 + random() % longest;
          }
        }
        if (!values.empty()) ++transactions, b.append({id, 0, "", false, values}, {});
      }
      if (b.empty()) continue;
      for (const auto part : b.finish(stamp, 0, 0)) groups.emplace_back(part.begin(), part.end());
    }
  }
  void add_to(redo& values) const {
    for (std::size_t i = groups.size(); i-- > 0;) {
      group_header header;
      std::memcpy(&header, groups[i].data(), sizeof header);
      values.add(group_view(groups[i], header, "here"));
    }
  }
  [[nodiscard]] segment_resolver resolver() const {
    return [this](const segment_name& name) { return segments.find(name.path); };
  }
  [[nodiscard]] std::vector<std::byte> stored(segment& s) {
    std::vector<std::byte> bytes(length);
    s.read(0, bytes);
    return bytes;
  }

  segments_on_sim segments;
  std::mt19937 random;
  std::map<segment*, std::vector<std::byte>> expected;
  std::vector<std::vector<std::byte>> groups;
  std::uint64_t transactions = 0;
};

TEST(redo, newest_value_wins) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    history log(seed, 200, seed % 3 == 0 ? 5 : seed % 3 == 1 ? 200 : 9000, seed % 2 == 0);
    redo values(log.resolver());
    log.add_to(values);
    EXPECT_EQ(values.transactions(), log.transactions);
    std::map<segment*, std::vector<std::byte>> found;
    std::map<segment*, std::vector<bool>> seen;
    for (const auto& s : log.segments.all) found[s.get()].resize(length), seen[s.get()].resize(length);
    std::uint64_t bytes = 0;
    values.for_each([&](segment& in, std::uint64_t offset, os::const_bytes value) {
      ASSERT_EQ(offset / redo_page, (offset + value.size() - 1) / redo_page);
      for (std::size_t i = 0; i < value.size(); ++i) {
        ASSERT_FALSE(seen[&in][offset + i]) << "byte " << offset + i << " twice";
        seen[&in][offset + i] = true;
        found[&in][offset + i] = value[i];
        ++bytes;
      }
    });
    for (const auto& s : log.segments.all) ASSERT_TRUE(found[s.get()] == log.expected[s.get()]);

    std::vector<recovery_report::segment> report;
    values.apply(report);
    std::uint64_t reported = 0, pages = 0;
    for (const auto& s : report) reported += s.bytes, pages += s.pages;
    EXPECT_EQ(reported, bytes);
    EXPECT_EQ(pages, values.pages());
    for (const auto& s : log.segments.all) {
      ASSERT_TRUE(log.stored(*s) == log.expected[s.get()]);
      EXPECT_TRUE(s->verify({}).empty());
      EXPECT_EQ(log.segments.disk.unsynced(s->path()), 0u);
    }
    // Again changes nothing [rvm.redo.idempotent].
    redo again(log.resolver());
    log.add_to(again);
    again.apply(report);
    for (const auto& s : log.segments.all) ASSERT_TRUE(log.stored(*s) == log.expected[s.get()]);
  }
}

TEST(redo, restricted_to_some_pages) {
  history log(3, 300, 3000, false);
  redo values(log.resolver());
  const std::set<std::uint64_t> wanted{0, 7, 8, 63};
  segment& in = *log.segments.all[0];
  for (const std::uint64_t page : wanted) values.restrict_to(in, page);
  values.restrict_to(in, 7);  // again
  log.add_to(values);
  std::vector<recovery_report::segment> report;
  values.apply(report);
  const auto stored = log.stored(in);
  for (std::uint64_t page = 0; page < length / redo_page; ++page) {
    const auto part = os::const_bytes(stored).subspan(page * redo_page, redo_page);
    const auto expected = wanted.contains(page)
                              ? os::const_bytes(log.expected[&in]).subspan(page * redo_page, redo_page)
                              : os::const_bytes{};
    for (std::size_t i = 0; i < redo_page; ++i)
      ASSERT_EQ(part[i], expected.empty() ? std::byte{} : expected[i]) << "page " << page << " byte " << i;
  }
  EXPECT_TRUE(log.stored(*log.segments.all[1]) == std::vector<std::byte>(length));
}

TEST(redo, unwanted_segments_are_left_out) {
  history log(4, 100, 300, true);
  redo values([&](const segment_name& name) { return name.raw ? nullptr : log.segments.find(name.path); });
  log.add_to(values);
  std::vector<recovery_report::segment> report;
  values.apply(report);
  ASSERT_EQ(report.size(), 1u);
  EXPECT_TRUE(log.stored(*log.segments.all[0]) == log.expected[log.segments.all[0].get()]);
  EXPECT_TRUE(log.stored(*log.segments.all[1]) == std::vector<std::byte>(length));
}

TEST(redo, change_beyond_the_segment) {
  history log(5, 50, 300, false);
  segments_on_sim shorter(1, 4096);
  redo values([&](const segment_name&) { return shorter.all[0].get(); });
  expect_error(errc::segment_too_short, {"/d/s0", "4096 bytes"}, [&] { log.add_to(values); });
}

}  // namespace
}  // namespace tenure::rvm
