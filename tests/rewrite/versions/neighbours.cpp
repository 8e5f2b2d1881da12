// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One program in two versions: version 2 opens what version 1 has made, and finds every pointer where it belongs. Slots of
// vectors that have no value are not converted, and default constructors may allocate memory.
//
//     neighbours_1 DIRECTORY; neighbours_2 DIRECTORY
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <tenure/allocator.hpp>
#include <tenure/evolve.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/map.hpp>
#include <tenure/rewrite.hpp>
#include <tenure/set.hpp>
#include <tenure/tenure.hpp>

#if VERSION == 1

struct pair_of_numbers {
  int first;
  long second;
};
struct left {
  int a = 0, b = 0;
  static constexpr auto persistent = tenure::members<&left::a, &left::b>{};
};
struct right {
  virtual ~right() = default;
  [[nodiscard]] virtual int number() const { return 1; }
  int c = 0;
  static constexpr auto persistent = tenure::members<&right::c>{};
};
struct element {
  int n = 0;
};
struct narrowed {
  int n;
};
struct with_sign {
  unsigned n;
};
struct grown {
  int n;
};
struct with_object {
  right object;
  int* pointer = nullptr;
};
struct emptied {
  int n;
  tenure::std_map<int, int> map;
  tenure::std_list<int> list;
};
struct was_named {
  int n;
  was_named* next;
};
using has_name = was_named;
struct base_with_old_name {
  int n = 0;
  static constexpr auto persistent = tenure::members<&base_with_old_name::n>{};
};
using base_with_name = base_with_old_name;
struct alignas(64) aligned {
  int n = 0;
  tenure::string text;
};
struct entry {
  int n = 0;
};
struct item {  // splits
  int n = 0;
};

#else

struct pair_of_numbers {
  long second = 0;
  int first = 0;
};
struct left {
  long fresh = 5;
  int b = 0, a = 0;
  static constexpr auto persistent = tenure::members<&left::fresh, &left::b, &left::a>{};
};
struct right {
  virtual ~right() = default;
  [[nodiscard]] virtual int number() const { return 1; }
  long c = 0;
  static constexpr auto persistent = tenure::members<&right::c>{};
};
inline const char* const long_text = "a text that is longer than what fits into a string";
struct element {
  int n = 0;
  tenure::std_list<int> list;  // refers to itself
  tenure::string text = long_text;
  tenure::std_deque<int> queue;
  tenure::vector<int> numbers{1, 2, 3};
};
struct narrowed {
  unsigned char n;
};
struct with_sign {
  int n;
};
struct grown {
  int n = 0;
  long more[6]{};
};
struct with_object {
  int* pointer = nullptr;
  right object;
};
struct emptied {
  int n;
};
struct has_name {
  has_name* next = nullptr;
  long n = 0;
  int fresh = 6;
};
struct base_with_name {
  long fresh = 4;
  int n = 0;
  static constexpr auto persistent = tenure::members<&base_with_name::fresh, &base_with_name::n>{};
};
struct alignas(64) aligned {
  tenure::string text;
  alignas(32) double numbers[4] = {1, 2, 3, 4};
  int n = 0;
};

struct entry {
  int n = 0;
  tenure::string text = long_text;  // of the default, in a tree that is built anew
};
struct item;
struct half {
  int n = 0;
  item* of = nullptr;
};
struct item {
  half* other = nullptr;
  long fresh = 0;
};

