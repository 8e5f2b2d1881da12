// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions in transactions of a store. Random ones are in heap_models/random_test.cpp and crash_test.cpp.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/mechanisms.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace inner_test_types {

struct item {
  std::uint64_t number;
  item* next;
  tenure::string text;
  transient<std::uint64_t> scratch;
};
struct large_item {
  char bytes[100'000];
};
struct first_used_inside {
  std::uint64_t number;
  first_used_inside* next;
};
struct second_used_inside {
  double number;
  item* next;
};
struct shelf {
  tenure::vector<item*> all;
  item* one;
  first_used_inside* other;
  second_used_inside* another;
  large_item* large;
  transient<std::uint64_t> scratch;
};
struct plain_item {
  std::uint64_t number, pad[5];
};
struct plain_shelf {
  tenure::vector<plain_item*> all;
};
struct watching {
  tenure::vector<weak<item>> all;
  finalization_queue<item> queue;
};

}  // namespace inner_test_types
using namespace inner_test_types;

namespace {

const std::string long_text = "a text that is too long to lie in the string itself";

class inner_transactions : public reopened_store {
 protected:
  inner_transactions() { find(); }
  void find() { h = &s().root<shelf>("shelf"); }
  item* make(std::uint64_t number) {
    item* const made = s().make<item>();
    made->number = number;
    made->text = long_text;
    return made;
  }
  template <class F>
  void aborted(F&& f) {
    EXPECT_THROW(s().transact([&] {
      f();
      throw std::runtime_error("no");
    }),
                 std::runtime_error);
    expect_invariants(s());
  }
  shelf* h;
};

class inner_in_plain_store : public reopened_store {
 protected:
  tenure::vector<plain_item*>& all() { return s().root<plain_shelf>("shelf").all; }
  plain_item* make(std::uint64_t number) {
    auto* const made = s().make<plain_item>();
    made->number = number;
    std::ranges::fill(made->pad, number);
    return made;
  }
};

class inner_by_mechanism : public inner_transactions, public ::testing::WithParamInterface<rvm::tracking_mechanism> {
 protected:
  inner_by_mechanism() {
    s().close();
    how.mechanism = GetParam();
    open();
    find();
  }
};

}  // namespace

// --- Bytes ----------------------------------------------------------------------------------------------------------------

// [heap.inner.bytes]
TEST_P(inner_by_mechanism, bytes_of_persistent_objects_are_put_back) {
  s().transact([&] {
    h->one = make(1);
    h->one->scratch = 10;
    for (int n = 0; n < 300; ++n) h->all.push_back(make(100));
  });
  s().transact([&] {
    h->one->number = 2;
    h->one->scratch = 20;
    h->all[7]->number = 102;
    aborted([&] {
      h->one->number = 3;
      h->one->scratch = 30;
      h->one->text = "other";
      h->all[7]->number = 100;  // as it is committed
      h->all[200]->number = 103;
      h->all.clear();
    });
    EXPECT_EQ(h->one->number, 2U);
    EXPECT_EQ(h->one->scratch, 20U);
    EXPECT_EQ(h->one->text, long_text.c_str());
    ASSERT_EQ(h->all.size(), 300U);
    EXPECT_EQ(h->all[7]->number, 102U);
    EXPECT_EQ(h->all[200]->number, 100U);
    s().transact([&] { h->all[200]->number = 104; });
  });
  reopen();
  find();
  EXPECT_EQ(h->one->number, 2U);
  EXPECT_EQ(h->all[7]->number, 102U);
  EXPECT_EQ(h->all[200]->number, 104U);
}

