// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores in the order in which a program has used them.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/rewrite.hpp>
#include <tenure/tenure.hpp>

#include "log/manifest.hpp"
#include "os/access_trace.hpp"
#include "os/virtual_memory.hpp"
#include "rewrite/access_order.hpp"
#include "support/expect_error.hpp"
#include "support/temp_dir.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace access_order_test_types {

struct used {
  std::uint64_t id;
  std::uint64_t words[30];
};
struct uses {
  tenure::vector<used*> all;
};

}  // namespace access_order_test_types
using namespace access_order_test_types;

namespace {

class ordered_by_access : public ::testing::Test {
 protected:
  ordered_by_access() {
    store s(path, how);
    auto& all = s.root<uses>("uses").all;
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        all.push_back(s.make<used>());
        all.back()->id = n;
      }
    });
    s.close();
  }
  // Those that are used, in their order: few, everywhere, last ones first.
  static std::vector<std::uint64_t> chosen() {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t n = count - 7; n > 100; n -= 97) ids.push_back(n);
    return ids;
  }
  void record() {
    store_options reading = how;
    reading.mode = rvm::open_mode::read_only;
    reading.record_accesses = file;
    store s(path, reading);
    const uses& u = *s.find_root<uses>("uses");
    for (const std::uint64_t n : chosen()) ASSERT_EQ(u.all[n]->id, n);
    s.close();
  }
  [[nodiscard]] std::string log_id() const {
    std::string text;
    const rvm::identity id = rvm::manifest_file::open_unlocked(os::real_disk(), path + "/log").current().log_id;
    for (const std::byte byte : id) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(byte));
      text += digits;
    }
    return text;
  }
  // On how many pages those that are used lie.
  [[nodiscard]] std::size_t pages() const {
    store_options reading = how;
    reading.mode = rvm::open_mode::read_only;
    const store s(path, reading);
    expect_sound(s);
    const uses& u = *s.find_root<uses>("uses");
    std::set<std::uintptr_t> all;
    for (const std::uint64_t n : chosen()) {
      EXPECT_EQ(u.all[n]->id, n);
      all.insert(reinterpret_cast<std::uintptr_t>(u.all[n]) / 4096);
    }
    return all.size();
  }

  static constexpr std::uint64_t count = 5'000;
  temp_dir dir;
  const std::string path = dir / "store", file = dir / "accesses";
  store_options how = small_store();
};

// [heap.rewrite.access]
TEST_F(ordered_by_access, what_is_used_comes_first_and_in_that_order) {
  record();
  const std::size_t before = pages();
  EXPECT_EQ(before, chosen().size());  // each on a page of its own, beside others
  const rewrite_report done = compact(path, {.order = object_order::by_access, .accesses = file});
  EXPECT_GT(done.objects, count);
  // A page was used as a whole, so what lay beside comes along.
  EXPECT_LE(pages(), before + 1);
  store_options reading = how;
  reading.mode = rvm::open_mode::read_only;
  const store s(path, reading);
  const uses& u = *s.find_root<uses>("uses");
  const std::vector<std::uint64_t> ids = chosen();
  std::uintptr_t last = 0;
  for (const std::uint64_t n : ids) {
    EXPECT_GT(reinterpret_cast<std::uintptr_t>(u.all[n]), last);
    last = reinterpret_cast<std::uintptr_t>(u.all[n]);
  }
  for (std::uint64_t n = 180; n < 185; ++n) EXPECT_GT(reinterpret_cast<std::uintptr_t>(u.all[n]), last);
}

// The store's files are released all the same.
TEST_F(ordered_by_access, a_recording_that_cannot_be_written) {
  const std::string gone = dir / "gone";
  std::filesystem::create_directory(gone);
  store_options reading = how;
  reading.mode = rvm::open_mode::read_only;
  reading.record_accesses = gone + "/accesses";
  store s(path, reading);
  std::filesystem::remove(gone);
  EXPECT_THROW(s.close(), error);
  store again(path, how);
  expect_sound(again);
}

