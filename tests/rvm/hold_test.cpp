// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Holds: what somebody reads from the log stays in it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "records/log_reader.hpp"
#include "sim/disk.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"
#include "support/watched_disk.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

const std::string held_log = "/d/log", held_segment = "/d/seg";

// The values that the log says were written to the first word, from a position on, oldest first.
std::vector<std::uint64_t> values_from(sim::disk& disk, lsn from) {
  std::vector<std::uint64_t> values;
  const auto log = log_files::open_unlocked(disk, held_log);
  EXPECT_LE(log->begin(), from) << "what is held is not there";
  scan_groups(*log, from, log->end(), [&](const group_header& header, os::const_bytes bytes) {
    const group_view group(bytes, header, "");
    for (const transaction_view& tx : group.transactions())
      for (const range_view& range : tx.ranges) {
        std::uint64_t value = 0;
        if (range.offset == 0 && range.value.size() == sizeof value) {
          std::memcpy(&value, range.value.data(), sizeof value);
          values.push_back(value);
        }
      }
    return true;
  });
  return values;
}

class hold : public ::testing::Test {
 protected:
  hold() { how.log.size = 256 * kib; }
  void open() {
    m.reset();
    m.emplace(held_log, how);
    r = m->map(held_segment, {.create_length = mib});
  }
  // Commits the numbers up to `last`, with as many bytes beside each.
  void commit(std::uint64_t last, std::size_t bytes = 3000) {
    for (; next <= last; ++next)
      m->transact([&](transaction& tx) {
        tx.modify(r.at<std::uint64_t>(0), next);
        const std::string text(bytes, static_cast<char>('a' + next % 26));
        tx.modify(r.data() + 4096 + next % 64 * 4096, text.data(), text.size());
      });
  }
  void expect_all_from(lsn position, std::uint64_t first) {
    const auto values = values_from(disk, position);
    ASSERT_EQ(values.size(), next - first);
    for (std::size_t n = 0; n < values.size(); ++n) ASSERT_EQ(values[n], first + n);
  }

  sim::disk disk;
  options how = small_log(&disk);
  std::optional<memory> m;
  region r;
  std::uint64_t next = 1;
};

TEST_F(hold, keeps_everything_from_its_position_on) {
  how.tune.truncation_threshold = 0.5;
  open();
  commit(30);
  m->truncate();
  EXPECT_EQ(m->stats().log_held, 0U);
  std::uint64_t largest = 0;
  {
    const log_hold held = log_hold::take(disk, held_log, "a test");
    const std::uint64_t first = next;
    EXPECT_EQ(held.position(), log_files::open_unlocked(disk, held_log)->status().head);
    commit(first + 400);  // several times the log's usual size
    expect_all_from(held.position(), first);
    m->truncate();
    expect_all_from(held.position(), first);
    EXPECT_GT(m->stats().log_held, 400U * 3000);
    largest = m->stats().log_size;
    EXPECT_GT(largest, how.log.size);
    const auto holds = find_holds(disk, held_log);
    ASSERT_EQ(holds.size(), 1U);
    EXPECT_EQ(holds[0].position, held.position());
    EXPECT_EQ(holds[0].purpose, "a test");
  }
  EXPECT_TRUE(find_holds(disk, held_log).empty());
  EXPECT_EQ(m->stats().log_held, 0U);
  commit(next + 100);
  m->truncate();
  EXPECT_LT(m->stats().log_size, largest) << "the log does not become smaller again";
  EXPECT_FALSE(disk.exists(held_log + ".hold.1"));
}

