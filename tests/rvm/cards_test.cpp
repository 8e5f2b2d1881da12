// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Cards of all sizes, against arithmetic by bytes, and what commits make of them.
#include "regions/cards.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>

#include "records/thresholds.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/mechanisms.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::page, support::small_log;

TEST(card_layout, finds_the_cards_of_any_bytes_and_their_bytes_again) {
  testing::random_source random(3);
  for (const std::size_t length : {4096U, 16384U})
    for (const std::size_t size : support::card_sizes) {
      const card_layout cards(length, size);
      ASSERT_EQ(cards.words(), std::max<std::size_t>(length / size / 64, 1));
      for (int n = 0; n < 300; ++n) {
        const std::size_t from = random.below(length);
        const std::size_t to =
            from + 1 + random.below(random.one_in(2) ? std::min<std::size_t>(20, length - from) : length - from);
        std::size_t at = from / size * size, first = length, words = 0;
        cards.for_each_word(from, to, [&](std::size_t word, std::uint64_t bits) {
          ASSERT_NE(bits, 0U);
          ASSERT_LT(word, cards.words());
          ++words;
          first = std::min(first, cards.first_byte(word, bits));
          cards.for_each_run(word, bits, [&](std::size_t begin, std::size_t end) {
            ASSERT_EQ(begin, at) << "cards of " << size << ", bytes " << from << " to " << to;
            at = end;
          });
        });
        ASSERT_EQ(at, (to + size - 1) / size * size) << "cards of " << size << ", bytes " << from << " to " << to;
        ASSERT_EQ(first, from / size * size);
        ASSERT_EQ(words, (to - 1) / size / 64 - from / size / 64 + 1);
      }
    }
}

TEST(card_layout, finds_the_bytes_of_cards_that_are_no_neighbours) {
  const card_layout cards(4096, 16);
  std::vector<std::size_t> found;
  cards.for_each_run(3, 0x8000'0000'0000'0005, [&](std::size_t from, std::size_t to) {
    found.push_back(from);
    found.push_back(to);
  });
  EXPECT_EQ(found, (std::vector<std::size_t>{3072, 3088, 3104, 3120, 4080, 4096}));
}

class cards : public ::testing::TestWithParam<std::size_t> {
 public:
  static constexpr std::size_t pages = 16;

  // Nothing is found but by announcements.
  cards() { limits.audits_at_first = 0, limits.audit_every = 1'000'000; }
  void open(write_barriers how, callback<void(const unseen_store&)> observer = {}) {
    region_ = {};
    memory.reset();
    options o = small_log(&disk);
    o.background = false;
    o.limits = &limits;
    o.on_unseen_store = std::move(observer);
    memory.emplace("/log", o);
    region_ = memory->map("/segment", {.create_length = pages * page,
                                       .tracking = tracking_mode::automatic,
                                       .barriers = how,
                                       .card_size = GetParam()});
    for (int n = 0; n < 2; ++n) transact([&] { announce_store(region_.data(), page), byte(0) ^= 1; });
    transact([&] { announce_store(region_.data() + page, 1), byte(page) = 1; });
    transact([&] { announce_store(region_.data() + page, 1), byte(page) = 2; });
  }
  void TearDown() override {
    region_ = {};
    memory.reset();
  }
  [[nodiscard]] unsigned char& byte(std::size_t at) { return *reinterpret_cast<unsigned char*>(region_.data() + at); }
  template <class F>
  void transact(F&& f) {
    transaction tx = memory->begin_automatic();
    f();
    tx.commit(commit_mode::no_flush);
  }

  thresholds limits;
  sim::disk disk;
  std::optional<rvm::memory> memory;
  region region_;
};

// Of a page that is open: what is logged is what lies in announced cards, to the byte.
TEST_P(cards, are_what_is_logged_around_a_store) {
  open(write_barriers::cards);
  const std::size_t size = GetParam();
  testing::random_source random(size);
  std::vector<unsigned char> committed(page);
  std::copy_n(&byte(0), page, committed.begin());
  for (unsigned n = 1; n <= 60; ++n) {
    const std::size_t from = random.below(page);
    const std::size_t length = 1 + random.below(std::min<std::size_t>(random.one_in(3) ? page : 24, page - from));
    transact([&] {
      announce_store(region_.data() + from, length);
      for (std::size_t at = 0; at < page; ++at) byte(at) = static_cast<unsigned char>(n);
    });
    const std::size_t first = from / size * size, last = (from + length - 1) / size * size + size;
    std::fill(committed.begin() + static_cast<std::ptrdiff_t>(first),
              committed.begin() + static_cast<std::ptrdiff_t>(last), static_cast<unsigned char>(n));
    // What lies elsewhere was not logged, and is no longer there when the page is announced as a whole, and aborted.
    {
      transaction tx = memory->begin_automatic();
      announce_store(region_.data(), page);
      tx.abort();
    }
    ASSERT_TRUE(std::equal(committed.begin(), committed.end(), &byte(0)))
        << "bytes " << from << " to " << from + length;
    transact([] {});  // the cards of the abort are of no interest any more
    transact([] {});
  }
  region_ = {};
  memory.reset();
  open(write_barriers::announced);
  EXPECT_TRUE(std::equal(committed.begin() + 1, committed.end(), &byte(1)));
}

// [rvm.barriers.twice]
TEST_P(cards, that_were_announced_before_a_commit_are_compared_after_it) {
  open(write_barriers::cards);
  const std::size_t at[] = {0, 17, page / 2 + 1, page - 1};
  transact([&] {
    for (const std::size_t each : at) announce_store(region_.data() + each, 1);
  });
  transact([&] {
    for (const std::size_t each : at) byte(each) = 77;
  });
  region_ = {};
  memory.reset();
  open(write_barriers::announced);
  for (std::size_t n = 1; n < 4; ++n) EXPECT_EQ(byte(at[n]), 77) << n;
}

// Whatever cards the program wants, the smallest ones count. Differences with one word between them are told as one, but for what was
// announced.
TEST_P(cards, tell_seen_stores_from_unseen_ones_when_checking) {
  std::vector<std::uint64_t> told;
  open(write_barriers::checking, [&](const unseen_store& each) { told.push_back(each.offset); });
  for (std::size_t distance = 8; distance < page; distance *= 2) {
    told.clear();
    transact([] {});
    transact([&] {
      announce_store(region_.data(), 8);
      byte(0) ^= 1;
      byte(distance) ^= 1;
    });
    EXPECT_EQ(told, distance < 16 ? std::vector<std::uint64_t>{} : std::vector<std::uint64_t>{distance});
  }
}

INSTANTIATE_TEST_SUITE_P(of, cards, ::testing::ValuesIn(support::card_sizes),
                         [](const auto& size) { return std::to_string(size.param); });

TEST(card_sizes, that_are_impossible_are_refused) {
  sim::disk disk;
  memory m("/log", small_log(&disk));
  for (const std::size_t size : {0U, 8U, 48U, 8192U})
    expect_error(errc::bad_option, {"/segment", "cards of " + std::to_string(size) + " bytes", "from 16 to 4096"}, [&] {
      (void)m.map("/segment", {.create_length = page,
                               .tracking = tracking_mode::automatic,
                               .barriers = write_barriers::cards,
                               .card_size = size});
    });
}

}  // namespace
}  // namespace tenure::rvm
