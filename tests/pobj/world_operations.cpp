// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a random program does besides making, changing and freeing objects; and what is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "pobj/scenario.hpp"
#include "pobj/store.hpp"
#include "pobj/world.hpp"

namespace tenure::pobj {

namespace {

constexpr const char* numbers_name = "program::_ZN6tenure4pobj7anchors7numbersE+0";

unsigned char* bytes_of(thing* t) { return reinterpret_cast<unsigned char*>(t); }

}  // namespace

namespace {

// All of a word, or a part of it, by one of the calls for a type.
int set_number(thing* t, void* field, std::uint64_t how, std::uint64_t value) {
  const auto as = [&]<class T>(int (*set)(void*, T*, T)) {
    return set(t, static_cast<T*>(field), static_cast<T>(value));
  };
  switch (how) {
    case 0: return as(&pobj_set_char);
    case 1: return as(&pobj_set_uchar);
    case 2: return as(&pobj_set_short);
    case 3: return as(&pobj_set_ushort);
    case 4: return as(&pobj_set_int);
    case 5: return as(&pobj_set_uint);
    case 6: return as(&pobj_set_long);
    case 7: return as(&pobj_set_ulong);
    case 8: return as(&pobj_set_llong);
    case 9: return as(&pobj_set_ullong);
    case 10: return as(&pobj_set_size);
    case 11: return as(&pobj_set_float);
    case 12: return as(&pobj_set_double);
    default: return pobj_memcpy(t, field, &value, sizeof value);
  }
}

// What a garbage collector would have: the library gives nothing back.
std::set<void*>& uncollected() {
  static std::set<void*> all;
  return all;
}
void* allocate_collected(std::size_t size) { return *uncollected().insert(std::malloc(size)).first; }
constexpr pobj_allocator collected = {&allocate_collected, nullptr, nullptr};

void collect(void* block) {
  uncollected().erase(block);
  std::free(block);
}

}  // namespace

// --- What is drawn ---

configuration configuration::usual() {
  configuration c;
  c.options = small_options();
  // Small, so that the store grows and the log goes around.
  c.options.initial_size = 64 << 10;
  c.options.log_size = 64 << 10;
  return c;
}

configuration configuration::drawn(std::uint64_t seed) {
  std::mt19937_64 random(seed * 77);
  const auto one_of = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  configuration c = usual();
  c.options.flags = one_of(0U, 0U, POBJ_STRICT);
  c.options.objects = one_of(c.options.objects, libc, pobj_allocator{&std::malloc, nullptr, &std::free}, collected);
  c.options.max_size = one_of(256U << 20, 256U << 20, 96U << 10);
  c.options.log_size = one_of(64U << 10, 512U << 10);
  c.bulk_bytes = one_of(8192U, 65536U, 4U << 20);
  c.small_area = one_of(65536U, 8192U, 4096U);
  c.largest_area = one_of(16U << 20, 32768U);
  c.first_mark = one_of(std::uint16_t{0}, std::uint16_t{0xfff0});
  // Making and updating stay; of the rest often only some.
  c.operations = random() % 3 == 0 ? ~std::uint64_t{0} : random() | 0b1111;
  c.misuses = random() % 2 == 0;
  c.refusals = one_of(0U, 0U, 5U);
  c.options.control = bounded;
  return c;
}

void configuration::set_hooks() const {
  test_hooks::bulk_bytes = bulk_bytes;
  test_hooks::small_area = small_area;
  test_hooks::largest_area = largest_area;
  test_hooks::first_mark = first_mark;
}

void configuration::reset_hooks() {
  test_hooks::bulk_bytes = std::uint64_t{4} << 20;
  test_hooks::small_area = std::uint64_t{64} << 10;
  test_hooks::largest_area = std::uint64_t{16} << 20;
  test_hooks::first_mark = 0;
  while (!uncollected().empty()) collect(*uncollected().begin());
}

// --- In a transaction ---

void world::nest() {
  if (!need(pobj_start())) return;
  for (auto n = below(3); n != 0 && !failed_ && !refused_ && !doomed_; --n) change();
  if (!doomed_ && !refused_ && !failed_ && below(6) == 0) {
    need(pobj_abort());
    doomed_ = true;
    EXPECT_EQ(pobj_static_update(&anchors::commits, sizeof anchors::commits, nullptr), POBJ_EABORTED);
    EXPECT_EQ(pobj_malloc(8), nullptr);
    return;
  }
  need(pobj_end());
}

// Undone without the rest: because it is aborted, because a nested one in it is, or because a call in it was refused.
void world::nest_inner() {
  if (!need(pobj_start_inner())) return;
  const int depth = pobj_depth();
  const state before = state_;
  const std::set<int> updated = std::exchange(updated_, {});
  for (auto n = below(5); n != 0 && !failed_ && !refused_ && !doomed_; --n) below(4) == 0 ? nest_inner() : change();
  if (failed_) return;
  EXPECT_EQ(pobj_depth(), depth);
  if (!refused_ && !doomed_ && below(2) == 0) {
    need(pobj_end());
    updated_.insert(updated.begin(), updated.end());
    return;
  }
  if (doomed_ && below(2) == 0)
    EXPECT_EQ(pobj_end(), POBJ_EABORTED);
  else if (!need(pobj_abort()))
    return;
  EXPECT_EQ(pobj_depth(), depth - 1);
  if (refused_) granted = SIZE_MAX;
  abort(before, refused_);
  updated_ = updated;
  refused_ = doomed_ = false;
}

void world::set_field(int id) {
  entry& e = state_.all.at(id);
  bool done = false;
  const std::uint64_t value = random_();
  const bool whole = below(2) == 0;
  if (whole) {
    e.memory.fill = static_cast<unsigned char>(value);
    done = need(pobj_memset(e.at, e.at->more, e.memory.fill, e.size - offsetof(thing, more)));
  } else {
    done = need(set_number(e.at, &e.at->content, below(14), value));
    e.memory.content = e.at->content;
  }
  if (!done || !e.persistent) return;
  (whole ? void(e.image.fill = e.memory.fill) : void(e.image.content = e.memory.content));
  updated_.insert(id);
}

void world::set_reference(int id) {
  entry& e = state_.all.at(id);
  const auto k = below(3);
  const int to = below(4) == 0 ? 0 : any();
  const int offset = to == 0 ? 0 : static_cast<int>(below(sizeof(thing) + 1));
  void* const pointer = to == 0 ? nullptr : bytes_of(state_.all.at(to).at) + offset;
  if (below(3) == 0 && !e.flagged[k] && !need(pobj_ref_flag(e.at, &e.at->to[k]))) return;
  if (!need(pobj_set_ref(e.at, &e.at->to[k], pointer))) return;
  e.flagged[k] = true;
  e.memory.to[k] = reference_to(to, offset);
  if (!e.persistent) return;
  e.image.to[k] = e.memory.to[k];
  updated_.insert(id);
}

void world::clear_reference(int id) {
  entry& e = state_.all.at(id);
  const auto k = below(3);
  auto* const field = reinterpret_cast<unsigned long*>(&e.at->to[k]);
  if (e.defined) {
    EXPECT_EQ(pobj_set_ulong(e.at, field, 0), POBJ_ETYPE);
    EXPECT_EQ(pobj_ref_unflag(e.at, field), POBJ_ETYPE);
    return;
  }
  if (!need(pobj_set_ulong(e.at, field, 0)) || !need(pobj_ref_unflag(e.at, field))) return;
  e.flagged[k] = false;
  e.memory.to[k] = {};
  if (!e.persistent) return;
  e.image.to[k] = {};
  updated_.insert(id);
}

// All words at once: what the image had in them before is converted.
void world::retype(int id) {
  entry& e = state_.all.at(id);
  if (e.defined || (how_.options.flags & POBJ_STRICT) != 0) return set_reference(id);
  const bool to_references = below(2) == 0;
  if (to_references) {
    for (int k = 0; k < 3; ++k) {
      const int to = any();
      e.memory.to[k] = reference_to(to, 0);
      e.at->to[k] = state_.all.at(to).at;
    }
    if (!need(pobj_update(e.at)) || !need(pobj_ref_typify(e.at, thing_references))) return;
  } else {
    const std::size_t none[] = {POBJ_END};
    if (!need(pobj_ref_typify(e.at, none)) || !need(pobj_memset(e.at, e.at->to, 0, sizeof e.at->to))) return;
    std::ranges::fill(e.memory.to, reference{});
  }
  std::ranges::fill(e.flagged, to_references);
  update(id, &updated_);
}

void world::restore(int id) {
  entry& e = state_.all.at(id);
  if (!need(pobj_restore(e.at)) || !e.persistent) return;
  const std::uint64_t scratch = e.memory.scratch;
  e.memory = e.image;
  if (e.defined) e.memory.scratch = scratch;
  for (int k = 0; k < 3; ++k)
    if (target(e.memory.to[k]) == nullptr) {
      e.memory.to[k] = {};
      e.at->to[k] = nullptr;
    }
}

void world::store_named() {
  const auto at = state_.all.find(state_.named.id);
  state_.named = at == state_.all.end() ? reference{} : reference_to(state_.named.id, 0);
  need(pobj_static_set_ref(anchors::named, at == state_.all.end() ? nullptr : at->second.at));
}

void world::store_numbers() {
  const std::uint64_t count = std::max(state_.numbers_size, 1 + below(8));
  for (std::uint64_t i = 0; i < count; ++i) anchors::numbers[i] = random_();
  if (!need(pobj_static_update(anchors::numbers, count * 8, nullptr))) return;
  std::ranges::copy(anchors::numbers, state_.numbers);
  state_.numbers_size = count;
}

// Calls that fail, and change nothing.
void world::misuse(int id) {
  entry& e = state_.all.at(id);
  static std::uint64_t small_one;
  std::uint64_t local = 0;
  const std::size_t odd[] = {4, POBJ_END}, outside[] = {std::size_t{1} << 20, POBJ_END};
  switch (below(7)) {
    case 0:
      EXPECT_EQ(pobj_update(&local), POBJ_EHANDLE);
      EXPECT_EQ(pobj_update(nullptr), POBJ_EHANDLE);
      EXPECT_EQ(pobj_persistify(bytes_of(e.at) + 8), POBJ_EHANDLE);
      EXPECT_EQ(pobj_size(bytes_of(e.at) + 3), 0u);
      EXPECT_EQ(pobj_is_object(bytes_of(e.at) + 8) + pobj_is_persistent(&local), 0);
      return;
    case 1:
      EXPECT_EQ(pobj_update_range(e.at, e.at, e.size + 1), POBJ_ERANGE);
      EXPECT_EQ(pobj_memcpy(e.at, bytes_of(e.at) - 1, &local, 1), POBJ_ERANGE);
      EXPECT_EQ(pobj_set_ref(e.at, bytes_of(e.at) + 4, nullptr), POBJ_ERANGE);
      EXPECT_EQ(pobj_ref_typify(e.at, odd), POBJ_ETYPE);
      EXPECT_EQ(pobj_ref_typify(e.at, outside), POBJ_ERANGE);
      return;
    case 2:
      EXPECT_EQ(pobj_close(), POBJ_ETRANSACTION);
      EXPECT_EQ(pobj_sweep(nullptr), POBJ_ETRANSACTION);
      EXPECT_EQ(pobj_init(), POBJ_ESTATE);
      EXPECT_EQ(pobj_static_forget(numbers_name), POBJ_ETRANSACTION);
      EXPECT_EQ(pobj_update_recursive(e.at, 2), POBJ_EOPTION);
      return;
    case 3:
      store_roots();
      if (refused_ || failed_) return;
      EXPECT_EQ(pobj_static_update(&local, sizeof local, nullptr), POBJ_ESTATIC);
      EXPECT_EQ(pobj_static_update(nullptr, 8, nullptr), POBJ_EOPTION);
      EXPECT_EQ(pobj_static_update(&small_one, 16, nullptr), POBJ_ERANGE);
      EXPECT_EQ(pobj_static_update(anchors::roots, 8, nullptr), POBJ_ESTATIC);
      EXPECT_EQ(pobj_static_bind("nobody", &local, 8), POBJ_ESTATIC);
      EXPECT_EQ(pobj_static_named(anchors::name, &small_one, 8, nullptr), POBJ_ESTATIC);
      EXPECT_EQ(pobj_static_named("another", anchors::named, 8, nullptr), POBJ_ESTATIC);
      if (state_.numbers_size > 1) {
        EXPECT_EQ(pobj_static_update(&anchors::numbers[1], 8, nullptr), POBJ_ESTATIC);
      }
      return;
    case 4:
      EXPECT_EQ(pobj_malloc(SIZE_MAX), nullptr);
      EXPECT_EQ(pobj_calloc(SIZE_MAX, 2), nullptr);
      EXPECT_EQ(pobj_malloc_adhoc(8, nullptr), nullptr);
      EXPECT_EQ(pobj_type_define("thing", 8, nullptr, nullptr), nullptr);
      EXPECT_EQ(pobj_type_define(nullptr, 8, nullptr, nullptr), nullptr);
      EXPECT_EQ(pobj_get_report(nullptr), POBJ_EOPTION);
      EXPECT_EQ(pobj_finalize(&local), POBJ_EHANDLE);
      return;
    case 5: {
      // Another thread's.
      std::thread([&] {
        EXPECT_EQ(pobj_depth(), 0);
        if (pobj_start() != POBJ_OK) return;
        void* const p = pobj_malloc(100);
        if (p != nullptr) (void)pobj_free(p);
        if (pobj_end() != POBJ_OK) {
          EXPECT_EQ(pobj_abort(), POBJ_OK);
        }
        if (pobj_start() == POBJ_OK) (void)pobj_malloc(100);
      }).join();
      return;
    }
    default:
      if (e.size != sizeof(thing)) {
        EXPECT_EQ(pobj_set_type(e.at, pobj_type_define("world.huge", 1 << 20, nullptr, nullptr)), POBJ_ERANGE);
      }
      EXPECT_EQ(pobj_free(nullptr), POBJ_OK);
  }
}

// --- Between transactions ---

// As if a garbage collector had taken it: what is left in images refers to nothing from the next commit on.
void world::finalize_one() {
  const int id = any();
  if (id == 0) return;
  forget_in_memory(id, false);
  for (int i = 0; i < 6; ++i)
    if (state_.roots[i].id == id) anchors::roots[i] = nullptr;
  if (state_.named.id == id) *anchors::named = nullptr;
  const entry e = state_.all.at(id);
  std::byte* const block = reinterpret_cast<std::byte*>(e.at) - POBJ_HEADER_SIZE;
  pobj_finalize_block(block, nullptr);
  EXPECT_EQ(pobj_is_object(e.at), 0);
  if (!e.pooled) collect(block);
  state_.all.erase(id);
}

// A transaction of its own.
void world::forget_numbers() {
  if (state_.numbers_size == 0) return;
  if (below(2) == 0) {  // bound anew first
    EXPECT_EQ(pobj_static_bind(numbers_name, nullptr, 0), POBJ_OK);
    EXPECT_EQ(pobj_static_update(anchors::numbers, sizeof anchors::numbers, nullptr), POBJ_ESTATIC);
    EXPECT_EQ(pobj_static_bind(numbers_name, anchors::numbers, 4), POBJ_ESTATIC);
    std::ranges::fill(anchors::numbers, 0);
    EXPECT_EQ(pobj_static_bind(below(2) == 0 ? nullptr : numbers_name, anchors::numbers, sizeof anchors::numbers),
              POBJ_OK);
    EXPECT_TRUE(std::equal(anchors::numbers, anchors::numbers + 8, state_.numbers));
  }
  if (below(2) == 0) return;
  if (!need(pobj_static_forget(numbers_name))) return;
  state_.numbers_size = 0;
  std::ranges::fill(state_.numbers, 0);
  std::ranges::fill(anchors::numbers, 0);
  history_[state_.commits] = state_;
}

// The name goes to another variable.
void world::rebind() {
  EXPECT_EQ(pobj_static_named(anchors::name, nullptr, 0, nullptr), POBJ_OK) << pobj_error();
  if (const char* const unbound = pobj_unbound(0); unbound != nullptr) {
    EXPECT_STREQ(unbound, anchors::name);
    EXPECT_EQ(pobj_unbound(1), nullptr);
  }
  anchors::named = &anchors::named_places[anchors::named == &anchors::named_places[0] ? 1 : 0];
  *anchors::named = nullptr;
  EXPECT_EQ(pobj_static_named(anchors::name, anchors::named, sizeof(thing*), nullptr), POBJ_OK) << pobj_error();
  if (const entry* const to = target(state_.named); to != nullptr)
    EXPECT_EQ(*anchors::named, to->at);
  else
    *anchors::named = nullptr;
}

}  // namespace tenure::pobj
