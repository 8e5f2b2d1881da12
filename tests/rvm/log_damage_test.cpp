// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Logs with damaged, foreign, old and missing bytes: opening gives the right state or says where the damage is. It
// never gives a wrong state and never crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>

#include "log/checksum.hpp"
#include "records/format.hpp"
#include "support/model.hpp"

namespace tenure::rvm::testing {
namespace {

template <class T>
T get(const image& from, std::uint64_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}
template <class T>
void put(image& to, std::uint64_t at, const T& value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}

struct group_place {
  std::uint64_t offset;  // in the file
  group_header header;
};

// The groups from the status block's head on, one behind the other.
std::vector<group_place> groups_in(const image& log) {
  const auto status = get<status_block>(log, 0);
  std::vector<group_place> all;
  for (lsn at = status.head; at < status.head + status.area_length;) {
    const std::uint64_t offset = log_area_offset + at % status.area_length;
    const auto header = get<group_header>(log, offset);
    if (header.magic != group_magic || header.lsn != at) break;
    all.push_back({offset, header});
    at += round_up(header.length, status.block_size);
  }
  return all;
}

void seal_group(image& log, std::uint64_t offset) {
  auto header = get<group_header>(log, offset);
  header.checksum = crc32c({log.data() + offset + 8, header.length - 8});
  put(log, offset, header);
}
void seal_status(image& log, std::uint64_t offset) {
  auto s = get<status_block>(log, offset);
  s.checksum = header_checksum(s, offsetof(status_block, checksum));
  put(log, offset, s);
}

// A log with some committed batches in it, as a crash has left it, and the state after each of them.
struct dirty_log {
  explicit dirty_log(std::size_t batches = 4, std::uint64_t log_size = 64 << 10, std::size_t bytes = 40) {
    where = small_layout();
    where.segments[0].length = where.segments[1].length = std::max<std::uint64_t>(64 << 10, round_up(bytes, page));
    where.log = {.size = log_size, .max_size = log_size, .block_size = 512};
    where.tune.truncation_threshold = 2;
    install_raw_segments(disk, where);
    memory m(where.log_path, where.how(disk));
    auto a = m.map(where.segments[0].path, {.create_length = where.segments[0].length});
    auto b = m.map(where.segments[1].path, {.raw = true});
    const auto remember = [&] {
      image now(a.data(), a.data() + a.size());
      now.insert(now.end(), b.data(), b.data() + b.size());
      states.push_back(std::move(now));
    };
    remember();
    random_source random(5);
    for (std::size_t n = 0; n < batches; ++n) {
      auto tx = m.begin();
      tx.label("transaction");
      for (auto* r : {&a, &b}) {
        std::byte* const at = r->data() + random.below(r->size() - bytes + 1);
        tx.set_range(at, bytes);
        fill_random(at, bytes, random);
      }
      tx.commit();
      remember();
    }
    left = disk.crash(1, sim::policy::drop_all);
    log = left->current_bytes(where.log_path);
    disk.power_off();
  }

  // What opening that log gives: the number of the state, or an error.
  struct result {
    int state = -1;
    std::error_code code;
    std::string message;
    recovery_report report;
  };
  result open(const image& bytes) const {
    const auto copy = left->crash(1, sim::policy::keep_all);
    copy->install(where.log_path, bytes);
    result r;
    try {
      memory m(where.log_path, where.how(*copy));
      r.report = m.recovery();
      image found;
      for (const auto& s : where.segments) {
        const auto in = m.map(s.path, {.raw = s.raw});
        found.insert(found.end(), in.data(), in.data() + in.size());
      }
      const auto at = std::find(states.begin(), states.end(), found);
      r.state = at == states.end() ? -2 : static_cast<int>(at - states.begin());
    } catch (const error& e) {
      r.code = e.code();
      r.message = e.what();
    }
    return r;
  }
  [[nodiscard]] int last() const { return static_cast<int>(states.size()) - 1; }

