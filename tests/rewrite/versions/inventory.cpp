// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One program in four versions, whose classes have changed each time. Each opens what any earlier one has made:
//
//     inventory_1 make DIRECTORY; inventory_3 check DIRECTORY; inventory_4 check DIRECTORY
//
// What was declared for older versions stays: version 4 converts stores of version 1 as well as those of version 3.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <tenure/allocator.hpp>
#include <tenure/evolve.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/map.hpp>
#include <tenure/rewrite.hpp>
#include <tenure/tenure.hpp>

#if VERSION == 1

struct place {
  int x, y;
};
struct component {
  int number;
  component* before;
};
struct part {
  int weight;
  short count;
  part* next;
  tenure::string name;
  place where;
  long old;
  int* y_of_next;
  tenure::std_list<int> list;
  int scores[3];
};

#elif VERSION == 2  // other order, wider numbers, new fields: nothing is declared

struct place {
  int z = 5;
  int y = 0;
  double x = 0;
};
struct component {
  component* before;
  long number;
};
struct part {
  part* next = nullptr;
  long weight = 0;
  long count = 0;
  tenure::string name;
  place where;
  long old = 0;
  int* y_of_next = nullptr;
  tenure::std_list<int> list, second_list;
  int scores[5]{};
};

#else  // names have changed, and classes have versions

struct place {
  int y = 0;
  double x = 0;
  int z = 5;
};
struct element {  // was component
  element* before;
  long number;
};
struct details {
  long made_of;
  details* self;
  tenure::vector<long> numbers;
};
struct physics {
  long mass = 0;
#if VERSION == 4
  double density = 1;
#endif
};
struct part {
  part* next = nullptr;
  physics body;
  tenure::string name, title;
  place where;
  int* y_of_next = nullptr;
  tenure::std_list<int> list;
  details* more = nullptr;
  int scores[5]{};
#if VERSION == 4
  unsigned char amount = 0;  // was count
#else
  long count = 0;
#endif
};

namespace tenure {
template <>
struct persist<part> {
  static constexpr std::uint32_t version = VERSION;
};
template <>
struct evolve<element> {
  static void describe(changes<element>& of) { of.was_named("component"); }
};
template <>
struct evolve<part> {
  static void describe(changes<part>& of) {
    of.since(0)
        .renamed("weight", "body.mass")
        .removed("old")
        .removed("second_list")
        .converted([](const old_object& was, part& is, conversion& how) {
          is.more = how.make<details>();
          is.more->made_of = was.get<long>("old");
          is.more->self = is.more;
          for (long n = 0; n < 40; ++n) is.more->numbers.push_back(n);
          is.title = "a part named " + std::string(was.as<string>("name"));
          if (const old_object next = was.behind("next"); next && how.new_of<part>(next) != is.next) std::abort();
        });
#if VERSION == 4
    of.since(3).renamed("count", "amount").narrowed("amount");
#endif
  }
};
}  // namespace tenure

#endif

#if VERSION <= 2
struct remark {
  int number;
};
struct note {
  int number;
  remark* of;
};
#else  // one class has taken the place of both
struct note {
  note* of;
  long number;
};
using remark = note;
namespace tenure {
template <>
struct evolve<note> {
  static void describe(changes<note>& of) { of.was_named("remark"); }
};
}  // namespace tenure
#endif

struct shape {
  virtual ~shape() = default;
  [[nodiscard]] virtual int corners() const { return 0; }
#if VERSION >= 2
  [[nodiscard]] virtual int edges() const { return corners(); }
  long color = 3;
#else
  int color = 3;
#endif
  static constexpr auto persistent = tenure::members<&shape::color>{};
};
struct triangle : shape {
  [[nodiscard]] int corners() const override { return 3; }
#if VERSION >= 2
  long fresh = 99;
#endif
  part* of = nullptr;
#if VERSION >= 2
  static constexpr auto persistent = tenure::bases<shape>{} + tenure::members<&triangle::of, &triangle::fresh>{};
#else
  static constexpr auto persistent = tenure::bases<shape>{} + tenure::members<&triangle::of>{};
#endif
};
const tenure::register_type<triangle> registered;

#if VERSION < 3
using element = component;
#endif

struct inventory {
  tenure::vector<part*> all;
  tenure::vector<part> in_place;
  tenure::std_vector<element*> elements;
  tenure::std_vector<part> standard;
  tenure::hash_map<long, place> places;
  std::optional<place> maybe, perhaps;
  tenure::vector<shape*> shapes;
  tenure::std_map<int, place> by_number;
  tenure::map<tenure::string, part*> by_name;
  tenure::std_unordered_map<int, place> hashed;
  // Their entries become larger, so their trees are built anew.
  tenure::map<int, place> tree;
  tenure::map<tenure::string, part> tree_of_parts;
  tenure::multimap<part*, place> by_part;
  tenure::map<int, tenure::map<tenure::string, place>> trees;
  tenure::map<tenure::std_string, place> standard_keys;
  tenure::vector<int*> into_tree;
  tenure::map<int, element> elements_by_number;
  tenure::vector<remark*> remarks;
  tenure::vector<note*> notes;
};

