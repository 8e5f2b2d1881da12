// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Restoring: from a full backup, incremental ones, the archive and the log, up to a point. Random programs are backed up while
// they run; what is restored must be the state after exactly the commit that the report names, and that one must be the one
// that was asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "records/archive_reader.hpp"
#include "records/log_reader.hpp"
#include "replay/backup.hpp"
#include "replay/backup_note.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;
using testing::random_source;

const std::string original = "/d/log";

using model_image = std::map<std::string, std::string>;  // of segments, by name

// A commit, as the log has it.
struct logged_commit {
  std::uint64_t number;  // its label
  lsn record;
  lsn batch_end;
  std::int64_t time;
  std::uint64_t id;
  bool is_state;  // what was committed up to there is a state that there was
};

// A program with segments that it makes, changes and lets grow at random. Each commit has a number, which is its label and the
// first word of the first segment.
class recorded_program {
 public:
  recorded_program(sim::disk& disk, std::uint64_t seed) : disk_(disk), random_(seed) {
    how_ = small_log(&disk);
    if (!random_.one_in(3)) how_.archive = archive_options{.max_size = 64 * mib};
    how_.log.size = how_.archive && random_.one_in(2) ? 64 * kib : 512 * kib;
    how_.background = false;
    how_.tune.truncation_threshold = how_.archive && random_.one_in(3) ? 0.3 : 2;
    if (random_.one_in(2)) {
      limits_.group = 20 * kib;
      limits_.archive_frame = 20 * kib + random_.below(64) * kib;
    }
    how_.limits = &limits_;
    writes_in_bulk_ = random_.one_in(2);
    open();
    watch({});
    add_segment(false);
    commit(commit_mode::flush);
  }
  ~recorded_program() { disk_.on_operation({}); }
  recorded_program(const recorded_program&) = delete;
  recorded_program& operator=(const recorded_program&) = delete;
  // Looks at the log before anything in it is used again. `also` is called after every operation.
  void watch(std::function<void()> also) {
    disk_.on_operation([this, also = std::move(also)](const sim::trace_entry& at) {
      if (at.path == original) look();
      if (also) also();
    });
  }
  memory& of() { return *memory_; }
  [[nodiscard]] bool is_archived() const { return how_.archive.has_value(); }
  [[nodiscard]] bool writes_in_bulk() const { return writes_in_bulk_; }
  [[nodiscard]] std::uint64_t last() const { return states_.size(); }
  [[nodiscard]] const model_image& state(std::uint64_t number) const { return states_.at(number); }
  [[nodiscard]] const std::vector<logged_commit>& seen() const { return seen_; }

  void step() {
    const bool may_truncate = how_.archive || random_.one_in(20);
    switch (random_.below(16)) {
      case 0:
        flush();
        if (may_truncate) memory_->truncate();
        break;
      case 1:
        flush();
        if (may_truncate) (void)memory_->truncate_incrementally(random_.below(100 * kib));
        break;
      case 2:
      case 3: grow(); break;
      case 4:
        if (writes_in_bulk_) write_in_bulk();
        break;
      case 5:
        if (may_truncate && random_.one_in(3)) {
          flush();
          open();
        }
        break;
      case 6:
        if (names_.size() < 5) add_segment(random_.one_in(2));
        break;
      case 7:
      case 8:
      case 9: {
        // Some are overwritten by the next ones of their batch.
        for (std::uint64_t n = 1 + random_.below(5); n != 0; --n) commit(commit_mode::no_flush);
        if (random_.one_in(2)) commit(commit_mode::flush);
        break;
      }
      default: commit(commit_mode::flush);
    }
    look();
  }

  void commit(commit_mode mode) {
    const std::uint64_t number = states_.size() + 1;
    const bool is_same_place = random_.one_in(2);
    memory_->transact(
        [&](transaction& tx) {
          tx.modify(regions_[0].at<std::uint64_t>(0), number);
          tx.label(std::to_string(number));
          for (std::uint64_t n = random_.below(6); n != 0; --n) {
            region& r = regions_[random_.below(regions_.size())];
            const std::size_t length = is_same_place ? 40 : 1 + random_.below(random_.one_in(4) ? 9000 : 60);
            const std::size_t most = &r == &regions_[0] ? std::min(r.size(), bulk_from) : r.size();
            const std::size_t at = is_same_place ? 64 : 8 + random_.below(most - length - 8);
            const std::string text(length, static_cast<char>('a' + random_.below(26)));
            tx.modify(r.data() + at, text.data(), text.size());
          }
        },
        mode);
    note_state(number);
  }
  // Notes what the log has that it did not have before.
  void look() {
    const auto log = log_files::open_unlocked(disk_, original);
    const manifest& now = log->status();
    const lsn tail = now.clean != 0 ? now.tail : find_tail(*log, now).tail;
    std::vector<logged_commit> batch;
    if (looked_ == 0) looked_ = now.head;
    if (looked_ == tail) return;
    ASSERT_LE(log->begin(), looked_);
    scan_groups(*log, looked_, tail, [&](const group_header& header, os::const_bytes bytes) {
      const group_view group(bytes, header, "test");
      EXPECT_EQ(header.lsn, looked_) << "something was used again before it was seen";
      looked_ = header.lsn + padded_length(header, log->block());
      for (const transaction_view& tx : group.transactions())
        if (tx.flags & record_last)
          batch.push_back({std::stoull(std::string(tx.label)), header.lsn + tx.at, 0, tx.time, tx.id, true});
      if (header.flags & group_last) end_batch(batch);
      return true;
    });
  }