// A single long file would be enough for ever.
TEST_F(hold, leaves_no_log_that_stays_long) {
  how.tune.truncation_threshold = 0.5;
  open();
  const auto grow = [&] {
    const log_hold held = log_hold::take(disk, held_log, "a test");
    for (std::uint64_t round = 0; round < 20; ++round) commit(next + 100);
    ASSERT_GT(m->stats().log_size, 10 * how.log.size);
  };
  const auto expect_usual = [&] {
    EXPECT_LE(m->stats().log_size, 2 * how.log.size);
    EXPECT_EQ(r.at<std::uint64_t>(0), next - 1);
  };
  grow();
  while (m->stats().log_size > 2 * how.log.size && next < 20'000) {
    commit(next + 100);
    m->truncate();
  }
  expect_usual();
  // The next process does not wait until the long file is full.
  grow();
  r = {};
  m->close();
  ASSERT_GT(log_files::open_unlocked(disk, held_log)->length(), 4 * how.log.size);
  for (std::uint64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    const auto on = disk.crash(1, sim::policy::keep_all);
    on->crash_at(at);
    bool is_over = false;
    try {
      memory again(held_log, small_log(on.get(), open_mode::open));
      region of = again.map("/d/seg");
      again.transact([&](transaction& tx) { tx.modify(of.at<std::uint64_t>(8), std::uint64_t{7}); });
      EXPECT_LE(again.stats().log_size, 2 * how.log.size);
      of = {};
      again.close();
      is_over = true;
    } catch (const sim::power_failure&) {
    }
    for (const auto policy : {sim::policy::random, sim::policy::drop_all, sim::policy::keep_all}) {
      const auto left = on->crash(at, policy);
      memory after(held_log, small_log(left.get(), open_mode::open));
      region of = after.map("/d/seg");
      EXPECT_EQ(of.at<std::uint64_t>(0), next - 1);
      after.transact([&](transaction& tx) { tx.modify(of.at<std::uint64_t>(8), std::uint64_t{9}); });
      of = {};
      after.close();
    }
    if (is_over) break;
  }
}

TEST_F(hold, lets_go_of_what_it_moves_over) {
  open();
  log_hold held = log_hold::take(disk, held_log, "a replica");
  for (int round = 0; round < 20; ++round) {
    const lsn from = held.position();
    const std::uint64_t first = next;
    commit(first + 30);
    m->truncate();
    expect_all_from(from, first);
    held.move(log_files::open_unlocked(disk, held_log)->status().head);
  }
  EXPECT_LE(m->stats().log_size, 2 * how.log.size);
}

// The log is closed, opened again, and recovered after a crash of its program, while another one holds it.
TEST_F(hold, outlives_openings_of_the_log) {
  open();
  commit(5);
  m->truncate();
  const log_hold held = log_hold::take(disk, held_log, "");
  const std::uint64_t first = next;
  for (int round = 0; round < 5; ++round) {
    commit(next + 40);
    r.unmap();
    open();
    expect_all_from(held.position(), first);
  }
}

// A crash of the machine ends all holds; what is left of them is removed.
TEST_F(hold, ends_with_its_holder) {
  open();
  commit(5);
  const log_hold held = log_hold::take(disk, held_log, "");
  commit(next + 100);
  const auto left = disk.crash(1, sim::policy::keep_all);
  EXPECT_TRUE(left->exists(held_log + ".hold.1"));
  EXPECT_TRUE(find_holds(*left, held_log).empty());
  options again = how;
  again.disk = left.get();
  memory other(held_log, again);
  EXPECT_FALSE(left->exists(held_log + ".hold.1"));
  EXPECT_EQ(other.stats().log_held, 0U);
}

// What a holder leaves that dies while the log is in use holds nothing.
TEST_F(hold, counts_only_while_it_is_locked) {
  open();
  commit(5);
  std::vector<std::byte> bytes;
  {
    const log_hold held = log_hold::take(disk, held_log, "");
    bytes = disk.current_bytes(held.path());
  }
  disk.install(held_log + ".hold.1", bytes);
  EXPECT_TRUE(find_holds(disk, held_log).empty());
  commit(next + 300);
  m->truncate();
  EXPECT_EQ(m->stats().log_held, 0U);
  EXPECT_LE(m->stats().log_size, how.log.size);
  const log_hold held = log_hold::take(disk, held_log, "");
  EXPECT_EQ(held.path(), held_log + ".hold.1") << "its place is free";
}

