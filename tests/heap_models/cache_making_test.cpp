// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random programs that make, change and destroy objects in caches, and in the mapped store in turn, compared with what is
// expected to be there. A crash at drawn operations leaves a committed state.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/cache.hpp>
#include <tenure/tenure.hpp>

#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_model_types {

struct plant {
  std::uint64_t id = 0;
  ref<plant> edges[2];
  tenure::string text;
  tenure::vector<std::uint64_t> numbers;
  tenure::map<std::uint64_t, tenure::string> notes;
};
struct small_plant {
  std::uint64_t id = 0;
  ref<plant> of;
};
struct garden {
  std::uint64_t commits = 0;
  tenure::hash_map<std::uint64_t, ref<plant>> plants;
  tenure::vector<ref<small_plant>> small;
};

}  // namespace cache_model_types
using namespace cache_model_types;

namespace {

constexpr std::uint64_t small_zone = 256 << 10;  // bytes

struct expected_plant {
  std::uint64_t edges[2] = {0, 0};  // ids; 0: none
  std::string text;
  std::vector<std::uint64_t> numbers;
  std::map<std::uint64_t, std::string> notes;
  bool operator==(const expected_plant&) const = default;
};
struct expected_garden {
  std::uint64_t commits = 0;
  std::map<std::uint64_t, expected_plant> plants;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> small;  // id, plant
  bool operator==(const expected_garden&) const = default;
};

// What is there: of a mapped store, or in a transaction of a cache.
expected_garden garden_of(const garden& all) {
  expected_garden out;
  out.commits = all.commits;
  for (const auto& [id, at] : all.plants) {
    EXPECT_EQ(at->id, id);
    expected_plant& p = out.plants[id];
    for (int e = 0; e < 2; ++e) p.edges[e] = at->edges[e] ? at->edges[e]->id : 0;
    p.text.assign(at->text.begin(), at->text.end());
    p.numbers.assign(at->numbers.begin(), at->numbers.end());
    for (const auto& [key, note] : at->notes) p.notes.emplace(key, std::string(note.begin(), note.end()));
  }
  for (const auto& s : all.small) out.small.emplace_back(s->id, s->of ? s->of->id : 0);
  return out;
}

// In a cache, or mapped: where the program makes and destroys.
struct in_cache {
  cache::store& s;
  template <class T>
  ref<T> make() const {
    return s.make<T>();
  }
  template <class T>
  void destroy(const ref<T>& r) const {
    s.destroy(r);
  }
};
struct in_memory {
  store& s;
  template <class T>
  ref<T> make() const {
    return s.make<T>();
  }
  template <class T>
  void destroy(const ref<T>& r) const {
    s.destroy(const_cast<T*>(r.get()));
  }
};

class random_program {
 public:
  explicit random_program(std::uint64_t seed) : random_(seed) {}

  // One transaction's changes, of objects and of what is expected.
  template <class Place>
  void change(const Place& place, const ref<garden>& root, expected_garden& now) {
    for (std::uint64_t n = 1 + draw(8); n != 0; --n) change_one(place, root, now);
    root.change().commits = ++now.commits;
  }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  // Texts that need several zones.
  [[nodiscard]] std::uint64_t large() const { return large_; }