 private:
  static constexpr std::size_t bulk_from =
      64 * kib;  // of the first segment: pages from here on are written in bulk only

  void open() {
    regions_.clear();
    memory_.reset();
    memory_.emplace(original, how_);
    for (const std::string& name : names_) regions_.push_back(memory_->map("/d/" + name, {.reserve = true}));
  }
  void add_segment(bool is_member) {
    const std::string name =
        (names_.size() % 2 == 1 ? "sub/" : "") + std::string("seg") + std::to_string(names_.size());
    memory_->create_segment("/d/" + name, {.length = 96 * kib, .max_length = 2 * mib, .member = is_member});
    names_.push_back(name);
    regions_.push_back(memory_->map("/d/" + name, {.reserve = true}));
  }
  void flush() {
    memory_->flush();
    look();
  }
  void grow() {
    const std::size_t which = random_.below(regions_.size());
    if (regions_[which].size() < mib)
      memory_->grow_segment("/d/" + names_[which], regions_[which].size() + (1 + random_.below(30)) * 4 * kib);
  }
  void write_in_bulk() {
    flush();
    const std::uint64_t number = states_.size() + 1;
    region& r = regions_[0];
    const std::size_t pages = 1 + random_.below(3),
                      first = bulk_from / page + random_.below((r.size() - bulk_from) / page - pages + 1);
    const std::string text(pages * page, static_cast<char>('A' + random_.below(26)));
    const os::const_bytes bytes = std::as_bytes(std::span(text));
    memory_->transact([&](transaction& tx) {
      tx.modify(r.at<std::uint64_t>(0), number);
      tx.label(std::to_string(number));
      tx.write_bulk(r, first * page, {&bytes, 1});
      std::memcpy(r.data() + first * page, text.data(), text.size());
    });
    note_state(number);
  }
  void note_state(std::uint64_t number) {
    model_image& now = states_[number];
    for (std::size_t n = 0; n < names_.size(); ++n)
      now[names_[n]] = std::string(reinterpret_cast<const char*>(regions_[n].data()), regions_[n].size());
  }
  // If numbers are missing in a batch, only its last commit is a state.
  void end_batch(std::vector<logged_commit>& batch) {
    const std::uint64_t before = seen_.empty() ? 0 : seen_.back().number;
    const bool has_all = !batch.empty() && batch.back().number - before == batch.size();
    for (logged_commit& c : batch) {
      c.batch_end = looked_;
      c.is_state = has_all || &c == &batch.back();
      seen_.push_back(c);
    }
    batch.clear();
  }

  sim::disk& disk_;
  random_source random_;
  options how_;
  thresholds limits_;
  bool writes_in_bulk_ = false;
  std::optional<memory> memory_;
  std::vector<std::string> names_;
  std::vector<region> regions_;
  std::map<std::uint64_t, model_image> states_;
  std::vector<logged_commit> seen_;
  lsn looked_ = 0;
};

// What is in a log's directory, or in a backup's.
model_image contents(sim::disk& disk, const std::string& log, const model_image& like, std::uint64_t& number) {
  model_image all;
  memory m(log, small_log(&disk, open_mode::open));
  EXPECT_FALSE(m.recovery().needed) << "it is closed";
  const std::string directory = log.substr(0, log.rfind('/') + 1);
  for (const auto& [name, bytes] : like) {
    if (!disk.exists(directory + name)) {
      all[name];
      continue;
    }
    const region r = m.map(directory + name);
    all[name] = std::string(reinterpret_cast<const char*>(r.data()), r.size());
    EXPECT_TRUE(m.verify_segment(directory + name).empty()) << name;
  }
  std::memcpy(&number, all["seg0"].data(), sizeof number);
  m.check();
  return all;
}

// One may be longer by zeros, or not be there if it was never changed.
bool is_same_image(model_image a, model_image b) {
  for (const auto& [name, bytes] : model_image(a)) b[name];
  for (const auto& [name, bytes] : b) {
    std::string &one = a[name], other = bytes;
    one.resize(std::max(one.size(), other.size()));
    other.resize(one.size());
    if (one != other) return false;
  }
  return true;
}

