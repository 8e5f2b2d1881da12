// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores whose types have changed. This program has two layouts under the same name, as two builds would: a store that has one
// of them it cannot open.
#include <string_view>

#include <gtest/gtest.h>

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
