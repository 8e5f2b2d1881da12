// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a class declares of parts of its nested values, and where pointers lead to parts that are others now.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/evolve.hpp>

#include "rewrite/converted_values.hpp"
#include "store/store_state.hpp"
#include "support/renamed_type.hpp"
#include "support/test_store.hpp"
#include "types/evolution.hpp"

namespace parts_of_nested {

struct pair {
  std::int32_t p = 1, q = 2;
};
namespace was {
struct part {
  std::int32_t x;
  pair n, m;
};
}  // namespace was
namespace overwritten {  // x becomes n.p, and nothing becomes of that
struct part {
  pair n, m;
};
}  // namespace overwritten
namespace replaced {
struct part {
  pair n, m;
};
}  // namespace replaced
namespace moved_inside {  // n.p becomes n.q
struct part {
  std::int32_t x = 0;
  pair n, m;
};
}  // namespace moved_inside
namespace moved_over {  // n becomes m, part by part
struct part {
  std::int32_t x = 0;
  pair n{7, 8}, m;
};
}  // namespace moved_over
namespace made_new {
struct part {
  std::int32_t x = 0;
  pair n, m;
};
}  // namespace made_new
namespace apart {
struct part {
  std::int32_t x = 0, p = 0;
  double between = 0;
  std::int32_t q = 0;
  pair m;
};
}  // namespace apart

namespace numbers_before {
struct part {
  std::int32_t x;
  std::int16_t y;
  std::int32_t all[4];
  double d;
};
}  // namespace numbers_before
namespace numbers {
struct part {
  double x = 0;
  std::int16_t y = 0;
  std::int32_t all[2] = {};
  double d = 0;
};
}  // namespace numbers

namespace old_name {
struct element {
  std::int32_t v;
};
struct part {
  element one;
};
}  // namespace old_name
namespace new_name {
struct renamed_element {
  std::int32_t v = 0;
};
struct part {
  renamed_element one;
};
}  // namespace new_name

}  // namespace parts_of_nested

namespace tenure {

template <>
struct evolve<parts_of_nested::overwritten::part> {
  static void describe(changes<parts_of_nested::overwritten::part>& of) { of.since(0).renamed("x", "n.p"); }
};
template <>
struct evolve<parts_of_nested::replaced::part> {
  static void describe(changes<parts_of_nested::replaced::part>& of) { of.since(0).renamed("x", "n.p").removed("n.p"); }
};
template <>
struct evolve<parts_of_nested::moved_inside::part> {
  static void describe(changes<parts_of_nested::moved_inside::part>& of) {
    of.since(0).renamed("n.p", "n.q").removed("n.q");
  }
};
template <>
struct evolve<parts_of_nested::moved_over::part> {
  static void describe(changes<parts_of_nested::moved_over::part>& of) {
    of.since(0).renamed("n.p", "m.p").renamed("n.q", "m.q").removed("m.p").removed("m.q");
  }
};
template <>
struct evolve<parts_of_nested::made_new::part> {
  static void describe(changes<parts_of_nested::made_new::part>& of) {
    of.since(0).removed("n.p").removed("m.p").added("m.p", 33);
  }
};
template <>
struct evolve<parts_of_nested::apart::part> {
  static void describe(changes<parts_of_nested::apart::part>& of) {
    of.since(0).renamed("n.p", "p").renamed("n.q", "q");
  }
};
template <>
struct evolve<parts_of_nested::numbers::part> {
  static void describe(changes<parts_of_nested::numbers::part>& of) { of.since(0).narrowed("all"); }
};

}  // namespace tenure

