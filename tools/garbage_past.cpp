// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "garbage_past.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "objects/object_walk.hpp"
#include "replayed_states.hpp"

namespace tenure::tools {

using namespace heap;

namespace {

struct garbage_object {
  address at = 0;
  std::uint64_t bytes = 0;
  const known_type* type = nullptr;
  std::uint64_t* starts = nullptr;  // the word with its start bit
  std::uint64_t start = 0;
  bool exists = false;
  std::size_t made = 0;  // the last state from which on it exists; 0: it did at the begin
  // States in which a word got its address, or behind which one lost it: it may have been reached then, although it had not been
  // before. Ascending.
  std::vector<std::size_t> linked = {};
  std::vector<garbage_object*> referred_by = {};
  void note_linked(std::size_t state) {
    const auto place = std::ranges::lower_bound(linked, state);
    if (place == linked.end() || *place != state) linked.insert(place, state);
  }
};

// Something led to them in state `reached`, or they were made later; nothing did from state `gone` on.
struct interval {
  std::size_t reached = 0, gone = 0;
  std::vector<std::size_t> objects = {};
  std::uint64_t bytes = 0;
  bool is_followed = false;                 // until it is not open any more; then its larger half is
  std::size_t looked_at = ~std::size_t{0};  // its objects were looked for once more in states from here on
  bool is_doubtful = false;                 // where something of the history is missing
  [[nodiscard]] bool is_open() const { return gone - reached > 1 || is_doubtful; }
  [[nodiscard]] std::size_t middle() const { return reached + (gone - reached) / 2; }
};

class search {
 public:
  search(const surveyed_store& store, history& past, const std::vector<address>& garbage)
      : store_(store.set()), objects_(described(store, garbage)), by_address_(in_order_of_addresses()) {
    for (garbage_object& o : objects_) note_references(o);
    states_.emplace(store, past);
  }

  garbage_past run(std::size_t most) {
    garbage_past found;
    found.begin_time = states_->first_time();
    look_at_begin();
    while (narrow(most)) {
    }
    describe(found);
    return found;
  }

 private:
  static std::vector<garbage_object> described(const surveyed_store& store, const std::vector<address>& garbage) {
    std::vector<garbage_object> all;
    for (const address at : garbage) {
      const sound_object object = store.find(reinterpret_cast<const void*>(at));
      if (!object) continue;
      const block_map& map = *object.in->map;
      const object_facts facts = map.facts(at);
      const std::uint64_t block = map.block_of(at), bit = (at - map.start_of(block)) / granule;
      all.push_back({at, facts.end - facts.begin, object.type, &map.starts(block).word(bit / 64),
                     std::uint64_t{1} << (bit % 64)});
    }
    std::ranges::sort(all, {}, &garbage_object::starts);
    return all;
  }

