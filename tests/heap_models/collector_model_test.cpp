// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A graph that changes while it is collected: between any two steps of the collector, references move from where it has not been
// to where it has been, objects end, transactions are aborted. What the program can reach in the model must be there.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap_models/drawn_options.hpp"
#include "objects/object_walk.hpp"
#include "sim/disk.hpp"
#include "store/store_state.hpp"

using namespace tenure;
using namespace tenure::support;

namespace collector_model_types {

struct vertex {
  std::uint64_t id;
  vertex* edges[3];
  tenure::vector<vertex*> row;
  std::optional<vertex*> maybe;
  std::variant<std::uint64_t, vertex*> either;
  transient<vertex*> scratch;
  weak<vertex> hint;
  std::uint64_t numbers[4];
};
// Its words are taken for pointers.
class any_words {
 public:
  void set(vertex* to) { words_[1] = reinterpret_cast<std::uintptr_t>(to); }
  [[nodiscard]] vertex* get() const { return reinterpret_cast<vertex*>(words_[1]); }

 private:
  std::uintptr_t words_[3] = {};
};
struct vertices {
  tenure::vector<vertex*> entries;
  any_words* words;
  finalization_queue<vertex> messages;
};

}  // namespace collector_model_types
using namespace collector_model_types;

namespace {

using rvm::testing::random_source;
using rvm::testing::scaled;

// References are ids, and 0.
struct shadow {
  std::array<std::uint64_t, 3> edges{};
  std::vector<std::uint64_t> row;
  std::uint64_t maybe = 0, either = 0, scratch = 0, hint = 0;
};
struct shadows {
  std::map<std::uint64_t, shadow> all;
  std::vector<std::uint64_t> entries;
  std::uint64_t words = 0;
  std::set<std::uint64_t> watched, destroyed;
};

class changing_graph {
 public:
  explicit changing_graph(std::uint64_t seed) : random_(seed), how_(drawn_options(random_, disk_, limits_)) {
    how_.mechanism = rvm::tracking_mechanism::choose;
    is_sparse_ = !random_.one_in(3);
    if (is_sparse_) how_.tune.marked_at_once = 1;
    how_.check_destroyed = destroy_check::always;
    how_.collection.roots = program_roots::handles;
    if (random_.one_in(3)) how_.stabilize = stabilization::copying;
    how_.collection.quarantine = one_of(random_, {quarantine::none, quarantine::hold, quarantine::check});
    how_.collection.young_bytes = one_of<std::uint64_t>(random_, {0, 1, 1 << 10});
    open();
    store_->transact([&] {
      graph_->words = store_->make<any_words>();
      if (is_sparse_) grow_tree();
    });
    locate_all();
  }
  [[nodiscard]] std::string configuration() const { return text_of(how_); }

  void run() {
    for (int n = 0; n < (is_sparse_ ? 0 : 12); ++n) change();
    for (int cycle = 0; cycle < 4 && !::testing::Test::HasFailure(); ++cycle) {
      collect(true);
      expect_all();
      if (random_.one_in(3)) reopen();
    }
    // What was garbage when a cycle began is gone after it.
    collect(false);
    EXPECT_EQ(collect(false), 0U);
    expect_all();
    reopen();
    collect(false);
    expect_all();
    const std::uint64_t kept = store_->collect({.dry_run = true, .roots = program_roots::handles}).kept;
    store_.reset();
    how_.mode = rvm::open_mode::read_only;
    const store_state opened("/store", how_);
    heap::reachable_objects reached(*opened.databases);
    reached.search();
    EXPECT_EQ(kept, reached.count());
  }
  std::uint64_t changes_beside() const { return beside_; }
  std::uint64_t destroyed() const { return destroyed_; }
  std::uint64_t collected() const { return collected_; }
  std::uint64_t revived() const { return revived_; }
  std::uint64_t messages() const { return messages_; }
  std::uint64_t quarantined() const { return quarantined_; }
  std::uint64_t young() const { return young_; }
  std::uint64_t moved() const { return moved_; }
  std::uint64_t pinned() const { return pinned_; }
  std::uint64_t copied() const { return copied_; }
  std::uint64_t failed_commits() const { return failed_commits_; }
  std::uint64_t changes_beside_moves() const { return beside_moves_; }

