// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of aggregates, of classes with a trait, and of the classes of the standard library that hold their values in
// themselves.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <complex>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <tenure/fields.hpp>

#include "support/expect_error.hpp"

namespace types_test {

using tenure::field_kind;
using tenure::is_exact_v;
using tenure::is_persistable_v;
using tenure::pointer_map;
using tenure::scalar_kind;
using tenure::type;
using tenure::type_of;

enum class colour : unsigned char { red, green };
struct incomplete;
struct empty {};
struct no_default {
  explicit no_default(int n) : number(n) {}
  int number;
};

struct inner {
  int count;
  inner* next;
};
struct everything {
  bool yes;
  char text[20];
  colour shade;
  double number;
  const everything* self;
  incomplete* hidden;
  void* anything;
  inner one;
  inner grid[2][3];
  [[no_unique_address]] empty nothing;
  std::atomic<inner*> counter;
  tenure::transient<inner*> cache;
  unsigned long last[2];
};

const tenure::type_field& field_of(const type& t, const std::string& name) {
  for (const tenure::type_field& f : t.fields)
    if (f.name == name) return f;
  throw std::out_of_range(t.name + " has no field " + name);
}

// "reference at 8, ...": what the pointer map says, in words.
std::string words_of(const type& t) {
  static const char* const names[] = {"data", "reference", "derived", "transient", "vtable", "nested", "conservative"};
  std::string text;
  const pointer_map map(t);
  for (const pointer_map::word& w : map.words()) {
    if (!text.empty()) text += ", ";
    text += std::string(names[static_cast<int>(w.kind)]) + " " + std::to_string(w.offset);
    for (std::uint32_t i = 0; i < w.guards; ++i) {
      const tenure::field_guard& guard = map.guards()[w.first_guard + i];
      text += " if " + std::to_string(guard.offset) + "=" + std::to_string(guard.value);
    }
  }
  return text;
}
template <class T>
std::string words_of() {
  return words_of(type_of<T>());
}

TEST(aggregate, fields_are_found_with_names_places_and_kinds) {
  const type& t = type_of<everything>();
  EXPECT_EQ(t.name, "types_test::everything");
  EXPECT_EQ(t.size, sizeof(everything));
  EXPECT_EQ(t.alignment, alignof(everything));
  EXPECT_FALSE(t.is_conservative);
  ASSERT_EQ(t.fields.size(), 12u);  // all but the empty one
  EXPECT_EQ(t.operations->destroy, nullptr);
  EXPECT_EQ(t.operations->vtables, nullptr);

  EXPECT_EQ(field_of(t, "yes").scalar, scalar_kind::boolean);
  EXPECT_EQ(field_of(t, "text").offset, offsetof(everything, text));
  EXPECT_EQ(field_of(t, "text").count, 20u);
  EXPECT_EQ(field_of(t, "text").size, 20u);
  EXPECT_EQ(field_of(t, "text").scalar, scalar_kind::character);
  EXPECT_EQ(field_of(t, "shade").scalar, scalar_kind::enumeration);
  EXPECT_EQ(field_of(t, "shade").type_name, "types_test::colour");
  EXPECT_EQ(field_of(t, "number").scalar, scalar_kind::floating);
  EXPECT_EQ(field_of(t, "self").kind, field_kind::reference);
  EXPECT_EQ(field_of(t, "self").offset, offsetof(everything, self));
  EXPECT_EQ(&field_of(t, "self").of(), &t);
  EXPECT_EQ(field_of(t, "hidden").kind, field_kind::reference);
  EXPECT_EQ(field_of(t, "hidden").of, nullptr);
  EXPECT_EQ(field_of(t, "hidden").type_name, "types_test::incomplete*");
  EXPECT_EQ(field_of(t, "anything").kind, field_kind::reference);
  EXPECT_EQ(field_of(t, "anything").of, nullptr);
  EXPECT_EQ(field_of(t, "one").kind, field_kind::nested);
  EXPECT_EQ(&field_of(t, "one").of(), &type_of<inner>());
  EXPECT_EQ(field_of(t, "grid").count, 6u);
  EXPECT_EQ(field_of(t, "grid").size, sizeof(inner[2][3]));
  EXPECT_EQ(field_of(t, "counter").kind, field_kind::reference);
  EXPECT_EQ(field_of(t, "cache").kind, field_kind::transient);
  EXPECT_EQ(field_of(t, "last").offset, offsetof(everything, last));
  EXPECT_EQ(field_of(t, "last").scalar, scalar_kind::unsigned_integer);
}

TEST(aggregate, pointer_map_is_flat) {
  EXPECT_EQ(words_of<inner>(), "reference 8");
  std::string expected;
  for (const std::size_t at :
       {offsetof(everything, self), offsetof(everything, hidden), offsetof(everything, anything),
        offsetof(everything, one) + 8, offsetof(everything, grid) + 8, offsetof(everything, grid) + 24,
        offsetof(everything, grid) + 40, offsetof(everything, grid) + 56, offsetof(everything, grid) + 72,
        offsetof(everything, grid) + 88, offsetof(everything, counter)})
    expected += "reference " + std::to_string(at) + ", ";
  EXPECT_EQ(words_of<everything>(), expected + "transient " + std::to_string(offsetof(everything, cache)));
  const pointer_map map(type_of<everything>());
  EXPECT_TRUE(map.has_pointers());
  EXPECT_TRUE(map.has_transients());
  EXPECT_FALSE(map.has_vtables());
  EXPECT_FALSE(pointer_map(type_of<int[4]>()).has_pointers());
  EXPECT_EQ(words_of<inner* [3]>(), "reference 0, reference 8, reference 16");
}

TEST(aggregate, paths_name_what_is_at_an_offset) {
  const type& t = type_of<everything>();
  EXPECT_EQ(pointer_map::path_of(t, offsetof(everything, self)), "self");
  EXPECT_EQ(pointer_map::path_of(t, offsetof(everything, one) + 9), "one.next");
  EXPECT_EQ(pointer_map::path_of(t, offsetof(everything, grid) + 64 + 8), "grid[4].next");
  EXPECT_EQ(pointer_map::path_of(t, offsetof(everything, last) + 8), "last[1]");
  EXPECT_EQ(pointer_map::path_of(t, 1 << 20), "");
}

// Aggregates whose fields cannot all be initialized by {}; many fields; large arrays.
struct difficult {
  int first;
  no_default second;
  inner* third[3][2];
  inner fourth;
};
struct large {
  char text[1 << 20];
  large* next;
};
struct many {
  inner *a0, *a1, *a2, *a3, *a4, *a5, *a6, *a7, *b0, *b1, *b2, *b3, *b4, *b5, *b6, *b7, *c0, *c1, *c2, *c3, *c4, *c5,
      *c6, *c7, *d0, *d1, *d2, *d3, *d4, *d5, *d6, *d7, *e0, *e1, *e2, *e3, *e4, *e5, *e6, *e7, *f0, *f1, *f2, *f3, *f4,
      *f5, *f6, *f7, *g0, *g1, *g2, *g3, *g4, *g5, *g6, *g7, *h0, *h1, *h2, *h3, *h4, *h5, *h6, *h7;
};
struct too_many {
  many all;  // one field
  inner *a0, *a1, *a2, *a3, *a4, *a5, *a6, *a7, *b0, *b1, *b2, *b3, *b4, *b5, *b6, *b7, *c0, *c1, *c2, *c3, *c4, *c5,
      *c6, *c7, *d0, *d1, *d2, *d3, *d4, *d5, *d6, *d7, *e0, *e1, *e2, *e3, *e4, *e5, *e6, *e7, *f0, *f1, *f2, *f3, *f4,
      *f5, *f6, *f7, *g0, *g1, *g2, *g3, *g4, *g5, *g6, *g7, *h0, *h1, *h2, *h3, *h4, *h5, *h6, *h7;
};

TEST(aggregate, of_any_size_and_initializers) {
  ASSERT_EQ(type_of<difficult>().fields.size(), 4u);
  EXPECT_EQ(field_of(type_of<difficult>(), "third").count, 6u);
  EXPECT_EQ(field_of(type_of<difficult>(), "fourth").offset, offsetof(difficult, fourth));
  EXPECT_EQ(words_of<large>(), "reference 1048576");
  EXPECT_EQ(type_of<many>().fields.size(), 64u);
  EXPECT_EQ(field_of(type_of<many>(), "h7").offset, 63u * 8);
  EXPECT_TRUE(is_exact_v<many>);
  EXPECT_FALSE(is_exact_v<too_many>);
  EXPECT_EQ(pointer_map(type_of<too_many>()).words().size(), 128u);
}

// What is unknown is conservative, unless it is too small for a pointer.
struct bit_fields {
  unsigned low : 3;
  inner* next;
};
struct small_bit_fields {
  unsigned low : 3, high : 4;
};
struct with_base : inner {
  int more;
};
class private_members {
 public:
  [[nodiscard]] long sum() const { return one_ + two_; }

