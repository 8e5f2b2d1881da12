// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the simulated disk keeps and what it loses. The crash tests of everything else are worth as much as these.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "os/sim_disk_helpers.hpp"

namespace tenure::sim {
namespace {

using os::access;
using os::lock_kind;

// --- What is durable ---

TEST(sim_disk, written_bytes_are_seen_but_durable_only_after_sync) {
  disk d;
  d.install("f", filled(1000, '.'));
  const auto f = d.open("f", access::read_write);
  f->write_at(10, as_bytes("abc"));
  EXPECT_EQ(read_text(*f, 9, 5), ".abc.");
  EXPECT_EQ(d.current_bytes("f")[10], std::byte{'a'});
  EXPECT_EQ(d.durable_bytes("f"), filled(1000, '.'));
  EXPECT_EQ(after(d, "f", policy::drop_all), std::string(1000, '.'));
  EXPECT_EQ(after(d, "f", policy::keep_all), as_text(d.current_bytes("f")));
  EXPECT_EQ(d.unsynced("f"), 1u);
  f->sync();
  EXPECT_EQ(d.unsynced("f"), 0u);
  EXPECT_EQ(d.durable_bytes("f"), d.current_bytes("f"));
  EXPECT_EQ(outcomes(d, "f").size(), 1u);
}

TEST(sim_disk, closing_a_file_saves_nothing) {
  disk d;
  d.install("f", filled(10, '.'));
  d.open("f", access::read_write)->write_at(0, as_bytes("abc"));
  EXPECT_EQ(after(d, "f", policy::drop_all), "..........");
}

TEST(sim_disk, sync_saves_only_its_own_file) {
  disk d;
  d.install("f", filled(4, '.'));
  d.install("g", filled(4, '.'));
  const auto f = d.open("f", access::read_write);
  const auto g = d.open("g", access::read_write);
  f->write_at(0, as_bytes("f"));
  g->write_at(0, as_bytes("g"));
  g->sync();
  EXPECT_EQ(after(d, "f", policy::drop_all), "....");
  EXPECT_EQ(after(d, "g", policy::drop_all), "g...");
}

TEST(sim_disk, several_buffers_are_one_write) {
  disk d;
  d.install("f", filled(8, '.'));
  const auto f = d.open("f", access::read_write);
  const std::array<os::const_bytes, 3> parts{as_bytes("ab"), as_bytes(""), as_bytes("cd")};
  f->write_all_at(2, parts);
  EXPECT_EQ(as_text(d.current_bytes("f")), "..abcd..");
  EXPECT_EQ(d.unsynced("f"), 1u);
  f->write_durably_at(0, parts);
  EXPECT_EQ(as_text(d.durable_bytes("f")), "abcd....");
}

TEST(sim_disk, a_durable_write_saves_its_bytes_and_nothing_else) {
  disk d;
  d.install("f", filled(12, '.'));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("abcdefgh"));
  write_durably(*f, 3, as_bytes("DD"));
  EXPECT_EQ(as_text(d.current_bytes("f")), "abcDDfgh....");
  EXPECT_EQ(after(d, "f", policy::drop_all), "...DD.......");
  // The earlier write must not come back over it.
  for (const std::string& found : outcomes(d, "f")) EXPECT_EQ(found.substr(3, 2), "DD");
  EXPECT_EQ(after(d, "f", policy::keep_all), "abcDDfgh....");
  EXPECT_EQ(outcomes(d, "f").size(), 4u);  // the two remaining parts, independently
  f->sync();
  EXPECT_EQ(after(d, "f", policy::drop_all), "abcDDfgh....");
  EXPECT_EQ(d.weak_durable_writes(), 0u);
}

TEST(sim_disk, a_durable_write_beyond_the_durable_size_waits_for_sync) {
  disk d;
  d.install("f", filled(4096, '.'));
  const auto f = d.open("f", access::read_write);
  f->write_at(4096, filled(4096, '0'));
  write_durably(*f, 4000, filled(200, 'D'));
  EXPECT_EQ(d.weak_durable_writes(), 1u);
  EXPECT_EQ(after(d, "f", policy::drop_all), std::string(4000, '.') + std::string(96, 'D'));
  f->sync();
  EXPECT_EQ(after(d, "f", policy::drop_all),
            std::string(4000, '.') + std::string(200, 'D') + std::string(8192 - 4200, '0'));
  write_durably(*f, 8000, as_bytes("E"));
  EXPECT_EQ(d.durable_bytes("f")[8000], std::byte{'E'});
  EXPECT_EQ(d.weak_durable_writes(), 1u);
}

TEST(sim_disk, a_durable_write_to_reserved_but_unwritten_space_waits_for_sync) {
  disk d;
  d.install("f", {});
  const auto f = d.open("f", access::read_write);
  f->allocate(0, 8192);
  f->sync();
  EXPECT_EQ(f->size(), 8192u);
  write_durably(*f, 5000, as_bytes("D"));
  EXPECT_EQ(d.durable_bytes("f")[5000], std::byte{0});
  f->sync();
  EXPECT_EQ(d.durable_bytes("f")[5000], std::byte{'D'});
  write_durably(*f, 5001, as_bytes("E"));
  EXPECT_EQ(d.durable_bytes("f")[5001], std::byte{'E'});
  EXPECT_EQ(d.weak_durable_writes(), 1u);
}

TEST(sim_disk, a_durable_write_after_an_unsynced_truncation_waits_for_sync) {
  disk d;
  d.install("f", filled(8, '.'));
  const auto f = d.open("f", access::read_write);
  f->resize(2);
  f->resize(8);
  write_durably(*f, 1, as_bytes("DDD"));
  EXPECT_EQ(after(d, "f", policy::drop_all), ".D......");
  EXPECT_EQ(after(d, "f", policy::keep_all), std::string(".DDD\0\0\0\0", 8));
}

TEST(sim_disk, sizes_are_pending_until_sync) {
  disk d;
  d.install("f", filled(5, 'x'));
  const auto f = d.open("f", access::read_write);
  f->resize(2);
  f->resize(4);
  f->allocate(4, 2);
  EXPECT_EQ(as_text(d.current_bytes("f")), std::string("xx\0\0\0\0", 6));
  EXPECT_EQ(after(d, "f", policy::drop_all), "xxxxx");
  EXPECT_EQ(outcomes(d, "f"),
            (std::set<std::string>{"xxxxx", "xx", std::string("xx\0\0", 4), std::string("xx\0\0\0\0", 6)}));
  f->allocate(0, 3);  // never shrinks
  EXPECT_EQ(f->size(), 6u);
  f->sync();
  EXPECT_EQ(as_text(d.durable_bytes("f")), std::string("xx\0\0\0\0", 6));
}

TEST(sim_disk, a_file_that_shrinks_and_grows_is_zero_in_between) {
  disk d;
  d.install("f", filled(20000, 'x'));
  const auto f = d.open("f", access::read_write);
  f->resize(100);
  f->resize(20000);
  const std::string expected = std::string(100, 'x') + std::string(19900, '\0');
  EXPECT_EQ(as_text(d.current_bytes("f")), expected);
  f->sync();
  EXPECT_EQ(as_text(d.durable_bytes("f")), expected);
  EXPECT_EQ(after(d, "f", policy::drop_all), expected);  // the end of it is a hole
}

TEST(sim_disk, an_append_can_lose_its_bytes_its_size_or_both) {
  disk d;
  d.install("f", as_bytes("x"));
  const auto f = d.open("f", access::read_write);
  f->write_at(1, as_bytes("y"));
  EXPECT_EQ(outcomes(d, "f"), (std::set<std::string>{"x", "xy", std::string("x\0", 2)}));
}

TEST(sim_disk, bytes_written_after_a_lost_truncation_are_lost) {
  disk d;
  d.install("f", as_bytes("oooo"));
  const auto f = d.open("f", access::read_write);
  f->resize(1);
  f->write_at(1, as_bytes("n"));
  EXPECT_EQ(outcomes(d, "f"), (std::set<std::string>{"oooo", "o", "on", std::string("o\0", 2)}));  // never "onoo"
}

// --- Names ---

TEST(sim_disk, a_new_file_is_lost_until_its_directory_is_synced) {
  disk d;
  const auto f = d.create("dir/f", 0600);
  f->write_at(0, as_bytes("abc"));
  f->sync();
  EXPECT_TRUE(d.exists("dir/f"));
  EXPECT_EQ(d.unsynced_names(), 1u);
  EXPECT_EQ(outcomes(d, "dir/f", policy::drop_all), std::set<std::string>{"(none)"});
  EXPECT_EQ(outcomes(d, "dir/f", policy::keep_all), std::set<std::string>{"abc"});
  EXPECT_EQ(outcomes(d, "dir/f"), (std::set<std::string>{"(none)", "abc"}));
  d.sync_directory_of("other/f");
  EXPECT_TRUE(d.durable_names().empty());
  d.sync_directory_of("dir/anything");
  EXPECT_EQ(d.durable_names(), std::vector<std::string>{"dir/f"});
  EXPECT_EQ(after(d, "dir/f", policy::drop_all), "abc");
}

TEST(sim_disk, a_directory_sync_does_not_save_contents) {
  disk d;
  const auto f = d.create("f", 0600);
  f->write_at(0, as_bytes("abc"));
  d.sync_directory_of("f");
  EXPECT_EQ(after(d, "f", policy::drop_all), "");
}

TEST(sim_disk, a_rename_is_whole_and_pending) {
  disk d;
  d.install("f", as_bytes("old"));
  d.install("tmp", as_bytes("new"));
  const auto f = d.open("f", access::read_only);
  d.rename("tmp", "f");
  EXPECT_EQ(as_text(d.current_bytes("f")), "new");
  EXPECT_FALSE(d.exists("tmp"));
  EXPECT_EQ(read_text(*f, 0, 3), "old");
  EXPECT_FALSE(f->is_current());
  EXPECT_TRUE(d.open("./f", access::read_only)->is_current());
  EXPECT_EQ(outcomes(d, "f"), (std::set<std::string>{"old", "new"}));
  EXPECT_EQ(outcomes(d, "tmp"), (std::set<std::string>{"new", "(none)"}));
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto left = d.crash(seed);
    EXPECT_NE(as_text(left->current_bytes("f")) == "new", left->exists("tmp"));
  }
  d.sync_directory_of("f");
  EXPECT_EQ(after(d, "f", policy::drop_all), "new");
  EXPECT_EQ(outcomes(d, "tmp"), std::set<std::string>{"(none)"});
}

