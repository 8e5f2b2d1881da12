// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Regions with barriers: what is announced is found without a trap, what is not is found by audits. Random programs are in
// tracking_model_test.cpp.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>

#include "records/thresholds.hpp"
#include "regions/announced_stores.hpp"
#include "regions/resting_pages.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::page, support::small_log;

class barriers : public ::testing::Test {
 public:
  static constexpr std::size_t pages = 64;

  // With the limits of now.
  void open(write_barriers how, callback<void(const unseen_store&)> observer = {}) {
    close();
    options o = small_log(&disk);
    o.background = false;
    o.limits = &limits;
    o.on_unseen_store = std::move(observer);
    memory.emplace("/log", o);
    region_ =
        memory->map("/segment", {.create_length = pages * page, .tracking = tracking_mode::automatic, .barriers = how});
  }
  void close() {
    region_ = {};
    if (memory) memory->close();
    memory.reset();
  }
  void TearDown() override { close(); }

  [[nodiscard]] std::uint64_t& word(std::size_t in_page, std::size_t index = 0) {
    return *reinterpret_cast<std::uint64_t*>(region_.data() + in_page * page + 8 * index);
  }
  template <class F>
  void transact(F&& f) {
    transaction tx = memory->begin_automatic();
    f();
    tx.commit(commit_mode::no_flush);
  }
  // Pages that were written once are open. Then they have had their first audits.
  void open_pages(std::size_t count) {
    transact([&] {
      for (std::size_t n = 0; n < count; ++n) change(word(n)) = n + 1;
    });
    for (std::uint32_t n = 0; n <= limits.audits_at_first; ++n) transact([&] { change(word(count)) = n + 1; });
  }
  [[nodiscard]] tracking_statistics counts() const { return memory->stats().tracking; }
  // After the log has been replayed.
  [[nodiscard]] std::uint64_t recovered(std::size_t in_page, std::size_t index = 0) {
    memory->flush();
    open(write_barriers::announced);
    return word(in_page, index);
  }

  thresholds limits;
  sim::disk disk;
  std::optional<rvm::memory> memory;
  region region_;
};

TEST_F(barriers, announced_stores_are_found_without_traps) {
  for (const write_barriers how : {write_barriers::announced, write_barriers::cards, write_barriers::checking}) {
    open(how);
    for (std::uint64_t n = 1; n <= 20; ++n)
      transact([&] {
        for (std::size_t p = 0; p < 10; ++p) change(word(p * 3, n)) = n;
      });
    EXPECT_EQ(counts().traps, 0U);
    EXPECT_EQ(counts().unseen_stores, 0U);
    for (std::uint64_t n = 1; n <= 20; ++n) EXPECT_EQ(recovered(27, n), n);
  }
}

TEST_F(barriers, pages_that_were_never_opened_still_trap) {
  open(write_barriers::cards);
  transact([&] { word(5) = 7; });
  EXPECT_EQ(counts().traps, 1U);
  EXPECT_EQ(recovered(5), 7U);
}

// [rvm.barriers.twice]
TEST_F(barriers, what_was_announced_before_a_commit_and_written_after_it_is_found) {
  for (const write_barriers how : {write_barriers::announced, write_barriers::cards}) {
    limits.audits_at_first = 0;
    limits.audit_every = 1'000'000;
    open(how);
    open_pages(3);
    std::uint64_t* where = nullptr;
    transact([&] { where = &change(word(1, 40)); });  // *p = f(), where f commits
    transact([&] { *where = 99; });
    EXPECT_EQ(counts().unseen_stores, 0U);
    EXPECT_EQ(recovered(1, 40), 99U) << static_cast<int>(how);
  }
}

