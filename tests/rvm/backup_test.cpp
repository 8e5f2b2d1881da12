// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups of a log that is in use: between any two operations of the backup the program may commit, truncate, grow and
// write in bulk. What is opened then must be the state after exactly one commit, the one that the backup source_segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "log/unfinished.hpp"
#include "replay/backup.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

const std::string source_log = "/d/log", copied_log = "/backup/log";
const std::vector<std::string> source_segments = {"one", "two", "sub/three"};

// A program with segments that it changes at random. Each commit has a number, which is its label and the first word of the
// first segment.
class changing_program {
 public:
  changing_program(sim::disk& disk, std::uint64_t seed) : disk_(disk), random_(seed) {
    how_ = small_log(&disk);
    how_.log.size = 256 * kib;
    how_.background = false;
    how_.tune.truncation_threshold = seed % 3 == 0 ? 0.2 : 2;
    open();
    for (region& r : regions_) put(*memory_, r, 8, "used");  // what was never changed is in no backup
    states_.push_back(contents());
  }
  memory& of() { return *memory_; }
  [[nodiscard]] std::uint64_t commits() const { return states_.size() - 1; }
  [[nodiscard]] const std::vector<std::string>& state(std::uint64_t n) const { return states_[n]; }

  void step() {
    switch (random_() % 12) {
      case 0: memory_->truncate(); break;
      case 1: (void)memory_->truncate_incrementally(random_() % (100 * kib)); break;
      case 2: grow(); break;
      case 3: write_in_bulk(); break;
      case 4:
        if (random_() % 4 == 0) {
          regions_.clear();
          open();
        }
        break;
      default: commit();
    }
  }
  void commit() {
    memory_->transact(
        [&](transaction& tx) {
          number(tx);
          for (std::uint64_t n = random_() % 6; n != 0; --n) {
            region& r = regions_[random_() % regions_.size()];
            const std::size_t length = 1 + random_() % (random_() % 4 == 0 ? 9000 : 60);
            const std::size_t at = 8 + random_() % (std::min(r.size(), bulk_from) - length - 8);
            const std::string text(length, static_cast<char>('a' + random_() % 26));
            tx.modify(r.data() + at, text.data(), text.size());
          }
        },
        commit_mode::flush);
    states_.push_back(contents());
  }

  // Whole regions, as the program sees them.
  [[nodiscard]] std::vector<std::string> contents() const {
    std::vector<std::string> all;
    for (const region& r : regions_) all.emplace_back(reinterpret_cast<const char*>(r.data()), r.size());
    return all;
  }

 private:
  static constexpr std::size_t bulk_from = 64 * kib;  // pages from here on are written in bulk only

  void open() {
    regions_.clear();
    memory_.reset();
    memory_.emplace(source_log, how_);
    for (const std::string& name : source_segments) {
      if (!disk_.exists("/d/" + name))
        memory_->create_segment("/d/" + name, {.length = 128 * kib, .max_length = 2 * mib});
      regions_.push_back(memory_->map("/d/" + name, {.reserve = true}));
    }
  }
  void number(transaction& tx) {
    tx.modify(regions_[0].at<std::uint64_t>(0), states_.size());
    tx.label(std::to_string(states_.size()));
  }
  // Growth is no commit: states differ in zeros at the end.
  void grow() {
    const std::size_t which = random_() % regions_.size();
    if (regions_[which].size() < mib)
      memory_->grow_segment("/d/" + source_segments[which], regions_[which].size() + (1 + random_() % 30) * 4 * kib);
  }
  void write_in_bulk() {
    region& r = regions_[random_() % regions_.size()];
    const std::size_t pages = 1 + random_() % 8,
                      first = bulk_from / page + random_() % ((r.size() - bulk_from) / page - pages + 1);
    const std::string text(pages * page, static_cast<char>('A' + random_() % 26));
    const os::const_bytes bytes = std::as_bytes(std::span(text));
    memory_->transact([&](transaction& tx) {
      number(tx);
      tx.write_bulk(r, first * page, {&bytes, 1});
      std::memcpy(r.data() + first * page, text.data(), text.size());
    });
    states_.push_back(contents());
  }

  sim::disk& disk_;
  std::mt19937_64 random_;
  options how_;
  std::optional<memory> memory_;
  std::vector<region> regions_;
  std::vector<std::vector<std::string>> states_;
};