 private:
  long one_ = 1, two_ = 2;
};
union either {
  int number;
  inner* next;
};

TEST(unknown, layouts_are_conservative) {
  EXPECT_EQ(words_of<bit_fields>(), "conservative 0, conservative 8");
  EXPECT_EQ(words_of<with_base>(), "conservative 0, conservative 8, conservative 16");
  EXPECT_EQ(words_of<private_members>(), "conservative 0, conservative 8");
  EXPECT_EQ(words_of<either>(), "conservative 0");
  EXPECT_TRUE(type_of<std::optional<either>>().is_conservative);
  EXPECT_FALSE(is_exact_v<bit_fields>);
  EXPECT_FALSE(is_exact_v<with_base>);
  EXPECT_FALSE(is_exact_v<private_members>);
  EXPECT_FALSE(is_exact_v<std::optional<either>>);
  EXPECT_TRUE(is_exact_v<either*>);
  EXPECT_TRUE(is_exact_v<small_bit_fields>);
  EXPECT_EQ(words_of<small_bit_fields>(), "");
}

TEST(names, are_the_same_for_all_compilers) {
  using nested = std::optional<std::optional<std::pair<const inner*, unsigned long>>>;
  EXPECT_EQ(type_of<nested>().name, "std::optional<std::optional<std::pair<types_test::inner const*, unsigned long>>>");
  EXPECT_EQ(type_of<unsigned short>().name, "unsigned short");
  EXPECT_EQ((type_of<std::array<colour, 3>>().name), "std::array<types_test::colour, 3ul>");
  EXPECT_EQ(type_of<const char* [2]>().name, "char const* [2]");
}

TEST(standard_class, values_are_found) {
  EXPECT_EQ((words_of<std::array<inner, 2>>()), "reference 8, reference 24");
  EXPECT_EQ((words_of<std::pair<int, inner*>>()), "reference 8");
  std::tuple<inner*, char, inner> three;
  const auto offset = [&](const void* at) {
    return static_cast<const char*>(at) - reinterpret_cast<const char*>(&three);
  };
  const auto one = offset(&std::get<0>(three)), other = offset(&std::get<2>(three).next);
  EXPECT_EQ(words_of<decltype(three)>(), "reference " + std::to_string(std::min(one, other)) + ", reference " +
                                             std::to_string(std::max(one, other)));
  EXPECT_EQ(words_of<std::optional<inner*>>(), "reference 0 if 8=1");
  EXPECT_EQ(words_of<std::optional<std::optional<inner>>>(), "reference 8 if 24=1 if 16=1");
  EXPECT_EQ((words_of<std::variant<inner*, int, inner>>()), "reference 0 if 16=0, reference 8 if 16=2");
  EXPECT_EQ((words_of<std::pair<int, std::optional<inner*>>>()), "reference 8 if 16=1");
  EXPECT_EQ(words_of<std::atomic<inner*>>(), "reference 0");
  EXPECT_EQ(words_of<std::atomic<inner>>(), "reference 8");
  for (const type* plain : {&type_of<std::chrono::nanoseconds>(), &type_of<std::chrono::system_clock::time_point>(),
                            &type_of<std::complex<double>>(), &type_of<std::bitset<100>>(), &type_of<std::monostate>(),
                            &type_of<std::byte>(), &type_of<std::nullptr_t>(), &type_of<std::atomic<int>>(),
                            &type_of<std::atomic_flag>()}) {
    EXPECT_FALSE(plain->is_conservative) << plain->name;
    EXPECT_EQ(words_of(*plain), "") << plain->name;
  }
}

// The guards are where the standard library keeps its state.
template <class T>
bool holds(const T& object, std::size_t word = 0) {
  const pointer_map map(type_of<T>());
  return map.holds(map.words().at(word), reinterpret_cast<const std::byte*>(&object));
}

TEST(standard_class, guards_tell_what_there_is) {
  inner target{};
  std::optional<inner*> maybe;
  EXPECT_FALSE(holds(maybe));
  maybe = &target;
  EXPECT_TRUE(holds(maybe));
  maybe.reset();
  EXPECT_FALSE(holds(maybe));

  std::variant<inner*, int, inner> v = 7;
  EXPECT_FALSE(holds(v, 0));
  EXPECT_FALSE(holds(v, 1));
  v = &target;
  EXPECT_TRUE(holds(v, 0));
  EXPECT_FALSE(holds(v, 1));
  v = target;
  EXPECT_FALSE(holds(v, 0));
  EXPECT_TRUE(holds(v, 1));

  std::optional<std::optional<inner>> twice;
  EXPECT_FALSE(holds(twice));
  twice.emplace();
  EXPECT_FALSE(holds(twice));
  twice->emplace();
  EXPECT_TRUE(holds(twice));
}

// What classes say about themselves.
class account {
  int number_ = 0;
  inner* owner_ = nullptr;
  inner* begin_ = nullptr;
  inner* end_ = nullptr;

