// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One program in two versions, in which fields move within classes that are nested in each other, in variants, optionals and
// containers. Pointers to these fields, and the links of lists in them, follow.
//
//     places_1 DIRECTORY; places_2 DIRECTORY
#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <tenure/allocator.hpp>
#include <tenure/evolve.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/map.hpp>
#include <tenure/tenure.hpp>
#include <tenure/weak.hpp>

namespace places_types {

using list = tenure::std_list<long>;

// What has the list, and does not change itself.
struct alone {
  list of;
};
struct beside {
  list of;
  long number = 1;
};
list& list_in(alone& a) { return a.of; }
list& list_in(beside& b) { return b.of; }
list& list_in(std::pair<long, list>& p) { return p.second; }
list& list_in(std::array<list, 2>& a) { return a[1]; }
list& list_in(std::optional<list>& o) { return o ? *o : o.emplace(); }
list& list_in(std::variant<long, list>& v) { return v.index() == 1 ? std::get<1>(v) : v.emplace<1>(); }
list& list_in(std::variant<long, alone>& v) { return (v.index() == 1 ? std::get<1>(v) : v.emplace<1>()).of; }

// Moves it.
template <class Part>
struct around {
#if VERSION == 2
  long added[3] = {7, 7, 7};
#endif
  Part part;
};
template <class Part>
struct also_around {
  Part part;
};

template <class Part>
struct in_a_variant {
  std::variant<long, also_around<Part>, around<Part>> either;
  std::optional<around<Part>> maybe;
  list& first() { return list_in((either.index() == 2 ? std::get<2>(either) : either.template emplace<2>()).part); }
  list& second() { return list_in((maybe ? *maybe : maybe.emplace()).part); }
};
template <class Part>
struct places {
  around<Part> direct;
  in_a_variant<Part> both;
  tenure::vector<in_a_variant<Part>> all;
  tenure::map<long, in_a_variant<Part>> by_number;
  tenure::hash_map<long, in_a_variant<Part>> hashed;
  tenure::vector<long*> entries;  // of some of the lists
};

// Pointers to fields.
struct number {
  long value = 0;
};
struct numbered {
#if VERSION == 2
  long added = 77;
#endif
  number only;
};
struct holder {
  numbered of;
};
struct one {
#if VERSION == 2
  long added = 77;
#endif
  long value = 0;
};
struct other {
  long value = 0, beside = 0;
};
struct moved_away {
  long first = 0, second = 0;
};
#if VERSION == 2
struct moved_here {
  long second = 0, first = 0;
};
#else
using moved_here = moved_away;
#endif
struct pointed {
  holder outer;
  std::array<std::variant<one, other, moved_here>, 3> either;
  tenure::map<long, std::variant<one, other>> in_map;
};
// A weak reference, of which the class is not stored, to a member and to a base.
struct watched_part {
#if VERSION == 2
  long added = 77;
#endif
  long value = 0;
};
struct watched_base {
#if VERSION == 2
  long added = 77;
#endif
  long number = 0;
  static constexpr auto persistent = tenure::members<
#if VERSION == 2
      &watched_base::added,
#endif
      &watched_base::number>{};
};
struct watched : one, watched_base {
  watched_part part;
  static constexpr auto persistent = tenure::bases<one, watched_base>{} + tenure::members<&watched::part>{};
};
struct pointers {
  pointed* to;
  watched* whole;
  tenure::weak<watched_part> weak_part;
  tenure::weak<watched_base> weak_base;
  long *to_only, *to_one, *to_other, *to_beside;
  tenure::vector<long*> into_map;
};

struct all_places {
  places<alone>* in_alone;
  places<beside>* in_beside;
  places<std::pair<long, list>>* in_pair;
  places<std::array<list, 2>>* in_array;
  places<std::optional<list>>* in_optional;
  places<std::variant<long, list>>* in_variant;
  places<std::variant<long, alone>>* in_variant_of_class;
  pointers* all_pointers;
};

}  // namespace places_types
using namespace places_types;

