// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Log and archive together: whatever happens, each acknowledged change is in one of them, or is said to be missing.
#include "history.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "records/archive_cut.hpp"
#include "records/archive_writer.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using namespace rvm;

constexpr std::uint64_t segment_length = 64 * kib;

options archived(sim::disk& disk, std::uint64_t max_size = 64 * mib) {
  options how = small_log(&disk);
  how.log.size = 64 * kib;
  how.background = false;
  how.archive = archive_options{.max_size = max_size};
  return how;
}

// What the history says: the segment's bytes, from zeros, and how often each transaction was seen.
struct told {
  std::string image = std::string(segment_length, '\0');
  std::vector<std::string> labels;
  std::vector<archive_gap> gaps;
  lsn begin = 0;
};
told tell(os::disk& disk, const wanted_changes& which = {}) {
  told all;
  history past(disk, "/d/log", "");
  past.walk(which, [&](const group_view& group, os::const_bytes bytes) {
    for_each_record(group, bytes, [&](const transaction_view& tx, lsn) {
      all.labels.emplace_back(tx.label);
      for (const range_view& range : tx.ranges)
        std::memcpy(all.image.data() + range.offset, range.value.data(), range.value.size());
    });
    return true;
  });
  all.gaps = past.gaps();
  all.begin = past.begin();
  return all;
}
std::string gap_text(const told& all) {
  std::string text;
  for (const archive_gap& gap : all.gaps)
    text += std::to_string(gap.from) + " to " + std::to_string(gap.to) + ": " + gap.reason + "\n";
  return text;
}

// Commits that count: the nth has the label n and writes something at random.
class counting {
 public:
  explicit counting(memory& m, unsigned seed = 1)
      : m_(m), r_(m.map("/d/seg", {.create_length = segment_length})), random_(seed) {}
  void commit(std::uint64_t n, commit_mode mode = commit_mode::flush) {
    m_.transact(
        [&](transaction& tx) {
          tx.label(std::to_string(n));
          const std::size_t length = 8 + random_() % 200, at = random_() % (segment_length - length);
          tx.set_range(r_.data() + at, length);
          for (std::size_t i = 0; i < length; ++i) r_.data()[at + i] = static_cast<std::byte>(random_());
        },
        mode);
  }
  [[nodiscard]] std::string image() const { return get(r_, 0, segment_length); }

 private:
  memory& m_;
  region r_;
  std::mt19937 random_;
};

void expect_counted(const told& all, std::uint64_t first, std::uint64_t last) {
  ASSERT_EQ(all.labels.size(), last - first + 1);
  for (std::uint64_t i = first; i <= last; ++i) ASSERT_EQ(all.labels[i - first], std::to_string(i));
}

TEST(history, remembers_what_truncation_has_taken_out_of_the_log) {
  sim::disk disk;
  std::uint64_t n = 0;
  std::string image;
  for (int opening = 0; opening < 3; ++opening) {
    memory m("/d/log", archived(disk));
    counting user(m, static_cast<unsigned>(opening));
    for (int i = 0; i < 300; ++i) user.commit(++n);
    EXPECT_GT(m.stats().archived_log_bytes, 64 * kib);
    EXPECT_LT(m.stats().archive_bytes_written, m.stats().archived_log_bytes);
    image = user.image();
    const told live = tell(disk);  // while it is open
    expect_counted(live, 1, n);
    EXPECT_TRUE(live.image == image);
  }
  const told all = tell(disk);
  expect_counted(all, 1, n);
  EXPECT_TRUE(all.image == image);
  EXPECT_EQ(gap_text(all), "");
}

TEST(history, begins_with_the_log_where_there_is_no_archive) {
  sim::disk disk;
  memory m("/d/log", small_log(&disk));
  counting user(m);
  for (std::uint64_t n = 1; n <= 5; ++n) user.commit(n);
  expect_counted(tell(disk), 1, 5);
  m.truncate();
  EXPECT_TRUE(tell(disk).labels.empty());
  user.commit(6);
  expect_counted(tell(disk), 6, 6);
}

// --- Crashes and failures --------------------------------------------------------------------------------------------

