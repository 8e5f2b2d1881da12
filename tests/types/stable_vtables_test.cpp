// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/stable_vtables.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <typeinfo>
#include <variant>

#include <tenure/fields.hpp>

#include "os/modules.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/sanitizers.hpp"
#include "types/stamping.hpp"
#include "types/zoo.hpp"

namespace types_test {

using tenure::pointer_map;
using tenure::type;
using tenure::type_of;

std::vector<std::uint64_t> vtable_offsets(const type& t) {
  std::vector<std::uint64_t> offsets;
  const pointer_map map(t);
  for (const auto& w : map.words())
    if (w.kind == tenure::field_kind::vtable) offsets.push_back(w.offset);
  return offsets;
}
template <class B, class T>
std::uint64_t offset_of_base(T& object) {
  return static_cast<std::uint64_t>(reinterpret_cast<char*>(static_cast<B*>(&object)) -
                                    reinterpret_cast<char*>(&object));
}

// [types.vtable.words]
TEST(vtables, are_found_where_the_compiler_puts_them) {
  zoo::duck d;
  zoo::city_duck c;
  EXPECT_EQ(vtable_offsets(type_of<zoo::duck>()), (std::vector<std::uint64_t>{0, offset_of_base<zoo::swimmer>(d)}));
  EXPECT_EQ(vtable_offsets(type_of<zoo::city_duck>()),
            (std::vector<std::uint64_t>{0, offset_of_base<zoo::swimmer>(c), offset_of_base<zoo::resident>(c),
                                        offset_of_base<zoo::located>(c)}));
  EXPECT_EQ(vtable_offsets(type_of<zoo::resident>()).size(), 2u);
  // The members of the virtual base are there once.
  EXPECT_EQ(pointer_map(type_of<zoo::city_duck>()).words().size(), 4u + 3u);
  for (const type* t : {&type_of<zoo::duck>(), &type_of<zoo::city_duck>(), &type_of<zoo::pond>()})
    EXPECT_FALSE(t->is_conservative) << t->name;
  EXPECT_TRUE(tenure::is_exact_v<zoo::pond>);
}

TEST(vtables, of_this_process_are_known) {
  zoo::city_duck c;
  const auto& words = type_of<zoo::city_duck>().operations->vtables();
  const auto offsets = vtable_offsets(type_of<zoo::city_duck>());
  ASSERT_EQ(words.size(), offsets.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const void* actual = nullptr;
    std::memcpy(&actual, reinterpret_cast<const char*>(&c) + offsets[i], sizeof actual);
    EXPECT_EQ(words[i], actual);
    EXPECT_FALSE(tenure::os::constant_data_around(words[i]).empty());
  }
  EXPECT_EQ(type_of<zoo::named>().operations->vtables, nullptr);  // there are no objects of it
  EXPECT_EQ(type_of<zoo::named>().fields.size(), 1u);
  EXPECT_NE(type_of<zoo::duck>().operations->destroy, nullptr);
}

class stamped : public ::testing::Test {
 protected:
  std::unique_ptr<std::byte[]> memory = std::make_unique<std::byte[]>(64 * tenure::types::vtable_slot_size);
  vtable_table table{memory.get()};

