// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory runs out when an inner transaction begins or ends: it fails, nothing has changed, and the process goes on. The abort of the
// outermost one does not fail.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "support/expect_error.hpp"
#include "support/failing_allocations.hpp"
#include "support/test_store.hpp"

namespace short_memory_types {

struct item {
  std::uint64_t number;
  tenure::string text;
};
struct large_item {
  char bytes[300'000];
};
struct shelf {
  tenure::vector<item*> all;
  tenure::vector<large_item*> large;
};

}  // namespace short_memory_types
using namespace short_memory_types;

namespace {

using namespace tenure;
using namespace tenure::support;

class inner_in_short_memory : public reopened_store {
 protected:
  inner_in_short_memory() {
    how.tune.most_blocks = 4;
    how.tune.refill = 100;
    s().close();
    open();
    h = &s().root<shelf>("shelf");
    s().transact([&] { fill(1000); });
    s().transact([&] {
      for (std::size_t n = 0; n < 900; n += 3) s().destroy(std::exchange(h->all[n], nullptr));
    });
  }
  void fill(std::uint64_t count) {
    for (std::uint64_t n = 0; n < count; ++n) {
      auto* const each = s().make<item>();
      each->number = n;
      each->text = std::string(n % 300, 'x');
      h->all.push_back(each);
      if (n % 100 == 0) h->large.push_back(s().make<large_item>());
    }
  }
  struct contents {
    std::vector<std::uint64_t> numbers;
    std::size_t large;
    bool operator==(const contents&) const = default;
  };
  [[nodiscard]] contents now() const {
    contents is{{}, h->large.size()};
    for (const item* each : h->all) is.numbers.push_back(each != nullptr ? each->number + each->text.size() : 0);
    return is;
  }
  // Whether f() did not fail, with so many allocations before all fail.
  template <class F>
  [[nodiscard]] bool succeeds_with(long long allocations, F&& f) {
    succeeding = allocations;
    failing = 1'000'000'000;
    bool is_done = true;
    try {
      f();
    } catch (const std::bad_alloc&) {
      is_done = false;
    }
    succeeding = -1;
    failing = 0;
    expect_invariants(s());
    return is_done;
  }
  shelf* h = nullptr;
};

}  // namespace

// The first transaction of an open store, where no list has any room yet. The next one waits for nobody.
TEST_F(inner_in_short_memory, nor_do_the_first_ones_keep_others_out) {
  long long failed = 0;
  for (bool is_done = false; !is_done; failed += is_done ? 0 : 1) {
    reopen();
    std::optional<transaction> first;
    is_done = succeeds_with(failed, [&] { first = s().begin(); });
    first.reset();
    s().transact([&] { s().root<shelf>("shelf").all.push_back(nullptr); });
  }
  EXPECT_GT(failed, 1);
  EXPECT_EQ(s().root<shelf>("shelf").all.size(), 1001U + static_cast<std::size_t>(failed));
}

TEST_F(inner_in_short_memory, fail_to_begin_and_to_end_without_a_change) {
  transaction outer = s().begin();
  fill(300);
  const contents before = now();
  long long failed_begins = 0, failed_aborts = 0;
  std::optional<transaction> in;
  while (!succeeds_with(failed_begins, [&] { in = s().begin(); })) {
    ++failed_begins;
    ASSERT_EQ(now(), before);
  }
  EXPECT_GT(failed_begins, 5);
  fill(500);
  const contents inside = now();
  while (!succeeds_with(failed_aborts, [&] { in->abort(); })) {
    ++failed_aborts;
    ASSERT_EQ(now(), inside);
  }
  EXPECT_GT(failed_aborts, 0);
  EXPECT_EQ(now(), before);
  fill(500);
  outer.commit();
  reopen();
}

// Blocks that cannot be given back at once are given back in the end.
TEST_F(inner_in_short_memory, that_cannot_be_undone_doom_the_outer_one_and_lose_no_space) {
  const contents before = now();
  for (const bool has_two : {false, true})
    for (long long allocations = 0; allocations < 60; ++allocations) {
      transaction outer = s().begin();
      fill(100);
      const contents outside = now();
      transaction first, second;
      first = s().begin();
      fill(200);
      if (has_two) second = s().begin();
      if (has_two) fill(200);
      EXPECT_TRUE(succeeds_with(allocations, [&] { first = {}; }));
      EXPECT_FALSE(second.is_open());
      if (now() == outside) {
        fill(10);
      } else {
        expect_error(errc::doomed, {path}, [&] { outer.commit(); });
      }
      outer.abort();
      expect_invariants(s());
      ASSERT_EQ(now(), before);
    }
}

using short_memory_of_a_store = inner_in_short_memory;

// More free runs of blocks than there is memory for are taken, and given back.
TEST_F(short_memory_of_a_store, aborts_give_everything_back_in_the_end) {
  s().transact([&] {
    h->large.clear();
    for (int n = 0; n < 100; ++n) h->large.push_back(s().make<large_item>());
  });
  s().transact([&] {
    for (std::size_t n = 0; n < 100; n += 2) s().destroy(std::exchange(h->large[n], nullptr));
  });
  const auto fill_holes = [&] {
    for (std::size_t n = 0; n < 100; n += 2) h->large[n] = s().make<large_item>();
  };
  std::uint64_t size = 0;
  for (long long allocations = 0; allocations < 40; ++allocations) {
    transaction outer = s().begin();
    fill_holes();
    ASSERT_TRUE(succeeds_with(allocations, [&] { outer.abort(); }));
    EXPECT_EQ(h->large[0], nullptr);
    if (allocations == 0) size = std::filesystem::file_size(path + "/main.db");
  }
  s().transact(fill_holes);
  EXPECT_EQ(std::filesystem::file_size(path + "/main.db"), size);
  reopen();
}