TEST(history, is_whole_after_a_crash_at_every_operation) {
  std::uint64_t crashes = 0;
  sim::disk disk(512);
  std::uint64_t acknowledged = 0;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (at.index % 3 != 0 || ::testing::Test::HasFailure()) return;
    for (const auto what : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all}) {
      const auto left = disk.crash(at.index, what);
      if (!left->exists("/d/log") || !left->exists("/d/seg")) continue;
      ++crashes;
      // Opened again, perhaps losing power once more, and used on.
      if (at.index % 5 == 0) {
        left->crash_at(left->operations() + 1 + at.index % 23);
        try {
          memory m("/d/log", archived(*left));
          m.truncate();
        } catch (const sim::power_failure&) {
        }
      }
      const auto again = left->crash(at.index + 1, what);
      memory m("/d/log", archived(*again));
      region r = m.map("/d/seg");
      m.transact([&](transaction& tx) {
        tx.label("after");
        tx.modify(r.data() + 5, "after", 5);
      });
      m.truncate();
      const told all = tell(*again);
      ASSERT_EQ(gap_text(all), "") << "operation " << at.index;
      ASSERT_GE(all.labels.size(), acknowledged + 1) << "operation " << at.index;
      ASSERT_EQ(all.labels.back(), "after");
      for (std::size_t i = 0; i + 1 < all.labels.size(); ++i) ASSERT_EQ(all.labels[i], std::to_string(i + 1));
      ASSERT_TRUE(all.image == get(r, 0, segment_length)) << "operation " << at.index;
    }
  });
  memory m("/d/log", archived(disk, mib));
  counting user(m);
  for (std::uint64_t n = 1; n <= 250; ++n) {
    user.commit(n);
    acknowledged = n;
  }
  disk.on_operation({});
  EXPECT_GT(crashes, 200u);
  EXPECT_GT(m.stats().archived_log_bytes, 0u);
}

TEST(history, nothing_is_truncated_while_the_archive_cannot_be_written) {
  for (const sim::operation kind : {sim::operation::write, sim::operation::sync, sim::operation::create}) {
    sim::disk disk;
    memory m("/d/log", archived(disk));
    counting user(m);
    std::uint64_t n = 0;
    if (kind != sim::operation::create)
      while (m.stats().archived_log_bytes == 0) user.commit(++n);
    disk.inject({.kind = kind, .path = ".archive", .count = sim::for_ever, .error = ENOSPC});
    expect_error(errc::log_stuck, {"the log is full and could not be truncated", ".archive."}, [&] {
      for (;;) {
        user.commit(n + 1);
        ++n;
      }
    });
    disk.clear_faults();
    // A log that is stuck is stuck for good: what was acknowledged is in it.
    const auto left = disk.crash(1, sim::policy::drop_all);
    memory again("/d/log", archived(*left));
    const told all = tell(*left);
    EXPECT_EQ(gap_text(all), "");
    ASSERT_GE(all.labels.size(), n);
    EXPECT_TRUE(all.image == get(again.map("/d/seg"), 0, segment_length));
  }
}

TEST(history, goes_on_after_the_archive_failed_for_a_while) {
  sim::disk disk;
  options how = archived(disk);
  how.tune.truncation_threshold = 2;
  memory m("/d/log", how);
  counting user(m);
  for (std::uint64_t n = 1; n <= 5; ++n) user.commit(n);
  for (const sim::operation kind : {sim::operation::create, sim::operation::rename, sim::operation::sync_directory}) {
    disk.inject({.kind = kind, .path = "/d/log.archive", .error = EIO});
    EXPECT_THROW(m.truncate(), error) << sim::name_of(kind);
    disk.clear_faults();
  }
  m.truncate();
  for (std::uint64_t n = 6; n <= 9; ++n) user.commit(n);
  for (const sim::operation kind : {sim::operation::write, sim::operation::sync}) {
    disk.inject({.kind = kind, .path = "/d/log.archive", .error = ENOSPC, .bytes = 700});
    EXPECT_THROW(m.truncate(), error) << sim::name_of(kind);
    disk.clear_faults();
  }
  m.truncate();
  const told all = tell(disk);
  expect_counted(all, 1, 9);
  EXPECT_EQ(gap_text(all), "");
}

// --- What is missing is named ----------------------------------------------------------------------------------------

