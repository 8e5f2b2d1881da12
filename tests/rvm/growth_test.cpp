// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments that grow, the regions that grow with them, and memory that is given back to the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "log/checksum.hpp"
#include "os/virtual_memory.hpp"
#include "segments/interval_set.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

constexpr std::uint64_t tib = std::uint64_t{1} << 40;

// Bytes in [at, at+length) that are private copies or anonymous memory.
std::size_t own_bytes(const std::byte* at, std::size_t length) {
  std::size_t sum = 0;
  os::for_each_private_copy(at, length, [&](os::page_run run) { sum += run.length; });
  return sum;
}

TEST(growth, region_grows_with_its_segment) {
  temp_dir dir;
  for (const auto fresh : {fresh_space::file, fresh_space::anonymous, fresh_space::huge_pages})
    for (const bool copy : {false, true}) {
      const std::string name = "seg" + std::to_string(static_cast<int>(fresh)) + (copy ? "c" : "");
      const std::string path = dir / name;
      {
        memory m(dir / "log", small_log());
        m.create_segment(path, {.length = 64 * kib, .max_length = 16 * mib, .home = 0x1234000, .tag = 77});
        region r = m.map(path, {.copy_in = copy, .reserve = true, .fresh = fresh});
        std::byte* const before = r.data();
        EXPECT_EQ(r.size(), 64 * kib);
        EXPECT_EQ(r.capacity(), 16 * mib);
        put(m, r, 64 * kib - 3, "old");
        EXPECT_EQ(m.grow_segment(path, 3 * mib + 1), 3 * mib + 4 * kib);
        EXPECT_EQ(r.data(), before);
        EXPECT_EQ(r.size(), 3 * mib + 4 * kib);
        EXPECT_EQ(m.segment_length(path), 3 * mib + 4 * kib);
        EXPECT_TRUE(
            std::all_of(r.data() + 64 * kib, r.data() + r.size(), [](std::byte b) { return b == std::byte{}; }));
        put(m, r, 3 * mib, "new");
        put(m, r, 64 * kib - 1, "across");
        m.truncate();
        EXPECT_EQ(get(r, 3 * mib, 3), "new");  // whatever was given back shows the same
        EXPECT_EQ(m.grow_segment(path, 1), 3 * mib + 4 * kib) << "a segment never becomes shorter";
        EXPECT_EQ(m.grow_segment(path, 16 * mib), 16 * mib);
        put(m, r, 16 * mib - 3, "end", commit_mode::no_flush);
        EXPECT_EQ(get(r, 3 * mib, 3), "new");
        EXPECT_TRUE(m.verify_segment(path).empty());
      }
      memory m(dir / "log", small_log());
      const segment_info info = m.describe_segment(path);
      EXPECT_EQ(info.length, 16 * mib);
      EXPECT_EQ(info.max_length, 16 * mib);
      EXPECT_EQ(info.home, 0x1234000u);
      EXPECT_EQ(info.tag, 77u);
      region r = m.map(path, {.reserve = true});
      EXPECT_EQ(get(r, 64 * kib - 3, 8), "olacross");
      EXPECT_EQ(get(r, 3 * mib, 3), "new");
      EXPECT_EQ(get(r, 16 * mib - 3, 3), "end");
    }
}