// What is in a backup.
std::vector<std::string> restored(sim::disk& disk, std::uint64_t& number) {
  options how = small_log(&disk, open_mode::open);
  std::vector<std::string> all;
  memory m(copied_log, how);
  EXPECT_FALSE(m.recovery().needed) << "a backup is closed";
  for (const std::string& name : source_segments) {
    const region r = m.map("/backup/" + name);
    all.emplace_back(reinterpret_cast<const char*>(r.data()), r.size());
    EXPECT_TRUE(m.verify_segment("/backup/" + name).empty()) << name;
  }
  std::memcpy(&number, all[0].data(), sizeof number);
  return all;
}

// One may be longer by zeros.
bool same(const std::string& a, const std::string& b) {
  const std::size_t common = std::min(a.size(), b.size());
  const auto is_zero = [](char c) { return c == 0; };
  return a.compare(0, common, b, 0, common) == 0 &&
         std::all_of(a.begin() + static_cast<std::ptrdiff_t>(common), a.end(), is_zero) &&
         std::all_of(b.begin() + static_cast<std::ptrdiff_t>(common), b.end(), is_zero);
}

TEST(backup, is_the_state_after_one_commit_whatever_happens_meanwhile) {
  std::uint64_t later = 0, with_log = 0;
  for (std::uint64_t seed = 1; seed <= testing::scaled(80); ++seed) {
    SCOPED_TRACE(seed);
    sim::disk disk;
    changing_program program(disk, seed);
    std::mt19937_64 random(seed);
    for (std::uint64_t n = random() % 30; n != 0; --n) program.step();
    const std::uint64_t before = program.commits(), between = 1 + random() % 5;
    bool busy = false;
    std::uint64_t operations = 0;
    disk.on_operation([&](const sim::trace_entry&) {
      if (busy || ++operations % between != 0) return;
      busy = true;
      for (std::uint64_t n = random() % 4; n != 0; --n) program.step();
      busy = false;
    });
    // As another process does it: what is in no log yet is not in the backup.
    const backup_report made = random() % 2 == 0
                                   ? back_up(disk, source_log, "/backup", {.verify = true, .memory = 8 * mib})
                                   : back_up(disk, source_log, "/backup", {.memory = 8 * mib});
    disk.on_operation({});
    // It survives a loss of power.
    std::uint64_t number = 0;
    const auto found = restored(*disk.crash(seed, sim::policy::drop_all), number);
    ASSERT_GE(number, before);
    ASSERT_LE(number, program.commits());
    for (std::size_t n = 0; n < source_segments.size(); ++n)
      ASSERT_TRUE(same(found[n], program.state(number)[n])) << source_segments[n];
    if (made.transaction != 0 && number != 0) {
      EXPECT_EQ(made.label, std::to_string(number));
      ++with_log;
    }
    later += number > before;
    EXPECT_TRUE(find_holds(disk, source_log).empty());
    // The original goes on.
    program.step();
    program.of().check();
  }
  EXPECT_GT(later, 0U);
  EXPECT_GT(with_log, 0U);
}

// Of a bulk write that had begun when the backup began, whichever comes first.
TEST(backup, has_pages_of_bulk_writes_that_had_begun) {
  std::uint64_t inside = 0;
  for (std::uint64_t operation = 1; operation < 40; ++operation) {
    sim::disk disk;
    options how = small_log(&disk);
    how.background = false;
    memory m(source_log, how);
    for (const std::string& name : source_segments) m.create_segment("/d/" + name, {.length = 128 * kib});
    std::vector<region> r;
    for (const std::string& name : source_segments) {
      r.push_back(m.map("/d/" + name));
      put(m, r.back(), 0, "12345678");
    }
    const std::string text(8 * page, 'B');
    const os::const_bytes bytes = std::as_bytes(std::span(text));
    std::optional<backup_report> made;
    std::uint64_t operations = 0;
    bool busy = false;
    disk.on_operation([&](const sim::trace_entry&) {
      if (busy || ++operations != operation) return;
      busy = true;
      made = back_up(disk, source_log, "/backup", {.verify = true});
      ++inside;
    });
    m.transact([&](transaction& tx) {
      tx.write_bulk(r[1], 64 * kib, {&bytes, 1});
      tx.modify(r[0].data(), "bulk....", 8);
    });
    disk.on_operation({});
    if (!made) break;
    std::uint64_t number = 0;
    const auto found = restored(disk, number);
    const bool has_it = found[0].substr(0, 8) == "bulk....";
    EXPECT_TRUE(has_it || found[0].substr(0, 8) == "12345678");
    if (has_it) {
      EXPECT_EQ(found[1].substr(64 * kib, text.size()), text) << operation;
    }
  }
  EXPECT_GT(inside, 3U);
}

