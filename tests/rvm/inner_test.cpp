// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Inner transactions. Random ones are in crash_test, fault_test and tracking_model_test.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <tenure/recoverable_heap.hpp>
#include <tenure/rvm.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/mechanisms.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::get, support::page, support::small_log;

struct inner : ::testing::Test {
  sim::disk disk;
  memory m{"/log", small_log(&disk)};
  region r = m.map("/segment", {.create_length = support::mib});

  void write(transaction& tx, std::size_t at, const std::string& text) const {
    tx.modify(r.data() + at, text.data(), text.size());
  }
};

// [rvm.inner.old-values]
TEST_F(inner, is_undone_without_the_rest) {
  transaction tx = m.begin();
  write(tx, 0, "outer");
  write(tx, 100, "outer");
  {
    inner_transaction in = tx.begin_inner();
    write(tx, 0, "inner");  // was declared before
    write(tx, 3, "overlapping");
    write(tx, 200, "inner");
    EXPECT_EQ(tx.inner_depth(), 1U);
    in.abort();
    EXPECT_FALSE(in.is_open());
  }
  EXPECT_EQ(get(r, 0, 14), std::string("outer") + std::string(9, 0));
  EXPECT_EQ(get(r, 200, 5), std::string(5, 0));
  write(tx, 200, "later");
  tx.commit();
  m.close();
  m = memory("/log", small_log(&disk));
  r = m.map("/segment");
  EXPECT_EQ(get(r, 0, 14), std::string("outer") + std::string(9, 0));
  EXPECT_EQ(get(r, 100, 5), "outer");
  EXPECT_EQ(get(r, 200, 5), "later");
}

// What an aborted level has declared, the outer one has not.
TEST_F(inner, takes_its_declarations_with_it) {
  for (const bool outer_declares : {false, true}) {
    transaction tx = m.begin();
    if (outer_declares) write(tx, 300, "outer");
    inner_transaction in = tx.begin_inner();
    write(tx, 0, "inner");
    in.abort();
    write(tx, 0, "outer");
    tx.abort();
    EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
    m.check();
  }
}

TEST_F(inner, hands_its_changes_to_the_outer_one) {
  m.transact([&](transaction& tx) { write(tx, 0, "first"); });
  for (const bool commits : {false, true}) {
    transaction tx = m.begin();
    write(tx, 0, "outer");
    inner_transaction in = tx.begin_inner();
    write(tx, 0, "inner");
    write(tx, 50, "inner");
    in.commit();
    EXPECT_EQ(get(r, 0, 5), "inner");
    if (commits)
      tx.commit();
    else
      tx.abort();
    EXPECT_EQ(get(r, 0, 5), commits ? "inner" : "first");
    EXPECT_EQ(get(r, 50, 5), commits ? "inner" : std::string(5, 0));
  }
}

TEST_F(inner, goes_as_deep_as_wanted) {
  transaction tx = m.begin();
  std::vector<inner_transaction> levels;
  for (int n = 0; n < 100; ++n) {
    write(tx, 0, std::to_string(1000 + n));
    levels.push_back(tx.begin_inner());
  }
  EXPECT_EQ(tx.inner_depth(), 100U);
  write(tx, 0, "deepest");
  for (int n = 99; n >= 50; --n) {
    levels.back().abort();
    levels.pop_back();
    EXPECT_EQ(get(r, 0, 4), std::to_string(1000 + n));
  }
  while (!levels.empty()) {
    levels.back().commit();
    levels.pop_back();
  }
  EXPECT_EQ(get(r, 0, 4), "1050");
  tx.abort();
  EXPECT_EQ(get(r, 0, 4), std::string(4, 0));
}

TEST_F(inner, ends_in_the_opposite_order) {
  transaction tx = m.begin();
  inner_transaction first = tx.begin_inner(), second = tx.begin_inner();
  expect_error(errc::bad_transaction, {"has an open one in it", "commit"}, [&] { first.commit(); });
  expect_error(errc::bad_transaction, {"has an open one in it", "abort"}, [&] { first.abort(); });
  expect_error(errc::bad_transaction, {"2 inner transactions are open"}, [&] { tx.commit(); });
  second.commit();
  expect_error(errc::bad_transaction, {"has ended"}, [&] { second.commit(); });
  first.abort();
  tx.commit();
  transaction unrestored = m.begin(restore_mode::no_restore);
  expect_error(errc::cannot_abort, {"no_restore"}, [&] { (void)unrestored.begin_inner(); });
  unrestored.commit();
}

TEST_F(inner, ends_with_what_it_is_in) {
  std::optional<inner_transaction> in;
  {
    transaction tx = m.begin();
    in = tx.begin_inner();
    write(tx, 0, "inner");
  }
  EXPECT_FALSE(in->is_open());
  EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
  expect_error(errc::bad_transaction, {"has ended"}, [&] { in->abort(); });
  transaction tx = m.begin();  // perhaps with the same state
  EXPECT_FALSE(in->is_open());
  write(tx, 0, "outer");
  std::optional<inner_transaction> outermost = tx.begin_inner(), innermost = tx.begin_inner();
  write(tx, 0, "inner");
  outermost.reset();
  EXPECT_FALSE(innermost->is_open());
  EXPECT_EQ(get(r, 0, 5), "outer");
  inner_transaction moved = tx.begin_inner(), to = std::move(moved);
  EXPECT_TRUE(to.is_open());
  to.commit();
  tx.commit();
  EXPECT_EQ(get(r, 0, 5), "outer");
}

