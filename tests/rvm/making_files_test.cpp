// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Logs and segments that are made, or grow, while others make them too, or while other files are in the way.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "log/local_log.hpp"
#include "log/new_file.hpp"
#include "records/format.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"
#include "support/watched_disk.hpp"

namespace tenure::rvm {
namespace {

using namespace support;
namespace fs = std::filesystem;

constexpr const char* suffix = ".tenure-new";

// Another process makes the same log, and commits to it, after this one has looked and found none.
TEST(making_files, never_replaces_a_log_that_another_process_has_made_meanwhile) {
  for (const auto mode : {open_mode::open_or_create, open_mode::create}) {
    sim::disk disk;
    watched_disk mine(disk);
    mine.before_create = [&](const std::string& path) {
      if (path != std::string("/d/log") + suffix) return;
      mine.before_create = {};
      memory other("/d/log", small_log(&disk));
      region r = other.map("/d/seg", {.create_length = 4 * kib});
      put(other, r, 0, "theirs");
    };
    if (mode == open_mode::create) {
      expect_error(std::errc::file_exists, {"/d/log"}, [&] { memory m("/d/log", small_log(&mine, mode)); });
    } else {
      memory m("/d/log", small_log(&mine, mode));
      const region r = m.map("/d/seg");
      EXPECT_EQ(get(r, 0, 6), "theirs");
    }
    memory again("/d/log", small_log(&disk, open_mode::open));
    const region r = again.map("/d/seg");
    EXPECT_EQ(get(r, 0, 6), "theirs");
    EXPECT_FALSE(disk.exists(std::string("/d/log") + suffix));
  }
}

TEST(making_files, never_replaces_a_segment_that_another_process_has_made_meanwhile) {
  for (const bool by_mapping : {true, false}) {
    sim::disk disk;
    watched_disk mine(disk);
    memory m("/d/log", small_log(&mine));
    mine.before_create = [&](const std::string&) {
      mine.before_create = {};
      memory other("/d/other", small_log(&disk));
      region r = other.map("/d/seg", {.create_length = 8 * kib});
      put(other, r, 0, "theirs");
    };
    if (!by_mapping)
      expect_error(std::errc::file_exists, {"/d/seg"}, [&] { m.create_segment("/d/seg", {.length = 4 * kib}); });
    const region r = m.map("/d/seg", {.create_length = 4 * kib});
    EXPECT_EQ(get(r, 0, 6), "theirs");
    EXPECT_EQ(r.size(), 8 * kib);
  }
}

// What was taken for left over has been replaced, by one who is making the same file, before it could be locked.
TEST(making_files, removes_nothing_that_is_being_made) {
  sim::disk disk;
  disk.install(std::string("/d/x") + suffix, std::vector<std::byte>(100));
  watched_disk mine(disk);
  std::unique_ptr<new_file> theirs;
  mine.after_open = [&](const std::string&) {
    mine.after_open = {};
    theirs = std::make_unique<new_file>(disk, "/d/x", 0600);
  };
  expect_error(errc::in_use, {"/d/x", "another process"}, [&] { new_file file(mine, "/d/x", 0600); });
  ASSERT_NE(theirs, nullptr);
  theirs->file().write_at(0, std::vector<std::byte>(7));
  theirs->file().sync();
  theirs->publish();
  EXPECT_EQ(disk.current_bytes("/d/x").size(), 7u);

  // It was taken for left over itself, between its making and its lock.
  theirs.reset();
  mine.after_create = [&](const std::string&) {
    mine.after_create = {};
    theirs = std::make_unique<new_file>(disk, "/d/z", 0600);
  };
  expect_error(errc::in_use, {"/d/z"}, [&] { const new_file taken(mine, "/d/z", 0600); });
  theirs->publish();
  EXPECT_TRUE(disk.exists("/d/z"));

  const new_file first(disk, "/d/y", 0600);
  expect_error(errc::in_use, {"/d/y"}, [&] { const new_file second(disk, "/d/y", 0600); });
}

TEST(making_files, many_processes_at_once_make_one) {
  for (int round = 0; round < 8; ++round) {
    const temp_dir dir;
    const auto make = [&](char name) {
      return [&, name] {
        for (;;) try {
            options how = small_log();
            how.log.size = 64 * kib;
            memory m(dir / "log", how);
            region r = m.map(dir / "seg", {.create_length = 4 * kib});
            m.transact([&](transaction& tx) { tx.modify(r.at<char>(static_cast<std::size_t>(name)), name); });
            return 0;
          } catch (const error& e) {
            if (e.code() != errc::in_use) {
              std::puts(e.what());
              return 1;
            }
          }
      };
    };
    {
      child_process a(make('a')), b(make('b')), c(make('c'));
      for (auto* child : {&a, &b, &c})
        if (const child_end end = child->wait(); !end.exited_with(0)) ADD_FAILURE() << end.output;
    }
    memory m(dir / "log", small_log(nullptr, open_mode::open));
    const region r = m.map(dir / "seg");
    EXPECT_EQ(get(r, 'a', 3), "abc") << "an acknowledged commit is lost";
  }
}

// [rvm.file.making]
TEST(making_files, leaves_files_of_the_user_alone) {
  const temp_dir dir;
  write_file(dir / "log.new", "mine");
  write_file(dir / "seg.new", "mine");
  {
    options how = small_log();
    how.log = {.size = 64 * kib, .max_size = 4 * mib};
    memory m(dir / "log", how);
    region r = m.map(dir / "seg", {.create_length = mib});
    put(m, r, 0, std::string(200'000, 'x'));
    EXPECT_EQ(m.stats().log_grown, 1u);
  }
  EXPECT_EQ(contents_of(dir / "log.new"), "mine");
  EXPECT_EQ(contents_of(dir / "seg.new"), "mine");
  // Also one of the library's own kind of name, if it cannot be the library's.
  const std::string odd = dir / "other.tenure-new";
  write_file(odd, "mine, whatever it is called");
  expect_error(std::errc::file_exists, {odd, "move it away"}, [&] { memory m(dir / "other", small_log()); });
  EXPECT_EQ(contents_of(odd), "mine, whatever it is called");
  expect_error(errc::bad_option, {".tenure-new"}, [&] { memory::create_log(dir / "x.tenure-new"); });
  fs::remove(odd);
  memory m(dir / "other", small_log());
}

TEST(making_files, replaces_what_a_crash_has_left) {
  const temp_dir dir;
  for (const bool begun : {false, true}) {
    std::string left(100'000, '\0');
    if (begun) std::memcpy(left.data(), &log_magic, sizeof log_magic);
    write_file(dir / "log.tenure-new", left);
    { memory m(dir / "log", small_log(nullptr, open_mode::create)); }
    EXPECT_FALSE(fs::exists(dir / "log.tenure-new"));
    fs::remove(dir / "log");
    fs::remove(dir / "log.1");
  }
  write_file(dir / "log.2.tenure-new", "");
  options how = small_log();
  how.log = {.size = 64 * kib, .max_size = 4 * mib};
  memory m(dir / "log", how);
  region r = m.map(dir / "seg", {.create_length = mib});
  put(m, r, 0, std::string(200'000, 'x'));
  EXPECT_EQ(m.stats().log_grown, 1u);
  EXPECT_FALSE(fs::exists(dir / "log.2.tenure-new"));
}

// [rvm.log.space] A log that has grown gives back what it does not need, but not what a commit was accepted for.
TEST(full_disks, stop_no_commit_that_was_accepted) {
  for (const bool waits : {false, true}) {
    sim::disk disk;
    options how = small_log(&disk);
    how.log = {.size = 64 * kib, .max_size = 4 * mib};
    how.background = false;
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 2 * mib});
    put(m, r, 0, std::string(600'000, 'a'));
    EXPECT_EQ(m.stats().log_grown, 1u);
    disk.fill_up();
    for (const char with : {'b', 'c'}) {
      put(m, r, 0, std::string(600'000, with), commit_mode::no_flush);
      (void)m.truncate_incrementally(mib);
      if (waits) m.flush();
    }
    m.flush();
    EXPECT_EQ(get(r, 0, 3), "ccc");
    // What nobody needs any more it does give back.
    m.truncate();
    (void)m.truncate_incrementally(mib);
    expect_error(std::errc::no_space_on_device, {"/d/log"}, [&] { put(m, r, 0, std::string(1'200'000, 'd')); });
  }
}

// The link stays where it is, and the log's files are where it leads.
TEST(making_files, grows_a_log_behind_a_link_where_it_is) {
  const temp_dir dir;
  for (const char* name : {"names", "logs", "data"}) fs::create_directory(dir / name);
  fs::create_symlink("../logs/second", dir / "names/log");
  fs::create_symlink(dir / "data/log", dir / "logs/second");
  options how = small_log();
  how.log = {.size = 64 * kib, .max_size = 4 * mib};
  for (int opening = 0; opening < 2; ++opening) {
    memory m(dir / "names/log", how);
    region r = m.map(dir / "names/seg", {.create_length = mib});
    const std::size_t many = opening == 0 ? 200'000 : 800'000;
    put(m, r, 0, std::string(many, static_cast<char>('a' + opening)));
    EXPECT_EQ(m.stats().log_grown, 1u);
    put(m, r, many + 100, "more");
    EXPECT_TRUE(fs::is_symlink(dir / "names/log"));
    EXPECT_TRUE(fs::is_symlink(dir / "logs/second"));
    EXPECT_TRUE(fs::is_regular_file(dir / "data/log"));
    const auto files_in = [&](const char* name) { return std::distance(fs::directory_iterator(dir / name), {}); };
    EXPECT_EQ(files_in("names"), 2);
    EXPECT_EQ(files_in("logs"), 1);
    EXPECT_GE(files_in("data"), 2);
    for (const char* name : {"names", "logs", "data"})
      for (const auto& file : fs::directory_iterator(dir / name))
        EXPECT_FALSE(file.path().string().ends_with(suffix)) << file;
    expect_error(errc::in_use, {}, [&] { memory second(dir / "data/log", how); });
  }
  memory m(dir / "data/log", how);
  const region r = m.map(dir / "names/seg");
  EXPECT_EQ(get(r, 799'999, 1), "b");
}

// What fails after a log has grown is not taken for the failure of growing: the file knows its name.
TEST(making_files, grows_twice_with_a_failure_between) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log = {.size = 64 * kib, .max_size = 4 * mib};
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = 2 * mib});
  put(m, r, 0, std::string(200'000, 'x'));
  disk.inject({.kind = sim::operation::allocate, .error = ENOSPC});
  expect_error(std::errc::no_space_on_device, {}, [&] { put(m, r, 0, std::string(900'000, 'y')); });
  put(m, r, 0, std::string(900'000, 'z'));
  EXPECT_EQ(m.stats().log_grown, 2u);
}

// Commits do not wait for it.
TEST(making_files, makes_the_next_file_of_a_log_before_it_is_needed) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log = {.size = 8 * mib, .max_size = 16 * mib};
  how.background = true;
  how.tune.truncation_threshold = 2;
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = mib});
  std::atomic<int> by_commits = 0, by_others = 0;
  disk.on_operation([&, commits = std::this_thread::get_id()](const sim::trace_entry& at) {
    if (at.kind == sim::operation::create) ++(std::this_thread::get_id() == commits ? by_commits : by_others);
  });
  for (std::size_t n = 0; m.stats().log_size < how.log.size; ++n) {
    put(m, r, n % 10 * 100'000, std::string(50'000, 'x'));
    const auto waits = [&] {
      const auto now = m.stats();
      return now.log_size < how.log.size && now.log_size - now.log_used < now.log_size / 4;
    };
    for (int tries = 0; tries < 5'000'000 && waits(); ++tries) std::this_thread::yield();
  }
  disk.on_operation({});
  EXPECT_EQ(by_commits, 0);
  EXPECT_GT(by_others, 2);
}

// What has been made for a commit, truncation does not give back before the commit has used it.
TEST(making_files, keeps_what_a_log_has_grown_by_until_it_is_used) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log = {.size = 64 * kib, .max_size = 4 * mib};
  { const memory made("/d/log", how); }
  counters count;
  local_log log(disk, "/d/log", os::access::read_write, count, copied_files::refuse);
  const manifest status = log.status();
  log.start(status.tail, status.tail, status.totals, [](manifest&) {});
  log.note_use();
  const std::uint64_t needed = mib;
  EXPECT_FALSE(log.keep(needed));
  for (int times = 0; times < 100 && log.extend(needed); ++times) log.rewind();
  log.rewind();
  EXPECT_GE(log.length(), needed);
  log.let_shrink();
  log.rewind();
  EXPECT_LT(log.length(), needed);
}

// --- What passes ---

// The process has as many files open as it may, for a while.
struct no_descriptors {
  no_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit none = before;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;
  rlimit before{};
};

TEST(making_files, commits_need_no_descriptors) {
  const temp_dir dir;
  for (int opening = 0; opening < 2; ++opening) {  // of a new log, and of one that was closed cleanly
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.create_length = mib});
    {
      const no_descriptors left;
      EXPECT_NO_THROW(put(m, r, 0, "first"));
      EXPECT_NO_THROW(m.truncate());
    }
    EXPECT_NO_THROW(put(m, r, 0, "later"));
  }
}

TEST(making_files, a_log_that_cannot_grow_for_want_of_descriptors_can_grow_later) {
  const temp_dir dir;
  options how = small_log();
  how.log = {.size = 64 * kib, .max_size = 4 * mib};
  memory m(dir / "log", how);
  region r = m.map(dir / "seg", {.create_length = mib});
  transaction tx = m.begin();
  tx.set_range(r.data(), 200'000);
  std::memset(r.data(), 'x', 200'000);
  {
    const no_descriptors left;
    expect_error(std::errc::too_many_files_open, {}, [&] { tx.commit(); });
  }
  tx.commit();
  EXPECT_EQ(m.stats().log_grown, 1u);
}

// --- What children of a fork have ---

TEST(making_files, are_not_held_by_children_that_outlive_the_process) {
  const temp_dir dir;
  int ends[2];  // the grandchild ends when this process closes its end
  ASSERT_EQ(::pipe(ends), 0);
  child_process owner([&]() -> int {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.create_length = mib, .tracking = tracking_mode::automatic});
    region other = m.map(dir / "other", {.create_length = mib, .reserve = true});
    put(m, other, 0, "kept");
    if (::fork() == 0) {
      ::close(ends[1]);
      ::close(STDOUT_FILENO);
      ::close(STDERR_FILENO);
      char nothing;
      ::_exit(static_cast<int>(::read(ends[0], &nothing, 1)));
    }
    ::_exit(0);  // as if it were killed
    return 0;
  });
  EXPECT_TRUE(owner.wait().exited_with(0));
  EXPECT_NO_THROW({
    memory m(dir / "log", small_log());
    const region r = m.map(dir / "other");
    EXPECT_EQ(get(r, 0, 4), "kept");
  });
  ::close(ends[0]);
  ::close(ends[1]);
}

// --- Headers of segments ---

// After a header could not be written, the one copy that holds is not written over.
TEST(segment_header, keeps_one_copy_whatever_fails) {
  constexpr std::uint64_t page = 4 * kib;
  for (int headers = 0; headers < 4; ++headers)
    for (const std::uint64_t torn_bytes : {std::uint64_t{0}, std::uint64_t{512}, page}) {
      sim::disk disk;
      const identity log{std::byte{5}};
      segment::create(disk, "/d/s", {.length = 8 * page, .max_length = 16 * page});
      {
        segment s(disk, "/d/s", "s", os::access::read_write, false);
        for (int i = 0; i < headers; ++i) s.grow(s.length() + page);
      }
      std::uint64_t judged = 0;
      const auto judge = [&] {
        for (const auto what :
             {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random, sim::policy::random_with_garbage})
          for (std::uint64_t seed = 1; seed < 6; ++seed, ++judged) {
            const auto left = disk.crash(seed + disk.operations(), what);
            EXPECT_NO_THROW((void)read_segment_header(*left, "/d/s"))
                << headers << " headers, operation " << disk.operations() << ", " << torn_bytes << " bytes";
          }
      };
      {
        segment s(disk, "/d/s", "s", os::access::read_write, false);
        s.note_in_log(log, "/d/log", 0);
        const auto fault = disk.inject({.kind = sim::operation::durable_write, .path = "/d/s", .bytes = torn_bytes});
        EXPECT_THROW(s.note_not_in_log(), error);
        EXPECT_EQ(disk.hits(fault), 1u);
        judge();
        // Tried again by the same opening, and failing again.
        disk.inject({.kind = sim::operation::durable_write, .path = "/d/s", .bytes = torn_bytes});
        EXPECT_THROW(s.note_in_log(log, "/d/log", 0), error);
        judge();
      }
      // The next opening finds what may be in the page cache only, and the power goes in each write.
      for (std::uint64_t write = 1; write <= 3; ++write) {
        segment s(disk, "/d/s", "s", os::access::read_write, false);
        disk.inject({.kind = sim::operation::durable_write, .path = "/d/s", .nth = write, .bytes = torn_bytes});
        EXPECT_THROW(
            {
              s.note_in_log(log, "/d/log", 0);
              s.note_not_in_log();
            },
            error);
        judge();
      }
      EXPECT_GT(judged, 50u);
    }
}

// How far the log is applied is known to be durable only where this opening has written it.
TEST(segment_header, what_is_in_the_page_cache_is_not_relied_on) {
  constexpr std::uint64_t page = 4 * kib;
  constexpr lsn through = 10 * page;
  const identity log{std::byte{5}};
  const auto applied_after_a_crash = [](sim::disk& disk) {
    return read_segment_header(*disk.crash(1, sim::policy::drop_all), "/d/s").applied;
  };
  sim::disk disk;
  segment::create(disk, "/d/s", {.length = 8 * page});
  {
    segment s(disk, "/d/s", "s", os::access::read_write, false);
    s.note_in_log(log, "/d/log", page);
    disk.inject({.kind = sim::operation::durable_write, .path = "/d/s", .bytes = sim::for_ever});
    EXPECT_THROW(s.note_applied(through), error);
  }
  segment s(disk, "/d/s", "s", os::access::read_write, false);
  ASSERT_EQ(s.applied(), through);
  ASSERT_EQ(applied_after_a_crash(disk), page);
  manifest status{};
  status.log_id = log;
  s.add_to(status);
  EXPECT_TRUE(status.segments.empty());
  s.note_applied(through);
  EXPECT_EQ(applied_after_a_crash(disk), through);
  s.add_to(status);
  ASSERT_EQ(status.segments.size(), 1u);
  EXPECT_EQ(status.segments[0].applied, through);
  EXPECT_EQ(status.segments[0].path_text, "s");
}

}  // namespace
}  // namespace tenure::rvm