  [[nodiscard]] std::vector<std::size_t> in_order_of_addresses() const {
    std::vector<std::size_t> all(objects_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::ranges::sort(all, {}, [&](std::size_t n) { return objects_[n].at; });
    return all;
  }
  void note_references(garbage_object& from) {
    const sound_object object = find_sound(store_, reinterpret_cast<const void*>(from.at));
    if (!object) return;
    for_each_reference(*object.type, object.facts(), [&](const reference_field& r) {
      if (garbage_object* const to = find(static_cast<address>(r.to)); to != nullptr && to != &from)
        to->referred_by.push_back(&from);
    });
  }

  // When objects were made, and which were reached at the begin. What was not, in the first state that knows of it.
  void look_at_begin() {
    states_->go_to_begin();
    const reachable_objects reached = reached_now();
    for (garbage_object& o : objects_) o.exists = reached.contains(o.at);
    states_->go_on({.before =
                        [&](std::size_t state, address from, os::const_bytes value) {
                          for_each_word(from, value.size(), [&](address word) {
                            std::uint64_t was, is;
                            std::memcpy(&was, reinterpret_cast<const void*>(word), sizeof was);
                            std::memcpy(&is, value.data() + (word - from), sizeof is);
                            if (was == is) return;
                            if (garbage_object* const o = find(was)) o->note_linked(state - 1);
                            if (garbage_object* const o = find(is)) o->note_linked(state);
                          });
                        },
                    .behind =
                        [&](std::size_t state, address from, std::size_t length) {
                          auto* const begin = reinterpret_cast<std::uint64_t*>(from / 8 * 8);
                          auto* const end = reinterpret_cast<std::uint64_t*>((from + length + 7) / 8 * 8);
                          for (auto o = std::ranges::lower_bound(objects_, begin, {}, &garbage_object::starts);
                               o != objects_.end() && o->starts < end; ++o) {
                            const bool exists = (*o->starts & o->start) != 0;
                            if (exists && !o->exists) o->made = state;
                            o->exists = exists;
                          }
                        }},
                   {});
    interval later{.gone = states_->last()};
    for (std::size_t n = 0; n < objects_.size(); ++n)
      add(states_->last() > 0 && (objects_[n].made > 0 || reached.contains(objects_[n].at)) ? later : before_, n);
    if (!later.objects.empty()) intervals_.push_back(std::move(later));
  }

  // Calls f for each whole word.
  template <class F>
  static void for_each_word(address from, std::size_t length, F&& f) {
    for (address word = (from + 7) / 8 * 8; word + 8 <= from + length; word += 8) f(word);
  }
  // The garbage in which the address lies; nullptr: there is none.
  garbage_object* find(address at) {
    const auto behind = std::ranges::upper_bound(by_address_, at, {}, [&](std::size_t n) { return objects_[n].at; });
    if (behind == by_address_.begin()) return nullptr;
    garbage_object& before = objects_[*std::prev(behind)];
    return at - before.at < before.bytes ? &before : nullptr;
  }

  // Halves those that are followed, `most` of them; false: none is open.
  bool narrow(std::size_t most) {
    std::ranges::stable_sort(intervals_, [](const interval& one, const interval& other) {
      return std::pair(one.is_followed, one.bytes) > std::pair(other.is_followed, other.bytes);
    });
    std::map<std::size_t, std::vector<interval>> by_middle;
    std::vector<interval> others;
    for (std::size_t n = 0; n < intervals_.size(); ++n) {
      interval& in = intervals_[n];
      in.is_followed = n < most;
      (in.is_followed && in.is_open() ? by_middle[in.middle()] : others).push_back(std::move(in));
    }
    intervals_ = std::move(others);
    if (by_middle.empty()) return look_for_later_paths();
    states_->go_to_begin();
    states_->go_on({}, [&](std::size_t state, const rvm::transaction_view&, rvm::lsn) {
      const auto here = by_middle.find(state);
      if (here == by_middle.end()) return true;
      const reachable_objects reached = reached_now();
      for (const interval& in : here->second) split(in, state, reached);
      by_middle.erase(here);
      return !by_middle.empty();
    });
    return true;
  }

  // What was dropped, kept by the program, and put somewhere else. What was reached later is looked at again.
  bool look_for_later_paths() {
    std::set<std::size_t> states;
    for (interval& in : intervals_) {
      const std::size_t latest = in.is_followed ? last_linked(in) : 0;
      if (latest < in.gone) continue;
      in.looked_at = latest;
      states.insert(latest);
    }
    if (states.empty()) return false;
    states_->go_to_begin();
    states_->go_on({}, [&](std::size_t state, const rvm::transaction_view&, rvm::lsn) {
      if (states.erase(state) != 0) take_what_is_reached(state);
      return !states.empty();
    });
    return true;
  }
  void take_what_is_reached(std::size_t state) {
    const reachable_objects reached = reached_now();
    std::vector<interval> all;
    for (interval& in : std::exchange(intervals_, {})) {
      if (state < in.gone) {
        all.push_back(std::move(in));
        continue;
      }
      interval again{.reached = state, .gone = states_->last()};
      interval still{.reached = in.reached, .gone = in.gone, .is_followed = in.is_followed, .looked_at = in.looked_at};
      for (const std::size_t o : in.objects) add(reached.contains(objects_[o].at) ? again : still, o);
      if (again.bytes > still.bytes) std::swap(again.is_followed, still.is_followed);
      for (interval* const part : {&again, &still})
        if (!part->objects.empty()) all.push_back(std::move(*part));
    }
    intervals_ = std::move(all);
  }
  // The last state in which one of them, or what leads to one, was linked, before it was looked at; 0: there is none.
  [[nodiscard]] std::size_t last_linked(const interval& in) const {
    std::vector<const garbage_object*> next;
    std::unordered_set<const garbage_object*> seen;
    const auto add = [&](const garbage_object* o) {
      if (seen.insert(o).second) next.push_back(o);
    };
    std::size_t latest = 0;
    for (const std::size_t o : in.objects) add(&objects_[o]);
    while (!next.empty()) {
      const garbage_object& o = *next.back();
      next.pop_back();
      if (const auto behind = std::ranges::lower_bound(o.linked, in.looked_at); behind != o.linked.begin())
        latest = std::max(latest, *std::prev(behind));
      for (const garbage_object* const by : o.referred_by) add(by);
    }
    return latest;
  }

  void split(const interval& in, std::size_t state, const reachable_objects& reached) {
    interval earlier{.reached = in.reached, .gone = state, .looked_at = in.looked_at};
    interval later{.reached = state, .gone = in.gone, .looked_at = in.looked_at};
    for (const std::size_t n : in.objects)
      add(objects_[n].made > state || reached.contains(objects_[n].at) ? later : earlier, n);
    (later.bytes > earlier.bytes ? later : earlier).is_followed = true;
    for (interval* const part : {&earlier, &later})
      if (!part->objects.empty()) intervals_.push_back(std::move(*part));
  }

  void add(interval& to, std::size_t n) {
    to.objects.push_back(n);
    to.bytes += objects_[n].bytes;
  }
  [[nodiscard]] reachable_objects reached_now() const {
    reachable_objects all(store_);
    all.search();
    return all;
  }

  // What is not followed may have been reached later; where something is missing, what was dropped there may seem to be reached.
  void admit_doubts() {
    for (interval& in : intervals_) {
      if (!in.is_followed && last_linked(in) >= in.gone) in.gone = states_->last();
      const auto made = std::ranges::min(in.objects, {}, [&](std::size_t o) { return objects_[o].made; });
      for (const std::size_t gap : states_->behind_gaps()) {
        if (objects_[made].made >= gap || gap > in.gone) continue;
        in.is_doubtful = true;
        in.reached = std::min(in.reached, gap - 1);
      }
    }
  }

  // Goes through all states once more, for the last paths and the transactions.
  void describe(garbage_past& found) {
    admit_doubts();
    for (const interval& in : intervals_) found.dropped.push_back(summary(in));
    const auto is_known = [&](std::size_t n) { return intervals_[n].is_open() || !found.dropped[n].last_path.empty(); };
    const auto note_transaction = [&](std::size_t state, const rvm::transaction_view& tx, rvm::lsn at) {
      for (std::size_t n = 0; n < intervals_.size(); ++n) {
        const known_transaction it{state, at, tx.id, tx.time, std::string(tx.label)};
        if (intervals_[n].gone == state && is_known(n)) found.dropped[n].by = it;
        if (intervals_[n].reached == state && intervals_[n].is_open()) found.dropped[n].not_before = it;
      }
    };
    const auto note_paths = [&](std::size_t state) {
      std::optional<reachable_objects> reached;
      for (std::size_t n = 0; n < intervals_.size(); ++n) {
        if (intervals_[n].reached != state || intervals_[n].is_open()) continue;
        if (!reached) reached.emplace(reached_now());
        found.dropped[n].last_path = shortest_path(*reached, intervals_[n]);
      }
    };
    for (std::size_t n = 0; n < intervals_.size(); ++n)
      if (intervals_[n].reached == 0 && intervals_[n].is_open()) found.dropped[n].not_before.emplace();
    states_->go_to_begin();
    note_paths(0);
    states_->go_on({}, [&](std::size_t state, const rvm::transaction_view& tx, rvm::lsn at) {
      note_transaction(state, tx, at);
      note_paths(state);
      return true;
    });
    for (std::size_t n = intervals_.size(); n-- > 0;) {
      if (is_known(n)) continue;
      for (const std::size_t o : intervals_[n].objects) add(before_, o);
      found.dropped.erase(found.dropped.begin() + static_cast<std::ptrdiff_t>(n));
    }
    if (!before_.objects.empty()) found.dropped.push_back(summary(before_));
    std::ranges::stable_sort(found.dropped, std::greater<>(), &dropped_together::bytes);
  }

  [[nodiscard]] std::string shortest_path(const reachable_objects& reached, const interval& to) const {
    std::vector<address> wanted;
    for (const std::size_t n : to.objects) wanted.push_back(objects_[n].at);
    std::ranges::sort(wanted);
    for (const address at : reached.in_order())
      if (std::ranges::binary_search(wanted, at)) return reached.path(at);
    return {};
  }

  [[nodiscard]] dropped_together summary(const interval& of) const {
    dropped_together all{.objects = of.objects.size(), .bytes = of.bytes};
    std::map<std::string, type_count> types;
    for (const std::size_t n : of.objects) {
      type_count& sum = types[objects_[n].type->of->name];
      sum.type = objects_[n].type->of->name;
      ++sum.objects;
      sum.bytes += objects_[n].bytes;
    }
    for (auto& [name, sum] : types) all.types.push_back(std::move(sum));
    std::ranges::stable_sort(all.types, std::greater<>(), &type_count::bytes);
    return all;
  }

  const database_set& store_;
  std::vector<garbage_object> objects_;  // by the words with their start bits
  std::vector<std::size_t> by_address_;  // their numbers
  std::optional<replayed_states> states_;
  interval before_;  // what nothing is known to have led to
  std::vector<interval> intervals_;
};

}  // namespace

garbage_past find_past(const surveyed_store& store, history& past, const std::vector<address>& garbage,
                       std::size_t most) {
  return search(store, past, garbage).run(most);
}

}  // namespace tenure::tools