namespace parts_of_nested {
namespace {

using namespace tenure;

template <class T>
const type& as_stored(std::uint32_t version) {
  type& made = support::keep(support::renamed(
      type_of<T>(), {"parts_of_nested::was::", "parts_of_nested::old_name::", "parts_of_nested::new_name::"}));
  made.name = made.name.substr(made.name.rfind(':') + 1);
  made.version = version;
  return made;
}

struct planned {
  std::vector<std::string> problems;
  types::value_conversion how;
  [[nodiscard]] std::optional<std::uint64_t> moved(std::uint64_t offset, std::string_view pointee) const {
    static const std::vector<std::byte> old(4096);
    return how.moved_offset(old.data(), offset, pointee);
  }
};
template <class Was, class Is>
planned plan(std::initializer_list<const type*> others = {}) {
  std::vector<const type*> program{&as_stored<Is>(1)};
  program.insert(program.end(), others);
  planned result;
  result.how = types::evolution(program).plan(as_stored<Was>(0), *program.front(), result.problems);
  return result;
}

class nested_parts : public support::reopened_store {
 protected:
  template <class Is>
  Is converted() {
    was::part value{10, {11, 12}, {21, 22}};
    const planned p = plan<was::part, Is>();
    for (const std::string& problem : p.problems) ADD_FAILURE() << problem;
    rewriting::convert(p.how, std::as_bytes(std::span(&value, 1)), into, further);
    return *reinterpret_cast<const Is*>(into.data());
  }
  detail::conversion_memory further{*current_store()->databases};
  rewriting::value_bytes into;
};

TEST_F(nested_parts, that_are_overwritten_must_be_declared_as_gone) {
  const std::vector<std::string> problems = plan<was::part, overwritten::part>().problems;
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("field `n.p` (int) is gone"), std::string::npos) << problems[0];
  const auto is = converted<replaced::part>();
  EXPECT_EQ(is.n.p, 10);
  EXPECT_EQ(is.n.q, 12);
  EXPECT_EQ(is.m.p, 21);
}

TEST_F(nested_parts, move_within_their_value) {
  const auto is = converted<moved_inside::part>();
  EXPECT_EQ(is.x, 10);
  EXPECT_EQ(is.n.q, 11);
  EXPECT_EQ(is.n.p, 1) << "a field that has the name that another one had is a new one";
}

TEST_F(nested_parts, move_to_another_value) {
  const auto is = converted<moved_over::part>();
  EXPECT_EQ(is.m.p, 11);
  EXPECT_EQ(is.m.q, 12);
  EXPECT_EQ(is.n.p, 7);
  EXPECT_EQ(is.n.q, 8);
}

TEST_F(nested_parts, are_made_new) {
  const auto is = converted<made_new::part>();
  EXPECT_EQ(is.n.p, 1);
  EXPECT_EQ(is.n.q, 12);
  EXPECT_EQ(is.m.p, 33);
  EXPECT_EQ(is.m.q, 22);
}

TEST_F(nested_parts, are_followed_by_pointers_of_their_types) {
  const planned whole = plan<was::part, made_new::part>();
  EXPECT_EQ(whole.moved(offsetof(was::part, n), "parts_of_nested::pair"), offsetof(made_new::part, n));
  EXPECT_EQ(whole.moved(offsetof(was::part, n) + 4, "int"), offsetof(made_new::part, n) + 4);
  const planned taken_apart = plan<was::part, apart::part>();
  EXPECT_EQ(taken_apart.problems, std::vector<std::string>{});
  EXPECT_EQ(taken_apart.moved(offsetof(was::part, n), "parts_of_nested::pair"), std::nullopt);
  EXPECT_EQ(taken_apart.moved(offsetof(was::part, n), "int"), offsetof(apart::part, p));
  EXPECT_EQ(taken_apart.moved(offsetof(was::part, n) + 4, "int const"), offsetof(apart::part, q));
}

TEST_F(nested_parts, that_are_other_numbers_are_followed_by_no_pointer) {
  const planned p = plan<numbers_before::part, numbers::part>();
  EXPECT_EQ(p.problems, std::vector<std::string>{});
  using before = numbers_before::part;
  EXPECT_EQ(p.moved(offsetof(before, x), "int"), std::nullopt);
  EXPECT_EQ(p.moved(offsetof(before, x), "numbers_before::part"), 0U);
  EXPECT_EQ(p.moved(offsetof(before, y), "short"), offsetof(numbers::part, y));
  EXPECT_EQ(p.moved(offsetof(before, all[1]), "int"), offsetof(numbers::part, all[1]));
  EXPECT_EQ(p.moved(offsetof(before, all[3]), "int"), std::nullopt) << "the element is gone";
}

TEST_F(nested_parts, of_a_class_that_was_renamed_are_told_as_such) {
  const type& element = as_stored<new_name::renamed_element>(0);
  const std::vector<std::string> problems = plan<old_name::part, new_name::part>({&element}).problems;
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("was_named(\"element\")"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace parts_of_nested