TEST_F(ordered_by_access, refuses_what_was_not_recorded_of_the_store) {
  const auto compact_by = [&](const std::string& accesses) {
    return [this, accesses] { (void)compact(path, {.order = object_order::by_access, .accesses = accesses}); };
  };
  const auto with = [&](const std::string& text) {
    std::ofstream(file) << text;
    return compact_by(file);
  };
  expect_error(errc::bad_option, {"by_access", "accesses"}, compact_by(""));
  expect_error(std::errc::no_such_file_or_directory, {"nowhere"}, compact_by(dir / "nowhere"));
  expect_error(errc::bad_option, {file, "line 1"}, with("something\n"));
  const std::string first = "tenure accesses 2\nlog " + log_id() + "\n";
  expect_error(errc::bad_option, {file, "line 2", "\"7\""}, with("tenure accesses 2\n7\n"));
  expect_error(errc::bad_option, {file, "line 3", "\"7\""}, with(first + "7\n"));
  expect_error(errc::bad_option, {file, "line 3"}, with(first + "database 12 4096\n"));
  expect_error(errc::bad_option, {file, "says of no database"}, with(first));
  const std::string other = "database 00112233445566778899aabbccddeeff 4096\n1\n2\n";
  expect_error(errc::bad_option, {"nothing of this store"}, with(first + other));
  expect_error(errc::bad_option, {file, "was not recorded of " + path, "record_accesses"},
               with("tenure accesses 2\nlog 00112233445566778899aabbccddeeff\n" + other));
  (void)pages();
  store_options writing = how;
  writing.record_accesses = file;
  expect_error(errc::bad_option, {"record_accesses", "read_only"}, [&] { const store never(path, writing); });
}

// Objects are in other places since.
TEST_F(ordered_by_access, refuses_what_was_recorded_before_the_store_was_written_anew) {
  record();
  (void)compact(path, {.order = object_order::by_access, .accesses = file});
  expect_error(errc::bad_option, {file, "as it is now"},
               [&] { (void)compact(path, {.order = object_order::by_access, .accesses = file}); });
}

TEST_F(ordered_by_access, a_clone_that_is_refused_leaves_nothing) {
  record();
  std::ofstream(file) << "something\n";
  const std::string to = dir / "clone";
  expect_error(errc::bad_option, {file, "line 1"},
               [&] { (void)clone(path, to, {.order = object_order::by_access, .accesses = file}); });
  EXPECT_TRUE(std::filesystem::is_empty(to));
  record();
  EXPECT_GT(clone(path, to, {.order = object_order::by_access, .accesses = file}).objects, count);
}

TEST_F(ordered_by_access, threads_may_use_the_same_parts) {
  store_options reading = how;
  reading.mode = rvm::open_mode::read_only;
  reading.record_accesses = file;
  {
    const store s(path, reading);
    const uses& u = *s.find_root<uses>("uses");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (std::uint64_t n = 0; n < count; ++n) ASSERT_EQ(u.all[n]->id, n);
      });
    for (std::thread& each : threads) each.join();
  }
  const auto all = rewriting::read_accesses(os::real_disk(), file).databases;
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GT(all[0].order.size(), count * sizeof(used) / all[0].unit);
  EXPECT_EQ(std::set<std::uint32_t>(all[0].order.begin(), all[0].order.end()).size(), all[0].order.size());
}

// The kernel refuses to open a part of its own when a process has too many mappings.
TEST_F(ordered_by_access, tells_that_a_recording_was_cut_short) {
  const std::size_t page = os::page_size();
  {
    store_options reading = how;
    reading.mode = rvm::open_mode::read_only;
    reading.record_accesses = file;
    store s(path, reading);
    const uses& u = *s.find_root<uses>("uses");
    ASSERT_EQ(u.all[0]->id, 0u);
    std::vector<void*> held;  // mappings that the kernel cannot join
    held.reserve(std::size_t{1} << 20);
    for (bool more = true; more;) {
      void* const one =
          ::mmap(nullptr, page, held.size() % 2 != 0 ? PROT_NONE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      more = one != MAP_FAILED;
      if (more) held.push_back(one);
    }
    for (const std::uint64_t n : chosen()) EXPECT_EQ(u.all[n]->id, n);
    for (void* const one : held) ::munmap(one, page);
    s.close();
  }
  const auto all = rewriting::read_accesses(os::real_disk(), file).databases;
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].is_cut_short);
  EXPECT_LT(all[0].order.size(), chosen().size());
  EXPECT_TRUE(compact(path, {.order = object_order::by_access, .accesses = file}).accesses_cut_short);
  record();
  EXPECT_FALSE(rewriting::read_accesses(os::real_disk(), file).databases[0].is_cut_short);
  EXPECT_FALSE(compact(path, {.order = object_order::by_access, .accesses = file}).accesses_cut_short);
}

