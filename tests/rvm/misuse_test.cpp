// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Mistakes of programs, and what they are told. Each test prints the message that the program's author would read.
#include <gtest/gtest.h>

#include <optional>

#include "os/virtual_memory.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class misuse : public ::testing::Test {
 protected:
  temp_dir dir;
  memory m{dir / "log", small_log()};
  region r = m.map(dir / "seg", {.create_length = 64 * kib});
};

TEST_F(misuse, range_in_no_region) {
  int outside = 0;
  transaction tx = m.begin();
  expect_error(errc::not_mapped, {"transaction 1", "0x", "length 4", "no mapped region"},
               [&] { tx.set_range(outside); });
  expect_error(errc::not_mapped, {"0x0"}, [&] { tx.set_range(nullptr, 8); });
  expect_error(errc::not_mapped, {"no mapped region"}, [&] { tx.set_range(r.data() + r.size(), 1); });
  expect_error(errc::not_mapped, {"no mapped region"}, [&] { tx.set_range(r.data() - 1, 1); });
  // The transaction is as it was.
  tx.modify(r.at<int>(0), 7);
  tx.commit();
  EXPECT_EQ(r.at<int>(0), 7);
}

TEST_F(misuse, range_partly_in_a_region) {
  transaction tx = m.begin();
  expect_error(errc::partly_mapped, {"transaction 1", "length 16", "goes 12 bytes beyond its region"},
               [&] { tx.set_range(r.data() + r.size() - 4, 16); });
  expect_error(errc::partly_mapped, {"beyond its region"}, [&] { tx.set_range(r.data() + 1, r.size()); });
  expect_error(errc::partly_mapped, {"beyond its region"}, [&] { tx.set_range(r.data(), ~std::size_t{0}); });
  tx.set_range(r.data(), r.size());
  tx.abort();
}

TEST_F(misuse, range_that_crosses_into_the_next_region) {
  m.create_segment(dir / "two", {.length = 64 * kib});
  region first = m.map(dir / "two", {.length = 32 * kib, .address = free_address(64 * kib)});
  region second = m.map(dir / "two", {.offset = 32 * kib, .address = first.data() + first.size()});
  transaction tx = m.begin();
  expect_error(errc::partly_mapped, {"declare the parts in each region"},
               [&] { tx.set_range(first.data() + first.size() - 8, 16); });
  tx.abort();
}

TEST_F(misuse, object_outside_of_the_region) {
  expect_error(errc::partly_mapped, {dir / "seg", "offset 65532, length 8", "65536 bytes"},
               [&] { (void)r.at<std::uint64_t>(64 * kib - 4); });
  expect_error(errc::partly_mapped, {"offset 65540"}, [&] { (void)r.at<char>(64 * kib + 4); });
  expect_error(errc::partly_mapped, {"65536 bytes"}, [&] { (void)r.array<std::uint64_t>(0, 8 * kib + 1); });
  // 2^61 + 1 objects of 8 bytes are 8 bytes modulo 2^64.
  expect_error(errc::partly_mapped, {"65536 bytes"},
               [&] { (void)r.array<std::uint64_t>(0, (std::size_t{1} << 61) + 1); });
}

TEST_F(misuse, finished_transaction) {
  transaction tx = m.begin();
  tx.commit();
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(tx.is_open());
    expect_error(errc::bad_transaction, {"has ended"}, [&] { tx.set_range(r.data(), 1); });
    expect_error(errc::bad_transaction, {"has ended"}, [&] { tx.commit(); });
    expect_error(errc::bad_transaction, {"has ended"}, [&] { tx.abort(); });
    expect_error(errc::bad_transaction, {"has ended"}, [&] { tx.label("late"); });
    expect_error(errc::bad_transaction, {"has ended"}, [&] { (void)tx.id(); });
    tx = m.begin();
    tx.abort();
  }
  transaction never;
  expect_error(errc::bad_transaction, {"never begun"}, [&] { never.commit(); });
}

TEST_F(misuse, transaction_of_another_memory) {
  memory other(dir / "other.log", small_log());
  region theirs = other.map(dir / "other.seg", {.create_length = 4 * kib});
  transaction ours = m.begin();
  expect_error(errc::not_mapped, {"no mapped region"}, [&] { ours.set_range(theirs.data(), 8); });
  transaction foreign = other.begin();
  expect_error(errc::not_mapped, {"no mapped region"}, [&] { foreign.set_range(r.data(), 8); });
}

TEST_F(misuse, abort_without_old_values) {
  transaction tx = m.begin(restore_mode::no_restore);
  tx.modify(r.at<int>(0), 1);
  expect_error(errc::cannot_abort, {"transaction 1", "no_restore"}, [&] { tx.abort(); });
  EXPECT_TRUE(tx.is_open());
  tx.commit();
}

