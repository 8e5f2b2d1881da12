// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Logs with damaged, foreign, old and missing bytes: opening gives the right state or says where the damage is. It
// never gives a wrong state and never crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>

#include "support/log_image.hpp"
#include "support/model.hpp"

namespace tenure::rvm::testing {
namespace {

using support::log_image;

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
    log = log_image(*left, where.log_path);
    disk.power_off();
  }

  // What opening that log gives: the number of the state, or an error.
  struct result {
    int state = -1;
    std::error_code code;
    std::string message;
    recovery_report report;
  };
  result open(const log_image& bytes) const {
    const auto copy = left->crash(1, sim::policy::keep_all);
    bytes.install(*copy);
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
  log_image log;
};

bool is_refusal(const dirty_log::result& r) {
  return (r.code == errc::damaged || r.code == errc::not_a_log || r.code == errc::wrong_version) &&
         r.message.find("/store/test.log") != std::string::npos;
}
bool names_an_offset(const dirty_log::result& r) { return r.message.find("offset") != std::string::npos; }

TEST(log_damage, of_any_byte_of_a_group) {
  const dirty_log d;
  ASSERT_EQ(d.open(d.log).state, d.last());
  const auto groups = d.log.groups();
  ASSERT_EQ(groups.size(), 4U);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::uint64_t on_disk = groups[g].length;
    for (std::uint64_t i = 0; i < on_disk; ++i) {
      log_image bytes = d.log;
      bytes[groups[g].at + i] ^= static_cast<std::byte>(1 << (i + g) % 8);
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
        ASSERT_NE(r.message.find("offset " + std::to_string(d.log.offset_of(groups[g].at))), std::string::npos) << what;
      }
    }
  }
}

TEST(log_damage, of_any_byte_of_the_manifest) {
  const dirty_log d;
  for (std::uint64_t i = 0; i < d.log.read_manifest().length; i += scaled_stride())
    for (const int copies : {1, 2, 3}) {
      log_image bytes = d.log;
      for (const int copy : {0, 1})
        if (copies & (1 << copy))
          bytes.manifest[static_cast<std::uint64_t>(copy) * manifest_copy_size + i] ^=
              static_cast<std::byte>(1 << i % 8);
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
  const auto groups = d.log.groups();
  std::uint64_t refused = 0;
  random_source random(3);
  for (std::size_t i = 0; i < groups[1].header.length; ++i) {
    if (i >= 4 && i < 8) continue;
    log_image bytes = d.log;
    bytes[groups[1].at + i] = static_cast<std::byte>(random.next());
    if (bytes.get<group_header>(groups[1].at).length > 4096) continue;
    bytes.seal_group(groups[1].at);
    const auto r = d.open(bytes);
    refused += r.code == errc::damaged;
    ASSERT_TRUE(!r.code || r.code == errc::damaged || r.code == errc::segment_missing || r.code == errc::wrong_log ||
                r.code == errc::segment_too_short || r.code == errc::wrong_version)
        << "byte " << i << ": " << r.message;
  }
  EXPECT_GT(refused, 20U);
}

TEST(log_damage, of_another_version_or_byte_order) {
  const dirty_log d;
  log_image bytes = d.log;
  bytes.change_manifest([](manifest_header& m) { m.version = log_format_version + 1; });
  EXPECT_EQ(d.open(bytes).code, errc::wrong_version) << d.open(bytes).message;
  bytes = d.log;
  bytes.change_manifest([](manifest_header& m) { m.endian = __builtin_bswap32(endian_mark); });
  EXPECT_EQ(d.open(bytes).code, errc::wrong_version) << d.open(bytes).message;
  bytes = d.log;
  bytes.change_manifest([](manifest_header& m) { m.incompatible = 4; });
  EXPECT_EQ(d.open(bytes).code, errc::wrong_version) << d.open(bytes).message;
}

TEST(log_damage, of_files_cut_short) {
  const dirty_log d;
  for (const std::size_t length : {0, 100, 1024, 4096, 16384, 17408, 32767}) {
    log_image bytes = d.log;
    bytes.manifest.resize(length);
    const auto r = d.open(bytes);
    EXPECT_TRUE(is_refusal(r)) << length << ": state " << r.state << ", " << r.message;
  }
  const std::size_t whole = d.log.files[0].contents.size();
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, std::size_t{4096}, std::size_t{8191},
                                   std::size_t{8192}, std::size_t{9000}, whole - 512, whole - 1}) {
    log_image bytes = d.log;
    bytes.files[0].contents.resize(length);
    const auto r = d.open(bytes);
    EXPECT_TRUE(is_refusal(r)) << length << ": state " << r.state << ", " << r.message;
    EXPECT_NE(r.message.find("/store/test.log.1"), std::string::npos) << r.message;
  }
}

