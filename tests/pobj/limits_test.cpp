// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What must not depend on how much there is: pointers into large objects, types, executions, memory that is refused.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "pobj/scenario.hpp"
#include "pobj/transaction.hpp"
#include "support/short_memory.hpp"

namespace tenure::pobj {
namespace {

class pobj_limits : public pobj_test {};

void* anchor;

// --- Pointers into the middle ---

// Objects whose headers say where their slots are.
class some_objects {
 public:
  object at(position slot) {
    blocks_.push_back(std::make_unique<std::array<std::uint64_t, 3>>());
    const object o{reinterpret_cast<std::byte*>(blocks_.back()->data()) + sizeof(object_header)};
    o.begin(slot, 8, 0, 0);
    return o;
  }

 private:
  std::vector<std::unique_ptr<std::array<std::uint64_t, 3>>> blocks_;
};

TEST_F(pobj_limits, slots_are_found_from_anywhere_behind_them) {
  some_objects objects;
  slot_table table(std::pmr::new_delete_resource());
  std::map<position, object> model;
  std::mt19937_64 random(1);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int i = 0; i < 20'000; ++i) {
    // Close together, and far away.
    const position slot = (below(3) == 0   ? below(3000)
                           : below(2) == 0 ? below(60'000)
                                           : below(1'000'000)) *
                              16 +
                          (below(2) * 8) + first_slot;
    const auto same = model.lower_bound(slot / 16 * 16);
    if (same != model.end() && same->first < slot / 16 * 16 + 16) {
      table.erase(same->first);
      model.erase(same);
    } else if (below(3) != 0) {
      const object o = objects.at(slot);
      table.set(slot, o);
      model.emplace(slot, o);
    } else if (below(10) == 0) {
      const position end = slot + below(1000) * 16;
      const auto from = model.lower_bound(slot / 16 * 16), to = model.lower_bound(end / 16 * 16);
      std::size_t cleared = 0;
      table.clear(slot, end, [&](object) { ++cleared; });
      EXPECT_EQ(cleared, static_cast<std::size_t>(std::distance(
                             from, std::max(from, to, [](auto a, auto b) { return std::distance(a, b) > 0; }))));
      model.erase(from, to);
    }
    const position at = below(4) == 0 ? slot : below(20'000'000);
    const auto after = model.upper_bound(at);
    const object expected = after == model.begin() ? object{} : std::prev(after)->second;
    ASSERT_EQ(table.find_last_object(at), expected) << at;
    ASSERT_EQ(table.size(), model.size());
  }
}

// Slot by slot, this would take minutes.
TEST_F(pobj_limits, many_pointers_into_one_text) {
  some_objects objects;
  slot_table table(std::pmr::new_delete_resource());
  const object text = objects.at(first_slot), behind = objects.at(first_slot + (5 << 20));
  table.set(first_slot, text);
  table.set(first_slot + (5 << 20), behind);
  for (int i = 0; i < 3'000'000; ++i) ASSERT_EQ(table.find_last_object(first_slot + (5 << 20) - 8), text);
}

// --- Types ---

constexpr std::size_t references = 1500;

TEST_F(pobj_limits, flagging_word_by_word_needs_no_more_types_than_there_are_in_use) {
  start();
  auto** const all = static_cast<node**>(pobj_calloc(references, sizeof(node*)));
  EXPECT_OK(pobj_static_set_ref(&anchor, all));
  node* const n = new_node(1);
  for (std::size_t i = 0; i < references; ++i) ASSERT_OK(pobj_set_ref(all, &all[i], n));
  EXPECT_LE(open_store()->types.count(), 6u);
  EXPECT_EQ(open_store()->region.size(), 256u << 10);
  crash_and_restart();
  auto** const found = static_cast<node**>(anchor);
  for (std::size_t i = 0; i < references; ++i) ASSERT_EQ(found[i]->value, 1u);
  // Those that the store has are used again, too.
  for (std::size_t i = 0; i < references; i += 2)
    ASSERT_OK(pobj_set_ulong(found, reinterpret_cast<unsigned long*>(&found[i]), 5));
  EXPECT_LE(open_store()->types.count(), 7u);
  crash_and_restart();
  for (std::size_t i = 0; i < references; ++i) ASSERT_EQ(i % 2 == 0, static_cast<unsigned long*>(anchor)[i] == 5);
}

TEST_F(pobj_limits, types_of_objects_that_are_freed_are_used_again) {
  start();
  new_node(1);
  for (std::size_t i = 1; i < 300; ++i) {
    std::vector<std::size_t> words(i);
    for (std::size_t k = 0; k < i; ++k) words[k] = k * 8;
    words.push_back(POBJ_END);
    void* const p = pobj_calloc(i, 8);
    ASSERT_OK(pobj_ref_typify(p, words.data()));
    ASSERT_OK(pobj_free(p));
  }
  EXPECT_LE(open_store()->types.count(), 5u);
  restart();
}

// What an abort goes back to must be there still.
TEST_F(pobj_limits, types_that_an_open_transaction_has_left_stay) {
  start();
  const std::size_t first[] = {0, POBJ_END}, second[] = {8, POBJ_END}, both[] = {0, 8, POBJ_END};
  auto** const p = static_cast<void**>(pobj_calloc(4, 8));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  p[0] = p[1] = p;
  EXPECT_OK(pobj_ref_typify(p, both));
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_ref_typify(p, second));
  for (std::size_t i = 2; i < 10; ++i) {
    const std::size_t another[] = {i * 8, POBJ_END};
    void* const q = pobj_calloc(10, 8);
    EXPECT_OK(pobj_ref_typify(q, another));
    EXPECT_OK(pobj_free(q));
  }
  EXPECT_OK(pobj_ref_typify(p, first));
  EXPECT_OK(pobj_abort());
  EXPECT_OK(pobj_ref_typify(pobj_calloc(4, 8), second));
  restart();
  EXPECT_EQ(static_cast<void**>(anchor)[0], anchor);
  EXPECT_EQ(static_cast<void**>(anchor)[1], anchor);
}

// Made transient, typed otherwise, and aborted: the type is that of the image again.
TEST_F(pobj_limits, an_abort_brings_back_the_type_of_what_was_made_transient) {
  start();
  const std::size_t second[] = {8, POBJ_END};
  node* const n = new_node(7);
  n->next = n;
  EXPECT_OK(pobj_update(n));
  EXPECT_OK(pobj_static_set_ref(&anchor, n));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_unpersistify(n));
  EXPECT_OK(pobj_ref_typify(n, second));
  EXPECT_OK(pobj_persistify(n));
  EXPECT_OK(pobj_abort());
  n->value = 8;
  EXPECT_OK(pobj_update(n));
  restart();
  EXPECT_EQ(static_cast<node*>(anchor)->next, anchor);
  EXPECT_EQ(static_cast<node*>(anchor)->value, 8u);
}