TEST(backup, of_a_closed_log) {
  sim::disk disk;
  {
    changing_program program(disk, 7);
    for (int n = 0; n < 20; ++n) program.commit();
  }
  const backup_report made = back_up(disk, source_log, "/backup", {});
  EXPECT_EQ(made.transaction, 0U);
  EXPECT_EQ(made.files.size(), source_segments.size());
  EXPECT_GE(made.bytes, source_segments.size() * 128 * kib);
  std::uint64_t number = 0;
  (void)restored(disk, number);
  EXPECT_EQ(number, 20U);
}

TEST(backup, by_the_program_itself_has_lazy_commits_too) {
  sim::disk disk;
  changing_program program(disk, 7);
  region r = program.of().map("/d/more", {.create_length = 4 * kib});
  put(program.of(), r, 0, "lazy", commit_mode::no_flush);
  std::vector<std::string> phases;
  const backup_report made = program.of().backup("/backup", {.on_progress = [&](const progress& p) {
                                                   if (phases.empty() || phases.back() != p.phase)
                                                     phases.push_back(p.phase);
                                                 }});
  EXPECT_FALSE(made.files.empty());
  EXPECT_EQ(phases.front(), "copying");
  memory m(copied_log, small_log(&disk, open_mode::open));
  EXPECT_EQ(get(m.map("/backup/more"), 0, 4), "lazy");
}

TEST(backup, refuses_what_it_cannot_do) {
  sim::disk disk;
  changing_program program(disk, 1);
  program.commit();
  (void)program.of().backup("/backup");
  expect_error(std::errc::file_exists, {"/backup: is not empty", "give another one"},
               [&] { (void)program.of().backup("/backup"); });
  region outside = program.of().map("/elsewhere/seg", {.create_length = 4 * kib});
  put(program.of(), outside, 0, "x");
  expect_error(errc::bad_option, {"/elsewhere/seg", "not in the log's directory"},
               [&] { (void)program.of().backup("/other"); });
  EXPECT_TRUE(find_holds(disk, source_log).empty());
}

// It would make files of several moments, or of another log, look as if all was well.
TEST(backup, of_files_that_do_not_belong_together_is_refused) {
  sim::disk disk;
  std::unique_ptr<sim::disk> older;
  std::unique_ptr<sim::disk> left;
  {
    changing_program program(disk, 5);
    program.commit();
    program.of().truncate();
    older = disk.crash(1, sim::policy::keep_all);
    for (int n = 0; n < 5; ++n) program.commit();
    program.of().truncate();
    program.commit();
    left = disk.crash(1, sim::policy::keep_all);
  }
  const auto refused = [&](errc code, const std::string& path, const std::function<void(sim::disk&)>& change) {
    const auto changed = left->crash(1, sim::policy::keep_all);
    change(*changed);
    expect_error(code, {path}, [&] { (void)back_up(*changed, source_log, "/backup", {}); });
    EXPECT_FALSE(changed->exists(copied_log));
    EXPECT_TRUE(find_holds(*changed, source_log).empty());
  };
  const auto copy_of = [](const std::string& path) {
    return [path](sim::disk& of) {
      const auto contents = of.current_bytes(path);
      of.remove(path);
      of.install(path, contents);
    };
  };
  refused(errc::copied, source_log, copy_of(source_log));
  refused(errc::copied, source_log + ".1", copy_of(source_log + ".1"));
  refused(errc::copied, "/d/one", copy_of("/d/one"));
  refused(errc::wrong_log, "/d/one", [&](sim::disk& of) { of.install("/d/one", older->current_bytes("/d/one")); });
  refused(errc::wrong_log, "/d/one", [&](sim::disk& of) { of.install("/d/one", of.current_bytes("/d/two")); });
  (void)back_up(*left, source_log, "/backup", {.verify = true});
}

