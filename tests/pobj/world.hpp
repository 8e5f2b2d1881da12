// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A random program, and a model of it: what its objects and their images must be after every call, and what the next
// execution must find.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <tenure/pobj.h>

namespace tenure::pobj {

struct thing {
  std::uint64_t id, content;
  thing* to[3];
  std::uint64_t scratch;  // transient in those of a defined type
  unsigned char more[8];  // as many as the object's size leaves
};

class world {
 public:
  explicit world(std::uint64_t seed) : random_(seed) {}

  // In an open store, which it compares with what it knows; false as soon as a call fails, which is a failure of the test
  // unless it is expected. `judge` false: does not look at the store after each step.
  [[nodiscard]] bool run(int steps, bool judge);
  // Before pobj_init: the program's variables are as in a new process.
  static void begin_process();
  // After pobj_init: compares what has been found with one of the committed states, at least as new as the last one that
  // was acknowledged, and goes on from there.
  void expect_found();
  [[nodiscard]] std::uint64_t commits() const { return state_.commits; }

 private:
  struct reference {
    int id = 0, incarnation = 0, offset = 0;
    friend bool operator==(const reference&, const reference&) = default;
  };
  struct bytes {
    std::uint64_t content = 0;
    reference to[3];
    std::uint64_t scratch = 0;
    unsigned char fill = 0;
    friend bool operator==(const bytes&, const bytes&) = default;
  };
  struct entry {
    thing* at = nullptr;
    std::size_t size = 0;
    bool persistent = false, defined = false;
    int incarnation = 0;  // how often it has become persistent
    bytes memory, image;
  };
  struct state {
    std::map<int, entry> all;
    reference roots[6];  // the static variable, in memory and image
    std::uint64_t commits = 0;
  };
  using snapshot = std::vector<std::uint64_t>;

  [[nodiscard]] snapshot of_model() const;
  [[nodiscard]] static snapshot of_memory();
  void step();
  void change();
  void make();
  void touch(int id);
  void update(int id, std::set<int>* updated);
  void update_recursively(int id, bool persist);
  void free_one();
  void store_roots();
  void expect_memory() const;
  void need(int code);
  [[nodiscard]] int any();
  [[nodiscard]] reference reference_to(int id, int offset) const;
  [[nodiscard]] bool holds(const reference& r) const;
  [[nodiscard]] const entry* target(const reference& r) const;
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }

  std::mt19937_64 random_;
  state state_;
  std::set<int> updated_;  // in the open transaction
  std::set<int> made_;
  std::map<std::uint64_t, state> history_;
  std::uint64_t acknowledged_ = 0;
  int ids_ = 0;
  bool failed_ = false;
};

}  // namespace tenure::pobj
