// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The containers announce what they store (tenure/barriers.hpp): memory is compared before and after each of many random
// operations [types.containers.announced].
#include <tenure/barriers.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "containers/elements.hpp"
#include "containers/watched_arena.hpp"

namespace announced_test {

using tenure::testing::arena_memory;
using tenure::testing::fragile;
using tenure::testing::sturdy;
using tenure::testing::test_scale;
using tenure::testing::tripwire;
using tenure::testing::watched_arena;

using text = tenure::basic_string<arena_memory>;
template <class T>
using vector_of = tenure::vector<T, arena_memory>;

// Large, so that trees get many levels, and moved by its constructor, which changes what it is moved from.
class heavy {
 public:
  heavy(int value = 0) : value_(value) { filling_[0] = value; }  // NOLINT(google-explicit-constructor)
  heavy(const heavy& other) : value_(other.value_) {
    tripwire::step();
    filling_[0] = value_;
  }
  heavy(heavy&& other) noexcept : value_(other.value_) {
    filling_[0] = value_;
    other.filling_[0] = -1;
  }
  heavy& operator=(const heavy& other) {
    tripwire::step();
    value_ = filling_[0] = other.value_;
    return *this;
  }
  heavy& operator=(heavy&& other) noexcept {
    value_ = filling_[0] = other.value_;
    return *this;
  }
  ~heavy() { __atomic_store_n(&filling_[1], ~filling_[1], __ATOMIC_RELAXED); }
  friend bool operator==(const heavy& a, const heavy& b) { return a.value_ == b.value_; }
  friend auto operator<=>(const heavy& a, const heavy& b) { return a.value_ <=> b.value_; }
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_, filling_[90] = {};

