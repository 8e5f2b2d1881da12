// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A random program whose store has a graph in two databases, and every state of it that was committed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap_models/drawn_options.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

namespace crash_test_types {

struct node {
  std::uint64_t id;
  node* edges[3];
  tenure::string name;
  tenure::vector<node*> more;
  tenure::transient<std::uint64_t> scratch;
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

namespace tenure::support {

using namespace crash_test_types;

// All that can be reached, in words that do not depend on addresses.
inline std::vector<std::uint64_t> snapshot(const graph& g, const far_graph* far) {
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
    struct closing {
      graph_workload& of;
      ~closing() { of.store_.reset(); }
    } at_the_end{*this};
    open(disk);
    for (int i = 0; i < steps; ++i) {
      step();
      if (verified) expect_sound(*store_);
    }
    copied_ = store_->stats().objects_copied;
    if (random_() % 2 == 0) store_->close();
  }

  // The parts of run(), for programs that something else is done in between.
  void open(sim::disk& disk) {
    how_.memory.disk = &disk;
    store_.emplace("/store", how_);
    far_ = store_->find_database("far");
    if (!far_) far_ = store_->create_database("far", {.reservation = 1 << 28, .home = far_home_});
    graph_ = &store_->root<graph>("graph");
    far_graph_ = &far_->root<far_graph>("far");
    note(*graph_, far_graph_, true);
    random_.seed(seed_ + history_.size());
  }
  void step() {
    step(*store_, *far_, *graph_, *far_graph_, random_);
    expect_invariants(*store_);
  }
  [[nodiscard]] store& opened() { return *store_; }
  void close() { store_.reset(); }
  [[nodiscard]] store_options& options() { return how_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }
  [[nodiscard]] std::uint64_t acknowledged() const { return acknowledged_; }

  // By the commits of the last run.
  [[nodiscard]] std::uint64_t copied() const { return copied_; }

  void expect_a_committed_state(sim::disk& disk) {
    const std::optional<std::uint64_t> found = commit_in(disk, "/store");
    if (!found) {
      EXPECT_EQ(acknowledged_, 0u) << "everything is gone";
      return;
    }
    EXPECT_GE(*found, acknowledged_);
  }
  // The commit after which a store is as it is there; {}: it has no graph. While this program's store is closed.
  std::optional<std::uint64_t> commit_in(sim::disk& disk, const std::string& directory) {
    store_options how = how_;
    how.memory.disk = &disk;
    how.memory.archive.reset();
    how.mode = directory == "/store" ? rvm::open_mode::open_or_create : rvm::open_mode::open;
    store s(directory, how);
    const auto wrong = s.verify();
    for (const auto& w : wrong) ADD_FAILURE() << w;
    const graph* const g = s.find_root<graph>("graph");
    const auto far = s.find_database("far");
    if (g == nullptr || !far || far->find_root<far_graph>("far") == nullptr) return {};
    const auto found = snapshot(*g, far->find_root<far_graph>("far"));
    const std::uint64_t commit = g->commits;
    s.close();
    const auto at = history_.find(commit);
    if (at == history_.end())
      ADD_FAILURE() << "commit " << commit << " was never made";
    else
      EXPECT_EQ(found, at->second) << "after commit " << commit;
    return commit;
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
    g.commits = ++commits_;
    history_[g.commits] = snapshot(g, &f);
    const bool durable = random() % 2 == 0;
    tx.label(std::to_string(g.commits));
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
  std::mt19937_64 random_;
  std::optional<store> store_;
  std::optional<database> far_;
  graph* graph_ = nullptr;
  far_graph* far_graph_ = nullptr;
};

}  // namespace tenure::support
