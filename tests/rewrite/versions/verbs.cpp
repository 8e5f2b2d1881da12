// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One program in three versions, with a class for each kind of change that the other programs of versions do not have. Each
// version opens what any earlier one has made:
//
//     verbs_1 make DIRECTORY; verbs_3 check DIRECTORY
//
// `spoil` stores a number that does not fit into what version 3 has: it is refused, and nothing is changed.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <variant>

#include <tenure/allocator.hpp>
#include <tenure/evolve.hpp>
#include <tenure/tenure.hpp>

// Split by a function, and merged by another one.
struct sized {
#if VERSION == 1
  long packed = 0;
#elif VERSION == 2
  int width = 0, height = 0;
#else
  long area = 0;
#endif
};

// The layout stays, and a function changes what the number means: wherever the class is nested.
struct measured {
  int degrees = 0;  // version 1: Celsius; later: Kelvin
};
struct station {
  measured inside, rooms[2];
  std::optional<measured> outside;
};

#if VERSION == 1
enum class level : std::uint8_t { low, high };
#elif VERSION == 2
enum class level : std::uint16_t { none, low, high };  // other numbers: a function
#else
enum class level : std::int32_t { none, low, high, highest };
#endif
struct door {
  level of = level::high;
  level each[3] = {level::low, level::high, level::low};
};

// A field goes from a derived class to its base; then another base takes the place of that one.
#if VERSION <= 2
struct animal {
  virtual ~animal() = default;
  int legs = 0;
#if VERSION == 2
  int age = 0;
  static constexpr auto persistent = tenure::members<&animal::legs, &animal::age>{};
#else
  static constexpr auto persistent = tenure::members<&animal::legs>{};
#endif
};
using base_of_dog = animal;
#else
struct creature {
  virtual ~creature() = default;
  long age = 0;
  int eyes = 2, legs = 0;
  static constexpr auto persistent = tenure::members<&creature::age, &creature::eyes, &creature::legs>{};
};
using base_of_dog = creature;
#endif
struct dog : base_of_dog {
  int weight = 0;
#if VERSION == 1
  int age = 0;
  static constexpr auto persistent = tenure::bases<animal>{} + tenure::members<&dog::weight, &dog::age>{};
#else
  static constexpr auto persistent = tenure::bases<base_of_dog>{} + tenure::members<&dog::weight>{};
#endif
};
const tenure::register_type<dog> registered;

// A field leaves a nested class, of which there are others elsewhere.
struct corner {
  int x = 0, y = 0;
#if VERSION == 1
  int height = 0;
#endif
};
struct box {
#if VERSION >= 2
  int height = 0;
#endif
  corner at;
  tenure::vector<corner> others;
  corner* itself = nullptr;
};

struct record {
  int number = 0;
#if VERSION == 1
  long last[4] = {};
#else
  long last[2] = {};          // shorter: the rest is zero
#endif
#if VERSION == 1
  int value = 0;
#elif VERSION == 2
  int amount = 0, value = 7;  // the name is used again
  short currency = 0;         // has a declared value
#else
  int amount = 0, value = 7;
  long code = 0;  // was currency
#endif
#if VERSION == 1
  std::optional<short> perhaps;
#else
  std::optional<long> perhaps;
#endif
#if VERSION <= 2
  long count = 0;
#else
  signed char count = 0;
#endif
};

// An array becomes longer, and so do its elements, one after the other or at once.
struct tile {
#if VERSION == 1
  short color = 0;
#else
  int color = 0;
#endif
};
struct tiled {
#if VERSION <= 2
  std::array<tile, 4> tiles;
#else
  std::array<tile, 7> tiles;
#endif
};

