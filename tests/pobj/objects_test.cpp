// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Allocation, handles that are none, persistent and transient.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "pobj/scenario.hpp"

namespace tenure::pobj {
namespace {

class pobj_objects : public pobj_test {};

void* anchor;

TEST_F(pobj_objects, persistent_ones_are_there_again) {
  start();
  auto* const text = static_cast<char*>(pobj_malloc(6));
  std::strcpy(text, "hello");
  EXPECT_OK(pobj_update(text));
  EXPECT_EQ(pobj_size(text), 6u);
  EXPECT_EQ(pobj_is_persistent(text), 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(text) % 8, 0u);
  EXPECT_OK(pobj_static_set_ref(&anchor, text));
  restart();
  EXPECT_NE(anchor, nullptr);
  EXPECT_STREQ(static_cast<char*>(anchor), "hello");
  EXPECT_EQ(pobj_size(anchor), 6u);
}

TEST_F(pobj_objects, what_was_never_updated_is_zero) {
  start();
  auto* const p = static_cast<unsigned char*>(pobj_malloc(100));
  std::memset(p, 1, 100);
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  restart();
  EXPECT_TRUE(std::all_of(static_cast<char*>(anchor), static_cast<char*>(anchor) + 100, [](char c) { return c == 0; }));
  auto* const zeros = static_cast<char*>(pobj_calloc(10, 10));
  EXPECT_TRUE(std::all_of(zeros, zeros + 100, [](char c) { return c == 0; }));
}

TEST_F(pobj_objects, of_all_sizes) {
  start();
  std::vector<std::pair<unsigned char**, std::size_t>> made;
  auto** const table = static_cast<unsigned char**>(pobj_calloc(64, sizeof(void*)));
  std::size_t offsets[65];
  for (std::size_t i = 0; i < 64; ++i) offsets[i] = i * 8;
  offsets[64] = POBJ_END;
  EXPECT_OK(pobj_ref_typify(table, offsets));
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t size = i < 32 ? i : i * i * 37;
    table[i] = static_cast<unsigned char*>(pobj_malloc(size));
    ASSERT_NE(table[i], nullptr) << pobj_error();
    std::memset(table[i], static_cast<int>(i), size);
    EXPECT_OK(pobj_update(table[i]));
  }
  EXPECT_OK(pobj_update(table));
  EXPECT_OK(pobj_static_set_ref(&anchor, table));
  crash_and_restart();
  auto** const found = static_cast<unsigned char**>(anchor);
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t size = i < 32 ? i : i * i * 37;
    ASSERT_EQ(pobj_size(found[i]), size);
    EXPECT_TRUE(std::all_of(found[i], found[i] + size, [&](unsigned char c) { return c == i; })) << i;
  }
}

TEST_F(pobj_objects, too_large) {
  start();
  EXPECT_EQ(pobj_malloc(std::size_t{1} << 40), nullptr);
  expect_failure(POBJ_ETOOBIG, POBJ_ETOOBIG, {"at most"});
  EXPECT_EQ(pobj_calloc(SIZE_MAX / 2, 3), nullptr);
  // The store may have 256 MiB.
  EXPECT_EQ(pobj_malloc(300 << 20), nullptr);
  expect_failure(POBJ_ETOOBIG, POBJ_ETOOBIG, {"full", "max_size"});
  EXPECT_NE(pobj_malloc(100), nullptr);
}

TEST_F(pobj_objects, wrong_handles) {
  start();
  auto* const p = static_cast<char*>(pobj_malloc(100));
  int other = 0;
  expect_failure(POBJ_EHANDLE, pobj_update(&other), {"no object"});
  expect_failure(POBJ_EHANDLE, pobj_update(nullptr), {"NULL"});
  expect_failure(POBJ_EHANDLE, pobj_update(p + 24), {"inside", "offset 24"});
  expect_failure(POBJ_EHANDLE, pobj_free(p + 8), {"inside"});
  expect_failure(POBJ_EHANDLE, pobj_free(reinterpret_cast<void*>(8)), {"no object"});
  EXPECT_OK(pobj_free(p));
  expect_failure(POBJ_EHANDLE, pobj_free(p), {"freed already"});
  expect_failure(POBJ_EHANDLE, pobj_update(p), {"freed already"});
  EXPECT_EQ(pobj_size(p), 0u);
  auto* const q = static_cast<char*>(pobj_malloc(100));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_free(q));
  EXPECT_EQ(pobj_is_object(q), 0);
  expect_failure(POBJ_EHANDLE, pobj_free(q), {"by the open transaction"});
  EXPECT_OK(pobj_end());
  expect_failure(POBJ_ERANGE, pobj_update_range(pobj_malloc(8), q, 1), {"do not lie in"});
}

TEST_F(pobj_objects, freed_ones_are_gone_and_their_space_is_used_again) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(1)));
  for (int i = 0; i < 3000; ++i) {
    void* const p = pobj_malloc(200);
    ASSERT_NE(p, nullptr) << pobj_error();
    EXPECT_OK(pobj_free(p));
  }
  EXPECT_EQ(open_store()->region.size(), 256u << 10);
  restart();
  EXPECT_EQ(report().objects, 1u);
}