TEST_F(pobj_limits, an_abort_brings_back_the_type_of_a_static_variable) {
  static node* variable;
  start();
  EXPECT_OK(pobj_static_set_ref(&variable, new_node(3)));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_update(&variable, sizeof variable, nullptr));
  EXPECT_OK(pobj_abort());
  ASSERT_OK(pobj_static_update_ref(&variable));
  restart();
  EXPECT_EQ(variable->value, 3u);
}

// --- Executions ---

void set_word(os::disk& disk, std::uint64_t offset, std::uint64_t word) {
  rvm::options how;
  how.disk = &disk;
  rvm::memory memory("/store/log", how);
  rvm::region region = memory.map("/store/objects");
  memory.transact([&](rvm::transaction& tx) { tx.modify(region.at<std::uint64_t>(offset), word); });
  region.unmap();
  memory.close();
}

TEST_F(pobj_limits, addresses_of_an_execution_long_ago_are_none) {
  static node* variable;
  start();
  node* const n = new_node(1);
  auto* const transient = static_cast<node*>(pobj_calloc_transient(1, sizeof(node)));
  n->next = transient;
  EXPECT_OK(pobj_update(n));
  EXPECT_OK(pobj_static_set_ref(&anchor, n));
  EXPECT_OK(pobj_static_set_ref(&variable, transient));
  EXPECT_OK(pobj_close());
  // The next execution has the same 15 bits as that.
  set_word(*disk, offsetof(store_header, executions), 1 << 15);
  for (int i = 0; i < 2; ++i) {
    start();
    EXPECT_EQ(open_store()->execution, (1u << 15) + 1 + i);
    EXPECT_EQ(report().null_unknown, i == 0 ? 2u : 0u);
    EXPECT_EQ(static_cast<node*>(anchor)->next, nullptr);
    EXPECT_EQ(variable, nullptr);
    EXPECT_OK(pobj_restore(anchor));
    EXPECT_EQ(static_cast<node*>(anchor)->next, nullptr);
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_static_update_ref(&variable));
    EXPECT_OK(pobj_abort());
    EXPECT_EQ(variable, nullptr);
    EXPECT_OK(pobj_close());
  }
}