  static constexpr std::uint64_t page = 4096;
  sim::disk disk;
  layout where;
  std::unique_ptr<sim::disk> left;
  std::vector<image> states;
  image log;
};

bool is_refusal(const dirty_log::result& r) {
  return (r.code == errc::damaged || r.code == errc::not_a_log || r.code == errc::wrong_version) &&
         r.message.find("/store/test.log") != std::string::npos;
}
bool names_an_offset(const dirty_log::result& r) { return r.message.find("offset") != std::string::npos; }

TEST(log_damage, of_any_byte_of_a_group) {
  const dirty_log d;
  ASSERT_EQ(d.open(d.log).state, d.last());
  const auto groups = groups_in(d.log);
  ASSERT_EQ(groups.size(), 4U);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::uint64_t on_disk = round_up(groups[g].header.length, 512);
    for (std::uint64_t i = 0; i < on_disk; ++i) {
      image bytes = d.log;
      bytes[groups[g].offset + i] ^= static_cast<std::byte>(1 << (i + g) % 8);
      const auto r = d.open(bytes);
      const auto what = ::testing::Message()
                        << "group " << g << ", byte " << i << ": state " << r.state << ", " << r.message;
      if (i >= groups[g].header.length) {
        ASSERT_EQ(r.state, d.last()) << what;  // padding
      } else if (g + 1 == groups.size()) {
        ASSERT_EQ(r.state, d.last() - 1) << what;  // cannot be told from a torn write
      } else {
        ASSERT_EQ(r.code, errc::damaged) << what;
        ASSERT_TRUE(names_an_offset(r)) << what;
        ASSERT_NE(r.message.find("offset " + std::to_string(groups[g].offset)), std::string::npos) << what;
      }
    }
  }
}

TEST(log_damage, of_any_byte_of_the_status) {
  const dirty_log d;
  for (std::uint64_t i = 0; i < sizeof(status_block); ++i)
    for (const int copies : {1, 2, 3}) {
      image bytes = d.log;
      for (const int copy : {0, 1})
        if (copies & (1 << copy))
          bytes[static_cast<std::uint64_t>(copy) * status_copy_size + i] ^= static_cast<std::byte>(1 << i % 8);
      const auto r = d.open(bytes);
      const auto what = ::testing::Message()
                        << "copies " << copies << ", byte " << i << ": state " << r.state << ", " << r.message;
      if (copies != 3) {
        ASSERT_EQ(r.state, d.last()) << what;
      } else {
        ASSERT_TRUE(is_refusal(r)) << what;
        ASSERT_TRUE(r.code != errc::damaged || names_an_offset(r)) << what;
      }
    }
}

// Whatever is done to a group with several bytes at once, and with a checksum that holds: no wrong state is silent, and
// nothing crashes.
TEST(log_damage, with_a_checksum_that_holds) {
  const dirty_log d;
  const auto groups = groups_in(d.log);
  std::uint64_t refused = 0;
  random_source random(3);
  for (std::size_t i = 0; i < groups[1].header.length; ++i) {
    if (i >= 4 && i < 8) continue;
    image bytes = d.log;
    bytes[groups[1].offset + i] = static_cast<std::byte>(random.next());
    if (get<group_header>(bytes, groups[1].offset).length > 4096) continue;
    seal_group(bytes, groups[1].offset);
    const auto r = d.open(bytes);
    refused += r.code == errc::damaged;
    ASSERT_TRUE(!r.code || r.code == errc::damaged || r.code == errc::segment_missing || r.code == errc::wrong_log ||
                r.code == errc::segment_too_short)
        << "byte " << i << ": " << r.message;
  }
  EXPECT_GT(refused, 20U);
}

TEST(log_damage, of_another_version_or_byte_order) {
  const dirty_log d;
  image bytes = d.log;
  for (const std::uint64_t at : {std::uint64_t{0}, status_copy_size}) {
    put(bytes, at + offsetof(status_block, version), format_version + 1);
    seal_status(bytes, at);
  }
  EXPECT_EQ(d.open(bytes).code, errc::wrong_version) << d.open(bytes).message;
  bytes = d.log;
  for (const std::uint64_t at : {std::uint64_t{0}, status_copy_size})
    put(bytes, at + offsetof(status_block, endian), __builtin_bswap32(endian_mark));
  EXPECT_EQ(d.open(bytes).code, errc::wrong_version) << d.open(bytes).message;
  bytes = d.log;
  for (const std::uint64_t at : {std::uint64_t{0}, status_copy_size}) {
    put(bytes, at + offsetof(status_block, incompatible), 4);
    seal_status(bytes, at);
  }
  EXPECT_EQ(d.open(bytes).code, errc::wrong_version) << d.open(bytes).message;
}

TEST(log_damage, of_a_log_cut_short) {
  const dirty_log d;
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{100}, std::size_t{1024}, std::size_t{4096}, std::size_t{8191}, std::size_t{8192},
        std::size_t{9000}, d.log.size() - 512, d.log.size() - 1}) {
    const auto r = d.open(image(d.log.begin(), d.log.begin() + static_cast<std::ptrdiff_t>(length)));
    EXPECT_TRUE(is_refusal(r)) << length << ": state " << r.state << ", " << r.message;
  }
}