TEST(sim_disk, a_removal_is_pending) {
  disk d;
  d.install("f", as_bytes("abc"));
  const auto f = d.open("f", access::read_only);
  d.remove("f");
  EXPECT_FALSE(d.exists("f"));
  EXPECT_FALSE(f->is_current());
  EXPECT_EQ(read_text(*f, 0, 3), "abc");
  EXPECT_EQ(outcomes(d, "f"), (std::set<std::string>{"abc", "(none)"}));
  d.sync_directory_of("f");
  EXPECT_EQ(outcomes(d, "f"), std::set<std::string>{"(none)"});
}

TEST(sim_disk, names_can_survive_out_of_order_but_not_without_what_they_build_upon) {
  disk d;
  (void)d.create("a", 0600);
  (void)d.create("b", 0600);
  d.rename("b", "c");
  std::set<std::vector<std::string>> found;
  for (std::uint64_t seed = 0; seed < 400; ++seed) found.insert(d.crash(seed)->names());
  const std::set<std::vector<std::string>> legal{{}, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"a", "c"}};
  EXPECT_EQ(found, legal);
}

TEST(sim_disk, a_reused_name_never_costs_the_file_that_had_it) {
  disk d;
  d.install("f", as_bytes("old"));
  d.install("tmp", as_bytes("new"));
  d.rename("tmp", "f");
  (void)d.create("tmp", 0600);
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto left = d.crash(seed);
    const std::string tmp = left->exists("tmp") ? as_text(left->current_bytes("tmp")) : "(none)";
    found.insert(as_text(left->current_bytes("f")) + "," + tmp);
  }
  EXPECT_EQ(found, (std::set<std::string>{"old,new", "new,(none)", "new,"}));
}

