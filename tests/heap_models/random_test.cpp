// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random programs: graphs with containers of both libraries, in several databases, against a model in ordinary memory. After
// every operation the verifier must find nothing; after every transaction the graph must be the model's.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

#include "heap_models/drawn_options.hpp"
#include "heap_models/random_graph.hpp"
#include "heap_models/random_model.hpp"
#include "sim/disk.hpp"
#include "support/mechanisms.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace random_test_types;

namespace {

using rvm::testing::random_source;
using rvm::testing::scaled;

class random_program {
 public:
  // `inner_every`: how often a step is an inner transaction; 0: never.
  random_program(std::uint64_t seed, rvm::tracking_mechanism mechanism, std::uint64_t inner_every = 0)
      : inner_every_(inner_every),
        random_(seed),
        how_(drawn_options(random_, disk_, limits_)),
        operations_(random_.next() | random_.next()) {
    how_.mechanism = mechanism;
    verified_every_ = one_of<std::uint64_t>(random_, {1, 8, 64});
    most_steps_ = one_of<std::uint64_t>(random_, {4, 10, 60});
    reopened_every_ = one_of<std::uint64_t>(random_, {4, 12, 40});
    numbers_ = one_of<std::uint64_t>(random_, {5000, 50000, 50000, (9 << 20) / 8});
    if (random_.one_in(4)) {
      how_.stabilize = stabilization::copying;
      how_.collection.roots = program_roots::handles;
      how_.collection.quarantine = one_of(random_, {quarantine::none, quarantine::hold, quarantine::check});
    }
    open();
  }
  [[nodiscard]] std::string configuration() const {
    return text_of(how_) + ", operations " + std::to_string(operations_);
  }

  void run(std::uint64_t transactions) {
    for (std::uint64_t n = 0; n < transactions && !::testing::Test::HasFailure(); ++n) {
      SCOPED_TRACE("transaction " + std::to_string(n));
      between();
      run_transaction();
    }
    reopen();
  }

  [[nodiscard]] std::uint64_t trimmed() const { return trimmed_; }
  // Objects that were garbage, and transactions that were beside their collections.
  [[nodiscard]] std::uint64_t collected() const { return collected_; }
  [[nodiscard]] std::uint64_t beside() const { return beside_; }
  // Inner transactions that were aborted, and how deep they were.
  [[nodiscard]] std::uint64_t inner_aborts() const { return inner_aborts_; }
  [[nodiscard]] std::uint64_t deepest() const { return deepest_; }

 private:
  void run_transaction() {
    transaction tx = store_->begin();
    std::uint64_t steps = 1 + random_.below(most_steps_);
    before_ = model_;
    floating_before_ = floating_.size();
    take_steps(steps, steps);
    end(tx);
    compare();
  }
  // At most `most` of those that are left.
  void take_steps(std::uint64_t most, std::uint64_t& left) {
    while (most-- != 0 && left != 0 && !::testing::Test::HasFailure()) {
      --left;
      if (inner_every_ != 0 && levels_.size() < 6 && random_.one_in(inner_every_))
        run_inner(left);
      else
        step();
      expect_invariants(*store_);
      if (random_.one_in(verified_every_)) expect_sound(*store_);
    }
  }

  // A state of the model for each that is open.
  void run_inner(std::uint64_t& left) {
    transaction tx = store_->begin();
    levels_.push_back({model_, floating_.size()});
    deepest_ = std::max<std::uint64_t>(deepest_, levels_.size());
    take_steps(random_.below(12), left);
    const level ended = std::move(levels_.back());
    levels_.pop_back();
    if (random_.one_in(2)) {
      tx.commit();
    } else {
      if (random_.one_in(2)) tx.abort();
      tx = {};
      model_ = ended.before;
      floating_.resize(std::min(floating_.size(), ended.floating));
      ++inner_aborts_;
    }
    if (random_.one_in(4)) compare(found_at::any_time);
  }

  // --- Outside of transactions ---

