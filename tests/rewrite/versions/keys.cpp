// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One program in two versions, in which the classes of keys have changed. Of each kind of container there is a store of its own:
// some can be converted, and others must be refused, by the program and by `tenure schema check` alike.
//
//     keys_1 make CONTAINER DIRECTORY; keys_2 check CONTAINER DIRECTORY; keys_2 schema CONTAINER -
#include <compare>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <tenure/allocator.hpp>
#include <tenure/cache/map.hpp>
#include <tenure/evolve.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/map.hpp>
#include <tenure/schema.hpp>
#include <tenure/set.hpp>
#include <tenure/tenure.hpp>

#if VERSION == 1
struct turned {
  int a = 0, b = 0;
  auto operator<=>(const turned&) const = default;
};
struct grown {
  int a = 0, b = 0;
  auto operator<=>(const grown&) const = default;
};
struct named {
  int a = 0, b = 0;
  auto operator<=>(const named&) const = default;
};
#else
struct turned {  // compared in another order
  int b = 0, a = 0;
  auto operator<=>(const turned&) const = default;
};
struct grown {  // compared in the same order
  long a = 0;
  int b = 0, c = 0;
  auto operator<=>(const grown&) const = default;
};
struct named {
  int first = 0, b = 0;
  auto operator<=>(const named&) const = default;
};
template <>
struct tenure::evolve<named> {
  static void describe(changes<named>& of) { of.since(0).renamed("a", "first"); }
};
#endif
struct by_a {
  bool operator()(const turned& x, const turned& y) const { return x.a < y.a; }
};
template <>
struct tenure::hash<grown> {
  static constexpr std::uint32_t id = 1;
  std::uint64_t operator()(const grown& key, std::uint64_t seed) const noexcept {
    return tenure::hash<long>()(key.a, seed);
  }
};

// With the names of a set.
template <class Key, class Compare = tenure::less<Key>>
struct cached_map {
  using key_type = Key;
  tenure::cache::map<Key, int, Compare> map;
  void insert(const Key& key, int value) { (void)map.insert(key, value); }
  bool contains(const Key& key) const { return map.find(key) != nullptr; }
};

namespace {

constexpr int count = 500;

#if VERSION == 2
void set_first(named& key, int n) { key.first = n; }
#endif
template <class Key>
void set_first(Key& key, int n) {
  key.a = n;
}
template <class Key>
Key key_of(int n) {
  Key key{};
  set_first(key, n);
  key.b = -n;
  return key;
}

bool has_all = true;

template <class Set>
void use(tenure::store& s, bool is_made, bool is_filled = true) {
  using key = typename Set::key_type;
  auto& set = s.root<Set>("set");
  if (is_made)
    s.transact([&] {
      for (int n = 0; n < count && is_filled; ++n) {
        if constexpr (requires { set.insert(key_of<key>(n), 1); })
          set.insert(key_of<key>(n), 1);
        else if constexpr (requires { typename Set::mapped_type; })
          set[key_of<key>(n)] = {};
        else
          set.insert(key_of<key>(n));
      }
    });
  for (int n = 0; n < count; ++n) has_all &= set.contains(key_of<key>(n)) == is_filled;
}

struct container {
  const char* name;
  bool is_refused;
  void (*use)(tenure::store& s, bool is_made);
};
const container containers[] = {
    {"turned-set", true, [](tenure::store& s, bool made) { use<tenure::set<turned>>(s, made); }},
    {"turned-map", true, [](tenure::store& s, bool made) { use<tenure::map<turned, int>>(s, made); }},
    {"turned-standard", true, [](tenure::store& s, bool made) { use<tenure::std_set<turned>>(s, made); }},
    {"turned-by-a", false, [](tenure::store& s, bool made) { use<tenure::set<turned, by_a>>(s, made); }},
    {"turned-empty", false, [](tenure::store& s, bool made) { use<tenure::set<turned>>(s, made, false); }},
    {"grown-set", true, [](tenure::store& s, bool made) { use<tenure::set<grown>>(s, made); }},
    {"grown-map", true, [](tenure::store& s, bool made) { use<tenure::map<grown, int>>(s, made); }},
    {"grown-standard", false, [](tenure::store& s, bool made) { use<tenure::std_set<grown>>(s, made); }},
    {"grown-hash", false, [](tenure::store& s, bool made) { use<tenure::hash_set<grown>>(s, made); }},
    {"named-set", false, [](tenure::store& s, bool made) { use<tenure::set<named>>(s, made); }},
    {"named-map", false, [](tenure::store& s, bool made) { use<tenure::map<named, int>>(s, made); }},
    {"turned-cached", true, [](tenure::store& s, bool made) { use<cached_map<turned>>(s, made); }},
    {"turned-cached-by-a", false, [](tenure::store& s, bool made) { use<cached_map<turned, by_a>>(s, made); }},
    {"turned-cached-empty", false, [](tenure::store& s, bool made) { use<cached_map<turned>>(s, made, false); }},
    {"grown-cached", true, [](tenure::store& s, bool made) { use<cached_map<grown>>(s, made); }},
    {"named-cached", false, [](tenure::store& s, bool made) { use<cached_map<named>>(s, made); }},
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2 && argv[1] == std::string("list")) {
    for (const container& c : containers) std::printf("%s %d\n", c.name, c.is_refused ? 1 : 0);
    return 0;
  }
  if (argc != 4) return std::printf("usage: %s list | make|check|schema CONTAINER DIRECTORY\n", argv[0]), 2;
  if (argv[1] == std::string("schema")) return std::puts(tenure::schema().c_str()), 0;
  tenure::store_options how;
  how.memory.log.size = 1 << 20;
  how.evolve = tenure::schema_change::convert;
  tenure::store s(argv[3], how);
  for (const container& c : containers)
    if (argv[2] == std::string(c.name)) c.use(s, argv[1] == std::string("make"));
  const bool is_sound = s.verify().empty();
  s.close();
  if (!has_all || !is_sound) std::printf("version %d: %s is not what it was\n", VERSION, argv[2]);
  return has_all && is_sound ? 0 : 3;
} catch (const tenure::error& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return e.code() == tenure::errc::schema_mismatch ? 1 : 3;
} catch (const std::exception& e) {
  std::printf("version %d: %s\n", VERSION, e.what());
  return 3;
}