 private:
  void open() {
    store_ = std::make_unique<store>("/store", how_);
    graph_ = &store_->root<vertices>("graph");
  }
  void reopen() {
    expect_sound(*store_);
    handles_.clear();
    handles_before_.clear();
    for (auto& [id, s] : now_.all) s.scratch = 0;
    expect_quarantine();
    taken_.clear();
    young_ += store_->stats().young_objects;
    copied_ += store_->stats().objects_copied;
    store_.reset();
    open();
    at_.clear();
    locate_all();
  }
  void locate_all() {
    std::vector<std::pair<std::uint64_t, vertex*>> found;
    for (std::size_t n = 0; n < now_.entries.size(); ++n) found.emplace_back(now_.entries[n], graph_->entries[n]);
    if (now_.words != 0) found.emplace_back(now_.words, graph_->words->get());
    for (const auto& [id, h] : handles_) found.emplace_back(id, h.get());
    locate(std::move(found));
  }
  // Where these are, and all that they refer to.
  void locate(std::vector<std::pair<std::uint64_t, vertex*>> found) {
    std::set<std::uint64_t> seen;
    while (!found.empty()) {
      const auto [id, at] = found.back();
      found.pop_back();
      if (id == 0 || !seen.insert(id).second) continue;
      if (const auto was = at_.find(id); was != at_.end() && was->second != at) ++moved_;
      at_[id] = at;
      each_reference(now_.all.at(id), *at, [&](std::uint64_t to, vertex* there) { found.emplace_back(to, there); });
    }
  }

  // Transactions are the collector's thread's. While it marks, they go on over several of its steps.
  std::uint64_t collect(bool beside) {
    std::uint64_t left = beside ? 150 : 0;
    expect_quarantine();
    const std::vector<std::uint64_t> there = persistent_ones();
    const quarantine how = one_of(random_, {quarantine::none, quarantine::hold, quarantine::check});
    const evacuation moving{.enabled = random_.one_in(2),
                            .sparse_percent = one_of<std::uint32_t>(random_, {30, 60, 90}),
                            .bytes_at_once = one_of<std::uint64_t>(random_, {1, 2000, 1 << 20}),
                            .most_bytes = one_of<std::uint64_t>(random_, {4000, 1 << 20})};
    bool may_have_moved = false;
    const collect_report report =
        store_->collect({.roots = program_roots::handles,
                         .quarantine = how,
                         .objects_at_once = 1 + random_.below(60),
                         .markers = one_of<std::uint32_t>(random_, {1, 1, 2, 3}),
                         .evacuation = moving,
                         .on_progress = [&](const rvm::progress& p) {
                           const std::string_view phase = p.phase;
                           const bool is_looking = (phase == "marking" && p.done != p.total) || phase == "looking";
                           if (open_ && (!is_looking || left == 0)) end_change();
                           if (phase == "moving" && p.done != 0) locate_all(), may_have_moved = true;
                           if (left == 0 || !random_.one_in(2)) return;
                           --left;
                           ++beside_;
                           if (phase == "looking" || phase == "moving") ++beside_moves_;
                           if (!is_looking) return change();
                           if (!open_) begin_change();
                           step();
                           if (random_.one_in(is_sparse_ ? 8 : 4)) end_change();
                         }});
    collected_ += report.garbage + report.transient_garbage;
    pinned_ += report.pinned;
    messages_ += report.finalization_messages;
    EXPECT_EQ(report.used_after_collection, 0U);
    taken_.clear();
    if (how != quarantine::none && !may_have_moved) note_taken(there, how);
    if (may_have_moved) locate_all();
    expect_invariants(*store_);
    return report.garbage + report.transient_garbage;
  }

