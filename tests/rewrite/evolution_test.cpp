// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Values of a class as it was become values of the class as it is: what is planned, what is refused and with which advice.
#include <cstring>
#include <limits>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/cache/map.hpp>
#include <tenure/evolve.hpp>
#include <tenure/string.hpp>
#include <tenure/vector.hpp>

#include "rewrite/converted_values.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/renamed_type.hpp"
#include "support/test_store.hpp"
#include "types/evolution.hpp"

namespace evolving {

enum class color : std::uint8_t { red, green };
enum class wide_color : std::uint16_t { red, green };

namespace was {
struct place {
  std::int32_t x, y;
};
struct part {
  std::int32_t weight;
  std::uint16_t count;
  part* next;
  place where;
  float ratio;
  std::int8_t letters[4];
  std::optional<place> maybe;
  std::variant<std::int32_t, float> choice;
};
}  // namespace was

namespace reordered {  // other order, wider numbers, longer arrays, new fields
struct place {
  double y;
  std::int64_t x;
};
struct part {
  int fresh = 7;
  std::variant<std::int64_t, double> choice;
  std::optional<place> maybe;
  std::int16_t letters[6];
  double ratio;
  place where;
  part* next;
  std::uint32_t count;
  std::int64_t weight;
  tenure::std_list<int> list;
};
}  // namespace reordered

namespace removed {
struct part {
  std::int32_t weight;
};
}  // namespace removed
namespace declared {
struct flat {
  std::int64_t at_x, at_y;
};
struct part {
  std::int64_t mass;
  flat position;
  part* link;
  std::int8_t count;
  std::int32_t added;
};
}  // namespace declared
namespace taken_apart {  // what was nested got another name first, and its parts went elsewhere then
struct part {
  std::int32_t x;
};
}  // namespace taken_apart
namespace gone_in_parts {
struct part {
  std::int32_t weight;
};
}  // namespace gone_in_parts
namespace chained {
struct part {
  std::int64_t burden;
  std::int32_t second, third;
};
}  // namespace chained
// Fields move into a nested class, which gets another name later.
struct pair {
  std::int64_t x, y;
};
namespace moved_twice {
struct part {
  pair numbers;
};
}  // namespace moved_twice
namespace moved_twice_by_a_function {
struct part {
  pair numbers;
};
}  // namespace moved_twice_by_a_function
namespace lost_later {  // two fields would come from one
struct part {
  pair numbers;
};
}  // namespace lost_later
namespace other_kinds {
struct part {
  std::int32_t weight;
  std::uint16_t count;
  std::uint64_t next;
  was::place* where;
  std::int32_t ratio;
  std::int8_t letters[2];
  std::optional<std::int32_t> maybe;
  std::variant<std::int32_t, float> choice;
};
}  // namespace other_kinds
namespace called {
struct part {
  std::int64_t area = 0;
  part* next = nullptr;
  part* twin = nullptr;
  tenure::string text;
};
}  // namespace called
namespace no_default {
struct part {
  explicit part(int);
  std::int32_t weight;
  std::int32_t fresh;
  static constexpr auto persistent = tenure::members<&part::weight, &part::fresh>{};
};
}  // namespace no_default

namespace exchanged {  // names changed places, one was removed and came back, one was narrowed before it was renamed
struct part {
  std::int32_t where_x, where_y;
  std::int64_t ratio = 77;
  std::int8_t amount;
};
}  // namespace exchanged
namespace bases {
struct left {
  std::int32_t a, b;
  static constexpr auto persistent = tenure::members<&left::a, &left::b>{};
};
struct right {
  virtual ~right() = default;
  std::int32_t c;
  static constexpr auto persistent = tenure::members<&right::c>{};
};
struct both : left, right {
  std::int32_t d;
  static constexpr auto persistent = tenure::bases<left, right>{} + tenure::members<&both::d>{};
};
struct other_left : left {
  std::int32_t e;
  static constexpr auto persistent = tenure::bases<left>{} + tenure::members<&other_left::e>{};
};
struct more_left : left {
  std::int32_t e;
  static constexpr auto persistent = tenure::bases<left>{} + tenure::members<&more_left::e>{};
};
struct twice : other_left, more_left {
  std::int32_t f;
  static constexpr auto persistent = tenure::bases<other_left, more_left>{} + tenure::members<&twice::f>{};
};
}  // namespace bases
namespace other_bases {
struct left {
  std::int64_t fresh;
  std::int32_t b, a;
  static constexpr auto persistent = tenure::members<&left::fresh, &left::b, &left::a>{};
};
struct right {
  virtual ~right() = default;
  std::int64_t c;
  static constexpr auto persistent = tenure::members<&right::c>{};
};
struct both : left, right {
  std::int32_t d;
  static constexpr auto persistent = tenure::bases<left, right>{} + tenure::members<&both::d>{};
};
struct other_left : left {
  std::int32_t e;
  static constexpr auto persistent = tenure::bases<left>{} + tenure::members<&other_left::e>{};
};
struct more_left : left {
  std::int32_t e;
  static constexpr auto persistent = tenure::bases<left>{} + tenure::members<&more_left::e>{};
};
struct twice : more_left, other_left {
  std::int32_t f;
  static constexpr auto persistent = tenure::bases<more_left, other_left>{} + tenure::members<&twice::f>{};
};
}  // namespace other_bases

namespace flat {
struct place {
  std::int32_t x;
};
struct part {
  place where;
  std::int32_t y, matrix[2][3];
};
}  // namespace flat
namespace into_nested {  // a nested class that stays gets a field of the class around it
struct place {
  std::int32_t x;
  std::int64_t y = 9;
};
struct part {
  std::int32_t matrix[2][3];
  place where;
};
struct wider_rows {
  place where;
  std::int32_t matrix[2][4];
};
}  // namespace into_nested

}  // namespace evolving

