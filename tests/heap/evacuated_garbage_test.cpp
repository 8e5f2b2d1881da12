// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that become garbage while a collection runs, in sparse blocks among others that have nothing to move: what they refer
// to is destroyed, so they stay where they are, and the collection ends.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace evacuated_garbage {

struct leaf {
  std::array<void*, 3> to;
  std::array<std::uint64_t, 25> fill;
};
struct large_leaf {
  std::array<void*, 2> to;
  std::array<std::uint64_t, 625> fill;
};
struct holder {
  leaf* to;
  std::array<char, 100'000> bytes;
};
struct leaves {
  tenure::vector<leaf*> small;
  tenure::vector<large_leaf*> large;
};

class a_web : public reopened_store {
 protected:
  leaves& root() { return s().root<leaves>("leaves"); }
  // Mostly empty blocks of both, and pointers between what is left.
  void make(std::mt19937& random, int pointers) {
    leaves& all = root();
    s().transact([&] {
      for (int n = 0; n < 800; ++n) all.small.push_back(s().make<leaf>());
      for (int n = 0; n < 200; ++n) all.large.push_back(s().make<large_leaf>());
    });
    s().transact([&] {
      for (std::size_t n = all.small.size(); n-- > 0;)
        if (random() % 8 != 0) all.small.erase(all.small.begin() + static_cast<std::ptrdiff_t>(n));
      for (std::size_t n = all.large.size(); n-- > 0;)
        if (random() % 4 != 0) all.large.erase(all.large.begin() + static_cast<std::ptrdiff_t>(n));
    });
    s().transact([&] {
      for (int n = 0; n < pointers; ++n) {
        leaf* const small = all.small[random() % all.small.size()];
        large_leaf* const large = all.large[random() % all.large.size()];
        const bool from_small = random() % 2 != 0;
        void*& from = from_small ? small->to[random() % 3] : large->to[random() % 2];
        void* const to = random() % 2 != 0 ? static_cast<void*>(all.small[random() % all.small.size()])
                                           : static_cast<void*>(all.large[random() % all.large.size()]);
        if (from != nullptr) continue;
        from = to;
        edges.push_back({from_small ? static_cast<void*>(small) : large, to});
      }
    });
  }
  // One is destroyed, and all that leads to it becomes garbage in the same transaction.
  void destroy_one(std::mt19937& random) {
    leaves& all = root();
    s().transact([&] {
      large_leaf* const victim = all.large[random() % all.large.size()];
      std::vector<void*> gone{victim};
      for (std::size_t n = 0; n < gone.size(); ++n)
        for (const edge& e : edges)
          if (e.to == gone[n] && std::ranges::find(gone, e.from) == gone.end()) gone.push_back(e.from);
      for (void* const each : gone) {
        std::ranges::replace(all.small, static_cast<leaf*>(each), nullptr);
        std::ranges::replace(all.large, static_cast<large_leaf*>(each), nullptr);
      }
      s().destroy(victim);
    });
  }

  struct edge {
    void *from, *to;
  };
  std::vector<edge> edges;
};

TEST_F(a_web, is_left_by_a_collection_that_ends) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    edges.clear();
    opened.reset();
    path = dir / ("store" + std::to_string(seed));
    how.create.home = next_home(how.create.reservation);
    how.tune = {};
    open();
    make(random, 450);
    bool is_destroyed = false;
    std::uint64_t moves = 0;
    const auto collect = [&] {
      return s().collect({.roots = program_roots::handles,
                          .evacuation = {.enabled = true, .sparse_percent = 90},
                          .on_progress = [&](const rvm::progress& p) {
                            if (!is_destroyed) destroy_one(random);
                            is_destroyed = true;
                            if (std::string(p.phase) == "moving" && ++moves > 5000)
                              throw std::runtime_error("the collection does not end");
                          }});
    };
    for (int n = 0; n < 3; ++n) (void)collect();
    expect_sound(s());
    EXPECT_EQ(collect().garbage, 0U);
  }
}

// What was to be moved, and could not be, is not taken for moved when the program destroys it.
TEST_F(a_web, is_not_in_quarantine_where_it_could_not_be_moved) {
  how.tune.refill = 0;  // blocks that were half emptied stay so
  reopen();
  tenure::vector<leaf*>& all = root().small;
  s().transact([&] {
    for (int n = 0; n < 8000; ++n) {
      leaf* const made = s().make<leaf>();
      if (n % 8 == 0) all.push_back(made);
    }
  });
  (void)s().collect({.roots = program_roots::handles, .quarantine = quarantine::none});
  s().transact([&] {
    s().root<holder>("garbage").to = all[500];
    all[500]->to[0] = all[200];
  });
  bool is_dropped = false;
  const leaf* const beside = all[501];
  (void)s().collect({.roots = program_roots::handles,
                     .quarantine = quarantine::check,
                     .evacuation = {.enabled = true, .sparse_percent = 90},
                     .on_progress = [&](const rvm::progress& p) {
                       if (std::exchange(is_dropped, is_dropped || std::string_view(p.phase) == "looking")) return;
                       if (!is_dropped) return;
                       s().transact([&] {
                         s().remove_root("garbage");
                         s().destroy(std::exchange(all[200], nullptr));
                         all[500] = nullptr;
                       });
                     }});
  ASSERT_TRUE(is_dropped);
  ASSERT_EQ(all[501], beside) << "it has stayed with its block";
  s().transact([&] { s().destroy(std::exchange(all[501], nullptr)); });
  const collect_report next = s().collect({.roots = program_roots::handles, .quarantine = quarantine::check});
  EXPECT_EQ(next.used_after_collection, 0U);
}

}  // namespace evacuated_garbage