TEST(sim_disk, a_directory_sync_takes_along_what_it_builds_upon) {
  disk d;
  (void)d.create("x/tmp", 0600);
  (void)d.create("x/else", 0600);
  d.rename("x/tmp", "y/f");
  d.sync_directory_of("y/f");
  EXPECT_EQ(d.durable_names(), std::vector<std::string>{"y/f"});
}

TEST(sim_disk, opening_and_creating_check_names) {
  disk d;
  EXPECT_EQ(errno_of([&] { (void)d.open("f", access::read_only); }), ENOENT);
  EXPECT_EQ(errno_of([&] { d.remove("f"); }), ENOENT);
  EXPECT_EQ(errno_of([&] { d.rename("f", "g"); }), ENOENT);
  (void)d.create("f", 0600);
  EXPECT_EQ(errno_of([&] { (void)d.create("f", 0600); }), EEXIST);
  const auto f = d.open("f", access::read_only);
  EXPECT_EQ(errno_of([&] { f->write_at(0, as_bytes("x")); }), EBADF);
  EXPECT_EQ(errno_of([&] { f->resize(1); }), EBADF);
}

// --- Crashes ---

TEST(sim_disk, writes_survive_independently) {
  disk d;
  d.install("f", as_bytes("..."));
  const auto f = d.open("f", access::read_write);
  f->write_at(0, as_bytes("a"));
  f->write_at(1, as_bytes("b"));
  f->write_at(2, as_bytes("c"));
  EXPECT_EQ(outcomes(d, "f"),
            (std::set<std::string>{"...", "a..", ".b.", "..c", "ab.", "a.c", ".bc", "abc"}));  // any reordering
  f->write_at(0, as_bytes("A"));
  for (const std::string& found : outcomes(d, "f")) EXPECT_NE(std::string(".aA").find(found[0]), std::string::npos);
}