TEST(history, stays_below_its_bound_and_forgets_the_oldest) {
  sim::disk disk;
  memory m("/d/log", archived(disk, mib));
  counting user(m);
  std::uint64_t n = 0;
  while (m.stats().archive_bytes_written < 3 * mib) user.commit(++n);
  m.truncate();
  std::uint64_t bytes = 0;
  for (std::uint64_t slot = 0; slot < archive_parts; ++slot)
    bytes += disk.open(part_path("/d/log.archive", slot), os::access::read_only)->size();
  EXPECT_LE(bytes, mib + 64 * kib);
  EXPECT_GE(bytes, mib * 3 / 4);
  const told all = tell(disk);
  EXPECT_EQ(gap_text(all), "");
  EXPECT_GT(all.begin, 1 * mib);
  ASSERT_FALSE(all.labels.empty());
  expect_counted(all, std::stoull(all.labels.front()), n);
}

TEST(history, names_what_was_truncated_without_the_archive) {
  sim::disk disk;
  std::uint64_t n = 0;
  for (const bool with : {true, false, true}) {
    options how = archived(disk);
    if (!with) how.archive.reset();
    memory m("/d/log", how);
    counting user(m);
    for (int i = 0; i < 10; ++i) user.commit(++n);
  }
  const told all = tell(disk);
  ASSERT_EQ(all.gaps.size(), 1u);
  EXPECT_EQ(all.gaps[0].reason, "the log was open without its archive then");
  ASSERT_EQ(all.labels.size(), 20u);
  EXPECT_EQ(all.labels[9], "10");
  EXPECT_EQ(all.labels[10], "21");
  // The same at the end.
  options how = archived(disk);
  how.archive.reset();
  memory m("/d/log", how);
  counting user(m);
  user.commit(31);
  m.truncate();
  user.commit(32);
  const told more = tell(disk);
  ASSERT_EQ(more.gaps.size(), 2u);
  EXPECT_EQ(more.labels.size(), 21u);
  EXPECT_EQ(more.labels.back(), "32");
}

class damaged_archive : public ::testing::Test {
 protected:
  // Four parts of a few frames.
  damaged_archive() {
    std::uint64_t n = 0;
    for (int opening = 0; opening < 4; ++opening) {
      options how = archived(disk_, mib);
      how.tune.truncation_threshold = 2;
      memory m("/d/log", how);
      counting user(m, static_cast<unsigned>(opening));
      for (int frame = 0; frame < 6; ++frame) {
        for (int i = 0; i < 80; ++i) user.commit(++n);
        m.truncate();
      }
    }
    last_ = n;
    const archive_reader whole(disk_, "/d/log.archive", id());
    frames_ = whole.frames();
    EXPECT_GE(frames_.back().header.part, 4u);
  }
  identity id() { return log_files::open_unlocked(disk_, "/d/log")->status().log_id; }
  void flip(const std::string& path, std::uint64_t offset) {
    const auto file = disk_.open(path, os::access::read_write);
    std::byte b;
    file->read_at(offset, {&b, 1});
    b ^= std::byte{0x10};
    file->write_at(offset, {&b, 1});
  }
  static std::string path_of(const frame_header& frame) { return part_path("/d/log.archive", frame.part); }

  sim::disk disk_;
  std::uint64_t last_ = 0;
  std::vector<archive_reader::frame> frames_;
};

// [rvm.archive.self-describing]
TEST_F(damaged_archive, at_any_byte_of_a_frame_loses_that_frame_only) {
  const frame_header& victim = frames_[frames_.size() / 2].header;
  const std::uint64_t length = sizeof victim + victim.index_length + victim.stretch_length;
  named_segment seg = named_segment::look_at(disk_, "/d/seg", false);
  for (std::uint64_t at = 0; at < length; at += at < 300 ? 3 : 97) {
    if (at >= 88 + 4 && at < 128 && at % 2 == 0) continue;
    flip(path_of(victim), victim.offset + at);
    const told all = tell(disk_, {&seg});
    ASSERT_EQ(all.gaps.size(), 1u) << at << "\n" << gap_text(all);
    EXPECT_EQ(all.gaps[0].from, victim.from) << at;
    EXPECT_EQ(all.gaps[0].to, victim.to) << at;
    EXPECT_NE(all.gaps[0].reason.find(path_of(victim) + " is damaged"), std::string::npos) << all.gaps[0].reason;
    EXPECT_EQ(all.labels.size(), last_ - victim.transactions) << at;
    EXPECT_EQ(all.labels.back(), std::to_string(last_));
    flip(path_of(victim), victim.offset + at);
  }
  EXPECT_EQ(gap_text(tell(disk_)), "");
}

