// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/differences.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <tenure/registry.hpp>

#include "support/renamed_type.hpp"
#include "types/fingerprint.hpp"

namespace types_test {

using tenure::type;
using tenure::type_of;
using tenure::types::differences;

namespace before {
struct place {
  int x, y;
};
struct package {
  int size;
  package* depends;
  place where;
  std::variant<int, package*> either;
  char name[8];
};
}  // namespace before
namespace after {
struct place {
  int x;
  double y;
};
struct package {
  package* depends;
  tenure::transient<int> size;
  place where;
  std::variant<int, long, package*> either;
  char name[16];
  bool fresh;
};
}  // namespace after

type renamed(const type& t) { return tenure::support::renamed(t, {"before::", "after::"}); }

TEST(differences, are_said_field_by_field) {
  const type was = renamed(type_of<before::package>()), is = renamed(type_of<after::package>());
  EXPECT_EQ(
      differences(was, is),
      (std::vector<std::string>{
          "types_test::package: had 48 bytes, has 72",
          "types_test::package.size: was int at offset 0, is tenure::transient<int> at offset 8",
          "types_test::package.depends: was types_test::package* at offset 8, is types_test::package* at offset 0",
          "types_test::package.where (types_test::place): had 8 bytes, has 16",
          "types_test::package.where (types_test::place): had alignment 4, has 8",
          "types_test::package.where (types_test::place).y: was int at offset 4, is double at offset 8",
          "types_test::package.either: was std::variant<int, types_test::package*> at offset 24, is std::variant<int, "
          "long, types_test::package*> at offset 32",
          "types_test::package.name: was char[8] at offset 40, is char[16] at offset 48",
          "types_test::package: field `fresh` is new: bool at offset 64",
      }));
  const auto back = differences(is, was);
  EXPECT_NE(std::find(back.begin(), back.end(), "types_test::package: field `fresh` is gone: it was bool at offset 64"),
            back.end());
}

TEST(differences, of_the_same_type_are_none) {
  EXPECT_TRUE(differences(type_of<before::package>(), type_of<before::package>()).empty());
  const type copy = renamed(type_of<before::package>());
  EXPECT_TRUE(differences(copy, renamed(type_of<before::package>())).empty());
}

// Whatever changes the fingerprint must be said, and whatever can change must change the fingerprint.
TEST(differences, are_never_silent) {
  const type original = type_of<before::package>();
  const auto expect_said = [&](const char* what, auto change) {
    type changed = original;
    change(changed);
    changed.fingerprint = tenure::types::fingerprint_of(changed);
    EXPECT_TRUE(changed.fingerprint != original.fingerprint || changed.version != original.version) << what;
    const auto said = differences(original, changed);
    ASSERT_FALSE(said.empty()) << what;
    EXPECT_EQ(said[0].find("another order") != std::string::npos, std::string(what) == "order") << said[0];
  };
  expect_said("version", [](type& t) { ++t.version; });
  expect_said("size", [](type& t) { ++t.size; });
  expect_said("alignment", [](type& t) { ++t.alignment; });
  expect_said("stale", [](type& t) { t.tolerates_stale = true; });
  expect_said("no fields", [](type& t) { t.fields.clear(); });
  expect_said("order", [](type& t) { std::swap(t.fields[0], t.fields[1]); });
  expect_said("name", [](type& t) { t.fields[0].name += "x"; });
  expect_said("kind", [](type& t) { t.fields[0].kind = tenure::field_kind::transient; });
  expect_said("scalar", [](type& t) { t.fields[0].scalar = tenure::scalar_kind::unsigned_integer; });
  expect_said("offset", [](type& t) { ++t.fields[0].offset; });
  expect_said("field size", [](type& t) { ++t.fields[0].size; });
  expect_said("count", [](type& t) { ++t.fields[0].count; });
  expect_said("subobject", [](type& t) { ++t.fields[0].subobject; });
  expect_said("type name", [](type& t) { t.fields[0].type_name = "long"; });
  expect_said("guard", [](type& t) { t.fields[0].only_if = tenure::field_guard{8, 1, 1}; });
  expect_said("nested", [](type& t) { t.fields[2].of = &type_of<after::place>; });
}

// Stored for good: the same for every compiler and every build (docs/formats.md). [types.identity]
TEST(fingerprint, is_what_it_always_was) {
  EXPECT_EQ(type_of<int>().fingerprint, 0x21f1c91d30b34743);
  EXPECT_EQ(type_of<before::place>().fingerprint, 0x27215c2055d6bf8c);
  EXPECT_EQ(type_of<before::package>().fingerprint, 0x2aac6bb0c55e52ad);
  EXPECT_EQ(type_of<std::optional<before::package>>().fingerprint, 0x20c1a3372b3da0d0);
}

// The bytes as docs/formats.md has them, put together by hand.
TEST(fingerprint, is_fnv_1a_of_the_documented_bytes) {
  const auto number = [](std::uint64_t n) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(n >> (8 * i));
    return bytes;
  };
  const std::string value = number(4) + number(4) + '\0' + number(1)                   // size, alignment, stale, fields
                            + '\0' + '\0' + '\3' + number(0) + number(4) + number(1)   // name, kind, scalar, place
                            + number(0) + std::string("int\0", 4) + number(0) + '\0';  // type, nested, guard
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : value) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  EXPECT_EQ(type_of<int>().fingerprint, hash);
}

const tenure::register_type<before::place, before::package> registered;
const tenure::register_type<before::place> registered_again;

TEST(registry, has_each_type_once) {
  const auto types = tenure::registered_types();
  EXPECT_EQ(std::count(types.begin(), types.end(), &type_of<before::place>()), 1);
  EXPECT_EQ(std::count(types.begin(), types.end(), &type_of<before::package>()), 1);
  EXPECT_EQ(std::count(types.begin(), types.end(), &type_of<after::package>()), 0);
}

struct far_end {
  int value;
};
struct near_end {
  std::array<std::optional<far_end*>, 2> ends;
};
const tenure::register_type<near_end> registered_for_what_it_refers_to;

// A program that only follows pointers must not read a struct that has changed.
TEST(registry, has_what_registered_types_refer_to) {
  const auto types = tenure::registered_types();
  EXPECT_EQ(std::count(types.begin(), types.end(), &type_of<far_end>()), 1);
}

}  // namespace types_test
