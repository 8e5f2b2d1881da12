// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores and logs that released versions have written: those of format 2 open, those of format 1 are upgraded. Each object is
// compared with what the program that made it has put there (fixtures/content.hpp).
#include <tenure/rvm.hpp>

#include "support/expect_error.hpp"
#include "support/temp_dir.hpp"
#include "upgrade/unpacked.hpp"

namespace tenure::upgrade_tests {
namespace {

using support::expect_error;
using support::temp_dir;

// What programs do with a store: objects are added and destroyed, types are added, databases are.
void use(store& s, int round) {
  const auto marker = "round " + std::to_string(round);
  s.transact([&] {
    auto& main = s.root<fixtures::drawing>("drawing");
    main.texts[500000 + round] = tenure::string(marker);
    main.other->title = tenure::string(main.other->title);
    auto& more = s.root<tenure::vector<fixtures::point*>>("more");
    auto& shapes = s.find_database("parts")->root<tenure::vector<fixtures::shape*>>("more shapes");
    for (int n = 0; n < 3000; ++n) more.push_back(s.make<fixtures::point>(fixtures::point{n, round, main.first}));
    for (int n = 0; n < 100; ++n) shapes.push_back(fixtures::make_shape(*s.find_database("parts"), n));
  });
  s.transact([&] {
    auto& more = s.root<tenure::vector<fixtures::point*>>("more");
    for (int n = 0; n < 1000; ++n) {
      s.destroy(more.back());
      more.pop_back();
    }
    (void)s.root<std::int64_t>("another type " + marker);
  });
}

void expect_used(const store& s, int rounds) {
  const auto* const main = s.find_root<fixtures::drawing>("drawing");
  const auto* const more = s.find_root<tenure::vector<fixtures::point*>>("more");
  ASSERT_NE(more, nullptr);
  ASSERT_EQ(more->size(), static_cast<std::size_t>(2000 * rounds));
  for (std::size_t n = 0; n < more->size(); ++n) {
    EXPECT_EQ((*more)[n]->next, main->first);
    if ((*more)[n]->x != static_cast<std::int64_t>(n % 2000)) FAIL() << n;
  }
  const auto* const shapes = s.find_database("parts")->find_root<tenure::vector<fixtures::shape*>>("more shapes");
  ASSERT_EQ(shapes->size(), static_cast<std::size_t>(100 * rounds));
  for (std::size_t n = 0; n < shapes->size(); n += 2)
    EXPECT_EQ((*shapes)[n]->area(), static_cast<std::int64_t>(n % 100 * (n % 100)));
}

void use_and_reopen(const std::string& path, bool was_changed) {
  for (int round = 0; round < 3; ++round) {
    store s(path, opening());
    expect_whole(s, was_changed);
    if (round != 0) expect_used(s, round);
    use(s, round);
    expect_whole(s, was_changed);
    expect_used(s, round + 1);
  }
  store_options reading = opening();
  reading.mode = rvm::open_mode::read_only;
  const store s(path, reading);
  expect_whole(s, was_changed);
  expect_used(s, 3);
}

TEST(fixtures_of_format_2, open) {
  const temp_dir dir;
  unpack(fixture("2-closed"), dir / "closed");
  use_and_reopen(dir / "closed", false);
}

TEST(fixtures_of_format_2, with_changes_in_the_log) {
  const temp_dir dir;
  unpack(fixture("2-killed"), dir / "killed");
  expect_error(errc::copied, {dir / "killed"}, [&] { (void)store(dir / "killed", opening()); });
  store_options how = opening();
  how.memory.copied = rvm::copied_files::adopt;
  const store s(dir / "killed", how);
  EXPECT_EQ(s.recovery().transactions, 40U);
  expect_whole(s, true);
}

TEST(fixtures_of_format_2, over_several_zones) {
  const temp_dir dir;
  unpack(fixture("2-long"), dir / "long");
  const store s(dir / "long", opening());
  EXPECT_EQ(fixtures::wrong_in_stretch(s), "");
  EXPECT_TRUE(s.verify().empty());
}

TEST(fixtures_of_format_2, of_recoverable_memory) {
  sim::disk disk;
  unpack(fixture("2-memory"), disk, "/m");
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.disk = &disk;
  how.copied = rvm::copied_files::adopt;
  rvm::memory m("/m/log", how);
  EXPECT_EQ(fixtures::wrong_in_segment(m.map("/m/numbers").data(), 200), "");
  EXPECT_EQ(fixtures::wrong_in_segment(m.map("/m/raw", {.raw = true}).data(), 50), "");
}

TEST(fixtures_of_format_1, are_refused_with_what_to_do) {
  const temp_dir dir;
  unpack(fixture("1-closed"), dir / "closed");
  unpack(fixture("1-killed"), dir / "killed");
  unpack(fixture("1-memory"), dir / "memory");
  for (const char* name : {"/closed", "/killed"})
    for (const rvm::open_mode mode :
         {rvm::open_mode::open, rvm::open_mode::open_or_create, rvm::open_mode::read_only}) {
      store_options how = opening();
      how.mode = mode;
      expect_error(errc::wrong_version, {dir.path() + name, "format version 1", "tenure upgrade"},
                   [&] { (void)store(dir.path() + name, how); });
    }
  expect_error(errc::wrong_version, {dir / "memory/log", "tenure upgrade"},
               [&] { rvm::memory m(dir / "memory/log", {}); });
}

TEST(fixtures_of_format_1, are_upgraded) {
  const temp_dir dir;
  unpack(fixture("1-closed"), dir / "old");
  const upgrade_report made = upgrade(dir / "old", dir / "new", {.verify = true});
  EXPECT_EQ(made.databases, 2U);
  EXPECT_EQ(made.transactions, 0U);
  use_and_reopen(dir / "new", false);
  // The original is as it was, and can be upgraded again.
  (void)upgrade(dir / "old/log", dir / "again");
  const store s(dir / "again", opening());
  expect_whole(s, false);
}

TEST(fixtures_of_format_1, are_upgraded_with_the_changes_in_their_log) {
  const temp_dir dir;
  unpack(fixture("1-killed"), dir / "old");
  EXPECT_EQ(upgrade(dir / "old", dir / "new").transactions, 40U);
  use_and_reopen(dir / "new", true);
}

TEST(fixtures_of_format_1, with_an_object_that_was_written_in_bulk) {
  const temp_dir dir;
  unpack(fixture("1-bulk"), dir / "old");
  (void)upgrade(dir / "old", dir / "new");
  {
    const store s(dir / "new", opening());
    EXPECT_EQ(fixtures::wrong_in_stretch(s, 12), "");
    EXPECT_TRUE(s.verify().empty());
  }
  unpack(fixture("2-bulk"), dir / "later");
  store_options how = opening();
  how.memory.copied = rvm::copied_files::adopt;
  const store s(dir / "later", how);
  EXPECT_EQ(fixtures::wrong_in_stretch(s, 12), "");
}

TEST(fixtures_of_format_1, with_an_object_over_several_zones) {
  const temp_dir dir;
  unpack(fixture("1-long"), dir / "old");
  (void)upgrade(dir / "old", dir / "new");
  for (int round = 0; round < 2; ++round) {
    store s(dir / "new", opening());
    EXPECT_EQ(fixtures::wrong_in_stretch(s), "");
    EXPECT_TRUE(s.verify().empty());
    auto& points = s.root<tenure::vector<fixtures::point*>>("points");
    s.transact([&] {
      for (int n = 0; n < 20000; ++n) points.push_back(s.make<fixtures::point>(fixtures::point{n, n, nullptr}));
    });
    EXPECT_TRUE(s.verify().empty());
  }
  store s(dir / "new", opening());
  // The space of the object that lay over several zones is used again.
  s.transact([&] {
    auto& all = s.root<fixtures::stretch>("stretch").numbers;
    all.clear();
    all.shrink_to_fit();
  });
  EXPECT_GT(s.trim(), std::uint64_t{79} << 20);
  s.transact([&] {
    auto& all = s.root<fixtures::stretch>("stretch").numbers;
    all.resize((std::size_t{70} << 20) / 8);
    all.back() = 7;
    auto& points = s.root<tenure::vector<fixtures::point*>>("points");
    for (int n = 0; n < 20000; ++n) points.push_back(s.make<fixtures::point>(fixtures::point{n, n, nullptr}));
  });
  EXPECT_TRUE(s.verify().empty());
  EXPECT_NO_THROW(check_store_at(reinterpret_cast<const void*>(s.default_database().home())));
}

// Objects of new zones lie in typed pages, those of old ones have headers.
TEST(fixtures_of_format_1, have_typed_pages_in_new_zones) {
  const temp_dir dir;
  unpack(fixture("1-closed"), dir / "old");
  (void)upgrade(dir / "old", dir / "new");
  store s(dir / "new", opening());
  const std::uint64_t home = s.default_database().home();
  const auto zone_of = [&](const void* at) { return (reinterpret_cast<std::uint64_t>(at) - home) >> 26; };
  auto& points = s.root<tenure::vector<fixtures::point*>>("points");
  for (int round = 0; points.empty() || zone_of(points.back()) == 0; ++round) {
    ASSERT_LT(round, 100);
    s.transact([&] {
      auto& filling = s.root<tenure::vector<std::int64_t>>("filling " + std::to_string(round));
      filling.resize((std::size_t{1} << 20) / 8);
      for (int n = 0; n < 5000; ++n) points.push_back(s.make<fixtures::point>(fixtures::point{n, round, nullptr}));
    });
  }
  const auto distance = [&](std::size_t n) {
    return reinterpret_cast<const char*>(points[n]) - reinterpret_cast<const char*>(points[n - 1]);
  };
  EXPECT_GE(distance(1), 32);
  EXPECT_EQ(distance(points.size() - 1), 24);
  expect_whole(s, false);
}

TEST(fixtures_of_format_1, of_recoverable_memory) {
  sim::disk disk;
  unpack(fixture("1-memory"), disk, "/old");
  const upgrade_report made = upgrade("/old/log", "/new", {.disk = &disk});
  EXPECT_EQ(made.transactions, 150U);
  EXPECT_EQ(made.files.size(), 2U);
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.disk = &disk;
  rvm::memory m("/new/log", how);
  EXPECT_FALSE(m.recovery().needed);
  EXPECT_TRUE(m.verify_segment("/new/numbers").empty());
  EXPECT_EQ(m.describe_segment("/new/numbers").max_length, 4 * fixtures::segment_length);
  m.grow_segment("/new/numbers", 3 * fixtures::segment_length);
  EXPECT_EQ(fixtures::wrong_in_segment(m.map("/new/numbers").data(), 200), "");
  EXPECT_EQ(fixtures::wrong_in_segment(m.map("/new/raw", {.raw = true}).data(), 50), "");
}

}  // namespace
}  // namespace tenure::upgrade_tests
