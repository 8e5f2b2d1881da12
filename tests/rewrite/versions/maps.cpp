// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One program in two versions, in which entries of ordered maps become larger, so that their nodes have no room for all of them:
// maps in all orders, and maps of caches.
//
//     maps_1 DIRECTORY; maps_2 DIRECTORY
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <tenure/allocator.hpp>
#include <tenure/cache.hpp>
#include <tenure/evolve.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/map.hpp>
#include <tenure/string.hpp>
#include <tenure/tenure.hpp>
#include <tenure/vector.hpp>

namespace {
constexpr int count = 2000;
constexpr const char* long_text = "a text that is too long to lie in the string itself";
}  // namespace

namespace maps_types {

struct entry {
  int number = 0;
  tenure::string name;
  tenure::std_string standard_name;
  tenure::vector<int> list;
  tenure::cache::ref<entry> other;
#if VERSION == 2
  long added[5] = {1, 2, 3, 4, 5};
  tenure::string text = long_text;
#endif
};
// Whose function cannot do with slots that have no value.
struct reading {
  const int* of = nullptr;
#if VERSION == 2
  int value = -1;
#endif
};
// Slots without one are zero.
struct living {
  virtual ~living() = default;
  virtual int answer() const { return number; }
  int number = -1;
#if VERSION == 2
  long added = 7;
  static constexpr auto persistent = tenure::members<&living::number, &living::added>{};
#else
  static constexpr auto persistent = tenure::members<&living::number>{};
#endif
};
struct alignas(64) wide {
  long number = 0;
};
struct named_key {
  short number = 0;
  tenure::string name;
  auto operator<=>(const named_key&) const = default;
};
enum class level : unsigned char {};

struct by_last_digits {
  bool operator()(int a, int b) const { return a % 100 != b % 100 ? a % 100 < b % 100 : a < b; }
};
struct by_length {
  bool operator()(const tenure::string& a, const tenure::string& b) const {
    return a.size() != b.size() ? a.size() < b.size() : b < a;
  }
};
struct all_maps {
  tenure::map<int, entry> up;
  tenure::map<int, entry, std::greater<int>> down;
  tenure::map<int, entry, by_last_digits> odd;
  tenure::map<tenure::string, entry, by_length> long_ones_last;
  tenure::cache::map<int, entry> cached;
  tenure::cache::map<int, entry, by_last_digits> cached_odd;
  tenure::cache::map<tenure::string, entry, by_length> cached_texts;
  tenure::cache::map<tenure::string, entry> few, none;
  tenure::map<named_key, entry> by_named;
  tenure::cache::map<named_key, entry> cached_by_named;
  tenure::map<level, entry> by_level;
  tenure::cache::map<int, reading> readings;
  tenure::map<int, living> living_ones;
  tenure::hash_map<int, living> hashed_ones;
  tenure::cache::map<int, living> cached_ones;
  tenure::vector<std::optional<living>> perhaps;
  tenure::hash_map<int, wide> wide_ones;
  tenure::vector<tenure::cache::map<int, entry>*> further;
  tenure::vector<tenure::map<int, entry>*> mapped;
  entry* inside = nullptr;
};

}  // namespace maps_types
using namespace maps_types;

#if VERSION == 2
template <>
struct tenure::evolve<reading> {
  static void describe(changes<reading>& of) {
    of.since(0).converted([](const old_object&, reading& is, conversion&) { is.value = *is.of; });
  }
};
#endif