// It may be behind a link that somebody has made, who may not write to it.
TEST_F(hold, writes_to_no_file_of_others) {
  open();
  const std::vector<std::byte> text(300, std::byte{'t'});
  disk.install(held_log + ".hold.1", text);
  disk.install(held_log + ".hold.2", std::vector<std::byte>());
  const log_hold held = log_hold::take(disk, held_log, "a test");
  EXPECT_EQ(held.path(), held_log + ".hold.3");
  EXPECT_EQ(disk.current_bytes(held_log + ".hold.1"), text);
  EXPECT_TRUE(disk.current_bytes(held_log + ".hold.2").empty());
}

TEST_F(hold, of_several_the_oldest_counts) {
  open();
  commit(5);
  m->truncate();
  std::list<log_hold> holds;
  std::vector<std::uint64_t> firsts;
  for (std::uint32_t n = 0; n < most_holds; ++n) {
    holds.push_back(log_hold::take(disk, held_log, std::to_string(n)));
    firsts.push_back(next);
    commit(next + 10);
    m->truncate();
  }
  expect_error(errc::in_use, {held_log, "16 times"}, [&] { (void)log_hold::take(disk, held_log, "one more"); });
  while (!holds.empty()) {
    expect_all_from(holds.front().position(), firsts.front());
    holds.pop_front();
    firsts.erase(firsts.begin());
    commit(next + 10);
    m->truncate();
  }
  (void)log_hold::take(disk, held_log, "");
}

// Each commit asks for little, and the log is small.
TEST_F(hold, makes_the_log_grow_by_few_files) {
  how.log.max_size = 64 * mib;
  open();
  const log_hold held = log_hold::take(disk, held_log, "");
  commit(10'000);
  const manifest now = log_files::open_unlocked(disk, held_log)->status();
  std::uint64_t length = 0;
  for (const log_file_entry& f : now.files) length += f.length;
  EXPECT_GT(length, 100 * how.log.size);
  EXPECT_LT(now.files.size(), 40U);
}

// It is said what is in the way.
TEST_F(hold, of_a_log_that_may_not_grow_stops_commits_in_the_end) {
  how.log.max_size = how.log.size;
  open();
  commit(5);
  {
    const log_hold held = log_hold::take(disk, held_log, "");
    expect_error(errc::log_stuck, {held_log, "holds", "tenure log status"}, [&] { commit(next + 1000); });
  }
  r = {};
  open();
  commit(next + 10);
}

// At each moment when the log looks for it: whatever was seen until then, the log has room, or says that it has none.
TEST_F(hold, that_ends_while_room_is_made) {
  how.background = false;
  how.log.max_size = how.log.size;
  int looked = 0, ended_at = 0;
  do {
    sim::disk on;
    support::watched_disk watched(on);
    how.disk = &watched;
    next = 1;
    open();
    commit(5);
    std::optional<log_hold> held(log_hold::take(on, held_log, ""));
    looked = 0;
    ++ended_at;
    watched.before_exists = [&](const std::string& path) {
      if (path == held_log + ".hold.1" && ++looked == ended_at) held.reset();
    };
    try {
      commit(next + 150);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::log_stuck) << e.what();
      EXPECT_NE(held, std::nullopt) << "nobody held it any more, at " << ended_at;
    }
    watched.before_exists = nullptr;
    r = {};
    open();
    EXPECT_GE(r.at<std::uint64_t>(0), next - 1) << ended_at;
    r = {};
    m.reset();
  } while (looked >= ended_at);
  EXPECT_GT(ended_at, 3);
}

