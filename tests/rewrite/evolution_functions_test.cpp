// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Functions of conversions, and the fields that they do not make.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/evolve.hpp>
#include <tenure/string.hpp>
#include <tenure/tenure.hpp>
#include <tenure/vector.hpp>

#include "rewrite/conversion_memory.hpp"
#include "rewrite/converted_values.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/renamed_type.hpp"
#include "support/test_store.hpp"
#include "types/evolution.hpp"
#include "types/fingerprint.hpp"

namespace evolving_functions {

namespace was {
struct place {
  std::int32_t x;
};
struct part {
  std::int32_t size, count;
  double ratio;
  wchar_t letter;
  char8_t octet;
  place* where;
  tenure::vector<std::int32_t> numbers;
  place nested;
  std::int32_t words[2];
};
struct note {
  std::int32_t x;
};
struct choice {
  std::variant<std::int32_t, double> of;
};
}  // namespace was

namespace some_fields {  // the function makes one of them
struct place {
  std::int32_t x;
};
struct note {
  std::int32_t x = 0;
  tenure::string text{"a text that does not fit into the string itself, and needs memory"};
};
struct choice {
  std::variant<std::int32_t, double, place, tenure::string> of;
};
struct part {
  std::int32_t area = 0;
  std::int16_t size = 0, count = 0;
  float ratio = 0;
  std::int64_t letter = 0, octet = 0;
  part* where = nullptr;
  tenure::vector<std::int64_t> numbers;
  std::int64_t nested = 0;
  std::int32_t words[2][2]{};
};
}  // namespace some_fields

namespace all_fields {
struct part {
  std::int32_t area = 0;
  std::int16_t size = 0, count = 0;
  float ratio = 0;
  std::int64_t letter = 0, octet = 0;
  std::int64_t nested = 0;
};
}  // namespace all_fields

}  // namespace evolving_functions

namespace tenure {

template <>
struct evolve<evolving_functions::some_fields::part> {
  static void describe(changes<evolving_functions::some_fields::part>& of) {
    of.since(0).converted([](const old_object& was, evolving_functions::some_fields::part& is, conversion&) {
      is.area = was.get<int>("size") * was.get<int>("size");
    });
  }
};
template <>
struct evolve<evolving_functions::all_fields::part> {
  static void describe(changes<evolving_functions::all_fields::part>& of) {
    of.since(0).converted([](const old_object& was, evolving_functions::all_fields::part& is, conversion&) {
      is.area = was.get<int>("size") * was.get<int>("size");
      is.size = static_cast<std::int16_t>(was.get<int>("size") / 1000);
      is.ratio = static_cast<float>(was.get<double>("ratio"));
      (void)was.get<signed char>("words[1]");
      is.nested = was.get<long>("nested.x") + was.get<wchar_t>("letter");
    });
    of.since(0).narrowed("count").removed("size").removed("ratio").removed("nested");
  }
};

}  // namespace tenure