TEST_F(misuse, overlapping_regions) {
  m.create_segment(dir / "two", {.length = 64 * kib});
  region middle = m.map(dir / "two", {.offset = 16 * kib, .length = 16 * kib});
  const auto map = [&](std::uint64_t offset, std::uint64_t length) {
    return [&, offset, length] { (void)m.map(dir / "two", {.offset = offset, .length = length}); };
  };
  expect_error(errc::region_overlap, {dir / "two", "16384 to 32768", "mapped already"}, map(16 * kib, 16 * kib));
  expect_error(errc::region_overlap, {"16384 to 32768"}, map(20 * kib, 4 * kib));
  expect_error(errc::region_overlap, {"16384 to 32768"}, map(0, 20 * kib));
  expect_error(errc::region_overlap, {"16384 to 32768"}, map(28 * kib, 8 * kib));
  expect_error(errc::region_overlap, {"16384 to 32768"}, map(0, 0));
  // A longer way to the same file.
  expect_error(errc::region_overlap, {"16384 to 32768"},
               [&] { (void)m.map(dir.path() + "/./x/../two", {.offset = 16 * kib}); });
  region before = m.map(dir / "two", {.offset = 0, .length = 16 * kib});
  region after = m.map(dir / "two", {.offset = 32 * kib});
  EXPECT_EQ(after.size(), 32 * kib);
}

TEST_F(misuse, misaligned_region) {
  m.create_segment(dir / "two", {.length = 64 * kib});
  const std::string page = std::to_string(os::page_size());
  expect_error(errc::misaligned, {dir / "two", "offset, 100,", page},
               [&] { (void)m.map(dir / "two", {.offset = 100}); });
  expect_error(errc::misaligned, {"length, 5000,", page}, [&] { (void)m.map(dir / "two", {.length = 5000}); });
  expect_error(errc::misaligned, {"address", page}, [&] { (void)m.map(dir / "two", {.address = r.data() + 8}); });
  region all = m.map(dir / "two");
  EXPECT_EQ(all.size(), 64 * kib);
}

TEST_F(misuse, address_taken) {
  m.create_segment(dir / "two", {.length = 64 * kib});
  expect_error(errc::address_taken, {dir / "seg"}, [&] { (void)m.map(dir / "two", {.address = r.data()}); });
  expect_error(errc::address_taken, {dir / "two", dir / "seg"},
               [&] { (void)m.map(dir / "two", {.address = r.data(), .copy_in = true}); });
  // The program's own code.
  void* const code = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&misuse::SetUpTestSuite) /
                                             os::page_size() * os::page_size());
  expect_error(errc::address_taken, {}, [&] { (void)m.map(dir / "two", {.address = code}); });
  region all = m.map(dir / "two");  // nothing is left over of the attempts
  EXPECT_TRUE(all);
}

TEST_F(misuse, region_beyond_its_segment) {
  expect_error(errc::segment_too_short, {dir / "seg", "131072", "65536"},
               [&] { (void)m.map(dir / "seg", {.offset = 64 * kib, .length = 64 * kib}); });
  expect_error(errc::segment_too_short, {dir / "seg", "65536"}, [&] { (void)m.map(dir / "seg", {.offset = 1 << 20}); });
  m.create_segment(dir / "two", {.length = 64 * kib});
  expect_error(errc::segment_too_short, {"69632", "65536"}, [&] { (void)m.map(dir / "two", {.length = 68 * kib}); });
  expect_error(errc::segment_too_short, {"65536"},
               [&] { (void)m.map(dir / "two", {.offset = ~std::uint64_t{4095}, .length = 8 * kib}); });
}

TEST_F(misuse, unmapping_a_busy_region) {
  transaction tx = m.begin();
  tx.modify(r.at<int>(0), 1);
  expect_error(errc::region_busy, {dir / "seg", "1 open transaction;"}, [&] { r.unmap(); });
  transaction another = m.begin();
  another.modify(r.at<int>(8), 1);
  expect_error(errc::region_busy, {"2 open transactions;"}, [&] { r.unmap(); });
  another.abort();
  tx.commit();
  EXPECT_EQ(r.at<int>(0), 1);
  r.unmap();
  expect_error(errc::closed, {"not mapped any more"}, [&] { (void)r.at<int>(0); });
  expect_error(errc::closed, {"not mapped any more"}, [&] { (void)r.segment_path(); });
  r.unmap();  // again is harmless
}

TEST_F(misuse, closing_with_open_transactions) {
  std::optional<transaction> tx = m.begin();
  tx->modify(r.at<int>(0), 3);
  expect_error(errc::transactions_open, {dir / "log", "transaction 1 is still open"}, [&] { m.close(); });
  std::optional<transaction> another = m.begin();
  expect_error(errc::transactions_open, {"transaction 2 and others are still open"}, [&] { m.close(); });
  // Nothing has changed: both go on.
  another->modify(r.at<int>(8), 4);
  another->commit();
  tx->commit();
  m.close();
  m.close();  // again is harmless
  memory again(dir / "log", small_log());
  region seen = again.map(dir / "seg");
  EXPECT_EQ(seen.at<int>(0), 3);
  EXPECT_EQ(seen.at<int>(8), 4);
}