  // The transactions are the collector's thread's, between its steps. The disk, in memory of the program, has all pointers, too.
  void collect() {
    const std::uint64_t every = one_of<std::uint64_t>(random_, {4, 40, 400});
    std::uint64_t left = random_.below(6);
    const collect_report report = store_->collect({.dry_run = random_.one_in(8),
                                                   .roots = program_roots::handles,
                                                   .objects_at_once = 1 + random_.below(200),
                                                   .markers = one_of<std::uint32_t>(random_, {1, 1, 2, 3}),
                                                   .evacuation = {.enabled = random_.one_in(3), .sparse_percent = 90},
                                                   .on_progress = [&](const rvm::progress&) {
                                                     if (left == 0 || !random_.one_in(every)) return;
                                                     --left;
                                                     run_transaction();
                                                     ++beside_;
                                                   }});
    collected_ += report.garbage + report.transient_garbage;
    compare();
  }
  void open() {
    store_ = std::make_unique<store>("/store", how_);
    graph_ = &store_->root<graph>("graph");
  }
  void reopen() {
    floating_.clear();
    if (random_.one_in(2)) store_->close();
    store_.reset();
    open();
    compare();
  }
  void between() {
    if (random_.one_in(reopened_every_)) return reopen();
    switch (random_.below(12)) {
      case 1:
        if (store_->databases().size() < 4)
          (void)store_->create_database("more_" + std::to_string(store_->databases().size()),
                                        {.reservation = 1 << 28, .home = next_home(1 << 28)});
        break;
      case 2: store_->read([&] { compare(); }); break;
      case 3: (void)make_node(false); break;
      case 4: trimmed_ += store_->trim(); break;
      case 5: collect(); break;
      default: break;
    }
  }
  void end(transaction& tx) {
    const auto mode = random_.one_in(2) ? commit_mode::durable : commit_mode::lazy;
    switch (random_.below(8)) {
      case 0: {
        tx.abort();
        model_ = before_;
        floating_.resize(std::min(floating_.size(), floating_before_));
        return;
      }
      case 1: {
        tx.checkpoint(mode);
        before_ = model_;
        expect_sound(*store_);
        step();
        tx.abort();
        model_ = before_;
        floating_.clear();  // some may have been made since
        return;
      }
      case 2: {
        tx.chain(mode);
        compare();
        step();
        break;
      }
      case 3:
        if (!graph_->all.empty()) {  // what cannot persist is refused, and nothing is lost
          node local{};
          node& at = *any();
          node* const was = std::exchange(at.edges[0], &local);
          EXPECT_THROW(tx.commit(), error);
          at.edges[0] = was;
          expect_sound(*store_);
        }
        break;
      default: break;
    }
    tx.commit(mode);
  }
  enum class found_at { commit, any_time };
  void compare(found_at when = found_at::commit) {
    expect_sound(*store_);
    model found;
    for (const node* n : graph_->all) {
      found.all.push_back(n->id);
      found.nodes.emplace(n->id, seen(*n));
      EXPECT_TRUE(when != found_at::commit || store_->is_persistent(n)) << n->id;
    }
    for (const blob* b : graph_->blobs) {
      found.blobs.push_back(b->bytes[0]);
      EXPECT_TRUE(std::ranges::all_of(b->bytes, [&](char c) { return c == b->bytes[0]; }));
    }
    found.numbers.assign(graph_->numbers.begin(), graph_->numbers.end());
    for (const auto& d : store_->databases())
      for (int n = 0; n < 3; ++n) {
        const std::string name = "entry " + std::to_string(n);
        if (const entry_point* const e = d.find_root<entry_point>(name)) found.entries[d.name() + name] = id_of(e->to);
      }
    EXPECT_TRUE(found == model_) << found.all.size() << " nodes, " << model_.all.size() << " in the model; "
                                 << difference(found, model_);
    EXPECT_EQ(store_->stats().conservative_objects, 0u);
  }

  // --- Inside ---

  node* any() { return graph_->all.empty() ? nullptr : graph_->all[random_.below(graph_->all.size())]; }
  std::string word() {
    return std::string(random_.one_in(3) ? 30 + random_.below(60) : random_.below(12),
                       static_cast<char>('a' + random_.below(26)));
  }
  database some_database() {
    const auto all = store_->databases();
    return all[random_.below(all.size())];
  }
  node* make_node(bool attach) {
    node* const n = some_database().make<node>();
    n->id = ++ids_;
    n->name = word();
    unattached_[n->id] = seen(*n);
    if (attach)
      this->attach(n);
    else
      floating_.push_back(n);
    return n;
  }
  void attach(node* n) {
    graph_->all.push_back(n);
    model_.all.push_back(n->id);
    model_.nodes[n->id] = unattached_.at(n->id);
  }

