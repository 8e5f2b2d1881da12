// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Declarations of evolve<T> that can do nothing are mistakes, which are told, by opening and by `tenure schema check`.
#include "types/declared_changes.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/evolve.hpp>

#include "support/renamed_type.hpp"
#include "types/evolution.hpp"

namespace declaring {

namespace was {
struct part {
  std::int32_t x;
};
}  // namespace was
struct place {
  std::int32_t y = 0;
};
template <bool IsRight>
struct declared_part {
  std::int32_t x = 0;
  std::int8_t small = 0;
  place where;
};
namespace right {
using part = declared_part<true>;
}
namespace wrong {
using part = declared_part<false>;
}
namespace wrong_before {  // objects of the version before the mistakes are gone
struct part {
  std::int32_t x = 0;
  std::int64_t y = 0;
};
}  // namespace wrong_before

void nothing(const tenure::old_object&, wrong::part&, tenure::conversion&) {}

}  // namespace declaring

namespace tenure {

template <>
struct evolve<declaring::right::part> {
  static void describe(changes<declaring::right::part>& of) {
    of.since(0).added("old", 1).added("gone", 2).added("small", -128).added("where.y", 3);
    of.since(1).removed("gone").renamed("old", "older");
    of.since(2).removed("older");
  }
};
template <>
struct evolve<declaring::wrong::part> {
  static void describe(changes<declaring::wrong::part>& of) {
    of.since(0).added("m", 1).added("small", 500).added("where.z", 1);
    of.since(1).added("small", 1).added("small", 2).converted(declaring::nothing);
    of.since(1).converted(declaring::nothing);
  }
};
template <>
struct evolve<declaring::wrong_before::part> {
  static void describe(changes<declaring::wrong_before::part>& of) { of.since(0).added("m", 1); }
};

}  // namespace tenure

namespace {

using namespace tenure;

template <class T>
type as_part(std::uint32_t version = 0) {
  type of = type_of<T>();
  of.name = "part";
  of.version = version;
  return of;
}
template <class Is>
std::vector<std::string> problems(std::uint32_t stored_version = 0) {
  const type was = as_part<declaring::was::part>(stored_version), is = as_part<Is>(3);
  std::vector<std::string> found;
  (void)types::evolution({&is}).plan(was, is, found);
  std::ranges::sort(found);
  return found;
}
using texts = std::vector<std::string>;

TEST(declared_changes, that_do_something_are_no_mistakes) { EXPECT_EQ(problems<declaring::right::part>(), texts{}); }

TEST(declared_changes, that_do_nothing_are_mistakes) {
  EXPECT_EQ(problems<declaring::wrong::part>(),
            (texts{"part: since(0).added(\"m\", VALUE) is declared, and there is no such field",
                   "part: since(0).added(\"where.z\", VALUE) is declared, and there is no such field",
                   "part: since(1).added(\"small\", VALUE) is declared twice",
                   "part: since(1).converted(...) is declared twice: one function must do what both do"}));
}

TEST(declared_changes, of_versions_that_are_not_there_are_not_looked_at) {
  EXPECT_EQ(problems<declaring::wrong_before::part>(1), texts{});
  EXPECT_EQ(problems<declaring::wrong_before::part>(0).size(), 1U);
}

TEST(declared_changes, values_must_fit) {
  const type_changes& all = type_of<declaring::wrong::part>().operations->changes();
  const type_field& small = type_of<declaring::wrong::part>().fields[1];
  std::string problem;
  (void)types::bytes_of_added(all.versions[0].fields[1], small, problem);
  EXPECT_EQ(problem, ": the value that was declared for it does not fit");
  problem = "";
  EXPECT_EQ(types::bytes_of_added(all.versions[1].fields[0], small, problem), std::vector{std::byte{1}});
  EXPECT_EQ(problem, "");
}

}  // namespace