namespace tenure {

template <>
struct evolve<evolving::into_nested::part> {
  static void describe(changes<evolving::into_nested::part>& of) { of.since(0).renamed("y", "where.y"); }
};

template <>
struct evolve<evolving::exchanged::part> {
  static void describe(changes<evolving::exchanged::part>& of) {
    of.since(0)
        .renamed("where.x", "where_y")
        .renamed("where.y", "where_x")
        .narrowed("count")
        .removed("ratio")
        .removed("weight")
        .removed("next")
        .removed("letters")
        .removed("maybe")
        .removed("choice");
    of.since(1).renamed("where_x", "where_y").renamed("where_y", "where_x").renamed("count", "amount");
  }
};
template <>
struct evolve<evolving::declared::part> {
  static void describe(changes<evolving::declared::part>& of) {
    of.was_named("component");
    of.since(0)
        .renamed("weight", "mass")
        .renamed("where.x", "position.at_x")
        .renamed("where.y", "position.at_y")
        .renamed("next", "link")
        .narrowed("count")
        .removed("ratio")
        .removed("letters")
        .removed("maybe")
        .removed("choice")
        .added("added", 42);
  }
};
template <>
struct evolve<evolving::chained::part> {
  static void describe(changes<evolving::chained::part>& of) {
    of.since(0).renamed("weight", "load").removed("count").removed("next").removed("where").added("second", 2);
    of.since(1)
        .renamed("load", "burden")
        .removed("ratio")
        .removed("letters")
        .removed("maybe")
        .removed("choice")
        .added("third", 3);
  }
};
template <>
struct evolve<evolving::taken_apart::part> {
  static void describe(changes<evolving::taken_apart::part>& of) {
    of.since(0).removed("weight").removed("count").removed("next").removed("ratio").removed("letters");
    of.since(0).renamed("where", "place").renamed("maybe", "perhaps").removed("choice");
    of.since(1).renamed("place.x", "x").renamed("place.y", "y").removed("perhaps");
    of.since(2).removed("y");
  }
};
template <>
struct evolve<evolving::gone_in_parts::part> {
  static void describe(changes<evolving::gone_in_parts::part>& of) {
    of.since(0).removed("count").removed("next").removed("ratio").removed("letters").removed("maybe").removed("choice");
    of.since(0).renamed("where.x", "x").renamed("where.y", "y");
    of.since(1).removed("x").removed("y");
  }
};
template <>
struct evolve<evolving::moved_twice::part> {
  static void describe(changes<evolving::moved_twice::part>& of) {
    of.since(0).renamed("weight", "pair.x").renamed("count", "pair.y").removed("next").removed("where");
    of.since(0).removed("ratio").removed("letters").removed("maybe").removed("choice");
    of.since(1).renamed("pair", "numbers");
  }
};
template <>
struct evolve<evolving::moved_twice_by_a_function::part> {
  static void describe(changes<evolving::moved_twice_by_a_function::part>& of) {
    of.since(0).renamed("weight", "pair.x").renamed("count", "pair.y");
    of.since(0).converted([](const old_object&, evolving::moved_twice_by_a_function::part&, conversion&) {});
    of.since(1).renamed("pair", "numbers");
  }
};
template <>
struct evolve<evolving::lost_later::part> {
  static void describe(changes<evolving::lost_later::part>& of) {
    of.since(0).renamed("weight", "numbers.x");
    of.since(0).converted([](const old_object&, evolving::lost_later::part&, conversion&) {});
    of.since(1).renamed("count", "numbers.x");
  }
};
template <>
struct evolve<evolving::called::part> {
  static void describe(changes<evolving::called::part>& of) {
    of.since(0).converted([](const old_object& was, evolving::called::part& is, conversion& how) {
      is.area = was.get<long>("where.x") * was.at("where").get<long>("y");
      is.text = std::string(100, 'x');
      is.twin = how.make<evolving::called::part>(1, how.new_of<evolving::called::part>(was), nullptr, "");
      if (was.get<int>("weight") == 13) throw std::runtime_error("no luck");
    });
  }
};

}  // namespace tenure