TEST(log_damage, of_any_byte_of_a_files_header) {
  const dirty_log d;
  for (std::uint64_t i = 0; i < sizeof(log_file_header); ++i)
    for (const int copies : {1, 2, 3}) {
      log_image bytes = d.log;
      for (const int copy : {0, 1})
        if (copies & (1 << copy))
          bytes.files[0].contents[static_cast<std::uint64_t>(copy) * log_file_copy_size + i] ^=
              static_cast<std::byte>(1 << i % 8);
      const auto r = d.open(bytes);
      if (copies != 3)
        ASSERT_EQ(r.state, d.last()) << "byte " << i << ": " << r.message;
      else
        ASSERT_TRUE(is_refusal(r)) << "byte " << i << ": state " << r.state << ", " << r.message;
    }
}

// A header with a right checksum that makes no sense is refused, with what is wrong in it.
TEST(log_damage, of_a_files_header_with_a_checksum_that_holds) {
  const dirty_log d;
  const auto refused = [&](const std::string& what, const std::function<void(log_file_header&)>& change) {
    log_image bytes = d.log;
    log_file_header header = bytes.files[0].header;
    change(header);
    header.checksum = header_checksum(header, offsetof(log_file_header, checksum));
    for (const std::uint64_t copy : {std::uint64_t{0}, log_file_copy_size})
      std::memcpy(bytes.files[0].contents.data() + copy, &header, sizeof header);
    const auto r = d.open(bytes);
    EXPECT_TRUE(r.code == errc::damaged && r.message.find(bytes.files[0].path + ": is damaged: " + what) == 0)
        << what << ": state " << r.state << ", " << r.message;
  };
  for (const std::uint32_t size : {0, 1, 256, 1024, 1 << 31})
    refused("its header has a block size of " + std::to_string(size), [&](auto& h) { h.block_size = size; });
  for (const lsn base : {lsn{0}, lsn{4097}, max_lsn + 4096, lsn{0} - 4096})
    refused("its header says that it begins at LSN " + std::to_string(base), [&](auto& h) { h.base = base; });
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{512}, ~std::uint64_t{0}})
    refused("its header says that it has " + std::to_string(length), [&](auto& h) { h.length = length; });
  for (const std::uint64_t sequence : {max_sequence + 1, ~std::uint64_t{0}})
    refused("its header has the sequence number " + std::to_string(sequence), [&](auto& h) { h.sequence = sequence; });
}

// The same of the manifest. Its counters go on: they must not pass the largest number.
TEST(log_damage, of_a_manifest_with_a_checksum_that_holds) {
  const dirty_log d;
  const auto refused = [&](const std::string& what, const std::function<void(manifest&)>& change) {
    log_image bytes = d.log;
    manifest m = bytes.read_manifest();
    change(m);
    const image whole = encode(m);
    for (const std::uint64_t copy : {std::uint64_t{0}, manifest_copy_size})
      std::ranges::copy(whole, bytes.manifest.begin() + static_cast<std::ptrdiff_t>(copy));
    const auto r = d.open(bytes);
    EXPECT_TRUE(r.code == errc::damaged && r.message.find(what) != std::string::npos)
        << what << ": state " << r.state << ", " << r.message;
  };
  refused("impossibly often", [](manifest& m) { m.generation = ~std::uint32_t{0}; });
  refused("impossibly often", [](manifest& m) { m.sequence = ~std::uint64_t{0}; });
  refused("the length of one of its files is senseless", [](manifest& m) {  // together they pass it
    for (std::uint32_t number = 10; number < 10 + 256; ++number)
      m.files.push_back({.number = number, .reserved = 0, .length = std::uint64_t{1} << 56, .device = 0, .inode = 0});
  });
}