 public:
  static constexpr auto persistent = tenure::members<&heavy::value_, &heavy::filling_>{};
};

struct heavy_hash {
  static constexpr std::uint32_t id = 5;
  std::uint64_t operator()(const heavy& x) const noexcept { return static_cast<std::uint64_t>(x.value()) % 8; }
};

template <class T>
struct maker {
  static T make(int n) { return T(n); }
};
template <>
struct maker<int*> {
  static int* make(int n) {
    static int targets[512];
    return targets + n % 512;
  }
};
template <>
struct maker<text> {
  static text make(int n) {
    const std::string number = std::to_string(n % 1000);
    return text((n % 3 == 0 ? "a text that needs memory of its own " : "") + number);
  }
};
template <class T>
struct maker<vector_of<T>> {
  static vector_of<T> make(int n) {
    vector_of<T> made;
    for (int i = 0; i < n % 4; ++i) made.push_back(maker<T>::make(n + i));
    return made;
  }
};
template <class A, class B>
struct maker<std::pair<A, B>> {
  static std::pair<A, B> make(int n) { return {maker<A>::make(n), maker<B>::make(n / 2)}; }
};

// What the operations have reached, by name: so the test proves that it tests something.
std::map<std::string, int> reached;

using kind = watched_arena::kind;

// A container and another one in watched memory, and operations on them.
template <class C>
class world {
 public:
  explicit world(const std::string& name, unsigned seed) : name_(name), random_(seed) {
    arena_memory::arena = &arena_;
    for (C*& c : containers_) {
      void* const place = arena_.allocate<C>(1);
      arena_.check(name_ + " made", [&] { c = ::new (place) C; });
    }
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world() {
    for (C* const c : containers_) {
      arena_.check(name_ + " destroyed", [&] { c->~C(); });
      arena_.deallocate(c);
    }
    EXPECT_EQ(arena_.live_blocks(), 0U) << name_;
    arena_memory::arena = nullptr;
  }

  [[nodiscard]] C& main() { return *containers_[0]; }
  [[nodiscard]] C& other() { return *containers_[1]; }
  [[nodiscard]] int below(std::size_t n) { return static_cast<int>(random_() % n); }
  [[nodiscard]] std::size_t up_to(std::size_t n) { return static_cast<std::size_t>(random_() % (n + 1)); }

  // One operation; sometimes memory is refused, or an element's constructor throws.
  template <class Operation>
  void run(const std::string& what, Operation operation) {
    const std::size_t old = main().size();
    const std::size_t before = arena_.announced();
    arena_.check(name_ + " " + what, [&] {
      if (below(4) == 0) (below(2) == 0 ? tripwire::calls_left : arena_.refuse_after) = below(4);
      try {
        operation();
      } catch (const std::bad_alloc&) {
        ++reached[name_ + " without memory"];
      } catch (const std::runtime_error&) {
        ++reached[name_ + " thrown"];
      }
      tripwire::calls_left = arena_.refuse_after = -1;
    });
    if (arena_.announced() != before) ++reached[name_ + " " + what];
    const watched_arena::traffic& now = arena_.now;
    const auto count = [](const std::size_t(&of)[4], kind k) { return of[static_cast<int>(k)]; };
    if (old == 0 || main().empty()) return;
    if (main().size() > old) {
      if (count(now.allocated, kind::leaf) > 0) ++reached[name_ + " leaf split"];
      if (count(now.allocated, kind::inner) > 1 && main().size() == old + 1) ++reached[name_ + " inner split"];
      if (count(now.allocated, kind::groups) > 0) ++reached[name_ + " rehashed"];
    } else if (main().size() < old) {
      if (count(now.freed, kind::leaf) > 0) ++reached[name_ + " leaf merged"];
      if (count(now.freed, kind::inner) > 0 && main().size() + 1 == old) ++reached[name_ + " inner merged"];
    }
  }

  // What all containers can do.
  void run_common(std::size_t out_of) {
    if (below(out_of) != 0) return;
    switch (below(6)) {
      case 0: return run("swap", [&] { main().swap(other()); });
      case 1: return run("copied", [&] { other() = main(); });
      case 2: return run("moved", [&] { main() = std::move(other()); });
      case 3: return run("cleared", [&] { other().clear(); });
      case 4:
        return run("moved out", [&] {
          C elsewhere(std::move(main()));
          main() = std::move(elsewhere);
        });
      default:
        return run("constructed", [&] {
          std::destroy_at(&other());
          tenure::announce_store(&other(), sizeof(C));
          std::construct_at(&other(), std::move(main()));
        });
    }
  }

 private:
  watched_arena arena_;
  std::string name_;
  std::mt19937 random_;
  C* containers_[2];
};

int operations() { return static_cast<int>(1500 * test_scale()); }
void expect_reached(const std::string& name, std::initializer_list<const char*> all) {
  if (test_scale() < 1) return;
  for (const char* const what : all) EXPECT_GT(reached[name + " " + what], 0) << name << " " << what;
}

// --- Sequences ---

template <class T>
void test_vector(const std::string& name) {
  using C = vector_of<T>;
  {
    world<C> w(name, 7);
    for (int step = 0; step < operations() && !::testing::Test::HasFailure(); ++step) {
      C& v = w.main();
      const T value = maker<T>::make(step);
      T gift = maker<T>::make(step);
      const std::size_t size = v.size(), at = w.up_to(size), some = w.up_to(5);
      const auto where = static_cast<std::ptrdiff_t>(at);
      switch (w.below(size > 40 ? 30 : 22)) {
        case 0: w.run("push_back", [&] { v.push_back(value); }); break;
        case 1: w.run("push_back moved", [&] { v.push_back(std::move(gift)); }); break;
        case 2: w.run("insert", [&] { v.insert(v.begin() + where, value); }); break;
        case 3: w.run("insert moved", [&] { v.insert(v.begin() + where, std::move(gift)); }); break;
        case 4: w.run("insert several", [&] { v.insert(v.begin() + where, some, value); }); break;
        case 5: {
          const std::vector<T> more(some, value);
          w.run("insert range", [&] { v.insert(v.begin() + where, more.begin(), more.end()); });
          break;
        }
        case 6:
          w.run("own element", [&] {
            if (size != 0) v.push_back(v[at % size]);
          });
          break;
        case 7: w.run("resize", [&] { v.resize(size + some); }); break;
        case 8: w.run("resize with", [&] { v.resize(size + some, value); }); break;
        case 9: w.run("reserve", [&] { v.reserve(size + some); }); break;
        case 10: w.run("shrink_to_fit", [&] { v.shrink_to_fit(); }); break;
        case 11: w.run("assign", [&] { w.other().assign(some, value); }); break;
        case 12: w.run("emplace", [&] { v.emplace(v.begin() + where, value); }); break;
        case 13:
          w.run("erase_if", [&] {
            int n = 0;
            erase_if(v, [&](const T&) { return ++n % 7 == 3; });
          });
          break;
        case 14:
        case 15:
        case 16:
        case 17:
        case 18:
        case 19: w.run_common(5); break;
        case 20:
        case 22:
          w.run("pop_back", [&] {
            if (size != 0) v.pop_back();
          });
          break;
        case 21:
        case 23:
        case 24:
          w.run("erase", [&] {
            if (at < size) v.erase(v.begin() + where);
          });
          break;
        case 25: w.run("resize down", [&] { v.resize(at); }); break;
        default:
          w.run("erase range", [&] {
            v.erase(v.begin() + where, v.begin() + where + static_cast<std::ptrdiff_t>(w.up_to(size - at) / 2));
          });
      }
    }
  }
  expect_reached(name, {"push_back",     "push_back moved", "insert",      "insert moved", "insert several",
                        "insert range",  "own element",     "resize",      "resize with",  "reserve",
                        "shrink_to_fit", "assign",          "emplace",     "erase_if",     "swap",
                        "copied",        "moved",           "cleared",     "moved out",    "constructed",
                        "pop_back",      "erase",           "resize down", "erase range",  "without memory"});
}

TEST(announced, vectors) {
  test_vector<int>("vector of int");
  test_vector<int*>("vector of pointers");
  test_vector<text>("vector of text");
  test_vector<vector_of<text>>("vector of vectors");
  test_vector<std::pair<int, text>>("vector of pairs");
  test_vector<sturdy>("vector of sturdy");
  test_vector<fragile>("vector of fragile");
  test_vector<heavy>("vector of heavy");
  expect_reached("vector of sturdy", {"thrown"});
  expect_reached("vector of fragile", {"thrown"});
  expect_reached("vector of heavy", {"thrown"});
}

TEST(announced, strings) {
  {
    world<text> w("text", 3);
    const std::string letters = "the quick brown fox jumps over the lazy dog";
    for (int step = 0; step < 4 * operations() && !HasFailure(); ++step) {
      text& s = w.main();
      const std::size_t size = s.size(), at = w.up_to(size), some = w.up_to(12);
      const std::string_view more = std::string_view(letters).substr(w.up_to(20), w.up_to(20));
      const std::string_view own = s.view().substr(at, some);
      switch (w.below(size > 60 ? 30 : 24)) {
        case 0: w.run("push_back", [&] { s.push_back('x'); }); break;
        case 1: w.run("append", [&] { s.append(more); }); break;
        case 2: w.run("append several", [&] { s.append(some, 'y'); }); break;
        case 3: w.run("append own", [&] { s.append(own); }); break;
        case 4: w.run("assign", [&] { s.assign(more); }); break;
        case 5: w.run("assign own", [&] { s.assign(own); }); break;
        case 6: w.run("assign several", [&] { w.other().assign(some, 'z'); }); break;
        case 7: w.run("insert", [&] { s.insert(at, more); }); break;
        case 8: w.run("insert several", [&] { s.insert(at, some, 'w'); }); break;
        case 9: w.run("replace", [&] { s.replace(at, some, more); }); break;
        case 10: w.run("replace with own", [&] { s.replace(at, some, own); }); break;
        case 11: w.run("replace by several", [&] { s.replace(at, some, 4, 'v'); }); break;
        case 12: w.run("resize", [&] { s.resize(size + some, 'u'); }); break;
        case 13: w.run("reserve", [&] { s.reserve(size + some); }); break;
        case 14: w.run("shrink_to_fit", [&] { s.shrink_to_fit(); }); break;
        case 15: w.run("erase_if", [&] { erase_if(s, [](char c) { return c == 'o' || c == 'y'; }); }); break;
        case 16:
        case 17:
        case 18:
        case 19:
        case 20:
        case 21: w.run_common(5); break;
        case 22:
        case 24:
          w.run("pop_back", [&] {
            if (size != 0) s.pop_back();
          });
          break;
        case 23:
        case 25: w.run("resize down", [&] { s.resize(at); }); break;
        default: w.run("erase", [&] { s.erase(at, w.up_to(size - at)); });
      }
    }
  }
  expect_reached("text", {"push_back",
                          "append",
                          "append several",
                          "append own",
                          "assign",
                          "assign own",
                          "assign several",
                          "insert",
                          "insert several",
                          "replace",
                          "replace with own",
                          "replace by several",
                          "resize",
                          "reserve",
                          "shrink_to_fit",
                          "erase_if",
                          "swap",
                          "copied",
                          "moved",
                          "cleared",
                          "moved out",
                          "constructed",
                          "pop_back",
                          "resize down",
                          "erase",
                          "without memory"});
}

// --- Associative containers ---

template <class C>
concept has_value = requires {
  typename C::mapped_type;
};
template <class C>
concept is_index = has_value<C> && requires(C& c, const typename C::key_type& k, const typename C::mapped_type& v) {
  c.contains(k, v);
};

template <class C>
void insert_into(C& c, const typename C::key_type& key, int n) {
  if constexpr (!has_value<C>) {
    c.insert(key);
  } else {
    const auto value = maker<typename C::mapped_type>::make(n);
    if constexpr (is_index<C>)
      c.insert(key, value);
    else
      c.insert({key, value});
  }
}

template <class C>
void fill(C& c, int from, int count) {
  for (int i = 0; i < count; ++i) insert_into(c, maker<typename C::key_type>::make(from + i), i);
}

// In phases: the container grows, then it shrinks.
template <class C>
void test_associative(const std::string& name, int keys) {
  using K = typename C::key_type;
  constexpr bool hashed = requires(C & c) { c.rehash(0); };
  {
    world<C> w(name, 11);
    for (int step = 0; step < 2 * operations() && !::testing::Test::HasFailure(); ++step) {
      C& c = w.main();
      const bool growing = step / 400 % 2 == 0;
      const int n = w.below(3) == 0 ? step % keys : w.below(static_cast<std::size_t>(keys));
      const K key = maker<K>::make(n);
      const std::size_t size = c.size();
      auto at = c.begin();
      for (std::size_t i = size == 0 ? 0 : w.up_to(size - 1); i > 0; --i) ++at;
      const int drawn = w.below(40);
      if (drawn < 24) {
        if (growing)
          w.run("insert", [&] { insert_into(c, key, n); });
        else if (drawn < 12)
          w.run("erase key", [&] { c.erase(key); });
        else
          w.run("erase at", [&] {
            if (size != 0) c.erase(at);
          });
      } else if (drawn < 28) {
        w.run("erase range", [&] {
          auto last = at;
          for (std::size_t i = size == 0 ? 0 : w.up_to(std::min<std::size_t>(size, 9)); i > 0 && last != c.end(); --i)
            ++last;
          c.erase(at, last);
        });
      } else if (drawn < 30) {
        w.run_common(2);
      } else if (drawn == 30) {
        w.run("several", [&] { fill(c, n, w.below(4) == 0 ? 90 : 5); });
      } else if (drawn == 31) {
        if constexpr (requires { erase_if(c, [](const auto&) { return true; }); })
          w.run("erase_if", [&] {
            int i = 0;
            erase_if(c, [&](const auto&) { return ++i % 9 == 4; });
          });
      } else if (drawn == 32) {
        if constexpr (!has_value<C> && !hashed) w.run("insert hinted", [&] { c.insert(c.end(), key); });
      } else if (drawn < 35) {
        if constexpr (requires { c.insert_or_assign(key, std::declval<typename C::mapped_type>()); })
          w.run("insert_or_assign", [&] { c.insert_or_assign(key, maker<typename C::mapped_type>::make(step)); });
      } else if (drawn == 35) {
        if constexpr (requires { c[key]; }) w.run("[]", [&] { (void)c[key]; });
      } else if (drawn == 36) {
        if constexpr (requires { c.erase_one(key, std::declval<typename C::mapped_type>()); })
          w.run("erase_one", [&] {
            if (size != 0) c.erase_one(at->first, at->second);
          });
      } else if constexpr (hashed) {
        if (drawn == 37)
          w.run("reserve", [&] { c.reserve(size + w.up_to(30)); });
        else if (drawn == 38)
          w.run("rehash", [&] { c.rehash(size + w.up_to(10)); });
        else
          w.run("seeded", [&] { w.other() = C(tenure::hash_seed{static_cast<std::uint64_t>(step)}); });
      }
      if (step % 50 == 0) c.check();
    }
  }
  expect_reached(name, {"insert", "erase key", "erase at", "erase range", "several", "swap", "copied", "moved",
                        "cleared", "moved out", "constructed", "without memory"});
  if constexpr (hashed)
    expect_reached(name, {"rehashed", "reserve", "rehash", "seeded"});
  else
    expect_reached(name, {"leaf split", "leaf merged"});
}

template <class K, class V>
using map_of = tenure::map<K, V, tenure::less<K>, arena_memory>;
template <class K, class V>
using multimap_of = tenure::multimap<K, V, tenure::less<K>, arena_memory>;
template <class K>
using set_of = tenure::set<K, tenure::less<K>, arena_memory>;
template <class K>
using multiset_of = tenure::multiset<K, tenure::less<K>, arena_memory>;
template <class K, class V>
using index_of = tenure::ordered_index<K, V, tenure::less<K>, arena_memory>;
template <class K, class V, class H = tenure::hash<K>>
using hash_map_of = tenure::hash_map<K, V, H, tenure::equal_to<K>, arena_memory>;
template <class K, class H = tenure::hash<K>>
using hash_set_of = tenure::hash_set<K, H, tenure::equal_to<K>, arena_memory>;

TEST(announced, maps) {
  test_associative<map_of<int, int>>("map of int to int", 1000);
  test_associative<map_of<text, vector_of<text>>>("map of text to vectors", 400);
  test_associative<map_of<int*, sturdy>>("map of pointers to sturdy", 400);
  test_associative<map_of<std::pair<int, text>, text>>("map of pairs to text", 400);
  test_associative<map_of<heavy, heavy>>("map of heavy", 150);
  expect_reached("map of int to int", {"insert_or_assign", "[]", "erase_if"});
  expect_reached("map of text to vectors", {"insert_or_assign", "[]", "erase_if"});
  expect_reached("map of pairs to text", {"insert_or_assign"});
  expect_reached("map of heavy", {"insert_or_assign", "thrown", "inner split", "inner merged"});
}

TEST(announced, multimaps) {
  test_associative<multimap_of<int, text>>("multimap of int to text", 60);
  test_associative<multimap_of<int*, int>>("multimap of pointers to int", 100);
  test_associative<multimap_of<heavy, int*>>("multimap of heavy", 50);
  expect_reached("multimap of int to text", {"erase_one", "erase_if"});
  expect_reached("multimap of heavy", {"erase_one", "thrown", "inner split", "inner merged"});
}

TEST(announced, sets) {
  test_associative<set_of<text>>("set of text", 600);
  test_associative<set_of<heavy>>("set of heavy", 300);
  test_associative<multiset_of<std::pair<int, int*>>>("multiset of pairs", 200);
  test_associative<multiset_of<heavy>>("multiset of heavy", 100);
  expect_reached("set of text", {"insert hinted", "erase_if"});
  expect_reached("set of heavy", {"insert hinted", "thrown", "inner split", "inner merged"});
  expect_reached("multiset of heavy", {"insert hinted", "thrown", "inner split", "inner merged"});
}

TEST(announced, ordered_indexes) {
  test_associative<index_of<int, int*>>("index of int", 400);
  test_associative<index_of<text, text>>("index of text", 400);
  test_associative<index_of<heavy, int>>("index of heavy", 200);
  expect_reached("index of heavy", {"thrown", "inner split", "inner merged"});
}

TEST(announced, hash_maps) {
  test_associative<hash_map_of<int, int>>("hash_map of int", 400);
  test_associative<hash_map_of<text, vector_of<int>>>("hash_map of text", 400);
  test_associative<hash_map_of<int*, sturdy>>("hash_map of pointers", 300);
  test_associative<hash_map_of<heavy, text, heavy_hash>>("hash_map of heavy", 150);
  expect_reached("hash_map of int", {"insert_or_assign", "[]", "erase_if"});
  expect_reached("hash_map of heavy", {"insert_or_assign", "thrown"});
}

TEST(announced, hash_sets) {
  test_associative<hash_set_of<int>>("hash_set of int", 400);
  test_associative<hash_set_of<text>>("hash_set of text", 400);
  test_associative<hash_set_of<heavy, heavy_hash>>("hash_set of heavy", 150);
  expect_reached("hash_set of text", {"erase_if"});
  expect_reached("hash_set of heavy", {"thrown"});
}

}  // namespace announced_test
