// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/world.hpp"
#include "pobj/scenario.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <utility>

namespace tenure::pobj {

thing* anchors::roots[6];
thing* anchors::named_places[2];
thing** anchors::named = &anchors::named_places[0];
std::uint64_t anchors::commits;
std::uint64_t anchors::numbers[8];

namespace {

constexpr std::size_t thing_transients[] = {offsetof(thing, scratch), 8, POBJ_END};
constexpr std::size_t root_references[] = {0, 8, 16, 24, 32, 40, POBJ_END};

const pobj_type* defined_type() { return pobj_type_define("thing", sizeof(thing), thing_references, thing_transients); }

thing* inner(thing* t, int offset) { return reinterpret_cast<thing*>(reinterpret_cast<char*>(t) + offset); }

}  // namespace

bool world::need(int code) {
  if (code == POBJ_OK) return true;
  const bool is_refusal = code == POBJ_ENOMEM || code == POBJ_ETOOBIG ||
                          (code == POBJ_EREFERENCED && (how_.options.flags & POBJ_STRICT) != 0);
  (is_refusal && (how_.may_refuse() || code == POBJ_EREFERENCED) ? refused_ : failed_) = true;
  return false;
}

int world::any() {
  if (state_.all.empty()) return 0;
  auto at = state_.all.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(below(state_.all.size())));
  return at->first;
}

// As an image gets it: to the target's next image if it has none.
world::reference world::reference_to(int id, int offset) const {
  if (id == 0) return {};
  const entry& e = state_.all.at(id);
  return {id, e.persistent ? e.incarnation : e.incarnation + 1, offset, !e.persistent};
}

template <class F>
void world::for_each_reference(F&& f) {
  for (auto& [id, e] : state_.all)
    for (reference& r : e.image.to) f(r);
  for (reference& r : state_.roots) f(r);
  f(state_.named);
}

bool world::holds(const reference& r) const { return target(r) != nullptr; }

const world::entry* world::target(const reference& r) const {
  const auto at = state_.all.find(r.id);
  if (at == state_.all.end() || !at->second.persistent || at->second.incarnation != r.incarnation) return nullptr;
  return &at->second;
}

// What the next execution must find, in words that do not depend on addresses.
world::snapshot world::of_model() const {
  snapshot out{state_.commits};
  std::set<int> met;
  std::deque<int> order;
  const auto see = [&](const reference& r) {
    if (!holds(r)) return out.push_back(0);
    out.push_back(static_cast<std::uint64_t>(r.id));
    out.push_back(static_cast<std::uint64_t>(r.offset));
    if (met.insert(r.id).second) order.push_back(r.id);
  };
  for (const reference& r : state_.roots) see(r);
  see(state_.named);
  out.insert(out.end(), state_.numbers, state_.numbers + 8);
  for (; !order.empty(); order.pop_front()) {
    const entry& e = state_.all.at(order.front());
    out.insert(out.end(), {e.size, e.image.content, e.defined ? 0 : e.image.scratch, e.image.fill});
    for (const reference& r : e.image.to) see(r);
  }
  return out;
}

world::snapshot world::of_memory() {
  snapshot out{anchors::commits};
  std::set<thing*> met;
  std::deque<thing*> order;
  const auto see = [&](thing* pointer) {
    if (pointer == nullptr) return out.push_back(0);
    thing* start = pointer;
    int offset = 0;
    while (pobj_is_object(start) == 0 && offset < static_cast<int>(sizeof(thing))) start = inner(pointer, -++offset);
    EXPECT_EQ(pobj_is_object(start), 1);
    if (pobj_is_object(start) == 0) return;
    out.push_back(start->id);
    out.push_back(static_cast<std::uint64_t>(offset));
    if (met.insert(start).second) order.push_back(start);
  };
  for (thing* const r : anchors::roots) see(r);
  see(*anchors::named);
  out.insert(out.end(), anchors::numbers, anchors::numbers + 8);
  for (; !order.empty(); order.pop_front()) {
    const thing& t = *order.front();
    const std::size_t size = pobj_size(&t);
    out.insert(out.end(), {size, t.content, t.scratch, t.more[0]});
    const auto* const end = reinterpret_cast<const unsigned char*>(&t) + size;
    EXPECT_TRUE(std::all_of(t.more, end, [&](unsigned char c) { return c == t.more[0]; }));
    for (thing* const r : t.to) see(r);
  }
  return out;
}