TEST(growth, what_was_appended_to_the_file_is_no_new_space) {
  for (const auto fresh : {fresh_space::file, fresh_space::anonymous})
    for (const std::uint64_t first : {64 * kib, 1 * mib}) {
      temp_dir dir;
      const std::string path = dir / "seg";
      {
        memory m(dir / "log", small_log());
        m.create_segment(path, {.length = first, .max_length = 16 * mib});
        region r = m.map(path, {.reserve = true, .fresh = fresh});
        put(m, r, first - 3, "old");
      }
      {
        const auto file = os::real_disk().open(path, os::access::read_write);
        file->write_at(file->size(), std::vector<std::byte>(200'000, std::byte{'x'}));
      }
      memory m(dir / "log", small_log());
      region r = m.map(path, {.reserve = true, .fresh = fresh});
      m.grow_segment(path, 5 * mib);
      EXPECT_TRUE(std::all_of(r.data() + first, r.data() + r.size(), [](std::byte b) { return b == std::byte{}; }));
      EXPECT_EQ(get(r, first - 3, 3), "old");
      EXPECT_TRUE(m.verify_segment(path).empty());
    }
}

TEST(growth, only_the_region_at_the_end_grows) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib, .max_length = mib});
  region front = m.map(dir / "seg", {.length = 32 * kib}),
         tail = m.map(dir / "seg", {.offset = 32 * kib, .reserve = true});
  EXPECT_EQ(tail.capacity(), mib - 32 * kib);
  m.grow_segment(dir / "seg", 256 * kib);
  EXPECT_EQ(front.size(), 32 * kib);
  EXPECT_EQ(front.capacity(), 32 * kib);
  EXPECT_EQ(tail.size(), 224 * kib);
  put(m, tail, 224 * kib - 4, "last");
  expect_error(errc::region_overlap, {"mapped already"}, [&] { (void)m.map(dir / "seg", {.offset = 128 * kib}); });
  // What is reserved is the region's own, also beyond what the segment has.
  tail.unmap();
  region plain = m.map(dir / "seg", {.offset = 32 * kib});
  EXPECT_EQ(get(plain, 224 * kib - 4, 4), "last");
  m.grow_segment(dir / "seg", mib);
  EXPECT_EQ(plain.size(), 224 * kib);
  region more = m.map(dir / "seg", {.offset = 256 * kib});
  put(m, more, 0, "more");
}

TEST(growth, of_a_segment_that_is_not_mapped) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib, .max_length = mib});
  m.grow_segment(dir / "seg", mib);
  region r = m.map(dir / "seg");
  EXPECT_EQ(r.size(), mib);
}

TEST(growth, is_refused_with_a_reason) {
  temp_dir dir;
  write_file(dir / "raw", std::string(64 * kib, 'r'));
  {
    memory m(dir / "log", small_log());
    m.create_segment(dir / "seg", {.length = 64 * kib, .max_length = mib});
    expect_error(errc::segment_full, {"seg", "max_length", std::to_string(mib)},
                 [&] { (void)m.grow_segment(dir / "seg", mib + 1); });
    expect_error(errc::not_a_segment, {"raw"}, [&] { (void)m.grow_segment(dir / "raw", mib); });
    region raw = m.map(dir / "raw", {.raw = true, .reserve = true});
    EXPECT_EQ(raw.capacity(), raw.size());
    expect_error(errc::bad_option, {"raw"}, [&] { (void)m.grow_segment(dir / "raw", mib); });
    expect_error(errc::bad_option, {"reserve"},
                 [&] { (void)m.map(dir / "seg", {.length = 4 * kib, .reserve = true}); });
    EXPECT_EQ(m.segment_length(dir / "seg"), 64 * kib);
  }
  memory m(dir / "log", reading());
  expect_error(errc::read_only, {}, [&] { (void)m.grow_segment(dir / "seg", mib); });
  region r = m.map(dir / "seg", {.reserve = true});
  EXPECT_EQ(r.capacity(), mib);
}

TEST(growth, what_is_beyond_the_size_cannot_be_touched) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib, .max_length = mib});
  region r = m.map(dir / "seg", {.reserve = true, .fresh = fresh_space::anonymous});
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], r.data() + 64 * kib - 1, 1), 1);
  EXPECT_EQ(::write(ends[1], r.data() + 64 * kib, 1), -1);
  EXPECT_EQ(errno, EFAULT);
  m.grow_segment(dir / "seg", 68 * kib);
  EXPECT_EQ(::write(ends[1], r.data() + 64 * kib, 1), 1);
  EXPECT_EQ(::write(ends[1], r.data() + 68 * kib, 1), -1);
  ::close(ends[0]);
  ::close(ends[1]);
  expect_error(errc::not_mapped, {}, [&] { m.begin().set_range(r.data() + 68 * kib, 1); });
  expect_error(errc::partly_mapped, {}, [&] { m.begin().set_range(r.data() + 68 * kib - 1, 2); });
  expect_error(errc::partly_mapped, {}, [&] { (void)r.at<char>(68 * kib); });
  EXPECT_NE(os::occupant(r.data() + 68 * kib, 4 * kib), "") << "the address space is taken";
}