// Whoever cannot see whether there are any frees nothing meanwhile, and goes on.
TEST_F(hold, cannot_be_looked_for) {
  how.log.max_size = 64 * mib;
  open();
  commit(5);
  std::optional held(log_hold::take(disk, held_log, ""));
  disk.inject({.kind = sim::operation::open, .path = ".hold.", .count = sim::for_ever, .error = EMFILE});
  commit(next + 300);
  held.reset();
  commit(next + 300);
  disk.clear_faults();
  commit(next + 300);
  m->truncate();
  r = {};
  open();
  EXPECT_EQ(r.at<std::uint64_t>(0), next - 1);
}

// Pages that are written in bulk are in no record.
TEST_F(hold, takes_bulk_writes_through_the_log) {
  open();
  const std::string text(64 * kib, 'b');
  const os::const_bytes bytes = std::as_bytes(std::span(text));
  const auto write = [&] {
    m->transact([&](transaction& tx) { tx.write_bulk(r, 512 * kib, {&bytes, 1}); });
    return m->stats().bulk_bytes;
  };
  const std::uint64_t before = write();
  EXPECT_EQ(before, text.size());
  {
    const log_hold held = log_hold::take(disk, held_log, "");
    EXPECT_EQ(write(), before);
    commit(3);
  }
  EXPECT_EQ(write(), 2 * before);
  m->truncate();
  EXPECT_TRUE(m->verify_segment(held_segment).empty());
}

// Taken, moved and released at any time, while a log of few bytes goes round.
TEST_F(hold, random_programs) {
  for (std::uint64_t seed = 1; seed <= testing::scaled(12); ++seed) {
    std::mt19937_64 random(seed);
    how.tune.truncation_threshold = random() % 3 == 0 ? 2 : 0.3;
    r = {};
    open();
    struct taken {
      log_hold held;
      std::uint64_t first;
    };
    std::vector<std::unique_ptr<taken>> holds;
    for (int step = 0; step < 60; ++step) {
      switch (random() % 8) {
        case 0:
          m->truncate();
          if (holds.size() < 4)
            holds.push_back(std::make_unique<taken>(taken{log_hold::take(disk, held_log, "random"), next}));
          break;
        case 1:
          if (!holds.empty()) holds.erase(holds.begin() + static_cast<std::ptrdiff_t>(random() % holds.size()));
          break;
        case 2:
          m->truncate();
          if (!holds.empty()) {
            taken& one = *holds[random() % holds.size()];
            one.held.move(log_files::open_unlocked(disk, held_log)->status().head);
            one.first = next;
          }
          break;
        case 3: m->truncate(); break;
        case 4: (void)m->truncate_incrementally(random() % (128 * kib)); break;
        default: commit(next + random() % 20, random() % 8000);
      }
      for (const auto& each : holds) expect_all_from(each->held.position(), each->first);
      m->check();
    }
  }
}

// Another process holds the log, and dies.
TEST(hold_process, that_dies_lets_go) {
  temp_dir dir;
  options how = small_log();
  how.log.size = 256 * kib;
  memory m(dir / "log", how);
  region r = m.map(dir / "seg", {.create_length = 64 * kib});
  put(m, r, 0, "first");
  int ready[2], end[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(end), 0);
  child_process other([&] {
    const log_hold held = log_hold::take(os::real_disk(), dir / "log", "a backup");
    char c = 0;
    ::close(end[1]);
    if (::write(ready[1], &c, 1) != 1) return 1;
    (void)::read(end[0], &c, 1);
    ::_exit(3);
    return 0;
  });
  char c = 0;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  const auto holds = find_holds(os::real_disk(), dir / "log");
  ASSERT_EQ(holds.size(), 1U);
  EXPECT_NE(holds[0].holder.find("another process"), std::string::npos) << holds[0].holder;
  ::close(end[1]);
  EXPECT_TRUE(other.wait().exited_with(3));
  EXPECT_TRUE(find_holds(os::real_disk(), dir / "log").empty());
}

}  // namespace
}  // namespace tenure::rvm
