// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The simulated disk loses power and fails on request, can be watched, and is a disk otherwise.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "os/sim_disk_helpers.hpp"

namespace tenure::sim {
namespace {

using os::access;
using os::lock_kind;

static_assert(!std::is_base_of_v<std::exception, power_failure>);

// --- Losing power at an operation ---

TEST(sim_disk_fault, operations_are_counted_and_reads_apart) {
  disk d;
  const auto f = d.create("f", 0600);   // 1
  f->write_at(0, as_bytes("abc"));      // 2
  f->sync();                            // 3
  write_durably(*f, 0, as_bytes("x"));  // 4
  f->resize(10);                        // 5
  f->allocate(0, 20);                   // 6
  d.rename("f", "g");                   // 7
  d.sync_directory_of("g");             // 8
  (void)d.exists("g");
  (void)d.open("g", access::read_only);
  EXPECT_EQ(d.reads(), 0u);
  (void)read_text(*f, 0, 1);
  EXPECT_EQ(d.reads(), 1u);
  EXPECT_EQ(d.operations(), 8u);
  d.remove("g");  // 9
  EXPECT_EQ(d.operations(), 9u);
}

TEST(sim_disk_fault, the_power_goes_at_any_operation) {
  // Does the first operation whole, the second never.
  const std::vector<std::function<void(disk&, os::file&)>> all{
      [](disk&, os::file& f) { f.write_at(0, as_bytes("w")); },
      [](disk&, os::file& f) { write_durably(f, 1, as_bytes("d")); },
      [](disk&, os::file& f) { f.sync(); },
      [](disk&, os::file& f) { f.resize(2); },
      [](disk&, os::file& f) { f.allocate(0, 9); },
      [](disk& d, os::file&) { (void)d.create("n", 0600); },
      [](disk& d, os::file&) { d.rename("f", "m"); },
      [](disk& d, os::file&) { d.remove("f"); },
      [](disk& d, os::file&) { d.sync_directory_of("f"); },
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    disk d;
    d.install("f", as_bytes("...."));
    const auto f = d.open("f", access::read_write);
    d.crash_at(1);
    EXPECT_TRUE(loses_power([&] { all[i](d, *f); })) << i;
    EXPECT_TRUE(d.is_off());
    EXPECT_EQ(after(d, "f", policy::drop_all), "....") << i;  // pending at most
    for (const auto& each : all) EXPECT_TRUE(loses_power([&] { each(d, *f); }));
    EXPECT_TRUE(loses_power([&] { (void)read_text(*f, 0, 1); }));
    EXPECT_TRUE(loses_power([&] { (void)d.open("f", access::read_only); }));
    EXPECT_TRUE(loses_power([&] { (void)d.exists("f"); }));
    EXPECT_TRUE(loses_power([&] { (void)f->try_lock(lock_kind::shared); }));
    EXPECT_TRUE(loses_power([&] { (void)f->map_private(nullptr, 0, 4096, os::access::read_only); }));
    EXPECT_EQ(d.operations(), 1u);
  }
}

TEST(sim_disk_fault, the_operation_that_loses_power_is_pending) {
  disk d;
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("a"));
  d.crash_at(2);
  EXPECT_TRUE(loses_power([&] { write_durably(*f, 1, as_bytes("b")); }));
  EXPECT_EQ(after(d, "f", policy::drop_all), "....");
  EXPECT_EQ(after(d, "f", policy::keep_all), "ab..");
  EXPECT_EQ(outcomes(d, "f"), (std::set<std::string>{"....", "a...", ".b..", "ab.."}));