namespace {

bool is_right = true;
void expect(bool holds, const std::string& what) {
  if (!holds) std::printf("version %d: %s\n", VERSION, what.c_str());
  is_right &= holds;
}

#if VERSION == 1
void fill(list& of, long count) {
  for (long n = 0; n < count; ++n) of.push_back(n);
}
template <class Part>
void make(tenure::store& s, places<Part>*& at) {
  at = s.make<places<Part>>();
  fill(list_in(at->direct.part), 3);
  at->entries.push_back(&list_in(at->direct.part).back());
  const auto fill_both = [&](in_a_variant<Part>& in, long n) {
    if (n % 3 != 0) fill(in.first(), n);
    if (n % 3 != 1) fill(in.second(), n);
    if (n % 3 == 0) in.either.template emplace<0>(n);
  };
  fill(at->both.first(), 4);
  fill(at->both.second(), 5);
  for (long n = 0; n < 40; ++n) {
    fill_both(at->all.emplace_back(), n);
    fill_both(at->by_number[n], n);
    fill_both(at->hashed[n], n);
  }
}
void make_pointers(tenure::store& s, pointers*& at) {
  at = s.make<pointers>();
  at->to = s.make<pointed>();
  pointed& to = *at->to;
  to.outer.of.only.value = 5;
  at->to_only = &to.outer.of.only.value;
  at->to_one = &(to.either[0].emplace<one>().value = 6);
  at->to_other = &(to.either[1].emplace<other>().value = 7);
  at->to_beside = &(std::get<other>(to.either[1]).beside = 8);
  at->whole = s.make<watched>();
  at->whole->part.value = 9;
  at->whole->number = 10;
  at->weak_part = tenure::weak(&at->whole->part);
  at->weak_base = tenure::weak<watched_base>(at->whole);
  for (long n = 0; n < 40; ++n) {
    if (n % 2 == 0)
      to.in_map[n].emplace<one>().value = n;
    else
      to.in_map[n].emplace<other>().value = n;
  }
  for (long n = 0; n < 40; ++n)
    at->into_map.push_back(n % 2 == 0 ? &std::get<one>(to.in_map[n]).value : &std::get<other>(to.in_map[n]).value);
}
#endif

void look_at(const list& of, long count, const std::string& what) {
  long n = 0;
  for (auto at = of.begin(); at != of.end() && n <= count; ++at, ++n) expect(*at == n, what + ": an element");
  expect(n == count && of.size() == static_cast<std::size_t>(count), what + ": the number of elements");
  expect(count == 0 || of.back() == count - 1, what + ": the last element");
}
template <class Part>
void look(places<Part>& at, const std::string& name) {
  look_at(list_in(at.direct.part), 3, name + ", in a class");
  expect(at.entries[0] == &list_in(at.direct.part).back(), name + ", a pointer to an element");
  const auto look_at_both = [&](in_a_variant<Part>& in, long n, const std::string& where) {
    if (n % 3 != 0) look_at(in.first(), n, name + where + ", in a variant");
    if (n % 3 != 1) look_at(in.second(), n, name + where + ", in an optional");
  };
  look_at(at.both.first(), 4, name + ", in a variant");
  look_at(at.both.second(), 5, name + ", in an optional");
  for (long n = 0; n < 40; ++n) {
    look_at_both(at.all[static_cast<std::size_t>(n)], n, ", of a vector");
    look_at_both(at.by_number.at(n), n, ", of a map");
    look_at_both(at.hashed.at(n), n, ", of a hash map");
  }
}
void look_at_pointers(pointers& at) {
  pointed& to = *at.to;
  expect(at.to_only == &to.outer.of.only.value && *at.to_only == 5, "a pointer to the only field of a class");
  expect(at.to_one == &std::get<one>(to.either[0]).value && *at.to_one == 6, "a pointer to a field that has moved");
  expect(at.to_other == &std::get<other>(to.either[1]).value && *at.to_other == 7, "a pointer to one that has not");
  expect(at.to_beside == &std::get<other>(to.either[1]).beside && *at.to_beside == 8, "a pointer to its neighbour");
  expect(at.weak_part.lock() == &at.whole->part && at.whole->part.value == 9, "a weak reference to a member");
  expect(at.weak_base.lock() == at.whole && at.whole->number == 10, "a weak reference to a base");
  for (long n = 0; n < 40; ++n) {
    auto& either = to.in_map.at(n);
    long* const value = n % 2 == 0 ? &std::get<one>(either).value : &std::get<other>(either).value;
    expect(at.into_map[static_cast<std::size_t>(n)] == value && *value == n, "a pointer into a map");
  }
}

}  // namespace

#if VERSION == 2
template <>
struct tenure::evolve<moved_here> {
  static void describe(changes<moved_here>& of) { of.was_named("places_types::moved_away"); }
};
#endif

int main(int argc, char** argv) try {
  if (argc != 2) return std::printf("usage: %s DIRECTORY\n", argv[0]), 2;
  tenure::store_options how;
  how.memory.log.size = 1 << 20;
  if (VERSION == 2) how.evolve = tenure::schema_change::convert;
  tenure::store s(argv[1], how);
  auto& all = s.root<all_places>("places");
#if VERSION == 1
  s.transact([&] {
    make(s, all.in_alone), make(s, all.in_beside), make(s, all.in_pair), make(s, all.in_array);
    make(s, all.in_optional), make(s, all.in_variant), make(s, all.in_variant_of_class);
    make_pointers(s, all.all_pointers);
  });
#endif
  s.transact([&] {
    look(*all.in_alone, "alone"), look(*all.in_beside, "beside a number"), look(*all.in_pair, "in a pair");
    look(*all.in_array, "in an array"), look(*all.in_optional, "in an optional");
    look(*all.in_variant, "in a variant"), look(*all.in_variant_of_class, "in a class in a variant");
    look_at_pointers(*all.all_pointers);
  });
  for (const std::string& wrong : s.verify()) expect(false, wrong);
  return is_right ? 0 : 3;
} catch (const std::exception& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return 3;
}