TEST_P(inner_by_mechanism, bytes_of_new_objects_are_put_back) {
  transaction tx = s().begin();
  for (int n = 0; n < 500; ++n) h->all.push_back(make(static_cast<std::uint64_t>(n)));
  h->large = s().make<large_item>();
  h->large->bytes[99'999] = 'a';
  for (const bool commits : {false, true}) {
    transaction in = s().begin();
    for (item* each : h->all) each->number += 1000;
    h->all[3]->text += long_text.c_str();
    h->all[4]->scratch = 4;
    for (int n = 0; n < 500; ++n) h->all.push_back(make(0));
    h->large->bytes[99'999] = 'b';
    if (commits)
      in.commit();
    else
      in.abort();
    ASSERT_EQ(h->all.size(), commits ? 1000U : 500U);
    for (std::size_t n = 0; n < 500; ++n) EXPECT_EQ(h->all[n]->number, n + (commits ? 1000 : 0));
    EXPECT_EQ(h->all[3]->text.size(), long_text.size() * (commits ? 2 : 1));
    EXPECT_EQ(h->all[4]->scratch, commits ? 4U : 0U);
    EXPECT_EQ(h->large->bytes[99'999], commits ? 'b' : 'a');
    expect_sound(s());
  }
  tx.commit();
  reopen();
  find();
  EXPECT_EQ(h->all.size(), 1000U);
  EXPECT_EQ(h->all[499]->number, 1499U);
}

INSTANTIATE_TEST_SUITE_P(all, inner_by_mechanism, every_mechanism, mechanism_name);

// Objects that are older than the transaction, but become persistent with it.
TEST_F(inner_transactions, bytes_of_attached_objects_are_put_back) {
  const handle<item> loose = make(1), behind = make(2), by_a_new_one = make(3), alone = make(4);
  loose->next = behind.get();
  s().transact([&] {
    h->one = loose.get();
    h->all.push_back(make(5));
    h->all[0]->next = by_a_new_one.get();
    aborted([&] {
      for (const auto& each : {loose, behind, by_a_new_one, alone}) each->number += 10;
      behind->text += long_text.c_str();
    });
    EXPECT_EQ(loose->number, 1U);
    EXPECT_EQ(behind->number, 2U);
    EXPECT_EQ(behind->text, long_text.c_str());
    EXPECT_EQ(by_a_new_one->number, 3U);
    EXPECT_EQ(alone->number, 14U);  // nothing led to it: as with any abort
  });
  expect_sound(s());
  EXPECT_EQ(h->one->next->text, long_text.c_str());
}

TEST_F(inner_transactions, transient_fields_are_put_back) {
  s().transact([&] {
    h->scratch = 1;
    aborted([&] { h->scratch = 2; });
    EXPECT_EQ(h->scratch, 1U);
    s().transact([&] { h->scratch = 3; });
  });
  EXPECT_EQ(h->scratch, 3U);
}

// --- Births and destroyed objects -----------------------------------------------------------------------------------------

// [heap.inner.births]
TEST_F(inner_transactions, what_an_aborted_one_has_made_is_gone) {
  s().transact([&] {
    for (int n = 0; n < 20; ++n) h->all.push_back(make(1));
  });
  s().transact([&] {
    h->one = make(2);
    std::set<const void*> made;
    for (int round = 0; round < 50; ++round) {
      aborted([&] {
        for (int n = 0; n < 400; ++n) {
          item* const each = make(3);
          made.insert(each);
          h->all.push_back(each);
        }
        h->large = s().make<large_item>();
        made.insert(h->large);
      });
      for (const void* each : made) EXPECT_FALSE(s().is_persistent(each));
    }
    EXPECT_LT(made.size(), 4000U);  // of 20 050: the same memory
    expect_sound(s());
  });
  EXPECT_EQ(h->all.size(), 20U);
  EXPECT_EQ(h->large, nullptr);
  expect_sound(s());
}

TEST_F(inner_transactions, what_a_committed_one_has_made_is_the_outer_ones) {
  for (const bool commits : {false, true}) {
    transaction outer = s().begin();
    s().transact([&] {
      h->one = make(1);
      s().transact([&] { h->one->next = make(2); });
    });
    EXPECT_FALSE(s().is_persistent(h->one));
    if (commits)
      outer.commit();
    else
      outer.abort();
    if (!commits) {
      EXPECT_EQ(h->one, nullptr);
    }
    expect_sound(s());
  }
  reopen();
  find();
  EXPECT_EQ(h->one->next->number, 2U);
}

// What is left of them beside persistent objects is no change of these. With types of which all fields are logged: then whole
// pages are compared.
TEST_F(inner_in_plain_store, blocks_that_are_filled_again_stay_clean) {
  how.tune.refill = 100;
  s().transact([&] {
    for (std::uint64_t n = 0; n < 2000; ++n) all().push_back(make(n));
  });
  s().transact([&] {
    for (std::size_t n = 0; n < 2000; n += 2) {
      s().destroy(all()[n]);
      all()[n] = nullptr;
    }
  });
  reopen();
  const std::uint64_t before = s().stats().memory.bytes_logged;
  s().transact([&] {
    for (int round = 0; round < 3; ++round)
      EXPECT_THROW(s().transact([&] {
        for (std::size_t n = 0; n < 1600; n += 2) all()[n] = make(~std::uint64_t{0});
        throw std::runtime_error("no");
      }),
                   std::runtime_error);
    expect_sound(s());
    all()[0] = make(8);
  });
  EXPECT_LT(s().stats().memory.bytes_logged - before, 2000U);
  s().transact([&] {
    for (std::size_t n = 2; n < 2000; n += 2) all()[n] = make(9);
  });
  reopen();
  for (std::size_t n = 0; n < 2000; ++n) EXPECT_EQ(all()[n]->number, n == 0 ? 8U : n % 2 == 0 ? 9U : n);
}

TEST_F(inner_transactions, what_they_destroy_is_there_again) {
  s().transact([&] { h->one = make(1); });
  s().transact([&] {
    h->all.push_back(make(2));
    aborted([&] {
      s().destroy(h->one);
      s().destroy(h->all[0]);
      expect_error(errc::bad_free, {"already"}, [&] { s().destroy(h->one); });
    });
    EXPECT_EQ(h->one->text, long_text.c_str());
    EXPECT_EQ(h->all[0]->text, long_text.c_str());
    aborted([&] { s().transact([&] { s().destroy(h->one); }); });
    EXPECT_EQ(h->one->number, 1U);
  });
  expect_sound(s());
  EXPECT_EQ(s().stats().objects_destroyed, 0U);
  s().transact([&] {
    s().transact([&] {
      s().destroy(h->one);
      h->one = nullptr;
    });
    s().destroy(h->all[0]);
    aborted([&] { expect_error(errc::bad_free, {"already"}, [&] { s().destroy(h->all[0]); }); });
    h->all.clear();
  });
  EXPECT_GE(s().stats().objects_destroyed, 2U);
  expect_sound(s());
}

// A destructor of an object that the outer one has destroyed runs once.
TEST_F(inner_transactions, an_abort_leaves_destroyed_what_the_outer_one_has_destroyed) {
  s().transact([&] { h->one = make(1); });
  s().transact([&] {
    s().destroy(h->one);
    aborted([&] { h->all.push_back(make(2)); });
    expect_error(errc::bad_free, {"already"}, [&] { s().destroy(h->one); });
    h->one = nullptr;
  });
  EXPECT_GE(s().stats().objects_destroyed, 1U);
}

// Threads make objects meanwhile. What they make outside of the transaction stays.
TEST_F(inner_transactions, objects_of_other_threads_stay) {
  std::vector<handle<item>> theirs(8);
  s().transact([&] {
    h->one = make(1);
    aborted([&] {
      h->one->next = make(2);
      std::vector<std::thread> others;
      for (std::size_t t = 0; t < theirs.size(); ++t)
        others.emplace_back([&, t] {
          for (int n = 0; n < 200; ++n) theirs[t] = make(t);
        });
      for (auto& each : others) each.join();
    });
    EXPECT_EQ(h->one->next, nullptr);
  });
  for (std::size_t t = 0; t < theirs.size(); ++t) EXPECT_EQ(theirs[t]->number, t);
  s().transact([&] {
    for (const auto& each : theirs) h->all.push_back(each.get());
  });
  expect_sound(s());
}

// Another thread ends a transient object meanwhile, in a block of the transaction's.
TEST_F(inner_transactions, what_another_thread_has_ended_stays_so) {
  std::optional<tenure::string> text;
  s().transact([&] { text.emplace(long_text.c_str()); });
  const char* const was = text->data();
  EXPECT_NO_THROW((void)s().who_refers(was));
  s().transact([&] {
    std::vector<tenure::string> more(3, tenure::string(long_text.c_str()));
    aborted([&] {
      const std::vector<tenure::string> inside(3, tenure::string(long_text.c_str()));
      std::thread([&] { text.reset(); }).join();
    });
    expect_error(errc::bad_option, {}, [&] { (void)s().who_refers(was); });
  });
  expect_error(errc::bad_option, {}, [&] { (void)s().who_refers(was); });
}

TEST_F(inner_transactions, types_that_they_use_first) {
  s().transact([&] {
    aborted([&] { h->other = s().make<first_used_inside>(); });
    EXPECT_EQ(h->other, nullptr);
    s().transact([&] { h->another = s().make<second_used_inside>(); });
  });
  s().transact([&] { h->other = s().make<first_used_inside>(); });
  reopen();
  find();
  EXPECT_NE(h->other, nullptr);
  EXPECT_NE(h->another, nullptr);
}

// --- Roots, labels, weak references ---------------------------------------------------------------------------------------

TEST_F(inner_transactions, named_roots_are_as_before) {
  s().transact([&] { s().root<std::uint64_t>("old") = 1; });
  s().transact([&] {
    s().root<std::uint64_t>("outer") = 2;
    aborted([&] {
      for (int n = 0; n < 100; ++n) s().root<std::uint64_t>("inner " + std::to_string(n)) = 3;
      s().remove_root("old");
      s().remove_root("outer");
    });
    EXPECT_EQ(s().root_names().size(), 3U);
    EXPECT_EQ(s().find_root<std::uint64_t>("inner 5"), nullptr);
    EXPECT_EQ(*s().find_root<std::uint64_t>("old"), 1U);
    EXPECT_EQ(*s().find_root<std::uint64_t>("outer"), 2U);
    s().transact([&] {
      s().remove_root("old");
      s().root<std::uint64_t>("kept") = 4;
    });
    expect_error(errc::no_such_root, {"old"}, [&] { s().remove_root("old"); });
  });
  reopen();
  EXPECT_EQ(s().find_root<std::uint64_t>("old"), nullptr);
  EXPECT_EQ(*s().find_root<std::uint64_t>("kept"), 4U);
  EXPECT_EQ(s().root_names().size(), 3U);
}

// A root that cannot be had leaves the transaction as it is.
TEST_F(inner_transactions, a_refused_root_dooms_nothing) {
  (void)s().root<std::uint64_t>("number");
  s().transact([&] {
    h->one = make(1);
    expect_error(errc::wrong_type, {"number"}, [&] { (void)s().root<item>("number"); });
    expect_error(errc::no_such_root, {"none"}, [&] { s().remove_root("none"); });
  });
  EXPECT_EQ(h->one->number, 1U);
}

TEST_F(inner_transactions, labels_are_as_before) {
  store_state state(dir / "another", small_store());
  state.begin();
  state.label = "outer";
  const auto aborted_one = state.begin_inner();
  state.label = "inner";
  state.abort_inner(*aborted_one);
  EXPECT_EQ(state.label, "outer");
  const auto committed_one = state.begin_inner();
  state.label = "inner";
  state.commit_inner(*committed_one);
  EXPECT_EQ(state.label, "inner");
  (void)state.commit();
}

TEST_F(inner_transactions, weak_references_are_as_before) {
  watching& w = s().root<watching>("watching");
  s().transact([&] {
    h->one = make(1);
    h->all.push_back(make(2));
    w.all.emplace_back(h->all[0]);
  });
  s().transact([&] {
    aborted([&] {
      w.all.emplace_back(h->one);
      w.queue.watch(h->one);
      s().destroy(h->all[0]);
      EXPECT_EQ(w.all[0].lock(), nullptr);
    });
    ASSERT_EQ(w.all.size(), 1U);
    EXPECT_EQ(w.all[0].lock(), h->all[0]);
    s().transact([&] { w.all.emplace_back(h->one); });
    EXPECT_EQ(w.all[1].lock(), h->one);
  });
  s().transact([&] {
    s().destroy(h->one);
    h->one = nullptr;
    aborted([&] { w.all.pop_back(); });
  });
  EXPECT_EQ(w.all[0].lock(), h->all[0]);
  EXPECT_EQ(w.all[1].lock(), nullptr);
  expect_sound(s());
  EXPECT_EQ(s().collect({.roots = program_roots::handles}).finalization_messages, 0U);
}

// --- How they end ---------------------------------------------------------------------------------------------------------

TEST_F(inner_transactions, go_as_deep_as_wanted) {
  transaction outer = s().begin();
  h->one = make(1000);
  std::vector<transaction> levels;
  for (std::uint64_t n = 0; n < 60; ++n) {
    h->one->number = 1000 + n;
    h->all.push_back(make(n));
    levels.push_back(s().begin());
  }
  h->one->number = 1;
  expect_invariants(s());
  for (std::size_t n = 60; n-- > 20;) {
    if (n % 3 == 0)
      levels.back().commit();
    else
      levels.back().abort();
    levels.pop_back();
    expect_invariants(s());
  }
  EXPECT_EQ(h->all.size(), 21U);
  EXPECT_EQ(h->one->number, 1020U);
  while (!levels.empty()) {
    levels.back().commit();
    levels.pop_back();
  }
  outer.commit();
  reopen();
  find();
  ASSERT_EQ(h->all.size(), 21U);
  for (std::size_t n = 0; n < 21; ++n) EXPECT_EQ(h->all[n]->number, n);
}

// [heap.inner.outermost]
TEST_F(inner_transactions, nothing_is_committed_before_the_outermost_one) {
  item elsewhere{};
  const std::uint64_t before = s().stats().commits;
  transaction outer = s().begin();
  s().transact([&] { h->one = &elsewhere; });  // what refers to it can still be changed
  EXPECT_EQ(s().stats().commits, before);
  expect_error(errc::cannot_persist, {"one"}, [&] { outer.commit(); });
  aborted([&] { h->one = make(1); });
  EXPECT_EQ(h->one, &elsewhere);
  expect_error(errc::cannot_persist, {"one"}, [&] { outer.commit(); });
  s().transact([&] { h->one = make(2); });
  outer.commit();
  EXPECT_EQ(s().stats().commits, before + 1);
  EXPECT_EQ(h->one->number, 2U);
}

TEST_F(inner_transactions, end_before_the_outer_one) {
  transaction outer = s().begin(), first = s().begin(), second = s().begin();
  h->one = make(1);
  expect_error(errc::bad_transaction, {"open one in it", path}, [&] { first.commit(); });
  expect_error(errc::bad_transaction, {"2 inner transactions are open", path}, [&] { outer.commit(); });
  expect_error(errc::bad_transaction, {"2 inner transactions are open"}, [&] { outer.checkpoint(); });
  expect_error(errc::bad_transaction, {"2 inner transactions are open"}, [&] { outer.chain(); });
  expect_error(errc::bad_transaction, {"inner transaction cannot make a checkpoint", path},
               [&] { second.checkpoint(); });
  expect_error(errc::bad_transaction, {"inner transaction cannot be chained", path}, [&] { second.chain(); });
  EXPECT_TRUE(second.is_open());
  second.commit();
  expect_error(errc::bad_transaction, {"ended"}, [&] { second.commit(); });
  first.abort();
  expect_error(errc::bad_transaction, {"ended"}, [&] { first.abort(); });
  outer.checkpoint();
  EXPECT_EQ(h->one, nullptr);
  s().transact([&] { h->one = make(2); });
  outer.commit();
  EXPECT_EQ(h->one->number, 2U);
}

TEST_F(inner_transactions, end_with_the_outer_one) {
  std::optional<transaction> outer = s().begin(), first = s().begin(), second = s().begin();
  h->one = make(1);
  first->abort();  // with those in it
  EXPECT_FALSE(second->is_open());
  EXPECT_EQ(h->one, nullptr);
  expect_error(errc::bad_transaction, {"ended"}, [&] { second->abort(); });
  first = s().begin();
  second = s().begin();
  h->one = make(2);
  outer.reset();
  EXPECT_FALSE(first->is_open());
  EXPECT_FALSE(second->is_open());
  EXPECT_EQ(h->one, nullptr);
  outer = s().begin();
  EXPECT_FALSE(first->is_open());
  first = s().begin();
  h->one = make(3);
  first = {};
  outer->commit();
  EXPECT_EQ(h->one, nullptr);
  second.reset();  // ended long ago
  expect_invariants(s());
}

TEST_F(inner_transactions, one_that_outlives_its_store_finds_it_closed) {
  transaction outer, in, ended;
  {
    store other(dir / "other", small_store());
    outer = other.begin();
    ended = other.begin();
    ended.abort();
    in = other.begin();
    other.root<std::uint64_t>("number") = 1;
  }
  EXPECT_TRUE(in.is_open());
  expect_error(errc::closed, {"other"}, [&] { in.commit(); });
  in = {};
  outer = {};
  store again(dir / "other", small_store());
  EXPECT_EQ(again.find_root<std::uint64_t>("number"), nullptr);
}

TEST_F(inner_transactions, belong_to_their_thread) {
  transaction outer = s().begin();
  {
    std::optional<transaction> in = s().begin();
    h->one = make(1);
    std::thread([&] {
      expect_error(errc::bad_transaction, {"this thread"}, [&] { in->commit(); });
      expect_error(errc::bad_transaction, {"this thread"}, [&] { in->abort(); });
    }).join();
    in->commit();
  }
  outer.commit();
  EXPECT_EQ(h->one->number, 1U);
}

TEST_F(inner_transactions, several_stores_have_their_own) {
  store other(dir / "other", small_store());
  shelf& there = other.root<shelf>("shelf");
  s().transact([&] {
    h->one = make(1);
    other.transact([&] {
      there.all.push_back(other.make<item>());
      EXPECT_THROW(s().transact([&] {
        h->one->number = 2;
        other.transact([&] { there.all.push_back(other.make<item>()); });
        throw std::runtime_error("no");
      }),
                   std::runtime_error);
      EXPECT_EQ(there.all.size(), 2U);
      EXPECT_EQ(h->one->number, 1U);
    });
  });
  expect_sound(other);
}

// One that cannot be undone.
TEST_F(inner_transactions, that_cannot_be_undone_doom_the_outer_one) {
  store_state state(dir / "another", small_store());
  database_state& in = state.databases->front();
  state.begin();
  const auto outer = state.begin_inner(), inner = state.begin_inner();
  in.add_root("root", in.make_array<char>(1));
  (void)state.tx.collect_changes();  // from now on nothing can be compared
  state.drop_inner(*inner);
  EXPECT_TRUE(state.doomed);
  EXPECT_FALSE(*outer);
  EXPECT_FALSE(*inner);
  state.tx.discard_changes();
  state.check();
  expect_error(errc::doomed, {"another"}, [&] { (void)state.commit(); });
  expect_error(errc::doomed, {"another"}, [&] { (void)state.begin_inner(); });
  state.abort();
  EXPECT_EQ(in.find_root("root"), nullptr);
  state.check();
  state.begin();
  (void)state.commit();
}
