// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Orders and exclusions that no state of one log and its segments shows: what a second log may find, and what a thread
// must wait for.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "os/asymmetric_fence.hpp"
#include "records/batch.hpp"
#include "records/group.hpp"
#include "records/page_references.hpp"
#include "rvm/memory_state.hpp"
#include "segments/page_vector.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/refused_calls.hpp"
#include "support/segments_on_sim.hpp"
#include "support/small_memory.hpp"
#include "support/watched_disk.hpp"

namespace tenure::rvm {
namespace {

using namespace support;
using testing::random_source;

options by_hand(os::disk& disk) {
  options how = small_log(&disk);
  how.background = false;
  how.tune.truncation_threshold = 2;
  return how;
}

// Whether the log at /d/log has changes that are not in their segments. Changes nothing.
bool has_changes(sim::disk& disk) { return memory("/d/log", reading(&disk)).recovery().needed; }

// Whether a second log may be used on the segment that the first one has changes for.
bool another_log_takes_it(sim::disk& disk) {
  memory other("/d/other", small_log(&disk));
  try {
    (void)other.map("/d/seg");
    return true;
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::wrong_log) << e.what();
    return false;
  }
}

// After each operation of f: a crash there must not leave changes for a segment that another log may be used on. Returns
// how often there were changes.
template <class F>
int require_noted_at_every_operation(sim::disk& disk, F&& f) {
  int with_changes = 0;
  disk.on_operation([&](const sim::trace_entry& at) {
    const auto left = disk.crash(at.index, sim::policy::drop_all);
    if (!has_changes(*left)) return;
    ++with_changes;
    EXPECT_FALSE(another_log_takes_it(*left))
        << "after operation " << at.index << ", " << sim::name_of(at.kind) << " of " << at.path;
  });
  f();
  disk.on_operation({});
  return with_changes;
}

TEST(ordering, segment_says_whose_changes_it_has_before_there_are_any) {
  sim::disk disk;
  memory m("/d/log", by_hand(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  EXPECT_GT(require_noted_at_every_operation(disk,
                                             [&] {
                                               put(m, r, 0, "first");
                                               put(m, r, 8, "second");
                                               m.truncate();
                                               put(m, r, 16, "third");
                                             }),
            2);
}

TEST(ordering, segment_is_let_go_when_the_log_has_no_changes_any_more) {
  sim::disk disk;
  {
    memory m("/d/log", by_hand(disk));
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 0, "first");
    disk.power_off();
  }
  const auto left = disk.crash(1, sim::policy::drop_all);
  EXPECT_GT(require_noted_at_every_operation(*left, [&] { memory("/d/log", by_hand(*left)).close(); }), 0);
  EXPECT_TRUE(another_log_takes_it(*left));
}

TEST(ordering, segment_is_let_go_when_it_is_unmapped) {
  sim::disk disk;
  memory m("/d/log", by_hand(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  put(m, r, 0, "first");
  EXPECT_GT(require_noted_at_every_operation(disk, [&] { r.unmap(); }), 0);
  EXPECT_TRUE(another_log_takes_it(disk));
}

TEST(ordering, segment_is_open_in_one_memory_at_a_time) {
  sim::disk disk;
  memory m("/d/log", by_hand(disk));
  const region r = m.map("/d/seg", {.create_length = 64 * kib});
  memory other("/d/other", small_log(&disk));
  expect_error(errc::in_use, {"/d/seg"}, [&] { (void)other.map("/d/seg"); });
}

TEST(ordering, damaged_pages_are_found) {
  sim::disk disk;
  memory m("/d/log", by_hand(disk));
  {
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 3 * 4096 + 5, "text");
  }
  EXPECT_TRUE(m.verify_segment("/d/seg").empty());
  const auto bytes = disk.current_bytes("/d/seg");
  const std::uint64_t data = bytes.size() - 64 * kib;
  for (const std::uint64_t page : {3, 7}) {
    const std::byte other = bytes[data + page * 4096 + 6] ^ std::byte{1};
    disk.poke("/d/seg", data + page * 4096 + 6, {&other, 1});
  }
  EXPECT_EQ(m.verify_segment("/d/seg"), (std::vector<std::uint64_t>{3 * 4096, 7 * 4096}));
}

// Of several megabytes, cut in the middle: it has whole groups, but not the last one.
TEST(ordering, half_a_batch_is_not_replayed) {
  // The operations of the second commit, in the files of the log.
  const auto run = [](sim::disk& disk, const options& how) {
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 3 * mib});
    put(m, r, 0, "first");
    disk.clear_trace();
    disk.record_trace(true);
    put(m, r, 0, std::string(r.size(), 'x'));
    std::vector<std::uint64_t> writes;
    for (const auto& t : disk.trace())
      if (t.kind == sim::operation::write && t.path.starts_with("/d/log.") && !t.path.ends_with("-new"))
        writes.push_back(t.index);
    return writes;
  };
  options how;
  std::vector<std::uint64_t> writes;
  {
    sim::disk disk;
    how = by_hand(disk);
    how.log.size = 8 * mib;
    writes = run(disk, how);
  }
  ASSERT_GE(writes.size(), 3u);
  for (std::size_t n = 1; n < writes.size(); ++n) {
    sim::disk disk;
    how.disk = &disk;
    disk.crash_at(writes[n], 0);
    EXPECT_THROW(run(disk, how), sim::power_failure);
    const auto left = disk.crash(1, sim::policy::keep_all);
    how.disk = left.get();
    memory m("/d/log", how);
    EXPECT_GE(m.recovery().torn_groups, n - 1);
    const region r = m.map("/d/seg");
    EXPECT_EQ(get(r, 0, 5), "first");
    EXPECT_EQ(get(r, 5, r.size() - 5), std::string(r.size() - 5, '\0'));
  }
}

// The manifest knows that the log was durable up to somewhere, and nothing else does.
TEST(ordering, end_that_the_manifest_knows_must_be_there) {
  sim::disk disk;
  memory m("/d/log", by_hand(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  put(m, r, 0, "first");
  put(m, r, 4096, "second");
  EXPECT_GT(m.truncate_incrementally(1), 0u);
  const auto left = disk.crash(1, sim::policy::drop_all);
  const std::vector<std::byte> nothing(left->current_bytes("/d/log.1").size() - log_file_data);
  left->poke("/d/log.1", log_file_data, nothing);
  expect_error(errc::damaged, {"/d/log", "the manifest says"}, [&] { memory("/d/log", by_hand(*left)); });
}

// A write around the end of a file goes to two places; both are durable when commit returns.
TEST(ordering, commit_around_the_end_of_a_log_file_is_durable) {
  sim::disk disk(512);
  options how = by_hand(disk);
  how.log.size = 64 * kib;
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  int split = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string text(3000, static_cast<char>('a' + i % 26));
    disk.clear_trace();
    disk.record_trace(true);
    put(m, r, static_cast<std::size_t>(i % 16) * 4096, text);
    for (const auto& at : disk.trace())
      split += at.kind == sim::operation::write && at.path.starts_with("/d/log.") && at.offset >= log_file_data;
    const auto left = disk.crash(1, sim::policy::drop_all);
    memory again("/d/log", by_hand(*left));
    ASSERT_EQ(get(again.map("/d/seg"), static_cast<std::size_t>(i % 16) * 4096, text.size()), text) << i;
  }
  EXPECT_GT(split, 0);
}

// The pages of a truncation that failed are written by a later one, before the head passes their records.
TEST(ordering, pages_of_a_failed_truncation_are_not_forgotten) {
  sim::disk disk;
  memory m("/d/log", by_hand(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  put(m, r, 0, "first");
  disk.inject({.kind = sim::operation::read, .path = "/d/seg"});
  EXPECT_THROW(m.truncate(), error);
  put(m, r, 4096, "second");
  m.truncate();
  const auto left = disk.crash(1, sim::policy::drop_all);
  memory again("/d/log", by_hand(*left));
  const region found = again.map("/d/seg");
  EXPECT_EQ(get(found, 0, 5), "first");
  EXPECT_EQ(get(found, 4096, 6), "second");
}

// In a batch of commits of several threads.
TEST(ordering, flush_commits_stay_in_the_log_though_overwritten) {
  const segments_on_sim segments(1, 64 * kib, true);
  group_pool pool;
  batch b(1, pool);
  const std::string text = "the same bytes";
  const new_value value{segments.all[0].get(), 8, reinterpret_cast<const std::byte*>(text.data()), text.size()};
  const auto append = [&](std::uint64_t id, bool lazy) { b.append({id, 0, "label", lazy, {&value, 1}}, {}); };
  append(1, true);
  append(2, false);
  append(3, true);
  append(4, true);
  EXPECT_EQ(b.drop_overwritten().transactions, 2u);  // 1 and 3

  const auto parts = b.finish({identity{}, 1, 512}, 64 * kib, 0);
  ASSERT_EQ(parts.size(), 1u);
  group_header header;
  ASSERT_TRUE(read_group_header(parts[0], {0, 64 * kib, 512}, header));
  const group_view group(parts[0], header, "here");
  ASSERT_EQ(group.transactions().size(), 2u);
  EXPECT_EQ(group.transactions()[0].id, 2u);
  EXPECT_EQ(group.transactions()[1].id, 4u);

  // Every record says how long the one before it is, also where that one is gone.
  std::uint32_t previous = 0;
  for (std::size_t at = sizeof header; at < header.length;) {
    record_header record;
    std::memcpy(&record, parts[0].data() + at, sizeof record);
    EXPECT_EQ(record.previous, previous);
    previous = record.length;
    at += record.length;
  }
}

TEST(ordering, set_range_waits_for_a_reserved_page) {
  page_vector pages(64 * kib);
  pages.reserve(3);
  std::atomic<bool> began{false}, declared{false};
  std::thread user([&] {
    pages.wait_until_released(2);
    began = true;
    pages.wait_until_released(3);
    declared = true;
  });
  while (!began) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(declared);
  pages.release(3);
  user.join();
  EXPECT_TRUE(declared);
}

TEST(ordering, hold_waits_for_a_reserved_page) {
  sim::disk disk;
  memory_state state("/d/log", by_hand(disk));
  const auto in = state.mapper().map("/d/seg", {.create_length = 64 * kib});
  transaction_state& tx = state.begin(restore_mode::restore);
  in->in->pages().reserve(4);
  std::atomic<bool> released{false}, returned{false};
  bool waited = false;
  std::thread user([&] {
    tx.hold(in->base + 3 * 4 * kib, 8 * kib);
    waited = released;
    returned = true;
  });
  // Its reference is there before it waits.
  while (!state.referenced_pages().contains({in->in, 4})) std::this_thread::yield();
  for (int i = 0; i < 1000 && !returned; ++i) std::this_thread::yield();
  released = true;
  in->in->pages().release(4);
  user.join();
  EXPECT_TRUE(waited);
  tx.abort();
}

// A batch that is being written is not there for truncation: half of it could get to the segments, and the power go.
TEST(ordering, batch_is_published_when_it_is_durable) {
  sim::disk disk;
  watched_disk watched(disk);
  memory m("/d/log", by_hand(watched));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  put(m, r, 0, "old");
  m.truncate();
  const auto before = disk.current_bytes("/d/seg");
  bool seen = false;
  watched.in_durable_write = [&](const std::string& path) {
    if (path != "/d/log.1") return;
    watched.in_durable_write = {};
    seen = true;
    EXPECT_EQ(m.stats().log_used, 0u);
    EXPECT_EQ(m.truncate_incrementally(mib), 0u);
    EXPECT_TRUE(disk.current_bytes("/d/seg") == before);
  };
  put(m, r, 0, "new");
  EXPECT_TRUE(seen);
  EXPECT_GT(m.truncate_incrementally(mib), 0u);
  EXPECT_FALSE(disk.current_bytes("/d/seg") == before);
}

TEST(ordering, page_is_known_as_private_until_it_is_dropped) {
  page_vector pages(64 * kib);
  EXPECT_FALSE(pages.is_private(3));
  pages.note_private(3);
  EXPECT_TRUE(pages.is_private(3));
  pages.reserve(3);
  pages.release(3);
  EXPECT_TRUE(pages.is_private(3));
  pages.reserve(3);
  pages.note_dropped(3);
  pages.release(3);
  EXPECT_FALSE(pages.is_private(3));
}

TEST(ordering, page_counts_once_in_a_batch) {
  page_vector pages(64 * kib);
  EXPECT_EQ(pages.last_batch(3), 0u);
  EXPECT_TRUE(pages.note_commit(3, 7));
  EXPECT_FALSE(pages.note_commit(3, 7));
  EXPECT_TRUE(pages.note_commit(4, 7));
  EXPECT_TRUE(pages.note_commit(3, 8));
  EXPECT_EQ(pages.last_batch(3), 8u);
  EXPECT_EQ(pages.last_batch(4), 7u);
}

TEST(ordering, references_are_seen_by_others) {
  std::mutex readers;
  page_references list;
  std::array<segment*, 2> in{reinterpret_cast<segment*>(64), reinterpret_cast<segment*>(128)};  // never looked into
  for (std::uint64_t page = 0; page < 100'000; ++page) list.add({in[page % 2], page}, readers);
  page_set set;
  EXPECT_EQ(list.add_to(set), 100'000u);
  EXPECT_TRUE(set.contains({in[1], 77'777}));
  EXPECT_FALSE(set.contains({in[0], 77'777}));
  EXPECT_FALSE(set.contains({in[0], 100'000}));
  list.clear(readers);
  list.add({in[1], 5}, readers);
  ASSERT_EQ(list.all().size(), 1u);
  page_set later;
  EXPECT_EQ(list.add_to(later), 1u);
  later.sort();
  EXPECT_TRUE(later.contains({in[1], 5}));
  EXPECT_FALSE(later.contains({in[1], 77'777}));
}

// Nobody has looked at the next transaction's list before it is as long as the one that he has sorted.
TEST(ordering, references_of_one_transaction_are_not_taken_for_those_of_the_next) {
  std::mutex readers;
  page_references list;
  auto* const in = reinterpret_cast<segment*>(64);
  for (std::uint64_t first : {0u, 10'000u, 20'000u}) {
    const std::uint64_t end = first + 1000 + first / 100;
    for (std::uint64_t page = first; page < end; ++page) list.add({in, page}, readers);
    page_set seen;
    list.add_to(seen);
    seen.sort();
    for (std::uint64_t page = 0; page < 30'000; ++page)
      ASSERT_EQ(seen.contains({in, page}), first <= page && page < end) << page;
    list.clear(readers);
  }
}

// Who looks at a long list again does not read all of it again, sees all of it, and nothing of the list before.
TEST(ordering, references_of_a_large_transaction_are_sorted_once) {
  std::mutex readers;
  page_references list;
  auto* const in = reinterpret_cast<segment*>(64);
  random_source random(7);
  for (int transaction = 0; transaction < 20; ++transaction) {
    std::set<std::uint64_t> expected;
    std::size_t read = 0, listed = 0;
    for (int look = 0; look < 60; ++look) {
      for (std::uint64_t n = random.below(300) * (look % 7 == 0 ? 20 : 1); n > 0; --n, ++listed) {
        const std::uint64_t page = random.below(20'000);
        list.add({in, page}, readers);
        expected.insert(page);
      }
      page_set seen;
      read += list.add_to(seen);
      seen.sort();
      for (int i = 0; i < 200; ++i)
        if (const std::uint64_t page = random.below(20'000); seen.contains({in, page}) != expected.contains(page))
          ADD_FAILURE() << "page " << page << " of transaction " << transaction;
    }
    EXPECT_LT(read, listed + 600 * 512) << "a short list is copied";
    EXPECT_LT(read, 2 * listed + 512 * 10);
    list.clear(readers);
  }
}

// Two sides that must not both go on: each says that it is there and looks whether the other one is.
void expect_exclusion() {
  constexpr int rounds = 300'000;
  page_vector pages(64 * kib);
  std::mutex readers;
  page_references list;
  int owned = 0;  // by whoever has the page; not atomic, so that the thread sanitizer looks too
  std::atomic<bool> stop{false};
  std::thread user([&] {
    for (int round = 0; round < rounds; ++round) {
      list.add({nullptr, 3}, readers);
      os::light_fence();
      pages.wait_until_released(3);
      ++owned;
      list.clear(readers);
    }
    stop = true;
  });
  int reserved = 0;
  while (!stop) {
    pages.reserve(3);
    ASSERT_TRUE(os::heavy_fence());
    page_set seen;
    {
      const std::scoped_lock lock(readers);
      list.add_to(seen);
    }
    if (seen.empty()) {
      const int before = owned;
      for (int i = 0; i < 50; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      EXPECT_EQ(std::exchange(owned, before + 1), before);
      ++reserved;
    }
    pages.release(3);
    std::this_thread::yield();
  }
  user.join();
  EXPECT_EQ(owned, rounds + reserved);
}

TEST(ordering, a_reference_and_a_reservation_never_miss_each_other) { expect_exclusion(); }

// Store buffering: how often two threads that each store one word and then load the other's both see the old one.
int missed_each_other(int rounds) {
  struct alignas(128) word {
    std::atomic<int> value{0};
  };
  word light_stored, heavy_stored, light_ready, heavy_ready, light_saw, heavy_saw;
  const auto meet = [](word& mine, word& other, int round) {
    mine.value.store(round, std::memory_order_release);
    for (int spins = 0; other.value.load(std::memory_order_acquire) < round; ++spins)
      if (spins > 10'000) std::this_thread::yield();  // the other one has no processor
  };
  int missed = 0;
  std::thread light([&] {
    for (int round = 1; round <= rounds; ++round) {
      meet(light_ready, heavy_ready, 2 * round);
      light_stored.value.store(round, std::memory_order_relaxed);
      os::light_fence();
      light_saw.value.store(heavy_stored.value.load(std::memory_order_relaxed), std::memory_order_relaxed);
      meet(light_ready, heavy_ready, 2 * round + 1);
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    meet(heavy_ready, light_ready, 2 * round);
    heavy_stored.value.store(round, std::memory_order_relaxed);
    EXPECT_TRUE(os::heavy_fence());
    heavy_saw.value.store(light_stored.value.load(std::memory_order_relaxed), std::memory_order_relaxed);
    meet(heavy_ready, light_ready, 2 * round + 1);
    if (light_saw.value.load(std::memory_order_relaxed) < round &&
        heavy_saw.value.load(std::memory_order_relaxed) < round)
      ++missed;
  }
  light.join();
  return missed;
}

TEST(ordering, fences_see_each_other) { EXPECT_EQ(missed_each_other(20'000), 0); }

TEST(ordering, fences_see_each_other_where_the_kernel_has_no_membarrier) {
  bool failed_once = false;
  if (!without_calls({SYS_membarrier}, EPERM, [&] { failed_once = !os::heavy_fence(); }))
    GTEST_SKIP() << "system calls cannot be refused here";
  // It had worked when the process began; now fences are full ones, for all threads.
  EXPECT_TRUE(failed_once);
  EXPECT_FALSE(os::fences::asymmetric);
  EXPECT_EQ(missed_each_other(200'000), 0);
  expect_exclusion();
}

}  // namespace
}  // namespace tenure::rvm