// What a full disk, a failing one or a crash leaves is no log that can be opened.
TEST(backup, that_is_not_complete_does_not_open) {
  for (std::uint64_t nth = 1;; ++nth) {
    sim::disk disk;
    changing_program program(disk, 5);
    for (int n = 0; n < 10; ++n) program.commit();
    const std::uint64_t before = program.commits();
    bool is_done = false;
    disk.inject({.path = "/backup", .nth = nth, .error = ENOSPC});
    try {
      (void)program.of().backup("/backup");
      is_done = true;
    } catch (const error&) {
    }
    disk.clear_faults();
    EXPECT_TRUE(find_holds(disk, source_log).empty());
    program.commit();
    program.of().check();
    if (is_done) break;
    if (!disk.exists(copied_log)) {
      EXPECT_EQ(disk.names_in("/backup"), std::vector<std::string>()) << "operation " << nth;
    } else {
      std::uint64_t number = 0;
      (void)restored(disk, number);
      EXPECT_EQ(number, before);
    }
  }
}

// A raw segment has no header that names its log: the manifest does.
TEST(backup, has_raw_segments_when_the_log_has_nothing_of_them_any_more) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  {
    memory m(source_log, how);
    disk.install("/d/raw", std::vector<std::byte>(16 * kib));
    region r = m.map("/d/raw", {.raw = true});
    put(m, r, 5000, "raw");
    m.truncate();
    EXPECT_EQ(m.backup("/backup").files, std::vector<std::string>{"/backup/raw"});
  }
  (void)back_up(disk, source_log, "/closed", {.verify = true});
  for (const std::string from : {"/backup", "/closed"}) {
    (void)restore(from, from + "_restored", {.disk = &disk});
    memory again(from + "_restored/log", small_log(&disk, open_mode::open));
    EXPECT_EQ(get(again.map(from + "_restored/raw", {.raw = true}), 5000, 3), "raw");
  }
}

// A path may have been that of a segment with a header before.
TEST(backup, has_a_raw_segment_that_has_taken_the_name_of_another_one) {
  for (const bool is_truncated : {false, true}) {
    SCOPED_TRACE(is_truncated);
    sim::disk disk;
    options how = small_log(&disk);
    how.background = false;
    {
      memory m(source_log, how);
      region r = m.map("/d/one", {.create_length = 16 * kib});
      put(m, r, 5000, "old");
      m.transact([&](transaction& tx) { tx.modify(r.data(), "x", 1); });
    }
    disk.remove("/d/one");
    memory m(source_log, how);
    disk.install("/d/one", std::vector<std::byte>(16 * kib));
    region r = m.map("/d/one", {.raw = true});
    put(m, r, 5000, "raw");
    if (is_truncated) m.truncate();
    const backup_report full = m.backup("/backup");
    EXPECT_EQ(full.files, std::vector<std::string>{"/backup/one"});
    EXPECT_EQ(full.gone, std::vector<std::string>{"one"});
    put(m, r, 6000, "more");
    (void)m.backup("/later", {.since = "/backup"});
    r = {};
    m.close();
    (void)restore("/backup", "/restored", {.increments = {"/later"}, .disk = &disk});
    memory again("/restored/log", small_log(&disk, open_mode::open));
    const region raw = again.map("/restored/one", {.raw = true});
    EXPECT_EQ(get(raw, 5000, 3), "raw");
    EXPECT_EQ(get(raw, 6000, 4), "more");
  }
}

TEST(backup, has_a_segment_that_has_taken_the_name_of_a_raw_one) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  disk.install("/d/one", std::vector<std::byte>(16 * kib));
  {
    memory m(source_log, how);
    region r = m.map("/d/one", {.raw = true});
    put(m, r, 5000, "old");
  }
  disk.remove("/d/one");
  memory m(source_log, how);
  region r = m.map("/d/one", {.create_length = 16 * kib});
  put(m, r, 5000, "new");
  m.truncate();
  put(m, r, 6000, "more");
  EXPECT_EQ(m.backup("/backup").files, std::vector<std::string>{"/backup/one"});
  (void)restore("/backup", "/restored", {.disk = &disk});
  memory again("/restored/log", small_log(&disk, open_mode::open));
  const region formatted = again.map("/restored/one");
  EXPECT_EQ(get(formatted, 5000, 3), "new");
  EXPECT_EQ(get(formatted, 6000, 4), "more");
}

