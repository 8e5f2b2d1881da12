// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Upgrades that are interrupted, of files that are damaged, or that do not belong together.
#include <algorithm>
#include <cstring>
#include <random>

#include <tenure/rvm.hpp>

#include "log/checksum.hpp"
#include "log/format.hpp"
#include "log/unfinished.hpp"
#include "objects/block_map.hpp"
#include "objects/format.hpp"
#include "segments/format.hpp"
#include "segments/segment.hpp"
#include "segments/segment_layout.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "upgrade/first_log.hpp"
#include "upgrade/unpacked.hpp"

namespace tenure::upgrade_tests {
namespace {

using support::expect_error;

upgrade_options on(sim::disk& disk) { return {.disk = &disk}; }

// That "1-memory" was upgraded, with what its log had.
void expect_numbers(sim::disk& disk) {
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.disk = &disk;
  rvm::memory m("/new/log", how);
  EXPECT_TRUE(m.verify_segment("/new/numbers").empty());
  EXPECT_EQ(fixtures::wrong_in_segment(m.map("/new/numbers").data(), 200), "");
}

// Whether the new store is there and is whole; otherwise it must say why it does not open.
bool opens_whole(sim::disk& disk, bool was_changed = true) {
  try {
    const store s("/new", opening(&disk));
    expect_whole(s, was_changed);
    return true;
  } catch (const error& e) {
    EXPECT_TRUE(e.code() == errc::damaged || e.code() == std::errc::no_such_file_or_directory) << e.what();
    return false;
  }
}

// [upgrade.whole]
TEST(upgrades, leave_all_or_nothing_wherever_they_are_interrupted) {
  sim::disk original;
  unpack(fixture("1-killed"), original, "/old");
  const auto as_it_was = [&](const sim::disk& now) {
    return std::ranges::all_of(
        std::vector<std::string>{"/old/log", "/old/main.db", "/old/parts.db"},
        [&](const std::string& name) { return now.current_bytes(name) == original.current_bytes(name); });
  };
  const std::uint64_t operations = [&] {
    const auto disk = original.crash(1, sim::policy::keep_all);
    (void)upgrade("/old", "/new", on(*disk));
    EXPECT_TRUE(as_it_was(*disk));
    EXPECT_TRUE(opens_whole(*disk->crash(1, sim::policy::drop_all))) << "it is durable";
    return disk->operations();
  }();
  EXPECT_GT(operations, 50U);
  std::uint64_t whole = 0, said = 0;
  for (std::uint64_t nth = 1; nth <= operations; nth += rvm::testing::scaled_stride())
    for (const sim::policy what : {sim::policy::random, sim::policy::keep_all, sim::policy::drop_all}) {
      SCOPED_TRACE("operation " + std::to_string(nth));
      const auto disk = original.crash(1, sim::policy::keep_all);
      disk->crash_at(nth);
      try {
        (void)upgrade("/old", "/new", on(*disk));
        ADD_FAILURE() << "the power did not go";
      } catch (const sim::power_failure&) {
      }
      const auto left = disk->crash(nth, what);
      EXPECT_TRUE(as_it_was(*left));
      if (left->exists("/new/log")) {
        EXPECT_TRUE(opens_whole(*left));
        ++whole;
        continue;
      }
      if (left->names_in("/new").empty()) continue;
      expect_error(errc::damaged, {"/new", "upgrade", "interrupted", "again"},
                   [&] { (void)store("/new", opening(left.get())); });
      ++said;
      expect_error(std::errc::file_exists, {"/new", "not empty"}, [&] { (void)upgrade("/old", "/new", on(*left)); });
      for (const std::string& name : left->names_in("/new")) left->remove("/new/" + name);
      if (nth % 16 == 1) {
        (void)upgrade("/old", "/new", on(*left));
        EXPECT_TRUE(opens_whole(*left));
      }
    }
  EXPECT_GT(said, operations / rvm::testing::scaled_stride());
  EXPECT_GE(whole, rvm::testing::test_scale() < 1 ? 1U : 4U);
}

TEST(upgrades, leave_the_original_when_the_disk_fails) {
  sim::disk original;
  unpack(fixture("1-memory"), original, "/old");
  const auto counting = original.crash(1, sim::policy::keep_all);
  (void)upgrade("/old/log", "/new", on(*counting));
  for (std::uint64_t nth = 1; nth <= counting->operations(); ++nth) {
    const auto disk = original.crash(1, sim::policy::keep_all);
    disk->inject({.nth = nth, .error = ENOSPC});
    try {
      (void)upgrade("/old/log", "/new", on(*disk));
    } catch (const error& e) {
      EXPECT_NE(std::string(e.what()).find("/"), std::string::npos) << e.what();
    }
    disk->clear_faults();
    if (disk->exists("/new/log")) expect_numbers(*disk);
    EXPECT_EQ(disk->current_bytes("/old/log"), original.current_bytes("/old/log"));
    EXPECT_EQ(disk->current_bytes("/old/numbers"), original.current_bytes("/old/numbers"));
  }
}

TEST(upgrades, say_what_is_in_the_way) {
  sim::disk disk;
  unpack(fixture("1-killed"), disk, "/old");
  const auto refused = [&](auto code, std::initializer_list<std::string> parts, auto&& change) {
    const auto changed = disk.crash(1, sim::policy::keep_all);
    change(*changed);
    expect_error(code, parts, [&] { (void)upgrade("/old", "/new", on(*changed)); });
    EXPECT_FALSE(changed->exists("/new/log"));
  };
  refused(std::errc::file_exists, {"/new", "not empty"}, [](sim::disk& d) { d.install("/new/something", {}); });
  refused(errc::segment_missing, {"/old/parts.db", "committed changes"},
          [](sim::disk& d) { d.remove("/old/parts.db"); });
  const auto closed = [](const std::string& removed) {
    return [removed](sim::disk& d) {
      unpack(fixture("1-closed"), d, "/old");
      d.remove("/old/" + removed);
    };
  };
  refused(errc::segment_missing, {"/old/log", "knows of a segment", "name it (--segment)"}, closed("parts.db"));
  refused(errc::segment_missing, {"/old/log", "knows of a segment"}, closed("main.db"));
  refused(errc::wrong_log, {"/old/", "is an older copy"}, [](sim::disk& d) {
    for (const std::uint64_t copy : {0, 4096}) {
      const std::vector<std::byte> bytes = d.current_bytes("/old/log");
      upgrading::first_status s;
      std::memcpy(&s, bytes.data() + copy, sizeof s);
      s.marks[0].applied += 1 << 20;
      s.checksum = rvm::header_checksum(s, offsetof(upgrading::first_status, checksum));
      d.poke("/old/log", copy, std::as_bytes(std::span(&s, 1)));
    }
  });
  refused(std::errc::no_such_file_or_directory, {"/old/log"}, [](sim::disk& d) { d.remove("/old/log"); });
  {
    sim::disk used;
    unpack(fixture("1-killed"), used, "/old");
    const auto held = used.open("/old/log", os::access::read_write);
    ASSERT_TRUE(held->try_lock(os::lock_kind::exclusive));
    expect_error(errc::in_use, {"/old/log"}, [&] { (void)upgrade("/old", "/new", on(used)); });
  }
  {
    sim::disk used;
    unpack(fixture("1-killed"), used, "/old");
    const auto held = used.open("/old/parts.db", os::access::read_write);
    ASSERT_TRUE(held->try_lock(os::lock_kind::exclusive));
    expect_error(errc::in_use, {"/old/parts.db"}, [&] { (void)upgrade("/old", "/new", on(used)); });
  }
  sim::disk newer;
  unpack(fixture("2-closed"), newer, "/old");
  expect_error(errc::wrong_version, {"/old/log", "format 2 already"},
               [&] { (void)upgrade("/old", "/new", on(newer)); });
  sim::disk other;
  unpack(fixture("1-killed"), other, "/old");
  unpack(fixture("1-closed"), other, "/closed");
  other.install("/old/parts.db", other.current_bytes("/closed/parts.db"));
  expect_error(errc::wrong_log, {"/old/parts.db", "another log"}, [&] { (void)upgrade("/old", "/new", on(other)); });
}

TEST(upgrades, take_segments_that_are_named) {
  sim::disk disk;
  unpack(fixture("1-memory"), disk, "/old");
  disk.install("/elsewhere/numbers", disk.current_bytes("/old/numbers"));
  disk.remove("/old/numbers");
  expect_error(errc::segment_missing, {"/old/numbers", "committed changes"},
               [&] { (void)upgrade("/old/log", "/new", on(disk)); });
  upgrade_options how = on(disk);
  how.segments = {"/elsewhere/numbers"};
  EXPECT_EQ(upgrade("/old/log", "/new", how).transactions, 150U);
  // One that the log knows is missed, unless it is not wanted.
  sim::disk closed;
  unpack(fixture("1-closed"), closed, "/old");
  closed.remove("/old/parts.db");
  upgrade_options without = on(closed);
  without.without_missing = true;
  expect_error(errc::segment_missing, {"/old/parts.db", "missing"}, [&] { (void)upgrade("/old", "/new", without); });
  expect_numbers(disk);
}

TEST(upgrades, refuse_a_segment_and_its_copy) {
  for (const std::string copy : {"/old/aaa", "/old/numbers.bak"}) {
    SCOPED_TRACE(copy);
    sim::disk disk;
    unpack(fixture("1-memory"), disk, "/old");
    disk.install(copy, disk.current_bytes("/old/numbers"));
    expect_error(errc::wrong_log, {copy, "/old/numbers", "is a copy", "--segment"},
                 [&] { (void)upgrade("/old/log", "/new", on(disk)); });
    upgrade_options how = on(disk);
    how.segments = {"/old/numbers"};
    EXPECT_EQ(upgrade("/old/log", "/new", how).transactions, 150U);
    EXPECT_FALSE(disk.exists("/new" + copy.substr(copy.rfind('/'))));
    expect_numbers(disk);
  }
}

// [upgrade.whole]
TEST(upgrades, that_were_interrupted_leave_no_place_for_a_new_log) {
  sim::disk disk;
  rvm::mark_unfinished(disk, "/new/log");
  rvm::options how;
  how.disk = &disk;
  for (const auto mode : {rvm::open_mode::open, rvm::open_mode::create, rvm::open_mode::open_or_create}) {
    how.mode = mode;
    expect_error(errc::damaged, {"/new", "an upgrade", "remove this directory"}, [&] { rvm::memory("/new/log", how); });
  }
  expect_error(errc::damaged, {"/new", "an upgrade"}, [&] { rvm::memory::create_log("/new/log", {}, {}, &disk); });
  EXPECT_FALSE(disk.exists("/new/log"));
}

// --- Damage ----------------------------------------------------------------------------------------------------------

class damaged_upgrades : public ::testing::Test {
 protected:
  damaged_upgrades() { unpack(fixture("1-killed"), disk, "/old"); }