  void step() {
    node* const n = any();
    if (n == nullptr || random_.one_in(4)) {
      if (!floating_.empty() && random_.one_in(3)) {
        attach(floating_.back().get());
        floating_.pop_back();
        floating_before_ = std::min(floating_before_, floating_.size());
        for (level& each : levels_) each.floating = std::min(each.floating, floating_.size());
        return;
      }
      (void)make_node(!random_.one_in(4));
      return;
    }
    node* const to = random_.one_in(8) ? nullptr : any();
    model_node& m = model_.nodes[n->id];
    const std::uint64_t key = random_.below(20);
    std::uint64_t operation = random_.below(20);
    while ((operations_ >> operation & 1) == 0) operation = (operation + 1) % 20;
    switch (operation) {
      case 0: {
        const auto e = random_.below(3);
        n->edges[e] = to;
        m.edges[e] = id_of(to);
        break;
      }
      case 1:
        if (random_.one_in(3)) {
          n->maybe.reset();
          m.maybe.reset();
        } else {
          n->maybe = to;
          m.maybe = id_of(to);
        }
        break;
      case 2:
        if (random_.one_in(2)) {
          n->either = key;
          m.either = {false, key};
        } else {
          n->either = to;
          m.either = {true, id_of(to)};
        }
        break;
      case 3: {
        const std::string text = word();
        if (random_.one_in(2)) {
          n->name = text;
          m.name = text;
        } else {
          n->name += text;
          m.name += text;
        }
        break;
      }
      case 4: {
        const std::string text = word();
        n->std_name.append(text.data(), text.size());
        m.std_name += text;
        break;
      }
      case 5: change_row(n->row, m.row, to); break;
      case 6: change_row(n->std_row, m.std_row, to); break;
      case 7: {
        const std::string text = word();
        if (random_.one_in(3)) {
          n->by_name.erase(text);
          m.by_name.erase(text);
        } else {
          n->by_name[text] = to;
          m.by_name[text] = id_of(to);
        }
        break;
      }
      case 8: change_map(n->by_id, m.by_id, key, to); break;
      case 9: change_map(n->std_by_id, m.std_by_id, key, to); break;
      case 10: change_map(n->std_hashed, m.std_hashed, key, to); break;
      case 11: {
        const std::string text = word();
        if (random_.one_in(3)) {
          n->words.erase(text);
          m.words.erase(text);
        } else {
          n->words.insert(tenure::string(text));
          m.words.insert(text);
        }
        break;
      }
      case 12:
        if (random_.one_in(2)) {
          n->index.erase(key);
          m.index.erase(key);
        } else if (!m.index.contains(key)) {
          n->index.insert(key, to);
          m.index[key] = id_of(to);
        }
        break;
      case 13:
        if (!m.list.empty() && random_.one_in(2)) {
          n->list.pop_back();
          m.list.pop_back();
        } else {
          n->list.push_front(to);
          m.list.insert(m.list.begin(), id_of(to));
        }
        break;
      case 14: change_thing(*n, m); break;
      case 15: destroy(n); break;
      case 16: {  // containers change their owners, perhaps to another database's
        node* const other = any();
        model_node& o = model_.nodes[other->id];
        std::swap(n->row, other->row);
        std::swap(m.row, o.row);
        std::swap(n->by_name, other->by_name);
        std::swap(m.by_name, o.by_name);
        n->list.swap(other->list);
        std::swap(m.list, o.list);
        n->std_by_id.swap(other->std_by_id);
        std::swap(m.std_by_id, o.std_by_id);
        break;
      }
      case 17: {
        node* const other = any();
        const model_node o = model_.nodes[other->id];
        n->by_id = other->by_id;
        m.by_id = o.by_id;
        n->std_hashed = other->std_hashed;
        m.std_hashed = o.std_hashed;
        n->words = other->words;
        m.words = o.words;
        break;
      }
      case 18: change_blobs(); break;
      case 19: change_entries(to); break;
    }
    if (random_.one_in(4)) n->scratch = random_.next();
  }

