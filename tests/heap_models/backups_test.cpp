// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups of stores: graphs in two databases that change, grow and are trimmed between any two operations of a backup. What is
// restored must be the graph after exactly the commit that the report names, and a loss of power must leave the store and
// the backups as good as any other.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/rvm/backup.hpp>
#include <tenure/tenure.hpp>

#include "heap_models/graph_workload.hpp"
#include "log/log_hold.hpp"
#include "replay/backup.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;

namespace store_backups_test {

using rvm::testing::random_source;
using rvm::testing::scaled;

const std::string store_log = "/store/log";

// The commit of the program that is named; {}: none, or one of the library, as a trim is.
std::optional<std::uint64_t> named_by(const rvm::backup_report& report) {
  if (report.transaction == 0 || report.label.find_first_not_of("0123456789") != std::string::npos) return {};
  return report.label.empty() ? std::optional<std::uint64_t>() : std::stoull(report.label);
}

// A program that is backed up at times, by itself, or by another process while it goes on.
class backed_up_program {
 public:
  explicit backed_up_program(std::uint64_t seed)
      : random_(seed), work_(seed, random_.one_in(4) ? graph_workload::kind::copying : graph_workload::kind::plain) {
    work_.options().memory.tune.truncation_threshold = random_.one_in(3) ? 0.3 : 2;
    if (random_.one_in(2)) work_.options().memory.archive = rvm::archive_options{.max_size = 64 << 20};
    work_.options().tune.bulk = one_of<std::uint64_t>(random_, {0, 16 << 10, 512 << 10});
  }
  void open(sim::disk& disk) {
    work_.open(disk);
    disk_ = &disk;
  }
  void take_steps(std::uint64_t most) {
    for (std::uint64_t n = random_.below(most); n != 0; --n) work_.step();
  }
  // {}: it is incremental, and what it needs is there no more.
  std::optional<rvm::backup_report> back_up(const std::string& to, const std::string& since = {}) {
    const rvm::backup_options how{.since = since, .verify = random_.one_in(2), .memory = 8 << 20};
    const std::uint64_t before = work_.acknowledged();
    std::optional<rvm::backup_report> made;
    try {
      if (random_.one_in(3)) {
        made = work_.opened().backup(to, how);
      } else {
        between_operations steps(*this);
        made = rvm::back_up(*disk_, store_log, to, how);
      }
    } catch (const error& e) {
      if (since.empty() || e.code() != errc::no_history) throw;
      return {};
    }
    EXPECT_TRUE(rvm::find_holds(*disk_, store_log).empty());
    if (const auto named = named_by(*made)) {
      EXPECT_GE(*named, before);
      EXPECT_LE(*named, work_.commits());
    }
    return made;
  }
  graph_workload& work() { return work_; }
  random_source& random() { return random_; }

 private:
  class between_operations {
   public:
    explicit between_operations(backed_up_program& of) : of_(of), between_(1 + of.random_.below(6)) {
      of_.disk_->on_operation([this](const sim::trace_entry&) {
        if (busy_ || ++operations_ % between_ != 0) return;
        busy_ = true;
        of_.take_steps(3);
        busy_ = false;
      });
    }
    ~between_operations() { of_.disk_->on_operation({}); }
    between_operations(const between_operations&) = delete;
    between_operations& operator=(const between_operations&) = delete;

   private:
    backed_up_program& of_;
    const std::uint64_t between_;
    std::uint64_t operations_ = 0;
    bool busy_ = false;
  };

  random_source random_;
  graph_workload work_;
  sim::disk* disk_ = nullptr;
};

// The commit that is named is the one that is found.
void expect_named(graph_workload& work, sim::disk& on, const std::string& at, const rvm::backup_report& named) {
  const std::optional<std::uint64_t> found = work.commit_in(on, at);
  if (const auto commit = named_by(named)) {
    EXPECT_EQ(found, commit) << at;
  }
}

}  // namespace store_backups_test
using namespace store_backups_test;

