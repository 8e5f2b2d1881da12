// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random graphs in a store on a disk that loses power at every operation. What is found afterwards must be exactly one
// committed graph, not older than the last one that was acknowledged as durable, and the verifier must find nothing.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap_models/drawn_options.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace crash_test_types {

struct node {
  std::uint64_t id;
  node* edges[3];
  tenure::string name;
  tenure::vector<node*> more;
  transient<std::uint64_t> scratch;
  char ballast[200];
};
struct graph {
  std::uint64_t commits;
  tenure::vector<node*> entries;
  char* blob;
  std::uint64_t blob_size;
};
struct blob {
  char bytes[40000];
};
struct far_graph {
  node* home;
  blob* large;
};

}  // namespace crash_test_types
using namespace crash_test_types;

namespace {

// All that can be reached, in words that do not depend on addresses.
std::vector<std::uint64_t> snapshot(const graph& g, const far_graph* far) {
  std::vector<std::uint64_t> out{g.commits, g.entries.size()};
  std::map<const node*, std::uint64_t> number;
  std::vector<const node*> order;
  const auto see = [&](const node* n) {
    if (n == nullptr) return out.push_back(0);
    const auto [at, is_new] = number.emplace(n, number.size() + 1);
    if (is_new) order.push_back(n);
    out.push_back(at->second);
  };
  for (const node* n : g.entries) see(n);
  if (far != nullptr) {
    see(far->home);
    out.push_back(far->large == nullptr ? 0 : static_cast<unsigned char>(far->large->bytes[17]) + 1);
    if (far->large != nullptr) {
      EXPECT_TRUE(std::ranges::all_of(far->large->bytes, [&](char c) { return c == far->large->bytes[0]; }));
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const node& n = *order[i];
    out.push_back(n.id);
    for (const node* e : n.edges) see(e);
    out.push_back(n.name.size());
    for (const char c : n.name) out.push_back(static_cast<unsigned char>(c));
    out.push_back(n.more.size());
    for (const node* e : n.more) see(e);
    for (const char c : n.ballast) EXPECT_EQ(c, static_cast<char>(n.id));
  }
  return out;
}

class graph_workload {
 public:
  enum class kind { plain, with_inner, copying };
  explicit graph_workload(std::uint64_t seed, kind what = kind::plain)
      : seed_(seed), with_inner_(what == kind::with_inner) {
    if (what == kind::copying) {
      how_.collection.roots = program_roots::handles;
      how_.stabilize = stabilization::copying;
    }
    how_.create.reservation = std::uint64_t{1} << 28;
    how_.create.home = next_home(how_.create.reservation);
    far_home_ = next_home(how_.create.reservation);
    how_.memory.log.size = 256 << 10;
    how_.memory.log.max_size = 64 << 20;
    how_.memory.background = false;
    how_.tune.headed = seed % 4 == 2;
    how_.tune.typed_from = seed % 4 == 2 ? 256 : how_.tune.typed_from;
    use_barriers(how_, seed);
    history_[0] = {0, 0, 0, 0};
  }

  // `verified`: after every step, which is slow.
  void run(sim::disk& disk, int steps, bool verified = false) {
    how_.memory.disk = &disk;
    store s("/store", how_);
    database far = s.find_database("far") ? *s.find_database("far")
                                          : s.create_database("far", {.reservation = 1 << 28, .home = far_home_});
    graph& g = s.root<graph>("graph");
    far_graph& f = far.root<far_graph>("far");
    note(g, &f, true);
    std::mt19937_64 random(seed_ + history_.size());
    for (int i = 0; i < steps; ++i) {
      step(s, far, g, f, random);
      expect_invariants(s);
      if (verified) expect_sound(s);
    }
    copied_ = s.stats().objects_copied;
    if (random() % 2 == 0) s.close();
  }

  // By the commits of the last run.
  [[nodiscard]] std::uint64_t copied() const { return copied_; }

  void expect_a_committed_state(sim::disk& disk) {
    how_.memory.disk = &disk;
    store s("/store", how_);
    const auto wrong = s.verify();
    for (const auto& w : wrong) ADD_FAILURE() << w;
    const graph* const g = s.find_root<graph>("graph");
    const auto far = s.find_database("far");
    if (g == nullptr || !far || far->find_root<far_graph>("far") == nullptr) {
      EXPECT_EQ(acknowledged_, 0u) << "everything is gone";
      return;
    }
    const auto found = snapshot(*g, far->find_root<far_graph>("far"));
    const auto at = history_.find(g->commits);
    ASSERT_NE(at, history_.end()) << "commit " << g->commits << " was never made";
    EXPECT_EQ(found, at->second) << "after commit " << g->commits;
    EXPECT_GE(g->commits, acknowledged_);
    s.close();
  }

 private:
  void note(const graph& g, const far_graph* f, bool durable) {
    history_[g.commits] = snapshot(g, f);
    if (durable) acknowledged_ = g.commits;
  }

  static void fill(node& n, std::uint64_t id, std::mt19937_64& random) {
    n.id = id;
    std::ranges::fill(n.ballast, static_cast<char>(id));
    n.name.assign(random() % 60, static_cast<char>('a' + id % 26));
    n.scratch = id;
  }

  void step(store& s, database& far, graph& g, far_graph& f, std::mt19937_64& random) {
    if (random() % 8 == 0) s.trim();
    transaction tx = s.begin();
    if (with_inner_) {
      change(s, far, g, f, random);
      for (auto n = random() % 3; n != 0; --n) inner(s, far, g, f, random, 0);
    }
    change(s, far, g, f, random);
    if (random() % 6 == 0) return tx.abort();
    const std::uint64_t before = g.commits;
    g.commits = ++commits_;
    history_[g.commits] = snapshot(g, &f);
    const bool durable = random() % 2 == 0;
    (void)before;
    tx.commit(durable ? commit_mode::durable : commit_mode::lazy);
    if (durable) acknowledged_ = g.commits;
  }

  // In a state of its own for each that is open.
  void inner(store& s, database& far, graph& g, far_graph& f, std::mt19937_64& random, int depth) {
    const auto before = snapshot(g, &f);
    transaction tx = s.begin();
    change(s, far, g, f, random);
    for (auto n = depth < 3 ? random() % 3 : 0; n != 0; --n) inner(s, far, g, f, random, depth + 1);
    if (random() % 2 == 0) {
      tx.commit();
      return;
    }
    tx.abort();
    EXPECT_EQ(snapshot(g, &f), before);
  }

  void change(store& s, database& far, graph& g, far_graph& f, std::mt19937_64& random) {
    const auto any = [&]() -> node* { return g.entries.empty() ? nullptr : g.entries[random() % g.entries.size()]; };
    for (auto n = random() % 6; n != 0; --n) {
      node* const made = random() % 4 == 0 ? far.make<node>() : s.make<node>();
      fill(*made, ++ids_, random);
      made->edges[random() % 3] = any();
      switch (random() % 4) {
        case 0: g.entries.push_back(made); break;
        case 1:
          if (node* const to = any()) to->edges[random() % 3] = made;
          break;
        case 2:
          if (node* const to = any()) to->more.push_back(made);
          break;
        default: break;  // garbage
      }
    }
    if (node* const to = any(); to != nullptr && random() % 3 == 0) {
      to->name += "more";
      to->scratch = random();
    }
    if (random() % 5 == 0) f.home = any();
    if (random() % 6 == 0) {
      if (f.large != nullptr) s.destroy(f.large);
      f.large = nullptr;
      if (random() % 3 != 0) {
        f.large = (random() % 2 == 0 ? far.make<blob>() : s.make<blob>());
        std::ranges::fill(f.large->bytes, static_cast<char>(++ids_));
      }
    }
    if (!g.entries.empty() && random() % 8 == 0)
      g.entries.erase(g.entries.begin() + static_cast<long>(random() % g.entries.size()));
  }

  std::uint64_t seed_, far_home_ = 0;
  const bool with_inner_;
  store_options how_;
  std::uint64_t ids_ = 0, commits_ = 0, acknowledged_ = 0, copied_ = 0;
  std::map<std::uint64_t, std::vector<std::uint64_t>> history_;
};

void crash_everywhere(std::uint64_t seed, int steps, std::uint64_t distance,
                      graph_workload::kind what_runs = graph_workload::kind::plain) {
  distance = rvm::testing::scaled_stride(distance);
  std::uint64_t operations = 0;
  {
    sim::disk whole;
    graph_workload work(seed, what_runs);
    work.run(whole, steps, true);
    EXPECT_EQ(work.copied() > 0, what_runs == graph_workload::kind::copying);
    operations = whole.operations();
  }
  ASSERT_GT(operations, 20u);
  for (std::uint64_t at = 1 + seed % distance; at <= operations; at += distance) {
    sim::disk disk;
    disk.crash_at(at);
    graph_workload work(seed, what_runs);
    try {
      work.run(disk, steps);
    } catch (const sim::power_failure&) {
    }
    for (std::uint64_t k = 0; k < 3; ++k) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", crash at operation " + std::to_string(at) + ", " +
                   std::to_string(k));
      const auto what = k == 0 ? sim::policy::drop_all : k == 1 ? sim::policy::keep_all : sim::policy::random;
      const auto left = disk.crash(seed + k, what);
      try {
        work.expect_a_committed_state(*left);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace

TEST(store_crash, at_every_operation) { crash_everywhere(1, 40, 3); }

// [heap.inner.outermost]
TEST(store_crash, with_inner_transactions) { crash_everywhere(5, 25, 3, graph_workload::kind::with_inner); }

// [heap.copying]
TEST(store_crash, with_objects_that_are_copied) { crash_everywhere(9, 40, 7, graph_workload::kind::copying); }

// [heap.zone.headed]
TEST(headed_zones, hold_at_every_operation) { crash_everywhere(2, 40, 5); }

TEST(store_crash, with_other_seeds) {
  const auto seeds = static_cast<std::uint64_t>(3 * rvm::testing::test_scale());
  for (std::uint64_t seed = 100; seed < 100 + seeds; ++seed) crash_everywhere(seed, 60, 17);
}

TEST(store_crash, after_a_crash_work_goes_on) {
  graph_workload work(7);
  auto disk = std::make_unique<sim::disk>();
  for (std::uint64_t round = 1; round <= 12; ++round) {
    disk->crash_at(20 + 13 * round);
    try {
      work.run(*disk, 30, true);
    } catch (const sim::power_failure&) {
    }
    disk = disk->crash(round);
    work.expect_a_committed_state(*disk);
    if (HasFailure()) return;
  }
}