TEST_F(pobj_objects, transient_ones_are_not) {
  start();
  void* const p = pobj_malloc_transient(50);
  EXPECT_EQ(pobj_is_object(p), 1);
  EXPECT_EQ(pobj_is_persistent(p), 0);
  EXPECT_OK(pobj_update(p));
  auto* const zeros = static_cast<char*>(pobj_calloc_transient(10, 5));
  EXPECT_TRUE(std::all_of(zeros, zeros + 50, [](char c) { return c == 0; }));
  EXPECT_OK(pobj_free(zeros));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  restart();
  EXPECT_EQ(report().objects, 0u);
  EXPECT_EQ(anchor, nullptr);
  EXPECT_EQ(report().null_unknown, 1u);
}

TEST_F(pobj_objects, persistify_and_unpersistify) {
  start();
  auto* const n = static_cast<node*>(pobj_malloc_transient(sizeof(node)));
  *n = {n, 5};
  EXPECT_OK(pobj_ref_typify(n, node_references));
  EXPECT_OK(pobj_persistify(n));
  EXPECT_OK(pobj_persistify(n));
  EXPECT_OK(pobj_static_set_ref(&anchor, n));
  restart();
  auto* const found = static_cast<node*>(anchor);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->value, 5u);
  EXPECT_EQ(found->next, found);
  EXPECT_OK(pobj_unpersistify(found));
  EXPECT_OK(pobj_unpersistify(found));
  EXPECT_EQ(pobj_is_persistent(found), 0);
  EXPECT_EQ(found->value, 5u);
  restart();
  EXPECT_EQ(report().objects, 0u);
  EXPECT_EQ(anchor, nullptr);
}

int blocks_out, zeroed;
void* counted_malloc(std::size_t size) {
  ++blocks_out;
  return std::malloc(size);
}
void* counted_calloc(std::size_t count, std::size_t size) {
  ++zeroed;
  ++blocks_out;
  return std::calloc(count, size);
}
void counted_free(void* block) {
  --blocks_out;
  std::free(block);
}
void* no_malloc(std::size_t) { return nullptr; }
alignas(16) char crooked_block[64];
void* crooked_malloc(std::size_t) { return crooked_block + 4; }

TEST_F(pobj_objects, of_the_pool) {
  pobj_options o = small_options();
  o.objects = {};
  ASSERT_OK(pobj_init_with(&o));
  std::vector<unsigned char*> all;
  for (std::size_t size = 0; size < 5000; size += 7) {
    auto* const p = static_cast<unsigned char*>(size % 2 == 0 ? pobj_calloc(1, size) : pobj_malloc_transient(size));
    ASSERT_NE(p, nullptr) << pobj_error();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16, 0u);
    if (size % 2 == 0) {
      EXPECT_EQ(std::count(p, p + size, 0), static_cast<std::ptrdiff_t>(size));
    }
    std::memset(p, static_cast<int>(size % 251), size);
    all.push_back(p);
  }
  // None has anything of another, and their headers are whole.
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(pobj_size(all[i]), i * 7);
    EXPECT_EQ(std::count(all[i], all[i] + i * 7, i * 7 % 251), static_cast<std::ptrdiff_t>(i * 7));
  }
  // The memory of one that is freed is the next one's of its size; one from malloc's or a collector's is not the pool's.
  unsigned char* const freed = all[10];
  EXPECT_OK(pobj_free(freed));
  EXPECT_EQ(pobj_is_object(freed), 0);
  EXPECT_EQ(pobj_malloc(70), freed);
  EXPECT_OK(pobj_finalize(all[11]));
  EXPECT_EQ(pobj_malloc_transient(77), all[11]);
  void* const adhoc = pobj_malloc_adhoc(70, &libc);
  EXPECT_OK(pobj_free(adhoc));
  EXPECT_OK(pobj_start());
  void* const aborted = pobj_malloc(70);
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(pobj_calloc(1, 70), aborted);
}

TEST_F(pobj_objects, ad_hoc_memory_managers) {
  start();
  blocks_out = zeroed = 0;
  const pobj_allocator counted{&counted_malloc, &counted_calloc, &counted_free};
  void* const p = pobj_malloc_adhoc(10, &counted);
  void* const q = pobj_malloc_transient_adhoc(10, &counted);
  void* const z = pobj_calloc_adhoc(10, 10, &counted);
  EXPECT_EQ(blocks_out, 3);
  EXPECT_EQ(zeroed, 1);
  for (void* const each : {p, q, z}) EXPECT_OK(pobj_free(each));
  EXPECT_EQ(blocks_out, 0);
  EXPECT_EQ(pobj_malloc_adhoc(10, nullptr), nullptr);
  expect_failure(POBJ_EOPTION, POBJ_EOPTION, {"malloc"});
  const pobj_allocator none{&no_malloc, nullptr, nullptr}, crooked{&crooked_malloc, nullptr, nullptr};
  EXPECT_EQ(pobj_malloc_adhoc(10, &none), nullptr);
  expect_failure(POBJ_ENOMEM, POBJ_ENOMEM, {"26 bytes"});
  EXPECT_EQ(pobj_malloc_adhoc(10, &crooked), nullptr);
  expect_failure(POBJ_EOPTION, POBJ_EOPTION, {"aligned"});
}