TEST_F(barriers, an_abort_takes_back_what_was_announced_before_it) {
  open(write_barriers::announced);
  open_pages(3);
  const std::uint64_t before = word(1, 3);
  std::uint64_t* where = nullptr;
  transact([&] { where = &change(word(1, 3)); });
  {
    transaction tx = memory->begin_automatic();
    *where = 5;
    change(word(2)) = 6;
    tx.abort();
  }
  EXPECT_EQ(word(1, 3), before);
  EXPECT_EQ(word(2), 3U);
}

TEST_F(barriers, whole_pages_rescue_stores_beside_announced_ones_and_cards_do_not) {
  open(write_barriers::announced);
  open_pages(3);
  transact([&] {
    change(word(1)) = 8;
    word(1, 300) = 9;
  });
  EXPECT_EQ(recovered(1, 300), 9U);

  limits.audits_at_first = 0;
  limits.audit_every = 1'000'000;
  open(write_barriers::cards);
  open_pages(3);
  transact([&] {
    change(word(1)) = 10;
    word(1, 7) = 11;    // in the same card
    word(1, 301) = 12;  // in another one
  });
  EXPECT_EQ(recovered(1), 10U);
  EXPECT_EQ(word(1, 7), 11U);
  EXPECT_EQ(word(1, 301), 0U);
}

// [rvm.barriers.audit]
TEST_F(barriers, audits_find_unseen_stores_log_them_and_tell_of_them) {
  std::vector<unseen_store> told;
  open(write_barriers::announced, [&](const unseen_store& each) { told.push_back(each); });
  open_pages(4);
  transact([&] { word(2, 11) = 77ULL << 24 | 78ULL << 32; });
  const std::uint64_t turn = limits.audit_every * 6;
  for (std::uint64_t n = 0; n < turn && told.empty(); ++n) transact([&] { change(word(3)) = n; });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].address, reinterpret_cast<const std::byte*>(&word(2, 11)) + 3);
  EXPECT_EQ(told[0].length, 2U);
  EXPECT_EQ(told[0].offset, 2 * page + 88 + 3);
  EXPECT_STREQ(told[0].segment_path, "/segment");
  EXPECT_EQ(counts().unseen_stores, 1U);
  EXPECT_EQ(recovered(2, 11), 77ULL << 24 | 78ULL << 32);
}

// [rvm.barriers.audit]
TEST_F(barriers, a_page_is_audited_at_the_first_commits_after_it_was_opened) {
  limits.audit_every = 1'000'000;
  // At the next commit it is compared as announced before. The audits come then.
  for (std::uint32_t after = 1; after <= limits.audits_at_first + 2; ++after) {
    open(write_barriers::announced);
    transact([&] { change(word(7)) = after; });
    for (std::uint32_t n = 1; n < after; ++n) transact([] {});
    transact([&] { word(7, 100) = 1000 + after; });
    transact([] {});
    EXPECT_EQ(counts().unseen_stores, after <= limits.audits_at_first + 1 ? 1U : 0U) << after;
  }
}

TEST_F(barriers, checking_refuses_commits_with_unseen_stores) {
  open(write_barriers::checking);
  open_pages(4);
  transaction tx = memory->begin_automatic();
  word(2, 20) = 5;
  expect_error(errc::unseen_store, {"/segment", std::to_string(2 * page + 160), "tenure::barriers"},
               [&] { tx.commit(commit_mode::no_flush); });
  tx.abort();
  EXPECT_EQ(word(2, 20), 0U);
  // Beside an announced one, on the same page.
  transaction again = memory->begin_automatic();
  change(word(2)) = 6;
  word(2, 20) = 5;
  expect_error(errc::unseen_store, {std::to_string(2 * page + 160)}, [&] { again.commit(commit_mode::no_flush); });
  again.abort();
  // One that was trapped.
  transaction last = memory->begin_automatic();
  word(40, 20) = 5;
  expect_error(errc::unseen_store, {std::to_string(40 * page + 160)}, [&] { last.commit(commit_mode::no_flush); });
}

