// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What inner transactions leave behind, and what they leave alone.
#include <cstdint>
#include <stdexcept>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "store/store_state.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace inner_remains_types {

struct item {
  std::uint64_t number;
  item* next;
};
struct shelf {
  tenure::vector<item*> all;
  tenure::vector<weak<item>> weak_ones;
  finalization_queue<item> queue;
};

}  // namespace inner_remains_types
using namespace inner_remains_types;

namespace {

class remains_of_inner_transactions : public reopened_store {
 protected:
  template <class F>
  void aborted(F&& f) {
    EXPECT_THROW(s().transact([&] {
      f();
      throw std::runtime_error("no");
    }),
                 std::runtime_error);
  }
  [[nodiscard]] static bool is_led_to(const item* object) {
    return store_at(object)->weak.leads_to(reinterpret_cast<heap::address>(object));
  }
  shelf* h = &s().root<shelf>("shelf");
};

}  // namespace

// What leads to an object is listed, and was listed once more by each attempt.
TEST_F(remains_of_inner_transactions, weak_references_that_were_taken_back_lead_nowhere) {
  s().transact([&] { h->all = {s().make<item>(), s().make<item>()}; });
  const auto make_both = [&] {
    h->weak_ones.emplace_back(h->all[0]);
    h->queue.watch(h->all[0]);
  };
  s().transact([&] {
    aborted(make_both);
    EXPECT_FALSE(is_led_to(h->all[0]));
    h->weak_ones.emplace_back(h->all[1]);
    aborted([&] { s().transact(make_both); });
    EXPECT_FALSE(is_led_to(h->all[0]));
    EXPECT_TRUE(is_led_to(h->all[1]));
  });
  aborted(make_both);
  EXPECT_FALSE(is_led_to(h->all[0]));
  s().transact(make_both);
  EXPECT_TRUE(is_led_to(h->all[0]));
}

TEST_F(remains_of_inner_transactions, weak_references_to_destroyed_objects_are_forgotten) {
  s().transact([&] {
    h->all = {s().make<item>()};
    h->weak_ones.emplace_back(h->all[0]);
  });
  item* const gone = h->all[0];
  s().transact([&] {
    s().destroy(gone);
    h->all.clear();
  });
  EXPECT_EQ(h->weak_ones[0].lock(), nullptr);
  EXPECT_FALSE(is_led_to(gone));
}

// Another thread may have them.
TEST_F(remains_of_inner_transactions, what_only_destroyed_objects_lead_to_keeps_what_was_written) {
  s().transact([&] { h->all = {s().make<item>()}; });
  const handle<item> by_an_array = s().make<item>(), by_a_new_one = s().make<item>(), by_an_old_one = s().make<item>();
  s().transact([&] {
    h->all.resize(1000, by_an_array.get());
    h->all.resize(1);
    h->all.shrink_to_fit();
    item* const made = s().make<item>();
    made->next = by_a_new_one.get();
    s().destroy(made);
    h->all[0]->next = by_an_old_one.get();
    s().destroy(h->all[0]);
    h->all.clear();
    aborted([&] {
      for (const auto& each : {by_an_array, by_a_new_one, by_an_old_one}) each->number = 1;
    });
    for (const auto& each : {by_an_array, by_a_new_one, by_an_old_one}) EXPECT_EQ(each->number, 1U);
  });
}