namespace {

using namespace tenure;
using types::evolution;
using types::value_conversion;

template <class T>
const type& as_stored() {
  return support::renamed(
      type_of<T>(), {"evolving::was::", "evolving::reordered::", "evolving::removed::", "evolving::declared::",
                     "evolving::chained::", "evolving::other_kinds::", "evolving::called::", "evolving::no_default::",
                     "evolving::exchanged::", "evolving::moved_twice::", "evolving::moved_twice_by_a_function::",
                     "evolving::lost_later::", "evolving::taken_apart::", "evolving::gone_in_parts::",
                     "evolving::bases::", "evolving::other_bases::", "evolving::flat::", "evolving::into_nested::"});
}

struct planned {
  std::vector<std::string> problems;
  value_conversion how;
  [[nodiscard]] std::optional<std::uint64_t> moved(std::uint64_t offset, std::string_view pointee = "") const {
    static const std::vector<std::byte> old(4096);
    return how.moved_offset(old.data(), offset, pointee);
  }
};
template <class Was, class Is>
planned plan() {
  const type& is = as_stored<Is>();
  planned result;
  result.how = evolution({&is}).plan(as_stored<Was>(), is, result.problems);
  return result;
}

// Of one value. References stay those of the old one.
template <class Is, class Was>
const Is& converted(const Was& value, rewriting::value_bytes& into, detail::conversion_memory& further) {
  const planned p = plan<Was, Is>();
  for (const std::string& problem : p.problems) ADD_FAILURE() << problem;
  rewriting::convert(p.how, std::as_bytes(std::span(&value, 1)), into, further);
  EXPECT_EQ(into.size(), sizeof(Is));
  return *reinterpret_cast<const Is*>(into.data());
}

bool says(const std::vector<std::string>& problems, const std::string& what) {
  return std::ranges::any_of(problems, [&](const std::string& p) { return p.find(what) != std::string::npos; });
}

class evolving_values : public support::reopened_store {
 protected:
  detail::conversion_memory further{*current_store()->databases};
  rewriting::value_bytes into;