TEST_F(misuse, closed_memory) {
  m.close();
  const std::string name = dir / "log";
  expect_error(errc::closed, {name, "has been closed"}, [&] { (void)m.begin(); });
  expect_error(errc::closed, {name}, [&] { (void)m.map(dir / "seg"); });
  expect_error(errc::closed, {name}, [&] { m.create_segment(dir / "new", {.length = 1}); });
  expect_error(errc::closed, {name}, [&] { (void)m.segment_length(dir / "seg"); });
  expect_error(errc::closed, {name}, [&] { (void)m.verify_segment(dir / "seg"); });
  expect_error(errc::closed, {name}, [&] { m.flush(); });
  expect_error(errc::closed, {name}, [&] { (void)m.last_commit(); });
  expect_error(errc::closed, {name}, [&] { m.wait({}); });
  expect_error(errc::closed, {name}, [&] { m.truncate(); });
  expect_error(errc::closed, {name}, [&] { (void)m.truncate_incrementally(1); });
  expect_error(errc::closed, {name}, [&] { (void)m.open_transactions(); });
  expect_error(errc::closed, {name}, [&] { m.set_tuning({}); });
  expect_error(errc::closed, {"not mapped any more"}, [&] { (void)r.at<int>(0); });
  EXPECT_EQ(m.log_path(), name);
  (void)m.stats();
  memory moved = std::move(m);
  expect_error(errc::closed, {"moved from"}, [&] { (void)m.begin(); });
  expect_error(errc::closed, {"moved from"}, [&] { m.close(); });
  EXPECT_EQ(moved.log_path(), name);
}

TEST(misuse_lifetime, destroying_a_memory_with_open_transactions) {
  temp_dir dir;
  std::optional<memory> m;
  m.emplace(dir / "log", small_log());
  region r = m->map(dir / "seg", {.create_length = 64 * kib});
  put(*m, r, 0, "committed");
  {
    transaction tx = m->begin(), another = m->begin(restore_mode::no_restore);
    tx.modify(r.data(), "lost, all", 9);
    another.modify(r.at<int>(64), 1);
    m.reset();
    expect_error(errc::closed, {"transaction 2", dir / "log", "has been closed"}, [&] { tx.set_range(r.data(), 1); });
    expect_error(errc::closed, {"has been closed"}, [&] { tx.commit(); });
    expect_error(errc::closed, {"has been closed"}, [&] { tx.abort(); });
    expect_error(errc::closed, {"has been closed"}, [&] { another.commit(); });
    expect_error(errc::closed, {"not mapped any more"}, [&] { (void)r.at<char>(0); });
  }
  // The lock is gone, and so is what was not committed.
  memory again(dir / "log", small_log());
  region seen = again.map(dir / "seg");
  EXPECT_EQ(get(seen, 0, 9), "committed");
  EXPECT_EQ(seen.at<int>(64), 0);
}

TEST(misuse_options, values_that_make_no_sense) {
  temp_dir dir;
  options how = small_log();
  how.recovery_memory = mib;
  expect_error(errc::bad_option, {"recovery_memory", "1048576", "8 MiB"}, [&] { memory{dir / "log", how}; });
  how = small_log();
  for (const std::uint32_t block : {1u, 256u, 1000u, 8192u}) {
    how.log.block_size = block;
    expect_error(errc::bad_option, {"block size " + std::to_string(block), "512 to 4096"}, [&] {
      memory{dir / "log", how};
    });
  }
  how = small_log();
  how.log.size = ~std::uint64_t{0};
  expect_error(errc::bad_option, {"log size", "too large"}, [&] { memory{dir / "log", how}; });
  // Nothing is left of the attempts.
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));

  memory m(dir / "log", small_log());
  expect_error(errc::bad_option, {dir / "seg", "length 0"}, [&] { m.create_segment(dir / "seg", {}); });
  expect_error(errc::bad_option, {dir / "seg"},
               [&] { m.create_segment(dir / "seg", {.length = std::uint64_t{1} << 60}); });
  expect_error(errc::bad_option, {dir / "seg"},
               [&] { m.create_segment(dir / "seg", {.length = 1, .max_length = ~std::uint64_t{0}}); });
  m.create_segment(dir / "seg", {.length = 8 * kib});
  expect_error(std::errc::file_exists, {dir / "seg"}, [&] { m.create_segment(dir / "seg", {.length = 8 * kib}); });
  region r = m.map(dir / "seg", {.length = 4 * kib});
  expect_error(errc::bad_option, {dir / "seg", "header"},
               [&] { (void)m.map(dir / "seg", {.offset = 4 * kib, .raw = true}); });
}