// A header that makes room for 1 TiB costs nothing: neither space, nor time when it is made or opened, nor memory.
TEST(growth, room_costs_nothing) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = mib, .max_length = tib});
  struct stat found {};
  const auto blocks = [&] {
    EXPECT_EQ(::stat((dir / "seg").c_str(), &found), 0);
    return static_cast<std::uint64_t>(found.st_blocks) * 512;
  };
  EXPECT_LT(blocks(), mib + 128 * kib);
  EXPECT_LT(static_cast<std::uint64_t>(found.st_size), mib + 256 * kib) << "nor does the file look long";
  region r = m.map(dir / "seg", {.reserve = true});
  EXPECT_EQ(r.capacity(), tib);
  put(m, r, 0, "first");
  m.grow_segment(dir / "seg", 2 * mib);
  put(m, r, 2 * mib - 4, "last");
  EXPECT_TRUE(m.verify_segment(dir / "seg").empty());
  r.unmap();
  EXPECT_LT(blocks(), 2 * mib + 256 * kib);
}

TEST(growth, survives_a_crash_at_every_operation) {
  sim::disk disk;
  std::optional<memory> m(std::in_place, "/d/log", small_log(&disk));
  m->create_segment("/d/seg", {.length = 64 * kib, .max_length = mib});
  region r = m->map("/d/seg", {.reserve = true});
  std::uint64_t acknowledged = 64 * kib, asked = 64 * kib, crashes = 0;
  std::string text = "";
  disk.on_operation([&](const sim::trace_entry& at) {
    for (const auto policy :
         {sim::policy::drop_all, sim::policy::random, sim::policy::random_with_garbage, sim::policy::keep_all}) {
      ++crashes;
      const auto left = disk.crash(at.index, policy);
      memory again("/d/log", small_log(left.get()));
      const std::uint64_t length = again.segment_length("/d/seg");
      EXPECT_GE(length, acknowledged);
      EXPECT_LE(length, asked);
      EXPECT_TRUE(again.verify_segment("/d/seg").empty());
      region all = again.map("/d/seg", {.reserve = true});
      EXPECT_EQ(get(all, acknowledged - text.size(), text.size()), text);
      // It goes on growing, over whatever the crash has left.
      EXPECT_EQ(again.grow_segment("/d/seg", mib), mib);
      put(again, all, mib - 4, "last");
      EXPECT_TRUE(std::all_of(all.data() + asked, all.data() + mib - 4, [](std::byte b) { return b == std::byte{}; }));
    }
  });
  for (asked = 128 * kib; asked <= 512 * kib; asked *= 2) {
    text.clear();
    m->grow_segment("/d/seg", asked);
    acknowledged = asked;
    put(*m, r, asked - 5, "bytes");
    text = "bytes";
    m->truncate();
  }
  disk.on_operation({});
  EXPECT_GT(crashes, 50u);
}

