// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collection of closed stores: what roots lead to stays, the rest goes, whatever happens meanwhile. An independent search,
// reachable_objects, says what must be left.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/collect.hpp>
#include <tenure/tenure.hpp>

#include "objects/object_walk.hpp"
#include "os/system_error.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace collect_test_types {

struct node {
  std::uint64_t id;
  node* edges[3];
  std::optional<node*> maybe;
  tenure::string name;
  tenure::vector<node*> row;
  tenure::map<std::uint64_t, node*> by_id;
  tenure::hash_map<std::uint64_t, node*> hashed;
  tenure::std_map<std::uint64_t, node*> std_by_id;
  transient<node*> scratch;
  weak<node> hint;
};
struct graph {
  tenure::vector<node*> entries;
  finalization_queue<node> messages;
  char* bytes;
  std::uint64_t* inside;  // of an array
};
struct large {
  char bytes[300'000];
};
struct of_one_block {
  char bytes[9'000];
  of_one_block* to;
};
// A class that lists nothing: its words are taken for pointers.
class opaque {
 public:
  opaque() = default;
  void set(node* to) { to_ = to; }
  [[nodiscard]] node* get() const { return to_; }

 private:
  node* to_ = nullptr;
  std::uint64_t other_ = 0;
};
struct numbers {
  std::uint64_t all[100];
};

}  // namespace collect_test_types
using namespace collect_test_types;

namespace {

store_options options_on(sim::disk& disk) {
  store_options how = small_store();
  how.memory.disk = &disk;
  how.memory.background = false;
  return how;
}

collect_options collecting(sim::disk& disk, std::uint64_t at_once = 50'000) {
  return {.objects_at_once = at_once, .markers = static_cast<std::uint32_t>(at_once % 3 + 1), .disk = &disk};
}

class collecting_a_store : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() { opened.emplace("/store", how); }
  void close() {
    expect_sound(*opened);
    opened->close();
    opened.reset();
  }
  collect_report collect_closed(std::uint64_t at_once = 50'000) {
    close();
    const collect_report dry = collect("/store", {.dry_run = true, .disk = &disk});
    collect_report report = collect("/store", collecting(disk, at_once));
    EXPECT_EQ(dry.garbage, report.garbage);
    EXPECT_EQ(dry.garbage_bytes, report.garbage_bytes);
    EXPECT_EQ(dry.kept, report.kept);
    EXPECT_EQ(dry.transactions, 0U);
    EXPECT_EQ(collect("/store", collecting(disk)).garbage, 0U) << "something was left";
    open();
    expect_sound(*opened);
    return report;
  }
  [[nodiscard]] std::uint64_t of_type(const collect_report& report, const std::string& name) const {
    for (const type_count& each : report.types)
      if (each.type.ends_with(name)) return each.objects;
    return 0;
  }