  static evolving::was::part some() {
    evolving::was::part p{};
    p.weight = -5;
    p.count = 200;
    p.next = reinterpret_cast<evolving::was::part*>(0x1234);
    p.where = {3, -4};
    p.ratio = 0.5F;
    for (int n = 0; n < 4; ++n) p.letters[n] = static_cast<std::int8_t>(-n);
    p.maybe = evolving::was::place{5, 6};
    p.choice = 7;
    return p;
  }
};

TEST_F(evolving_values, fields_find_their_names_and_numbers_become_wider) {
  auto value = some();
  for (const bool has : {true, false}) {
    if (!has) value.maybe.reset();
    const auto& is = converted<evolving::reordered::part>(value, into, further);
    EXPECT_EQ(is.weight, -5);
    EXPECT_EQ(is.count, 200u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(is.next), 0x1234u);
    EXPECT_EQ(is.where.x, 3);
    EXPECT_EQ(is.where.y, -4.0);
    EXPECT_EQ(is.ratio, 0.5);
    for (int n = 0; n < 4; ++n) EXPECT_EQ(is.letters[n], -n);
    EXPECT_EQ(is.letters[5], 0);
    EXPECT_EQ(is.fresh, 7);
    EXPECT_EQ(is.maybe.has_value(), has);
    if (has) {
      EXPECT_EQ(is.maybe->x, 5);
    }
    EXPECT_TRUE(is.list.empty());  // its end is in the new value
    EXPECT_EQ(std::get<std::int64_t>(is.choice), 7);
  }
}

TEST_F(evolving_values, what_is_gone_must_be_declared) {
  const planned p = plan<evolving::was::part, evolving::removed::part>();
  EXPECT_EQ(p.problems.size(), 7u);
  EXPECT_TRUE(says(p.problems,
                   "field `count` (unsigned short) is gone: declare since(0).removed(\"count\"), or "
                   "since(0).renamed(\"count\", NEW NAME)"));
}

TEST_F(evolving_values, declarations_rename_move_narrow_and_add) {
  auto value = some();
  value.count = 100;
  const auto& is = converted<evolving::declared::part>(value, into, further);
  EXPECT_EQ(is.mass, -5);
  EXPECT_EQ(is.position.at_x, 3);
  EXPECT_EQ(is.position.at_y, -4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(is.link), 0x1234u);
  EXPECT_EQ(is.count, 100);
  EXPECT_EQ(is.added, 42);
  value.count = 128;
  support::expect_error(errc::schema_mismatch, {"`count`", "does not fit"}, [&] {
    rewriting::convert(plan<evolving::was::part, evolving::declared::part>().how, std::as_bytes(std::span(&value, 1)),
                       into, further);
  });
}

TEST_F(evolving_values, declarations_of_several_versions_follow_each_other) {
  const auto value = some();
  const auto& is = converted<evolving::chained::part>(value, into, further);
  EXPECT_EQ(is.burden, -5);
  EXPECT_EQ(is.second, 2);
  EXPECT_EQ(is.third, 3);
}

TEST_F(evolving_values, what_moved_into_a_nested_class_goes_where_that_went) {
  auto value = some();
  value.count = 100;
  const auto expect = [](const auto& is) {
    EXPECT_EQ(is.numbers.x, -5);
    EXPECT_EQ(is.numbers.y, 100);
  };
  expect(converted<evolving::moved_twice::part>(value, into, further));
  expect(converted<evolving::moved_twice_by_a_function::part>(value, into, further));
}

TEST_F(evolving_values, what_was_renamed_may_be_taken_apart_later) {
  const auto value = some();
  EXPECT_EQ(converted<evolving::taken_apart::part>(value, into, further).x, 3);
  EXPECT_EQ(converted<evolving::gone_in_parts::part>(value, into, further).weight, -5);
}

// A function may use a field that was not renamed. One that was must arrive.
TEST_F(evolving_values, renamed_fields_are_not_lost_behind_a_function) {
  const planned p = plan<evolving::was::part, evolving::lost_later::part>();
  EXPECT_EQ(p.problems.size(), 1U);
  EXPECT_TRUE(says(p.problems, "field `weight` (int) was renamed, and would be `numbers.x` now"));
  EXPECT_TRUE(says(p.problems, "removed(\"weight\")"));
}

TEST_F(evolving_values, names_may_be_exchanged_and_come_back) {
  auto value = some();
  value.count = 100;
  const auto& is = converted<evolving::exchanged::part>(value, into, further);
  EXPECT_EQ(is.where_x, 3);
  EXPECT_EQ(is.where_y, -4);
  EXPECT_EQ(is.ratio, 77);
  EXPECT_EQ(is.amount, 100);
}

TEST_F(evolving_values, fields_move_into_nested_classes_that_stay) {
  const evolving::flat::part value{{3}, 4, {{1, 2, 3}, {4, 5, 6}}};
  const auto& is = converted<evolving::into_nested::part>(value, into, further);
  EXPECT_EQ(is.where.x, 3);
  EXPECT_EQ(is.where.y, 4);
  EXPECT_EQ(is.matrix[1][0], 4);
}

TEST_F(evolving_values, arrays_of_arrays_keep_their_size) {
  const planned p = plan<evolving::flat::part, evolving::into_nested::wider_rows>();
  EXPECT_TRUE(
      says(p.problems, "field `matrix` had 6 elements, and is an array of arrays with 8: make it in a function"));
}

TEST_F(evolving_values, other_kinds_need_a_function) {
  const planned p = plan<evolving::was::part, evolving::other_kinds::part>();
  EXPECT_TRUE(says(p.problems, "`next` was part*, is unsigned long, of another kind: make it in a function"));
  EXPECT_TRUE(says(p.problems, "`where` was place, is place*, of another kind"));
  EXPECT_TRUE(
      says(p.problems, "`ratio` was float, is int: make it in a function (converted), and declare since(0).removed"));
  EXPECT_TRUE(says(p.problems, "; or declare since(0).narrowed(\"ratio\") if each value fits"));
  EXPECT_TRUE(says(p.problems, "`letters` had 4 elements, has 2"));
  EXPECT_TRUE(says(p.problems, "`value` was place, is int, of another kind"));
}

TEST_F(evolving_values, nodes_of_a_cache_map_have_room_for_fewer) {
  using before = cache::detail::map_leaf<int, evolving::was::place>;
  using after = cache::detail::map_leaf<int, evolving::was::part>;
  static_assert(after::slots < before::slots);
  EXPECT_TRUE((plan<before, after>().how.has_fewer_slots));
  EXPECT_FALSE((plan<before, before>().how.has_fewer_slots));
}

TEST_F(evolving_values, functions_see_old_values_and_make_further_objects) {
  auto value = some();
  const auto& is = converted<evolving::called::part>(value, into, further);
  EXPECT_EQ(is.area, -12);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(is.next), 0x1234u);
  EXPECT_EQ(is.text, std::string(100, 'x'));
  EXPECT_NE(further.find(reinterpret_cast<std::uintptr_t>(is.text.data())), nullptr);
  ASSERT_NE(further.find(reinterpret_cast<std::uintptr_t>(is.twin)), nullptr);
  EXPECT_EQ(static_cast<const void*>(is.twin->next), &value);
  value.weight = 13;
  const planned p = plan<evolving::was::part, evolving::called::part>();
  EXPECT_THROW(rewriting::convert(p.how, std::as_bytes(std::span(&value, 1)), into, further), std::runtime_error);
  further.clear();
}

