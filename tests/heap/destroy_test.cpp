// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What may be destroyed, what a commit says of references that are left, and memory that is used again.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/expect_error.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace destroy_test_types {

struct item {
  std::uint64_t number;
  item* other;
};
struct animal {
  virtual ~animal() = default;
  std::uint64_t legs = 4;
  static constexpr auto persistent = members<&animal::legs>{};
};
struct dog final : animal {
  animal flea;
  static constexpr auto persistent = bases<animal>{} + members<&dog::flea>{};
};
struct cage {
  animal first;
  std::uint64_t number = 0;
};
struct holder {
  item inner;
  tenure::vector<item> many;
  tenure::vector<item*> items;
  item* one;
};
struct alignas(16384) aligned {
  char bytes[100];
};
struct by_number {
  bool operator()(const item* a, const item* b) const { return a->number < b->number; }
};
struct indexes {
  tenure::ordered_index<std::uint64_t, item*> by_day;
  tenure::ordered_index<tenure::string, item*> by_text;
  tenure::set<item*, by_number> all;
  tenure::multiset<item*, by_number> equal;
  tenure::map<item*, std::uint64_t, by_number> days;
};

}  // namespace destroy_test_types
using namespace destroy_test_types;

class destroying : public reopened_store {
 protected:
  holder& root() { return s().root<holder>("holder"); }
};

TEST_F(destroying, what_lies_inside_an_object_is_refused) {
  holder& h = root();
  s().transact([&] {
    h.one = s().make<item>();
    h.many.resize(100);
  });
  transaction tx = s().begin();
  expect_error(errc::bad_free, {"cannot destroy", "lies at the start of"}, [&] { s().destroy(&h.inner); });
  expect_error(errc::bad_free, {"cannot destroy", "lies inside"}, [&] { s().destroy(&h.one->other); });
  expect_error(errc::bad_free, {"cannot destroy", "lies at the start of"}, [&] { s().destroy(&h.one->number); });
  expect_error(errc::bad_free, {"cannot destroy", "first element"}, [&] { s().destroy(&h.many[0]); });
  expect_error(errc::bad_free, {"cannot destroy", "lies inside"}, [&] { s().destroy(&h.many[50]); });
  s().destroy(std::exchange(h.one, nullptr));
  tx.commit();
  EXPECT_EQ(h.many.size(), 100u);
}

TEST_F(destroying, members_with_virtual_functions_are_no_objects_of_their_own) {
  transaction tx = s().begin();
  auto* const d = s().make<dog>();
  auto* const c = s().make<cage>();
  expect_error(errc::bad_free, {"cannot destroy"}, [&] { s().destroy(&d->flea); });
  expect_error(errc::bad_free, {"cannot destroy"}, [&] { s().destroy(&c->first); });
  s().destroy(static_cast<animal*>(d));
  s().destroy(c);
  tx.commit();
}

TEST_F(destroying, objects_are_found_at_the_largest_alignment) {
  transaction tx = s().begin();
  auto* const a = s().make<aligned>();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % alignof(aligned), 0u);
  s().destroy(a);
  tx.commit();
}

TEST_F(destroying, references_that_no_transaction_writes_are_found_if_asked_for) {
  for (const auto check : {destroy_check::always, destroy_check::never}) {
    s().close();
    how.check_destroyed = check;
    open();
    holder& h = root();
    item& lone = s().root<item>("lone");
    auto other = s().find_database("other")
                     ? *s().find_database("other")
                     : s().create_database("other", {.reservation = 1 << 28, .home = next_home(1 << 28)});
    item& far = other.root<item>("far");
    s().transact([&] {
      h.one = s().make<item>();
      lone.other = h.one;
      far.other = h.one;
    });
    for (item* const referrer : {&lone, &far}) {
      transaction tx = s().begin();
      item* const gone = std::exchange(h.one, nullptr);
      (referrer == &lone ? far : lone).other = nullptr;
      s().destroy(gone);
      if (check == destroy_check::always) {
        expect_error(errc::cannot_persist, {"destroyed"}, [&] { tx.commit(); });
      }
      tx.abort();
    }
    transaction tx = s().begin();
    s().destroy(std::exchange(h.one, nullptr));
    lone.other = far.other = nullptr;
    tx.commit();
  }
}