  template <class T>
  void stamp(T& object, std::size_t expected) {
    EXPECT_EQ(table.stamp(&object, type_of<T>()), expected);
  }
};

void expect_duck(zoo::duck* d, int weight) {
  d->weight = weight;
  zoo::named* const n = opaque<zoo::named>(d);
  zoo::swimmer* const s = opaque<zoo::swimmer>(d);
  EXPECT_EQ(n->name(), 10 + weight);
  EXPECT_EQ(s->depth(), 20 + weight);
  EXPECT_EQ(opaque<zoo::animal>(d)->legs(), 2);
  EXPECT_EQ(dynamic_cast<zoo::duck*>(n), d);                 // down
  EXPECT_EQ(dynamic_cast<zoo::swimmer*>(n), s);              // across
  EXPECT_EQ(dynamic_cast<zoo::named*>(s), n);                // across
  EXPECT_EQ(dynamic_cast<void*>(s), static_cast<void*>(d));  // whole
  EXPECT_EQ(dynamic_cast<zoo::city_duck*>(n), nullptr);
  EXPECT_TRUE(typeid(*s) == typeid(zoo::duck));
}
void expect_city_duck(zoo::city_duck* c) {
  zoo::named* const n = opaque<zoo::named>(c);
  zoo::located* const l = opaque<zoo::located>(opaque(c));
  zoo::resident* const r = opaque<zoo::resident>(c);
  EXPECT_EQ(n->name(), 46);
  EXPECT_EQ(l->place(), 31);
  EXPECT_EQ(r->rent(), 8);
  EXPECT_EQ(r->where, 3);
  EXPECT_EQ(dynamic_cast<zoo::city_duck*>(l), c);
  EXPECT_EQ(dynamic_cast<zoo::swimmer*>(l), static_cast<zoo::swimmer*>(c));
  EXPECT_EQ(dynamic_cast<zoo::located*>(n), l);
  EXPECT_EQ(dynamic_cast<void*>(l), static_cast<void*>(c));
  EXPECT_TRUE(typeid(*l) == typeid(zoo::city_duck));
}

// [types.vtable.slot]
TEST_F(stamped, objects_behave_as_before) {
  zoo::duck d;
  stamp(d, 2);
  expect_duck(&d, 9);
  zoo::city_duck c;
  stamp(c, 4);
  expect_city_duck(&c);
  zoo::resident r;
  stamp(r, 2);
  EXPECT_EQ(opaque<zoo::located>(opaque(&r))->place(), 31);
  EXPECT_EQ(table.keys().size(), 8u);
}

TEST_F(stamped, members_behave_as_before) {
  zoo::pond p;
  p.guest.emplace();
  p.other.emplace<zoo::city_duck>();
  stamp(p, 2 + 4 + 4 + 4);
  EXPECT_EQ(table.keys().size(), 6u);
  expect_duck(&*p.guest, 1);
  expect_duck(&p.pair[1], 2);
  expect_duck(&p.more[1], 3);
  expect_city_duck(&std::get<zoo::city_duck>(p.other));
  const zoo::city_duck& other = std::get<zoo::city_duck>(p.other);
  EXPECT_TRUE(typeid(other) == typeid(zoo::city_duck));

  p.other.emplace<zoo::swimmer>();
  p.guest.reset();
  stamp(p, 1 + 4 + 4);
  EXPECT_EQ(opaque<zoo::swimmer>(&std::get<zoo::swimmer>(p.other))->depth(), 102);
  p.other = 3;
  stamp(p, 4 + 4);
}

TEST_F(stamped, destructors_run) {
  alignas(zoo::city_duck) std::byte place[sizeof(zoo::city_duck)];
  auto* c = new (place) zoo::city_duck;
  stamp(*c, 4);
  opaque<zoo::named>(c)->~named();
}

struct returned {
  long a, b, c;
};
struct unknown_to_others {
  virtual ~unknown_to_others() = default;
  virtual int first() { return 1; }
  virtual returned second(int) { return {}; }
  static constexpr auto persistent = tenure::members<>{} + tenure::rest_is_data{};
};

TEST_F(stamped, types_that_the_program_lacks_say_so) {
  tenure::types::fill_with_stub(table.slot(0), "farm::cow");
  tenure::types::fill_with_stub(table.slot(1), "farm::sheep", 16);
  unknown_to_others u;
  const auto stamp_with = [&](std::size_t slot) {
    const void* const word = tenure::types::word_of(table.slot(slot));
    std::memcpy(static_cast<void*>(&u), &word, sizeof word);
    return opaque(&u);
  };
  [[maybe_unused]] const auto expect_end = [&](const char* name, auto call) {
    tenure::support::child_process child([&] {
      call();
      return 0;
    });
    const auto end = child.wait();
    std::printf("    %s", end.output.c_str());
    EXPECT_TRUE(WIFSIGNALED(end.status)) << end.status;
    EXPECT_NE(end.output.find(name), std::string::npos);
  };
  if (!tenure::support::address_sanitizer) {  // UBSan, which is with it, looks at the type before the call
    expect_end("farm::cow", [&] { (void)stamp_with(0)->first(); });
    expect_end("farm::cow", [&] { (void)stamp_with(0)->second(3); });
    expect_end("farm::sheep", [&] { (void)stamp_with(1)->second(3); });
  }
  const void* whole = dynamic_cast<void*>(stamp_with(1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(whole), reinterpret_cast<std::uintptr_t>(&u) - 16);
  const void* const own = type_of<unknown_to_others>().operations->vtables().at(0);
  std::memcpy(static_cast<void*>(&u), &own, sizeof own);
}

// Traits that forget a base, or a pointer.
struct forgotten_base : zoo::animal, zoo::swimmer {
  zoo::animal* friend_of = nullptr;
};
struct forgotten_text {
  virtual ~forgotten_text() = default;
  const char* text = "text";
};
struct half_made {
  explicit half_made(int n) : number(n) {}
  virtual ~half_made() = default;
  int number;
};
struct tagged {
  explicit tagged(tenure::prototype_tag) {}
  explicit tagged(int n) : number(n) {}
  virtual ~tagged() = default;
  int number = 0;
};

}  // namespace types_test

template <>
struct tenure::persist<types_test::forgotten_base> {
  using bases = tenure::bases<zoo::animal>;
  using members = tenure::members<&types_test::forgotten_base::friend_of>;
  static constexpr bool rest_is_data = true;
};
template <>
struct tenure::persist<types_test::forgotten_text> {
  using members = tenure::members<>;
  static constexpr bool rest_is_data = true;
};
template <>
struct tenure::persist<types_test::half_made> {
  using members = tenure::members<&types_test::half_made::number>;
  static void prototype(void* memory) { new (memory) types_test::half_made(1); }
};
template <>
struct tenure::persist<types_test::tagged> {
  using members = tenure::members<&types_test::tagged::number>;
};

namespace types_test {

TEST(prototype, shows_forgotten_bases_and_pointers) {
  using tenure::support::expect_error;
  const auto vtables = [](const type& t) { return [&t] { (void)t.operations->vtables(); }; };
  expect_error(tenure::errc::bad_type, {"forgotten_base", "tenure::bases"}, vtables(type_of<forgotten_base>()));
  expect_error(tenure::errc::bad_type, {"forgotten_text", "offset 8"}, vtables(type_of<forgotten_text>()));
}

TEST(prototype, is_made_by_a_function_or_a_constructor) {
  EXPECT_EQ(type_of<half_made>().operations->vtables().size(), 1u);
  EXPECT_EQ(type_of<tagged>().operations->vtables().size(), 1u);
}

}  // namespace types_test
