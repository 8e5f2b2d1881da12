// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores whose types have changed: this program has two layouts under the same name, as two builds would, and a store that has one
// of them it cannot open. And what the library makes of a class to know it.
#include <string_view>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

#include "support/expect_error.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace registered_test_types {

struct old_part {
  int number;
};
struct new_part {
  int number;
  double weight;
};
struct old_machine {
  old_part* first;
};
struct new_machine {
  new_part* first;
};

struct eager {
  virtual ~eager() = default;
  [[nodiscard]] virtual std::size_t count() const { return many.size() + text.size(); }
  tenure::std_deque<int> many = tenure::std_deque<int>(100, 1);
  tenure::string text = tenure::string("a text that needs memory from the begin");
  static constexpr auto persistent = tenure::members<&eager::many, &eager::text>{};
};
struct eager_base {
  virtual ~eager_base() = default;
  tenure::string text = tenure::string("another text that needs memory from the begin");
  static constexpr auto persistent = tenure::members<&eager_base::text>{};
};
struct eager_derived : virtual eager_base {
  tenure::vector<int> many = tenure::vector<int>(100, 1);
  static constexpr auto persistent = tenure::bases<eager_base>{} + tenure::members<&eager_derived::many>{};
};

}  // namespace registered_test_types
using namespace registered_test_types;

template <>
struct tenure::persist<old_part> {
  static constexpr std::string_view name = "registered_test::part";
};
template <>
struct tenure::persist<new_part> {
  static constexpr std::string_view name = "registered_test::part";
};
// The new build never makes a part: it follows a pointer to one. [types.registered]
[[maybe_unused]] static new_machine& what_the_new_build_does(store& s) { return s.root<new_machine>("machine"); }

TEST(registered_types, include_what_is_only_reached_by_pointers) {
  const temp_dir dir;
  const auto how = small_store();
  {
    store s(dir / "store", how);
    s.transact([&] { s.root<old_machine>("machine").first = s.make<old_part>(); });
    s.close();
  }
  const auto before = contents_of(dir / "store/main.db");
  expect_error(errc::schema_mismatch,
               {"main.db has objects of registered_test::part", "had 4 bytes, has 16", "field `weight` is new"},
               [&] { (void)store(dir / "store", how); });
  EXPECT_EQ(contents_of(dir / "store/main.db"), before) << "nothing was changed";
}

namespace {

class prototypes : public reopened_store {};

// The library makes two objects of a class with virtual functions, while a store is opened, or while it has locks of one.
TEST_F(prototypes, have_memory_of_the_program) {
  opened->transact([&] {
    (void)opened->root<eager>("eager");
    (void)opened->root<eager_derived>("derived");
    auto& more = opened->root<tenure::vector<eager_base*>>("more");
    more.push_back(opened->make<eager_derived>());
    more.push_back(opened->make<eager_base>());
  });
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(opened->root<eager>("eager").count(), 139U);
    EXPECT_EQ(opened->root<eager_derived>("derived").many.size(), 100U);
    EXPECT_EQ(opened->root<eager_derived>("derived").text.size(), 45U);
    EXPECT_EQ(opened->root<tenure::vector<eager_base*>>("more")[0]->text.size(), 45U);
    reopen();
  }
}

}  // namespace
