// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a pointer of a declared type may refer to.
#include "types/pointee.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

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
  const auto may = [&](std::size_t at, const char* name) { return tenure::may_contain(of, at, name); };
  EXPECT_TRUE(may(0, "pointee_test::whole"));
  EXPECT_TRUE(may(3 * sizeof(whole), "pointee_test::whole"));
  EXPECT_FALSE(may(8, "pointee_test::whole"));
  EXPECT_TRUE(may(0, "pointee_test::inner"));
  EXPECT_TRUE(may(offsetof(whole, more) + 2 * sizeof(inner), "pointee_test::inner"));
  EXPECT_FALSE(may(offsetof(whole, more) + 8, "pointee_test::inner"));
  EXPECT_FALSE(may(offsetof(whole, number), "pointee_test::inner"));
  EXPECT_TRUE(may(offsetof(whole, bytes) + 16, "pointee_test::inner")) << "anything may have been made there";
  EXPECT_TRUE(may(offsetof(whole, number), "unsigned int")) << "numbers are not told apart";
  EXPECT_TRUE(may(offsetof(whole, number), "void"));
  EXPECT_TRUE(tenure::may_contain(tenure::type_of<derived>(), 0, "pointee_test::base"));
  EXPECT_TRUE(tenure::may_contain(tenure::type_of<derived>(), 8, "pointee_test::inner"));
  EXPECT_FALSE(tenure::may_contain(tenure::type_of<base>(), 0, "pointee_test::derived"));
  EXPECT_TRUE(tenure::may_contain(tenure::type_of<hidden>(), 0, "pointee_test::inner")) << "its layout is not known";
}

}  // namespace pointee_test