  // The upgrade is right, or says what is wrong. Returns whether it was refused. `is_torn`: as if the last group had not been
  // written as a whole when the process ended, so that its transaction is not there.
  bool expect_right_or_refused(sim::disk& damaged, const std::string& what, bool may_be_wrong = false,
                               bool is_torn = false) {
    try {
      (void)upgrade("/old", "/new", on(damaged));
    } catch (const error& e) {
      EXPECT_NE(std::string(e.what()).find("/"), std::string::npos) << what << ": " << e.what();
      EXPECT_FALSE(damaged.exists("/new/log"));
      return true;
    }
    try {
      const store s("/new", opening(&damaged));
      if (may_be_wrong) {
        (void)s.verify();
        return false;
      }
      EXPECT_EQ(fixtures::wrong_in(s, true), is_torn ? "changes are missing" : "") << what;
      EXPECT_TRUE(s.verify().empty()) << what;
    } catch (const error& e) {
      EXPECT_TRUE(may_be_wrong) << what << ": " << e.what();
    }
    return false;
  }
  bool flip(const std::string& file, std::uint64_t offset, std::uint8_t mask) {
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    const std::byte is = disk.current_bytes(file)[offset] ^ std::byte{mask};
    damaged->poke(file, offset, {&is, 1});
    const bool is_torn = file == "/old/log" && offset >= last_group && offset < end_of_log;
    return expect_right_or_refused(*damaged, file + ", offset " + std::to_string(offset), false, is_torn);
  }