// --- Damaged descriptions of types ---

TEST_F(pobj_limits, types_that_cannot_be_are_damage) {
  start();
  const std::size_t words[] = {0, 16, 40, POBJ_END}, transients[] = {8, 8, 24, 8, POBJ_END};
  const pobj_type* const type = pobj_type_define("limits.t", 48, words, transients);
  void* const p = pobj_calloc(2, 48);
  EXPECT_OK(pobj_set_type(p, type));
  void* const q = pobj_calloc(100, 48);
  EXPECT_OK(pobj_ref_typify(q, words));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  position named = 0, plain = 0;
  const store& in = *open_store();
  for (position at = first_slot; at < in.header().end; at += in.free.word_at(at).length())
    if (in.free.word_at(at).type() == slot_word::type_description) {
      position& found = load_word(in.free.at(at + 16)) >> 32 != 0 ? named : plain;
      if (found == 0) found = at;
    }
  defined_types::all().by_name.clear();
  EXPECT_OK(pobj_close());
  ASSERT_NE(named, 0u);
  ASSERT_NE(plain, 0u);
  const pobj_options o = small_options();
  const auto whole = disk->crash(1, sim::policy::keep_all);
  const auto expect_damage = [&](std::uint64_t offset, std::uint64_t word) {
    use(whole->crash(1));
    set_word(*disk, offset, word);
    expect_failure(POBJ_EDAMAGED, pobj_init_with(&o), {"offset"});
  };
  const auto two = [](std::uint64_t low, std::uint64_t high) { return low | high << 32; };
  const position first = named + 8 + sizeof(stored_type), ranges = first + 16;
  expect_damage(first, two(2, 0));                      // not ascending
  expect_damage(first, two(0, 0));                      // twice
  expect_damage(first + 8, two(6, 0));                  // behind the element
  expect_damage(first + 8, two(std::uint32_t(-1), 0));  // far behind
  expect_damage(first, two(1, 2));                      // transient
  expect_damage(ranges, 40);                            // not ascending
  expect_damage(ranges + 8, 24);                        // overlap
  expect_damage(ranges + 24, std::uint64_t(-8));
  expect_damage(ranges + 24, 0);
  expect_damage(named + 8 + 16, 0);   // no size
  expect_damage(named + 8 + 16, 50);  // the references do not repeat
  expect_damage(named + 8 + 16, std::uint64_t{1} << 40);
  expect_damage(named + 8 + 16, 64);  // the object is no array of it
  expect_damage(plain + 8 + sizeof(stored_type), two(5, 2));
  expect_damage(plain + 8 + 16, 48);  // a size without a name
  use(whole->crash(1));
  start();
}

// --- Memory and space that are refused ---