 private:
  std::string draw_text() {
    if (draw(25) == 0) {
      ++large_;
      return std::string(small_zone + draw(2 * small_zone), static_cast<char>('a' + draw(26)));
    }
    const std::uint64_t lengths[] = {3, 30, 200, 1500, 3000, 20'000};
    return std::string(draw(lengths[draw(draw(4) == 0 ? 6 : 3)]), static_cast<char>('a' + draw(26)));
  }
  std::uint64_t draw_plant(const expected_garden& now) {
    if (now.plants.empty()) return 0;
    auto at = now.plants.lower_bound(draw(next_ + 1));
    return at == now.plants.end() ? now.plants.begin()->first : at->first;
  }
  static ref<plant> find(const ref<garden>& root, std::uint64_t id) {
    return id == 0 ? ref<plant>() : root->plants.find(id)->second;
  }

  template <class Place>
  void change_one(const Place& place, const ref<garden>& root, expected_garden& now) {
    const std::uint64_t id = draw_plant(now), kind = draw(now.plants.size() > 60 ? 10 : 12);
    if (kind >= 9 || id == 0) return add(place, root, now);
    const ref<plant> at = find(root, id);
    expected_plant& p = now.plants[id];
    switch (kind) {
      case 0: {
        p.text = draw_text();
        at.change().text.assign(p.text);
        break;
      }
      case 1: {  // made outside of the object, and moved there
        p.text = draw_text();
        tenure::string text;
        for (const char c : p.text) text.push_back(c);
        at.change().text = std::move(text);
        break;
      }
      case 2:
        for (std::uint64_t n = draw(40); n != 0; --n) {
          p.numbers.push_back(draw(1000));
          at.change().numbers.push_back(p.numbers.back());
        }
        break;
      case 3:
        p.numbers.clear();
        at.change().numbers.clear();
        at.change().numbers.shrink_to_fit();
        break;
      case 4:
      case 5: {
        const std::uint64_t key = draw(20);
        if (p.notes.erase(key) != 0) {
          at.change().notes.erase(key);
        } else {
          const std::string text = draw_text();
          p.notes.emplace(key, text);
          at.change().notes.emplace(key, tenure::string(text));
        }
        break;
      }
      case 6: {
        const std::uint64_t edge = draw(2), to = draw(4) == 0 ? 0 : draw_plant(now);
        p.edges[edge] = to;
        at.change().edges[edge] = find(root, to);
        break;
      }
      case 7: return remove(place, root, now, id);
      default: {
        const ref<small_plant> made = place.template make<small_plant>();
        made.change().id = next_++;
        made.change().of = at;
        root.change().small.push_back(made);
        now.small.emplace_back(made->id, id);
      }
    }
  }
  template <class Place>
  void add(const Place& place, const ref<garden>& root, expected_garden& now) {
    const std::uint64_t id = next_++;
    const ref<plant> made = place.template make<plant>();
    expected_plant& p = now.plants[id];
    made.change().id = id;
    for (int e = 0; e < 2; ++e) {
      const std::uint64_t to = draw_plant(now);
      if (to == id) continue;
      p.edges[e] = to;
      made.change().edges[e] = find(root, to);
    }
    root.change().plants.emplace(id, made);
  }
  template <class Place>
  void remove(const Place& place, const ref<garden>& root, expected_garden& now, std::uint64_t id) {
    const ref<plant> gone = find(root, id);
    for (auto& [other, p] : now.plants)
      for (int e = 0; e < 2; ++e)
        if (p.edges[e] == id) {
          p.edges[e] = 0;
          find(root, other).change().edges[e] = {};
        }
    for (std::size_t n = now.small.size(); n-- > 0;)
      if (now.small[n].second == id) {
        place.destroy(root->small[n]);
        auto& small = root.change().small;
        small.erase(small.begin() + static_cast<std::ptrdiff_t>(n));
        now.small.erase(now.small.begin() + static_cast<std::ptrdiff_t>(n));
      }
    root.change().plants.erase(id);
    now.plants.erase(id);
    place.destroy(gone);
  }

  std::mt19937_64 random_;
  std::uint64_t next_ = 1, large_ = 0;
};

class making_workload {
 public:
  explicit making_workload(std::uint64_t seed) : program_(seed), seed_(seed) {
    how_.create.reservation = std::uint64_t{1} << 28;
    how_.create.home = next_home(how_.create.reservation);
    how_.memory.log.size = 256 << 10;
    how_.memory.background = false;
    how_.tune.headed = seed % 5 == 0;
    how_.tune.typed_from = seed % 3 * 64;
    how_.memory.disk = disk_.get();
    store s("/store", how_);
    (void)s.root<garden>("garden");
    history_.emplace(0, expected_garden{});
    s.close();
  }

