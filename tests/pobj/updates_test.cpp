// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Updates of whole objects and of parts; fields that are set; recursive updates.
#include <limits>
#include <thread>
#include <vector>

#include "pobj/scenario.hpp"
#include "support/failing_allocations.hpp"

namespace tenure::pobj {
namespace {

class pobj_updates : public pobj_test {};

void* anchor;

// Neither memory nor image, in one step or in several.
TEST_F(pobj_updates, that_find_no_memory_have_changed_nothing) {
  start();
  constexpr std::size_t size = 6000;
  auto* const object = static_cast<unsigned char*>(pobj_calloc(1, size));
  EXPECT_OK(pobj_static_set_ref(&anchor, object));
  std::vector<unsigned char> before(size), filler(size, 9);
  int failed = 0;
  for (int kind = 0; kind < 4; ++kind)
    for (long long allocations = 0, in_a_row = 0; in_a_row < 2; ++allocations) {
      EXPECT_OK(pobj_start());
      support::succeeding = allocations;
      support::failing = 1;
      void* const word = object + 16;
      const int code = kind == 0   ? pobj_set_ulong(object, static_cast<unsigned long*>(word), 7)
                       : kind == 1 ? pobj_memset(object, object, 7, size)
                       : kind == 2 ? pobj_memcpy(object, object + 8, filler.data(), size - 8)
                                   : pobj_set_ref(object, word, object);
      support::succeeding = -1;
      in_a_row = code == POBJ_OK ? in_a_row + 1 : 0;
      if (code != POBJ_OK) {
        ++failed;
        ASSERT_EQ(code, POBJ_ENOMEM) << pobj_error();
        ASSERT_TRUE(std::equal(before.begin(), before.end(), object)) << kind << ", " << allocations;
        std::memset(object, 1, size);
        EXPECT_OK(pobj_restore(object));
        ASSERT_TRUE(std::equal(before.begin(), before.end(), object)) << kind << ", " << allocations;
      }
      EXPECT_OK(pobj_abort());
      ASSERT_TRUE(std::equal(before.begin(), before.end(), object)) << kind << ", " << allocations;
    }
  EXPECT_GT(failed, 12);
}

// Nor the image of an object that the transaction has made, where it refers to a transient one, nor its type.
TEST_F(pobj_updates, that_find_no_memory_have_changed_no_new_image) {
  start();
  constexpr std::size_t words = 200;
  int failed = 0;
  for (const bool is_new : {false, true})
    for (const bool is_set : {false, true})
      for (long long allocations = 0, in_a_row = 0; in_a_row < 2; ++allocations) {
        SCOPED_TRACE(allocations);
        EXPECT_OK(pobj_start());
        auto* const object = static_cast<void**>(pobj_calloc(words, 8));
        object[words - 1] = object;
        EXPECT_OK(pobj_ref_flag(object, object + words - 1));
        EXPECT_OK(pobj_update(object));
        EXPECT_OK(pobj_static_set_ref(&anchor, object));
        void* const to = pobj_calloc_transient(1, 8);
        if (!is_new) {
          EXPECT_OK(pobj_end());
          EXPECT_OK(pobj_start());
        }
        object[0] = is_set ? nullptr : to;
        support::succeeding = allocations;
        support::failing = 1;
        const int code = is_set ? pobj_set_ref(object, object + 1, to) : pobj_ref_flag(object, object);
        const int second = is_set || code != POBJ_OK ? POBJ_OK : pobj_update(object);
        support::succeeding = -1;
        in_a_row = code == POBJ_OK && second == POBJ_OK ? in_a_row + 1 : 0;
        failed += in_a_row == 0;
        ASSERT_EQ(object[1], is_set && code == POBJ_OK ? to : nullptr);
        EXPECT_OK(pobj_end());
        if (in_a_row != 0) continue;
        // What an abort puts back is the image.
        EXPECT_OK(pobj_start());
        EXPECT_OK(pobj_set_ulong(object, reinterpret_cast<unsigned long*>(object + 9), 9));
        object[0] = nullptr;
        EXPECT_OK(pobj_abort());
        ASSERT_EQ(object[0], nullptr);
        ASSERT_EQ(object[1], nullptr);
        ASSERT_EQ(object[words - 1], object);
      }
  EXPECT_GT(failed, 8);
}

TEST_F(pobj_updates, that_find_no_memory_have_set_no_variable) {
  start();
  void* const before = pobj_calloc(1, 8);
  void* const after = pobj_calloc(1, 8);
  EXPECT_OK(pobj_static_set_ref(&anchor, before));
  int failed = 0;
  for (long long allocations = 0, in_a_row = 0; in_a_row < 2; ++allocations) {
    EXPECT_OK(pobj_start());
    EXPECT_OK(pobj_update(before));
    support::succeeding = allocations;
    support::failing = 1;
    const int code = pobj_static_set_ref(&anchor, after);
    support::succeeding = -1;
    in_a_row = code == POBJ_OK ? in_a_row + 1 : 0;
    if (code != POBJ_OK) {
      ++failed;
      ASSERT_EQ(code, POBJ_ENOMEM) << pobj_error();
      ASSERT_EQ(anchor, before);
    }
    EXPECT_OK(pobj_abort());
    ASSERT_EQ(anchor, before);
  }
  EXPECT_GT(failed, 1);
}

// Neither types nor images of objects and variables: what the enclosing transaction commits is what was there.
TEST_F(pobj_updates, that_find_no_memory_have_changed_no_type) {
  constexpr std::size_t count = 40, half = count / 2;
  static void *variable[count], *unknown[count];
  static void* to;
  std::vector<std::size_t> first, second;
  for (std::size_t i = 0; i < half; ++i) {
    first.push_back(i * 8);
    second.push_back((half + i) * 8);
  }
  first.push_back(POBJ_END);
  second.push_back(POBJ_END);
  for (int kind = 0; kind < 5; ++kind) {
    int failed = 0;
    for (long long allocations = 0, in_a_row = 0; in_a_row < 2; ++allocations) {
      SCOPED_TRACE(std::to_string(kind) + ", " + std::to_string(allocations));
      use(std::make_unique<sim::disk>());
      start();
      EXPECT_OK(pobj_static_set_ref(&to, pobj_malloc(8)));
      void* const transient = pobj_malloc_transient(8);
      auto** const words = static_cast<void**>(pobj_malloc(count * 8));
      for (std::size_t i = 0; i < count; ++i) unknown[i] = variable[i] = words[i] = i < half ? to : transient;
      EXPECT_OK(pobj_ref_typify(words, first.data()));
      EXPECT_OK(pobj_update(words));
      EXPECT_OK(pobj_static_set_ref(&anchor, words));
      EXPECT_OK(pobj_static_update(variable, sizeof variable, first.data()));
      EXPECT_OK(pobj_start());
      support::succeeding = allocations;
      support::failing = 1;
      const int code = kind == 0   ? pobj_ref_typify(words, second.data())
                       : kind == 1 ? pobj_set_ref(words, &words[half + 1], to)
                       : kind == 2 ? pobj_set_ulong(words, reinterpret_cast<unsigned long*>(&words[1]), 7)
                       : kind == 3 ? pobj_static_update(variable, sizeof variable, second.data())
                                   : pobj_static_update(unknown, sizeof unknown, second.data());
      support::succeeding = -1;
      in_a_row = code == POBJ_OK ? in_a_row + 1 : 0;
      if (code == POBJ_OK) {
        EXPECT_OK(pobj_abort());
        continue;
      }
      ++failed;
      ASSERT_EQ(code, POBJ_ENOMEM) << pobj_error();
      EXPECT_OK(pobj_end());
      void* const before = to;
      crash_and_restart();
      EXPECT_EQ(report().statics, 3u);
      const auto* const found = static_cast<void**>(anchor);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(found[i], i < half ? to : transient) << i;
        ASSERT_EQ(variable[i], i < half ? to : transient) << i;
        ASSERT_EQ(unknown[i], i < half ? before : transient) << i;
      }
    }
    EXPECT_GT(failed, 2) << kind;
  }
}

// An end that fails has changed no image of others, so an abort puts nothing back there.
TEST_F(pobj_updates, of_others_outlast_an_end_that_finds_no_memory) {
  int failed = 0;
  for (const bool is_tried_again : {false, true})
    for (long long allocations = 0, in_a_row = 0; in_a_row < 2; ++allocations) {
      SCOPED_TRACE(allocations);
      use(std::make_unique<sim::disk>());
      start();
      node* const p = new_node(1);
      EXPECT_OK(pobj_static_set_ref(&anchor, p));
      auto* const later = static_cast<node*>(pobj_calloc_transient(1, sizeof(node)));
      EXPECT_OK(pobj_set_ref(p, &p->next, later));
      node* const other = new_node(7);
      EXPECT_OK(pobj_start());
      EXPECT_OK(pobj_persistify(later));
      support::succeeding = allocations;
      support::failing = 1;
      const int code = pobj_end();
      support::succeeding = -1;
      in_a_row = code == POBJ_OK ? in_a_row + 1 : 0;
      if (code == POBJ_OK) continue;
      if (code != POBJ_ENOMEM) {  // the log could not be written, and nobody goes on
        EXPECT_OK(pobj_abort());
        continue;
      }
      ++failed;
      EXPECT_OK(pobj_restore(p));
      EXPECT_EQ(p->next, later);
      std::thread([&] { EXPECT_OK(pobj_set_ref(p, &p->next, other)); }).join();
      EXPECT_OK(is_tried_again ? pobj_end() : pobj_abort());
      EXPECT_EQ(pobj_is_persistent(later), is_tried_again ? 1 : 0);
      EXPECT_OK(pobj_restore(p));
      ASSERT_EQ(p->next, other);
      restart();
      ASSERT_EQ(static_cast<node*>(anchor)->next->value, 7u);
    }
  EXPECT_GT(failed, 4);
}

// What the end of a transaction finds no memory to make right is made right later, by the close at the latest.
TEST_F(pobj_updates, references_that_an_end_found_no_memory_for_hold) {
  for (const bool is_closed : {false, true}) {
    int swallowed = 0;
    bool has_failed = true;
    for (long long allocations = 0; has_failed; ++allocations) {
      SCOPED_TRACE(allocations);
      use(std::make_unique<sim::disk>());
      start();
      EXPECT_OK(pobj_static_set_ref(&anchor, nullptr));
      auto* const later = static_cast<node*>(pobj_calloc_transient(1, sizeof(node)));
      later->value = 7;
      EXPECT_OK(pobj_start());
      node* const p = new_node(1, later);
      EXPECT_OK(pobj_static_set_ref(&anchor, p));
      std::thread([&] { EXPECT_OK(pobj_persistify(later)); }).join();
      support::succeeding = allocations;
      support::failing = 1;
      const int code = pobj_end();
      support::succeeding = -1;
      has_failed = support::failing == 0;
      if (code != POBJ_OK) {
        EXPECT_OK(pobj_abort());
        continue;
      }
      swallowed += has_failed ? 1 : 0;
      if (is_closed) {
        restart();
      } else {
        for (int i = 0; i < 2; ++i)
          EXPECT_NE(pobj_malloc(8), nullptr);  // the second makes durable what the first makes right
        crash_and_restart();
      }
      ASSERT_NE(static_cast<node*>(anchor)->next, nullptr);
      ASSERT_EQ(static_cast<node*>(anchor)->next->value, 7u);
    }
    EXPECT_GT(swallowed, 0);
  }
}

// Where a check refuses a field, its word is a reference still.
TEST_F(pobj_updates, that_are_refused_have_changed_no_type) {
  start(POBJ_STRICT);
  static node* to;
  to = new_node(2);
  EXPECT_OK(pobj_static_update_ref(&to));
  node* const n = new_node(1, to);
  EXPECT_OK(pobj_static_set_ref(&anchor, n));
  EXPECT_OK(pobj_start());
  auto* const field = reinterpret_cast<unsigned long*>(&n->next);
  expect_failure(POBJ_EUNTYPED, pobj_set_ulong(n, field, reinterpret_cast<std::uintptr_t>(n)),
                 {"offset 0", "pobj_ref_flag"});
  EXPECT_EQ(n->next, to);
  EXPECT_OK(pobj_end());
  crash_and_restart();
  EXPECT_EQ(static_cast<node*>(anchor)->next, to);
  // What is no handle is no mistake, and no reference any more.
  EXPECT_OK(pobj_set_ulong(anchor, static_cast<unsigned long*>(anchor), 5));
  restart();
  EXPECT_EQ(*static_cast<unsigned long*>(anchor), 5u);
}

TEST_F(pobj_updates, of_ranges) {
  start();
  auto* const text = static_cast<char*>(pobj_calloc(1, 100));
  EXPECT_OK(pobj_static_set_ref(&anchor, text));
  std::memset(text, 'x', 100);
  EXPECT_OK(pobj_update_range(text, text + 16, 8));
  EXPECT_OK(pobj_update_range(text, text + 97, 3));
  EXPECT_OK(pobj_update_range(text, text + 50, 0));
  expect_failure(POBJ_ERANGE, pobj_update_range(text, text + 97, 4), {"4 bytes", "100"});
  expect_failure(POBJ_ERANGE, pobj_update_range(text, text - 1, 4), {"4 bytes", "100"});
  restart();
  const std::string found(static_cast<char*>(anchor), 100);
  EXPECT_EQ(found.substr(16, 8), "xxxxxxxx");
  EXPECT_EQ(found.substr(97), "xxx");
  EXPECT_EQ(found.substr(0, 16), std::string(16, '\0'));
  EXPECT_EQ(found.substr(24, 72), std::string(72, '\0'));
}

TEST_F(pobj_updates, cost_what_has_changed) {
  start();
  auto* const large = static_cast<char*>(pobj_calloc(1, 1 << 20));
  EXPECT_OK(pobj_static_set_ref(&anchor, large));
  const rvm::memory& memory = open_store()->memory;
  const auto logged = [&](auto&& act) {
    const auto before = memory.stats().bytes_logged;
    act();
    return memory.stats().bytes_logged - before;
  };
  large[500'000] = 'x';
  EXPECT_LE(logged([&] { EXPECT_OK(pobj_update_range(large, large + 500'000, 1)); }), 8u);
  large[500'001] = 'y';
  EXPECT_LE(logged([&] { EXPECT_OK(pobj_update(large)); }), 8u);
  EXPECT_EQ(logged([&] { EXPECT_OK(pobj_update(large)); }), 0u);
  // Coalesced within a transaction.
  EXPECT_LE(logged([&] {
              EXPECT_OK(pobj_start());
              for (char i = 0; i < 100; ++i) EXPECT_OK(pobj_set_char(large, large + 8, i));
              EXPECT_OK(pobj_end());
            }),
            8u);
  restart();
  EXPECT_EQ(static_cast<char*>(anchor)[500'001], 'y');
}

struct fields {
  char c;
  unsigned char uc;
  short s;
  unsigned short us;
  int i;
  unsigned u;
  long l;
  unsigned long ul;
  long long ll;
  unsigned long long ull;
  std::size_t z;
  float f;
  double d;
  fields* r;
  char text[20];
};

TEST_F(pobj_updates, fields_that_are_set) {
  start();
  auto* const p = static_cast<fields*>(pobj_calloc(1, sizeof(fields)));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  EXPECT_OK(pobj_set_char(p, &p->c, 'c'));
  EXPECT_OK(pobj_set_uchar(p, &p->uc, 200));
  EXPECT_OK(pobj_set_short(p, &p->s, -3));
  EXPECT_OK(pobj_set_ushort(p, &p->us, 60'000));
  EXPECT_OK(pobj_set_int(p, &p->i, -5));
  EXPECT_OK(pobj_set_uint(p, &p->u, 4'000'000'000));
  EXPECT_OK(pobj_set_long(p, &p->l, std::numeric_limits<long>::min()));
  EXPECT_OK(pobj_set_ulong(p, &p->ul, 8));
  EXPECT_OK(pobj_set_llong(p, &p->ll, -9));
  EXPECT_OK(pobj_set_ullong(p, &p->ull, 10));
  EXPECT_OK(pobj_set_size(p, &p->z, 11));
  EXPECT_OK(pobj_set_float(p, &p->f, 1.5F));
  EXPECT_OK(pobj_set_double(p, &p->d, 2.5));
  EXPECT_OK(pobj_set_ref(p, &p->r, p));
  EXPECT_OK(pobj_memcpy(p, p->text, "a text", 7));
  EXPECT_OK(pobj_memset(p, p->text + 10, '!', 3));
  EXPECT_OK(pobj_memset(p, p->text, 0, 0));
  int outside = 0;
  expect_failure(POBJ_ERANGE, pobj_set_int(p, &outside, 1), {"do not lie in"});
  expect_failure(POBJ_ERANGE, pobj_memcpy(p, p->text + 20, "abcdef", 6), {"do not lie in"});
  EXPECT_EQ(outside, 0);
  restart();
  const auto* const q = static_cast<fields*>(anchor);
  EXPECT_EQ(q->c, 'c');
  EXPECT_EQ(q->uc, 200);
  EXPECT_EQ(q->s, -3);
  EXPECT_EQ(q->us, 60'000);
  EXPECT_EQ(q->i, -5);
  EXPECT_EQ(q->u, 4'000'000'000);
  EXPECT_EQ(q->l, std::numeric_limits<long>::min());
  EXPECT_EQ(q->ul, 8u);
  EXPECT_EQ(q->ll, -9);
  EXPECT_EQ(q->ull, 10u);
  EXPECT_EQ(q->z, 11u);
  EXPECT_EQ(q->f, 1.5F);
  EXPECT_EQ(q->d, 2.5);
  EXPECT_EQ(q->r, q);
  EXPECT_STREQ(q->text, "a text");
  EXPECT_EQ(q->text[12], '!');
}

// The calls that set a field say what it is, too.
TEST_F(pobj_updates, a_field_that_changes_its_kind) {
  start();
  auto* const p = static_cast<node*>(pobj_calloc(1, sizeof(node)));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  EXPECT_OK(pobj_set_ref(p, &p->next, p));
  EXPECT_OK(pobj_set_ulong(p, reinterpret_cast<unsigned long*>(&p->next), 12345));
  restart();
  auto* const q = static_cast<node*>(anchor);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(q->next), 12345u);
  EXPECT_OK(pobj_set_ref(q, &q->next, q));
  restart();
  EXPECT_EQ(static_cast<node*>(anchor)->next, anchor);
}

TEST_F(pobj_updates, restoring_one_object) {
  start();
  node* const n = new_node(5);
  n->value = 6;
  n->next = n;
  EXPECT_OK(pobj_restore(n));
  EXPECT_EQ(n->value, 5u);
  EXPECT_EQ(n->next, nullptr);
  auto* const transient = static_cast<node*>(pobj_calloc_transient(1, sizeof(node)));
  transient->value = 3;
  EXPECT_OK(pobj_restore(transient));
  EXPECT_EQ(transient->value, 3u);
}

struct tree {
  tree* child[3];
  std::uint64_t value;
};
constexpr std::size_t tree_references[] = {0, 8, 16, POBJ_END};

tree* new_tree(std::uint64_t value, bool persistent) {
  auto* const t =
      static_cast<tree*>(persistent ? pobj_calloc(1, sizeof(tree)) : pobj_calloc_transient(1, sizeof(tree)));
  t->value = value;
  EXPECT_OK(pobj_ref_typify(t, tree_references));
  return t;
}

TEST_F(pobj_updates, recursive_ones_stop_at_transient_objects) {
  start();
  tree* const root = new_tree(1, true);
  tree* const left = new_tree(2, true);
  tree* const hidden = new_tree(3, true);
  tree* const transient = new_tree(4, false);
  *root = {{left, transient, root}, 1};
  left->child[0] = root;
  transient->child[0] = hidden;
  EXPECT_OK(pobj_static_set_ref(&anchor, root));
  EXPECT_OK(pobj_update_recursive(root, 0));
  EXPECT_EQ(pobj_is_persistent(transient), 0);
  expect_failure(POBJ_EOPTION, pobj_update_recursive(root, 4), {"flags"});
  restart();
  const auto* const found = static_cast<tree*>(anchor);
  EXPECT_EQ(found->value, 1u);
  EXPECT_EQ(found->child[0]->value, 2u);
  EXPECT_EQ(found->child[0]->child[0], found);
  EXPECT_EQ(found->child[1], nullptr);
  EXPECT_EQ(found->child[2], found);
}

TEST_F(pobj_updates, recursive_ones_make_persistent_what_they_meet) {
  start();
  // Cycles, shared children, and pointers into the middle.
  tree* const root = new_tree(1, false);
  tree* const a = new_tree(2, false);
  tree* const b = new_tree(3, true);
  *root = {{a, b, reinterpret_cast<tree*>(&a->child[1])}, 1};
  *a = {{root, b, a}, 2};
  *b = {{a, nullptr, root}, 3};
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_update_recursive(root, POBJ_PERSISTIFY));
  EXPECT_OK(pobj_static_set_ref(&anchor, root));
  EXPECT_OK(pobj_end());
  restart();
  EXPECT_EQ(report().objects, 3u);
  auto* const r = static_cast<tree*>(anchor);
  tree* const c = r->child[0];
  EXPECT_EQ(c->value, 2u);
  EXPECT_EQ(c->child[2], c);
  EXPECT_EQ(c->child[1], r->child[1]);
  EXPECT_EQ(r->child[1]->value, 3u);
  EXPECT_EQ(reinterpret_cast<tree**>(r->child[2]), &c->child[1]);
}

TEST_F(pobj_updates, recursive_ones_skip_what_has_not_changed) {
  start();
  node* list = nullptr;
  EXPECT_OK(pobj_start());
  for (std::uint64_t i = 0; i < 3000; ++i) list = new_node(i, list);
  EXPECT_OK(pobj_static_set_ref(&anchor, list));
  EXPECT_OK(pobj_end());
  list->next->next->value = 77;
  const auto before = open_store()->memory.stats();
  EXPECT_OK(pobj_update_recursive(list, 0));
  const auto after = open_store()->memory.stats();
  EXPECT_LE(after.bytes_logged - before.bytes_logged, 8u);
  // More often than there are marks: they begin again.
  open_store()->mark = 0xfffe;
  for (std::uint64_t i = 1; i < 4; ++i) {
    list->next->value = 100 + i;
    EXPECT_OK(pobj_update_recursive(list, 0));
  }
  restart();
  EXPECT_EQ(static_cast<node*>(anchor)->next->value, 103u);
  EXPECT_EQ(static_cast<node*>(anchor)->next->next->value, 77u);
}

// Saved in one transaction that is larger than the log is made: written straight to the segment. [pobj.slot.bulk]
TEST_F(pobj_updates, a_long_list) {
  start();
  constexpr std::uint64_t count = 300'000;
  EXPECT_OK(pobj_start());
  node* list = nullptr;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto* const n = static_cast<node*>(pobj_malloc(sizeof(node)));
    *n = {list, i};
    pobj_ref_typify(n, node_references);
    list = n;
  }
  EXPECT_OK(pobj_update_recursive(list, 0));
  EXPECT_OK(pobj_static_set_ref(&anchor, list));
  EXPECT_OK(pobj_end());
  EXPECT_GT(open_store()->memory.stats().bulk_bytes, count * 16);
  crash_and_restart();
  EXPECT_EQ(report().objects, count);
  std::uint64_t expected = count;
  for (const auto* n = static_cast<node*>(anchor); n != nullptr; n = n->next) ASSERT_EQ(n->value, --expected);
  EXPECT_EQ(expected, 0u);
}

}  // namespace
}  // namespace tenure::pobj