class pobj_refusals : public pobj_test {
 protected:
  ~pobj_refusals() override { granted = SIZE_MAX; }
  void start_bounded(std::size_t max_size = 256 << 20) {
    granted = SIZE_MAX;
    pobj_options o = small_options();
    o.control = bounded;
    o.max_size = max_size;
    ASSERT_OK(pobj_init_with(&o));
  }
};

TEST_F(pobj_refusals, calls_that_are_refused_leave_the_store_as_it_is) {
  start_bounded();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  for (const bool in_transaction : {false, true}) {
    granted = 0;
    if (in_transaction) {
      EXPECT_OK(pobj_start());
    }
    std::uint64_t refused = 0;
    for (int i = 0; i < 20'000; ++i) refused += pobj_malloc(4000) == nullptr ? 1 : 0;
    EXPECT_GT(refused, 15'000u);
    expect_failure(POBJ_ENOMEM, POBJ_ENOMEM, {"memory"});
    granted = SIZE_MAX;
    if (in_transaction) {
      EXPECT_OK(pobj_end());
    }
    EXPECT_LE(open_store()->region.size(), 4u << 20);
  }
  const auto before = open_store()->slots.size();
  restart();
  EXPECT_EQ(report().objects, before);  // nothing is there that was refused
}

TEST_F(pobj_refusals, an_end_that_fails_has_not_committed) {
  int failed = 0;
  bool is_short = true;
  for (long long allocations = 0; is_short; ++allocations) {
    SCOPED_TRACE(allocations);
    use(std::make_unique<sim::disk>());
    start_bounded();
    std::vector<void*> all;
    for (int i = 0; i < 40; ++i) all.push_back(pobj_malloc(100));
    EXPECT_OK(pobj_start());
    for (std::size_t i = 0; i < all.size(); i += 2) EXPECT_OK(pobj_free(all[i]));
    int code = POBJ_OK;
    {
      const support::short_memory memory(allocations);
      code = pobj_end();
      is_short = support::failing == 0;
    }
    if (code != POBJ_OK) {
      ++failed;
      EXPECT_EQ(pobj_depth(), 1);
      EXPECT_OK(pobj_abort());
    }
    EXPECT_EQ(pobj_depth(), 0);
    if (code == POBJ_OK || code == POBJ_ENOMEM) {  // otherwise nobody knows before the next execution
      EXPECT_EQ(pobj_is_object(all[0]), code == POBJ_OK ? 0 : 1);
    }
    crash_and_restart();
    const auto left = report().objects;
    if (code == POBJ_OK || code == POBJ_ENOMEM) {
      EXPECT_EQ(left, code == POBJ_OK ? 20u : 40u);
    } else {
      EXPECT_TRUE(left == 20 || left == 40) << left;
    }
  }
  EXPECT_GT(failed, 0);
}

// The slot of the largest object fits into one free slot, whose size has as many bits.
TEST_F(pobj_refusals, objects_beyond_the_largest_size) {
  pobj_options o = small_options();
  o.objects = bounded;
  ASSERT_OK(pobj_init_with(&o));
  granted = 1 << 20;
  constexpr std::size_t largest = (std::size_t{1} << 34) - 8;
  EXPECT_EQ(pobj_malloc_transient(largest), nullptr);
  expect_failure(POBJ_ENOMEM, POBJ_ENOMEM, {"memory"});
  for (const std::size_t more : {1, 7, 8, 9}) {
    EXPECT_EQ(pobj_malloc_transient(largest + more), nullptr);
    expect_failure(POBJ_ETOOBIG, POBJ_ETOOBIG, {"at most 17179869176 "});
  }
  granted = SIZE_MAX;
  constexpr slot_word word = slot_word::of(largest, 0, 0);
  static_assert(slot_word::of(word.length() - 8, slot_word::type_free, 0).length() == word.length());
}

TEST_F(pobj_refusals, a_full_store_is_used_up) {
  start_bounded(1 << 20);
  EXPECT_OK(pobj_start());
  std::uint64_t bytes = 0;
  for (const std::size_t size : {10'000, 1000, 100, 8})
    while (pobj_malloc(size) != nullptr) bytes += size + 8;
  expect_failure(POBJ_ETOOBIG, POBJ_ETOOBIG, {"full", "max_size"});
  EXPECT_GT(bytes, 1'000'000u);
  EXPECT_OK(pobj_end());
  const auto made = open_store()->slots.size();
  restart();
  EXPECT_EQ(report().objects, made);
}

struct large {
  large* next;
  char bytes[40'000];
};
constexpr std::size_t large_references[] = {0, POBJ_END};

TEST_F(pobj_refusals, a_recursive_update_that_fails_makes_nothing_persistent) {
  start_bounded(1 << 20);
  auto* const known = static_cast<large*>(pobj_calloc(1, sizeof(large)));
  EXPECT_OK(pobj_ref_typify(known, large_references));
  EXPECT_OK(pobj_static_set_ref(&anchor, known));
  large* list = nullptr;
  std::vector<large*> all;
  for (int i = 0; i < 60; ++i) {
    auto* const l = static_cast<large*>(pobj_calloc_transient(1, sizeof(large)));
    EXPECT_OK(pobj_ref_typify(l, large_references));
    l->next = list;
    list = l;
    all.push_back(l);
  }
  known->next = list;
  EXPECT_OK(pobj_update(known));
  EXPECT_OK(pobj_start());
  expect_failure(POBJ_ETOOBIG, pobj_update_recursive(list, POBJ_PERSISTIFY), {"full"});
  for (const large* l : all) EXPECT_EQ(pobj_is_persistent(l), 0);
  EXPECT_OK(pobj_persistify(list));
  EXPECT_OK(pobj_end());
  EXPECT_EQ(pobj_is_persistent(list), 1);
  EXPECT_EQ(open_store()->slots.size(), 2u);
  crash_and_restart();
  EXPECT_EQ(report().objects, 2u);
  // What has waited for the object has waited for the one that it became in the end.
  EXPECT_NE(static_cast<large*>(anchor)->next, nullptr);
}

TEST_F(pobj_limits, a_recursive_update_with_a_mistake_changes_nothing) {
  start(POBJ_STRICT);
  auto** const a = static_cast<void**>(pobj_calloc(2, 8));
  auto** const b = static_cast<void**>(pobj_calloc_transient(2, 8));
  auto** const c = static_cast<void**>(pobj_calloc_transient(2, 8));
  for (void** const p : {a, b, c}) EXPECT_OK(pobj_ref_typify(p, node_references));
  EXPECT_OK(pobj_static_set_ref(&anchor, a));
  a[0] = b;
  b[0] = c;
  c[1] = a;  // where no reference is
  EXPECT_OK(pobj_start());
  expect_failure(POBJ_EUNTYPED, pobj_update_recursive(a, POBJ_PERSISTIFY), {"offset 8"});
  EXPECT_EQ(pobj_is_persistent(b), 0);
  EXPECT_EQ(pobj_is_persistent(c), 0);
  EXPECT_OK(pobj_end());
  void* const kept = a[0];
  EXPECT_OK(pobj_restore(a));
  EXPECT_EQ(a[0], nullptr);  // neither has its image changed
  EXPECT_NE(kept, nullptr);
}

// --- Ends ---

TEST_F(pobj_limits, is_not_closed_under_a_transaction_that_is_doomed) {
  start();
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_abort());
  expect_failure(POBJ_ETRANSACTION, pobj_close(), {"1 transactions"});
  expect_failure(POBJ_EABORTED, pobj_end(), {"over"});
  EXPECT_OK(pobj_close());
  start();
  EXPECT_EQ(pobj_depth(), 0);
  EXPECT_OK(pobj_start());
  new_node(1);
  EXPECT_OK(pobj_end());
}

}  // namespace
}  // namespace tenure::pobj