// Not only when everything was recorded.
TEST_F(ordered_by_access, a_file_that_cannot_be_made_is_told_when_the_store_is_opened) {
  store_options reading = how;
  reading.mode = rvm::open_mode::read_only;
  reading.record_accesses = dir / "nowhere/accesses";
  expect_error(std::errc::no_such_file_or_directory, {"nowhere/accesses"}, [&] { const store never(path, reading); });
  std::ofstream(file) << "an earlier one";
  reading.record_accesses = file;
  {
    const store s(path, reading);
    EXPECT_EQ(std::filesystem::file_size(file), std::string("an earlier one").size());  // until close()
    EXPECT_FALSE(std::filesystem::exists(file + ".tenure-new"));
  }
  EXPECT_EQ(rewriting::read_accesses(os::real_disk(), file).databases.size(), 1U);
}

// All databases together have as many parts as one may have.
TEST_F(ordered_by_access, databases_share_the_mappings_of_the_process) {
  store_options writing = how;
  {
    store s(path, writing);
    for (const char* const name : {"second", "third"}) {
      auto d = s.create_database(name, {.reservation = std::uint64_t{1} << 28, .home = next_home(1 << 28)});
      auto& bytes = d.root<tenure::vector<std::uint64_t>>("bytes");
      s.transact([&] { bytes.resize(std::size_t{6} << 20); });
    }
    s.close();
  }
  store_options reading = how;
  reading.mode = rvm::open_mode::read_only;
  reading.record_accesses = file;
  std::uint64_t length = 0;
  {
    store s(path, reading);
    for (const char* const name : {"main", "second", "third"})
      length += std::filesystem::file_size(path + "/" + name + ".db");
    s.close();
  }
  const auto all = rewriting::read_accesses(os::real_disk(), file).databases;
  ASSERT_EQ(all.size(), 3U);
  for (const auto& each : all) EXPECT_EQ(each.unit, all[0].unit);
  EXPECT_GT(length, 64U << 20);
  EXPECT_GE(all[0].unit, 2 * os::page_size());
}

TEST(access_traces, note_each_part_once) {
  const std::size_t page = os::page_size(), length = 10 * page;
  auto* const at = static_cast<std::byte*>(os::map_anonymous(nullptr, length));
  {
    const os::access_trace trace(at, length, 2 * page, "memory");
    const auto use = [&](std::size_t byte) { (void)*reinterpret_cast<const volatile std::byte*>(at + byte); };
    for (const std::size_t each : {7 * page, 3 * page + 1, 6 * page, std::size_t{0}, 9 * page + 5}) use(each);
    EXPECT_EQ(trace.used(), (std::vector<std::uint32_t>{3, 1, 0, 4}));
    EXPECT_FALSE(trace.is_cut_short());
  }
  os::unmap(at, length);
  const auto write_there = [&] {
    auto* const mine = static_cast<std::byte*>(os::map_anonymous(nullptr, length));
    const os::access_trace trace(mine, length, page, "memory");
    *reinterpret_cast<volatile char*>(mine) = 1;
  };
  EXPECT_DEATH(write_there(), "read-only, at address 0x.* = memory offset 0");
  EXPECT_EQ(os::access_trace::unit_for(1 << 20), page);
  EXPECT_LE((std::size_t{1} << 40) / os::access_trace::unit_for(std::size_t{1} << 40), 16'384U);
}

}  // namespace