  [[nodiscard]] std::vector<std::uint64_t> persistent_ones() const {
    std::vector<std::uint64_t> there;
    for (const auto& [id, at] : at_)
      if (store_->is_persistent(at) && at->id == id) there.push_back(id);
    return there;
  }
  void note_taken(const std::vector<std::uint64_t>& there, quarantine how) {
    for (const std::uint64_t id : there)
      if (!now_.destroyed.contains(id) && !store_->is_persistent(at_.at(id)))
        taken_[id] = {at_.at(id), how == quarantine::check};
  }
  // What the last collection has taken is as it was, or filled.
  void expect_quarantine() {
    for (const auto& [id, gone] : taken_) {
      const std::uint64_t wanted = gone.is_filled ? 0xd9d9d9d9d9d9d9d9 : id;
      ASSERT_EQ(gone.at->id, wanted);
      for (const std::uint64_t n : gone.at->numbers) ASSERT_EQ(n, wanted);
      ++quarantined_;
    }
  }

  // --- The model ---

  template <class F>
  static void each_reference(const shadow& s, const vertex& v, F&& f) {
    for (int e = 0; e < 3; ++e) f(s.edges[e], v.edges[e]);
    ASSERT_EQ(v.row.size(), s.row.size());
    for (std::size_t n = 0; n < s.row.size(); ++n) f(s.row[n], v.row[n]);
    f(s.maybe, v.maybe.value_or(nullptr));
    f(s.either, v.either.index() == 1 ? std::get<1>(v.either) : nullptr);
    f(s.scratch, v.scratch.get());
  }
  // What the program can reach.
  [[nodiscard]] std::set<std::uint64_t> live() const {
    std::set<std::uint64_t> seen;
    std::vector<std::uint64_t> pending(now_.entries);
    pending.push_back(now_.words);
    for (const auto& [id, h] : handles_) pending.push_back(id);
    while (!pending.empty()) {
      const std::uint64_t id = pending.back();
      pending.pop_back();
      if (id == 0 || !seen.insert(id).second) continue;
      const shadow& s = now_.all.at(id);
      pending.insert(pending.end(), s.edges.begin(), s.edges.end());
      pending.insert(pending.end(), s.row.begin(), s.row.end());
      for (const std::uint64_t to : {s.maybe, s.either, s.scratch}) pending.push_back(to);
    }
    return seen;
  }
  void expect_all() {
    expect_sound(*store_);
    const std::set<std::uint64_t> ids = live();
    for (const std::uint64_t id : ids) {
      expect_hint(ids, id, at_.at(id)->hint.lock());
      const vertex& v = *at_.at(id);
      ASSERT_EQ(v.id, id);
      for (const std::uint64_t n : v.numbers) ASSERT_EQ(n, id);
      each_reference(now_.all.at(id), v, [&](std::uint64_t to, const vertex* there) {
        ASSERT_EQ(there, to == 0 ? nullptr : at_.at(to)) << id;
      });
    }
  }

  // Of a live vertex.
  void expect_hint(const std::set<std::uint64_t>& ids, std::uint64_t of, const vertex* there) {
    const std::uint64_t to = now_.all.at(of).hint;
    if (ids.contains(to) && !were_garbage_.contains(to)) {
      ASSERT_EQ(there, at_.at(to)) << of;
    }
    if (to == 0 || now_.destroyed.contains(to)) {
      ASSERT_EQ(there, nullptr) << of;
    }
    if (there != nullptr) {
      ASSERT_EQ(there->id, to);
    }
  }

  // --- Changes ---