namespace {

bool is_right = true;
void expect(bool holds, const char* what) {
  if (!holds) std::printf("version %d: %s\n", VERSION, what);
  is_right &= holds;
}

tenure::string key_of(int n) {
  return tenure::string("key " + std::to_string(n) + (n % 3 == 0 ? std::string(" ") + long_text : std::string()));
}
named_key named(int n) { return {static_cast<short>(n % 10), key_of(n)}; }
level level_of(int n) { return static_cast<level>(n); }
void fill(entry& e, int n) {
  e.number = n;
  e.name = tenure::string(n % 2 == 0 ? "short" : long_text);
  e.standard_name = n % 2 == 0 ? long_text : "short";  // has its own address in it
  e.list.push_back(n);
}
entry made(int n) {
  entry e;
  fill(e, n);
  return e;
}
bool is_entry(const entry* e, int n) {
  bool is = e != nullptr && e->number == n && e->name == tenure::string(n % 2 == 0 ? "short" : long_text) &&
            e->standard_name == (n % 2 == 0 ? long_text : "short") && e->list.size() == 1 && e->list[0] == n;
#if VERSION == 2
  is = is && e->added[0] == 1 && e->added[4] == 5 && e->text == tenure::string(long_text);
#endif
  return is;
}

#if VERSION == 1
void make(tenure::store& s, all_maps& all) {
  s.transact([&] {
    for (int i = 0; i < count; ++i) {
      const int n = i * 7919 % count;
      fill(all.up[n], n), fill(all.down[n], n), fill(all.odd[n], n), fill(all.long_ones_last[key_of(n)], n);
      all.cached.insert(n, made(n));
      all.cached_odd.insert(n, made(n));
      all.cached_texts.insert(key_of(n), made(n));
      if (n < 5) all.few.insert(key_of(n), made(n));
      fill(all.by_named[named(n)], n);
      all.cached_by_named.insert(named(n), made(n));
      if (n < 256) fill(all.by_level[level_of(n)], n);
    }
    all.inside = &all.odd.at(77);
    for (int n = 0; n < 300; ++n) {
      all.readings.insert(n, {&all.up.at(n).number});
      living one;
      one.number = n;
      all.living_ones[n] = one, all.hashed_ones[n] = one;
      all.cached_ones.insert(n, living(one));
      all.perhaps.push_back(n % 2 == 0 ? std::optional(one) : std::nullopt);
      all.wide_ones[n].number = n;
    }
    for (int n = 0; n < 3; ++n) {
      all.mapped.push_back(s.make<tenure::map<int, entry>>());
      for (int i = 0; i < n * 100; ++i) fill((*all.mapped.back())[i], i);
      all.further.push_back(s.make<tenure::cache::map<int, entry>>());
      for (int i = 0; i < n * 100; ++i) all.further.back()->insert(i, made(i));
    }
  });
}
#endif

template <class Map, class KeyOf = std::identity>
void look_at(const Map& map, int from, int to, const char* name, KeyOf key = {}) {
  map.check();
  for (int n = from; n < to; ++n) {
    const auto found = map.find(key(n));
    if constexpr (std::is_pointer_v<decltype(found)>)
      expect(is_entry(found, n), name);
    else
      expect(found != map.end() && is_entry(&found->second, n), name);
  }
}

void look(tenure::store& s, const all_maps& all) {
  s.read([&] {
    look_at(all.up, 0, count, "up");
    look_at(all.down, 0, count, "down");
    look_at(all.odd, 0, count, "odd");
    look_at(all.long_ones_last, 0, count, "long ones last", key_of);
    look_at(all.cached, 0, count, "cached");
    look_at(all.cached_odd, 0, count, "cached, odd");
    look_at(all.cached_texts, 0, count, "cached texts", key_of);
    look_at(all.few, 0, 5, "few", key_of);
    look_at(all.none, 0, 0, "none", key_of);
    look_at(all.by_named, 0, count, "by named keys", named);
    look_at(all.cached_by_named, 0, count, "cached, by named keys", named);
    look_at(all.by_level, 0, 256, "by level", level_of);
    all.readings.check(), all.living_ones.check(), all.hashed_ones.check(), all.cached_ones.check(),
        all.wide_ones.check();
    for (int n = 0; n < 300; ++n) {
      const reading* const found = all.readings.find(n);
      expect(found != nullptr && *found->of == n, "readings");
      expect(all.living_ones.at(n).answer() == n && all.hashed_ones.at(n).answer() == n &&
                 all.cached_ones.find(n)->answer() == n && all.wide_ones.at(n).number == n,
             "living ones");
      const auto& perhaps = all.perhaps[static_cast<std::size_t>(n)];
      expect(n % 2 == 0 ? perhaps && perhaps->answer() == n : !perhaps, "those that are perhaps there");
#if VERSION == 2
      expect(found->value == n, "readings that a function has made");
#endif
    }
    for (int n = 0; n < 3; ++n) {
      look_at(*all.further[static_cast<std::size_t>(n)], 0, n * 100, "further ones");
      look_at(*all.mapped[static_cast<std::size_t>(n)], 0, n * 100, "mapped ones");
    }
    expect(all.inside == &all.odd.at(77), "a pointer to an entry");
  });
  expect(s.verify().empty(), "verify has found something");
}

#if VERSION == 2
// They work on, here and in a cache.
void use(tenure::store& s, all_maps& all, const std::string& directory) {
  s.transact([&] {
    for (int n = 0; n < count; ++n) {
      all.odd[n + count];
      all.cached_odd.insert(n + count, made(n + count));
      all.none.insert(key_of(n), made(n));
      if (n % 2 == 0) all.cached_texts.erase(key_of(n)), all.long_ones_last.erase(key_of(n));
    }
  });
  s.read([&] {
    all.odd.check(), all.long_ones_last.check(), all.cached_texts.check();
    look_at(all.cached_odd, 0, 2 * count, "cached, odd, later");
    look_at(all.none, 0, count, "what was none", key_of);
  });
  s.close();
  tenure::cache::store cached(directory, {.pool_pages = 64, .object_bytes = 16 << 20});
  cached.transact([&] { cached.root<all_maps>("maps")->few.insert(key_of(5), made(5)); });
  for (int n = 0; n < 2 * count; n += 50)
    cached.read([&] {
      expect(is_entry(cached.root<all_maps>("maps")->cached_odd.find(n), n), "cached, odd, in a cache");
      expect(cached.root<all_maps>("maps")->few.find(key_of(5)) != nullptr, "few, in a cache");
    });
}
#endif

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return std::printf("usage: %s DIRECTORY\n", argv[0]), 2;
  const std::string directory = argv[1];
  tenure::store_options how;
  how.memory.log.size = 1 << 20;
  if (VERSION == 2) how.evolve = tenure::schema_change::convert;
  tenure::store s(directory, how);
  auto& all = s.root<all_maps>("maps");
#if VERSION == 1
  make(s, all);
#endif
  look(s, all);
#if VERSION == 2
  use(s, all, directory);
#endif
  return is_right ? 0 : 3;
} catch (const std::exception& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return 3;
}