// Nothing has changed, and the memory goes on.
TEST(growth, on_a_full_disk_changes_nothing) {
  for (std::uint64_t nth : {1, 2})
    for (const auto fresh : {fresh_space::file, fresh_space::anonymous}) {
      sim::disk disk;
      memory m("/d/log", small_log(&disk));
      m.create_segment("/d/seg", {.length = 64 * kib, .max_length = 64 * mib});
      region r = m.map("/d/seg", {.reserve = true, .fresh = fresh});
      const auto before = disk.current_bytes("/d/seg");
      disk.inject({.kind = sim::operation::allocate, .path = "/d/seg", .nth = nth, .error = ENOSPC});
      expect_error(std::errc::no_space_on_device, {"/d/seg", "nothing has changed"},
                   [&] { m.grow_segment("/d/seg", 32 * mib); });
      EXPECT_EQ(m.segment_length("/d/seg"), 64 * kib);
      EXPECT_EQ(r.size(), 64 * kib);
      EXPECT_TRUE(disk.current_bytes("/d/seg") == before);
      expect_error(errc::not_mapped, {}, [&] { m.begin().set_range(r.data() + 64 * kib, 1); });
      put(m, r, 0, "goes on");
      m.grow_segment("/d/seg", 32 * mib);
      put(m, r, 32 * mib - 4, "last");
      m.truncate();
      EXPECT_TRUE(m.verify_segment("/d/seg").empty());
    }
}

// What the kernel has of the file is not known then.
TEST(growth, that_cannot_be_made_durable_ends_all_commits) {
  for (const auto kind : {sim::operation::sync, sim::operation::write}) {
    sim::disk disk;
    {
      memory m("/d/log", small_log(&disk));
      m.create_segment("/d/seg", {.length = 64 * kib, .max_length = mib});
      region r = m.map("/d/seg", {.reserve = true});
      put(m, r, 0, "before");
      disk.inject({.kind = kind, .path = "/d/seg"});
      expect_error(errc::outcome_unknown, {"/d/seg"}, [&] { m.grow_segment("/d/seg", mib); });
      EXPECT_EQ(r.size(), 64 * kib);
      expect_error(errc::outcome_unknown, {}, [&] { put(m, r, 0, "after"); });
    }
    memory m("/d/log", small_log(&disk));
    m.grow_segment("/d/seg", mib);
    region r = m.map("/d/seg");
    EXPECT_EQ(get(r, 0, 6), "before");
    put(m, r, mib - 1, "x");
  }
}

// One sync makes the space and the header durable, before a record of the log can refer to them.
TEST(growth, is_durable_step_by_step) {
  sim::disk disk;
  memory m("/d/log", small_log(&disk));
  m.create_segment("/d/seg", {.length = 64 * kib, .max_length = mib});
  region r = m.map("/d/seg", {.reserve = true});
  put(m, r, 0, "x");  // so that the header has been noted
  disk.record_trace(true);
  m.grow_segment("/d/seg", 128 * kib);
  std::string order;
  for (const auto& at : disk.trace())
    if (sim::changes_disk(at.kind)) order += std::string(sim::name_of(at.kind)) + (at.path == "/d/seg" ? ". " : "? ");
  EXPECT_EQ(order, "allocate. allocate. write. sync. write. ");
  EXPECT_EQ(memory("/d/log", small_log(disk.crash(1, sim::policy::drop_all).get())).segment_length("/d/seg"),
            128 * kib);
  // Either copy of the header says it, as soon as anything of the new space is in the segment.
  put(m, r, 128 * kib - 4, "last");
  m.truncate();
  EXPECT_EQ(disk.unsynced("/d/seg"), 0u);
  for (const std::uint64_t copy : {0, 4096}) {
    const auto left = disk.crash(1, sim::policy::drop_all);
    left->poke("/d/seg", copy, std::vector<std::byte>(4096));
    memory again("/d/log", small_log(left.get()));
    EXPECT_EQ(again.segment_length("/d/seg"), 128 * kib);
  }
}