 public:
  account() = default;
  static constexpr auto persistent =
      tenure::members<&account::number_, &account::owner_, &account::end_, &account::begin_>{} + tenure::version<7>{};
};
class numbered : account {
  inner* own_ = nullptr;

 public:
  static constexpr auto persistent = tenure::bases<account>{} + tenure::members<&numbered::own_>{};
};
class silent : public account {
 public:
  inner* forgotten = nullptr;
};
struct foreign {
  foreign() {}
  inner *begin = nullptr, *end = nullptr;
};
struct forgetful {
  forgetful() {}
  int number = 0;
  inner* forgotten = nullptr;
  int other = 0;
};
struct careless {
  careless() {}
  unsigned bits : 3 = 0;
  unsigned long more_bits : 62 = 0;
  inner* known = nullptr;
};
struct renamed {
  int number;
};
struct middle : inner {
  middle() : inner{} {}
  either unknown{};
};
struct bottom : middle {
  char more = 0;
};

}  // namespace types_test

template <>
struct tenure::persist<types_test::foreign> {
  using members = tenure::members<&types_test::foreign::begin, tenure::derived<&types_test::foreign::end>>;
  static constexpr std::uint32_t version = 2;
};
template <>
struct tenure::persist<types_test::forgetful> {
  using members = tenure::members<&types_test::forgetful::number, &types_test::forgetful::other>;
};
template <>
struct tenure::persist<types_test::careless> {
  using members = tenure::members<&types_test::careless::known>;
  static constexpr bool rest_is_data = true;
};
template <>
struct tenure::persist<types_test::renamed> {
  static constexpr std::string_view name = "old::name";
  static constexpr std::uint32_t version = 3;
};
template <>
struct tenure::persist<types_test::middle> {
  using bases = tenure::bases<types_test::inner>;
  using members = tenure::members<&types_test::middle::unknown>;
};
template <>
struct tenure::persist<types_test::bottom> {
  using bases = tenure::bases<types_test::middle>;
  using members = tenure::members<&types_test::bottom::more>;
};