TEST_F(evolving_values, a_new_field_needs_a_value) {
  const planned p = plan<evolving::was::place, evolving::no_default::part>();
  EXPECT_TRUE(says(p.problems, "field `weight` is new, and part has no default constructor"));
}

TEST_F(evolving_values, pointers_to_parts_follow_them) {
  using was = evolving::was::part;
  using is = evolving::reordered::part;
  const planned p = plan<was, is>();
  const is at{};  // its list makes its layout one that offsetof may not ask for
  const auto place_of = [&](const auto& member) {
    return static_cast<std::size_t>(reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&at));
  };
  EXPECT_EQ(p.moved(0), 0u) << "the object itself is meant, not its first field";
  EXPECT_EQ(p.moved(offsetof(was, count)), place_of(at.count));
  EXPECT_EQ(p.moved(offsetof(was, where), "place"), place_of(at.where));
  EXPECT_EQ(p.moved(offsetof(was, where), "int"), std::nullopt) << "it is a long now";
  EXPECT_EQ(p.moved(offsetof(was, where), "long"), place_of(at.where) + offsetof(evolving::reordered::place, x));
  EXPECT_EQ(p.moved(offsetof(was, where) + 4), place_of(at.where) + offsetof(evolving::reordered::place, y));
  EXPECT_EQ(p.moved(offsetof(was, letters) + 2), place_of(at.letters) + 4);
  EXPECT_EQ(p.moved(offsetof(was, count) + 1), std::nullopt) << "it is no copy";
  const planned gone = plan<was, evolving::declared::part>();
  EXPECT_EQ(gone.moved(offsetof(was, letters), ""), std::nullopt);
}