// Left-overs are looked for by their numbers.
TEST(log_damage, is_no_number_however_large) {
  const dirty_log d;
  for (const std::uint32_t number : {1u << 20, ~std::uint32_t{0} - 1, ~std::uint32_t{0}}) {
    log_image bytes = d.log;
    log_image::file& file = bytes.files[0];
    file.path = d.where.log_path + "." + std::to_string(number);
    file.header.number = number;
    file.header.checksum = header_checksum(file.header, offsetof(log_file_header, checksum));
    manifest m = bytes.read_manifest();
    m.files[0].number = number;
    const image whole = encode(m);
    for (const std::uint64_t copy : {0, 1}) {
      std::memcpy(file.contents.data() + copy * log_file_copy_size, &file.header, sizeof file.header);
      std::ranges::copy(whole, bytes.manifest.begin() + static_cast<std::ptrdiff_t>(copy * manifest_copy_size));
    }
    const auto copy = d.left->crash(1, sim::policy::keep_all);
    copy->rename(d.log.files[0].path, file.path);
    bytes.install(*copy);
    EXPECT_EQ(memory(d.where.log_path, d.where.how(*copy)).recovery().transactions,
              static_cast<std::uint64_t>(d.last()));
  }
}

TEST(log_damage, of_a_missing_or_foreign_file) {
  const dirty_log d, other;
  const std::string file = d.log.files[0].path;
  const auto opened = [&](const std::function<void(sim::disk&)>& change) -> error {
    const auto copy = d.left->crash(1, sim::policy::keep_all);
    change(*copy);
    try {
      memory(d.where.log_path, d.where.how(*copy));
    } catch (const error& e) {
      return e;
    }
    return {errc::closed, "it opened"};
  };
  const error missing = opened([&](sim::disk& disk) { disk.remove(file); });
  EXPECT_EQ(missing.code(), errc::damaged);
  EXPECT_NE(std::string(missing.what()).find(file + ": this file of the log"), std::string::npos) << missing.what();
  const error foreign = opened([&](sim::disk& disk) { disk.install(file, other.log.files[0].contents); });
  EXPECT_EQ(foreign.code(), errc::wrong_log) << foreign.what();
}

