// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [cache.method-cache] The seam for language runtimes: a miniature language whose classes, methods and objects are in a store, run out of a cache. No
// message checks whether its receiver is in memory.
#include <cstdint>
#include <numeric>
#include <vector>

#include "cache/cached_graph.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace method_cache_types {

enum class operation : std::uint8_t { answer_field, send, add, answer };
struct instruction {
  operation what;
  std::uint8_t field;     // of the receiver: to which a message is sent, or which is answered
  std::uint16_t literal;  // the selector that is sent
};
struct symbol {
  std::uint64_t number;
};
struct method {
  symbol* selector;
  symbol* literals[2];  // plain pointers: co-resident
  tenure::vector<instruction> code;
};
struct behaviour {
  ref<behaviour> super;                 // a lookup that ascends checks it
  tenure::vector<ref<method>> methods;  // and these
};
struct object {
  behaviour* of;
  ref<object> fields[2];
  std::int64_t value;
};
struct image {
  tenure::vector<ref<object>> objects;
  ref<symbol> sum, value;
};

}  // namespace method_cache_types
using namespace method_cache_types;

namespace {

template <std::size_t Entries>
class interpreter {
 public:
  [[nodiscard]] std::int64_t send(const ref<object>& receiver, const symbol* selector) {
    const method& found = methods.find(receiver, selector, look_up);
    std::int64_t result = 0;
    for (const instruction& each : found.code) switch (each.what) {
        case operation::answer_field: return receiver->value;
        case operation::send:
          if (receiver->fields[each.field]) result += send(receiver->fields[each.field], found.literals[each.literal]);
          break;
        case operation::add: result += receiver->value; break;
        case operation::answer: return result;
      }
    return result;
  }
  cache::method_cache<&object::of, const symbol*, method, Entries> methods;