// What was made of one program: backups, in the order of their positions.
struct made_backups {
  std::vector<std::string> increments;
  lsn full = 0, end = 0;
};

// Takes backups while the program runs on.
class backing_up_at_times {
 public:
  backing_up_at_times(sim::disk& disk, recorded_program& program, random_source& random)
      : disk_(disk), program_(program), random_(random) {}
  // Returns whether it could be made.
  bool take(const std::string& since, const std::string& to, backup_report& made) {
    bool busy = false;
    std::uint64_t operations = 0;
    const std::uint64_t between = 1 + random_.below(6);
    if (random_.one_in(2))
      program_.watch([&] {
        if (busy || ++operations % between != 0) return;
        busy = true;
        program_.step();
        busy = false;
      });
    bool is_made = true;
    try {
      made = back_up(disk_, original, to, {.since = since, .verify = random_.one_in(2), .memory = 8 * mib});
    } catch (const error& e) {
      is_made = false;
      EXPECT_EQ(e.code(), errc::no_history) << e.what();
      EXPECT_FALSE(since.empty());
      EXPECT_FALSE(disk_.exists(note_path(to + "/log")));
    }
    program_.watch({});
    EXPECT_TRUE(find_holds(disk_, original).empty());
    return is_made;
  }

 private:
  sim::disk& disk_;
  recorded_program& program_;
  random_source& random_;
};

// The last one that a restore up to there should have; nullptr: it is the backup's.
const logged_commit* expected_at(const std::vector<logged_commit>& seen, lsn from,
                                 const std::function<bool(const logged_commit&)>& is_wanted) {
  const logged_commit* last = nullptr;
  for (const logged_commit& c : seen) {
    if (c.record < from) continue;
    if (!is_wanted(c)) break;
    if (c.is_state) last = &c;
  }
  return last;
}