namespace types_test {

TEST(trait, lists_private_members_in_any_order) {
  const type& t = type_of<account>();
  EXPECT_EQ(words_of(t), "reference 8, reference 16, reference 24");
  EXPECT_EQ(t.version, 7u);
  ASSERT_EQ(t.fields.size(), 4u);
  EXPECT_EQ(t.fields[2].name, "begin_");
}

TEST(trait, adds_the_bases_members) {
  const type& t = type_of<numbered>();
  EXPECT_EQ(words_of(t), "reference 8, reference 16, reference 24, reference 32");
  EXPECT_EQ(t.fields[1].name, "types_test::account::owner_");
  EXPECT_EQ(t.fields[4].name, "own_");
  EXPECT_EQ(t.version, 0u);
}

TEST(trait, is_not_inherited) {
  EXPECT_FALSE(is_exact_v<silent>);
  EXPECT_EQ(pointer_map(type_of<silent>()).words().size(), 5u);
  EXPECT_EQ(type_of<silent>().version, 0u);
}

TEST(trait, outside_of_the_class) {
  EXPECT_EQ(words_of<foreign>(), "reference 0, derived 8");
  EXPECT_EQ(type_of<foreign>().version, 2u);
  EXPECT_EQ(type_of<renamed>().name, "old::name");
  EXPECT_EQ(type_of<renamed>().version, 3u);
  EXPECT_EQ(type_of<renamed>().fields.at(0).name, "number");
}

TEST(trait, may_not_leave_out_a_pointer) {
  tenure::support::expect_error(tenure::errc::bad_type, {"forgetful", "bytes 8 to 16", "rest_is_data"},
                                [] { (void)type_of<forgetful>(); });
  EXPECT_EQ(words_of<careless>(), "reference 16");
}

TEST(trait, of_classes_with_unknown_parts) {
  EXPECT_EQ(words_of<middle>(), "reference 8, conservative 16");
  EXPECT_EQ(words_of<bottom>(), "reference 8, conservative 16");
  EXPECT_TRUE(type_of<bottom>().is_conservative);
  EXPECT_FALSE(is_exact_v<bottom>);
}

struct with_string {
  int number;
  std::string text;
};

TEST(rules, can_be_asked) {
  EXPECT_TRUE(is_persistable_v<everything>);
  EXPECT_TRUE(is_exact_v<everything>);
  EXPECT_TRUE(is_persistable_v<tenure::transient<int (*)()>>);
  EXPECT_TRUE((is_persistable_v<std::variant<int, inner>>));
  EXPECT_FALSE(is_persistable_v<with_string>);
  EXPECT_FALSE(is_persistable_v<std::optional<with_string>>);
  EXPECT_FALSE(is_persistable_v<std::string*>);
  EXPECT_FALSE(is_persistable_v<std::vector<int>>);
  EXPECT_FALSE(is_persistable_v<std::unique_ptr<int>>);
  EXPECT_FALSE(is_persistable_v<int&>);
  EXPECT_FALSE(is_persistable_v<volatile int>);
  EXPECT_FALSE(is_persistable_v<int (*)()>);
  EXPECT_FALSE(is_persistable_v<int inner::*>);
  EXPECT_FALSE((is_persistable_v<std::pair<int, std::exception>>));
}

}  // namespace types_test