TEST(log_damage, of_zeroed_blocks) {
  const dirty_log d(8);
  const auto groups = groups_in(d.log);
  for (std::size_t first = 0; first < groups.size(); ++first)
    for (std::size_t end = first + 1; end <= groups.size(); ++end) {
      image bytes = d.log;
      for (std::size_t g = first; g < end; ++g)
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(groups[g].offset),
                    round_up(groups[g].header.length, 512), std::byte{0});
      const auto r = d.open(bytes);
      // Up to the end it looks like a log whose batches were never written: nothing is left that could prove that
      // more than the last one is missing.
      if (end == groups.size())
        EXPECT_EQ(r.state, static_cast<int>(first)) << r.message;
      else
        EXPECT_EQ(r.code, errc::damaged) << "groups " << first << " to " << end << ": state " << r.state;
    }
}

// A log that is long enough for the search for its tail to be misled by a hole.
TEST(log_damage, of_a_whole_megabyte) {
  const dirty_log d(60, 16 << 20, 100000);
  ASSERT_EQ(d.open(d.log).state, d.last());
  const auto groups = groups_in(d.log);
  const std::uint64_t from = groups.front().offset, to = groups.back().offset;
  ASSERT_GT(to - from, std::uint64_t{10} << 20);
  ASSERT_LT(groups.front().offset, groups.back().offset);
  const std::uint64_t step = test_scale() >= 1 ? 307200 : 2500096;
  for (std::uint64_t at = from; at < d.log.size(); at += step) {
    image bytes = d.log;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::uint64_t>(1 << 20, bytes.size() - at),
                std::byte{0});
    const auto r = d.open(bytes);
    if (at + (1 << 20) <= to) {
      ASSERT_EQ(r.code, errc::damaged) << "at " << at << ": state " << r.state << ", " << r.message;
      ASSERT_TRUE(names_an_offset(r)) << r.message;
    } else if (at < to + groups.back().header.length) {
      // The last batch and some before it are gone, with all that could prove it.
      ASSERT_TRUE(r.state >= 0 || r.code == errc::damaged) << "at " << at << ": state " << r.state << ", " << r.message;
    } else {
      ASSERT_EQ(r.state, d.last()) << "at " << at;
    }
  }
}

// The status block says how far the log was durable when it was written: up to there nothing can be a torn tail.
TEST(log_damage, of_the_last_batch_that_the_status_knows) {
  sim::disk disk;
  layout where = small_layout();
  where.tune.truncation_threshold = 2;
  install_raw_segments(disk, where);
  memory m(where.log_path, where.how(disk));
  auto r = m.map(where.segments[1].path, {.raw = true});
  const auto commit = [&](std::size_t page) {
    m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(page * 4096), std::uint64_t{7}); });
  };
  for (std::size_t page = 1; page <= 4; ++page) commit(page);
  auto holder = m.begin();
  holder.set_range(r.at<std::uint64_t>(2 * 4096));
  EXPECT_GT(m.truncate_incrementally(where.log.size), 0U);  // stops before the second group
  const auto left = disk.crash(1, sim::policy::drop_all);
  image log = left->current_bytes(where.log_path);
  const auto groups = groups_in(log);
  ASSERT_EQ(groups.size(), 3U);
  log[groups.back().offset + 100] ^= std::byte{1};
  left->install(where.log_path, log);
  try {
    memory again(where.log_path, where.how(*left));
    ADD_FAILURE() << "an acknowledged batch was skipped";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::damaged) << e.what();
    EXPECT_NE(std::string(e.what()).find("offset " + std::to_string(groups.back().offset)), std::string::npos)
        << e.what();
  }
  holder.abort();
}