TEST(restore, is_the_state_after_the_commit_that_was_asked_for) {
  std::uint64_t from_log = 0, from_archive = 0, from_increments = 0, too_far = 0, no_increment = 0, in_batches = 0,
                new_segments = 0, bulk = 0;
  for (std::uint64_t seed = 1; seed <= testing::scaled(80); ++seed) {
    SCOPED_TRACE(seed);
    sim::disk disk(seed % 2 == 0 ? 512 : 4096);
    random_source random(seed);
    recorded_program program(disk, seed);
    backing_up_at_times backups(disk, program, random);
    for (std::uint64_t n = random.below(20); n != 0; --n) program.step();
    backup_report full;
    ASSERT_TRUE(backups.take("", "/full", full));
    made_backups made{{}, full.tail, full.tail};
    for (std::uint64_t n = 1, most = random.below(4); n <= most; ++n) {
      for (std::uint64_t steps = random.below(20); steps != 0; --steps) program.step();
      const std::string to = "/inc" + std::to_string(n);
      backup_report report;
      if (!backups.take(made.increments.empty() ? "/full" : made.increments.back(), to, report)) {
        ASSERT_TRUE(!program.is_archived()) << "the archive has all";
        ++no_increment;
        break;
      }
      ASSERT_GE(report.tail, made.end);
      made.increments.push_back(to);
      made.end = report.tail;
    }
    for (std::uint64_t steps = random.below(20); steps != 0; --steps) program.step();
    program.of().flush();
    program.look();

    for (int tries = 0; tries < 4; ++tries) {
      SCOPED_TRACE(tries);
      const auto copy = disk.crash(seed, sim::policy::keep_all);  // of a moment: the original is as a crash leaves it
      const auto describe = [&] {
        std::string text;
        for (const logged_commit& c : program.seen())
          text += std::to_string(c.number) + "@" + std::to_string(c.record) + " to " + std::to_string(c.batch_end) +
                  " id " + std::to_string(c.id) + (c.is_state ? "" : " no state") + "\n";
        return text;
      };
      sim::disk& on = random.one_in(2) ? *copy : disk;  // or in use
      restore_options how;
      how.disk = &on;
      how.memory = random.one_in(2) ? mib : 8 * mib;
      how.with_damaged_pages = random.one_in(2);
      const bool with_increments = random.one_in(2), with_log = random.one_in(2),
                 with_archive =
                     program.is_archived() && (with_log || random.one_in(2)) &&
                     archive_reader(disk, "/d/log.archive", log_files::open_unlocked(disk, original)->id()).end() != 0;
      if (with_increments) how.increments = made.increments;
      std::reverse(how.increments.begin(), how.increments.end());  // in any order
      if (with_log) how.log = original;
      if (with_archive && !with_log) how.archive = "/d/log.archive";
      const auto& seen = program.seen();
      const auto later = static_cast<std::uint64_t>(
          std::count_if(seen.begin(), seen.end(), [&](const logged_commit& c) { return c.record >= full.tail; }));
      const logged_commit& any =
          seen[later == 0 || random.one_in(6) ? random.below(seen.size()) : seen.size() - 1 - random.below(later)];
      std::function<bool(const logged_commit&)> is_wanted = [](const logged_commit&) { return true; };
      switch (random.below(4)) {
        case 0: break;
        case 1:
          how.until.position = any.record + random.below(2) * 8;
          is_wanted = [&](const logged_commit& c) { return c.record <= *how.until.position; };
          break;
        case 2:
          how.until.time = any.time;
          is_wanted = [&](const logged_commit& c) { return c.time <= *how.until.time; };
          break;
        default:
          how.until.transaction = any.id;
          is_wanted = [&](const logged_commit& c) { return c.record <= any.record; };
      }
      const std::string to = "/r" + std::to_string(tries), restored_log = to + "/log";
      backup_report report;
      try {
        report = restore("/full", to, how);
      } catch (const error& e) {
        EXPECT_FALSE(on.exists(restored_log));
        const bool is_before = any.record < full.tail;
        EXPECT_TRUE(e.code() == errc::no_history || e.code() == errc::segment_missing ||
                    (e.code() == errc::bad_option &&
                     (is_before || how.until.transaction || (how.until.time && full.time == 0))))
            << e.what();
        // With everything that there is, only what was written in bulk can be missing.
        if (with_log && program.is_archived()) {
          EXPECT_TRUE(e.code() == errc::bad_option || (is_before && how.until.transaction)) << e.what();
        }
        bulk += std::string(e.what()).find("in bulk") != std::string::npos;
        ++too_far;
        continue;
      }
      lsn reached = full.tail;
      if (with_increments) reached = std::max(reached, made.end);
      const logged_commit* expected = expected_at(seen, full.tail, [&](const logged_commit& c) {
        if (how.until.transaction || how.until.position || how.until.time) return is_wanted(c);
        return with_log || with_archive || c.record < reached;
      });
      std::uint64_t number = 0;
      const bool is_to_end = !how.until.transaction && !how.until.position && !how.until.time;
      const bool is_ambiguous =  // without everything, it may be there once
          how.until.transaction &&
          std::count_if(seen.begin(), seen.end(), [&](const logged_commit& c) { return c.id == any.id; }) > 1;
      if (expected != nullptr && !is_ambiguous && !(is_to_end && with_archive && !with_log)) {
        ASSERT_EQ(report.label, std::to_string(expected->number))
            << "log " << with_log << ", archive " << with_archive << ", increments " << how.increments.size()
            << ", position " << how.until.position.value_or(0) << ", transaction " << how.until.transaction.value_or(0)
            << ", time " << how.until.time.value_or(0) << ", full to " << full.tail << ", increments to " << made.end
            << ", reached " << report.tail << "\n"
            << describe();
        EXPECT_EQ(report.transaction, expected->id);
        EXPECT_EQ(report.time, expected->time);
        EXPECT_EQ(report.tail > full.tail, expected->record > full.tail);
        in_batches += expected != &seen.back() && (expected + 1)->batch_end == expected->batch_end;
      }
      if (expected == nullptr && !is_ambiguous && !with_archive) {
        EXPECT_EQ(report.tail, full.tail);
      }
      const auto left = on.crash(seed, sim::policy::drop_all);  // it survives a loss of power
      const std::uint64_t named = report.transaction != 0 ? std::stoull(report.label) : 0;
      const model_image found = contents(*left, restored_log, program.state(program.last()), number);
      if (named != 0) {
        ASSERT_EQ(number, named);
      }
      ASSERT_TRUE(is_same_image(program.state(number), found));
      if (report.tail == full.tail) continue;
      from_log += with_log && !program.is_archived();
      from_archive += with_archive;
      from_increments += with_increments && !with_log && !with_archive;
      for (const auto& [name, bytes] : found) new_segments += on.exists(to + "/" + name) && !on.exists("/full/" + name);
    }
    // The original goes on.
    program.step();
    program.of().check();
  }
  std::printf(
      "    log %lu, archive %lu, increments %lu, too far %lu, no increment %lu, in batches %lu, new %lu, bulk %lu\n",
      from_log, from_archive, from_increments, too_far, no_increment, in_batches, new_segments, bulk);
  if (testing::scaled(80) < 80) return;  // too few to meet all of it
  EXPECT_GT(from_log, 0U);
  EXPECT_GT(from_archive, 0U);
  EXPECT_GT(from_increments, 0U);
  EXPECT_GT(too_far, 0U);
  EXPECT_GT(no_increment, 0U);
  EXPECT_GT(in_batches, 0U);
  EXPECT_GT(new_segments, 0U);
  EXPECT_GT(bulk, 0U);
}

}  // namespace
}  // namespace tenure::rvm