// Also on a page that was announced to the transaction before, and is compared by cards for that.
TEST_F(barriers, checking_compares_all_pages_at_every_commit) {
  open(write_barriers::checking);
  for (std::uint64_t n = 1; n < 5; ++n) {
    transact([&] { change(word(2)) = n; });
    transaction tx = memory->begin_automatic();
    word(2, 20) = 5;
    expect_error(errc::unseen_store, {}, [&] { tx.commit(commit_mode::no_flush); });
    tx.abort();
    EXPECT_EQ(word(2, 20), 0U);
  }
}

TEST_F(barriers, an_announced_store_outside_of_a_transaction_is_stray) {
  open(write_barriers::announced);
  open_pages(2);
  change(word(1)) = 1000;
  expect_error(errc::stray_write, {}, [&] { (void)memory->begin_automatic(); });
  EXPECT_EQ(word(1), 2U);
}

TEST_F(barriers, stores_of_any_length_at_any_place_are_seen) {
  for (const write_barriers how : {write_barriers::announced, write_barriers::cards, write_barriers::checking}) {
    limits.audits_at_first = 0;
    limits.audit_every = 1'000'000;
    open(how);
    std::vector<std::byte> expected(region_.data(), region_.data() + region_.size());
    std::uint8_t value = 0;
    for (const std::size_t length : {std::size_t{1}, std::size_t{2}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                     page - 1, page, page + 1, 2 * page + 3})
      for (const std::size_t at : {std::size_t{0}, std::size_t{63}, std::size_t{64}, page - 1, page, 2 * page - 65})
        transact([&] {
          announce_store(region_.data() + at, length);
          announce_store(region_.data() + at, 0);
          std::memset(region_.data() + at, ++value, length);
          std::memset(expected.data() + at, value, length);
        });
    EXPECT_EQ(counts().unseen_stores, 0U);
    memory->flush();
    open(how);
    EXPECT_EQ(std::memcmp(region_.data(), expected.data(), expected.size()), 0);
  }
}

std::uint64_t* written_by_handler;
TEST_F(barriers, threads_and_signal_handlers_announce) {
  open(write_barriers::cards);
  open_pages(8);
  written_by_handler = &word(5, 5);
  struct sigaction how {
  }, old{};
  how.sa_handler = [](int) { change(*written_by_handler) = 55; };
  ASSERT_EQ(::sigaction(SIGUSR1, &how, &old), 0);
  transact([&] {
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < 4; ++n)
      threads.emplace_back([&, n] {
        for (std::size_t p = 0; p < pages; ++p) change(word(p, 10 + n)) = 10 * p + n;
      });
    ::raise(SIGUSR1);
    for (std::thread& each : threads) each.join();
  });
  ASSERT_EQ(::sigaction(SIGUSR1, &old, nullptr), 0);
  EXPECT_EQ(recovered(5, 5), 55U);
  for (std::size_t p = 0; p < pages; ++p)
    for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(word(p, 10 + n), 10 * p + n);
}

// A page is announced while a commit looks for unseen stores, and closed by a truncation before the next one: it does not rest,
// and what is trapped there is compared as a whole.
TEST_F(barriers, a_page_that_was_announced_late_and_closed_traps) {
  std::uint64_t* late = nullptr;
  open(write_barriers::cards, [&](const unseen_store&) {
    if (late != nullptr) (void)change(*late);
  });
  transact([&] { change(word(1)) = 1; });
  transact([&] { change(word(2)) = 2; });
  transact([] {});
  memory->flush();
  transact([&] {
    memory->truncate();
    late = &word(1);
    word(2, 300) = 7;
    change(word(3)) = 3;
  });
  EXPECT_EQ(counts().unseen_stores, 1U);
  EXPECT_GT(counts().pages_given_back, 0U);
  transact([] {});
  transact([&] { word(1, 300) = 9; });
  EXPECT_EQ(counts().traps, 1U);
  EXPECT_EQ(recovered(1, 300), 9U);
}