 private:
  static const method& look_up(const behaviour& of, const symbol* selector) {
    for (const behaviour* at = &of;; at = at->super.get()) {
      for (const ref<method>& each : at->methods)
        if (each->selector == selector) return *each;
      if (!at->super) throw std::logic_error("does not understand");
    }
  }
};

class method_caches : public cached_store {
 protected:
  static constexpr std::uint64_t objects = 300;
  // Leaves answer twice their value; others the sum of their two fields and their own. A tree, in which parents come first.
  void make_image() {
    make([](store& s) {
      s.transact([&] {
        auto& all = s.root<image>("image");
        symbol* const sum = s.make<symbol>();
        symbol* const value = s.make<symbol>();
        all.sum = sum;
        all.value = value;
        auto* const base = s.make<behaviour>();
        auto* const answering = s.make<method>();
        answering->selector = value;
        answering->code.push_back({operation::answer_field, 0, 0});
        base->methods.push_back(answering);
        auto* const leaf = s.make<behaviour>();
        leaf->super = base;
        auto* const leaf_sum = s.make<method>();
        leaf_sum->selector = sum;
        leaf_sum->code = {{operation::add, 0, 0}, {operation::add, 0, 0}, {operation::answer, 0, 0}};
        leaf->methods.push_back(leaf_sum);
        auto* const inner = s.make<behaviour>();
        inner->super = base;
        auto* const inner_sum = s.make<method>();
        inner_sum->selector = inner_sum->literals[0] = sum;
        inner_sum->code = {
            {operation::send, 0, 0}, {operation::send, 1, 0}, {operation::add, 0, 0}, {operation::answer, 0, 0}};
        inner->methods.push_back(inner_sum);
        std::vector<object*> made;
        for (std::uint64_t n = 0; n < objects; ++n) {
          auto* const one = s.make<object>();
          one->value = value_of(n);
          one->of = is_leaf(n) ? leaf : inner;
          made.push_back(one);
          all.objects.push_back(one);
          if (n != 0) made[(n - 1) / 2]->fields[(n - 1) % 2] = one;
        }
      });
    });
  }
  static std::int64_t value_of(std::uint64_t n) { return static_cast<std::int64_t>(n * n % 97); }
  static bool is_leaf(std::uint64_t n) { return 2 * n + 1 >= objects; }
  static std::int64_t expected() {
    std::int64_t sum = 0;
    for (std::uint64_t n = 0; n < objects; ++n) sum += (is_leaf(n) ? 2 : 1) * value_of(n);
    return sum;
  }
};

TEST_F(method_caches, take_the_place_of_residency_checks) {
  make_image();
  auto& s = open();
  interpreter<64> language;
  s.read([&] {
    const auto all = s.root<image>("image");
    const ref<object> root = all->objects[0];
    EXPECT_EQ(language.send(root, all->sum.get()), expected());
    EXPECT_EQ(language.methods.faults(), objects);
    EXPECT_EQ(language.methods.lookups(), 2U);  // by class
    // Now all are at addresses, and nothing is looked up or faulted any more.
    EXPECT_EQ(language.send(root, all->sum.get()), expected());
    EXPECT_EQ(language.methods.faults(), objects);
    EXPECT_EQ(language.methods.lookups(), 2U);
    EXPECT_EQ(language.send(all->objects[7], all->value.get()), 49);  // inherited
    EXPECT_EQ(language.methods.lookups(), 3U);
  });
}

// All classes and selectors in one entry.
TEST_F(method_caches, find_the_right_one_of_one_entry) {
  make_image();
  auto& s = open();
  interpreter<1> language;
  s.read([&] {
    const auto all = s.root<image>("image");
    for (int times = 0; times < 2; ++times)  // the second time without a fault
      EXPECT_EQ(language.send(all->objects[0], all->sum.get()), expected());
    for (std::uint64_t n = 0; n < objects; ++n) {
      const std::uint64_t leaf = objects - 1 - n % 2;
      EXPECT_EQ(language.send(all->objects[leaf], all->sum.get()), 2 * value_of(leaf));
      EXPECT_EQ(language.send(all->objects[n], all->value.get()), value_of(n));
    }
    EXPECT_GT(language.methods.lookups(), objects / 2);
  });
}

// Hashes of small numbers are these numbers.
TEST_F(method_caches, give_selectors_that_are_numbers_entries_of_their_own) {
  make_image();
  auto& s = open();
  cache::method_cache<&object::of, int, int> methods;
  std::vector<int> found(100);
  std::iota(found.begin(), found.end(), 0);
  s.read([&] {
    const auto all = s.root<image>("image");
    for (int times = 0; times < 10; ++times)
      for (int n = 0; n < 100; ++n)
        ASSERT_EQ(methods.find(all->objects[static_cast<std::uint64_t>(n) % 2 * (objects - 1)], n,
                               [&](const behaviour&, int selector) -> const int& {
                                 return found[static_cast<std::size_t>(selector)];
                               }),
                  n);
  });
  EXPECT_LT(methods.lookups(), 300U);
}

TEST_F(method_caches, run_in_less_memory_than_the_image) {
  make_image();
  auto& s = open({.pool_pages = 1, .object_bytes = 40'000});
  interpreter<64> language;
  for (std::uint64_t n = 0; n < objects; n += 5) {
    language.methods.clear();
    s.read([&] {
      const auto all = s.root<image>("image");
      EXPECT_EQ(language.send(all->objects[n], all->value.get()), value_of(n));
    });
  }
  s.check();
}

TEST_F(method_caches, run_beside_others_with_object_locks) {
  make_image();
  auto& s = open({.transactions = cache::concurrency::object_locks});
  s.read([&] {
    interpreter<64> language;
    const auto all = s.root<image>("image");
    EXPECT_EQ(language.send(all->objects[0], all->sum.get()), expected());
    EXPECT_EQ(language.send(all->objects[0], all->sum.get()), expected());
    EXPECT_EQ(language.methods.lookups(), 2U);
  });
}

TEST_F(method_caches, refuse_receivers_without_a_class) {
  make_image();
  auto& s = open();
  interpreter<64> language;
  s.transact([&] {
    const auto all = s.root<image>("image");
    expect_error(errc::bad_option, {"null reference"}, [&] { (void)language.send({}, all->sum.get()); });
    const auto made = s.make<object>();
    expect_error(errc::bad_option, {"no class"}, [&] { (void)language.send(made, all->sum.get()); });
    EXPECT_THROW((void)language.send(all->objects[0], nullptr), std::logic_error);
    s.destroy(made);
  });
}

}  // namespace
