// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store that is collected while it is open, with garbage that can be recognized.
#pragma once

#include <alloca.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/sanitizers.hpp"
#include "support/test_store.hpp"

namespace collector_test_types {

struct kept_node {
  std::uint64_t id;
  kept_node* next;
  tenure::transient<kept_node*> scratch;
  std::uint64_t pad[3];
};
struct kept_list {
  tenure::vector<kept_node*> all;
  kept_node* first;
};
struct kept_buffer {
  char bytes[100'000];
};

}  // namespace collector_test_types

namespace tenure::support {

using namespace collector_test_types;

// What is hidden here keeps nothing.
inline std::uintptr_t hidden(const void* p) { return ~reinterpret_cast<std::uintptr_t>(p); }
template <class T = kept_node>
T* shown(std::uintptr_t of) {
  return reinterpret_cast<T*>(~of);
}

// Overwrites what calls have left on the stack.
[[gnu::noinline]] inline void clear_stack() {
  void* const area = alloca(64 << 10);
  std::memset(area, 0, 64 << 10);
  asm volatile("" : : "r"(area) : "memory");
}

class collecting_an_open_store : public reopened_store {
 protected:
  // Persistent objects to which nothing leads; returns one, as hidden() has it. What calls have left in registers and memory
  // may keep some, so there are many.
  [[gnu::noinline]] std::uintptr_t make_garbage(std::uint64_t id) {
    kept_list& l = s().root<kept_list>("list");
    s().transact([&] {
      for (std::size_t n = 0; n < objects; ++n) {
        l.all.push_back(s().make<kept_node>());
        l.all.back()->id = id;
        l.all.back()->next = s().make<kept_node>();
      }
    });
    garbage.clear();
    for (const kept_node* each : l.all) garbage.push_back(hidden(each));
    s().transact([&] { l.all.clear(); });
    s().transact([&] { l.first = nullptr; });
    clear_stack();
    return garbage[objects / 2];
  }
  [[nodiscard]] std::size_t left() {
    return static_cast<std::size_t>(std::ranges::count_if(garbage, [&](std::uintptr_t g) { return is_there(g); }));
  }
  [[nodiscard]] bool is_there(std::uintptr_t garbage) { return s().is_persistent(shown(garbage)); }
  collect_report collect() {
    clear_stack();
    const collect_report report = s().collect();
    expect_sound(s());
    return report;
  }
  // The program keeps the object as `f(object, collect)` does, which calls collect() meanwhile.
  template <class F>
  void expect_kept(F&& f) {
    const std::uintptr_t it = make_garbage(77);
    f(it, [&] { collect(); });
    ASSERT_TRUE(is_there(it));
    EXPECT_LT(left(), objects / 2);
    EXPECT_EQ(shown(it)->id, 77U);
    ASSERT_NE(shown(it)->next, nullptr);
    EXPECT_TRUE(s().is_persistent(shown(it)->next));
  }

  static constexpr std::size_t objects = 60;
  std::vector<std::uintptr_t> garbage;  // hidden
};

// ThreadSanitizer has a thread of its own, which blocks all signals, and so cannot be stopped.
class ambiguous_roots : public collecting_an_open_store {
 protected:
  void SetUp() override {
    if (thread_sanitizer) GTEST_SKIP() << "not under ThreadSanitizer";
  }
};

}  // namespace tenure::support