// A standard list is the first field, and is not any more. Its nodes have links to its head, and the head of an empty one to itself.
struct with_list {
#if VERSION >= 2
  long fresh = 3;
#endif
  tenure::std_list<int> list;
  void* whole = this;
};
struct with_chosen_list {
#if VERSION >= 2
  long fresh = 3;
#endif
  std::variant<tenure::std_list<int>, int*> list, empty;
};
struct listing {
#if VERSION >= 2
  listing* other = nullptr;
#endif
  tenure::std_list<int> list;
};
struct with_chosen_listing {
#if VERSION >= 2
  long fresh = 3;
#endif
  std::variant<long, listing, with_list*> of, again;
};

// What is nested gets another name, and then its parts go elsewhere, or are gone.
struct grip {
  int x = 0, y = 0;
};
struct handle_of_door {
#if VERSION == 1
  grip where;
#elif VERSION == 2
  grip place;
#else
  int x = 0;
#endif
};

// A class gets another name; then another class has the old one.
#if VERSION == 1
struct token {
  int value = 0;
};
using first_token = token;
#else
struct symbol {
  int value = 0;
};
using first_token = symbol;
#endif
#if VERSION == 3
struct token {
  long other = 5;
};
#endif

namespace tenure {
#if VERSION >= 2
template <>
struct persist<handle_of_door> {
  static constexpr std::uint32_t version = VERSION;
};
template <>
struct evolve<handle_of_door> {
  static void describe(changes<handle_of_door>& of) {
    of.since(0).renamed("where", "place");
#if VERSION == 3
    of.since(2).renamed("place.x", "x").removed("place.y");
#endif
  }
};
template <>
struct evolve<symbol> {
  static void describe(changes<symbol>& of) { of.was_named("token"); }
};
template <>
struct persist<sized> {
  static constexpr std::uint32_t version = VERSION;
};
template <>
struct persist<measured> {
  static constexpr std::uint32_t version = 2;
};
template <>
struct persist<door> {
  static constexpr std::uint32_t version = VERSION;
};
template <>
struct persist<dog> {
  static constexpr std::uint32_t version = VERSION;
};
template <>
struct persist<record> {
  static constexpr std::uint32_t version = VERSION;
};
template <>
struct evolve<sized> {
  static void describe(changes<sized>& of) {
#if VERSION == 2
    of.since(0).removed("packed").converted([](const old_object& was, sized& is, conversion&) {
      is.width = static_cast<int>(was.get<long>("packed") / 1000);
      is.height = static_cast<int>(was.get<long>("packed") % 1000);
    });
#else
    of.since(0).removed("packed").converted([](const old_object& was, sized& is, conversion&) {
      is.area = was.get<long>("packed") / 1000 * (was.get<long>("packed") % 1000);
    });
    of.since(2).removed("width").removed("height").converted([](const old_object& was, sized& is, conversion&) {
      if (was.has("width")) is.area = was.get<long>("width") * was.get<long>("height");
    });
#endif
  }
};
template <>
struct evolve<measured> {
  static void describe(changes<measured>& of) {
    of.since(0).converted([](const old_object&, measured& is, conversion&) { is.degrees += 273; });
  }
};
template <>
struct evolve<door> {
  static void describe(changes<door>& of) {
    of.since(0).converted([](const old_object& was, door& is, conversion&) {
      const auto now = [](int then) { return static_cast<level>(then + 1); };
      is.of = now(was.get<int>("of"));
      for (int n = 0; n < 3; ++n) is.each[n] = now(was.get<int>("each[" + std::to_string(n) + "]"));
    });
  }
};
template <>
struct evolve<dog> {
  static void describe(changes<dog>& of) {
    of.since(0).renamed("age", "animal::age");
#if VERSION == 3
    of.since(2).renamed("animal::", "creature::");
#endif
  }
};
template <>
struct evolve<corner> {
  static void describe(changes<corner>& of) { of.since(0).removed("height"); }
};
template <>
struct evolve<box> {
  static void describe(changes<box>& of) { of.since(0).renamed("at.height", "height"); }
};
template <>
struct evolve<record> {
  static void describe(changes<record>& of) {
    of.since(0).renamed("value", "amount").narrowed("last").added("currency", 978);
#if VERSION == 3
    of.since(2).renamed("currency", "code").narrowed("count");
#endif
  }
};
#endif
}  // namespace tenure