  template <class Row>
  void change_row(Row& row, std::vector<std::uint64_t>& m, node* to) {
    switch (random_.below(5)) {
      case 0:
        if (!m.empty()) {
          const auto at = static_cast<std::ptrdiff_t>(random_.below(m.size()));
          row.erase(row.begin() + at);
          m.erase(m.begin() + at);
        }
        break;
      case 1: {
        const auto at = static_cast<std::ptrdiff_t>(random_.below(m.size() + 1));
        row.insert(row.begin() + at, to);
        m.insert(m.begin() + at, id_of(to));
        break;
      }
      case 2:
        if (random_.one_in(3)) {
          row.clear();
          row.shrink_to_fit();
          m.clear();
        }
        break;
      default:
        for (std::uint64_t times = 1 + random_.below(20); times != 0; --times) {
          row.push_back(to);
          m.push_back(id_of(to));
        }
    }
  }
  template <class Map>
  void change_map(Map& map, std::map<std::uint64_t, std::uint64_t>& m, std::uint64_t key, node* to) {
    if (random_.one_in(3)) {
      map.erase(key);
      m.erase(key);
    } else {
      map[key] = to;
      m[key] = id_of(to);
    }
  }
  void change_thing(node& n, model_node& m) {
    if (n.owned != nullptr) store_->destroy(n.owned);
    n.owned = nullptr;
    m.thing_kind = m.thing_number = 0;
    if (random_.one_in(3)) return;
    m.thing_number = random_.below(1000);
    if (random_.one_in(2)) {
      n.owned = some_database().make<thing>();
      m.thing_kind = 1;
    } else {
      auto* const special = some_database().make<special_thing>();
      special->owner = &n;
      special->text = std::to_string(m.thing_number) + " is its number, in words that take memory";
      n.owned = special;
      m.thing_kind = 2;
    }
    n.owned->number = m.thing_number;
  }
  void change_blobs() {
    if (!model_.blobs.empty() && random_.one_in(2)) {
      const auto at = static_cast<std::ptrdiff_t>(random_.below(model_.blobs.size()));
      store_->destroy(graph_->blobs[static_cast<std::size_t>(at)]);
      graph_->blobs.erase(graph_->blobs.begin() + at);
      model_.blobs.erase(model_.blobs.begin() + at);
    } else if (random_.one_in(4)) {  // enough to go past the log
      const std::uint64_t count = model_.numbers.empty() ? numbers_ : 0;
      graph_->numbers.clear();
      graph_->numbers.shrink_to_fit();
      graph_->numbers.resize(count, random_.below(100));
      model_.numbers.assign(graph_->numbers.begin(), graph_->numbers.end());
    } else {
      blob* const made = some_database().make<blob>();
      std::ranges::fill(made->bytes, static_cast<char>(random_.below(100)));
      graph_->blobs.push_back(made);
      model_.blobs.push_back(made->bytes[0]);
    }
  }
  void change_entries(node* to) {
    database in = some_database();
    const std::string name = "entry " + std::to_string(random_.below(3));
    entry_point& e = in.root<entry_point>(name);
    e.to = to;
    model_.entries[in.name() + name] = id_of(to);
    if (!random_.one_in(3)) return;
    e.to = nullptr;
    in.remove_root(name);
    model_.entries.erase(in.name() + name);
    if (random_.one_in(2)) store_->destroy(&e);  // otherwise it is garbage
  }

