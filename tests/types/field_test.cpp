// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/field.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/plain_memory.hpp>
#include <tenure/tenure.hpp>

#include "regions/announced_stores.hpp"

namespace field_test {

using tenure::field;
using tenure::type_of;
using text = tenure::basic_string<tenure::plain_memory>;

// The same class, as it was before its author cared, and after.
namespace before {
struct part {
  int weight;
  double price[2];
  part* next;
  std::pair<int, part*> other;
  text name;
};
}  // namespace before
namespace after {
struct part {
  field<int> weight;
  double price[2];
  field<part*> next;
  field<std::pair<int, part*>> other;
  field<text> name;
};
class described {
  field<long> number_;
  field<part*> to_;

 public:
  static constexpr auto persistent = tenure::members<&described::number_, &described::to_>{};
};
}  // namespace after

static_assert(sizeof(field<char>) == 1 && sizeof(field<text>) == sizeof(text));
static_assert(sizeof(before::part) == sizeof(after::part));
static_assert(tenure::is_relocatable<field<int>>::value && tenure::is_relocatable<field<text>>::value);
static_assert(!tenure::is_relocatable<field<std::string>>::value);
static_assert(tenure::is_persistable_v<after::part> && tenure::is_exact_v<after::part>);
static_assert(!tenure::is_persistable_v<field<std::string>> && !tenure::is_persistable_v<field<int& (*)()>>);
static_assert(!std::is_assignable_v<const field<int>&, int>);
static_assert(!std::is_convertible_v<field<int>&, int&>);
static_assert(std::is_same_v<decltype(std::declval<field<int>&>().get()), const int&>);
static_assert(std::is_nothrow_move_constructible_v<field<text>> && std::is_nothrow_move_assignable_v<field<text>>);
template <class T>
concept can_be_changed = requires(T& t) {
  t.change();
};
static_assert(can_be_changed<field<int>> && !can_be_changed<const field<int>>);
template <class T>
concept can_be_added_to = requires(T& t) {
  t += 1;
};
static_assert(can_be_added_to<field<int>> && !can_be_added_to<field<before::part>> &&
              !can_be_added_to<const field<int>>);

std::string replaced(std::string in, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = in.find(from, at)) != std::string::npos; at += to.size())
    in.replace(at, from.size(), to);
  return in;
}

TEST(field, is_described_as_its_value) {
  const tenure::type& old = type_of<before::part>();
  const tenure::type& now = type_of<after::part>();
  EXPECT_EQ(now.size, old.size);
  ASSERT_EQ(now.fields.size(), old.fields.size());
  for (std::size_t i = 0; i < old.fields.size(); ++i) {
    const tenure::type_field &was = old.fields[i], &is = now.fields[i];
    EXPECT_EQ(is.name, was.name);
    EXPECT_EQ(is.kind, was.kind);
    EXPECT_EQ(is.scalar, was.scalar);
    EXPECT_EQ(is.offset, was.offset);
    EXPECT_EQ(is.size, was.size);
    EXPECT_EQ(is.count, was.count);
    EXPECT_EQ(is.type_name, replaced(was.type_name, "before", "after"));
  }
  EXPECT_EQ(&type_of<field<int>>(), &type_of<int>());
  EXPECT_EQ(&type_of<const field<text>>(), &type_of<text>());
  const tenure::type& by_hand = type_of<after::described>();
  ASSERT_EQ(by_hand.fields.size(), 2U);
  EXPECT_EQ(by_hand.fields[0].type_name, "long");
  EXPECT_EQ(by_hand.fields[1].kind, tenure::field_kind::reference);
  EXPECT_EQ(by_hand.fields[1].type_name, "field_test::after::part*");
  EXPECT_EQ(&by_hand.fields[1].of(), &now);
}

// Every word with a pointer is found.
TEST(field, pointers_are_found) {
  const tenure::pointer_map old(type_of<before::part>()), now(type_of<after::part>());
  ASSERT_EQ(now.words().size(), old.words().size());
  for (std::size_t i = 0; i < now.words().size(); ++i) {
    EXPECT_EQ(now.words()[i].offset, old.words()[i].offset);
    EXPECT_EQ(now.words()[i].kind, old.words()[i].kind);
  }
}