  void use_cache(int transactions) {
    cache::options how;
    how.pool_pages = 1 + seed_ % 3 * 20;
    how.object_bytes = std::uint64_t{1} << (draw(3) == 0 ? 24 : 18);
    how.transactions = seed_ % 2 == 0 ? cache::concurrency::object_locks : cache::concurrency::one_writer;
    how.memory = how_.memory;
    how.typed_from = draw(3) * 64;
    cache::store s("/store", how);
    for (int n = 0; n < transactions; ++n) {
      expected_garden now = last();
      try {
        auto tx = s.begin();
        program_.change(in_cache{s}, s.root<garden>("garden"), now);
        if (draw(4) == 0) {
          tx.abort();
        } else {
          commit(now,
                 [&](bool durable) { tx.commit(durable ? cache::commit_mode::durable : cache::commit_mode::lazy); });
        }
      } catch (const error& e) {
        if (e.code() != errc::cache_full) throw;
        ++refused_;
      }
      s.check();
      if (draw(5) == 0) compare(s);
    }
    counts_ = s.stats();
    if (draw(2) == 0) s.close();
  }
  void compare(cache::store& s) {
    try {
      const auto reading = s.begin_read();
      EXPECT_EQ(garden_of(*s.root<garden>("garden")), last());
    } catch (const error& e) {
      if (e.code() != errc::cache_full) throw;
    }
  }
  void use_memory(int transactions) {
    store s("/store", how_);
    for (int n = 0; n < transactions; ++n) {
      expected_garden now = last();
      auto tx = s.begin();
      program_.change(in_memory{s}, ref<garden>(&s.root<garden>("garden")), now);
      commit(now, [&](bool durable) { tx.commit(durable ? commit_mode::durable : commit_mode::lazy); });
    }
    expect_right(s);
    s.close();
  }
  // After a crash, or not.
  void expect_a_committed_state() {
    store s("/store", how_);
    const garden& root = s.root<garden>("garden");
    ASSERT_TRUE(history_.contains(root.commits)) << "commit " << root.commits << " was never made";
    EXPECT_GE(root.commits, acknowledged_);
    history_.erase(history_.upper_bound(root.commits), history_.end());
    expect_right(s);
    s.close();
  }
  // The power goes while f() runs, at this operation, unless that has fewer.
  template <class F>
  void crash(std::uint64_t operation, F&& f) {
    disk_->crash_at(disk_->operations() + operation);
    try {
      f();
    } catch (const sim::power_failure&) {
    }
    disk_ = disk_->crash(operation, draw(2) == 0 ? sim::policy::random : sim::policy::drop_all);
    how_.memory.disk = disk_.get();
  }
  [[nodiscard]] const expected_garden& last() const { return history_.rbegin()->second; }
  [[nodiscard]] const cache::statistics& counts() const { return counts_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  [[nodiscard]] std::uint64_t large() const { return program_.large(); }
  std::uint64_t draw(std::uint64_t below) { return program_.draw(below); }

 private:
  template <class F>
  void commit(const expected_garden& now, F&& f) {
    const bool durable = draw(3) == 0;
    history_[now.commits] = now;  // a crash may leave it
    try {
      f(durable);
    } catch (const error&) {
      history_.erase(now.commits);
      throw;
    }
    if (durable) acknowledged_ = now.commits;
  }
  // All of it, and nothing that was forgotten.
  void expect_right(store& s) {
    EXPECT_EQ(garden_of(s.root<garden>("garden")), last());
    expect_sound(s);
    collection_options which;
    which.roots = program_roots::handles;
    which.dry_run = true;
    EXPECT_EQ(s.collect(which).garbage, 0u);
  }

  random_program program_;
  const std::uint64_t seed_;
  std::unique_ptr<sim::disk> disk_ = std::make_unique<sim::disk>();
  store_options how_;
  std::map<std::uint64_t, expected_garden> history_;
  std::uint64_t acknowledged_ = 0, refused_ = 0;
  cache::statistics counts_;
};

TEST(cache_making_model, random_programs_in_caches_and_mapped_in_turn) {
  std::uint64_t made = 0, destroyed = 0, refused = 0, large = 0;
  for (std::uint64_t seed = 1; seed <= rvm::testing::scaled(20); ++seed) {
    making_workload work(seed);
    for (int round = 0; round < 6; ++round) {
      work.use_cache(15);
      made += work.counts().made_objects;
      destroyed += work.counts().destroyed_objects;
      if (work.draw(2) == 0) work.use_memory(5);
      work.expect_a_committed_state();
      if (HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", round " << round;
        return;
      }
    }
    refused += work.refused();
    large += work.large();
  }
  EXPECT_GT(made, 300u);
  EXPECT_GT(destroyed, 100u);
  EXPECT_GT(large, rvm::testing::scaled(20));
  RecordProperty("refused", static_cast<int>(refused));
}

// Its zones are used again, by such objects and by small ones.
TEST(cache_making, an_object_of_several_zones) {
  sim::disk disk;
  store_options how;
  how.create.reservation = std::uint64_t{1} << 28;
  how.create.home = next_home(how.create.reservation);
  how.memory.background = false;
  how.memory.disk = &disk;
  store("/store", how).root<plant>("plant");
  cache::options cached;
  cached.memory = how.memory;
  const auto open = [&] { return cache::store("/store", cached); };
  const auto replace = [&](cache::store& s, std::uint64_t zones) {
    auto tx = s.begin();
    plant& all = s.root<plant>("plant").change();
    all.numbers.clear();
    all.numbers.shrink_to_fit();
    tx.commit(cache::commit_mode::lazy);
    auto another = s.begin();
    s.root<plant>("plant").change().numbers.resize(static_cast<std::size_t>(zones * small_zone / 8), zones);
    another.commit(cache::commit_mode::lazy);
    s.check();
  };
  const auto make_small = [&](cache::store& s) {
    auto tx = s.begin();
    for (std::uint64_t n = 0; n < 300; ++n)
      s.root<plant>("plant").change().notes.emplace(n, tenure::string(std::string(3000, 'n')));
    tx.commit(cache::commit_mode::lazy);
    auto another = s.begin();
    s.root<plant>("plant").change().notes.clear();
    another.commit(cache::commit_mode::lazy);
  };
  const auto expect = [&](std::uint64_t zones) {
    store s("/store", how);
    const plant& all = s.root<plant>("plant");
    ASSERT_EQ(all.numbers.size(), zones * small_zone / 8);
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(all.numbers, zones)), all.numbers.size());
    expect_sound(s);
    s.close();
  };
  {
    cache::store s = open();
    replace(s, 3);
    make_small(s);  // behind the object
    s.close();
  }
  expect(3);
  {
    cache::store s = open();
    for (std::uint64_t zones = 1; zones < 6; ++zones) replace(s, zones);
    auto tx = s.begin();  // given back by an abort
    const auto aborted = s.make<plant>();
    aborted.change().numbers.resize(small_zone / 2);
    tx.abort();
    s.check();
    s.close();
  }
  expect(5);
  const auto size = [&] { return disk.open("/store/main.db", os::access::read_only)->size(); };
  const std::uint64_t before = size();
  for (int round = 0; round < 4; ++round) {
    cache::store s = open();
    for (const std::uint64_t zones : {5, 2, 5}) replace(s, zones);
    s.close();
  }
  EXPECT_EQ(size(), before);
  for (int round = 0; round < 4; ++round) {
    cache::store s = open();
    replace(s, 5);
    replace(s, 2);
    make_small(s);  // in zones that the object has left
    replace(s, 5);
    s.close();
  }
  expect(5);
}

// What lies behind the object in its last zone has no bookkeeping, and is not found as free before the commit says so.
TEST(cache_making, what_is_behind_an_object_of_several_zones_is_not_free) {
  sim::disk disk;
  store_options how;
  how.create.reservation = std::uint64_t{1} << 28;
  how.create.home = next_home(how.create.reservation);
  how.memory.background = false;
  how.memory.disk = &disk;
  store("/store", how).root<plant>("plant");
  cache::options cached;
  cached.memory = how.memory;
  constexpr std::size_t large = 5 * small_zone / 2 / 8;
  {
    cache::store s("/store", cached);
    auto tx = s.begin();  // more blocks than are looked at when one is needed
    for (std::uint64_t n = 0; n < 1500; ++n)
      s.root<plant>("plant").change().notes.emplace(n, tenure::string(std::string(3000, 'n')));
    s.root<plant>("plant").change().numbers.resize(large, 1);
    for (std::uint64_t n = 2000; n < 2100; ++n)  // behind it
      s.root<plant>("plant").change().notes.emplace(n, tenure::string(std::string(3000, 'n')));
    tx.commit();
    s.close();
  }
  {
    cache::store s("/store", cached);
    auto tx = s.begin();
    s.root<plant>("plant").change().numbers.clear();
    s.root<plant>("plant").change().numbers.shrink_to_fit();
    tx.commit();
    auto another = s.begin();
    s.root<plant>("plant").change().numbers.resize(large, 2);
    for (std::uint64_t n = 1500; n < 1700; ++n)
      s.root<plant>("plant").change().notes.emplace(n, tenure::string(std::string(3000, 'm')));
    another.commit();
    s.close();
  }
  store s("/store", how);
  expect_sound(s);
  const plant& all = s.root<plant>("plant");
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(all.numbers, 2u)), large);
  EXPECT_EQ(all.notes.size(), 1800u);
}

TEST(cache_making_model, a_crash_anywhere) {
  for (std::uint64_t seed = 100; seed < 100 + rvm::testing::scaled(30); ++seed) {
    making_workload work(seed);
    for (int round = 0; round < 6; ++round) {
      work.use_cache(10);
      work.crash(1 + work.draw(200), [&] { work.use_cache(40); });
      work.expect_a_committed_state();
      if (HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", round " << round;
        return;
      }
    }
  }
}

}  // namespace