  // Nothing may refer to it any more.
  void destroy(node* gone) {
    const std::uint64_t id = gone->id;
    if (gone->owned != nullptr) store_->destroy(gone->owned);
    const auto at = std::ranges::find(model_.all, id) - model_.all.begin();
    graph_->all.erase(graph_->all.begin() + at);
    model_.all.erase(model_.all.begin() + at);
    model_.nodes.erase(id);
    for (node* n : graph_->all) {
      model_node& m = model_.nodes[n->id];
      for (int e = 0; e < 3; ++e)
        if (m.edges[e] == id) n->edges[e] = nullptr, m.edges[e] = 0;
      if (m.maybe == id) n->maybe.reset(), m.maybe.reset();
      if (m.either == std::pair{true, id}) n->either = std::uint64_t{0}, m.either = {false, 0};
      forget(n->row, m.row, id);
      forget(n->std_row, m.std_row, id);
      if (std::erase(m.list, id) != 0) n->list.remove(gone);
      forget_values(n->by_name, m.by_name, id);
      forget_values(n->by_id, m.by_id, id);
      forget_values(n->std_by_id, m.std_by_id, id);
      forget_values(n->std_hashed, m.std_hashed, id);
      forget_values(n->index, m.index, id);
    }
    for (auto& [name, to] : model_.entries)
      if (to == id) {
        const auto space = name.find("entry");
        store_->find_database(name.substr(0, space))->find_root<entry_point>(name.substr(space))->to = nullptr;
        to = 0;
      }
    store_->destroy(gone);
  }
  template <class Row>
  static void forget(Row& row, std::vector<std::uint64_t>& m, std::uint64_t id) {
    for (std::size_t at = m.size(); at-- != 0;)
      if (m[at] == id) {
        row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
        m.erase(m.begin() + static_cast<std::ptrdiff_t>(at));
      }
  }
  template <class Map, class Key>
  static void forget_values(Map& map, std::map<Key, std::uint64_t>& m, std::uint64_t id) {
    for (auto at = m.begin(); at != m.end();)
      if (at->second == id) {
        map.erase(at->first);
        at = m.erase(at);
      } else {
        ++at;
      }
  }

  const std::uint64_t inner_every_;
  random_source random_;
  sim::disk disk_;
  rvm::thresholds limits_;
  store_options how_;
  std::uint64_t operations_;  // a bit for each that the program has
  std::uint64_t verified_every_ = 1, most_steps_ = 1, reopened_every_ = 1, numbers_ = 0;
  std::unique_ptr<store> store_;
  graph* graph_ = nullptr;
  model model_, before_;
  std::uint64_t ids_ = 0, trimmed_ = 0, collected_ = 0, beside_ = 0;
  std::map<std::uint64_t, model_node> unattached_;  // as they were made
  std::vector<handle<node>> floating_;              // nodes that nothing refers to, made by this process
  std::size_t floating_before_ = 0;
  struct level {
    model before;
    std::size_t floating;
  };
  std::vector<level> levels_;  // of inner transactions
  std::uint64_t inner_aborts_ = 0, deepest_ = 0;
};

}  // namespace

class store_random : public ::testing::TestWithParam<rvm::tracking_mechanism> {};

TEST_P(store_random, programs_keep_every_invariant) {
  const std::uint64_t seeds = scaled(compiled_with_barriers ? 15 : 4),
                      first = 1 + 1000 * static_cast<std::uint64_t>(GetParam());
  std::uint64_t trimmed = 0, collected = 0, beside = 0;
  for (std::uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    random_program program(seed, GetParam());
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + program.configuration());
    program.run(60);
    trimmed += program.trimmed();
    collected += program.collected();
    beside += program.beside();
  }
  if (seeds >= 4 && !HasFailure()) {
    EXPECT_GT(trimmed, 0U);
    EXPECT_GT(collected, 0U);
    EXPECT_GT(beside, 0U);
  }
}

// [heap.inner.bytes] [heap.inner.births]
TEST_P(store_random, inner_transactions_are_undone_without_the_rest) {
  const std::uint64_t seeds = scaled(compiled_with_barriers ? 12 : 4),
                      first = 500001 + 1000 * static_cast<std::uint64_t>(GetParam());
  std::uint64_t aborts = 0, deepest = 0;
  for (std::uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    random_program program(seed, GetParam(), 2 + seed % 5);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + program.configuration());
    program.run(60);
    aborts += program.inner_aborts();
    deepest = std::max(deepest, program.deepest());
  }
  if (seeds >= 4 && !HasFailure()) {
    EXPECT_GT(aborts, 10U);
    EXPECT_GT(deepest, 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(all, store_random, tested_mechanisms, mechanism_name);