  disk e;
  e.crash_at(1);
  EXPECT_TRUE(loses_power([&] { (void)e.create("f", 0600); }));
  EXPECT_EQ(outcomes(e, "f"), (std::set<std::string>{"(none)", ""}));
}

TEST(sim_disk_fault, a_write_can_be_cut_at_a_sector) {
  for (const std::uint64_t sectors : {0u, 1u, 2u, 3u, 4u}) {
    disk d;
    d.install("f", filled(2000, '.'));
    const auto f = d.open("f", access::read_write);
    d.crash_at(1, sectors);
    EXPECT_TRUE(loses_power([&] { write_durably(*f, 500, filled(1000, 'n')); }));
    const std::array<std::size_t, 5> ends{500, 512, 1024, 1500, 1500};
    const std::size_t end = ends[sectors];
    EXPECT_EQ(after(d, "f", policy::keep_all),
              std::string(500, '.') + std::string(end - 500, 'n') + std::string(2000 - end, '.'));
  }
}

TEST(sim_disk_fault, the_power_can_go_between_operations) {
  disk d;
  d.install("f", as_bytes("."));
  d.power_off();
  EXPECT_TRUE(loses_power([&] { (void)d.open("f", access::read_only); }));
  EXPECT_EQ(as_text(d.durable_bytes("f")), ".");
  EXPECT_EQ(as_text(d.crash(1)->current_bytes("f")), ".");
}

// --- Faults ---

TEST(sim_disk_fault, the_nth_matching_operation_fails) {
  disk d;
  d.install("log", filled(10, '.'));
  d.install("other", filled(10, '.'));
  const auto log = d.open("log", access::read_write);
  const auto other = d.open("other", access::read_write);
  const auto number = d.inject({.kind = operation::write, .path = "lo", .nth = 2, .count = 2, .error = ENOSPC});
  const auto write = [&](os::file& f) { return errno_of([&] { f.write_at(0, as_bytes("abc")); }); };
  EXPECT_EQ(write(*log), 0);
  EXPECT_EQ(write(*other), 0);
  EXPECT_EQ(errno_of([&] { write_durably(*log, 0, as_bytes("x")); }), 0);
  EXPECT_EQ(write(*log), ENOSPC);
  EXPECT_EQ(write(*other), 0);
  EXPECT_EQ(write(*log), ENOSPC);
  EXPECT_EQ(write(*log), 0);
  EXPECT_EQ(d.hits(number), 2u);
  d.inject({.kind = operation::write, .nth = 3, .count = for_ever});
  EXPECT_EQ(write(*log), 0);
  EXPECT_EQ(write(*other), 0);
  EXPECT_EQ(write(*log), EIO);
  EXPECT_EQ(write(*other), EIO);
  d.clear_faults();
  EXPECT_EQ(write(*log), 0);
}

TEST(sim_disk_fault, a_failed_write_can_happen_in_part) {
  disk d;
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  d.inject({.error = ENOSPC, .bytes = 2});
  EXPECT_EQ(errno_of([&] { f->write_at(0, as_bytes("abcd")); }), ENOSPC);
  EXPECT_EQ(as_text(d.current_bytes("f")), "ab..");
  d.inject({});
  EXPECT_EQ(errno_of([&] { f->write_at(0, as_bytes("xyz")); }), EIO);
  EXPECT_EQ(as_text(d.current_bytes("f")), "ab..");
}

TEST(sim_disk_fault, every_kind_can_fail_and_then_does_nothing) {
  disk d;
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  d.inject({.count = for_ever});
  EXPECT_EQ(errno_of([&] { (void)read_text(*f, 0, 1); }), EIO);
  EXPECT_EQ(errno_of([&] { write_durably(*f, 0, as_bytes("x")); }), EIO);
  EXPECT_EQ(errno_of([&] { f->sync(); }), EIO);
  EXPECT_EQ(errno_of([&] { f->resize(1); }), EIO);
  EXPECT_EQ(errno_of([&] { f->allocate(0, 100); }), EIO);
  EXPECT_EQ(errno_of([&] { (void)f->try_lock(lock_kind::shared); }), EIO);
  EXPECT_EQ(errno_of([&] { (void)f->map_private(nullptr, 0, 4096, os::access::read_only); }), EIO);
  EXPECT_EQ(errno_of([&] { (void)d.open("f", access::read_only); }), EIO);
  EXPECT_EQ(errno_of([&] { (void)d.exists("f"); }), EIO);
  EXPECT_EQ(errno_of([&] { (void)d.create("g", 0600); }), EIO);
  EXPECT_EQ(errno_of([&] { d.rename("f", "g"); }), EIO);
  EXPECT_EQ(errno_of([&] { d.remove("f"); }), EIO);
  EXPECT_EQ(errno_of([&] { d.sync_directory_of("f"); }), EIO);
  d.clear_faults();
  EXPECT_EQ(d.names(), std::vector<std::string>{"f"});
  EXPECT_EQ(as_text(d.current_bytes("f")), "....");
}

TEST(sim_disk_fault, a_failed_sync_may_leave_the_writes_pending) {
  disk d;
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("ab"));
  d.inject({.kind = operation::sync});
  EXPECT_EQ(errno_of([&] { f->sync(); }), EIO);
  EXPECT_EQ(outcomes(d, "f"), (std::set<std::string>{"....", "ab.."}));
  f->sync();
  EXPECT_EQ(after(d, "f", policy::drop_all), "ab..");
}

