// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Every means of finding writes logs the same: one random program, run with each, leaves the same transactions in the log.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>

#include "log/log_files.hpp"
#include "records/log_reader.hpp"
#include "sim/disk.hpp"
#include "support/mechanisms.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::mib, support::page, support::small_log;

constexpr std::size_t pages = 96;

// What one transaction has logged. Ranges are cut at pages, as in the log, and in ascending order.
struct logged {
  std::uint16_t flags;
  std::vector<std::pair<std::uint64_t, std::string>> ranges;  // offset and bytes
  bool operator==(const logged&) const = default;
};

std::vector<logged> read_log(sim::disk& disk) {
  std::vector<logged> all;
  const auto log = log_files::open_unlocked(disk, "/log");
  scan_groups(*log, log->status().head, log->end(), [&](const group_header& header, os::const_bytes bytes) {
    const group_view group(bytes, header, "a group");
    for (const transaction_view& tx : group.transactions()) {
      logged each{tx.flags, {}};
      for (const range_view& range : tx.ranges)
        each.ranges.emplace_back(range.offset,
                                 std::string(reinterpret_cast<const char*>(range.value.data()), range.value.size()));
      std::ranges::sort(each.ranges);
      all.push_back(std::move(each));
    }
    return true;
  });
  return all;
}

std::vector<logged> logged_by(std::uint64_t seed, const map_options& how) {
  sim::disk disk;
  options o = small_log(&disk);
  o.background = false;
  o.log.size = 16 * mib;
  memory m("/log", o);
  map_options what = how;
  what.create_length = pages * page;
  what.tracking = tracking_mode::automatic;
  const region r = m.map("/segment", what);
  std::mt19937_64 draw(seed);
  for (int n = 0; n < 150; ++n) {
    transaction tx = m.begin_automatic();
    for (std::uint64_t stores = draw() % 30; stores > 0; --stores) {
      const std::size_t in_page = draw() % 3 == 0 ? draw() % 4 : draw() % pages;  // some are hot
      const std::size_t from = in_page * page + draw() % page;
      const std::size_t length = std::min<std::size_t>(1 + draw() % (draw() % 9 == 0 ? 9000 : 40), r.size() - from);
      const int value = static_cast<int>(draw() % 256);
      if (how.force_mechanism == tracking_mechanism::announced) tx.set_range(r.data() + from, length);
      if (how.barriers != write_barriers::none) announce_store(r.data() + from, length);
      std::memset(r.data() + from, value, length);
    }
    if (draw() % 5 == 0)
      tx.abort();
    else
      tx.commit(draw() % 3 == 0 ? commit_mode::flush : commit_mode::no_flush);
  }
  m.flush();
  return read_log(disk);
}

TEST(same_log, by_every_means_of_finding_writes) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<logged> expected = logged_by(seed, {.force_mechanism = tracking_mechanism::traps});
    ASSERT_GT(expected.size(), 80U);
    for (const tracking_mechanism each : support::mechanisms)
      EXPECT_EQ(logged_by(seed, {.force_mechanism = each}), expected) << "mechanism " << static_cast<int>(each);
    for (const write_barriers each : {write_barriers::announced, write_barriers::checking})
      EXPECT_EQ(logged_by(seed, {.barriers = each}), expected) << "barriers " << static_cast<int>(each);
    for (const std::size_t size : support::card_sizes)
      EXPECT_EQ(logged_by(seed, {.barriers = write_barriers::cards, .card_size = size}), expected)
          << "cards of " << size;
  }
}

}  // namespace
}  // namespace tenure::rvm