class listener final : public tenure::rvm::store_listener {
 public:
  void store_announced(std::byte* at, std::size_t length) noexcept override {
    first = at;
    bytes += length;
    std::memcpy(&seen, at, std::min(length, sizeof seen));
  }
  // What was announced since the last call.
  std::size_t taken() { return std::exchange(bytes, 0); }

  const void* first = nullptr;
  std::size_t bytes = 0;
  int seen = 0;  // what was there then
};

struct point {
  int x = 0, y = 0;
  bool operator==(const point&) const = default;
};

TEST(field, announces_every_change_before_it_happens) {
  struct {
    field<int> number = 3;
    field<int> second = 5;
    field<point*> to;
    field<point> at;
    field<text> name;
  } object;
  listener heard;
  tenure::rvm::announced_range range;
  range.begin(reinterpret_cast<std::byte*>(&object), sizeof object, heard);

  EXPECT_EQ(object.number + object.second, 8);
  EXPECT_EQ(object.number.get(), 3);
  EXPECT_EQ(heard.taken(), 0U);

  object.number = 7;
  EXPECT_EQ(heard.taken(), sizeof(int));
  EXPECT_EQ(heard.first, &object.number);
  EXPECT_EQ(heard.seen, 3);
  object.second = object.number;
  EXPECT_EQ(heard.taken(), sizeof(int));
  EXPECT_EQ(heard.first, &object.second);
  EXPECT_EQ(object.second, 7);
  std::swap(object.number, object.second);
  EXPECT_EQ(heard.taken(), 2 * sizeof(int));

  int expected = 7;
  const auto changed = [&](int result) {
    EXPECT_EQ(object.number, result);
    EXPECT_EQ(heard.taken(), sizeof(int));
    EXPECT_EQ(heard.seen, expected);
    expected = result;
  };
  object.number += 5, changed(12);
  object.number -= 2, changed(10);
  object.number *= 4, changed(40);
  object.number /= 3, changed(13);
  object.number %= 8, changed(5);
  object.number |= 2, changed(7);
  object.number &= 6, changed(6);
  object.number ^= 3, changed(5);
  object.number <<= 2, changed(20);
  object.number >>= 1, changed(10);
  EXPECT_EQ((++object.number).get(), 11);
  changed(11);
  EXPECT_EQ(object.number++, 11);
  changed(12);
  EXPECT_EQ((--object.number).get(), 11);
  changed(11);
  EXPECT_EQ(object.number--, 11);
  changed(10);
  object.number.change() = 1, changed(1);

  point p;
  object.to = &p;
  EXPECT_EQ(heard.taken(), sizeof(point*));
  object.to->x = 4;  // no part of the object
  (*object.to).y = 5;
  EXPECT_EQ(p, (point{4, 5}));
  object.to = nullptr;
  EXPECT_FALSE(object.to);
  EXPECT_EQ(heard.taken(), sizeof(point*));

  object.at = point{1, 2};
  EXPECT_EQ(heard.taken(), sizeof(point));
  EXPECT_EQ(object.at->y, 2);

  object.name = "short";
  EXPECT_GE(heard.taken(), sizeof(text));
  EXPECT_EQ(object.name.get(), "short");
  object.name += " text, then a longer one";
  EXPECT_GE(heard.taken(), sizeof(text));
  EXPECT_EQ(object.name->size(), 29U);
  const field<text> taken = std::move(object.name);
  EXPECT_GE(heard.taken(), sizeof(text));
  EXPECT_TRUE(object.name->empty());
}

TEST(field, is_an_element_of_containers) {
  tenure::vector<field<text>, tenure::plain_memory> v;
  for (int i = 0; i < 20; ++i) v.push_back(text(std::to_string(i)));
  v.erase(v.begin());
  EXPECT_EQ(v[3].get(), "4");
  v[3] = text("four");
  EXPECT_EQ(v[3].get(), "four");
}

}  // namespace field_test
