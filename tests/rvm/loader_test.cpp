// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The segment loader: the same addresses every time, never over anything, and what a damaged load map does.
#include <tenure/loader.hpp>

#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "log/checksum.hpp"
#include "os/virtual_memory.hpp"
#include "rvm/heap_test_support.hpp"
#include "support/sanitizers.hpp"

namespace tenure::rvm {
namespace {

constexpr const char* segment_file = "/town.seg";
constexpr std::uint64_t mib = 1 << 20;

constexpr std::uint64_t first_home = support::thread_sanitizer ? 0x550000000000 : 0x110000000000;
constexpr std::uint64_t last_home = support::thread_sanitizer ? 0x555555554000 : 0x500000000000;

std::uint64_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

class loader_test : public ::testing::Test {
 protected:
  sim::disk disk;
  std::unique_ptr<memory> m = opened();
  std::unique_ptr<memory> opened() {
    options how = heap_world::quiet();
    how.disk = &disk;
    return std::make_unique<memory>("/town.log", how);
  }
  void reopen() {
    m->close();
    m = opened();
  }
  // Stores a load map with a sound checksum whose byte `at` has another value, and sees what loading says.
  template <class T>
  void expect_refused(errc code, std::initializer_list<std::string> words, std::size_t at, T value, bool sound = true) {
    reopen();
    {
      region map = m->map(segment_file, {.length = 65536});
      m->transact([&](transaction& tx) {
        tx.modify(map.data() + at, &value, sizeof value);
        if (!sound) return;
        tx.modify(map.at<std::uint32_t>(28), 0);
        tx.modify(map.at<std::uint32_t>(28), crc32c({map.data(), 4096}));
      });
      map.unmap();
    }
    expect_error(code, words, [&] { loader{*m, segment_file}; });
  }
};

TEST_F(loader_test, same_address_every_time) {
  std::byte *home = nullptr, *streets = nullptr;
  {
    loader town(*m, segment_file, {.length = 4 * mib});
    EXPECT_TRUE(town.created());
    home = town.home();
    EXPECT_GE(number(home), first_home);
    EXPECT_LT(number(home) + 4 * mib, last_home);
    EXPECT_EQ(number(home) % (1 << 30), 0u);
    region& area = town.add("streets", mib);
    streets = area.data();
    EXPECT_EQ(streets, home + loader::map_length);
    m->transact([&](transaction& tx) { tx.modify(area.at<std::byte*>(8), streets + 100); });
    town.add("houses");
    EXPECT_EQ(town["houses"].size(), 3 * mib);
    EXPECT_EQ(town["houses"].data(), streets + mib);
  }
  for (int i = 0; i < 3; ++i) {
    reopen();
    loader town(*m, segment_file, {.length = 4 * mib});
    EXPECT_FALSE(town.created());
    EXPECT_EQ(town.home(), home);
    EXPECT_TRUE(town.contains("houses"));
    EXPECT_EQ(town["streets"].data(), streets);
    EXPECT_EQ(town["streets"].at<std::byte*>(8), streets + 100);
    const auto entries = town.entries();
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].name, "streets");
    EXPECT_EQ(entries[1].offset, loader::map_length + mib);
    EXPECT_EQ(entries[1].address, streets + mib);
  }
}

TEST_F(loader_test, homes_are_drawn_at_random) {
  std::set<std::byte*> homes;
  for (int i = 0; i < 8; ++i) homes.insert(loader(*m, "/" + std::to_string(i) + ".seg", {.length = mib}).home());
  EXPECT_GE(homes.size(), 3u) << "not all at one place, and not at two";
}

TEST_F(loader_test, chosen_home_and_addresses) {
  auto* const home = reinterpret_cast<std::byte*>(0x551234560000);
  auto* const elsewhere = reinterpret_cast<std::byte*>(0x552000000000);
  for (int i = 0; i < 2; ++i) {
    loader town(*m, segment_file, {.length = mib, .home = home});
    EXPECT_EQ(town.home(), home);
    if (i == 0) town.add("there", 65536, elsewhere), town.add("here");
    EXPECT_EQ(town["there"].data(), elsewhere);
    EXPECT_EQ(town["here"].data(), home + 2 * 65536);
    if (i == 0) reopen();
  }
}