  // Of the fixture's log.
  static constexpr std::uint64_t last_group = 266'240, end_of_log = last_group + 304;
  sim::disk disk;
};

TEST_F(damaged_upgrades, whose_last_group_is_damaged) {
  for (std::uint64_t at = last_group - 40; at < end_of_log + 40; at += 3) flip("/old/log", at, 4);
}

TEST_F(damaged_upgrades, whose_headers_are_damaged) {
  for (std::uint64_t at = 0; at < 1024; at += rvm::testing::scaled_stride(at < 112 || at > 620 ? 5 : 61)) {
    flip("/old/log", at, 0x10);
    flip("/old/log", 4096 + at, 0x81);
  }
  for (std::uint64_t at = 0; at < 4096; at += rvm::testing::scaled_stride(at < 112 || at > 3990 ? 5 : 397)) {
    flip("/old/main.db", at, 0x10);
    flip("/old/parts.db", 4096 + at, 0x81);
  }
}

TEST_F(damaged_upgrades, whose_bytes_are_damaged) {
  const std::uint64_t data = rvm::read_segment_header(disk, "/old/main.db").data_offset;
  int refused = 0;
  for (std::uint64_t at = 0; at < 224; at += 3) refused += flip("/old/main.db", data + at, 4);
  EXPECT_EQ(refused, 75) << "pages have checksums";
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed() + 1);
  for (const char* file : {"/old/log", "/old/main.db", "/old/parts.db"})
    for (int n = 0; n < 60; ++n)
      flip(file, random() % disk.current_bytes(file).size(), static_cast<std::uint8_t>(1U << random() % 8));
}

// Pages that a truncation was writing when the process ended.
TEST(upgrades, accept_pages_that_were_half_written) {
  sim::disk original;
  unpack(fixture("1-memory"), original, "/old");
  const rvm::segment_header header = rvm::read_segment_header(original, "/old/numbers");
  const auto upgraded = [&](std::uint64_t word, bool was_written) {
    const auto disk = original.crash(1, sim::policy::keep_all);
    if (was_written) {
      rvm::segment_header h = header;
      h.sequence += 2;
      h.applied += 4096 * 150;
      h.applied_sequence = h.sequence;
      h.checksum = rvm::header_checksum(h, offsetof(rvm::segment_header, checksum));
      for (const std::uint64_t copy : {0, 4096}) disk->poke("/old/numbers", copy, std::as_bytes(std::span(&h, 1)));
    }
    const std::uint64_t garbage = 12345;
    disk->poke("/old/numbers", header.data_offset + word * 800, std::as_bytes(std::span(&garbage, 1)));
    (void)upgrade("/old/log", "/new", on(*disk));
    expect_numbers(*disk);
  };
  upgraded(150, true);
  expect_error(errc::damaged, {"/old/numbers", "offset 118784", "checksum"}, [&] { upgraded(150, false); });
  expect_error(errc::damaged, {"/old/numbers", "offset 36864", "checksum"}, [&] { upgraded(50, true); });
}

// A bulk write whose record is in the log must be what the record says.
TEST(upgrades, compare_pages_that_were_written_in_bulk) {
  sim::disk disk;
  unpack(fixture("1-bulk"), disk, "/old");
  const rvm::segment_header header = rvm::read_segment_header(disk, "/old/main.db");
  ASSERT_GT(header.length, std::uint64_t{10} << 20);
  const std::uint64_t at = (std::uint64_t{8} << 20) / 4096 * 4096;
  const std::byte is = disk.current_bytes("/old/main.db")[header.data_offset + at] ^ std::byte{1};
  disk.poke("/old/main.db", header.data_offset + at, {&is, 1});
  expect_error(errc::damaged, {"/old/log", "main.db", "offset 8388608"},
               [&] { (void)upgrade("/old", "/new", on(disk)); });
  // Unless another one, which has no record, may have overwritten the page.
  rvm::segment_header noted = header;
  noted.bulk[noted.bulk_count++] = {at / 4096, 1, std::uint64_t{1} << 40, 1, 0};
  noted.checksum = rvm::header_checksum(noted, offsetof(rvm::segment_header, checksum));
  for (const std::uint64_t copy : {0, 4096}) disk.poke("/old/main.db", copy, std::as_bytes(std::span(&noted, 1)));
  (void)upgrade("/old", "/new", on(disk));
}

// Of both copies of a header: nothing is guessed.
TEST_F(damaged_upgrades, whose_headers_are_damaged_twice) {
  for (const char* file : {"/old/log", "/old/main.db"})
    for (std::uint64_t at = 0; at < 1024; at += 7) {
      const auto damaged = disk.crash(1, sim::policy::keep_all);
      for (const std::uint64_t copy : {0, 4096}) {
        const std::byte is = disk.current_bytes(file)[copy + at] ^ std::byte{1};
        damaged->poke(file, copy + at, {&is, 1});
      }
      EXPECT_TRUE(expect_right_or_refused(*damaged, std::string(file) + ", offset " + std::to_string(at)));
    }
}

// Damage that has right checksums, as from a wrong program: it may get through, but nothing crashes.
TEST_F(damaged_upgrades, whose_checksums_are_right) {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed() + 2);
  sim::disk closed;
  unpack(fixture("1-closed"), closed, "/old");
  const auto header = rvm::read_segment_header(closed, "/old/main.db");
  const std::vector<std::byte> bytes = closed.current_bytes("/old/main.db");
  const std::uint64_t first_object = heap::headed_bookkeeping_blocks * heap::block_size;
  const std::uint64_t attempts = rvm::testing::scaled(600);
  std::uint64_t refused = 0;
  for (std::uint64_t n = 0; n < attempts; ++n) {
    const std::uint64_t in_block = random() % 40, block = heap::headed_bookkeeping_blocks + random() % 8;
    const std::uint64_t places[] = {random() % sizeof(heap::database_header),
                                    heap::zone_kinds_at + random() % 4,
                                    heap::headed_entries_at + block * 8 + random() % 8,
                                    heap::headed_starts_at + block * sizeof(heap::start_bits) + in_block,
                                    first_object + random() % 2048,
                                    first_object + random() % (64 << 10)};
    const std::uint64_t at = places[random() % std::size(places)];
    std::vector<std::byte> page(
        bytes.begin() + static_cast<std::ptrdiff_t>(header.data_offset + at / 4096 * 4096),
        bytes.begin() + static_cast<std::ptrdiff_t>(header.data_offset + at / 4096 * 4096 + 4096));
    page[at % 4096] = n % 2 == 0 ? static_cast<std::byte>(random()) : page[at % 4096] ^ std::byte{1};
    if (at < sizeof(heap::database_header)) {
      heap::database_header h;
      std::memcpy(&h, page.data(), sizeof h);
      h.checksum = rvm::header_checksum(h, offsetof(heap::database_header, checksum));
      std::memcpy(page.data(), &h, sizeof h);
    }
    const std::uint32_t sum = rvm::crc32c(page) ^ rvm::crc32c(std::vector<std::byte>(4096));
    const auto damaged = closed.crash(1, sim::policy::keep_all);
    damaged->poke("/old/main.db", header.data_offset + at / 4096 * 4096, page);
    damaged->poke("/old/main.db", rvm::segment_checksums_offset + at / 4096 * 4, std::as_bytes(std::span(&sum, 1)));
    refused += expect_right_or_refused(*damaged, "data offset " + std::to_string(at), true);
  }
  EXPECT_GT(refused, attempts / 15);
}