// Nothing has its other bytes, of which an incremental backup would tell only when it is restored.
TEST(backup, since_an_earlier_one_has_no_raw_segment_that_is_new) {
  sim::disk disk;
  changing_program program(disk, 3);
  program.commit();
  memory& m = program.of();
  (void)m.backup("/full");
  program.commit();
  (void)m.backup("/first", {.since = "/full"});
  disk.install("/d/raw", std::vector<std::byte>(16 * kib));
  region r = m.map("/d/raw", {.raw = true});
  put(m, r, 5000, "raw");
  for (const std::string earlier : {"/full", "/first"})
    expect_error(errc::no_history, {"the raw segment raw", "full backup"},
                 [&] { (void)m.backup("/no", {.since = earlier}); });
  (void)m.backup("/second_full");
  program.commit();
  (void)m.backup("/second", {.since = "/second_full"});
  put(m, r, 6000, "more");
  (void)m.backup("/third", {.since = "/second"});
}

TEST(backup, is_refused_if_it_might_lack_a_segment) {
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  {
    memory m(source_log, how);
    const std::string name(3000, 'n');
    std::vector<region> all;
    for (int n = 0; n < 12; ++n) {
      all.push_back(m.map("/d/" + name + std::to_string(n), {.create_length = 64 * kib}));
      put(m, all.back(), 0, "x");
    }
    EXPECT_EQ(m.backup("/backup").files.size(), 12U) << "the log has all of them";
    m.truncate();
  }
  expect_error(errc::too_big, {source_log, "more segments"}, [&] { (void)back_up(disk, source_log, "/no", {}); });
  EXPECT_FALSE(disk.exists("/no/log"));
}

// A hold of another user, which this one may not read, keeps everything; it does not stop the program.
TEST(backup, of_somebody_else_does_not_stop_the_program) {
  sim::disk disk;
  changing_program program(disk, 3);
  disk.install(source_log + ".hold.1", std::vector<std::byte>(100));
  disk.inject({.kind = sim::operation::open, .path = ".hold.1", .count = sim::for_ever, .error = EACCES});
  for (int n = 0; n < 20; ++n) program.commit();
  program.of().truncate();
  EXPECT_GT(program.of().stats().log_held, 0U);
  const std::vector<found_hold> found = find_holds(disk, source_log);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].purpose.find("cannot read"), std::string::npos);
  (void)program.of().backup("/backup");  // with another number
  disk.clear_faults();
  const std::size_t directory =
      disk.inject({.kind = sim::operation::open, .path = ".hold.1", .count = sim::for_ever, .error = EISDIR});
  program.of().truncate();
  EXPECT_EQ(program.of().stats().log_held, 0U) << "a directory of that name holds nothing";
  EXPECT_GT(disk.hits(directory), 0U);
  disk.clear_faults();
  program.of().truncate();
  EXPECT_EQ(program.of().stats().log_held, 0U);
}

// As on a file system that is mounted for reading only.
TEST(backup, where_no_file_can_be_made_needs_a_log_that_nobody_uses) {
  sim::disk disk;
  std::optional<changing_program> program(std::in_place, disk, 3);
  program->commit();
  disk.inject({.kind = sim::operation::create, .path = ".hold.", .count = sim::for_ever, .error = EROFS});
  expect_error(errc::in_use, {source_log}, [&] { (void)back_up(disk, source_log, "/no", {}); });
  program.reset();
  EXPECT_EQ(back_up(disk, source_log, "/backup", {.verify = true}).files.size(), 3U);
  EXPECT_EQ(restore("/backup", "/r", {.log = source_log, .disk = &disk}).files.size(), 3U);
}

// The moment at which one wants to get everything out of there.
TEST(backup, where_the_disk_is_full_needs_a_log_that_nobody_uses) {
  sim::disk disk;
  std::optional<changing_program> program(std::in_place, disk, 3);
  program->commit();
  (void)back_up(disk, source_log, "/earlier", {});
  disk.inject({.kind = sim::operation::write, .path = ".hold.", .count = sim::for_ever, .error = ENOSPC});
  expect_error(std::errc::no_space_on_device, {".hold."}, [&] { (void)back_up(disk, source_log, "/no", {}); });
  program.reset();
  EXPECT_EQ(back_up(disk, source_log, "/backup", {.verify = true}).files.size(), 3U);
  EXPECT_EQ(restore("/earlier", "/r", {.log = source_log, .disk = &disk}).files.size(), 3U);
  EXPECT_TRUE(find_holds(disk, source_log).empty());
}