TEST_F(loader_test, never_over_something_that_is_there) {
  std::byte* home = nullptr;
  {
    loader town(*m, segment_file, {.length = mib});
    home = town.home();
    town.add("streets");
  }
  reopen();
  const std::size_t page = os::page_size();
  auto* const squatter = static_cast<std::byte*>(os::map_anonymous(home + 10 * page + loader::map_length, page));
  std::memset(squatter, 0x77, page);
  expect_error(errc::address_taken, {segment_file, "streets", "anonymous memory"}, [&] { loader{*m, segment_file}; });
  expect_error(errc::address_taken, {"/other.seg", "anonymous memory"},
               [&] { loader(*m, "/other.seg", {.length = mib, .home = home}); });
  EXPECT_EQ(squatter[page - 1], std::byte{0x77});
  os::unmap(squatter, page);
  EXPECT_TRUE(loader(*m, segment_file).contains("streets"));
  // What was refused a home has not got one yet; it may be made elsewhere.
  EXPECT_TRUE(loader(*m, "/other.seg", {.length = mib}).created());
}

TEST_F(loader_test, impossible_homes) {
  expect_error(errc::misaligned, {"0x551000000010"},
               [&] { loader(*m, segment_file, {.length = mib, .home = reinterpret_cast<void*>(0x551000000010)}); });
  expect_error(errc::address_taken, {"do not exist"},
               [&] { loader(*m, segment_file, {.length = mib, .home = reinterpret_cast<void*>(0x7ffffffff000)}); });
  if (support::thread_sanitizer)
    expect_error(errc::address_taken, {"ThreadSanitizer"},
                 [&] { loader(*m, segment_file, {.length = mib, .home = reinterpret_cast<void*>(0x200000000000)}); });
}

TEST_F(loader_test, regions_come_and_go) {
  {
    loader town(*m, segment_file, {.length = mib});
    region& a = town.add("a", 65536);
    town.add("b", 1);
    EXPECT_EQ(town["b"].size(), os::page_size());
    EXPECT_EQ(&town["a"], &a);
    expect_error(errc::bad_option, {"one of that name"}, [&] { town.add("a", 65536); });
    expect_error(errc::bad_option, {"1 to 31"}, [&] { town.add("", 65536); });
    expect_error(errc::bad_option, {"1 to 31"}, [&] { town.add(std::string(32, 'x'), 65536); });
    expect_error(errc::bad_option, {"\"c\""}, [&] { static_cast<void>(town["c"]); });
    expect_error(errc::bad_option, {"\"c\""}, [&] { town.remove("c"); });
    expect_error(errc::segment_too_short, {"2097152"}, [&] { town.add("c", 2 * mib); });
    transaction tx = m->begin();
    tx.modify(a.at<int>(0), 5);
    expect_error(errc::region_busy, {segment_file}, [&] { town.remove("a"); });
    EXPECT_TRUE(town.contains("a"));
    tx.commit();
    town.remove("a");
    EXPECT_FALSE(town.contains("a"));
    EXPECT_EQ(town.add("again", 65536).at<int>(0), 5) << "the first gap is used, and keeps what was there";
    for (std::size_t i = 2; i < loader::max_entries; ++i) town.add("many" + std::to_string(i), 1);
    expect_error(errc::bad_option, {"full"}, [&] { town.add("too many", 1); });
  }
  reopen();
  loader town(*m, segment_file);
  EXPECT_EQ(town.entries().size(), loader::max_entries);
  EXPECT_FALSE(town.contains("a"));
  EXPECT_EQ(town["again"].at<int>(0), 5);
}