// [heap.damage.said] of headed zones: what reads and verifies an upgraded store says what is wrong.
TEST(upgraded_stores, say_what_is_damaged) {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed() + 3);
  sim::disk disk;
  unpack(fixture("1-closed"), disk, "/old");
  (void)upgrade("/old", "/new", on(disk));
  const rvm::segment_layout layout(rvm::read_segment_header(disk, "/new/main.db"));
  const std::vector<std::byte> bytes = disk.current_bytes("/new/main.db");
  int said = 0;
  for (int n = 0; n < 400; ++n) {
    const std::uint64_t block = heap::headed_bookkeeping_blocks + random() % 8;
    const std::uint64_t places[] = {
        heap::zone_kinds_at + random() % 4, heap::headed_entries_at + block * 8 + random() % 8,
        heap::headed_starts_at + block * sizeof(heap::start_bits) + random() % sizeof(heap::start_bits),
        heap::headed_bookkeeping_blocks * heap::block_size + random() % (64 << 10)};
    const std::uint64_t at = places[random() % std::size(places)], page = at / 4096;
    const std::uint64_t in_file = layout.find(page * 4096, 4096).at;
    std::vector<std::byte> changed(bytes.begin() + static_cast<std::ptrdiff_t>(in_file),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(in_file + 4096));
    changed[at % 4096] ^= static_cast<std::byte>(1 + random() % 255);
    const std::uint32_t sum = rvm::crc32c(changed) ^ rvm::crc32c(std::vector<std::byte>(4096));
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    const auto place = layout.checksum_of(page);
    damaged->poke("/new/main.db", in_file, changed);
    damaged->poke("/new/main.db", place.block + place.index * 4, std::as_bytes(std::span(&sum, 1)));
    store_options how = opening(damaged.get());
    how.mode = rvm::open_mode::read_only;
    try {
      const store s("/new", how);
      said += s.verify().empty() ? 0 : 1;
      (void)s.find_root<fixtures::drawing>("drawing");
    } catch (const error& e) {
      EXPECT_NE(std::string(e.what()).find('/'), std::string::npos) << e.what();
      ++said;
    }
  }
  EXPECT_GT(said, 100);
}

}  // namespace
}  // namespace tenure::upgrade_tests