TEST(misuse_too_big, names_both_sizes) {
  temp_dir dir;
  options how = small_log();
  how.log.size = how.log.max_size = 64 * kib;
  memory m(dir / "log", how);
  region r = m.map(dir / "seg", {.create_length = 256 * kib});
  transaction tx = m.begin();
  tx.set_range(r.data(), 100'000);
  std::memset(r.data(), 'x', 100'000);
  expect_error(errc::too_big, {"100000 bytes", "65536 bytes", "max_size"}, [&] { tx.commit(); });
  // It is still open; what fits can be committed by another, and this one rolled back.
  EXPECT_TRUE(tx.is_open());
  put(m, r, 200'000, "fits");
  tx.abort();
  EXPECT_EQ(r.at<char>(0), '\0');
  EXPECT_EQ(get(r, 200'000, 4), "fits");
}

TEST(misuse_log, create_over_something) {
  temp_dir dir;
  write_file(dir / "file", "mine");
  expect_error(std::errc::file_exists, {dir / "file"}, [&] { memory::create_log(dir / "file"); });
  expect_error(std::errc::file_exists, {dir / "file"}, [&] {
    memory{dir / "file", small_log(nullptr, open_mode::create)};
  });
  EXPECT_EQ(contents_of(dir / "file"), "mine");
  expect_error(std::errc::no_such_file_or_directory, {dir / "none"}, [&] {
    memory{dir / "none", small_log(nullptr, open_mode::open)};
  });
  expect_error(std::errc::no_such_file_or_directory, {dir / "none"}, [&] { memory{dir / "none", reading()}; });
  expect_error(std::errc::no_such_file_or_directory, {"none"}, [&] { memory{dir / "none/log", small_log()}; });
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

TEST(misuse_log, not_a_log) {
  temp_dir dir;
  write_file(dir / "short", "hello");
  expect_error(errc::not_a_log, {dir / "short", "5 bytes", "32768"}, [&] { memory{dir / "short", small_log()}; });
  write_file(dir / "text", std::string(100'000, 'x'));
  expect_error(errc::not_a_log, {dir / "text", "neither copy"}, [&] { memory{dir / "text", small_log()}; });
  EXPECT_EQ(contents_of(dir / "text"), std::string(100'000, 'x'));
  expect_error(std::errc::is_a_directory, {dir.path()}, [&] { memory{dir.path(), small_log()}; });
}

TEST_F(misuse, not_a_segment) {
  write_file(dir / "text", std::string(100'000, 'x'));
  expect_error(errc::not_a_segment, {dir / "text", "raw"}, [&] { (void)m.map(dir / "text"); });
  write_file(dir / "empty", "");
  expect_error(errc::not_a_segment, {dir / "empty"}, [&] { (void)m.map(dir / "empty"); });
  expect_error(errc::segment_too_short, {dir / "empty"}, [&] { (void)m.map(dir / "empty", {.raw = true}); });
  memory::create_log(dir / "other", {.size = 1});
  expect_error(errc::not_a_segment, {dir / "other"}, [&] { (void)m.map(dir / "other"); });
  expect_error(std::errc::no_such_file_or_directory, {dir / "none"}, [&] { (void)m.map(dir / "none"); });
  expect_error(std::errc::no_such_file_or_directory, {dir / "none"}, [&] { (void)m.segment_length(dir / "none"); });
}

TEST_F(misuse, the_log_s_files_are_no_segments) {
  for (const char* const name : {"log", "log.1"})
    expect_error(errc::bad_option, {dir / name, "file of the log"}, [&] { (void)m.map(dir / name, {.raw = true}); });
}

TEST_F(misuse, changing_what_was_opened_for_reading) {
  r.unmap();
  m.close();
  memory reader(dir / "log", reading());
  region seen = reader.map(dir / "seg");
  expect_error(errc::read_only, {dir / "log", "reading only"}, [&] { (void)reader.begin(); });
  expect_error(errc::read_only, {dir / "log"}, [&] { reader.create_segment(dir / "new", {.length = 1}); });
  expect_error(errc::read_only, {dir / "log"}, [&] { reader.truncate(); });
  expect_error(errc::read_only, {dir / "log"}, [&] { (void)reader.truncate_incrementally(1); });
  expect_error(std::errc::no_such_file_or_directory, {dir / "new"},
               [&] { (void)reader.map(dir / "new", {.create_length = 4096}); });
  EXPECT_FALSE(std::filesystem::exists(dir / "new"));
  reader.flush();  // nothing to do
  reader.wait(reader.last_commit());
}

}  // namespace
}  // namespace tenure::rvm
