// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that are larger than a small zone.
#include <algorithm>
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
struct contents {
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