TEST(sim_disk_fault, a_failed_sync_may_lose_the_writes_and_the_next_succeed) {
  disk d;
  d.install("f", filled(600, '.'));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("ab"));
  f->sync();
  f->write_at(1, as_bytes("xyz"));
  f->write_at(598, as_bytes("1234"));
  d.inject({.what = effect::lose_writes, .error = ENOSPC});
  EXPECT_EQ(errno_of([&] { f->sync(); }), ENOSPC);
  const std::string expected = "ab" + std::string(598, '.') + std::string(2, '\0');  // the size was not lost
  EXPECT_EQ(as_text(d.current_bytes("f")), expected);
  f->sync();
  EXPECT_EQ(as_text(d.durable_bytes("f")), expected);
}

TEST(sim_disk_fault, a_failed_sync_may_keep_the_writes_visible_yet_never_save_them) {
  disk d;
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("ab"));
  d.inject({.what = effect::keep_unsynced});
  EXPECT_EQ(errno_of([&] { f->sync(); }), EIO);
  EXPECT_EQ(read_text(*f, 0, 4), "ab..");
  f->write_at(2, as_bytes("c"));
  f->sync();
  EXPECT_EQ(read_text(*f, 0, 4), "abc.");
  EXPECT_EQ(outcomes(d, "f"), std::set<std::string>{"..c."});
}

TEST(sim_disk_fault, reads_can_be_short_or_wrong) {
  disk d;
  d.install("f", as_bytes("abcd"));
  const auto f = d.open("f", access::read_only);
  d.inject({.what = effect::short_read, .bytes = 3});
  EXPECT_EQ(read_text(*f, 0, 4), "abc");
  EXPECT_EQ(read_text(*f, 0, 4), "abcd");
  d.inject({.what = effect::flip_bit, .bytes = 9});
  EXPECT_EQ(read_text(*f, 0, 4), "a`cd");
  EXPECT_EQ(read_text(*f, 0, 4), "abcd");
  EXPECT_EQ(read_text(*f, 3, 4), "d");
  EXPECT_EQ(read_text(*f, 4, 4), "");
}

TEST(sim_disk_fault, a_read_only_disk_refuses_changes) {
  disk d;
  d.install("f", as_bytes("abcd"));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("x"));
  d.set_read_only(true);
  EXPECT_EQ(errno_of([&] { f->write_at(0, as_bytes("y")); }), EROFS);
  EXPECT_EQ(errno_of([&] { (void)d.create("g", 0600); }), EROFS);
  EXPECT_EQ(errno_of([&] { d.remove("f"); }), EROFS);
  EXPECT_EQ(errno_of([&] { (void)d.open("f", access::read_write); }), EROFS);
  EXPECT_EQ(read_text(*d.open("f", access::read_only), 0, 4), "xbcd");
  d.set_read_only(false);
  f->write_at(0, as_bytes("y"));
}

// --- Watching ---

