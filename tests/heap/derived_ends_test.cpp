// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pointers one past the end of objects without headers, where the next object begins: they belong to the object that the
// reference before them means, whatever happens to the next one.
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <tenure/rewrite.hpp>
#include <tenure/tenure.hpp>

#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace derived_ends {

struct numbers {
  std::array<std::uint64_t, 6> all;
};
// A span over some numbers, which has nothing else that leads to them.
class span {
 public:
  void set(numbers* of) {
    first_ = of;
    end_ = of->all.data() + of->all.size();
  }
  [[nodiscard]] const numbers* object() const { return first_; }
  [[nodiscard]] bool ends_where_it_should() const { return end_ == first_->all.data() + first_->all.size(); }

 private:
  numbers* first_ = nullptr;
  std::uint64_t* end_ = nullptr;

 public:
  static constexpr auto persistent = tenure::members<&span::first_, tenure::derived<&span::end_>>{};
};
struct spans {
  tenure::vector<span*> all;
};

class derived_ends : public reopened_store {
 protected:
  derived_ends() {
    how.tune.refill = 0;
    reopen();
  }
  spans& root() { return s().root<spans>("spans"); }
  void make(std::uint64_t count) {
    s().transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        root().all.push_back(s().make<span>());
        numbers* const of = s().make<numbers>();
        of->all.fill(n);
        root().all.back()->set(of);
      }
    });
  }
  // All but every `kept`th.
  void drop(std::uint64_t kept) {
    s().transact([&] {
      tenure::vector<span*>& all = root().all;
      std::size_t left = 0;
      for (std::size_t n = 0; n < all.size(); ++n)
        if (n % kept == 0) all[left++] = all[n];
      all.resize(left);
    });
  }
  void expect_all(std::uint64_t every, std::size_t count) {
    ASSERT_EQ(root().all.size(), count);
    for (std::size_t n = 0; n < count; ++n) {
      const span& each = *root().all[n];
      ASSERT_TRUE(each.ends_where_it_should()) << n;
      for (const std::uint64_t number : each.object()->all) ASSERT_EQ(number, n * every);
    }
    expect_sound(s());
  }
};

TEST_F(derived_ends, keep_nothing_of_the_next_object) {
  make(4000);
  expect_all(1, 4000);
  // The next one of each that stays is garbage, and is taken.
  drop(2);
  const collect_report done = s().collect({.roots = program_roots::handles, .quarantine = quarantine::none});
  EXPECT_GE(done.garbage, 4000U);
  expect_all(2, 2000);
  // What is made there later does not disturb.
  s().transact([&] {
    for (int n = 0; n < 4000; ++n) s().make<numbers>()->all.fill(~std::uint64_t{0});
  });
  expect_all(2, 2000);
  reopen();
  expect_all(2, 2000);
}

TEST_F(derived_ends, move_with_their_object) {
  make(20'000);
  drop(10);
  (void)s().collect({.roots = program_roots::handles, .quarantine = quarantine::none});
  const numbers* const before = root().all[700]->object();
  const collect_report done = s().collect({.roots = program_roots::handles,
                                           .quarantine = quarantine::none,
                                           .evacuation = {.enabled = true, .sparse_percent = 90}});
  EXPECT_GT(done.moved, 3000U);
  EXPECT_NE(root().all[700]->object(), before);
  expect_all(10, 2000);
  drop(2);
  s().close();
  opened.reset();
  for (const auto order : {object_order::by_address, object_order::breadth_first, object_order::depth_first}) {
    (void)compact(path, {.order = order});
    open();
    expect_all(20, 1000);
    s().close();
    opened.reset();
  }
  open();
}

}  // namespace derived_ends