TEST_F(damaged_archive, without_a_part_or_with_an_unknown_one_loses_that_part_only) {
  lsn from = 0, to = 0;
  for (const auto& frame : frames_)
    if (frame.header.part == 2) {
      if (from == 0) from = frame.header.from;
      to = frame.header.to;
    }
  const auto expect = [&](const std::string& reason) {
    const told all = tell(disk_);
    ASSERT_EQ(all.gaps.size(), 1u) << gap_text(all);
    EXPECT_EQ(all.gaps[0].from, from);
    EXPECT_EQ(all.gaps[0].to, to);
    EXPECT_NE(all.gaps[0].reason.find(reason), std::string::npos) << all.gaps[0].reason;
    EXPECT_EQ(all.labels.back(), std::to_string(last_));
  };
  disk_.open("/d/log.archive.2", os::access::read_write)->resize(sizeof(part_header));
  flip("/d/log.archive.2", 100);
  expect("/d/log.archive.2 is damaged: its header is not valid, and no frame is in it");
  disk_.remove("/d/log.archive.2");
  expect("/d/log.archive.2 is missing");
}

TEST_F(damaged_archive, in_the_header_of_a_part_loses_nothing) {
  const std::uint64_t parts = frames_.back().header.part;
  for (std::uint64_t part = 1; part <= parts; ++part)
    for (const std::uint64_t at : {0, 9, 20, 32, 100, 3500, 4093}) {
      flip(part_path("/d/log.archive", part), at);
      expect_counted(tell(disk_), 1, last_);
      flip(part_path("/d/log.archive", part), at);
    }
  flip(part_path("/d/log.archive", parts), 3500);
  {
    memory m("/d/log", archived(disk_, mib));
    counting user(m);
    user.commit(last_ + 1);
  }
  expect_counted(tell(disk_), 1, last_ + 1);
}

TEST_F(damaged_archive, with_an_unknown_part_at_either_end_says_so_and_is_not_written_over) {
  const std::uint64_t parts = frames_.back().header.part;
  for (const std::uint64_t part : {std::uint64_t{1}, parts}) {
    const std::string path = part_path("/d/log.archive", part);
    const auto file = disk_.open(path, os::access::read_write);
    std::vector<std::byte> before(file->size());
    file->read_at(0, before);
    file->write_at(0, std::vector<std::byte>(before.size(), std::byte{7}));
    const told all = tell(disk_);
    ASSERT_EQ(all.gaps.size(), 1u) << gap_text(all);
    EXPECT_NE(all.gaps[0].reason.find(path + " is damaged: its header is not valid"), std::string::npos)
        << all.gaps[0].reason;
    try {
      const memory m("/d/log", archived(disk_, mib));
      ADD_FAILURE() << "written over";
    } catch (const error& e) {
      EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("move it away"), std::string::npos) << e.what();
    }
    file->write_at(0, before);
  }
  expect_counted(tell(disk_), 1, last_);
}