TEST(sim_disk_fault, the_trace_tells_the_order) {
  disk d;
  d.install("f", filled(100, '.'));
  const auto f = d.open("f", access::read_write);
  d.record_trace(true);
  f->write_at(5, as_bytes("abc"));
  (void)read_text(*f, 1, 2);
  f->sync();
  d.rename("f", "g");
  d.record_trace(false);
  f->sync();
  const auto trace = d.trace();
  ASSERT_EQ(trace.size(), 4u);
  EXPECT_EQ(trace[0].kind, operation::write);
  EXPECT_EQ(trace[0].index, 1u);
  EXPECT_EQ(trace[0].path, "f");
  EXPECT_EQ(trace[0].offset, 5u);
  EXPECT_EQ(trace[0].length, 3u);
  EXPECT_EQ(trace[1].kind, operation::read);
  EXPECT_EQ(trace[1].index, 1u);
  EXPECT_EQ(trace[2].kind, operation::sync);
  EXPECT_EQ(trace[2].index, 2u);
  EXPECT_EQ(trace[3].path, "g");
  EXPECT_EQ(trace[3].from, "f");
  d.clear_trace();
  EXPECT_TRUE(d.trace().empty());
}

TEST(sim_disk_fault, a_watcher_can_crash_the_disk_after_each_operation) {
  disk d;
  d.install("f", as_bytes(".."));
  std::vector<std::string> durable;
  d.on_operation([&](const trace_entry&) { durable.push_back(after(d, "f", policy::drop_all)); });
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("a"));
  write_durably(*f, 1, as_bytes("b"));
  f->sync();
  EXPECT_EQ(durable, (std::vector<std::string>{"..", ".b", "ab"}));
}

// --- Locks, devices, mappings, helpers ---

TEST(sim_disk_fault, locks_exclude_and_end_with_the_file) {
  disk d;
  d.install("f", {});
  auto a = d.open("f", access::read_write);
  auto b = d.open("f", access::read_write);
  EXPECT_TRUE(a->try_lock(lock_kind::shared));
  EXPECT_TRUE(b->try_lock(lock_kind::shared));
  EXPECT_FALSE(a->try_lock(lock_kind::exclusive));
  b.reset();
  EXPECT_TRUE(a->try_lock(lock_kind::exclusive));
  EXPECT_TRUE(a->try_lock(lock_kind::shared));  // converts
  EXPECT_TRUE(d.open("f", access::read_write)->try_lock(lock_kind::shared));
  EXPECT_TRUE(a->try_lock(lock_kind::exclusive));
  b = d.open("f", access::read_write);
  EXPECT_FALSE(b->try_lock(lock_kind::shared));
  EXPECT_FALSE(b->try_lock(lock_kind::exclusive));
  d.rename("f", "g");  // the file is locked, not its name
  EXPECT_FALSE(d.open("g", access::read_write)->try_lock(lock_kind::shared));
  EXPECT_TRUE(d.create("f", 0600)->try_lock(lock_kind::exclusive));
  a.reset();
  EXPECT_TRUE(b->try_lock(lock_kind::exclusive));
}

TEST(sim_disk_fault, a_device_has_its_size) {
  disk d;
  d.add_device("/dev/x", 64 * 1024);
  const auto f = d.open("/dev/x", access::read_write);
  EXPECT_TRUE(f->is_device());
  EXPECT_EQ(f->size(), 64u * 1024);
  EXPECT_EQ(errno_of([&] { f->resize(10); }), EINVAL);
  f->allocate(0, 1 << 20);
  EXPECT_EQ(f->size(), 64u * 1024);
  EXPECT_EQ(errno_of([&] { f->write_at(64 * 1024 - 1, as_bytes("xy")); }), ENOSPC);
  write_durably(*f, 5000, as_bytes("D"));  // all of a device is initialised
  EXPECT_EQ(d.durable_bytes("/dev/x")[5000], std::byte{'D'});
  EXPECT_EQ(d.weak_durable_writes(), 0u);
  const auto left = d.crash(1, policy::drop_all);
  EXPECT_TRUE(left->open("/dev/x", access::read_only)->is_device());
  d.install("f", {});
  EXPECT_FALSE(d.open("f", access::read_only)->is_device());
}