// Truncation closes what it has written, and gives its copies back.
TEST_F(barriers, memory_is_bounded_after_a_pass_over_everything) {
  open(write_barriers::announced);
  transact([&] {
    for (std::size_t p = 0; p < pages; ++p) change(word(p)) = p + 1;
  });
  EXPECT_EQ(counts().before_images, pages);
  memory->flush();
  for (int n = 0; n < 4; ++n) {
    memory->truncate();
    transact([&] { change(word(0)) = 1000 + static_cast<std::uint64_t>(n); });
    memory->flush();
  }
  EXPECT_LE(counts().before_images, 2U);
  const tracking_statistics before = counts();
  transact([&] {
    for (std::size_t p = 10; p < 20; ++p) change(word(p)) = 2 * p;
  });
  EXPECT_EQ(counts().traps, 0U);
  EXPECT_EQ(counts().announced_pages - before.announced_pages, 10U) << "they were closed";
  EXPECT_EQ(recovered(15), 30U);
}

// With an archive, what is written in bulk goes through the log. Where memory has something else, truncation does not change it.
TEST_F(barriers, what_is_written_in_bulk_and_not_in_memory_is_no_unseen_store) {
  for (const write_barriers how : {write_barriers::checking, write_barriers::none}) {
    options o = small_log(&disk);
    o.background = false;
    o.archive = archive_options{};
    const auto with_archive = [&] {
      close();
      memory.emplace("/log", o);
      region_ = memory->map("/segment",
                            {.create_length = pages * page, .tracking = tracking_mode::automatic, .barriers = how});
    };
    with_archive();
    transact([&] { change(word(5)) = 7; });
    with_archive();  // from here on the page shows the file
    {
      const std::vector<std::byte> zeros(page);
      const std::span<const std::byte> piece(zeros);
      transaction tx = memory->begin_automatic();
      tx.write_bulk(region_, 5 * page, {&piece, 1});
      tx.commit();
    }
    memory->truncate();
    EXPECT_EQ(word(5), 7U);
    transact([&] { change(word(6)) = 1; });
    with_archive();
    EXPECT_EQ(word(5), 0U);
  }
}

// A commit asks for the cards of each page that it compares.
TEST(resting_pages, finds_the_cards_of_one_page_among_many) {
  constexpr std::size_t count = 1'000'000;
  const thresholds limits;
  tracked_pages pages(nullptr, count * os::page_size(), count * os::page_size(), os::page_size() / 256);
  resting_pages resting(pages, write_barriers::cards, limits);
  std::vector<page_number> written(count);
  std::iota(written.begin(), written.end(), page_number{0});
  for (const page_number page : written) {
    pages[page].open = true;
    for (std::size_t word = 0; word < 4; ++word) pages.announced_cards(page, word) = (page + word) % 7;
  }
  resting.reserve(count);
  resting.rest(written);
  for (const page_number page : written)
    for (std::size_t word = 0; word < 4; ++word) ASSERT_EQ(resting.cards_before(page, word), (page + word) % 7);
}

struct counting_listener final : store_listener {
  void store_announced(std::byte*, std::size_t length) noexcept override { bytes += length, ++stores; }
  std::size_t bytes = 0, stores = 0;
};
TEST(announced_range, is_told_of_parts_and_never_of_no_bytes) {
  auto* const at = reinterpret_cast<std::byte*>(0x120000000000);
  constexpr std::size_t length = 4096;
  counting_listener first, second;
  announced_range one, other;
  one.begin(at, length, first);
  other.begin(at + length, length, second);
  announce_store(at + 100, 0);
  announce_store(at, 0);
  announce_store(at + length, 0);
  announce_store(at + 2 * length, 8);
  EXPECT_EQ(first.stores + second.stores, 0U);
  announce_store(at, length);
  EXPECT_EQ(first.bytes, length);
  announce_store(at + length - 3, 8);
  EXPECT_EQ(first.bytes, length + 3);
  EXPECT_EQ(second.bytes, 5U);
  announce_store(at - 10, 3 * length);
  EXPECT_EQ(first.bytes, 2 * length + 3);
  EXPECT_EQ(second.bytes, length + 5);
  EXPECT_EQ(first.stores, 3U);
  EXPECT_EQ(second.stores, 2U);
}