TEST(log_damage, looks_like_garbage_behind_the_tail) {
  const dirty_log d;
  const auto groups = groups_in(d.log);
  const std::uint64_t tail = groups.back().offset + round_up(groups.back().header.length, 512);
  random_source random(9);
  for (int round = 0; round < 20; ++round) {
    image bytes = d.log;
    for (std::uint64_t at = tail; at + 512 <= bytes.size(); at += 512) {
      if (random.one_in(2)) fill_random(bytes.data() + at, 512, random);
      // Copies of live groups, at places that are not theirs.
      if (random.one_in(4)) {
        const auto& g = groups[random.below(groups.size())];
        const auto length = std::min<std::uint64_t>(g.header.length, bytes.size() - at);
        std::memcpy(bytes.data() + at, d.log.data() + g.offset, length);
      }
    }
    const auto r = d.open(bytes);
    ASSERT_EQ(r.state, d.last()) << r.message;
  }
}

// A group of another log, with the very LSN that would come next.
TEST(log_damage, of_another_logs_group) {
  const dirty_log d(4), other(5);
  const auto groups = groups_in(other.log);
  ASSERT_EQ(groups.size(), 5U);
  image bytes = d.log;
  std::copy_n(other.log.begin() + static_cast<std::ptrdiff_t>(groups[4].offset), 512,
              bytes.begin() + static_cast<std::ptrdiff_t>(groups[4].offset));
  EXPECT_EQ(d.open(bytes).state, d.last());
}

// Groups of former laps lie everywhere in the ring and are not taken for new ones.
TEST(log_damage, old_laps_are_not_read) {
  sim::disk disk;
  layout where = small_layout();
  install_raw_segments(disk, where);
  for (int lap = 0; lap < 3; ++lap) {
    {
      memory m(where.log_path, where.how(disk));
      auto r = m.map(where.segments[1].path, {.raw = true});
      for (std::uint64_t n = 1; n < 40; ++n) {
        m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(0), n); });
        if (n % 5 == 0) m.truncate();
      }
      m.truncate();
      m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(0), std::uint64_t{1000}); });
      m.transact([&](transaction& tx) { tx.modify(r.at<std::uint64_t>(0), std::uint64_t{1001}); });
      const auto left = disk.crash(1, sim::policy::drop_all);
      memory again(where.log_path, where.how(*left));
      EXPECT_EQ(again.recovery().groups, 2U);
      EXPECT_EQ(again.recovery().transactions, 2U);
      auto found = again.map(where.segments[1].path, {.raw = true});
      EXPECT_EQ(found.at<std::uint64_t>(0), 1001U);
    }
  }
}

// Times are for people: nothing depends on them.
TEST(log_damage, a_clock_set_back_is_none) {
  const dirty_log d;
  for (const std::int64_t time : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 62}) {
    image bytes = d.log;
    const auto groups = groups_in(bytes);
    for (std::size_t g = 0; g < groups.size(); g += 2) {
      // The first record names a segment; look for the transaction.
      std::uint64_t at = groups[g].offset + sizeof(group_header);
      while (get<record_header>(bytes, at).type != record_type::changes) at += get<record_header>(bytes, at).length;
      put(bytes, at + sizeof(record_header) + offsetof(transaction_body, time), time);
      seal_group(bytes, groups[g].offset);
    }
    for (const std::uint64_t at : {std::uint64_t{0}, status_copy_size}) {
      put(bytes, at + offsetof(status_block, created), time);
      put(bytes, at + offsetof(status_block, written), time);
      seal_status(bytes, at);
    }
    EXPECT_EQ(d.open(bytes).state, d.last());
  }
}