namespace {

using namespace tenure;
using namespace evolving_functions;

template <class T>
const type& stored_as() {
  return support::renamed(
      type_of<T>(),
      {"evolving_functions::was::", "evolving_functions::some_fields::", "evolving_functions::all_fields::"});
}
template <class Is>
types::value_conversion planned_from_parts(std::vector<std::string>& problems) {
  const type& is = stored_as<Is>();
  return types::evolution({&is}).plan(stored_as<was::part>(), is, problems);
}

// They have names and other types, and nobody says that the function has seen them.
TEST(evolving_with_functions, what_they_may_have_forgotten_is_refused) {
  std::vector<std::string> problems;
  (void)planned_from_parts<some_fields::part>(problems);
  for (const std::string name : {"size", "count", "ratio", "where", "numbers", "nested", "words"})
    EXPECT_EQ(std::ranges::count_if(
                  problems, [&](const std::string& p) { return p.find("`" + name + "`") != std::string::npos; }),
              1)
        << name;
  EXPECT_EQ(problems.size(), 7u);
  for (const std::string& each : problems) EXPECT_NE(each.find("since(0).removed("), std::string::npos) << each;
}

TEST(evolving, is_planned_without_a_store_where_defaults_need_memory) {
  ASSERT_EQ(current_store(), nullptr);
  std::vector<std::string> problems;
  const type& is = stored_as<some_fields::note>();
  (void)types::evolution({&is}).plan(stored_as<was::note>(), is, problems);
  EXPECT_EQ(problems, std::vector<std::string>());
}

// Else an older program would take away what a newer one has added.
TEST(evolving_backwards, is_refused) {
  const auto problems_of = [](std::uint32_t stored, std::uint32_t program) {
    type was = stored_as<was::place>(), is = stored_as<some_fields::place>();
    was.version = stored;
    is.version = program;
    was.fields.push_back(was.fields[0]);
    was.fields.back().name = "y";
    was.fields.back().offset = was.size;
    was.size *= 2;
    was.fingerprint = types::fingerprint_of(was);
    std::vector<std::string> problems;
    (void)types::evolution({&is}).plan(was, is, problems);
    return problems;
  };
  EXPECT_NE(problems_of(1, 0).at(0).find("was stored with version 1 of the class, and this program has version 0"),
            std::string::npos);
  EXPECT_NE(problems_of(1, 1).at(0).find("declare since(1).removed(\"y\")"), std::string::npos);
  EXPECT_NE(problems_of(0, 1).at(0).find("declare since(0).removed(\"y\")"), std::string::npos);
}

class evolving_by_functions : public support::reopened_store {};

TEST_F(evolving_by_functions, make_what_is_declared_to_be_gone) {
  std::vector<std::string> problems;
  const types::value_conversion how = planned_from_parts<all_fields::part>(problems);
  for (const std::string& each : problems) ADD_FAILURE() << each;
  detail::conversion_memory further{*current_store()->databases};
  rewriting::value_bytes into;
  was::part value{};
  value.size = 2000;
  value.count = 7;
  value.ratio = 1.5;
  value.letter = static_cast<wchar_t>(-3);
  value.octet = char8_t{0xe4};
  value.nested.x = 5;
  rewriting::convert(how, std::as_bytes(std::span(&value, 1)), into, further);
  const auto& is = *reinterpret_cast<const all_fields::part*>(into.data());
  EXPECT_EQ(is.area, 4'000'000);
  EXPECT_EQ(is.size, 2);
  EXPECT_EQ(is.count, 7);
  EXPECT_EQ(is.ratio, 1.5F);
  EXPECT_EQ(is.letter, value.letter);
  EXPECT_EQ(is.octet, 0xe4);
  EXPECT_EQ(is.nested, 5 + value.letter);
  value.count = 70'000;
  EXPECT_THROW(rewriting::convert(how, std::as_bytes(std::span(&value, 1)), into, further), error);
  value.count = 7;
  value.words[1] = 500;
  support::expect_error(errc::schema_mismatch, {"the function for a ", "part at 0x", "part.words[1]", "does not fit"},
                        [&] { rewriting::convert(how, std::as_bytes(std::span(&value, 1)), into, further); });
}

// No stored value has them.
TEST_F(evolving_by_functions, are_not_needed_for_alternatives_that_were_appended) {
  std::vector<std::string> problems;
  const type& is = stored_as<some_fields::choice>();
  const types::value_conversion how = types::evolution({&is}).plan(stored_as<was::choice>(), is, problems);
  EXPECT_EQ(problems, std::vector<std::string>());
  detail::conversion_memory further{*current_store()->databases};
  rewriting::value_bytes into;
  const was::choice value{2.5};
  rewriting::convert(how, std::as_bytes(std::span(&value, 1)), into, further);
  EXPECT_EQ(std::get<1>(reinterpret_cast<const some_fields::choice*>(into.data())->of), 2.5);
}

TEST_F(evolving_by_functions, follow_elements_that_are_pointers) {
  auto& root = s().root<was::place>("place");
  s().transact([&] { root.x = 7; });
  detail::conversion_memory further{*current_store()->databases};
  const was::place* const elements[2] = {&root, nullptr};
  const old_object all(type_of<was::place*>(), reinterpret_cast<const std::byte*>(elements), 2, further);
  EXPECT_EQ(all[0].behind("").get<int>("x"), 7);
  EXPECT_FALSE(all[1].behind(""));
  EXPECT_THROW((void)all[0].behind("").behind(""), error);  // is no pointer
}

}  // namespace