TEST_F(destroying, roots_count_as_references) {
  how.check_destroyed = destroy_check::always;
  reopen();
  item& lone = s().root<item>("lone");
  transaction tx = s().begin();
  s().destroy(&lone);
  expect_error(errc::cannot_persist, {"roots of main", "destroyed"}, [&] { tx.commit(); });
  s().remove_root("lone");
  tx.commit();
  EXPECT_EQ(s().find_root<item>("lone"), nullptr);
}

TEST_F(destroying, messages_say_what_to_do) {
  holder& h = root();
  s().transact([&] { h.one = s().make<item>(); });
  transaction tx = s().begin();
  item* const gone = h.one;
  s().destroy(gone);
  h.items.push_back(gone);
  expect_error(errc::cannot_persist,
               {"main.db, an object that this transaction has destroyed; set the pointer to null"},
               [&] { tx.commit(); });
}

// Erased first, destroyed then: no word in the tree may refer to the object any more.
TEST_F(destroying, trees_keep_no_keys_of_erased_entries) {
  indexes& in = s().root<indexes>("indexes");
  constexpr std::uint64_t count = 1500;
  std::vector<item*> items;
  s().transact([&] {
    for (std::uint64_t n = 0; n < count; ++n) {
      item* const i = s().make<item>();
      i->number = n;
      items.push_back(i);
      in.by_day.insert(n / 100, i);
      in.by_text.insert(std::string(100, static_cast<char>('a' + n % 26)) + std::to_string(n / 3), i);
      in.all.insert(i);
      in.equal.insert(i);
      in.days[i] = n;
    }
  });
  for (std::uint64_t round = 0; !items.empty(); ++round) {
    s().transact([&] {
      for (std::uint64_t n = 0; n < 75; ++n) {
        const std::size_t at = round % 3 == 0 ? 0 : (n * 7919 + round * 104729) % items.size();
        item* const i = items[at];
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
        const std::uint64_t k = i->number;
        ASSERT_TRUE(in.by_day.erase(k / 100, i));
        ASSERT_TRUE(in.by_text.erase(std::string(100, static_cast<char>('a' + k % 26)) + std::to_string(k / 3), i));
        ASSERT_EQ(in.all.erase(i), 1u);
        ASSERT_EQ(in.equal.erase(i), 1u);
        ASSERT_EQ(in.days.erase(i), 1u);
        s().destroy(i);
      }
      in.by_day.check();
      in.by_text.check();
      in.all.check();
      in.equal.check();
      in.days.check();
    });
    expect_sound(s());
  }
}

TEST_F(destroying, many_roots_are_found_and_aborted_ones_are_not) {
  for (int n = 0; n < 300; ++n)
    s().transact([&] { s().root<item>("root " + std::to_string(n)).number = static_cast<std::uint64_t>(n); },
                 commit_mode::lazy);
  transaction tx = s().begin();
  for (int n = 0; n < 300; n += 2) s().remove_root("root " + std::to_string(n));
  (void)s().root<item>("new");
  tx.abort();
  EXPECT_EQ(s().find_root<item>("new"), nullptr);
  tx = s().begin();
  for (int n = 0; n < 300; n += 3) s().remove_root("root " + std::to_string(n));
  tx.commit();
  for (const bool again : {false, true}) {
    if (again) reopen();
    for (int n = 0; n < 300; ++n) {
      const item* const found = s().find_root<item>("root " + std::to_string(n));
      ASSERT_EQ(found == nullptr, n % 3 == 0) << n;
      if (found != nullptr) {
        ASSERT_EQ(found->number, static_cast<std::uint64_t>(n));
      }
    }
  }
}