TEST_F(pobj_objects, a_memory_manager_for_all) {
  blocks_out = zeroed = 0;
  pobj_options o = small_options();
  o.objects = {&counted_malloc, nullptr, &counted_free};
  o.control = {&counted_malloc, nullptr, &counted_free};
  ASSERT_OK(pobj_init_with(&o));
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(9)));
  auto* const zeros = static_cast<char*>(pobj_calloc(10, 10));
  EXPECT_TRUE(std::all_of(zeros, zeros + 100, [](char c) { return c == 0; }));
  EXPECT_GT(blocks_out, 2);
  EXPECT_OK(pobj_close());
  EXPECT_EQ(blocks_out, 0);
  ASSERT_OK(pobj_init_with(&o));
  EXPECT_EQ(static_cast<node*>(anchor)->value, 9u);
  EXPECT_OK(pobj_close());
  EXPECT_EQ(blocks_out, 0);
  // One that has nothing left: the store stays as it is.
  o.objects = {&no_malloc, nullptr, nullptr};
  expect_failure(POBJ_ENOMEM, pobj_init_with(&o), {"32 bytes"});
  start();
  EXPECT_EQ(static_cast<node*>(anchor)->value, 9u);
}

// Blocks without gaps: an arena.
alignas(16) char arena_bytes[100'000];
std::size_t arena_used;
void* arena_malloc(std::size_t size) {
  void* const block = arena_bytes + arena_used;
  arena_used += (size + 7) / 8 * 8;
  return arena_used <= sizeof arena_bytes ? block : nullptr;
}

TEST_F(pobj_objects, in_an_arena) {
  arena_used = 0;
  pobj_options o = small_options();
  o.objects = {&arena_malloc, nullptr, nullptr};
  ASSERT_OK(pobj_init_with(&o));
  std::vector<char*> all;
  for (std::size_t i = 0; i < 200; ++i) {
    all.push_back(static_cast<char*>(pobj_malloc(i % 20)));
    ASSERT_NE(all.back(), nullptr);
    std::memset(all.back(), static_cast<int>(i), i % 20);
    EXPECT_OK(pobj_update(all.back()));
  }
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(pobj_size(all[i]), i % 20) << pobj_error();
  for (char* const p : all) EXPECT_EQ(pobj_is_persistent(p), 1);
  EXPECT_OK(pobj_free(all[7]));
  EXPECT_EQ(pobj_is_object(all[7]), 0);
  EXPECT_OK(pobj_close());
  arena_used = 0;
  ASSERT_OK(pobj_init_with(&o));
  EXPECT_EQ(report().objects, 199u);
}

TEST_F(pobj_objects, finalizers) {
  start();
  const pobj_allocator collected{&counted_malloc, nullptr, nullptr};
  void* const p = pobj_malloc_adhoc(100, &collected);
  void* const q = pobj_malloc_adhoc(100, &collected);
  void* const t = pobj_malloc_transient_adhoc(100, &collected);
  EXPECT_OK(pobj_finalize(p));
  EXPECT_OK(pobj_finalize(t));
  pobj_finalize_block(static_cast<char*>(q) - POBJ_HEADER_SIZE, nullptr);
  expect_failure(POBJ_EHANDLE, pobj_finalize(p), {"no object"});
  EXPECT_EQ(pobj_is_object(q), 0);
  for (void* const each : {p, q, t}) std::free(static_cast<char*>(each) - POBJ_HEADER_SIZE);
  // Until a commit, a crash brings them back.
  crash_and_restart();
  EXPECT_EQ(report().objects, 2u);
  std::uint64_t freed = 0;
  EXPECT_OK(pobj_sweep(&freed));
  EXPECT_EQ(freed, 2u);
  void* const r = pobj_malloc_adhoc(100, &collected);
  EXPECT_OK(pobj_finalize(r));
  std::free(static_cast<char*>(r) - POBJ_HEADER_SIZE);
  restart();
  EXPECT_EQ(report().objects, 0u);
}

TEST_F(pobj_objects, sweeping) {
  start();
  node* const last = new_node(1);
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(3, new_node(2, last))));
  node* const lost = new_node(4);
  lost->next = new_node(5, lost);
  EXPECT_OK(pobj_update(lost));
  std::uint64_t freed = 0;
  EXPECT_OK(pobj_sweep(&freed));
  EXPECT_EQ(freed, 2u);
  EXPECT_EQ(pobj_is_object(lost), 0);
  EXPECT_OK(pobj_sweep(&freed));
  EXPECT_EQ(freed, 0u);
  restart();
  EXPECT_EQ(report().objects, 3u);
}

}  // namespace
}  // namespace tenure::pobj