// A crash after the header was written, and before the space was there.
TEST(growth, that_a_crash_has_left_half_done_is_undone) {
  for (const std::uint64_t copy : {0, 4096}) {
    sim::disk disk;
    {
      memory m("/d/log", small_log(&disk));
      m.create_segment("/d/seg", {.length = 64 * kib, .max_length = mib});
      region r = m.map("/d/seg", {.reserve = true});
      put(m, r, 0, "before");
    }
    auto half = disk.current_bytes("/d/seg");
    memory("/d/log", small_log(&disk)).grow_segment("/d/seg", 512 * kib);
    segment_header h = read_segment_header(disk, "/d/seg");
    ASSERT_EQ(h.length, 512 * kib);
    h.sequence += 10;
    h.checksum = header_checksum(h, offsetof(segment_header, checksum));
    std::memcpy(half.data() + copy, &h, sizeof h);
    disk.install("/d/seg", half);
    memory m("/d/log", small_log(&disk));
    EXPECT_EQ(m.segment_length("/d/seg"), 64 * kib);
    region r = m.map("/d/seg", {.reserve = true});
    EXPECT_EQ(get(r, 0, 6), "before");
    m.grow_segment("/d/seg", mib);
    put(m, r, mib - 4, "last");
    m.truncate();
    EXPECT_TRUE(m.verify_segment("/d/seg").empty());
  }
}

// The sync failed, and the next process finds the header in the page cache.
TEST(growth, that_failed_is_made_durable_by_the_next_process) {
  sim::disk disk;
  {
    memory m("/d/log", small_log(&disk));
    m.create_segment("/d/seg", {.length = 64 * kib, .max_length = mib});
    region r = m.map("/d/seg", {.reserve = true});
    put(m, r, 0, "before");
    m.truncate();  // recovery writes nothing to the segment, and does not sync it
    disk.inject({.kind = sim::operation::sync, .path = "/d/seg"});
    expect_error(errc::outcome_unknown, {"/d/seg"}, [&] { m.grow_segment("/d/seg", 512 * kib); });
  }
  options how = small_log(&disk);
  how.tune.truncation_threshold = 2;
  memory m("/d/log", how);
  EXPECT_EQ(m.segment_length("/d/seg"), 512 * kib);
  EXPECT_EQ(disk.unsynced("/d/seg"), 0U);
  region r = m.map("/d/seg", {.reserve = true});
  put(m, r, 512 * kib - 4, "last");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto left = disk.crash(seed, seed == 1 ? sim::policy::drop_all : sim::policy::random);
    memory again("/d/log", small_log(left.get()));
    const region found = again.map("/d/seg", {.reserve = true});
    EXPECT_EQ(get(found, 512 * kib - 4, 4), "last");
  }
}

// --- Giving memory back ---

// [rvm.region.anonymous]
TEST(backing, fresh_memory_is_replaced_when_it_is_equal) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib, .max_length = 64 * mib});
  region r = m.map(dir / "seg", {.reserve = true, .fresh = fresh_space::anonymous});
  m.grow_segment(dir / "seg", 8 * mib);
  for (std::size_t at = 64 * kib; at < 8 * mib; at += 4 * kib)
    put(m, r, at, "page" + std::to_string(at), commit_mode::no_flush);
  EXPECT_EQ(own_bytes(r.data() + 64 * kib, 8 * mib - 64 * kib), 8 * mib - 64 * kib);
  EXPECT_EQ(r.back_with_file(0, 8 * mib), 64 * kib) << "what is not truncated stays";
  m.truncate();
  EXPECT_EQ(own_bytes(r.data() + 64 * kib, 8 * mib - 64 * kib), 8 * mib - 64 * kib) << "truncation gives nothing back";

  r.data()[5 * mib] = std::byte{'?'};  // undeclared: not what the file has
  EXPECT_EQ(r.back_with_file(0, 8 * mib), 6 * mib);
  EXPECT_EQ(own_bytes(r.data(), 4 * mib), 0u);
  EXPECT_EQ(own_bytes(r.data() + 4 * mib, 2 * mib), 2 * mib);
  EXPECT_EQ(r.data()[5 * mib], std::byte{'?'});
  r.data()[5 * mib] = std::byte{'p'};

  {  // declared by an open transaction
    transaction tx = m.begin();
    tx.set_range(r.data() + 4 * mib, 1);
    EXPECT_EQ(r.back_with_file(4 * mib, 2 * mib), 0u);
  }
  EXPECT_EQ(r.back_with_file(4 * mib, 2 * mib), 2 * mib);
  EXPECT_EQ(own_bytes(r.data(), 8 * mib), 0u);
  for (std::size_t at = 64 * kib; at < 8 * mib; at += 4 * kib)
    ASSERT_STREQ(reinterpret_cast<const char*>(r.data() + at), ("page" + std::to_string(at)).c_str());

  // What the file backs now behaves as what it always did.
  put(m, r, mib, "again");
  EXPECT_EQ(own_bytes(r.data(), 8 * mib), 4 * kib);
  m.truncate();
  EXPECT_EQ(own_bytes(r.data(), 8 * mib), 0u);
  EXPECT_EQ(get(r, mib, 5), "again");
  EXPECT_TRUE(m.verify_segment(dir / "seg").empty());
}