TEST(store_backups, are_the_graph_after_the_commit_that_they_name) {
  std::uint64_t increments = 0, no_increment = 0, to_points = 0, too_far = 0;
  for (std::uint64_t seed = 1; seed <= scaled(40); ++seed) {
    SCOPED_TRACE(seed);
    sim::disk disk(seed % 2 == 0 ? 512 : 4096);
    backed_up_program program(seed);
    random_source& random = program.random();
    program.open(disk);
    program.take_steps(20);
    std::vector<rvm::backup_report> made{*program.back_up("/full")};
    std::vector<std::string> of{"/full"};
    for (std::uint64_t n = random.below(4); n != 0; --n) {
      program.take_steps(12);
      const std::string to = "/increment" + std::to_string(of.size());
      const auto next = program.back_up(to, of.back());
      if (!next) {
        ++no_increment;
        break;
      }
      made.push_back(*next);
      of.push_back(to);
      ++increments;
    }
    program.take_steps(12);
    program.work().opened().flush();
    program.work().close();

    const auto left = disk.crash(seed, sim::policy::drop_all);
    rvm::restore_options how{.memory = 8 << 20, .disk = left.get()};
    how.increments.assign(of.rbegin(), of.rend() - 1);  // in any order
    expect_named(program.work(), *left, "/restored", rvm::restore("/full", "/restored", how));
    how.log = store_log;
    try {
      expect_named(program.work(), *left, "/last", rvm::restore("/full", "/last", how));
      // Any position is as good as the one of a record.
      how.until.position = made.front().tail + random.below(made.back().tail - made.front().tail + (32 << 10));
      expect_named(program.work(), *left, "/until", rvm::restore("/full", "/until", how));
      ++to_points;
    } catch (const error& e) {  // without an archive
      EXPECT_EQ(e.code(), errc::no_history) << e.what();
      ++too_far;
    }
    expect_named(program.work(), *left, "/full", made.front());  // opened, it is changed
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("    increments %lu, impossible %lu, to points %lu, impossible %lu\n", increments, no_increment,
              to_points, too_far);
  if (scaled(40) < 40) return;  // too few to meet all of it
  EXPECT_GT(increments, 10u);
  EXPECT_GT(no_increment, 0u);
  EXPECT_GT(to_points, 5u);
  EXPECT_GT(too_far, 0u);
}

// Holds and their log, the files of the backup, and the program's own: each operation may be the last one.
TEST(store_backups, lose_nothing_when_power_is_lost) {
  std::uint64_t whole = 0, unfinished = 0;
  for (const std::uint64_t seed : {3u, 6u, 9u, 12u}) {
    const auto run = [&](backed_up_program& program, sim::disk& disk) {
      program.open(disk);
      program.take_steps(12);
      (void)program.back_up("/full");
      program.take_steps(6);
      (void)program.back_up("/increment", "/full");
      program.take_steps(6);
    };
    std::uint64_t operations = 0, first = 0;
    {
      sim::disk disk;
      backed_up_program program(seed);
      program.open(disk);
      first = disk.operations();
      program.work().close();
    }
    {
      sim::disk disk;
      backed_up_program program(seed);
      run(program, disk);
      operations = disk.operations();
      program.work().close();
    }
    for (std::uint64_t at = first; at <= operations; at += rvm::testing::scaled_stride(5)) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", crash at operation " + std::to_string(at));
      sim::disk disk;
      disk.crash_at(at);
      backed_up_program program(seed);
      try {
        run(program, disk);
      } catch (const sim::power_failure&) {
      }
      program.work().close();
      const auto left = disk.crash(seed + at, at % 2 == 0   ? sim::policy::random
                                              : at % 4 == 1 ? sim::policy::drop_all
                                                            : sim::policy::keep_all);
      program.work().expect_a_committed_state(*left);
      EXPECT_TRUE(rvm::find_holds(*left, store_log).empty());
      if (left->exists("/full/log")) {
        ++whole;
        if (!left->exists("/increment/log.backup")) {
          (void)program.work().commit_in(*left, "/full");
        } else {
          (void)rvm::restore("/full", "/restored",
                             {.increments = {"/increment"}, .memory = 8 << 20, .disk = left.get()});
          (void)program.work().commit_in(*left, "/restored");
        }
      } else if (!left->names_in("/full").empty()) {
        ++unfinished;
        EXPECT_THROW((void)program.work().commit_in(*left, "/full"), error);
      }
      const rvm::backup_report again = rvm::back_up(*left, store_log, "/again", {.verify = true, .memory = 8 << 20});
      expect_named(program.work(), *left, "/again", again);
      if (::testing::Test::HasFailure()) return;
    }
  }
  std::printf("    whole %lu, unfinished %lu\n", whole, unfinished);
  if (scaled(10) < 10) return;
  EXPECT_GT(whole, 0u);
  EXPECT_GT(unfinished, 0u);
}
