// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers that move from one store into another: they were in none when they got memory.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>
#include <tenure/transact_all.hpp>

#include "support/expect_error.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace several_stores_types {

struct order {
  tenure::string what;
  tenure::vector<tenure::string> notes;
  tenure::vector<std::uint64_t> prices;
};
struct shop {
  tenure::vector<order> orders;
  order last;
  tenure::map<std::uint64_t, tenure::string> by_number;
  tenure::hash_map<std::uint64_t, tenure::string> names;
};

}  // namespace several_stores_types
using namespace several_stores_types;

namespace {

constexpr std::string_view title = "The Art of Computer Programming, in several volumes";

class several_stores : public ::testing::Test {
 protected:
  several_stores() {
    for (const char* const name : {"one", "two", "three"}) {
      auto& opened = all[static_cast<std::size_t>(count++)];
      opened.emplace(dir / name, small_store());
      (void)opened->root<shop>("shop");
    }
  }
  // All three have a transaction, in both orders of those that matter.
  template <class F>
  void transact(F&& f) {
    transact_all(*all[0], *all[1], *all[2], [&] { f(in(0), in(1), in(2)); });
    transact_all(*all[2], *all[1], *all[0], [&] { f(in(0), in(1), in(2)); });
  }
  shop& in(std::size_t n) { return all[n]->root<shop>("shop"); }
  void expect_sound_again() {
    for (std::size_t n = 0; n < 3; ++n) {
      expect_sound(*all[n]);
      all[n]->close();
      all[n].emplace(dir / (n == 0 ? "one" : n == 1 ? "two" : "three"), small_store());
      expect_sound(*all[n]);
    }
  }

  temp_dir dir;
  int count = 0;
  std::optional<store> all[3];
};

order made(std::size_t number) {
  order one;
  one.what = tenure::string(title);
  for (std::size_t n = 0; n < number; ++n) {
    one.notes.push_back(tenure::string(std::string(n * 9, 'n')));
    one.prices.push_back(n);
  }
  return one;
}
void expect_made(const order& one, std::size_t number) {
  EXPECT_EQ(std::string_view(one.what), title);
  ASSERT_EQ(one.notes.size(), number);
  ASSERT_EQ(one.prices.size(), number);
  for (std::size_t n = 0; n < number; ++n) {
    EXPECT_EQ(std::string_view(one.notes[n]), std::string(n * 9, 'n'));
    EXPECT_EQ(one.prices[n], n);
  }
}

TEST_F(several_stores, strings_and_vectors_move_between_them) {
  transact([&](shop& a, shop& b, shop& c) {
    for (shop* const each : {&a, &b, &c}) {
      each->orders.push_back(made(5));
      each->last = made(7);
      each->last.notes.push_back(tenure::string(title));
    }
  });
  expect_sound_again();
  for (std::size_t n = 0; n < 3; ++n) {
    ASSERT_EQ(in(n).orders.size(), 2U);
    for (const order& each : in(n).orders) expect_made(each, 5);
    EXPECT_EQ(in(n).last.notes.size(), 8U);
    EXPECT_EQ(std::string_view(in(n).last.notes.back()), title);
  }
}

TEST_F(several_stores, strings_move_into_maps) {
  transact([&](shop& a, shop& b, shop& c) {
    for (shop* const each : {&a, &b, &c}) {
      each->by_number.insert_or_assign(each->by_number.size(), tenure::string(title));
      each->names.insert_or_assign(each->names.size(), tenure::string(title));
    }
  });
  expect_sound_again();
  for (std::size_t n = 0; n < 3; ++n)
    for (std::uint64_t key = 0; key < 2; ++key) {
      EXPECT_EQ(std::string_view(in(n).by_number.at(key)), title);
      EXPECT_EQ(std::string_view(in(n).names.at(key)), title);
    }
}

TEST_F(several_stores, what_moves_out_of_one_is_empty_there) {
  transact_all(*all[0], *all[1], [&] { in(0).last = made(3); });
  transact_all(*all[0], *all[1], [&] { in(1).last = std::move(in(0).last); });
  expect_sound_again();
  expect_made(in(1).last, 3);
  EXPECT_TRUE(in(0).last.what.empty());
  EXPECT_TRUE(in(0).last.notes.empty());
  EXPECT_TRUE(in(0).last.prices.empty());
}

TEST_F(several_stores, an_abort_leaves_everything_where_it_was) {
  transact_all(*all[0], *all[1], [&] { in(0).last = made(3); });
  EXPECT_THROW(transact_all(*all[0], *all[1],
                            [&] {
                              in(1).last = std::move(in(0).last);
                              throw std::runtime_error("no");
                            }),
               std::runtime_error);
  expect_sound_again();
  expect_made(in(0).last, 3);
  EXPECT_TRUE(in(1).last.what.empty());
}

// Maps keep their nodes: the commit says what to do.
TEST_F(several_stores, maps_do_not_move_between_them) {
  const auto move_map = [&](std::size_t to) {
    tenure::map<std::uint64_t, tenure::string> one;
    one.insert_or_assign(1, tenure::string(title));
    in(to).by_number = std::move(one);
  };
  int refused = 0;  // by all but the one whose transaction was begun last
  for (std::size_t to = 0; to < 3; ++to) {
    try {
      transact_all(*all[0], *all[1], *all[2], [&] { move_map(to); });
    } catch (const error& e) {
      ++refused;
      EXPECT_EQ(e.code(), errc::cannot_persist);
      EXPECT_NE(std::string_view(e.what()).find("in another store; "), std::string_view::npos);
    }
  }
  EXPECT_EQ(refused, 2);
  transact_all(*all[0], *all[1], [&] {
    const tenure::map<std::uint64_t, tenure::string> one{{1, tenure::string(title)}};
    in(1).by_number = one;
  });
  expect_sound_again();
  EXPECT_EQ(std::string_view(in(1).by_number.at(1)), title);
}

}  // namespace
