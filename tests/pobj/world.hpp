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
inline constexpr std::size_t thing_references[] = {offsetof(thing, to), offsetof(thing, to) + 8,
                                                   offsetof(thing, to) + 16, POBJ_END};

// What a random program does, with which library: drawn, so that the programs meet what no single one would.
struct configuration {
  pobj_options options = {};
  std::uint64_t bulk_bytes = 8192, small_area = 64 << 10, largest_area = 16 << 20;
  std::uint16_t first_mark = 0;
  std::uint64_t operations = ~std::uint64_t{0};  // a bit for each kind of change
  bool misuses = false;                          // calls that must fail, and what is no part of a transaction
  std::uint64_t refusals = 0;  // one step in so many is refused memory for control structures; 0: none

  // The usual one: no limits, all kinds of changes.
  [[nodiscard]] static configuration usual();
  [[nodiscard]] static configuration drawn(std::uint64_t seed);
  // Whether calls may fail for want of memory or space.
  [[nodiscard]] bool may_refuse() const { return refusals != 0 || options.max_size <= (2 << 20); }
  void set_hooks() const;
  static void reset_hooks();
};

// The program's anchors.
struct anchors {
  static thing* roots[6];
  static thing* named_places[2];
  static thing** named;  // the one of them that has the name
  static std::uint64_t commits;
  static std::uint64_t numbers[8];
  static constexpr const char* name = "world.named";
};

class world {
 public:
  world(std::uint64_t seed, const configuration& how) : how_(how), random_(seed) {}

  // In an open store, which it compares with what it knows; false as soon as a call fails, which is a failure of the test
  // unless it is expected. `judge` false: does not look at the store after each step.
  [[nodiscard]] bool run(int steps, bool judge);
  // Before pobj_init: the program's variables are as in a new process.
  void begin_process();
  // After pobj_init: compares what has been found with one of the committed states, at least as new as the last one that
  // was acknowledged, and goes on from there.
  void expect_found();
  // After pobj_close, which frees what a collector has taken.
  void closed() { history_[state_.commits] = state_; }
  [[nodiscard]] std::uint64_t commits() const { return state_.commits; }

 private:
  struct reference {
    int id = 0, incarnation = 0, offset = 0;
    bool waits =
        false;  // the target was transient when the image was written, and no commit has made it persistent since
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
    bool persistent = false, defined = false, pooled = false;
    bool flagged[3] = {true, true, true};  // the words that are references
    int incarnation = 0;                   // how often it has become persistent
    bytes memory, image;
  };
  struct state {
    std::map<int, entry> all;
    reference roots[6];                               // the static variable, in memory and image
    reference named;                                  // another one, which the program gives a name
    std::uint64_t numbers[8] = {}, numbers_size = 0;  // one that grows
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
  // Notes a call that has failed; true: it has not.
  bool need(int code);
  void abort(const state& before, bool was_refused);
  void nest();
  void nest_inner();
  // Changes, in a transaction.
  void set_field(int id);
  void set_reference(int id);
  void clear_reference(int id);
  void restore(int id);
  void retype(int id);
  void persistify(int id);
  void unpersistify(int id);
  // Calls f(reference) for each in an image.
  template <class F>
  void for_each_reference(F&& f);
  void update_part(int id);
  void store_named();
  void store_numbers();
  void misuse(int id);
  // Between transactions.
  void finalize_one();
  void forget_numbers();
  void rebind();
  void forget_in_memory(int id, bool update_some);
  [[nodiscard]] int any();
  [[nodiscard]] reference reference_to(int id, int offset) const;
  [[nodiscard]] bool holds(const reference& r) const;
  [[nodiscard]] const entry* target(const reference& r) const;
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }

  configuration how_;
  std::mt19937_64 random_;
  state state_;
  std::set<int> updated_;  // in the open transaction, or its innermost level
  std::set<int> made_;
  std::map<std::uint64_t, state> history_;
  std::uint64_t acknowledged_ = 0;
  int ids_ = 0;
  bool names_late_ = false;
  bool failed_ = false, refused_ = false, doomed_ = false;
};

}  // namespace tenure::pobj
