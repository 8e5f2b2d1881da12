// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random walks and changes of a random graph in caches of all sizes, down to one page and to a few objects, compared with a
// model in plain memory.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cache/cached_graph.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace cache_test_types;
using tenure::cache::ref;

namespace {

struct model_node {
  std::uint64_t id = 0;
  std::size_t edges[3] = {};  // SIZE_MAX: none
  std::vector<std::size_t> more;
  std::string name;
  char filling = 0;
};
constexpr auto nowhere = static_cast<std::size_t>(-1);

class cache_model : public cached_store, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  static constexpr std::size_t nodes = 300;

  std::size_t draw(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::size_t draw_target() { return draw(5) == 0 ? nowhere : draw(nodes); }

  void make_graph() {
    model_.resize(nodes);
    for (std::size_t n = 0; n < nodes; ++n) {
      model_node& m = model_[n];
      m.id = n;
      for (auto& e : m.edges) e = draw_target();
      for (std::size_t i = draw(4); i != 0; --i) m.more.push_back(draw_target());
      m.name = std::string(draw(40), static_cast<char>('a' + n % 26));
      m.filling = static_cast<char>(n);
    }
    make([&](store& s) {
      auto& g = s.root<graph>("graph");
      s.transact([&] {
        for (std::size_t n = 0; n < nodes; ++n) g.entries.push_back(s.make<node>());
        for (std::size_t n = 0; n < nodes; ++n) {
          const model_node& m = model_[n];
          node& made = g.entries[n].change();
          made.id = m.id;
          for (std::size_t i = 0; i < 3; ++i) made.edges[i] = target(g, m.edges[i]);
          for (const std::size_t e : m.more) made.more.push_back(target(g, e));
          made.name = tenure::string(m.name);
          std::ranges::fill(made.ballast, m.filling);
        }
      });
      for (const auto& n : g.entries) identities_.emplace_back(reinterpret_cast<std::uintptr_t>(n.get()));
    });
  }
  static ref<node> target(const graph& g, std::size_t n) { return n == nowhere ? ref<node>() : g.entries[n]; }

  void expect_same(const node& found, const model_node& m) {
    EXPECT_EQ(found.id, m.id);
    EXPECT_EQ(std::string(found.name.begin(), found.name.end()), m.name);
    EXPECT_TRUE(std::ranges::all_of(found.ballast, [&](char c) { return c == m.filling; }));
    for (std::size_t i = 0; i < 3; ++i) expect_target(found.edges[i], m.edges[i]);
    ASSERT_EQ(found.more.size(), m.more.size());
    for (std::size_t i = 0; i < m.more.size(); ++i) expect_target(found.more[i], m.more[i]);
  }
  void expect_target(const ref<node>& r, std::size_t n) {
    EXPECT_EQ(r.home(), n == nowhere ? 0 : identities_[n]);
    // Whoever has it in memory agrees with whoever looks it up.
    if (r.is_swizzled()) {
      EXPECT_EQ(r->id, current()[n].id);
    }
  }
  // What the transaction sees.
  [[nodiscard]] const std::vector<model_node>& current() const { return changed_ ? *changed_ : model_; }

  ref<node> entry(std::size_t n) { return opened->root<graph>("graph")->entries[n]; }

  // Follows edges from a drawn node.
  void walk(std::size_t steps) {
    std::size_t at = draw(nodes);
    cache::identity<node> here = entry(at);
    for (std::size_t i = 0; i < steps; ++i) {
      const ref<node> r = here.get();
      expect_same(*r, current()[at]);
      const std::size_t edge = draw(3);
      at = current()[at].edges[edge];
      here = r->edges[edge];
      if (at == nowhere) {
        at = draw(nodes);
        here = entry(at);
      }
    }
  }

  void change_some() {
    for (std::size_t i = draw(6); i != 0; --i) {
      const std::size_t n = draw(nodes);
      model_node& m = (*changed_)[n];
      const ref<node> r = entry(n);
      switch (draw(5)) {
        case 0: r.change().id = m.id = random_(); break;
        case 1: {
          const std::size_t to = draw_target(), edge = draw(3);
          r.change().edges[edge] = to == nowhere ? ref<node>() : entry(to);
          m.edges[edge] = to;
          break;
        }
        case 2:
          m.filling = static_cast<char>(random_());
          std::ranges::fill(r.change().ballast, m.filling);
          break;
        case 3:
          if (!m.more.empty()) {  // an object of its own
            const std::size_t to = draw(nodes), which = draw(m.more.size());
            cache::change(r->more[which]) = entry(to);
            m.more[which] = to;
          }
          break;
        default:
          if (!m.name.empty()) {
            const std::size_t which = draw(m.name.size());
            m.name[which] = static_cast<char>('A' + draw(26));
            cache::change(r->name[which]) = m.name[which];
          }
          r.change().scratch = 7;  // is never stored
      }
    }
  }

  void read_once() {
    auto reading = opened->begin_read();
    for (std::size_t i = draw(4); i != 0; --i) {
      walk(draw(20));
      reading.release();
    }
    walk(draw(10));
  }
  void write_once() {
    auto tx = opened->begin();
    changed_ = model_;
    try {
      for (std::size_t i = 1 + draw(3); i != 0; --i) {
        change_some();
        walk(draw(10));
        if (draw(2) == 0) tx.release();
      }
      if (draw(3) == 0) {
        tx.abort();
      } else {
        tx.commit(draw(4) == 0 ? cache::commit_mode::durable : cache::commit_mode::lazy);
        model_ = *changed_;
      }
      changed_.reset();
    } catch (...) {
      changed_.reset();
      throw;
    }
  }

  std::mt19937_64 random_{GetParam()};
  std::vector<model_node> model_;
  std::optional<std::vector<model_node>> changed_;
  std::vector<std::uint64_t> identities_;
};

TEST_P(cache_model, sees_what_was_written_in_caches_of_all_sizes) {
  how.memory.background = false;
  make_graph();
  // The root's group takes some 3 KiB, a node with its name and vector some 1 KiB.
  const std::uint64_t pages[] = {1, 1, 2, 7, 64}, bytes[] = {24 << 10, 32 << 10, 60 << 10, 1 << 20};
  std::uint64_t evictions = 0, refused = 0;
  for (int round = 0; round < 3; ++round) {
    open({.pool_pages = pages[draw(5)], .object_bytes = bytes[round == 0 ? 0 : draw(4)]});
    std::vector<std::pair<cache::pin<node>, std::size_t>> pins;
    for (int step = 0; step < 60; ++step) {
      try {
        if (draw(2) == 0)
          read_once();
        else
          write_once();
        if (draw(6) == 0) {
          const auto reading = opened->begin_read();
          const std::size_t n = draw(nodes);
          pins.emplace_back(entry(n), n);
        }
      } catch (const error& e) {
        ASSERT_EQ(e.code(), errc::cache_full) << e.what();
        ++refused;
        pins.clear();
      }
      if (pins.size() > 6) pins.erase(pins.begin(), pins.begin() + 3);
      ASSERT_NO_THROW(opened->check());
      for (const auto& [pin, n] : pins) {  // whatever was evicted meanwhile
        const auto reading = opened->begin_read();
        expect_same(*pin, model_[n]);
      }
      if (HasFailure()) return;
    }
    pins.clear();
    evictions += opened->stats().evictions;
    EXPECT_LE(opened->stats().object_bytes, bytes[3]);
    close();
  }
  EXPECT_GT(evictions, 20u);
  RecordProperty("refused", static_cast<int>(refused));
  look([&](store& mapped) {
    const graph& g = mapped.root<graph>("graph");
    for (std::size_t n = 0; n < nodes; ++n) {
      expect_same(*g.entries[n], model_[n]);
      EXPECT_EQ(g.entries[n]->scratch, 0u);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(seeds, cache_model, ::testing::Range<std::uint64_t>(1, 9));

}  // namespace