struct range_listener final : store_listener {
  explicit range_listener(std::uintptr_t at) : base(reinterpret_cast<std::byte*>(at)) {}
  void store_announced(std::byte* at, std::size_t length) noexcept override {
    if (at < base || at + length > base + size) others = true;
  }
  static constexpr std::size_t size = 1 << 20;
  std::byte* base;
  std::atomic<bool> others{false};
};
std::atomic<int> turn_of_handler{0};  // 1: its thread is interrupted; 2: it may go on
// The place of a range in the table is taken by another one while a store to a third, between them, is announced.
TEST(announced_range, is_told_of_its_own_bytes_alone) {
  constexpr std::uintptr_t homes = 0x110000000000;
  range_listener low(homes), middle(homes + (1 << 24)), high(homes + (1 << 28));
  announced_range stays, moves;
  moves.begin(low.base, range_listener::size, low);
  stays.begin(middle.base, range_listener::size, middle);
  struct sigaction how {
  }, old{};
  how.sa_handler = [](int) {
    turn_of_handler = 1;
    while (turn_of_handler != 2) ::sched_yield();
    turn_of_handler = 0;
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &how, &old), 0);
  std::atomic<bool> done{false};
  std::thread announces([&] {
    while (!done) announce_store(middle.base + 100, 8);
  });
  for (int n = 0; n < 200; ++n) {
    ASSERT_EQ(::pthread_kill(announces.native_handle(), SIGUSR1), 0);
    while (turn_of_handler != 1) std::this_thread::yield();
    range_listener& next = n % 2 == 0 ? high : low;
    moves.begin(next.base, range_listener::size, next);
    turn_of_handler = 2;
    while (turn_of_handler != 0) std::this_thread::yield();
  }
  done = true;
  announces.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &old, nullptr), 0);
  EXPECT_FALSE(low.others || middle.others || high.others);
}

TEST_F(barriers, the_new_part_of_a_region_that_has_grown_is_announced) {
  open(write_barriers::announced);
  memory->create_segment("/grows", {.length = 2 * page, .max_length = 64 * page});
  region_ = memory->map("/grows",
                        {.reserve = true, .tracking = tracking_mode::automatic, .barriers = write_barriers::announced});
  EXPECT_EQ(detail::end_of_watched(), reinterpret_cast<std::uintptr_t>(region_.data()) + 2 * page);
  memory->grow_segment("/grows", 8 * page);
  EXPECT_EQ(detail::end_of_watched(), reinterpret_cast<std::uintptr_t>(region_.data()) + 8 * page);
  transact([&] { change(word(7)) = 7; });
  EXPECT_EQ(counts().traps, 0U);
  EXPECT_EQ(counts().announced_pages, 1U);
}

TEST_F(barriers, options_that_exclude_them_are_refused) {
  open(write_barriers::none);
  expect_error(errc::bad_option, {"/other", "strict"}, [&] {
    (void)memory->map("/other", {.create_length = page,
                                 .tracking = tracking_mode::automatic,
                                 .tracking_strict = true,
                                 .barriers = write_barriers::announced});
  });
}

TEST_F(barriers, announcements_elsewhere_are_nothing) {
  open(write_barriers::none);
  std::uint64_t mine = 0;
  change(mine) = 3;
  announce_store(nullptr, 0);
  transact([&] { change(word(3)) = 4; });
  EXPECT_EQ(counts().traps, 1U) << "a region without barriers traps as ever";
  close();
  change(mine) = 5;
  EXPECT_EQ(mine, 5U);
}

}  // namespace
}  // namespace tenure::rvm