TEST_F(loader_test, missing_and_foreign_segments) {
  EXPECT_THROW(loader(*m, segment_file), error);
  m->create_segment("/zero.seg", {.length = mib});
  expect_error(errc::not_a_segment, {"no load map"}, [&] { loader(*m, "/zero.seg"); });
  EXPECT_TRUE(loader(*m, "/zero.seg", {.length = mib}).created());
  {
    region other = m->map("/other.seg", {.create_length = mib});
    m->transact([&](transaction& tx) { tx.modify(other.at<int>(0), 5); });
  }
  expect_error(errc::not_a_segment, {"begin with something else"}, [&] { loader(*m, "/other.seg", {.length = mib}); });
  expect_error(errc::segment_too_short, {}, [&] {
    m->create_segment("/short.seg", {.length = 4096});
    loader(*m, "/short.seg");
  });
}

TEST_F(loader_test, damaged_load_maps) {
  loader(*m, segment_file, {.length = mib}).add("streets", 65536);
  expect_refused(errc::damaged, {segment_file, "checksum"}, 16, 'x', false);
  expect_refused(errc::damaged, {"checksum"}, 4095, 'x', false);
  expect_refused(errc::damaged, {"entries"}, 24, std::uint32_t{64});
  expect_refused(errc::damaged, {"no proper name"}, 24, std::uint32_t{2});
  expect_refused(errc::damaged, {"streets", "4294967296"}, 64 + 40, std::uint64_t{1} << 32);
}

TEST_F(loader_test, more_damaged_load_maps) {
  loader(*m, segment_file, {.length = mib}).add("streets", 65536);
  expect_refused(errc::damaged, {"does not lie in"}, 64 + 32, std::uint64_t{4096});
  expect_refused(errc::wrong_version, {"version 7"}, 8, std::uint32_t{7});
  expect_refused(errc::wrong_version, {"byte order"}, 12, std::uint32_t{0x04030201});
  expect_refused(errc::not_a_segment, {"something else"}, 0, std::uint64_t{1});
}

TEST_F(loader_test, a_heap_in_a_segment) {
  struct person {
    int age;
    person* mother;
  };
  std::byte* at = nullptr;
  {
    loaded_heap town(*m, segment_file, {.length = mib});
    EXPECT_TRUE(town.created());
    m->transact([&](transaction& tx) {
      auto* ada = town->make<person>(tx, 36, nullptr);
      town->set_root(tx, 0, town->make<person>(tx, 10, ada));
    });
    at = town.segment().home();
  }
  reopen();
  loaded_heap town(*m, segment_file);
  EXPECT_FALSE(town.created());
  EXPECT_EQ(town.segment().home(), at);
  EXPECT_EQ(town->root<person>(0)->mother->age, 36);
  town->check();
}

// A crash anywhere while a heap is made, or objects are added to it: opening again takes it up where it was.
TEST(loader_crash, at_every_operation) {
  const auto work = [](sim::disk& disk, int& acknowledged) {
    options how = heap_world::quiet();
    how.log.size = 1 << 16;
    how.disk = &disk;
    memory m("/town.log", how);
    loaded_heap town(m, segment_file, {.length = 1 << 17});
    const int* number = town->root<int>(0);
    EXPECT_GE(number == nullptr ? 0 : *number, acknowledged);
    town->check();
    for (int i = 0; i < 3; ++i) {
      m.transact([&](transaction& tx) {
        int* next = town->make<int>(tx, (number == nullptr ? 0 : *number) + 1);
        if (number != nullptr) town->destroy(tx, const_cast<int*>(number));
        town->set_root(tx, 0, next);
        number = next;
      });
      acknowledged = *number;
    }
    EXPECT_EQ(town->stats().objects, 1u);
    m.close();
  };
  std::uint64_t operations = 0;
  {
    sim::disk whole;
    int acknowledged = 0;
    work(whole, acknowledged);
    operations = whole.operations();
  }
  for (std::uint64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE("crash at operation " + std::to_string(at));
    sim::disk disk;
    disk.crash_at(at);
    int acknowledged = 0;
    try {
      work(disk, acknowledged);
    } catch (const sim::power_failure&) {
    }
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto left = disk.crash(seed, seed == 0 ? sim::policy::drop_all : sim::policy::random);
      int expected = acknowledged;
      try {
        work(*left, expected);
      } catch (const std::exception& e) {
        FAIL() << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace tenure::rvm
