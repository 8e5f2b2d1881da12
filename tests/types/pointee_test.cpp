// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a pointer of a declared type may refer to.
#include "types/pointee.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <tenure/tenure.hpp>

namespace pointee_test {

struct inner {
  double d;
  std::int32_t n;
};
struct base {
  std::uint64_t a;
  inner in;
};
struct derived : base {
  inner* to;
};
struct whole {
  inner first, more[3];
  const derived* at;
  std::optional<inner*> maybe;
  char bytes[64];
  std::uint64_t number;
};
struct listed : inner, base {
  std::uint64_t own;
  static constexpr auto persistent = tenure::bases<inner, base>{} + tenure::members<&listed::own>{};
};
struct further : listed {
  std::uint64_t more;
  static constexpr auto persistent = tenure::bases<listed>{} + tenure::members<&further::more>{};
};
class hidden {
 public:
  hidden() : word_(0) {}
  std::uint64_t& word() { return word_; }

 private:
  std::uint64_t word_;
};

TEST(pointee, is_named_by_the_pointers_type) {
  EXPECT_EQ(tenure::pointee_of("part*"), "part");
  EXPECT_EQ(tenure::pointee_of("part const*"), "part");
  EXPECT_EQ(tenure::pointee_of("part const volatile*"), "part");
  EXPECT_EQ(tenure::pointee_of("part* const*"), "part*");
  EXPECT_EQ(tenure::pointee_of("part"), "");
  const tenure::type& of = tenure::type_of<whole>();
  EXPECT_EQ(tenure::pointee_of(tenure::declared_type_of_pointer(of, offsetof(whole, at))), "pointee_test::derived");
  EXPECT_EQ(tenure::declared_type_of_pointer(of, sizeof(whole) + offsetof(whole, maybe)), "pointee_test::inner*");
  EXPECT_EQ(tenure::declared_type_of_pointer(of, offsetof(whole, number)), "");
}

TEST(pointee, is_an_object_or_a_part_of_one) {
  const tenure::type& of = tenure::type_of<whole>();
  const auto may = [&]<class T>(std::size_t at, std::type_identity<T>) {
    return tenure::may_contain(of, at, tenure::type_of<T>());
  };
  EXPECT_TRUE(may(0, std::type_identity<whole>()));
  EXPECT_TRUE(may(3 * sizeof(whole), std::type_identity<whole>()));
  EXPECT_FALSE(may(8, std::type_identity<whole>()));
  EXPECT_TRUE(may(0, std::type_identity<inner>()));
  EXPECT_TRUE(may(offsetof(whole, more) + 2 * sizeof(inner), std::type_identity<inner>()));
  EXPECT_FALSE(may(offsetof(whole, more) + 8, std::type_identity<inner>()));
  EXPECT_FALSE(may(offsetof(whole, number), std::type_identity<inner>()));
  EXPECT_TRUE(may(offsetof(whole, bytes) + 16, std::type_identity<inner>())) << "anything may have been made there";
  EXPECT_TRUE(may(offsetof(whole, bytes) + 48, std::type_identity<inner>()));
  EXPECT_FALSE(may(offsetof(whole, bytes) + 56, std::type_identity<inner>())) << "it would end behind the bytes";
  EXPECT_TRUE(may(offsetof(whole, number), std::type_identity<unsigned>())) << "numbers are not told apart";
  EXPECT_TRUE(tenure::may_contain(tenure::type_of<derived>(), 0, tenure::type_of<base>()));
  EXPECT_TRUE(tenure::may_contain(tenure::type_of<derived>(), 8, tenure::type_of<inner>()));
  EXPECT_FALSE(tenure::may_contain(tenure::type_of<base>(), 0, tenure::type_of<derived>()));
  EXPECT_TRUE(tenure::may_contain(tenure::type_of<hidden>(), 0, tenure::type_of<inner>())) << "its layout is not known";
}

// Descriptions have their members.
TEST(pointee, is_a_base) {
  const further one{};
  const auto* const start = reinterpret_cast<const std::byte*>(&one);
  const auto at = [&](const auto& part) {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&part) - start);
  };
  const auto may = [](std::size_t offset, const tenure::type& of) {
    return tenure::may_contain(tenure::type_of<further>(), offset, of);
  };
  EXPECT_TRUE(may(at(static_cast<const listed&>(one)), tenure::type_of<listed>()));
  EXPECT_TRUE(may(at(static_cast<const inner&>(one)), tenure::type_of<inner>()));
  EXPECT_TRUE(may(at(static_cast<const base&>(one)), tenure::type_of<base>()));
  EXPECT_TRUE(may(at(one.in), tenure::type_of<inner>()));
  EXPECT_TRUE(may(sizeof(further) + at(static_cast<const base&>(one)), tenure::type_of<base>()));
  EXPECT_FALSE(may(0, tenure::type_of<base>()));
  EXPECT_FALSE(may(at(static_cast<const base&>(one)), tenure::type_of<listed>()));
  EXPECT_FALSE(may(at(one.own), tenure::type_of<inner>()));
  EXPECT_FALSE(may(at(one.more), tenure::type_of<listed>()));
}

}  // namespace pointee_test
