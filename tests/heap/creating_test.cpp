// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Making a store: few syncs, and a crash at any moment leaves nothing, or a store that the next opening completes.
#include <gtest/gtest.h>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/test_store.hpp"

namespace tenure::support {
namespace {

const std::string log_file = "/s/log", first_file = "/s/log.1", main_file = "/s/main.db";

class creating : public ::testing::Test {
 protected:
  creating() {
    how.memory.background = false;
    how.memory.log.size = 64 << 10;
  }
  store_options on(sim::disk& disk, rvm::open_mode mode = rvm::open_mode::open_or_create) {
    store_options with = how;
    with.mode = mode;
    with.memory.disk = &disk;
    return with;
  }
  // Makes a store, completes it if there is one, and uses it.
  void make_and_use(sim::disk& disk) {
    for (int round = 0; round < 2; ++round) {
      store s("/s", on(disk));
      s.transact([&] { s.root<std::uint64_t>("count") += 1; });
      expect_sound(s);
      EXPECT_EQ(s.root<std::uint64_t>("count"), static_cast<std::uint64_t>(round) + 1);
      s.close();
    }
  }

  store_options how = small_store();
};

TEST_F(creating, takes_few_syncs) {
  sim::disk disk;
  disk.record_trace(true);
  store s("/s", on(disk));
  std::size_t waits = 0, directories = 0;
  for (const auto& entry : disk.trace()) {
    waits += entry.kind == sim::operation::sync || entry.kind == sim::operation::durable_write;
    directories += entry.kind == sim::operation::sync_directory;
  }
  // The log's first file, the database, the manifest, the first transaction; the log's file before the other two.
  EXPECT_LE(waits, 4U);
  EXPECT_LE(directories, 2U);
  EXPECT_EQ(disk.weak_durable_writes(), 0U);
  // All that is there is durable.
  const auto left = disk.crash(1, sim::policy::drop_all);
  s.close();
  store found("/s", on(*left, rvm::open_mode::open));
  EXPECT_FALSE(found.find_root<std::uint64_t>("count"));
  expect_sound(found);
  found.close();
}

// As a database is to which a link in the store's directory leads.
TEST_F(creating, makes_the_name_of_a_database_elsewhere_durable) {
  sim::disk disk;
  disk.make_directory("/s");
  disk.make_directory("/elsewhere");
  const rvm::new_segment member{"/elsewhere/main.db", {.length = 4096, .member = true}};
  rvm::options options = on(disk).memory;
  options.first_member = &member;
  rvm::memory made(log_file, options);
  const auto left = disk.crash(1, sim::policy::drop_all);
  EXPECT_TRUE(left->exists(member.path));
  made.close();
}

TEST_F(creating, survives_a_crash_at_every_operation) {
  std::uint64_t operations = 0;
  {
    sim::disk whole;
    store s("/s", on(whole));
    operations = whole.operations();
    s.close();
  }
  std::size_t without_log = 0, without_main = 0;
  for (std::uint64_t at = 1; at <= operations; ++at)
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE("operation " + std::to_string(at) + ", seed " + std::to_string(seed));
      sim::disk disk;
      disk.crash_at(at, seed % 3 == 0 ? seed : sim::for_ever);
      try {
        store s("/s", on(disk));
        s.close();
        FAIL() << "the power did not go";
      } catch (const sim::power_failure&) {
      }
      const auto left = disk.crash(seed, seed == 0   ? sim::policy::keep_all
                                         : seed == 1 ? sim::policy::drop_all
                                                     : sim::policy::random_with_garbage);
      const bool has_log = left->exists(log_file), has_main = left->exists(main_file);
      without_log += has_main && !has_log;
      without_main += has_log && !has_main;
      if (!has_log)
        for (const auto mode : {rvm::open_mode::open, rvm::open_mode::read_only})
          expect_error(std::errc::no_such_file_or_directory, {"/s", "there is no store"},
                       [&] { const store s("/s", on(*left, mode)); });
      else if (!has_main)
        expect_error(errc::damaged, {"/s", "nothing was ever committed"},
                     [&] { const store s("/s", on(*left, rvm::open_mode::read_only)); });
      make_and_use(*left);
    }
  // Both are found, so both are tested.
  EXPECT_GT(without_log, 0U);
  EXPECT_GT(without_main, 0U);
}

// The power goes again while the remains of the first crash are replaced.
TEST_F(creating, survives_a_second_crash) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto disk = std::make_unique<sim::disk>();
    for (const std::uint64_t at : {13 + seed % 12, 1 + seed % 25}) {
      disk->crash_at(at);
      try {
        store s("/s", on(*disk));
        s.close();
      } catch (const sim::power_failure&) {
      }
      disk = disk->crash(seed);
    }
    make_and_use(*disk);
  }
}

// A blank database is the remains of a crash only beside a log's file that was never written to.
TEST_F(creating, does_not_replace_a_store_whose_log_is_lost) {
  sim::disk disk;
  {
    store s("/s", on(disk));  // nothing of it is truncated yet
    const auto killed = disk.crash(1, sim::policy::keep_all);
    for (const bool with_first_file : {true, false}) {
      sim::disk lost;
      lost.install(main_file, killed->current_bytes(main_file));
      if (with_first_file) lost.install(first_file, killed->current_bytes(first_file));
      expect_error(std::errc::no_such_file_or_directory, {log_file, "the store's log is missing", main_file},
                   [&] { const store again("/s", on(lost)); });
      EXPECT_TRUE(lost.exists(main_file));
    }
    s.close();
  }
}

// The default database is a pending member until the manifest is written next. That it was used is in the log.
TEST_F(creating, the_default_database_may_not_vanish) {
  sim::disk disk;
  store s("/s", on(disk));
  const auto killed = disk.crash(1, sim::policy::drop_all);
  s.close();
  killed->remove(main_file);
  expect_error(errc::segment_missing, {main_file}, [&] { const store again("/s", on(*killed)); });
}

// What was made is taken back if the database cannot be mapped, and the next attempt takes other addresses.
TEST_F(creating, with_addresses_that_are_taken) {
  sim::disk disk, other;
  store s("/s", on(other));
  expect_error(errc::address_taken, {main_file}, [&] { const store again("/s", on(disk)); });
  EXPECT_FALSE(disk.exists(main_file));
  how.create.home = next_home(how.create.reservation);
  make_and_use(disk);
  s.close();
}

}  // namespace
}  // namespace tenure::support
