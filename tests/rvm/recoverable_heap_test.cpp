// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The recoverable heap, call by call. recoverable_heap_model_test.cpp has random histories, crashes and threads.
#include <tenure/recoverable_heap.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "recoverable_heap/format.hpp"
#include "rvm/heap_test_support.hpp"

namespace tenure::rvm {
namespace {

struct node {
  std::uint64_t value = 0;
  node* next = nullptr;
};

class heap : public ::testing::Test {
 protected:
  static constexpr std::uint64_t length = 4 << 20;
  sim::disk disk;
  std::unique_ptr<heap_world> world = std::make_unique<heap_world>(disk, length);
  recoverable_heap& h() { return *world->heap; }
  memory& m() { return world->memory; }
  void reopen() {
    world.reset();
    world = std::make_unique<heap_world>(disk, length);
  }
  void* commit_one(std::size_t bytes) {
    void* p = nullptr;
    m().transact([&](transaction& tx) { std::memset(p = h().allocate(tx, bytes), 1, bytes); });
    return p;
  }
  std::set<void*> objects() {
    std::set<void*> all;
    h().for_each_object([&](void* p, std::size_t) { all.insert(p); });
    return all;
  }
};

TEST_F(heap, starts_empty_and_is_found_again) {
  h().check();
  EXPECT_EQ(h().stats().objects, 0u);
  EXPECT_EQ(h().stats().free_bytes, h().stats().data_bytes);
  EXPECT_GT(h().stats().data_bytes, length * 98 / 100);
  reopen();
  h().check();
  EXPECT_EQ(h().root(0), nullptr);
}

TEST_F(heap, keeps_objects_and_roots) {
  m().transact([&](transaction& tx) {
    node* first = nullptr;
    for (std::uint64_t i = 0; i < 1000; ++i) first = h().make<node>(tx, i, first);
    h().set_root(tx, 3, first);
  });
  const std::uint64_t first = world->offset(h().root(3));
  EXPECT_EQ(h().stats().objects, 1000u);
  reopen();  // elsewhere, perhaps: only offsets can be compared
  EXPECT_EQ(world->offset(h().root(3)), first);
  EXPECT_EQ(h().root<node>(3)->value, 999u);
  EXPECT_EQ(h().stats().objects, 1000u);
  EXPECT_EQ(objects().size(), 1000u);
  h().check();
}

TEST_F(heap, takes_every_size_and_alignment) {
  std::set<std::pair<std::uintptr_t, std::uintptr_t>> taken;
  std::vector<void*> all;
  m().transact([&](transaction& tx) {
    for (std::size_t bytes : {0, 1, 15, 16, 17, 100, 129, 1000, 4095, 4096, 5000, 20000, 32768, 32769, 40000}) {
      for (std::size_t alignment = 1; alignment <= recoverable_heap::max_alignment; alignment *= 4) {
        auto* p = static_cast<std::byte*>(h().allocate(tx, bytes, alignment));
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u) << bytes;
        std::memset(p, 7, bytes);
        const auto begin = reinterpret_cast<std::uintptr_t>(p), end = begin + h().usable_size(p);
        ASSERT_GE(end - begin, bytes);
        if (alignment <= 16 && bytes > 128) {
          ASSERT_LE((end - begin - bytes) * 4, end - begin) << bytes;
        }
        const auto after = taken.lower_bound({begin, 0});
        ASSERT_TRUE(after == taken.end() || after->first >= end);
        ASSERT_TRUE(after == taken.begin() || std::prev(after)->second <= begin);
        taken.emplace(begin, end);
        all.push_back(p);
      }
    }
  });
  h().check();
  m().transact([&](transaction& tx) {
    for (void* p : all) h().deallocate(tx, p);
  });
  h().check();
  EXPECT_EQ(h().stats().free_bytes, h().stats().data_bytes);
  transaction tx = m().begin();
  expect_error(errc::bad_option, {"48"}, [&] { static_cast<void>(h().allocate(tx, 1, 48)); });
  expect_error(errc::bad_option, {"8192"}, [&] { static_cast<void>(h().allocate(tx, 1, 8192)); });
}

TEST_F(heap, arrays) {
  std::uint64_t* first = nullptr;
  m().transact([&](transaction& tx) {
    auto numbers = h().make_array<std::uint64_t>(tx, 10000);
    ASSERT_TRUE(std::ranges::all_of(numbers, [](auto n) { return n == 0; }));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    first = numbers.data();
    EXPECT_THROW(static_cast<void>(h().make_array<std::uint64_t>(tx, SIZE_MAX / 4)), std::bad_array_new_length);
  });
  EXPECT_EQ(first[9999], 9999u);
  m().transact([&](transaction& tx) { h().destroy(tx, first); });
  EXPECT_EQ(h().stats().objects, 0u);
}

TEST_F(heap, abort_gives_everything_back) {
  void* kept = commit_one(100);
  const auto before = h().stats();
  transaction tx = m().begin();
  for (int i = 0; i < 500; ++i) static_cast<void>(h().allocate(tx, 100));
  static_cast<void>(h().allocate(tx, 100000));
  h().deallocate(tx, kept);
  h().set_root(tx, 0, kept);
  EXPECT_EQ(h().stats().reserved, 501u);
  EXPECT_EQ(h().stats().being_freed, 1u);
  tx.abort();
  h().check();
  const auto after = h().stats();
  EXPECT_EQ(after.objects, before.objects);
  EXPECT_EQ(after.free_bytes, before.free_bytes);
  EXPECT_EQ(after.reserved + after.being_freed, 0u);
  EXPECT_EQ(h().root(0), nullptr);
  EXPECT_TRUE(objects().contains(kept));
}

// Defect 16 of the original: t1 allocates, t2 allocates and commits, t1 aborts; the heap must not go back behind t2.
TEST_F(heap, interleaved_transactions_do_not_alias) {
  transaction one = m().begin();
  void* lost = h().allocate(one, 64);
  transaction two = m().begin();
  auto* kept = static_cast<std::byte*>(h().allocate(two, 64));
  ASSERT_NE(lost, kept);
  fill(kept, 64, 2);
  two.commit();
  one.abort();
  h().check();
  m().transact([&](transaction& tx) {
    for (int i = 0; i < 2000; ++i) {
      auto* p = static_cast<std::byte*>(h().allocate(tx, 64));
      ASSERT_NE(p, kept);
      fill(p, 64, 3);
    }
  });
  EXPECT_TRUE(holds(kept, 64, 2));
  const std::uint64_t where = world->offset(kept);
  reopen();
  EXPECT_TRUE(holds(world->at(where), 64, 2));
  EXPECT_EQ(h().stats().objects, 2001u);
}

TEST_F(heap, freed_memory_waits_for_the_commit) {
  void* p = commit_one(20000);
  transaction freeing = m().begin(), other = m().begin();
  h().deallocate(freeing, p);
  for (;;) {  // all the rest of the heap
    try {
      ASSERT_NE(h().allocate(other, 20000), p);
    } catch (const error& e) {
      ASSERT_EQ(e.code(), make_error_code(errc::out_of_memory));
      break;
    }
  }
  freeing.commit();
  EXPECT_EQ(h().allocate(other, 20000), p);
  other.abort();
  h().check();
}

TEST_F(heap, freeing_own_allocations) {
  transaction tx = m().begin();
  void* p = h().allocate(tx, 64);
  h().deallocate(tx, p);
  expect_error(errc::bad_free, {"freed already by this transaction"}, [&] { h().deallocate(tx, p); });
  // Not given to others before the end: an abort would put old bytes back there.
  transaction other = m().begin();
  EXPECT_NE(h().allocate(other, 64), p);
  h().check();
  tx.commit();
  h().check();
  other.abort();
  EXPECT_EQ(h().stats().free_bytes, h().stats().data_bytes);
  EXPECT_TRUE(objects().empty());
}

TEST_F(heap, bad_frees_say_why) {
  auto* p = static_cast<std::byte*>(commit_one(100));
  auto* large = static_cast<std::byte*>(commit_one(50000));
  transaction tx = m().begin(), other = m().begin();
  h().deallocate(tx, nullptr);
  int local = 0;
  const auto free = [&](void* what) { return [&, what] { h().deallocate(tx, what); }; };
  expect_error(errc::bad_free, {"outside"}, free(&local));
  expect_error(errc::bad_free, {"bookkeeping"}, free(world->at(64)));
  expect_error(errc::bad_free, {"16 bytes into the object"}, free(p + 16));
  expect_error(errc::bad_free, {"4096 bytes into the object"}, free(large + 4096));
  expect_error(errc::bad_free, {"freed before"}, free(p + h().usable_size(p)));
  expect_error(errc::bad_free, {"page is free"}, free(world->at(length - 4096)));
  void* reserved = h().allocate(other, 100);
  expect_error(errc::bad_free, {"allocated by transaction"}, free(reserved));
  h().deallocate(other, p);
  expect_error(errc::bad_free, {"freed already by transaction", "which has not ended"}, free(p));
  other.commit();
  expect_error(errc::bad_free, {"freed before", heap_segment}, free(p));
  h().deallocate(tx, reserved);
  tx.commit();
  h().check();
}

TEST_F(heap, out_of_memory_names_sizes_and_leaves_the_transaction_alone) {
  transaction tx = m().begin();
  void* p = h().allocate(tx, 100);
  expect_error(errc::out_of_memory, {"20000000 bytes", heap_segment},
               [&] { static_cast<void>(h().allocate(tx, 20000000)); });
  expect_error(errc::out_of_memory, {"18446744073709551615"}, [&] { static_cast<void>(h().allocate(tx, SIZE_MAX)); });
  std::size_t count = 0;
  EXPECT_THROW(for (;; ++count) static_cast<void>(h().allocate(tx, 30000)), error);
  EXPECT_GT(count, 25u);
  h().check();
  std::memset(p, 5, 100);
  tx.abort();
  EXPECT_EQ(h().stats().free_bytes, h().stats().data_bytes);
  EXPECT_GE(h().stats().largest_free, h().stats().data_bytes);
}

// The commit fails after prepare() has changed shared words; what others commit in between must survive the abort.
TEST(heap_commit_failure, undoes_exactly_its_own_changes) {
  sim::disk disk;
  options how = heap_world::quiet();
  how.log.size = how.log.max_size = 1 << 16;
  auto world = std::make_unique<heap_world>(disk, 1 << 20, how);
  recoverable_heap& h = *world->heap;
  void *freed_alone = nullptr, *freed_small = nullptr;
  world->memory.transact([&](transaction& tx) {
    freed_alone = h.allocate(tx, 5000);
    freed_small = h.allocate(tx, 48);
  });
  const auto before = h.stats();

  transaction big = world->memory.begin();
  static_cast<void>(h.allocate(big, 48));
  static_cast<void>(h.allocate(big, 1000));
  static_cast<void>(h.allocate(big, 200000));
  h.deallocate(big, freed_alone);  // ends a span
  h.deallocate(big, freed_small);
  for (int attempt = 0; attempt < 2; ++attempt) {
    expect_error(errc::too_big, {}, [&] { big.commit(); });
    h.check();
    EXPECT_EQ(h.stats().objects, before.objects);
  }
  std::vector<std::byte*> kept;
  world->memory.transact([&](transaction& tx) {
    for (std::uint32_t i = 0; i < 30; ++i) {
      kept.push_back(static_cast<std::byte*>(h.allocate(tx, 48)));
      fill(kept.back(), 48, i);
    }
  });
  EXPECT_THROW(big.commit(), error);
  h.check();
  big.abort();
  h.check();
  EXPECT_EQ(h.stats().objects, before.objects + 30);
  std::vector<std::uint64_t> offsets;
  for (auto* p : kept) offsets.push_back(world->offset(p));
  world.reset();
  world = std::make_unique<heap_world>(disk, 1 << 20, how);
  world->heap->check();
  EXPECT_EQ(world->heap->stats().objects, before.objects + 30);
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_TRUE(holds(world->at(offsets[i]), 48, i));
}

// The log cannot be written: nobody knows what is on the disk, and nothing can be committed any more. The abort undoes
// what prepare() did.
TEST(heap_commit_failure, after_a_failed_sync) {
  sim::disk disk;
  heap_world world(disk);
  void* freed = nullptr;
  world.memory.transact([&](transaction& tx) { freed = world.heap->allocate(tx, 5000); });
  const auto before = world.heap->stats();
  transaction tx = world.memory.begin();
  static_cast<void>(world.heap->allocate(tx, 48));
  world.heap->deallocate(tx, freed);
  disk.inject({.path = "heap.log", .count = sim::for_ever});
  EXPECT_THROW(tx.commit(), error);
  world.heap->check();
  tx.abort();
  world.heap->check();
  EXPECT_EQ(world.heap->stats().objects, 1u);
  EXPECT_EQ(world.heap->stats().free_bytes, before.free_bytes);
}

TEST_F(heap, a_forgotten_no_restore_transaction_gives_its_places_back) {
  {
    auto tx = m().begin(restore_mode::no_restore);
    static_cast<void>(h().allocate(tx, 100));
  }
  h().check();
  EXPECT_EQ(h().stats().free_bytes, h().stats().data_bytes);
}

TEST_F(heap, transactions_of_another_memory_are_refused) {
  sim::disk other_disk;
  heap_world other(other_disk);
  transaction ours = m().begin(), theirs = other.memory.begin();
  while (theirs.id() < ours.id()) theirs = other.memory.begin();
  while (ours.id() < theirs.id()) ours = m().begin();
  void* p = h().allocate(ours, 100);
  expect_error(errc::not_mapped, {}, [&] { static_cast<void>(h().allocate(theirs, 100)); });
  expect_error(errc::not_mapped, {}, [&] { h().deallocate(theirs, p); });
  h().check();
  theirs.commit();
  EXPECT_EQ(h().stats().reserved, 1u);
  ours.commit();
  EXPECT_EQ(h().stats().objects, 1u);
  h().check();
}

TEST_F(heap, an_ended_transaction_is_refused) {
  transaction tx = m().begin();
  tx.commit();
  expect_error(errc::bad_transaction, {}, [&] { static_cast<void>(h().allocate(tx, 1)); });
  expect_error(errc::bad_transaction, {}, [&] { h().deallocate(tx, &tx); });
}

TEST_F(heap, roots) {
  transaction tx = m().begin();
  int local = 0;
  expect_error(errc::bad_option, {"32"}, [&] { static_cast<void>(h().root(32)); });
  expect_error(errc::bad_option, {"99"}, [&] { h().set_root(tx, 99, nullptr); });
  expect_error(errc::not_mapped, {heap_segment}, [&] { h().set_root(tx, 0, &local); });
  h().set_root(tx, 31, h().make<int>(tx, 5));
  tx.commit();
  EXPECT_EQ(*h().root<int>(31), 5);
  m().transact([&](transaction& clearing) { h().set_root(clearing, 31, nullptr); });
  EXPECT_EQ(h().root(31), nullptr);
}

TEST_F(heap, logs_little) {
  commit_one(48);
  const auto before = m().stats().bytes_logged;
  void* p = commit_one(48);
  EXPECT_LE(m().stats().bytes_logged - before, 48u + 8);
  const auto between = m().stats().bytes_logged;
  m().transact([&](transaction& tx) { h().deallocate(tx, p); });
  EXPECT_LE(m().stats().bytes_logged - between, 8u);
}

TEST(heap_format, regions_that_will_not_do) {
  sim::disk disk;
  options how = heap_world::quiet();
  how.disk = &disk;
  memory m("/log", how);
  region tiny = m.map("/tiny", {.create_length = 32768}), used = m.map("/used", {.create_length = 65536});
  transaction tx = m.begin();
  expect_error(errc::bad_option, {"65536", "32768"}, [&] { recoverable_heap::format(tx, tiny); });
  tx.modify(used.at<int>(100), 1);
  expect_error(errc::damaged, {"something else"}, [&] { recoverable_heap::format(tx, used); });
  expect_error(errc::damaged, {"formatted"}, [&] { recoverable_heap{tiny}; });
  tx.modify(used.at<int>(100), 0);
  recoverable_heap::format(tx, used);
  expect_error(errc::damaged, {"a heap already"}, [&] { recoverable_heap::format(tx, used); });
  tx.commit();
  recoverable_heap{used}.check();
}

// Every stored byte of a small heap, changed: attaching and checking either succeed or say that it is damaged.
TEST(heap_format, damage_is_found_or_harmless) {
  constexpr std::size_t size = 131072;
  sim::disk disk;
  heap_world world(disk, size);
  world.memory.transact([&](transaction& tx) {
    for (std::size_t bytes : {16, 16, 48, 4096, 33000})
      world.heap->set_root(tx, bytes % 32, world.heap->allocate(tx, bytes));
  });
  const heap_layout layout = layout_of_heap(size);
  std::vector<std::byte> image(size + 4096);
  auto* aligned = image.data() + (4096 - reinterpret_cast<std::uintptr_t>(image.data()) % 4096) % 4096;
  const auto attach = [&](errc* code) {
    try {
      recoverable_heap attached(aligned, size, "a copy");
      attached.check();
      static_cast<void>(attached.stats());
      return true;
    } catch (const error& e) {
      EXPECT_NE(std::string(e.what()).find("a copy"), std::string::npos) << e.what();
      *code = static_cast<errc>(e.code().value());
      return false;
    }
  };
  std::memcpy(aligned, world.area.data(), size);
  errc code{};
  ASSERT_TRUE(attach(&code));
  // Bits of slots may say anything, roots may lie anywhere among the objects, and nobody looks at padding. But these
  // must be found: the fixed part of the header, entries of pages that begin no span, and bitmaps of free pages.
  const auto must_be_found = [&](std::size_t at) {
    const auto page = (at - heap_page) / sizeof(page_entry);
    if (at >= heap_page && page < layout.pages)
      return reinterpret_cast<const page_entry*>(aligned + heap_page)[page].pages == 0;
    const auto high_water = reinterpret_cast<const heap_header*>(aligned)->high_water;
    return at < 64 || (at >= layout.bitmaps + high_water * heap_bitmap_bytes &&
                       at < layout.bitmaps + layout.pages * heap_bitmap_bytes);
  };
  std::size_t found = 0;
  for (std::size_t at = 0; at < layout.data; ++at) {
    const bool must = must_be_found(at);
    for (const int change : {1, 0x80, 0xff}) {
      aligned[at] ^= static_cast<std::byte>(change);
      if (!attach(&code)) {
        ++found;
        EXPECT_TRUE(code == errc::damaged || (code == errc::wrong_version && at >= 8 && at < 16)) << at;
      } else {
        EXPECT_FALSE(must) << at;
      }
      aligned[at] ^= static_cast<std::byte>(change);
    }
  }
  EXPECT_GT(found, 3u * 400);
  ASSERT_TRUE(attach(&code));
}

}  // namespace
}  // namespace tenure::rvm
