// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is free in a database is used again by a cache.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cache/made_library.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_space_types {

struct alignas(64) broad_line {
  std::uint64_t words[8];
};
struct alignas(64) broad_page {
  std::uint64_t words[1000];
};
struct shelf_of_wide {
  ref<broad_page> one;
  tenure::vector<broad_line> many;
  tenure::vector<tenure::vector<std::uint32_t>> rows;
};

}  // namespace cache_space_types
using namespace cache_space_types;

namespace {

class cache_making_space : public making_in_cache {};

// As their arrays are, of which each has a place with a header.
TEST_F(cache_making_space, places_of_aligned_objects_are_used_again) {
  make([](store& s) { (void)s.root<shelf_of_wide>("shelf"); });
  open();
  const auto replace = [&] {
    opened->transact(
        [&] {
          shelf_of_wide& all = opened->root<shelf_of_wide>("shelf").change();
          if (all.one) opened->destroy(all.one);
          all.one = opened->make<broad_page>();
          tenure::vector<broad_line> fresh;
          fresh.resize(20);
          all.many = std::move(fresh);
        },
        cache::commit_mode::lazy);
  };
  replace();
  const std::uint64_t before = file_size();
  for (int n = 0; n < 1000; ++n) replace();
  EXPECT_EQ(file_size(), before);
  close();
  look([&](store& mapped) { EXPECT_EQ(garbage_in(mapped), 0u); });
}

// What is free lies behind more blocks than are looked at when one is needed.
TEST_F(cache_making_space, nothing_grows_as_long_as_blocks_are_free) {
  make([](store& s) { (void)s.root<shelf_of_wide>("shelf"); });
  open();
  opened->transact([&] {
    shelf_of_wide& all = opened->root<shelf_of_wide>("shelf").change();
    for (int n = 0; n < 10; ++n) {
      all.rows.emplace_back();
      all.rows.back().resize(400'000);
    }
  });
  close();
  const auto replace = [&] {
    open();
    opened->transact([&] {
      shelf_of_wide& all = opened->root<shelf_of_wide>("shelf").change();
      all.rows.pop_back();
      all.rows.emplace_back();
      all.rows.back().resize(400'000);
    });
    close();
  };
  for (int n = 0; n < 10; ++n) replace();
  const std::uint64_t before = file_size();
  for (int n = 0; n < 10; ++n) replace();
  EXPECT_EQ(file_size(), before);
  look([&](store& mapped) { EXPECT_EQ(garbage_in(mapped), 0u); });
}

TEST_F(cache_making_space, the_last_block_goes_on_to_be_filled) {
  make([](store& s) { (void)s.root<shelf_of_wide>("shelf"); });
  how.tune.typed_from = 4096;
  std::uint64_t first = 0, last = 0;
  for (std::uint64_t n = 0; n < 200; ++n) {
    open();
    opened->transact([&] { last = opened->make<std::uint32_t>().home(); });
    if (n == 0) first = last;
    close();
  }
  EXPECT_LT(last - first, 200u * 32);  // descriptions of types among them
  look([&](store& mapped) { EXPECT_EQ(garbage_in(mapped), 200u); });
}

// Its place is then both at the end of the block that goes on to be filled, and free.
TEST_F(cache_making_space, what_lay_last_is_destroyed_first) {
  make([](store& s) { (void)s.root<shelf_of_wide>("shelf"); });
  how.tune.typed_from = 4096;
  const auto add_row = [&] {
    auto& rows = opened->root<shelf_of_wide>("shelf").change().rows;
    rows.emplace_back();
    rows.back().resize(5, static_cast<std::uint32_t>(rows.size()));
  };
  open();
  opened->transact([&] { opened->root<shelf_of_wide>("shelf").change().rows.reserve(10); });
  opened->transact(add_row);  // and what describes it
  opened->transact(add_row);
  close();
  open();
  opened->transact([&] { opened->root<shelf_of_wide>("shelf").change().rows.pop_back(); });
  opened->transact([&] {
    for (int n = 0; n < 4; ++n) add_row();
  });
  close();
  look([&](store& mapped) {
    const auto& rows = mapped.root<shelf_of_wide>("shelf").rows;
    ASSERT_EQ(rows.size(), 5u);
    for (std::uint32_t n = 0; n < 5; ++n)
      EXPECT_TRUE(std::ranges::equal(rows[n], std::vector<std::uint32_t>(5, n + 1))) << n;
    EXPECT_EQ(garbage_in(mapped), 0u);
  });
}

}  // namespace