  // Each vertex has one reference to it, and none that another one, or a handle, could make good for: what is moved where the
  // marker has been is lost if nobody says so.
  void grow_tree() {
    std::vector<std::uint64_t> all{make()};
    graph_->entries.push_back(at(all[0]));
    now_.entries.push_back(all[0]);
    for (int n = 0; n < 150; ++n) {
      const std::uint64_t parent = all[random_.below(all.size())], e = random_.below(3);
      if (now_.all.at(parent).edges[e] != 0) continue;
      all.push_back(make());
      at(parent)->edges[e] = at(all.back());
      now_.all.at(parent).edges[e] = all.back();
    }
  }

  std::uint64_t some(const std::set<std::uint64_t>& of) {
    return of.empty() ? 0 : *std::next(of.begin(), static_cast<std::ptrdiff_t>(random_.below(of.size())));
  }
  vertex* at(std::uint64_t id) { return id == 0 ? nullptr : at_.at(id); }
  std::uint64_t make() {
    vertex* const made = store_->make<vertex>();
    made->id = ++ids_;
    for (std::uint64_t& n : made->numbers) n = ids_;
    at_[ids_] = made;
    now_.all[ids_] = {};
    return ids_;
  }
  void set(std::uint64_t of, std::uint64_t to) {
    shadow& s = now_.all.at(of);
    vertex& v = *at(of);
    switch (random_.below(8)) {
      case 0:
        v.row.push_back(at(to));
        s.row.push_back(to);
        break;
      case 1:
        if (!s.row.empty()) v.row.pop_back(), s.row.pop_back();
        break;
      case 2:
        v.maybe = to == 0 ? std::nullopt : std::optional(at(to));
        s.maybe = to;
        break;
      case 3:
        if (to == 0)
          v.either = std::uint64_t{7};
        else
          v.either = at(to);
        s.either = to;
        break;
      case 4:
        v.scratch = at(to);
        s.scratch = to;
        break;
      default: {
        const std::size_t e = random_.below(3);
        v.edges[e] = at(to);
        s.edges[e] = to;
      }
    }
  }
  // Moves a reference: what it led to is to be found elsewhere now.
  void move(std::uint64_t from, std::uint64_t to) {
    shadow& f = now_.all.at(from);
    const std::size_t e = random_.below(3), there = random_.below(3);
    at(to)->edges[there] = at(f.edges[e]);
    now_.all.at(to).edges[there] = f.edges[e];
    at(from)->edges[e] = nullptr;
    f.edges[e] = 0;
  }
  void change() {
    begin_change();
    for (std::uint64_t steps = 1 + random_.below(8); steps != 0; --steps) step();
    end_change();
  }
  void begin_change() {
    before_ = now_;
    handles_before_ = handles_;
    aborts_ = random_.one_in(4);
    open_ = store_->begin();
  }
  void step() {
    std::set<std::uint64_t> ids = live();
    if (aborts_)  // an abort puts persistent objects back, and no others
      std::erase_if(ids, [&](std::uint64_t id) { return !store_->is_persistent(at(id)); });
    const std::uint64_t a = some(ids), b = some(ids);
    if (a != 0 && random_.one_in(8)) {  // for a while
      const std::size_t e = random_.below(3);
      at(a)->edges[e] = nullptr;
      away_.emplace_back(a, e);
    }
    if (random_.one_in(6)) return bring_back(), step_weakly(ids, a, b);
    if (is_sparse_ && !random_.one_in(8)) {
      if (const std::size_t e = random_.below(3); aborts_ && a != 0 && random_.one_in(2))
        at(a)->edges[e] = nullptr, now_.all.at(a).edges[e] = 0;  // for a while
      else if (a != 0 && random_.one_in(4))
        destroy(a, b);
      else if (a != 0)
        move(a, b);
      return;
    }
    switch (random_.below(10)) {
      case 0:
        if (const std::uint64_t made = make(); a != 0) set(a, made), handles_.emplace(made, at(made));
        break;
      case 1:
        if (b != 0) graph_->entries.push_back(at(b)), now_.entries.push_back(b);
        break;
      case 2:
        if (!now_.entries.empty()) graph_->entries.pop_back(), now_.entries.pop_back();
        break;
      case 3:
        graph_->words->set(at(b));
        now_.words = b;
        break;
      case 4:
        if (b != 0) handles_.emplace(b, at(b));
        break;
      case 5:
        if (!handles_.empty()) handles_.erase(handles_.begin());
        break;
      case 6:
      case 7:
        if (a != 0) move(a, b);
        break;
      case 8: destroy(a, b); break;
      default:
        if (a != 0) set(a, random_.one_in(4) ? 0 : b);
    }
  }
  void step_weakly(const std::set<std::uint64_t>& ids, std::uint64_t a, std::uint64_t b) {
    if (a == 0) return;
    switch (random_.below(4)) {
      case 0:
        if (b != 0 && store_->is_persistent(at(b))) at(a)->hint = weak(at(b)), now_.all.at(a).hint = b;
        break;
      case 1:
        if (store_->is_persistent(at(a)) && now_.watched.insert(a).second) graph_->messages.watch(at(a));
        break;
      case 2:
        if (vertex* const taken = graph_->messages.take()) {
          ASSERT_EQ(now_.watched.erase(taken->id), 1U);
          ASSERT_TRUE(were_garbage_.contains(taken->id));
          get_back(a, taken->id, taken);
        }
        break;
      default:  // to garbage, mostly
        for (const std::uint64_t id : ids) {
          const std::uint64_t to = now_.all.at(id).hint;
          if (to == 0 || ids.contains(to)) continue;
          vertex* const there = at(id)->hint.lock();
          expect_hint(ids, id, there);
          if (there == nullptr) continue;
          ++revived_;
          return get_back(a, to, there);
        }
    }
  }
  // What is garbage, or was, is a vertex like others again.
  void get_back(std::uint64_t a, std::uint64_t id, vertex* there) {
    locate({{id, there}});
    const std::size_t e = random_.below(3);
    at(a)->edges[e] = there;
    now_.all.at(a).edges[e] = id;
  }
  void bring_back() {
    for (const auto& [id, e] : away_)
      if (!now_.destroyed.contains(id)) at(id)->edges[e] = at(now_.all.at(id).edges[e]);
    away_.clear();
  }
  void end_change() {
    bring_back();
    if (aborts_) {
      open_->abort();
      now_ = before_;
      handles_ = handles_before_;
    } else {
      if (random_.one_in(8)) fail_to_commit();
      open_->commit(commit_mode::lazy);
      if (how_.stabilize == stabilization::copying) locate_all();
    }
    open_.reset();
    const std::set<std::uint64_t> ids = live();
    for (const auto& [id, s] : now_.all)
      if (!ids.contains(id)) were_garbage_.insert(id);
    if (!aborts_ && random_.one_in(is_sparse_ ? 30 : 3)) make_transient();
  }
  // Everything is where it was then: no address is looked up anew.
  void fail_to_commit() {
    if (now_.entries.empty()) return;
    const std::uint64_t id = now_.entries[random_.below(now_.entries.size())];
    vertex outside{};
    at(id)->edges[0] = &outside;
    EXPECT_THROW(open_->commit(commit_mode::lazy), error);
    at(id)->edges[0] = at(now_.all.at(id).edges[0]);
    ++failed_commits_;
  }
  // Something that only the program has, which refers to what it may be the only one to refer to.
  void make_transient() {
    const std::set<std::uint64_t> ids = live();
    const std::uint64_t made = make(), to = some(ids);
    at(made)->edges[0] = at(to);
    now_.all[made].edges[0] = to;
    handles_.emplace(made, at(made));
  }
  static bool refers_to(const shadow& s, std::uint64_t id) {
    return std::ranges::count(s.edges, id) != 0 || std::ranges::count(s.row, id) != 0 || s.maybe == id ||
           s.either == id || s.scratch == id;
  }
  // `a`, to which at most edges refer, ends, and `b` gets what it had.
  void destroy(std::uint64_t a, std::uint64_t b) {
    if (a == 0 || b == a || now_.words == a || std::ranges::count(now_.entries, a) != 0) return;
    const std::set<std::uint64_t> ids = live();
    for (const auto& [id, s] : now_.all)  // the transaction may have written to it before it was garbage
      if (!ids.contains(id) && refers_to(s, a)) return;
    for (const std::uint64_t id : ids) {
      const shadow& s = now_.all.at(id);
      if (std::ranges::count(s.row, a) != 0 || s.maybe == a || s.either == a || s.scratch == a) return;
      if (aborts_ && std::ranges::count(s.edges, a) != 0 && !store_->is_persistent(at(id))) return;
    }
    for (const std::uint64_t id : ids)
      for (std::size_t e = 0; e < 3; ++e)
        if (now_.all.at(id).edges[e] == a) at(id)->edges[e] = nullptr, now_.all.at(id).edges[e] = 0;
    std::uint64_t to = 0;
    for (const std::uint64_t each : now_.all.at(a).edges) to = each != 0 ? each : to;
    at(b)->edges[0] = at(to);
    now_.all.at(b).edges[0] = to;
    handles_.erase(a);
    now_.watched.erase(a);
    now_.destroyed.insert(a);
    store_->destroy(at(a));
    ++destroyed_;
  }