template <>
struct tenure::evolve<item> {
  static void describe(tenure::changes<item>& of) {
    of.since(0).removed("n").converted([](const tenure::old_object& was, item& is, tenure::conversion& how) {
      is.other = how.make<half>(was.get<int>("n"), how.new_of<item>(was));
    });
  }
};
template <>
struct tenure::evolve<emptied> {
  static void describe(tenure::changes<emptied>& of) { of.since(0).removed("map").removed("list"); }
};
template <>
struct tenure::evolve<has_name> {
  static void describe(tenure::changes<has_name>& of) { of.was_named("was_named"); }
};
template <>
struct tenure::evolve<base_with_name> {
  static void describe(tenure::changes<base_with_name>& of) { of.was_named("base_with_old_name"); }
};
template <>
struct tenure::evolve<aligned> {
  static void describe(tenure::changes<aligned>& of) {
    of.since(0).converted([](const tenure::old_object&, aligned& is, tenure::conversion&) {
      is.numbers[0] = reinterpret_cast<std::uintptr_t>(&is) % 64 == 0 ? 5 : 0;
    });
  }
};
template <>
struct tenure::evolve<narrowed> {
  static void describe(tenure::changes<narrowed>& of) { of.since(0).narrowed("n"); }
};
template <>
struct tenure::evolve<with_sign> {
  static void describe(tenure::changes<with_sign>& of) { of.since(0).narrowed("n"); }
};

#endif

struct both : left, right {
  [[nodiscard]] int number() const override { return 2; }
  int d = 0;
  static constexpr auto persistent = tenure::bases<left, right>{} + tenure::members<&both::d>{};
};
const tenure::register_type<both> registered;

struct derived : base_with_name {
  int more = 0;
  static constexpr auto persistent = tenure::bases<base_with_name>{} + tenure::members<&derived::more>{};
};

// Its first member has another name, behind another base: pointers to it lead to where it starts.
struct head {
  long h = 1;
};
struct tag {
#if VERSION == 1
  long a = 5;
  int t = 9;
#else
  int t = 9, between = 1;
  long b = 0;
#endif
};
struct tagged : head, tag {
  long z = 3;
  static constexpr auto persistent = tenure::bases<head, tag>{} + tenure::members<&tagged::z>{};
};
// Has no virtual functions any more.
struct quiet {
#if VERSION == 1
  virtual ~quiet() = default;
#endif
  int n = 7;
#if VERSION == 1
  static constexpr auto persistent = tenure::members<&quiet::n>{};
#endif
};
#if VERSION == 2
template <>
struct tenure::evolve<tag> {
  static void describe(changes<tag>& of) { of.since(0).renamed("a", "b"); }
};
template <>
struct tenure::evolve<tagged> {
  static void describe(changes<tagged>& of) { of.since(0).renamed("tag::a", "tag::b"); }
};
#endif

struct neighbourhood {
  tagged* a_tagged_one = nullptr;
  tenure::vector<tag*> tags;  // its base, and one of its own
  quiet* a_quiet_one = nullptr;
  tenure::vector<pair_of_numbers*> pairs;
  tenure::vector<int*> firsts;  // the same addresses
  tenure::hash_set<int*> set_of_firsts;
  tenure::vector<both*> objects;
  tenure::vector<left*> lefts;
  tenure::vector<right*> rights;
  tenure::vector<element> elements;
  tenure::std_vector<tenure::std_vector<narrowed>> numbers;
  tenure::std_deque<with_sign> queue;
  tenure::vector<tenure::map<int, grown>> trees;
  tenure::std_vector<tenure::map<int, grown>> standard_trees;
  tenure::map<int, pair_of_numbers> tree;
  tenure::vector<pair_of_numbers*> into_tree;
  tenure::vector<emptied> emptied_elements;
  tenure::std_vector<with_object> with_objects;
  // Of a class that has another name.
  tenure::map<int, has_name> named;
  tenure::hash_map<int, has_name> hashed_names;
  tenure::hash_map<has_name*, int> by_name;
  tenure::vector<derived> of_base;
  tenure::vector<base_with_name*> bases;
  tenure::vector<aligned> aligned_elements;
  tenure::map<int, aligned> aligned_entries;
  tenure::map<int, entry> entries;
  tenure::vector<item*> items;
  tenure::set<item*> in_order;  // of addresses
  tenure::vector<item> item_values;
};

