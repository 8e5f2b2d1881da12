// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// References: to the beginning, the middle and the end of objects, to what has no image yet, and to nothing that is known.
#include <latch>
#include <thread>

#include "pobj/scenario.hpp"

namespace tenure::pobj {
namespace {

class pobj_references : public pobj_test {};

struct pointers {
  char* to[8];
};
constexpr std::size_t all_eight[] = {0, 8, 16, 24, 32, 40, 48, 56, POBJ_END};
pointers* anchor;

pointers* new_pointers() {
  auto* const p = static_cast<pointers*>(pobj_calloc(1, sizeof(pointers)));
  EXPECT_OK(pobj_ref_typify(p, all_eight));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  return p;
}

TEST_F(pobj_references, into_the_middle_and_just_behind) {
  start();
  pointers* const p = new_pointers();
  auto* const small = static_cast<char*>(pobj_malloc(24));
  auto* const large = static_cast<char*>(pobj_malloc(300'000));
  std::memset(small, 's', 24);
  std::memset(large, 'l', 300'000);
  large[200'001] = 'm';
  *p = {{small, small + 3, small + 23, small + 24, large, large + 200'001, large + 300'000, nullptr}};
  for (void* const each : {static_cast<void*>(p), static_cast<void*>(small), static_cast<void*>(large)})
    EXPECT_OK(pobj_update(each));
  for (int i = 0; i < 3; ++i) {
    restart();
    char* const s = anchor->to[0];
    char* const l = anchor->to[4];
    EXPECT_EQ(*s, 's');
    EXPECT_EQ(anchor->to[1], s + 3);
    EXPECT_EQ(anchor->to[2], s + 23);
    EXPECT_EQ(anchor->to[3], s + 24);
    EXPECT_EQ(anchor->to[5], l + 200'001);
    EXPECT_EQ(*anchor->to[5], 'm');
    EXPECT_EQ(anchor->to[6], l + 300'000);
    EXPECT_EQ(anchor->to[7], nullptr);
    EXPECT_EQ(report().null_unknown + report().null_dangling, 0u);
  }
}

TEST_F(pobj_references, to_objects_of_no_bytes) {
  start();
  pointers* const p = new_pointers();
  for (char*& each : p->to) each = static_cast<char*>(pobj_malloc(0));
  EXPECT_OK(pobj_update(p));
  restart();
  for (char* const each : anchor->to) {
    EXPECT_EQ(pobj_is_object(each), 1);
    EXPECT_EQ(pobj_size(each), 0u);
  }
}

TEST_F(pobj_references, to_what_is_unknown_are_null_and_counted) {
  start();
  pointers* const p = new_pointers();
  static char elsewhere[] = "static";
  p->to[0] = elsewhere;
  p->to[1] = reinterpret_cast<char*>(0x123456789abcdef0);
  p->to[2] = static_cast<char*>(pobj_malloc_transient(8));
  p->to[3] = reinterpret_cast<char*>(p);
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_restore(p));
  EXPECT_EQ(p->to[0], elsewhere);  // in this execution it is still what it was
  restart();
  EXPECT_EQ(report().null_unknown, 3u);
  EXPECT_EQ(anchor->to[0], nullptr);
  EXPECT_EQ(anchor->to[1], nullptr);
  EXPECT_EQ(anchor->to[2], nullptr);
  EXPECT_EQ(anchor->to[3], reinterpret_cast<char*>(anchor));
  // The image still has what means nothing any more.
  EXPECT_OK(pobj_restore(anchor));
  EXPECT_EQ(anchor->to[0], nullptr);
  EXPECT_OK(pobj_update(anchor));
  restart();
  EXPECT_EQ(report().null_unknown, 0u);
}

// [pobj.reference.waiting]
TEST_F(pobj_references, to_a_transient_object_hold_when_it_becomes_persistent) {
  start();
  pointers* const p = new_pointers();
  auto* const later = static_cast<char*>(pobj_malloc_transient(16));
  std::strcpy(later, "later");
  p->to[0] = later;
  p->to[1] = later + 2;
  EXPECT_OK(pobj_update(p));
  // An abort takes it back, and the next time it holds.
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_persistify(later));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_is_persistent(later), 0);
  EXPECT_OK(pobj_persistify(later));
  crash_and_restart();
  ASSERT_NE(anchor->to[0], nullptr);
  EXPECT_STREQ(anchor->to[0], "later");
  EXPECT_EQ(anchor->to[1], anchor->to[0] + 2);
}

// An object comes to lie where a freed transient one was, to which an image still has the address. Neither what an abort puts back
// nor what waited in the aborted part makes it a reference to the new one.
TEST_F(pobj_references, to_freed_transient_objects_never_become_ones_to_others) {
  constexpr pobj_allocator one_place{[](std::size_t) -> void* {
                                       alignas(16) static std::byte place[64];
                                       return place;
                                     },
                                     nullptr, [](void*) {}};
  for (const bool is_inner : {false, true})
    for (const bool refers_to_both : {false, true}) {
      SCOPED_TRACE((is_inner ? "inner, " : "outermost, ") + std::to_string(refers_to_both));
      start();
      EXPECT_OK(pobj_start());
      pointers* const p = new_pointers();
      auto* const gone = static_cast<char*>(pobj_malloc_transient_adhoc(16, &one_place));
      p->to[0] = gone + 3;
      EXPECT_OK(pobj_update(p));
      EXPECT_OK(pobj_end());
      EXPECT_OK(pobj_free(gone));
      auto* const other = static_cast<char*>(pobj_malloc_transient_adhoc(16, &one_place));
      ASSERT_EQ(other, gone);
      if (!refers_to_both) {
        EXPECT_OK(pobj_persistify(other));
      }
      if (is_inner) {
        EXPECT_OK(pobj_start());
      }
      EXPECT_OK(pobj_start_inner());
      p->to[0] = refers_to_both ? other : static_cast<char*>(pobj_malloc_transient(16));
      EXPECT_OK(pobj_update(p));
      EXPECT_OK(pobj_abort());
      if (is_inner) {
        EXPECT_OK(pobj_end());
      }
      if (refers_to_both) {
        EXPECT_OK(pobj_persistify(other));
      }
      EXPECT_OK(pobj_update(pobj_malloc(8)));
      restart();
      EXPECT_EQ(anchor->to[0], nullptr);
      EXPECT_OK(pobj_close());
    }
}

TEST_F(pobj_references, made_in_one_transaction_and_made_right_by_another_threads) {
  start();
  auto* const later = static_cast<char*>(pobj_malloc_transient(16));
  std::strcpy(later, "later");
  EXPECT_OK(pobj_start());
  pointers* const p = new_pointers();
  p->to[0] = later;
  EXPECT_OK(pobj_update(p));
  std::thread([&] { EXPECT_OK(pobj_persistify(later)); }).join();
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_update(pobj_malloc(8)));  // what was made right is durable with the next commit
  crash_and_restart();
  EXPECT_STREQ(anchor->to[0], "later");
}

// What one transaction makes persistent, another one refers to, or has referred to: each image is as its own transaction
// left it, however both end.
TEST_F(pobj_references, are_made_right_only_where_no_other_transaction_writes) {
  const auto in_a_thread = [](auto&& f) { std::thread(f).join(); };
  const auto new_text = [](const char* text) {
    auto* const made = static_cast<char*>(pobj_malloc_transient(16));
    std::strcpy(made, text);
    return made;
  };
  for (const bool is_aborted : {false, true}) {
    SCOPED_TRACE(is_aborted);
    start();
    pointers* const p = new_pointers();
    char *const earlier = new_text("earlier"), *const later = new_text("later"), *const both = new_text("both");
    char* const cleared = new_text("cleared");
    p->to[0] = earlier;
    p->to[1] = both;
    p->to[3] = cleared;
    EXPECT_OK(pobj_update(p));
    // The images have these as addresses; an open transaction writes others.
    EXPECT_OK(pobj_start());
    p->to[0] = later;
    p->to[2] = later;
    p->to[3] = nullptr;
    EXPECT_OK(pobj_update(p));
    in_a_thread([&] {
      for (char* const each : {earlier, later, both, cleared}) EXPECT_OK(pobj_persistify(each));
    });
    EXPECT_OK(is_aborted ? pobj_abort() : pobj_end());
    EXPECT_OK(pobj_update(pobj_malloc(8)));  // with which what was made right is durable
    crash_and_restart();
    EXPECT_STREQ(anchor->to[0], is_aborted ? "earlier" : "later");
    EXPECT_STREQ(anchor->to[1], "both");
    if (is_aborted) {
      EXPECT_EQ(anchor->to[2], nullptr);
      EXPECT_STREQ(anchor->to[3], "cleared");
    } else {
      EXPECT_STREQ(anchor->to[2], "later");
      EXPECT_EQ(anchor->to[3], nullptr);
    }
    EXPECT_OK(pobj_close());
  }
}

// An abort of what made an object persistent does not undo what others have written meanwhile where the object is referred to,
// not after its end was refused either.
TEST_F(pobj_references, written_by_another_transaction_outlive_an_abort) {
  for (const bool is_refused : {false, true}) {
    SCOPED_TRACE(is_refused);
    start(POBJ_STRICT);
    pointers* const p = new_pointers();
    auto* const later = static_cast<char*>(pobj_malloc_transient(16));
    p->to[0] = later;
    p->to[5] = static_cast<char*>(pobj_malloc(100));
    EXPECT_OK(pobj_update(p));
    auto* const other = static_cast<char*>(pobj_malloc(16));
    std::strcpy(other, "other");
    EXPECT_OK(pobj_update(other));
    std::latch made(1), written(1);
    std::thread another([&] {
      EXPECT_OK(pobj_start());
      EXPECT_OK(pobj_persistify(later));
      if (is_refused) {
        EXPECT_OK(pobj_free(p->to[5]));
        expect_failure(POBJ_EREFERENCED, pobj_end(), {"offset 40", "frees"});
      }
      made.count_down();
      written.wait();
      EXPECT_OK(pobj_abort());
    });
    made.wait();
    EXPECT_OK(pobj_start());
    p->to[0] = other;
    EXPECT_OK(pobj_update_range(p, &p->to[0], sizeof p->to[0]));
    written.count_down();
    another.join();
    EXPECT_OK(pobj_end());
    crash_and_restart();
    EXPECT_STREQ(anchor->to[0], "other");
    EXPECT_OK(pobj_close());
  }
}

// Another transaction's end makes no reference to an image that an abort takes away.
TEST_F(pobj_references, to_what_is_transient_again_hold_when_it_becomes_persistent) {
  for (const bool is_aborted : {false, true}) {
    SCOPED_TRACE(is_aborted);
    start();
    pointers* const p = new_pointers();
    auto* const later = static_cast<char*>(pobj_malloc_transient(16));
    std::strcpy(later, "later");
    EXPECT_OK(pobj_start());
    p->to[0] = later;
    EXPECT_OK(pobj_update(p));
    std::latch made(1), ended(1);
    std::thread another([&] {
      EXPECT_OK(pobj_start());
      EXPECT_OK(pobj_persistify(later));
      made.count_down();
      ended.wait();
      EXPECT_OK(is_aborted ? pobj_abort() : pobj_end());
    });
    made.wait();
    EXPECT_OK(pobj_end());
    ended.count_down();
    another.join();
    if (is_aborted) {
      EXPECT_OK(pobj_persistify(later));
    }
    crash_and_restart();
    EXPECT_STREQ(anchor->to[0], "later");
    EXPECT_OK(pobj_close());
  }
}

TEST_F(pobj_references, to_freed_objects_are_null_and_never_another_object) {
  start();
  pointers* const p = new_pointers();
  p->to[0] = static_cast<char*>(pobj_malloc(100));
  p->to[1] = p->to[0] + 50;
  EXPECT_OK(pobj_update(p));
  const position slot = object{reinterpret_cast<std::byte*>(p->to[0])}.header().slot;
  EXPECT_OK(pobj_free(p->to[0]));
  // Until one has its place.
  void* in_its_place = nullptr;
  for (int i = 0; i < 100; ++i) {
    in_its_place = pobj_malloc(100);
    if (object{static_cast<std::byte*>(in_its_place)}.header().slot == slot) break;
  }
  EXPECT_EQ(object{static_cast<std::byte*>(in_its_place)}.header().slot, slot);
  restart();
  EXPECT_EQ(report().null_dangling, 2u);
  EXPECT_EQ(anchor->to[0], nullptr);
  EXPECT_EQ(anchor->to[1], nullptr);
}

TEST_F(pobj_references, strict_finds_freed_objects_that_are_referred_to) {
  start(POBJ_STRICT);
  pointers* const p = new_pointers();
  p->to[5] = static_cast<char*>(pobj_malloc(100)) + 10;
  char* const target = p->to[5] - 10;
  EXPECT_OK(pobj_update(p));
  expect_failure(POBJ_EREFERENCED, pobj_free(target), {"offset 40", "frees"});
  EXPECT_EQ(pobj_is_object(target), 1);
  expect_failure(POBJ_EREFERENCED, pobj_unpersistify(target), {"offset 40", "transient"});
  EXPECT_EQ(pobj_is_persistent(target), 1);
  expect_failure(POBJ_EREFERENCED, pobj_free(p), {"static variable", "anchor"});
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_free(target));
  EXPECT_NE(pobj_end(), POBJ_OK);
  EXPECT_EQ(pobj_depth(), 1);
  p->to[5] = nullptr;
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_end());
  EXPECT_EQ(pobj_is_object(target), 0);
  restart();
  EXPECT_EQ(report().null_dangling, 0u);
}

TEST_F(pobj_references, strict_finds_handles_where_no_reference_is) {
  start(POBJ_STRICT);
  pointers* const p = new_pointers();
  auto* const untyped = static_cast<pointers*>(pobj_malloc(sizeof(pointers)));
  *untyped = {};
  EXPECT_OK(pobj_update(untyped));
  untyped->to[3] = reinterpret_cast<char*>(p);
  expect_failure(POBJ_EUNTYPED, pobj_update(untyped), {"offset 24", "pobj_ref_flag"});
  expect_failure(POBJ_EUNTYPED, pobj_update_range(untyped, &untyped->to[3], 8), {"offset 24"});
  expect_failure(POBJ_EUNTYPED, pobj_update_recursive(untyped, 0), {"offset 24"});
  EXPECT_OK(pobj_update_range(untyped, &untyped->to[4], 8));
  EXPECT_OK(pobj_ref_flag(untyped, &untyped->to[3]));
  EXPECT_OK(pobj_update(untyped));
  static char* statically;
  statically = reinterpret_cast<char*>(p);
  expect_failure(POBJ_EUNTYPED, pobj_static_update(&statically, sizeof statically, nullptr), {"offset 0"});
  // Not strict: it is bytes, and no pointer in the next execution.
  restart();
  auto* const again = static_cast<pointers*>(pobj_calloc(1, sizeof(pointers)));
  again->to[0] = reinterpret_cast<char*>(anchor);
  ASSERT_OK(pobj_close());
  start();
}

}  // namespace
}  // namespace tenure::pobj