  random_source random_;
  sim::disk disk_;
  rvm::thresholds limits_;
  store_options how_;
  std::unique_ptr<store> store_;
  vertices* graph_ = nullptr;
  shadows now_, before_;
  std::map<std::uint64_t, vertex*> at_;
  std::map<std::uint64_t, handle<vertex>> handles_, handles_before_;
  std::optional<transaction> open_;
  struct taken_vertex {
    const vertex* at;
    bool is_filled;
  };
  std::map<std::uint64_t, taken_vertex> taken_;              // by the last collection
  std::set<std::uint64_t> were_garbage_;                     // for a while, at least
  std::vector<std::pair<std::uint64_t, std::size_t>> away_;  // edges that the open transaction puts back
  bool aborts_ = false, is_sparse_ = false;
  std::uint64_t ids_ = 0, beside_ = 0, destroyed_ = 0, collected_ = 0, revived_ = 0, messages_ = 0, quarantined_ = 0,
                young_ = 0, moved_ = 0, pinned_ = 0, beside_moves_ = 0, copied_ = 0, failed_commits_ = 0;
};

// [heap.collection.snapshot]
TEST(collector_model, nothing_is_lost_whatever_changes_meanwhile) {
  const std::uint64_t seeds = scaled(250);
  std::uint64_t beside = 0, destroyed = 0, collected = 0, revived = 0, messages = 0, quarantined = 0, young = 0,
                moved = 0, pinned = 0, beside_moves = 0, copied = 0, failed_commits = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    changing_graph graph(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + graph.configuration());
    graph.run();
    beside += graph.changes_beside();
    destroyed += graph.destroyed();
    collected += graph.collected();
    revived += graph.revived();
    messages += graph.messages();
    quarantined += graph.quarantined();
    young += graph.young();
    moved += graph.moved();
    pinned += graph.pinned();
    beside_moves += graph.changes_beside_moves();
    copied += graph.copied();
    failed_commits += graph.failed_commits();
  }
  EXPECT_GT(revived, seeds / 4);
  EXPECT_GT(messages, seeds / 4);
  EXPECT_GT(beside, 10 * seeds);
  EXPECT_GT(destroyed, seeds / 10);
  EXPECT_GT(collected, seeds);
  EXPECT_GT(quarantined, seeds / 2);
  EXPECT_GT(young, seeds / 8);
  EXPECT_GT(moved, seeds / 2);
  EXPECT_GT(pinned, seeds);
  EXPECT_GT(copied, 5 * seeds);
  EXPECT_GT(beside_moves, seeds / 4);
  EXPECT_GT(failed_commits, 2 * seeds);
}

}  // namespace