TEST(log_damage, of_zeroed_blocks) {
  const dirty_log d(8);
  const auto groups = d.log.groups();
  for (std::size_t first = 0; first < groups.size(); ++first)
    for (std::size_t end = first + 1; end <= groups.size(); ++end) {
      log_image bytes = d.log;
      for (std::size_t g = first; g < end; ++g) bytes.write(groups[g].at, image(groups[g].length));
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
  const auto groups = d.log.groups();
  const lsn from = groups.front().at, to = groups.back().at;
  ASSERT_GT(to - from, std::uint64_t{5} << 20);
  const std::uint64_t step = test_scale() >= 1 ? 307200 : 2500096;
  for (lsn at = from; d.log.has(at); at += step) {
    log_image bytes = d.log;
    std::uint64_t hole = 1 << 20;
    while (!d.log.has(at + hole - 1)) --hole;
    bytes.write(at, image(hole));
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

// The manifest says how far the log was durable when it was written: up to there nothing can be a torn tail.
TEST(log_damage, of_the_last_batch_that_the_manifest_knows) {
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
  log_image log(*left, where.log_path);
  const auto groups = log.groups();
  ASSERT_EQ(groups.size(), 3U);
  log[groups.back().at + 100] ^= std::byte{1};
  log.install(*left);
  try {
    memory again(where.log_path, where.how(*left));
    ADD_FAILURE() << "an acknowledged batch was skipped";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::damaged) << e.what();
    EXPECT_NE(std::string(e.what()).find("offset " + std::to_string(log.offset_of(groups.back().at))),
              std::string::npos)
        << e.what();
  }
  holder.abort();
}

TEST(log_damage, looks_like_garbage_behind_the_tail) {
  const dirty_log d;
  const auto groups = d.log.groups();
  const lsn tail = groups.back().at + groups.back().length;
  random_source random(9);
  for (int round = 0; round < 20; ++round) {
    log_image bytes = d.log;
    for (lsn at = tail; bytes.has(at); at += 512) {
      image block(512);
      if (random.one_in(2)) {
        fill_random(block.data(), block.size(), random);
        bytes.write(at, block);
      }
      // Copies of live groups, at places that are not theirs.
      if (random.one_in(4)) {
        const auto& g = groups[random.below(groups.size())];
        if (bytes.has(at + g.header.length - 1)) bytes.write(at, d.log.read(g.at, g.header.length));
      }
    }
    const auto r = d.open(bytes);
    ASSERT_EQ(r.state, d.last()) << r.message;
  }
}

// A group of another log, with the very LSN that would come next.
TEST(log_damage, of_another_logs_group) {
  const dirty_log d(4), other(5);
  const auto groups = other.log.groups();
  ASSERT_EQ(groups.size(), 5U);
  log_image bytes = d.log;
  bytes.write(groups[4].at, other.log.read(groups[4].at, 512));
  EXPECT_EQ(d.open(bytes).state, d.last());
}

// Groups of former uses lie everywhere in the files and are not taken for new ones.
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
    log_image bytes = d.log;
    const auto groups = bytes.groups();
    for (std::size_t g = 0; g < groups.size(); g += 2) {
      // The first record names a segment; look for the transaction.
      lsn at = groups[g].at + sizeof(group_header);
      while (bytes.get<record_header>(at).type != record_type::changes) at += bytes.get<record_header>(at).length;
      bytes.put(at + sizeof(record_header) + offsetof(transaction_body, time), time);
      bytes.seal_group(groups[g].at);
    }
    bytes.change_manifest([&](manifest_header& m) { m.created = m.written = time; });
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
  const log_image a(*before, where.log_path);
  const auto groups = a.groups();
  ASSERT_EQ(groups.size(), 3U);
  ASSERT_EQ(groups[2].header.flags, group_last | group_of_all);
  const auto survivors = [&](const log_image& of, log_image onto, unsigned which) {
    for (std::size_t g = 0; g < 3; ++g)
      if (which & (1U << g)) onto.write(groups[g].at, of.read(groups[g].at, groups[g].length));
    return onto;
  };
  log_image empty = a;
  for (const auto& g : groups) empty.write(g.at, image(g.length));
  const unsigned all = 7;
  for (unsigned torn = 0; torn < all; torn += test_scale() >= 1 ? 1 : 3) {
    const auto disk = before->crash(1, sim::policy::keep_all);
    const log_image after_first = survivors(empty, a, all & ~torn);
    after_first.install(*disk);
    const auto report = with(*disk, 'B', large);  // recovers first
    EXPECT_EQ(report.torn_groups, static_cast<std::uint64_t>(__builtin_popcount(torn)));
    EXPECT_FALSE(report.needed);
    const auto full = disk->crash(1, sim::policy::drop_all);
    const log_image b(*full, where.log_path);
    ASSERT_EQ(b.groups().size(), 3U);
    ASSERT_EQ(b.groups()[0].at, groups[0].at);
    for (unsigned second = 0; second <= all; ++second) {
      const auto left = full->crash(1, sim::policy::keep_all);
      // The groups of the second that were lost leave what the first crash had left.
      survivors(after_first, b, all & ~second).install(*left);
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