TEST(sim_disk, files_survive_independently_also_after_an_earlier_crash) {
  disk first;
  first.install("f", as_bytes("."));
  const auto d = first.crash(1);
  d->install("g", as_bytes("."));
  d->open("f", access::read_write)->write_at(0, as_bytes("x"));
  d->open("g", access::read_write)->write_at(0, as_bytes("x"));
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto left = d->crash(seed);
    found.insert(as_text(left->current_bytes("f")) + as_text(left->current_bytes("g")));
  }
  EXPECT_EQ(found, (std::set<std::string>{"..", "x.", ".x", "xx"}));
}

TEST(sim_disk, a_torn_write_is_torn_at_sectors) {
  disk d;
  d.install("f", filled(2048, '.'));
  const auto f = d.open("f", access::read_write);
  f->write_at(300, filled(1300, 'n'));  // parts of sectors 0 and 3, all of 1 and 2
  std::set<std::string> patterns;
  for (const std::string& found : outcomes(d, "f", policy::random, 2000)) {
    std::string pattern;
    for (const auto& [begin, end] : {std::pair{300, 512}, {512, 1024}, {1024, 1536}, {1536, 1600}}) {
      const std::string part = found.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      ASSERT_EQ(part.find_first_not_of(part[0]), std::string::npos) << "torn inside a sector";
      pattern += part[0];
    }
    EXPECT_EQ(found.substr(0, 300), std::string(300, '.'));
    EXPECT_EQ(found.substr(1600), std::string(448, '.'));
    patterns.insert(pattern);
  }
  EXPECT_EQ(patterns.size(), 16u);
}

TEST(sim_disk, garbage_appears_only_on_request_and_only_where_it_was_written) {
  disk d;
  d.install("f", filled(2048, '.'));
  const auto f = d.open("f", access::read_write);
  f->write_at(100, filled(1000, 'n'));
  for (const std::string& found : outcomes(d, "f")) EXPECT_EQ(found.find_first_not_of(".n"), std::string::npos);
  bool garbage = false;
  for (const std::string& found : outcomes(d, "f", policy::random_with_garbage)) {
    garbage |= found.find_first_not_of(".n") != std::string::npos;
    EXPECT_EQ(found.substr(0, 100), std::string(100, '.'));
    EXPECT_EQ(found.substr(1100), std::string(948, '.'));
  }
  EXPECT_TRUE(garbage);
}