TEST_F(evolving_values, pointers_to_the_first_field_and_to_bases_follow_them) {
  {
    using was = evolving::was::place;
    const planned p = plan<was, evolving::reordered::place>();
    EXPECT_EQ(p.moved(0, "int"), std::nullopt) << "it is a long now";
    EXPECT_EQ(p.moved(0, "place"), 0u);
    EXPECT_EQ(p.moved(0, ""), 0u);
    EXPECT_EQ(p.moved(0, "char"), 0u);
  }
  using was = evolving::bases::both;
  using is = evolving::other_bases::both;
  const type& program = as_stored<is>();
  planned p;
  p.how = evolution({&program, &as_stored<evolving::other_bases::left>(), &as_stored<evolving::other_bases::right>()})
              .plan(as_stored<was>(), program, p.problems);
  EXPECT_TRUE(p.problems.empty());
  const was old{};
  const is made{};
  const auto offset = [](const auto& whole, const auto& base) {
    return static_cast<std::uint64_t>(reinterpret_cast<const char*>(&base) - reinterpret_cast<const char*>(&whole));
  };
  EXPECT_EQ(p.moved(offset(old, static_cast<const evolving::bases::left&>(old)), "left"),
            offset(made, static_cast<const evolving::other_bases::left&>(made)));
  EXPECT_EQ(p.moved(offset(old, static_cast<const evolving::bases::right&>(old)), "right"),
            offset(made, static_cast<const evolving::other_bases::right&>(made)));
  EXPECT_EQ(p.moved(offset(old, old.a), "int"), offset(made, made.a));
}

// Its members have the same names in each.
TEST_F(evolving_values, a_base_that_is_there_twice_must_stay_as_it_is) {
  EXPECT_TRUE(says(plan<evolving::bases::twice, evolving::other_bases::twice>().problems,
                   "left::a`, of a base that it has more than once"));
  EXPECT_TRUE((plan<evolving::bases::twice, evolving::bases::twice>().problems.empty()));
}

TEST_F(evolving_values, classes_are_found_by_their_old_names) {
  const type& is = as_stored<evolving::declared::part>();
  const evolution plan({&is});
  EXPECT_EQ(plan.renamed("component*"), "part*");
  EXPECT_EQ(plan.renamed("std::map<component, my::component, components>"),
            "std::map<part, my::component, components>");
  EXPECT_EQ(plan.renamed("component::inner"), "part::inner");
  EXPECT_EQ(plan.renamed("base<component>::x"), "base<part>::x");
  type old = as_stored<evolving::was::part>();
  old.name = "component";
  EXPECT_EQ(plan.program_type_of(old), &is);
  old.name = "other";
  EXPECT_EQ(plan.program_type_of(old), nullptr);
}

// Objects of the old name are those of the class that has it now, or of the one that had it.
TEST_F(evolving_values, old_names_may_be_those_of_other_classes_now) {
  const type& is = as_stored<evolving::declared::part>();
  type other = as_stored<evolving::removed::part>(), old = as_stored<evolving::was::part>();
  other.name = old.name = "component";
  {
    evolution plan({&is, &other});
    plan.look_at({&old});
    EXPECT_EQ(plan.program_type_of(old), &is);
    EXPECT_EQ(plan.renamed("component*"), "part*");
  }
  type changed = as_stored<evolving::reordered::part>();  // the other class has changed, too
  changed.name = "component";
  evolution of_both({&is, &changed});
  of_both.look_at({&old});
  EXPECT_EQ(of_both.program_type_of(old), &changed);
  type stored_other = other;
  for (const std::vector<const type*>& stored : {std::vector<const type*>{&stored_other}, {&old, &is}}) {
    evolution plan({&is, &other});
    plan.look_at(stored);
    EXPECT_EQ(plan.program_type_of(*stored[0]), &other);
    EXPECT_EQ(plan.renamed("component*"), "component*");
  }
}

}  // namespace