namespace {

constexpr int count = 500;

#define REQUIRE(x)                                                             \
  do {                                                                         \
    if (!(x)) {                                                                \
      std::printf("version %d, line %d: not so: %s\n", VERSION, __LINE__, #x); \
      std::exit(1);                                                            \
    }                                                                          \
  } while (false)

std::string name_of(int n) {
  return n % 2 == 0 ? std::to_string(n) : "the name of the part with the number " + std::to_string(n);
}

#if VERSION == 1

void fill(part& p, int n) {
  p.weight = -n;
  p.count = static_cast<short>(n % 200);
  p.name = name_of(n);
  p.where = {n, 2 * n};
  p.old = 3L * n;
  p.list.push_back(n);
  for (int& score : p.scores) score = n;
}

void make(tenure::store& s, inventory& all) {
  s.transact([&] {
    part* last = nullptr;
    for (int n = 0; n < count; ++n) {
      part* const p = s.make<part>();
      fill(*p, n);
      p->next = last;
      p->y_of_next = last != nullptr ? &last->where.y : nullptr;
      all.all.push_back(p);
      all.by_name[p->name] = p;
      all.places[n] = all.by_number[n] = all.hashed[n] = {n, 2 * n};
      auto* const c = s.make<component>();
      *c = {n, n == 0 ? nullptr : all.elements.back()};
      all.elements.push_back(c);
      all.elements_by_number[n] = *c;
      all.remarks.push_back(s.make<remark>());
      all.remarks.back()->number = n;
      all.notes.push_back(s.make<note>());
      all.notes.back()->number = -n;
      all.notes.back()->of = all.remarks.back();
      all.tree[n] = all.trees[n / 10][name_of(n)] = all.standard_keys[name_of(n).c_str()] = {n, 2 * n};
      fill(all.tree_of_parts[name_of(n)], n);
      for (int k = 0; k < n % 3; ++k) all.by_part.emplace(p, place{n, 2 * n});
      auto* const t = s.make<triangle>();
      t->of = p;
      all.shapes.push_back(t);
      last = p;
    }
    for (int n = 0; n < 20; ++n) {
      fill(all.in_place.emplace_back(), n);
      fill(all.standard.emplace_back(), n);
    }
    all.maybe = place{1, 2};
    for (int n = 0; n < count; ++n) all.into_tree.push_back(&all.tree.at(n).y);
  });
}

#endif

void check(const place& p, int n) {
  REQUIRE(p.x == n);
  REQUIRE(p.y == 2 * n);
#if VERSION >= 2
  REQUIRE(p.z == 5);
#endif
}

void check(const part& p, int n) {
#if VERSION <= 2
  REQUIRE(p.weight == -n);
  REQUIRE(p.old == 3L * n);
#else
  REQUIRE(p.body.mass == -n);
  REQUIRE(p.more->made_of == 3L * n);
  REQUIRE(p.more->self == p.more);
  REQUIRE(p.more->numbers.size() == 40 && p.more->numbers[39] == 39);
  REQUIRE(p.title == "a part named " + name_of(n));
#endif
#if VERSION == 4
  REQUIRE(p.amount == n % 200);
  REQUIRE(p.body.density == 1);
#else
  REQUIRE(p.count == n % 200);
#endif
#if VERSION == 2
  REQUIRE(p.second_list.empty());
#endif
  REQUIRE(p.name == name_of(n));
  check(p.where, n);
  REQUIRE(p.list.size() == 1 && p.list.front() == n);
  for (int k = 0; k < 3; ++k) REQUIRE(p.scores[k] == n);
#if VERSION >= 2
  REQUIRE(p.scores[3] == 0 && p.scores[4] == 0);
#endif
}

void check(inventory& all) {
  REQUIRE(all.all.size() == count);
  part* last = nullptr;
  for (int n = 0; n < count; ++n) {
    part* const p = all.all[static_cast<std::size_t>(n)];
    check(*p, n);
    REQUIRE(p->next == last);
    REQUIRE(p->y_of_next == (last != nullptr ? &last->where.y : nullptr));
    REQUIRE(all.by_name.at(p->name) == p);
    check(all.places.at(n), n);
    check(all.by_number.at(n), n);
    check(all.hashed.at(n), n);
    check(all.tree.at(n), n);
    REQUIRE(all.into_tree[static_cast<std::size_t>(n)] == &all.tree.at(n).y);
    check(all.tree_of_parts.at(name_of(n)), n);
    check(all.trees.at(n / 10).at(name_of(n)), n);
    check(all.standard_keys.at(name_of(n).c_str()), n);
    REQUIRE(all.by_part.count(p) == static_cast<std::size_t>(n % 3));
    if (n % 3 != 0) check(all.by_part.find(p)->second, n);
    const element* const e = all.elements[static_cast<std::size_t>(n)];
    REQUIRE(e->number == n);
    const note* const about = all.notes[static_cast<std::size_t>(n)];
    REQUIRE(about->number == -n && about->of == all.remarks[static_cast<std::size_t>(n)] && about->of->number == n);
    REQUIRE(all.elements_by_number.at(n).number == n && all.elements_by_number.at(n).before == e->before);
    REQUIRE(e->before == (n == 0 ? nullptr : all.elements[static_cast<std::size_t>(n - 1)]));
    const auto* const t = dynamic_cast<const triangle*>(all.shapes[static_cast<std::size_t>(n)]);
    REQUIRE(t != nullptr && t->corners() == 3 && t->color == 3 && t->of == p);
#if VERSION >= 2
    REQUIRE(t->fresh == 99 && t->edges() == 3);
#endif
    last = p;
  }
  REQUIRE(all.tree.size() == count && all.tree_of_parts.size() == count && all.trees.size() == count / 10);
  all.tree.check();
  all.tree_of_parts.check();
  all.by_part.check();
  all.trees.check();
  all.elements_by_number.check();
  all.standard_keys.check();
  for (const auto& [n, each] : all.trees) each.check();
  REQUIRE(all.in_place.size() == 20 && all.standard.size() == 20);
  for (int n = 0; n < 20; ++n) {
    check(all.in_place[static_cast<std::size_t>(n)], n);
    check(all.standard[static_cast<std::size_t>(n)], n);
  }
  REQUIRE(all.maybe && !all.perhaps);
  check(*all.maybe, 1);
}

void require_sound(const tenure::store& s) {
  const auto wrong = s.verify();
  for (const std::string& each : wrong) std::puts(each.c_str());
  REQUIRE(wrong.empty());
}

// As a program that goes on: containers grow, and entries go.
void change(tenure::store& s, inventory& all) {
  s.transact([&] {
    for (int n = 0; n < 100; ++n) {
      all.in_place.emplace_back();
      all.standard.emplace_back();
      all.places[-1 - n] = {};
      all.by_number[-1 - n] = {};
      all.hashed[-1 - n] = all.trees[-1][name_of(n)] = {};
      all.tree_of_parts[name_of(-1 - n)] = {};
      all.all.push_back(s.make<part>());
      all.shapes.push_back(s.make<triangle>());
    }
  });
  require_sound(s);
  s.transact([&] {
    for (int n = 0; n < 100; ++n) {
      all.in_place.pop_back();
      all.standard.pop_back();
      all.places.erase(-1 - n);
      all.by_number.erase(-1 - n);
      all.hashed.erase(-1 - n);
      all.trees[-1].erase(name_of(n));
      all.tree_of_parts.erase(name_of(-1 - n));
      s.destroy(all.all.back());
      all.all.pop_back();
      s.destroy(static_cast<triangle*>(all.shapes.back()));
      all.shapes.pop_back();
    }
    all.trees.erase(-1);
  });
  require_sound(s);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return std::printf("usage: %s make|check DIRECTORY\n", argv[0]), 2;
  const std::string what = argv[1];
  tenure::store_options how;
  how.memory.log.size = 1 << 20;
  how.evolve = tenure::schema_change::convert;
  if (what == "check") {
    // Without consent nothing happens.
    try {
      const tenure::store s(argv[2], {.mode = tenure::rvm::open_mode::open});
    } catch (const tenure::error& e) {
      REQUIRE(e.code() == tenure::errc::schema_mismatch);
    }
  }
  tenure::store s(argv[2], how);
  const std::string path = argv[2];
  const std::uint64_t length = std::filesystem::file_size(path + "/main.db");
  auto& all = s.root<inventory>("inventory");
#if VERSION == 1
  if (what == "make") make(s, all);
#endif
  require_sound(s);
  check(all);
  change(s, all);
  check(all);
  s.close();
  // What functions of a conversion have made has left little space unused.
  std::filesystem::remove_all(path + ".clone");
  (void)tenure::clone(path, path + ".clone");
  REQUIRE(VERSION == 1 || length <= std::filesystem::file_size(path + ".clone/main.db") / 4 * 5 + (1 << 20));
  std::filesystem::remove_all(path + ".clone");
  std::printf("version %d: as it should be\n", VERSION);
  return 0;
} catch (const std::exception& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return 1;
}