namespace {

constexpr int count = 300;

#define REQUIRE(x)                                                             \
  do {                                                                         \
    if (!(x)) {                                                                \
      std::printf("version %d, line %d: not so: %s\n", VERSION, __LINE__, #x); \
      std::exit(1);                                                            \
    }                                                                          \
  } while (false)

#if VERSION == 1

void make(tenure::store& s, neighbourhood& all) {
  s.transact([&] {
    all.a_tagged_one = s.make<tagged>();
    all.tags.push_back(all.a_tagged_one);
    all.tags.push_back(s.make<tag>());
    all.a_quiet_one = s.make<quiet>();
    for (int n = 0; n < count; ++n) {
      auto* const p = s.make<pair_of_numbers>();
      *p = {n, 2L * n};
      all.pairs.push_back(p);
      all.firsts.push_back(&p->first);
      all.set_of_firsts.insert(&p->first);
      auto* const b = s.make<both>();
      b->a = n;
      b->b = 2 * n;
      b->c = 3 * n;
      b->d = 4 * n;
      all.objects.push_back(b);
      all.lefts.push_back(b);
      all.rights.push_back(b);
      all.tree[n] = {n, 2L * n};
    }
    for (int n = 0; n < count; ++n) all.into_tree.push_back(&all.tree.at(n));
    for (int n = 0; n < count; ++n) {
      all.with_objects.emplace_back().object.c = n;
      auto& e = all.emptied_elements.emplace_back();
      e.n = e.map[n] = n;
      e.list.push_back(n);
      all.named[n] = all.hashed_names[n] = {n, nullptr};
      auto& d = all.of_base.emplace_back();
      d.n = n;
      d.more = -n;
      all.aligned_elements.emplace_back().n = all.aligned_entries[n].n = all.entries[n].n = n;
      all.items.push_back(s.make<item>());
      all.items.back()->n = all.item_values.emplace_back().n = n;
      all.in_order.insert(all.items.back());
    }
    for (int n = 0; n < count; ++n) {
      all.named.at(n).next = &all.hashed_names.at(n);
      all.by_name[&all.hashed_names.at(n)] = n;
      all.bases.push_back(&all.of_base[static_cast<std::size_t>(n)]);
    }
    all.elements.reserve(20000);
    for (int n = 0; n < count; ++n) all.elements.emplace_back().n = n;
    for (int n = 0; n < 10; ++n) {
      auto& numbers = all.numbers.emplace_back();
      for (int k = 0; k < 20; ++k) numbers.push_back({k < 15 ? k : 1000});
      numbers.resize(15);
      all.trees.emplace_back();
      all.standard_trees.emplace_back();
      for (int k = 0; k < count; ++k) all.trees.back()[k].n = all.standard_trees.back()[k].n = n * k;
    }
    all.trees.pop_back();
    all.standard_trees.pop_back();
    all.numbers.pop_back();
    for (unsigned k = 0; k < 5000; ++k) all.queue.push_back({k < 1000 || k >= 1200 ? ~0U : k - 1000});
    for (int k = 0; k < 1000; ++k) all.queue.pop_front();
    for (int k = 1200; k < 5000; ++k) all.queue.pop_back();
  });
}

#endif

void check(neighbourhood& all) {
  REQUIRE(all.tags[0] == all.a_tagged_one && all.tags[0]->t == 9 && all.tags[1]->t == 9 && all.a_tagged_one->z == 3);
#if VERSION == 2
  REQUIRE(all.tags[0]->b == 5 && all.tags[0]->between == 1);
#endif
  REQUIRE(all.a_quiet_one->n == 7);
  for (int n = 0; n < count; ++n) {
    const auto at = static_cast<std::size_t>(n);
    const pair_of_numbers& p = *all.pairs[at];
    REQUIRE(p.first == n && p.second == 2L * n);
    REQUIRE(all.firsts[at] == &p.first);
    REQUIRE(all.set_of_firsts.contains(all.firsts[at]));
    both* const b = all.objects[at];
    REQUIRE(b->a == n && b->b == 2 * n && b->c == 3 * n && b->d == 4 * n);
    REQUIRE(all.lefts[at] == b && all.rights[at] == b);
    REQUIRE(all.rights[at]->number() == 2 && dynamic_cast<both*>(all.rights[at]) == b);
    REQUIRE(all.tree.at(n).first == n && all.tree.at(n).second == 2L * n);
    REQUIRE(all.into_tree[at] == &all.tree.at(n));
    REQUIRE(all.emptied_elements[at].n == n);
    REQUIRE(all.with_objects[at].object.c == n && all.with_objects[at].object.number() == 1);
    REQUIRE(all.named.at(n).n == n && all.named.at(n).next == &all.hashed_names.at(n));
    REQUIRE(all.hashed_names.at(n).n == n);
    REQUIRE(all.by_name.at(&all.hashed_names.at(n)) == n);
    REQUIRE(all.of_base[at].n == n && all.of_base[at].more == -n && all.bases[at] == &all.of_base[at]);
    for (const aligned* const a : {&all.aligned_elements[at], &all.aligned_entries.at(n)}) {
      REQUIRE(a->n == n && reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
#if VERSION == 2
      REQUIRE(a->numbers[0] == 5 && a->numbers[3] == 4);
#endif
    }
    REQUIRE(all.entries.at(n).n == n && all.in_order.contains(all.items[at]));
#if VERSION == 2
    REQUIRE(all.entries.at(n).text == long_text);
    for (const item* const i : {all.items[at], &all.item_values[at]})
      REQUIRE(i->other->n == n && i->other->of == i && i->fresh == 0);
#endif
    element& e = all.elements[at];
    REQUIRE(e.n == n);
#if VERSION == 2
    REQUIRE(e.list.empty() && e.queue.empty() && e.text == long_text && e.numbers.size() == 3 && e.numbers[2] == 3);
#endif
    for (int k = 0; k < 9; ++k) {
      REQUIRE(all.trees[static_cast<std::size_t>(k)].at(n).n == n * k);
      REQUIRE(all.standard_trees[static_cast<std::size_t>(k)].at(n).n == n * k);
    }
  }
  REQUIRE(all.numbers.size() == 9 && all.queue.size() == 200);
  for (const auto& numbers : all.numbers)
    for (std::size_t n = 0; n < 15; ++n) REQUIRE(numbers[n].n == static_cast<int>(n));
  for (std::size_t n = 0; n < 200; ++n) REQUIRE(all.queue[n].n == static_cast<decltype(all.queue[n].n)>(n));
}

void require_sound(const tenure::store& s) {
  const auto wrong = s.verify();
  for (const std::string& each : wrong) std::puts(each.c_str());
  REQUIRE(wrong.empty());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return std::printf("usage: %s DIRECTORY\n", argv[0]), 2;
  tenure::store_options how;
  how.evolve = tenure::schema_change::convert;
  for (int again = 0; again < 2; ++again) {
    tenure::store s(argv[1], how);
    auto& all = s.root<neighbourhood>("neighbourhood");
#if VERSION == 1
    if (again == 0) make(s, all);
#endif
    require_sound(s);
    check(all);
    s.close();
    (void)tenure::compact(argv[1]);
  }
  tenure::store s(argv[1], how);
  auto& all = s.root<neighbourhood>("neighbourhood");
  check(all);
#if VERSION == 2
  s.transact([&] {
    for (element& e : all.elements) {
      e.list.push_back(1);
      e.queue.push_back(2);
      e.text += " and more";
      e.numbers.push_back(4);
    }
  });
  require_sound(s);
#endif
  std::printf("version %d: as it should be\n", VERSION);
  return 0;
} catch (const std::exception& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return 1;
}