TEST_F(damaged_archive, whose_parts_changed_places_is_not_written_over) {
  disk_.rename("/d/log.archive.1", "/d/x");
  disk_.rename("/d/log.archive.2", "/d/log.archive.1");
  disk_.rename("/d/x", "/d/log.archive.2");
  EXPECT_NE(gap_text(tell(disk_)), "");
  try {
    const memory m("/d/log", archived(disk_, mib));
    ADD_FAILURE() << "written over";
  } catch (const error& e) {
    EXPECT_NE(std::string(e.what()).find("is part 2 of the archive, and belongs to /d/log.archive.2"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(damaged_archive, that_is_cut_off_says_where) {
  const frame_header& last = frames_.back().header;
  const auto file = disk_.open(path_of(last), os::access::read_write);
  file->resize(last.offset + 200);
  const told all = tell(disk_);
  ASSERT_EQ(all.gaps.size(), 1u) << gap_text(all);
  EXPECT_EQ(all.gaps[0].from, last.from);
  EXPECT_NE(all.gaps[0].reason.find(path_of(last) + " ends in the middle of a frame"), std::string::npos)
      << all.gaps[0].reason;
}

// [rvm.archive.append-only]
TEST_F(damaged_archive, is_written_on_without_touching_what_is_there) {
  flip(path_of(frames_.back().header),
       frames_.back().header.offset + sizeof(frame_header) + frames_.back().header.index_length + 9);
  {
    memory m("/d/log", archived(disk_, mib));
    counting user(m);
    user.commit(last_ + 1);
  }
  const told all = tell(disk_);
  ASSERT_EQ(all.gaps.size(), 1u) << gap_text(all);
  EXPECT_EQ(all.labels.back(), std::to_string(last_ + 1));
}

TEST_F(damaged_archive, can_be_cut_down_to_what_is_wanted) {
  const lsn begin = frames_[frames_.size() / 2].header.from;
  const auto done = cut_archive(disk_, "/d/log.archive", id(), begin);
  EXPECT_EQ(done.frames, frames_.size() / 2);
  EXPECT_GT(done.bytes, 0u);
  told all = tell(disk_);
  EXPECT_EQ(gap_text(all), "");
  EXPECT_EQ(all.begin, begin);
  EXPECT_EQ(all.labels.back(), std::to_string(last_));
  // Everything; and it is written on.
  cut_archive(disk_, "/d/log.archive", id(), ~lsn{0});
  {
    memory m("/d/log", archived(disk_, mib));
    counting user(m);
    user.commit(last_ + 1);
  }
  expect_counted(tell(disk_), last_ + 1, last_ + 1);
}

// --- Archives that do not belong -------------------------------------------------------------------------------------

TEST(history, of_an_older_copy_of_the_log_is_not_mixed_with_another_future) {
  sim::disk disk;
  std::unique_ptr<sim::disk> backup;
  {
    memory m("/d/log", archived(disk));
    counting user(m);
    user.commit(1);
    m.close();
    backup = disk.crash(1, sim::policy::keep_all);
  }
  {
    memory m("/d/log", archived(disk));
    counting user(m);
    for (std::uint64_t n = 2; n <= 10; ++n) user.commit(n);
  }
  // The archive of the one beside the log of the other.
  const auto newer = disk.open("/d/log.archive.1", os::access::read_only);
  std::vector<std::byte> bytes(newer->size());
  newer->read_at(0, bytes);
  const auto file = backup->open("/d/log.archive.1", os::access::read_write);
  file->write_at(0, bytes);
  expect_error(errc::wrong_log,
               {"/d/log: its archive goes on to LSN", "older copy of the log", "move the archive away"},
               [&] { memory m("/d/log", archived(*backup)); });
  // [rvm.archive.one-past]: it is used without the archive, and goes beyond its end.
  options alone = archived(*backup);
  alone.archive.reset();
  std::unique_ptr<sim::disk> left;
  {
    memory m("/d/log", alone);
    counting user(m);
    for (std::uint64_t n = 2; n <= 12; ++n) user.commit(100 + n);
    left = backup->crash(1, sim::policy::keep_all);  // what is in the log stays there
  }
  const auto is_told = [](const std::function<void()>& what) {
    expect_error(errc::wrong_log, {"/d/log.archive.1: from LSN", "has gone on otherwise", "move the archive away"},
                 what);
  };
  is_told([&] { (void)tell(*left); });
  is_told([&] { memory m("/d/log", archived(*left)); });
  for (const std::string& name : left->names_in("/d"))
    if (name.starts_with("log.archive.")) left->remove("/d/" + name);
  const told alone_in_the_log = tell(*left);
  ASSERT_FALSE(alone_in_the_log.labels.empty());
  EXPECT_EQ(alone_in_the_log.labels.back(), "112");
}

TEST(history, of_another_log_at_the_same_path_is_passed_over) {
  sim::disk disk;
  {
    memory m("/d/log", archived(disk));
    counting user(m);
    user.commit(1);
  }
  disk.remove("/d/log");
  disk.remove("/d/log.1");
  {
    memory m("/d/log", archived(disk));
    counting user(m);
    for (std::uint64_t n = 1; n <= 3; ++n) user.commit(n);
  }
  expect_counted(tell(disk), 1, 3);
}

TEST(history, options_that_make_no_sense_are_refused) {
  sim::disk disk;
  expect_error(errc::bad_option, {"the archive's max_size is 1000 bytes", "at least 1 MiB"},
               [&] { memory m("/d/log", archived(disk, 1000)); });
}

}  // namespace
}  // namespace tenure::tools