// A batch of three groups is torn so that some of them survive; then another one of the same shape, at the same place,
// is torn, too. What is left over of the first must not complete the second [rvm.log.generation].
TEST(log_damage, left_overs_of_a_torn_batch_do_not_mix_with_a_new_one) {
  layout where;
  where.segments = {{"/store/raw.seg", 4 << 20, true}};
  where.log = {.size = 8 << 20, .max_size = 8 << 20};
  where.tune.truncation_threshold = 2;
  sim::disk start;
  install_raw_segments(start, where);
  const auto with = [&](sim::disk& disk, char fill, std::size_t length) {
    memory m(where.log_path, where.how(disk));
    auto r = m.map(where.segments[0].path, {.raw = true});
    auto tx = m.begin();
    tx.set_range(r.data(), length);
    std::memset(r.data(), fill, length);
    tx.commit();
    auto report = m.recovery();
    disk.power_off();
    return report;
  };
  with(start, 'o', 100);
  constexpr std::size_t large = 2500000;
  const auto first = start.crash(1, sim::policy::drop_all);
  with(*first, 'A', large);
  const auto before = first->crash(1, sim::policy::drop_all);
  const image a = before->current_bytes(where.log_path);
  const auto groups = groups_in(a);
  ASSERT_EQ(groups.size(), 3U);
  ASSERT_EQ(groups[2].header.flags, group_last);
  const auto survivors = [&](const image& of, image onto, unsigned which, bool only_first_blocks) {
    for (std::size_t g = 0; g < 3; ++g) {
      const std::uint64_t length = only_first_blocks ? 4096 : round_up(groups[g].header.length, 4096);
      if (which & (1U << g))
        std::copy_n(of.begin() + static_cast<std::ptrdiff_t>(groups[g].offset), length,
                    onto.begin() + static_cast<std::ptrdiff_t>(groups[g].offset));
    }
    return onto;
  };
  const unsigned all = 7;
  for (unsigned torn = 0; torn < all; ++torn) {
    const auto disk = before->crash(1, sim::policy::keep_all);
    disk->install(where.log_path, survivors(image(a.size()), a, all & ~torn, false));
    const image after_first = disk->current_bytes(where.log_path);
    const auto report = with(*disk, 'B', large);  // recovers first
    EXPECT_EQ(report.torn_groups, static_cast<std::uint64_t>(__builtin_popcount(torn)));
    EXPECT_FALSE(report.needed);
    const auto full = disk->crash(1, sim::policy::drop_all);
    const image b = full->current_bytes(where.log_path);
    ASSERT_EQ(groups_in(b).size(), 3U);
    ASSERT_EQ(groups_in(b)[0].offset, groups[0].offset);
    for (unsigned second = 0; second <= all; ++second) {
      const auto left = full->crash(1, sim::policy::keep_all);
      // The groups of the second that were lost leave what the first crash had left.
      left->install(where.log_path, survivors(after_first, b, all & ~second, false));
      const auto found = recovered_image(*left, where);
      image expected(where.total());
      std::fill_n(expected.begin(), 100, std::byte{'o'});
      if (second == all) std::fill_n(expected.begin(), large, std::byte{'B'});
      EXPECT_TRUE(found == expected) << "first torn to " << torn << ", second to " << second;
    }
  }
}

// Copies of a segment's header stand in for each other.
TEST(segment_damage, of_any_byte_of_a_header) {
  const dirty_log d;
  const image good = d.left->current_bytes(d.where.segments[0].path);
  const std::uint64_t step = test_scale() >= 1 ? 1 : 37;
  for (std::uint64_t i = 0; i < sizeof(segment_header); i += step) {
    for (const int copies : {1, 2, 3}) {
      if (copies != 3 && i % 16 != 0) continue;
      const auto disk = d.left->crash(1, sim::policy::keep_all);
      for (const int copy : {0, 1})
        if (copies & (1 << copy)) {
          const std::uint64_t at = static_cast<std::uint64_t>(copy) * 4096 + i;
          const std::byte changed = good[at] ^ static_cast<std::byte>(1 << i % 8);
          disk->poke(d.where.segments[0].path, at, {&changed, 1});
        }
      try {
        const auto found = recovered_image(*disk, d.where);
        EXPECT_NE(copies, 3) << "byte " << i;
        EXPECT_TRUE(found == d.states.back()) << "byte " << i << ", copies " << copies;
      } catch (const error& e) {
        EXPECT_EQ(copies, 3) << "byte " << i << ": " << e.what();
        EXPECT_TRUE(e.code() == errc::damaged || e.code() == errc::not_a_segment || e.code() == errc::wrong_version)
            << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace tenure::rvm::testing