void world::make() {
  static constexpr pobj_allocator own = {&std::malloc, nullptr, &std::free};
  entry e;
  e.defined = below(3) == 0;
  e.size = sizeof(thing) + (e.defined ? 0 : below(10) == 0 ? below(30'000) : below(100));
  e.persistent = below(3) != 0;
  const auto kind = below(6);
  const bool adhoc = kind >= 4;
  e.pooled = !adhoc && how_.options.objects.malloc == nullptr;
  void* const made = kind == 4
                         ? (e.persistent ? pobj_malloc_adhoc(e.size, &own) : pobj_malloc_transient_adhoc(e.size, &own))
                     : kind == 5 && e.persistent ? pobj_calloc_adhoc(1, e.size, &own)
                     : kind == 5                 ? pobj_malloc_transient_adhoc(e.size, &libc)
                     : kind == 3    ? (e.persistent ? pobj_calloc(1, e.size) : pobj_calloc_transient(1, e.size))
                     : e.persistent ? pobj_malloc(e.size)
                                    : pobj_malloc_transient(e.size);
  e.at = static_cast<thing*>(made);
  if (e.at == nullptr) return void(need(how_.may_refuse() ? POBJ_ENOMEM : POBJ_EIO));
  e.incarnation = e.persistent ? 1 : 0;
  std::memset(static_cast<void*>(e.at), 0, e.size);
  const int id = ++ids_;
  e.at->id = static_cast<std::uint64_t>(id);
  const bool by_words = !e.defined && below(2) == 0;
  if (by_words) std::ranges::fill(e.flagged, false);
  state_.all.emplace(id, e);
  made_.insert(id);
  if (!by_words && !need(e.defined ? pobj_set_type(e.at, defined_type()) : pobj_ref_typify(e.at, thing_references)))
    return;
  touch(id);
  update(id, &updated_);
  if (!refused_ && below(3) == 0) {
    state_.roots[below(6)] = reference_to(id, 0);
    store_roots();
  }
}

// Changes memory only.
void world::touch(int id) {
  entry& e = state_.all.at(id);
  e.memory.content = e.at->content = random_();
  e.memory.scratch = e.at->scratch = random_();
  e.memory.fill = static_cast<unsigned char>(random_());
  std::memset(e.at->more, e.memory.fill, e.size - offsetof(thing, more));
  for (int k = 0; k < 3; ++k) {
    if (!e.flagged[k]) continue;
    const int to = below(4) == 0 ? 0 : any();
    const int offset = to == 0 || below(4) != 0 ? 0 : static_cast<int>(below(sizeof(thing) + 1));
    e.memory.to[k] = reference_to(to, offset);
    e.at->to[k] = to == 0 ? nullptr : inner(state_.all.at(to).at, offset);
  }
}

void world::update(int id, std::set<int>* updated) {
  entry& e = state_.all.at(id);
  if (updated != nullptr && !need(pobj_update(e.at))) return;
  if (!e.persistent) return;
  e.image = e.memory;
  for (reference& r : e.image.to)
    r = r.id != 0 && state_.all.contains(r.id) ? reference_to(r.id, r.offset) : reference{};
  updated_.insert(id);
}

void world::update_recursively(int id, bool persist) {
  if (!need(pobj_update_recursive(state_.all.at(id).at, persist ? POBJ_PERSISTIFY : 0))) return;
  std::set<int> met;
  std::deque<int> order;
  const auto meet = [&](int to) {
    if (to == 0 || !state_.all.contains(to) || met.contains(to)) return;
    entry& e = state_.all.at(to);
    if (!e.persistent) {
      if (!persist) return;
      e.persistent = true;
      ++e.incarnation;
    }
    met.insert(to);
    order.push_back(to);
  };
  meet(id);
  for (; !order.empty(); order.pop_front())
    for (const reference& r : state_.all.at(order.front()).memory.to) meet(r.id);
  for (const int each : met) update(each, nullptr);
}

void world::store_roots() {
  for (int i = 0; i < 6; ++i) {
    reference& r = state_.roots[i];
    const auto at = state_.all.find(r.id);
    r = at == state_.all.end() ? reference{} : reference_to(r.id, r.offset);
    anchors::roots[i] = at == state_.all.end() ? nullptr : at->second.at;
  }
  need(pobj_static_update(anchors::roots, sizeof anchors::roots, root_references));
}

// What refers to it in memory must not do so any more.
void world::forget_in_memory(int id, bool update_some) {
  for (auto& [other, e] : state_.all)
    for (int k = 0; k < 3; ++k)
      if (e.memory.to[k].id == id) {
        e.memory.to[k] = {};
        e.at->to[k] = nullptr;
        if (update_some && !refused_ && below(2) == 0) update(other, &updated_);
      }
}

void world::free_one() {
  const int id = any();
  if (id == 0) return;
  forget_in_memory(id, true);
  if (refused_ || !need(pobj_free(state_.all.at(id).at))) return;
  EXPECT_EQ(pobj_update(state_.all.at(id).at), POBJ_EHANDLE);
  state_.all.erase(id);
  store_roots();
  store_named();
}

void world::persistify(int id) {
  entry& e = state_.all.at(id);
  if (!need(pobj_persistify(e.at)) || e.persistent) return;
  e.persistent = true;
  ++e.incarnation;
  update(id, nullptr);
}

// What waits still, because it became persistent in this transaction, waits for its next image.
void world::unpersistify(int id) {
  entry& e = state_.all.at(id);
  if (!need(pobj_unpersistify(e.at))) return;
  if (!std::exchange(e.persistent, false)) return;
  for_each_reference([&](reference& r) {
    if (r.id == id && r.waits && r.incarnation == e.incarnation) ++r.incarnation;
  });
}

void world::update_part(int id) {
  entry& e = state_.all.at(id);
  e.memory.content = e.at->content = random_();
  if (!need(pobj_update_range(e.at, &e.at->content, 8)) || !e.persistent) return;
  e.image.content = e.memory.content;
  updated_.insert(id);
}

void world::change() {
  const int id = any();
  if (id == 0) return make();
  auto kind = below(22);
  while ((how_.operations >> kind & 1) == 0) kind = below(22);
  switch (kind) {
    case 0:
    case 1:
    case 2: return make();
    case 3:
    case 4: touch(id); return update(id, &updated_);
    case 5: return touch(id);
    case 6: return free_one();
    case 7: return persistify(id);
    case 8: return unpersistify(id);
    case 9: return update_recursively(id, below(2) == 0);
    case 10: state_.roots[below(6)] = reference_to(id, 0); return store_roots();
    case 11: return set_field(id);
    case 12: return set_reference(id);
    case 13: return clear_reference(id);
    case 14: return restore(id);
    case 15: state_.named = reference_to(id, 0); return store_named();
    case 16: return store_numbers();
    case 17: return nest();
    case 18: return retype(id);
    case 19: return how_.misuses ? misuse(id) : set_reference(id);
    case 20: return nest_inner();
    default: return update_part(id);
  }
}

void world::step() {
  if (how_.misuses && below(4) == 0) {
    const auto kind = below(3);
    kind == 0 ? finalize_one() : kind == 1 ? forget_numbers() : rebind();
  }
  if (failed_) return;
  const state before = state_;
  updated_.clear();
  made_.clear();
  refused_ = doomed_ = false;
  const bool is_short = how_.refusals != 0 && below(how_.refusals) == 0;
  if (is_short) granted = below(3000);
  need(pobj_start());
  for (auto n = below(8); n != 0 && !failed_ && !refused_ && !doomed_; --n) change();
  if (!refused_ && !doomed_) {
    ++state_.commits;
    anchors::commits = state_.commits;
    need(pobj_static_update(&anchors::commits, sizeof anchors::commits, nullptr));
  }
  if (failed_) return;
  if (!refused_ && !doomed_ && below(4) != 0) {
    for_each_reference([&](reference& r) { r.waits = r.waits && !holds(r); });
    history_[state_.commits] = state_;
    if (need(pobj_end())) acknowledged_ = state_.commits;
    if (!refused_) {
      granted = SIZE_MAX;
      return;
    }
    history_.erase(state_.commits);
    EXPECT_EQ(pobj_depth(), 1);
  }
  if (doomed_)
    EXPECT_EQ(pobj_end(), POBJ_EABORTED);
  else
    need(pobj_abort());
  granted = SIZE_MAX;
  EXPECT_EQ(pobj_depth(), 0);
  abort(before, refused_);
}

// Memory that was changed and not updated stays; what was updated has the image from before.
void world::abort(const state& before, bool was_refused) {
  state after = before;
  anchors::commits = before.commits;
  // What was not stored before stays as the program has set it.
  if (!was_refused) {
    EXPECT_TRUE(std::equal(before.numbers, before.numbers + before.numbers_size, anchors::numbers));
  }
  std::ranges::copy(before.numbers, anchors::numbers);
  for (auto& [id, e] : after.all) {
    const auto now = state_.all.find(id);
    const bool was_in_it = updated_.contains(id) && e.persistent;
    const bytes as_it_is = now == state_.all.end() ? e.memory : now->second.memory;
    e.memory = e.image;
    e.memory.scratch = e.defined ? e.at->scratch : e.image.scratch;
    if (!was_in_it) e.memory = as_it_is;
    // Types of transient objects are as they were left.
    if (!e.persistent && now != state_.all.end()) std::ranges::copy(now->second.flagged, e.flagged);
    // Only what this program can know of pointers that it has itself: they are set anew.
    std::memset(e.at->more, e.memory.fill, e.size - offsetof(thing, more));
    e.memory.content = e.at->content;
    e.memory.scratch = e.at->scratch;
    for (int k = 0; k < 3; ++k) {
      const reference r = e.memory.to[k];
      const bool known = r.id != 0 && after.all.contains(r.id) && e.flagged[k];
      e.memory.to[k] = known ? r : reference{};
      e.at->to[k] = known ? inner(after.all.at(r.id).at, r.offset) : nullptr;
    }
    if (was_in_it) {
      EXPECT_EQ(e.memory.content, e.image.content);
    }
  }
  state_ = after;
}

// The store's images, as pobj_restore shows them, are what the model says.
void world::expect_memory() const {
  for (const auto& [id, e] : state_.all) {
    ASSERT_EQ(pobj_is_object(e.at), 1) << id;
    ASSERT_EQ(pobj_is_persistent(e.at), e.persistent ? 1 : 0) << id;
    if (!e.persistent) continue;
    std::vector<unsigned char> kept(e.size);
    std::memcpy(kept.data(), static_cast<void*>(e.at), e.size);
    ASSERT_EQ(pobj_restore(e.at), POBJ_OK) << pobj_error();
    EXPECT_EQ(e.at->content, e.image.content) << id;
    EXPECT_EQ(e.at->more[0], e.image.fill) << id;
    if (!e.defined) {
      EXPECT_EQ(e.at->scratch, e.image.scratch) << id;
    }
    for (int k = 0; k < 3; ++k)
      if (const entry* const to = target(e.image.to[k]); to != nullptr) {
        EXPECT_EQ(e.at->to[k], inner(to->at, e.image.to[k].offset)) << id;
      }
    std::memcpy(static_cast<void*>(e.at), kept.data(), e.size);
  }
}

bool world::run(int steps, bool judge) {
  for (int i = 0; i < steps && !failed_; ++i) {
    step();
    if (judge && !failed_) expect_memory();
    if (::testing::Test::HasFailure()) return false;
  }
  return !failed_;
}

void world::begin_process() {
  granted = SIZE_MAX;
  anchors::commits = 0;
  std::ranges::fill(anchors::roots, nullptr);
  std::ranges::fill(anchors::numbers, 0);
  (void)pobj_static_named(anchors::name, nullptr, 0, nullptr);
  anchors::named = &anchors::named_places[below(2)];
  std::ranges::fill(anchors::named_places, nullptr);
  names_late_ = below(3) == 0;
  if (!names_late_) {
    EXPECT_EQ(pobj_static_named(anchors::name, anchors::named, sizeof(thing*), nullptr), POBJ_OK);
  }
}

void world::expect_found() {
  failed_ = refused_ = false;
  if (names_late_) {
    ASSERT_EQ(pobj_static_named(anchors::name, anchors::named, sizeof(thing*), nullptr), POBJ_OK) << pobj_error();
  }
  pobj_report report = {};
  ASSERT_EQ(pobj_get_report(&report), POBJ_OK);
  if (report.statics == 0) {
    EXPECT_EQ(acknowledged_, 0u) << "everything is gone";
    state_ = {};
    return;
  }
  const auto committed = history_.find(anchors::commits);
  ASSERT_NE(committed, history_.end()) << "commit " << anchors::commits << " was never made";
  EXPECT_GE(anchors::commits, acknowledged_);
  state_ = committed->second;
  const snapshot found = of_memory(), expected = of_model();
  const auto differs = std::ranges::mismatch(found, expected);
  EXPECT_TRUE(found == expected) << "after commit " << anchors::commits << ", at word " << differs.in1 - found.begin()
                                 << " of " << found.size() << ": " << *differs.in1 << ", not " << *differs.in2;
  if (::testing::Test::HasFailure()) return;
  // What the images lead to has new addresses; the rest is swept, and forgotten.
  std::map<int, entry> kept;
  std::set<thing*> met;
  std::deque<thing*> order;
  const auto see = [&](thing* pointer, const reference& r) {
    if (pointer == nullptr) return;
    thing* const start = inner(pointer, -r.offset);
    if (met.insert(start).second) order.push_back(start);
  };
  for (int i = 0; i < 6; ++i) see(anchors::roots[i], state_.roots[i]);
  see(*anchors::named, state_.named);
  for (; !order.empty(); order.pop_front()) {
    thing* const t = order.front();
    entry e = state_.all.at(static_cast<int>(t->id));
    e.at = t;
    e.pooled = how_.options.objects.malloc == nullptr;
    for (int k = 0; k < 3; ++k) {
      see(t->to[k], e.image.to[k]);
      if (t->to[k] == nullptr) e.image.to[k] = {};
    }
    e.memory = e.image;
    e.memory.scratch = t->scratch;
    kept.emplace(static_cast<int>(t->id), e);
  }
  const auto persistent = std::ranges::count_if(state_.all, [](const auto& each) { return each.second.persistent; });
  // A crash may have come just after a sweep.
  EXPECT_TRUE(report.objects == static_cast<std::uint64_t>(persistent) || report.objects == kept.size());
  std::uint64_t freed = 0;
  if (pobj_sweep(&freed) != POBJ_OK) {
    failed_ = true;
    return;
  }
  EXPECT_EQ(freed, report.objects - kept.size());
  for (int i = 0; i < 6; ++i)
    if (anchors::roots[i] == nullptr) state_.roots[i] = {};
  if (*anchors::named == nullptr) state_.named = {};
  state_.all = kept;
  acknowledged_ = anchors::commits;
  history_.erase(history_.upper_bound(anchors::commits), history_.end());
  history_[state_.commits] = state_;
}

}  // namespace tenure::pobj