TEST_F(inner, undoes_what_throws) {
  m.transact([&](transaction& tx) {
    write(tx, 0, "outer");
    EXPECT_THROW(tx.transact_inner([&] {
      write(tx, 0, "inner");
      throw std::runtime_error("no");
    }),
                 std::runtime_error);
    tx.transact_inner([&] { write(tx, 20, "kept"); });
    tx.transact_inner([&](inner_transaction& in) {
      write(tx, 20, "lost");
      in.abort();
    });
  });
  EXPECT_EQ(get(r, 0, 5), "outer");
  EXPECT_EQ(get(r, 20, 4), "kept");
}

TEST_F(inner, forgets_pages_that_would_have_been_written_or_changed) {
  const std::string text(4096, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  m.create_segment("/pages", {.length = support::mib});
  paged_segment pages = m.open_pages("/pages");
  std::vector<std::byte> seen(4096);
  {
    transaction tx = m.begin();
    tx.change(pages, 0, bytes.first(8));
    const std::span<const std::byte> pieces[] = {bytes};
    tx.transact_inner([&](inner_transaction& in) {
      tx.change(pages, 4, bytes.first(100));
      tx.write_bulk(r, 8 * 4096, pieces);
      in.abort();
    });
    tx.write_bulk(r, 4 * 4096, pieces);
    tx.commit();
  }
  pages.read(0, seen);
  EXPECT_EQ(std::memcmp(seen.data(), text.data(), 8), 0);
  EXPECT_EQ(seen[8], std::byte{0});
  EXPECT_EQ(m.stats().bulk_runs, 1U);
}

// [rvm.inner.tracked]
TEST_F(inner, finds_its_changes_by_any_mechanism) {
  for (const auto mechanism : support::mechanisms) {
    SCOPED_TRACE(static_cast<int>(mechanism));
    const std::string path = "/tracked" + std::to_string(static_cast<int>(mechanism));
    region t = m.map(
        path, {.create_length = support::mib, .tracking = tracking_mode::automatic, .force_mechanism = mechanism});
    const auto set = [&](transaction& tx, std::size_t at, const std::string& text) {
      tx.touch(t.data() + at, text.size());
      std::memcpy(t.data() + at, text.data(), text.size());
    };
    m.transact_automatically([&](transaction& tx) { set(tx, 0, "committed"); });
    transaction tx = m.begin_automatic();
    set(tx, 0, "outer");
    set(tx, page, "outer");
    write(tx, 0, "outer");
    {
      const inner_transaction in = tx.begin_inner();
      set(tx, 2, "inner");
      set(tx, page, std::string(5, 0));  // as it is committed
      set(tx, 2 * page, "inner");
      write(tx, 0, "inner");
      EXPECT_EQ(get(t, 0, 9), "ouinnered");
    }
    EXPECT_EQ(get(t, 0, 9), "outertted");
    EXPECT_EQ(get(t, page, 5), "outer");
    EXPECT_EQ(get(t, 2 * page, 5), std::string(5, 0));
    EXPECT_EQ(get(r, 0, 5), "outer");
    inner_transaction kept = tx.begin_inner();
    set(tx, 3 * page, "inner");
    kept.commit();
    (void)tx.collect_changes();
    expect_error(errc::bad_transaction, {"collected"}, [&] { (void)tx.begin_inner(); });
    tx.discard_changes();
    tx.commit();
    EXPECT_EQ(get(t, 3 * page, 5), "inner");
    {
      transaction again = m.begin_automatic();
      set(again, 0, "x");
      const inner_transaction in = again.begin_inner();
      set(again, 1, "y");
      again.abort();
    }
    EXPECT_EQ(get(t, 0, 9), "outertted");
    m.check();
  }
}

// [rvm.inner.participants]
TEST_F(inner, takes_objects_of_a_recoverable_heap_back) {
  m.transact([&](transaction& tx) { recoverable_heap::format(tx, r); });
  recoverable_heap heap(r);
  void *stored = nullptr, *outer = nullptr;
  m.transact([&](transaction& tx) { stored = heap.allocate(tx, 64); });
  transaction tx = m.begin();
  outer = heap.allocate(tx, 64);
  {
    const inner_transaction in = tx.begin_inner();
    (void)heap.allocate(tx, 64);
    heap.deallocate(tx, heap.allocate(tx, 64));
    heap.deallocate(tx, outer);
    heap.deallocate(tx, stored);
    expect_error(errc::bad_free, {"freed already"}, [&] { heap.deallocate(tx, stored); });
  }
  heap.deallocate(tx, stored);  // again
  tx.transact_inner([&] {
    void* const kept = heap.allocate(tx, 3000);
    const inner_transaction deeper = tx.begin_inner();
    heap.deallocate(tx, kept);
  });
  heap.check();
  tx.commit();
  heap.check();
  EXPECT_EQ(heap.stats().objects, 2U);
  m.transact([&](transaction& last) {
    heap.deallocate(last, outer);
    expect_error(errc::bad_free, {}, [&] { heap.deallocate(last, stored); });
  });
  EXPECT_EQ(recoverable_heap(r).stats().objects, 1U);
}

}  // namespace
}  // namespace tenure::rvm