  sim::disk disk;
  store_options how = options_on(disk);
  std::optional<store> opened;
};

TEST_F(collecting_a_store, without_garbage_changes_nothing) {
  const collect_report report = collect_closed();
  EXPECT_EQ(report.garbage, 0U);
  EXPECT_EQ(report.transactions, 0U);
  EXPECT_GT(report.kept, 0U);  // the tables of the store
}

TEST_F(collecting_a_store, takes_cycles_and_what_containers_held) {
  graph& g = opened->root<graph>("graph");
  opened->transact([&] {
    for (std::uint64_t n = 0; n < 100; ++n) {
      node* const a = opened->make<node>();
      node* const b = opened->make<node>();
      a->id = n;
      a->edges[0] = b;
      b->edges[1] = a;
      a->name = "a name that is too long for the string itself " + std::to_string(n);
      a->row.push_back(b);
      a->by_id[n] = b;
      a->hashed[n] = b;
      a->std_by_id[n] = b;
      g.entries.push_back(a);
    }
  });
  EXPECT_EQ(collect_closed().garbage, 0U);
  graph& again = opened->root<graph>("graph");
  opened->transact([&] { again.entries.resize(40); });
  const collect_report report = collect_closed(7);
  EXPECT_EQ(of_type(report, "::node"), 120U);
  EXPECT_GT(report.garbage, 120U + 60 * 4);  // and what their containers held
  EXPECT_GT(report.transactions, 3U);        // whole blocks at a time
  const graph& left = *opened->find_root<graph>("graph");
  ASSERT_EQ(left.entries.size(), 40U);
  for (std::uint64_t n = 0; n < 40; ++n) {
    node* const a = left.entries[n];
    EXPECT_EQ(a->id, n);
    EXPECT_EQ(a->edges[0]->edges[1], a);
    EXPECT_TRUE(a->name.ends_with(" " + std::to_string(n)));
    EXPECT_EQ(a->row[0], a->edges[0]);
    EXPECT_EQ(a->by_id.at(n), a->edges[0]);
    EXPECT_EQ(a->hashed.at(n), a->edges[0]);
    EXPECT_EQ(a->std_by_id.at(n), a->edges[0]);
  }
}

TEST_F(collecting_a_store, keeps_what_pointers_inside_of_objects_mean) {
  graph& g = opened->root<graph>("graph");
  opened->transact([&] {
    large* const one = opened->make<large>();
    one->bytes[299'999] = 'x';
    g.bytes = one->bytes + 200'000;
    numbers* const row = opened->make<numbers>();
    row->all[50] = 7;
    g.inside = &row->all[50];
    (void)opened->make<large>();  // transient: was never persistent
  });
  EXPECT_EQ(collect_closed().garbage, 0U);
  graph& again = opened->root<graph>("graph");
  EXPECT_EQ(again.bytes[99'999], 'x');
  EXPECT_EQ(*again.inside, 7U);
  opened->transact([&] {
    again.bytes = nullptr;
    again.inside = nullptr;
  });
  const collect_report report = collect_closed(1);
  EXPECT_EQ(of_type(report, "::large"), 1U);
  EXPECT_EQ(of_type(report, "::numbers"), 1U);
  EXPECT_EQ(report.garbage, 2U);
  EXPECT_GT(report.garbage_bytes, 300'000U);
}

TEST_F(collecting_a_store, keeps_what_words_of_unknown_layout_could_mean) {
  opaque& unknown = opened->root<opaque>("unknown");
  (void)opened->root<opaque>("end");
  opened->transact([&] {
    unknown.set(opened->make<node>());
    unknown.get()->id = 5;
    unknown.get()->edges[2] = opened->make<node>();
    numbers* const array = opened->make<numbers>();
    array->all[0] = 9;
    opened->root<opaque>("end").set(reinterpret_cast<node*>(array + 1));
  });
  EXPECT_EQ(collect_closed().garbage, 0U);
  EXPECT_EQ(opened->root<opaque>("unknown").get()->id, 5U);
  EXPECT_EQ(reinterpret_cast<numbers*>(opened->root<opaque>("end").get())[-1].all[0], 9U);
}

TEST_F(collecting_a_store, follows_references_between_databases) {
  database other = opened->create_database("other", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  graph& g = opened->root<graph>("graph");
  opened->transact([&] {
    for (int n = 0; n < 10; ++n) {
      node* const there = other.make<node>();
      there->edges[0] = opened->make<node>();
      g.entries.push_back(there);
    }
  });
  EXPECT_EQ(collect_closed().garbage, 0U);
  graph& again = opened->root<graph>("graph");
  opened->transact([&] { again.entries.resize(3); });
  EXPECT_EQ(of_type(collect_closed(), "::node"), 14U);
  EXPECT_NE(opened->root<graph>("graph").entries[2]->edges[0], nullptr);
}

TEST_F(collecting_a_store, takes_what_a_removed_root_led_to) {
  graph& g = opened->root<graph>("gone");
  opened->transact([&] { g.entries.push_back(opened->make<node>()); });
  opened->transact([&] { opened->remove_root("gone"); });
  const collect_report report = collect_closed();
  EXPECT_EQ(of_type(report, "::node"), 1U);
  EXPECT_EQ(of_type(report, "::graph"), 1U);
}

TEST_F(collecting_a_store, space_is_used_again) {
  std::uint64_t length = 0;
  for (int round = 0; round < 20; ++round) {
    graph& g = opened->root<graph>("graph");
    opened->transact([&] {
      g.entries.clear();
      for (int n = 0; n < 5'000; ++n) g.entries.push_back(opened->make<node>());
    });
    EXPECT_EQ(of_type(collect_closed(), "::node"), round == 0 ? 0U : 5'000U);
    const std::uint64_t now = disk.open("/store/main.db", os::access::read_only)->size();
    if (round == 3) length = now;
    if (round > 3) {
      EXPECT_LE(now, 2 * length) << round;
    }
  }
}

// One commit cannot free so many blocks at once: what it changes of each is more than the log has room for.
TEST(collecting, does_with_a_log_that_cannot_grow) {
  sim::disk disk;
  store_options how = options_on(disk);
  how.memory.log.size = how.memory.log.max_size = 64 << 10;
  how.tune.bulk = 4 << 10;
  constexpr std::uint64_t objects = 4'000;
  {
    store s("/store", how);
    tenure::vector<of_one_block*>& all = s.root<tenure::vector<of_one_block*>>("all");
    for (std::uint64_t n = 0; n < objects; ++n) s.transact([&] { all.push_back(s.make<of_one_block>()); });
    s.transact([&] { all.clear(); });
    s.close();
  }
  const collect_report report = collect("/store", collecting(disk));
  EXPECT_GE(report.garbage, objects);
  EXPECT_GT(report.transactions, 1U);
  EXPECT_EQ(collect("/store", collecting(disk)).garbage, 0U);
  store s("/store", how);
  expect_sound(s);
}

// What is destroyed is counted by its headers: a wrong one must not make a block seem empty.
TEST_F(collecting_a_store, refuses_garbage_that_is_damaged) {
  (void)opened->root<opaque>("kept");
  const auto* const gone = reinterpret_cast<const std::byte*>(&opened->root<opaque>("gone"));
  const std::uint64_t offset =
      static_cast<std::uint64_t>(gone - reinterpret_cast<std::byte*>(opened->default_database().home()));
  opened->transact([&] { opened->remove_root("gone"); });
  close();
  const std::uint64_t header = rvm::read_segment_header(disk, "/store/main.db").data_offset + offset - 4;
  for (const std::uint32_t size : {32U, 10'000U, 0U}) {
    disk.open("/store/main.db", os::access::read_write)->write_at(header, std::as_bytes(std::span(&size, 1)));
    for (const bool dry_run : {true, false})
      expect_error(errc::damaged, {"/store/main.db", "block", "nothing was collected"},
                   [&] { (void)collect("/store", {.dry_run = dry_run, .disk = &disk}); });
  }
}

// Nobody knows what it refers to.
TEST_F(collecting_a_store, refuses_what_is_kept_and_damaged) {
  const auto* const kept = reinterpret_cast<const std::byte*>(&opened->root<opaque>("kept"));
  const std::uint64_t offset =
      static_cast<std::uint64_t>(kept - reinterpret_cast<std::byte*>(opened->default_database().home()));
  close();
  const std::uint64_t header = rvm::read_segment_header(disk, "/store/main.db").data_offset + offset - 8;
  const std::uint32_t unknown = 0xfffff;  // type
  disk.open("/store/main.db", os::access::read_write)->write_at(header, std::as_bytes(std::span(&unknown, 1)));
  for (const std::uint32_t markers : {1U, 3U})
    for (const bool dry_run : {true, false})
      expect_error(errc::damaged, {"/store", os::hexadecimal(kept), "is damaged; nothing was collected", "verify"},
                   [&] { (void)collect("/store", {.dry_run = dry_run, .markers = markers, .disk = &disk}); });
}

TEST_F(collecting_a_store, refuses_one_that_is_in_use_or_not_there) {
  expect_error(errc::in_use, {"/store"}, [&] { (void)collect("/store", collecting(disk)); });
  expect_error(std::errc::no_such_file_or_directory, {"/nothing"},
               [&] { (void)collect("/nothing", collecting(disk)); });
  expect_error(errc::bad_option, {"objects_at_once"}, [&] { (void)collect("/store", collecting(disk, 0)); });
  for (const std::uint32_t markers : {0U, 65U})
    expect_error(errc::bad_option, {"markers is " + std::to_string(markers)},
                 [&] { (void)collect("/store", {.markers = markers, .disk = &disk}); });
}

// Only then would a program that looks for references to what it destroys find those of garbage. [heap.garbage.opaque]
TEST_F(collecting_a_store, garbage_that_is_left_is_in_nobodys_way) {
  auto& all = opened->root<tenure::vector<of_one_block*>>("all");
  opened->transact([&] {
    for (int n = 0; n < 2; ++n) all.push_back(opened->make<of_one_block>());
  });
  of_one_block* const gone = std::min(all[0], all[1]);
  of_one_block* const left = std::max(all[0], all[1]);
  opened->transact([&] {
    left->to = gone;
    all.clear();
  });
  close();
  collect_options interrupted = collecting(disk, 1);
  interrupted.on_progress = [](const rvm::progress& p) {
    if (p.phase == std::string("sweeping")) throw std::runtime_error("interrupted");
  };
  EXPECT_THROW((void)collect("/store", interrupted), std::runtime_error);
  how.check_destroyed = destroy_check::always;
  open();
  EXPECT_TRUE(opened->is_persistent(left));
  EXPECT_FALSE(opened->is_persistent(gone));
  auto& again = opened->root<tenure::vector<of_one_block*>>("all");
  opened->transact([&] {
    for (int n = 0; n < 200 && (again.empty() || again.back() != gone); ++n)
      again.push_back(opened->make<of_one_block>());
  });
  ASSERT_EQ(again.back(), gone);
  opened->transact([&] {
    again.pop_back();
    opened->destroy(gone);
  });
  expect_sound(*opened);
}

// --- Crashes -----------------------------------------------------------------------------------------------------------

struct shape {
  std::map<std::uint64_t, std::vector<std::uint64_t>> edges;
  std::vector<std::uint64_t> entries;
  bool operator==(const shape&) const = default;
};

shape shape_of(const graph& g) {
  shape all;
  std::vector<const node*> order;
  const auto see = [&](const node* n) {
    if (n != nullptr && all.edges.try_emplace(n->id).second) order.push_back(n);
    return n == nullptr ? 0 : n->id;
  };
  for (const node* n : g.entries) all.entries.push_back(see(n));
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::vector<std::uint64_t> to;
    for (const node* e : order[i]->edges) to.push_back(see(e));
    for (const node* e : order[i]->row) to.push_back(see(e));
    for (const auto& [id, e] : order[i]->by_id) to.push_back(see(e));
    all.edges[order[i]->id] = to;
  }
  return all;
}

// A graph in which much was cut off, closed. `watched`: one of so many nodes is; 0: none.
shape make_garbage(sim::disk& disk, std::uint64_t seed, std::size_t nodes, std::size_t watched = 0) {
  store s("/store", options_on(disk));
  graph& g = s.root<graph>("graph");
  std::mt19937_64 draw(seed);
  std::uint64_t ids = 0;
  std::vector<node*> all;
  for (int round = 0; round < 4; ++round)
    s.transact([&] {
      std::vector<node*> made;
      for (std::size_t n = 0; n < nodes; ++n) {
        made.push_back(s.make<node>());
        all.push_back(made.back());
        node& one = *made.back();
        one.id = ++ids;
        if (draw() % 3 == 0) one.name = std::string(draw() % 90, 'n');
        for (node*& e : one.edges)
          if (draw() % 2 == 0) e = made[draw() % made.size()];
        for (std::uint64_t more = draw() % 4; more > 0; --more) one.row.push_back(made[draw() % made.size()]);
        if (draw() % 4 == 0) one.by_id[draw() % 100] = made[draw() % made.size()];
        if (draw() % 3 == 0) one.hint = weak(all[draw() % all.size()]);
        if (watched != 0 && draw() % watched == 0) g.messages.watch(&one);
        if (draw() % 5 == 0 && !g.entries.empty()) one.edges[0] = g.entries[draw() % g.entries.size()];
      }
      for (node* n : made)
        if (draw() % 8 == 0) g.entries.push_back(n);
      while (g.entries.size() > nodes / 8) {
        g.entries[draw() % g.entries.size()] = g.entries.back();
        g.entries.pop_back();
      }
    });
  const shape left = shape_of(g);
  s.close();
  return left;
}

// By another search than the collection's.
std::uint64_t count_reachable(sim::disk& disk) {
  store_options how = options_on(disk);
  how.mode = rvm::open_mode::read_only;
  const store_state opened("/store", how);
  heap::reachable_objects all(*opened.databases);
  all.search();
  return all.count();
}

void expect_shape(sim::disk& disk, const shape& expected) {
  store s("/store", options_on(disk));
  expect_sound(s);
  EXPECT_EQ(shape_of(*s.find_root<graph>("graph")), expected);
  // New objects are made where others were.
  graph& g = s.root<graph>("graph");
  s.transact([&] {
    for (int n = 0; n < 50; ++n) {
      node* const one = s.make<node>();
      EXPECT_EQ(one->id, 0U);
      EXPECT_EQ(one->edges[0], nullptr);
      g.entries.push_back(one);
    }
  });
  expect_sound(s);
  s.transact([&] { g.entries.resize(g.entries.size() - 50); });
}

TEST(collect_model, keeps_the_graph_whatever_it_is) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    sim::disk disk;
    const shape expected = make_garbage(disk, seed, 60 * seed);
    const std::uint64_t reachable = count_reachable(disk);
    const collect_report report = collect("/store", collecting(disk, 1 + seed * 5));
    EXPECT_EQ(report.kept, reachable);
    EXPECT_GT(report.garbage, 10U);
    EXPECT_EQ(count_reachable(disk), reachable);
    EXPECT_EQ(report.types.empty(), false);
    expect_shape(disk, expected);
    EXPECT_GE(collect("/store", collecting(disk)).garbage, 50U);  // those of expect_shape
  }
}

// [heap.garbage.opaque]
TEST(collect_model, a_crash_at_any_operation_leaves_the_graph) {
  std::uint64_t operations = 0;
  sim::disk made;
  const shape expected = make_garbage(made, 3, 200, 4);
  {
    const auto disk = made.crash(0, sim::policy::keep_all);
    const std::uint64_t before = disk->operations();
    const collect_report report = collect("/store", collecting(*disk, 20));
    EXPECT_GT(report.weak_cleared, 3U);
    EXPECT_GT(report.finalization_messages, 3U);
    EXPECT_GT(report.garbage, 20U);
    operations = disk->operations() - before;
  }
  ASSERT_GT(operations, 20U);
  for (std::uint64_t n = 1; n <= operations; ++n) {
    SCOPED_TRACE(n);
    const auto disk = made.crash(0, sim::policy::keep_all);
    disk->crash_at(disk->operations() + n);
    try {
      (void)collect("/store", collecting(*disk, 20));
    } catch (const sim::power_failure&) {
    }
    const auto left = disk->crash(n, n % 3 == 0   ? sim::policy::drop_all
                                     : n % 3 == 1 ? sim::policy::keep_all
                                                  : sim::policy::random);
    {
      store s("/store", options_on(*left));
      expect_sound(s);
      EXPECT_EQ(shape_of(*s.find_root<graph>("graph")), expected);
    }
    (void)collect("/store", collecting(*left, 20));
    expect_shape(*left, expected);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