TEST(sim_disk, the_same_seed_leaves_the_same_disk) {
  disk d;
  d.install("f", filled(20000, '.'));
  const auto f = d.open("f", access::read_write);
  for (std::uint64_t i = 0; i < 30; ++i) f->write_at(i * 600, filled(700, 'n'));
  (void)d.create("g", 0600);
  std::set<std::string> all;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto one = d.crash(seed);
    const auto other = d.crash(seed);
    EXPECT_EQ(one->current_bytes("f"), other->current_bytes("f"));
    EXPECT_EQ(one->names(), other->names());
    all.insert(as_text(one->current_bytes("f")));
  }
  EXPECT_GT(all.size(), 15u);
}

TEST(sim_disk, a_crash_copies_and_the_copy_is_a_disk_of_its_own) {
  disk d(512);
  d.install("f", as_bytes("...."));
  const auto f = d.open("f", access::read_write);
  ASSERT_TRUE(f->try_lock(lock_kind::exclusive));
  d.inject({.count = for_ever});
  const auto left = d.crash(1, policy::keep_all);
  d.clear_faults();
  const auto g = left->open("f", access::read_write);
  EXPECT_EQ(g->block_size(), 512u);
  EXPECT_TRUE(g->try_lock(lock_kind::exclusive));
  EXPECT_EQ(left->operations(), 0u);
  g->write_at(0, as_bytes("g"));
  g->sync();
  f->write_at(1, as_bytes("f"));
  f->sync();
  EXPECT_EQ(as_text(d.durable_bytes("f")), ".f..");
  EXPECT_EQ(as_text(left->durable_bytes("f")), "g...");
  EXPECT_EQ(after(*left, "f", policy::drop_all), "g...");  // a second crash
}

TEST(sim_disk, files_outlive_the_disk) {
  auto d = std::make_unique<disk>();
  const auto f = d->create("f", 0600);
  d.reset();
  f->write_at(0, as_bytes("abc"));
  EXPECT_EQ(read_text(*f, 0, 9), "abc");
}

// The oracle: a slow model of one file. Whatever a crash leaves is explained by the last synced contents and the writes
// since, and a crash that drops all is exactly what was acknowledged.
TEST(sim_disk, random_histories_against_a_model) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t state = seed;
    const auto below = [&](std::uint64_t bound) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % bound;
    };
    constexpr std::size_t size = 10000;
    disk d;
    d.install("f", filled(size, 'a'));
    const auto f = d.open("f", access::read_write);
    std::string now(size, 'a');
    std::vector<std::set<char>> possible(size, {'a'});  // by byte; more than one: pending
    std::string durable = now;
    for (int step = 0; step < 40; ++step) {
      const char with = static_cast<char>('b' + step % 20);
      const std::size_t length = 1 + below(3000);
      const std::size_t offset = below(size - length);
      const auto kind = below(5);
      if (kind == 0) {
        f->sync();
        durable = now;
        for (std::size_t i = 0; i < size; ++i) possible[i] = {now[i]};
        continue;
      }
      now.replace(offset, length, length, with);
      if (kind == 1) {
        write_durably(*f, offset, filled(length, with));
        durable.replace(offset, length, length, with);
        for (std::size_t i = offset; i < offset + length; ++i) possible[i] = {with};
      } else {
        f->write_at(offset, filled(length, with));
        for (std::size_t i = offset; i < offset + length; ++i) possible[i].insert(with);
      }
      ASSERT_EQ(as_text(d.current_bytes("f")), now);
      ASSERT_EQ(as_text(d.durable_bytes("f")), durable);
      ASSERT_EQ(after(d, "f", policy::drop_all), durable);
      ASSERT_EQ(after(d, "f", policy::keep_all), now);
      const std::string left = as_text(d.crash(below(1000000))->current_bytes("f"));
      ASSERT_EQ(left.size(), size);
      for (std::size_t i = 0; i < size; ++i) ASSERT_TRUE(possible[i].contains(left[i])) << i;
    }
  }
}

}  // namespace
}  // namespace tenure::sim