TEST(backing, private_copies_and_copied_regions) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = mib}),
         copied = m.map(dir / "other", {.create_length = mib, .copy_in = true});
  std::memset(r.data(), 1, mib);  // private copies that differ
  EXPECT_EQ(r.back_with_file(0, mib), 0u);
  std::memset(r.data(), 0, mib);
  std::memset(r.data() + 8 * kib, 1, 1);
  EXPECT_EQ(r.back_with_file(4 * kib, mib - 4 * kib), mib - 8 * kib);
  EXPECT_EQ(own_bytes(r.data(), mib), 8 * kib);
  put(m, copied, 5, "text");
  m.truncate();
  EXPECT_EQ(copied.back_with_file(0, mib), mib);
  EXPECT_EQ(own_bytes(copied.data(), mib), 0u);
  EXPECT_EQ(get(copied, 5, 4), "text");
  expect_error(errc::misaligned, {"7"}, [&] { (void)r.back_with_file(7, 4 * kib); });
  expect_error(errc::partly_mapped, {}, [&] { (void)r.back_with_file(0, 2 * mib); });
}

// Threads go on declaring and changing what is being replaced, and lose nothing.
TEST(backing, while_threads_change_the_memory) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 4 * kib, .max_length = 4 * mib});
  region r = m.map(dir / "seg", {.reserve = true, .fresh = fresh_space::anonymous});
  m.grow_segment(dir / "seg", 4 * mib);
  constexpr std::uint64_t rounds = 400, threads = 2;
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= rounds; ++i) {
        transaction tx = m.begin();
        for (std::size_t page = t; page < 1024; page += 64) {
          auto& value = r.at<std::uint64_t>(page * 4 * kib);
          tx.set_range(value);
          ++value;
        }
        tx.commit(commit_mode::no_flush);
      }
    });
  for (int i = 0; i < 20; ++i) {
    m.truncate();
    (void)r.back_with_file(0, 4 * mib);
  }
  for (auto& t : all) t.join();
  m.truncate();
  EXPECT_EQ(r.back_with_file(0, 4 * mib), 4 * mib);
  for (std::size_t page = 0; page < 1024; ++page)
    ASSERT_EQ(r.at<std::uint64_t>(page * 4 * kib), page % 64 < threads ? rounds : 0) << page;
}

TEST(interval_set, are_added_and_removed) {
  // Against a set of bytes.
  std::vector<bool> expected(64);
  interval_set parts;
  std::uint32_t seed = 1;
  const auto below = [&](std::uint32_t n) { return ((seed = seed * 1103515245 + 12345) >> 8) % n; };
  for (int i = 0; i < 5000; ++i) {
    std::size_t from = below(64), to = below(64);
    if (from == to) continue;
    if (from > to) std::swap(from, to);
    const bool add = below(2) == 0;
    add ? parts.add(from, to) : parts.remove(from, to);
    std::fill(expected.begin() + static_cast<std::ptrdiff_t>(from), expected.begin() + static_cast<std::ptrdiff_t>(to),
              add);
    for (std::size_t at = 0; at < 64; ++at) {
      ASSERT_EQ(parts.contains(at), expected[at]);
      std::size_t end = at;
      while (end < 64 && expected[end] == expected[at]) ++end;
      ASSERT_EQ(parts.end_of_run(at, 64), end);
    }
  }
}

}  // namespace
}  // namespace tenure::rvm