TEST(sim_disk_fault, a_private_mapping_sees_the_file_and_keeps_its_writes_to_itself) {
  disk d;
  d.install("f", filled(8192, '.'));
  const auto f = d.open("f", access::read_only);
  auto* const mapped = static_cast<char*>(f->map_private(nullptr, 4096, 4096, os::access::read_write));
  const auto g = d.open("f", access::read_write);
  g->write_at(4096, as_bytes("a"));
  EXPECT_EQ(mapped[0], 'a');
  mapped[0] = 'm';
  EXPECT_EQ(d.current_bytes("f")[4096], std::byte{'a'});
  try {
    (void)f->map_private(mapped, 0, 4096, os::access::read_write);
    FAIL() << "mapped over a mapping";
  } catch (const error& thrown) {
    EXPECT_EQ(thrown.code(), errc::address_taken);
  }
  EXPECT_EQ(mapped[0], 'm');
  ::munmap(mapped, 4096);
  EXPECT_EQ(f->map_private(mapped, 0, 4096, os::access::read_only), mapped);
  EXPECT_EQ(mapped[0], '.');
  ::munmap(mapped, 4096);
}

TEST(sim_disk_fault, poking_changes_both_images_for_good) {
  disk d;
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("aaaaa"));
  d.poke("f", 3, as_bytes("PP"));
  EXPECT_EQ(as_text(d.current_bytes("f")), "aaaPP");
  EXPECT_EQ(as_text(d.durable_bytes("f")), "...P");
  for (const std::string& found : outcomes(d, "f")) EXPECT_EQ(found[3], 'P');
  EXPECT_EQ(d.operations(), 1u);  // poke is none
  EXPECT_THROW(d.poke("f", 4, as_bytes("xy")), std::out_of_range);
  f->resize(10000);
  f->sync();
  d.poke("f", 9000, as_bytes("h"));  // in a hole
  EXPECT_EQ(d.durable_bytes("f")[9000], std::byte{'h'});
}

TEST(sim_disk_fault, installing_replaces_a_file_durably) {
  disk d;
  (void)d.create("tmp", 0600);
  d.rename("tmp", "f");
  d.install("f", as_bytes("abc"));
  EXPECT_EQ(d.durable_names(), std::vector<std::string>{"f"});
  EXPECT_EQ(d.unsynced_names(), 0u);
  EXPECT_EQ(outcomes(d, "f"), std::set<std::string>{"abc"});
}

TEST(sim_disk_fault, files_come_from_and_go_to_the_real_disk) {
  std::string name = (std::filesystem::temp_directory_path() / "tenure-sim-XXXXXX").string();
  const int made = ::mkstemp(name.data());
  ASSERT_GE(made, 0);
  ::close(made);
  disk d;
  d.install("f", filled(10000, 'x'));
  d.copy_to_real("f", name);
  d.install_from_real(name, "g");
  std::filesystem::remove(name);
  EXPECT_EQ(d.durable_bytes("g"), filled(10000, 'x'));
  EXPECT_THROW(d.install_from_real(name, "g"), error);
}

TEST(sim_disk_fault, threads_may_share_it) {
  disk d;
  d.install("f", filled(64 * 1024, '.'));
  constexpr std::uint64_t rounds = 200;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&d, t] {
      const auto f = d.open("f", access::read_write);
      for (std::uint64_t i = 0; i < rounds; ++i) {
        f->write_at(t * 8192 + i, as_bytes("x"));
        write_durably(*f, t * 8192 + 4096 + i, as_bytes("y"));
        if (i % 16 == 0) f->sync();
      }
      f->sync();
    });
  }
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    const auto left = d.crash(seed);
    left->open("f", access::read_write)->write_at(0, as_bytes("z"));
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(d.operations(), 3 * (2 * rounds + 14));
  EXPECT_EQ(d.durable_bytes("f"), d.current_bytes("f"));
}

}  // namespace
}  // namespace tenure::sim