struct verbs {
  tenure::vector<sized*> sizes;
  tenure::vector<station*> stations;
  tenure::vector<door*> doors;
  tenure::vector<dog*> dogs;
  tenure::vector<box> boxes;
  tenure::vector<record> records;
  tiled* floor = nullptr;
  handle_of_door* knob = nullptr;
  first_token* first = nullptr;
  tenure::vector<with_list*> lists;
  tenure::vector<with_chosen_list*> chosen;
  tenure::vector<with_chosen_listing*> listings;
#if VERSION == 3
  token* second = nullptr;
#endif
};

namespace {

constexpr int count = 200;

#define REQUIRE(x)                                                             \
  do {                                                                         \
    if (!(x)) {                                                                \
      std::printf("version %d, line %d: not so: %s\n", VERSION, __LINE__, #x); \
      std::exit(1);                                                            \
    }                                                                          \
  } while (false)

#if VERSION == 1

void make(tenure::store& s, verbs& all) {
  s.transact([&] {
    all.boxes.reserve(count);
    all.floor = s.make<tiled>();
    all.floor->tiles[3].color = -3;
    all.knob = s.make<handle_of_door>();
    all.knob->where.x = 17;
    all.first = s.make<first_token>();
    all.first->value = 9;
    for (int n = 0; n < 10; ++n) {
      all.lists.push_back(s.make<with_list>());
      all.chosen.push_back(s.make<with_chosen_list>());
      all.listings.push_back(s.make<with_chosen_listing>());
      all.listings.back()->of.emplace<1>();
      all.listings.back()->again.emplace<1>();
      for (int k = 0; k < n; ++k) {
        all.lists.back()->list.push_back(k);
        std::get<0>(all.chosen.back()->list).push_back(k);
        std::get<1>(all.listings.back()->of).list.push_back(k);
        std::get<1>(all.listings.back()->again).list.push_back(k);
      }
    }
    for (int n = 0; n < count; ++n) {
      all.sizes.push_back(s.make<sized>());
      all.sizes.back()->packed = 1000L * n + 7;
      auto* const place = s.make<station>();
      place->inside.degrees = n;
      place->rooms[0].degrees = place->rooms[1].degrees = -n;
      if (n % 2 == 0) place->outside = measured{n};
      all.stations.push_back(place);
      all.doors.push_back(s.make<door>());
      auto* const d = s.make<dog>();
      d->legs = 4;
      d->age = n;
      d->weight = -n;
      all.dogs.push_back(d);
      box& b = all.boxes.emplace_back();
      b.at = {n, -n, 2 * n};
      for (int k = 0; k < n % 3; ++k) b.others.push_back({k, k, 0});
      b.itself = &b.at;
      record& r = all.records.emplace_back();
      r.number = r.value = n;
      r.last[0] = r.last[1] = n;
      if (n % 2 == 0) r.perhaps = static_cast<short>(-n);
      r.count = n % 100;
    }
  });
}

#endif

void require_list(const tenure::std_list<int>& list, int size) {
  int forwards = 0, backwards = size;
  for (const int each : list) REQUIRE(each == forwards++);
  for (auto each = list.rbegin(); each != list.rend(); ++each) REQUIRE(*each == --backwards);
  REQUIRE(forwards == size && backwards == 0);
}

void check(verbs& all) {
  for (std::size_t n = 0; n < all.lists.size(); ++n) {
    require_list(all.lists[n]->list, static_cast<int>(n));
    require_list(std::get<0>(all.chosen[n]->list), static_cast<int>(n));
    require_list(std::get<0>(all.chosen[n]->empty), 0);
    require_list(std::get<1>(all.listings[n]->of).list, static_cast<int>(n));
    require_list(std::get<1>(all.listings[n]->again).list, static_cast<int>(n));
    REQUIRE(all.lists[n]->whole == all.lists[n]);
#if VERSION >= 2
    REQUIRE(all.lists[n]->fresh == 3 && all.chosen[n]->fresh == 3);
#endif
  }
  if (all.floor != nullptr) {  // stores of the fixtures have none
    REQUIRE(all.floor->tiles[3].color == -3 && all.first->value == 9);
#if VERSION == 2
    REQUIRE(all.knob->place.x == 17);
#elif VERSION == 3
    REQUIRE(all.knob->x == 17);
#endif
  }
  const int kelvin = VERSION == 1 ? 0 : 273;
  for (int n = 0; n < count; ++n) {
    const auto at = static_cast<std::size_t>(n);
#if VERSION == 1
    REQUIRE(all.sizes[at]->packed == 1000L * n + 7);
#elif VERSION == 2
    REQUIRE(all.sizes[at]->width == n && all.sizes[at]->height == 7);
#else
    REQUIRE(all.sizes[at]->area == 7L * n);
#endif
    const station& s = *all.stations[at];
    REQUIRE(s.inside.degrees == n + kelvin);
    REQUIRE(s.rooms[0].degrees == -n + kelvin && s.rooms[1].degrees == -n + kelvin);
    REQUIRE(s.outside.has_value() == (n % 2 == 0));
    if (s.outside) REQUIRE(s.outside->degrees == n + kelvin);
    const door& of = *all.doors[at];
    REQUIRE(of.of == level::high && of.each[0] == level::low && of.each[1] == level::high);
    const dog& d = *all.dogs[at];
    REQUIRE(d.legs == 4 && d.age == n && d.weight == -n);
    REQUIRE(dynamic_cast<const dog*>(static_cast<const base_of_dog*>(&d)) == &d);
#if VERSION == 3
    REQUIRE(d.eyes == 2);
#endif
    const box& b = all.boxes[at];
    REQUIRE(b.at.x == n && b.at.y == -n && b.itself == &b.at);
    REQUIRE(b.others.size() == at % 3 && (n % 3 != 2 || b.others[1].x == 1));
    const record& r = all.records[at];
    REQUIRE(r.number == n && r.last[0] == n && r.last[1] == n);
    REQUIRE(r.perhaps.has_value() == (n % 2 == 0) && r.perhaps.value_or(-n) == -n && r.count == n % 100);
#if VERSION == 1
    REQUIRE(b.at.height == 2 * n && r.value == n);
#else
    REQUIRE(b.height == 2 * n && r.amount == n && r.value == 7);
#endif
#if VERSION == 2
    REQUIRE(r.currency == 978);
#elif VERSION == 3
    REQUIRE(r.code == 978);
#endif
  }
}

void require_sound(const tenure::store& s) {
  const auto wrong = s.verify();
  for (const std::string& each : wrong) std::puts(each.c_str());
  REQUIRE(wrong.empty());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return std::printf("usage: %s make|check|spoil DIRECTORY\n", argv[0]), 2;
  const std::string what = argv[1];
  tenure::store_options how;
  how.memory.log.size = 1 << 20;
  how.evolve = tenure::schema_change::convert;
  tenure::store s(argv[2], how);
  auto& all = s.root<verbs>("verbs");
#if VERSION == 1
  if (what == "make") make(s, all);
  if (what == "spoil") s.transact([&] { all.records[0].count = 1000; });
#elif VERSION == 3
  if (all.second == nullptr) s.transact([&] { all.second = s.make<token>(); });
  REQUIRE(all.second->other == 5);
#endif
  require_sound(s);
  if (what != "spoil") check(all);
  s.close();
  std::printf("version %d: as it should be\n", VERSION);
  return 0;
} catch (const std::exception& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return 1;
}
