// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that are larger than a small zone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace zones_test_types {

struct item {
  std::uint64_t number;
};
using numbers = tenure::vector<std::uint64_t>;
struct several_zones {
  std::array<std::uint64_t, 100'000> numbers;
};
struct contents {
  several_zones* covering;
  tenure::vector<item*> items;
  tenure::vector<numbers*> behind;
};

}  // namespace zones_test_types
using namespace zones_test_types;

class zones : public reopened_store {
 protected:
  static bool all_are(const numbers& all, std::uint64_t value) {
    return std::ranges::all_of(all, [&](std::uint64_t n) { return n == value; });
  }
  numbers& large() { return s().root<numbers>("large"); }
  void expect_contents(std::uint64_t size) {
    expect_sound(s());
    const contents& all = s().root<contents>("contents");
    EXPECT_EQ(large().size(), size);
    EXPECT_TRUE(all_are(large(), 7));
    for (const numbers* const each : all.behind) EXPECT_TRUE(all_are(*each, 8));
    for (const item* const each : all.items) EXPECT_EQ(each->number, 9u);
  }
};

// [heap.zone.covered]: the file has bytes of an object that was destroyed, and memory has zeros of one that was taken back.
TEST_F(zones, bookkeeping_that_a_lost_object_has_covered) {
  how.memory.background = false;
  reopen();
  contents& all = s().root<contents>("contents");
  s().transact([&] {
    all.covering = s().make<several_zones>();
    all.covering->numbers.fill(~std::uint64_t{0});
  });
  const several_zones* const first = all.covering;
  s().transact([&] {
    s().destroy(all.covering);
    all.covering = nullptr;
  });
  s().flush();
  {
    transaction tx = s().begin();
    EXPECT_EQ(s().make<several_zones>(), first);
    tx.abort();
  }
  s().transact([&] {
    for (int n = 0; n < 80'000; ++n) all.items.push_back(s().make<item>(item{9}));
  });
  expect_contents(0);
  reopen();
  expect_contents(0);
}

// Where other zones have their bookkeeping, the object has bytes of its own, which mean nothing.
TEST_F(zones, any_bytes_where_others_have_bookkeeping) {
  how.memory.background = false;
  reopen();
  contents& all = s().root<contents>("contents");
  auto* const made = s().make<several_zones>();  // outside of a transaction: for a while its blocks count as shared
  made->numbers.fill(0x0505050505050505);
  s().transact([&] { all.covering = made; });
  s().transact([&] {
    for (std::size_t n = 0; n < made->numbers.size(); n += 50) made->numbers[n] = n;
  });
  reopen();
  const auto& numbers = s().root<contents>("contents").covering->numbers;
  for (std::size_t n = 0; n < numbers.size(); ++n) ASSERT_EQ(numbers[n], n % 50 == 0 ? n : 0x0505050505050505);
}

// Such an object ends somewhere in a zone that has no bookkeeping; what is made after the store was opened again lies behind it,
// small or large.
TEST_F(zones, objects_behind_one_that_is_larger) {
  for (const std::uint64_t size : {40'000, 100'000, 33'000, 150'000}) {
    SCOPED_TRACE(size);
    s().transact([&] { large().assign(size, 7); });
    reopen();
    contents& all = s().root<contents>("contents");
    s().transact([&] {
      for (int n = 0; n < 8; ++n) all.behind.push_back(s().make<numbers>(std::size_t{12'000}, std::uint64_t{8}));
      for (int n = 0; n < 3000; ++n) all.items.push_back(s().make<item>(item{9}));
    });
    expect_contents(size);
    reopen();
    expect_contents(size);
  }
}