// What a crash leaves of a bulk write is free: it is no damage.
TEST(backup, of_what_a_crash_in_a_bulk_write_has_left) {
  constexpr std::size_t count = 16;
  sim::disk disk;
  options how = small_log(&disk);
  how.background = false;
  const auto write = [&](sim::disk& on, const std::string& with) {
    how.disk = &on;
    memory m(source_log, how);
    region r = m.map("/d/one", {.create_length = 256 * kib});
    const std::string text(count * page, with[0]);
    const os::const_bytes bytes = std::as_bytes(std::span(text));
    m.transact([&](transaction& tx) {
      tx.modify(r.data(), with.data(), 1);
      tx.write_bulk(r, 8 * page, {&bytes, 1});
      std::memcpy(r.data() + 8 * page, text.data(), text.size());
    });
    if (with == "a") m.transact([&](transaction& tx) { tx.modify(r.data(), "f", 1); });  // they are free
  };
  write(disk, "a");
  std::uint64_t crashes = 0;
  for (std::uint64_t at = 1;; ++at) {
    const auto on = disk.crash(1, sim::policy::keep_all);
    on->crash_at(at, at % 20);
    try {
      write(*on, "b");
      break;
    } catch (const sim::power_failure&) {
    }
    for (const auto policy : {sim::policy::random, sim::policy::drop_all, sim::policy::keep_all}) {
      const auto left = on->crash(at, policy);
      (void)back_up(*left, source_log, "/backup", {.verify = true});
      (void)restore("/backup", "/r", {.disk = left.get()});
      memory again("/r/log", small_log(left.get(), open_mode::open));
      EXPECT_TRUE(again.verify_segment("/r/one").empty());
      const region r = again.map("/r/one");
      const std::string state = get(r, 0, 1);
      EXPECT_TRUE(state == "f" || state == "b") << state;
      if (state == "b") {
        EXPECT_EQ(get(r, 8 * page, count * page), std::string(count * page, 'b'));
      }
      ++crashes;
    }
  }
  EXPECT_GT(crashes, 40U);
}

// Two at once, and the first has finished when the second one begins to write.
TEST(backup, never_takes_away_what_another_one_has_made) {
  sim::disk disk;
  memory m(source_log, small_log(&disk));
  region r = m.map("/d/one", {.create_length = 64 * kib});
  put(m, r, 0, "text");
  (void)back_up(disk, source_log, "/backup", {});
  auto before = disk.names_in("/backup");
  expect_error(std::errc::file_exists, {"/backup: "}, [&] { mark_unfinished(disk, "/backup/log"); });
  auto after = disk.names_in("/backup");
  std::ranges::sort(before);
  std::ranges::sort(after);
  EXPECT_EQ(before, after);
  memory again("/backup/log", small_log(&disk, open_mode::open));
  EXPECT_EQ(get(again.map("/backup/one"), 0, 4), "text");
}

TEST(backup, that_is_interrupted_leaves_no_place_for_a_new_log) {
  sim::disk disk;
  {
    memory m(source_log, small_log(&disk));
    region r = m.map("/d/one", {.create_length = 64 * kib});
    put(m, r, 0, "text");
  }
  std::uint64_t refused = 0;
  for (std::uint64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    const auto on = disk.crash(1, sim::policy::keep_all);
    on->crash_at(at);
    try {
      (void)back_up(*on, source_log, "/backup", {});
      break;
    } catch (const sim::power_failure&) {
    }
    for (const auto policy : {sim::policy::random, sim::policy::drop_all, sim::policy::keep_all}) {
      const auto left = on->crash(at, policy);
      if (left->names_in("/backup").empty() || left->exists("/backup/log")) continue;
      expect_error(errc::damaged, {"/backup", "a backup", "remove this directory"},
                   [&] { memory("/backup/log", small_log(left.get())); });
      ++refused;
    }
  }
  EXPECT_GT(refused, 10U);
}

}  // namespace
}  // namespace tenure::rvm
