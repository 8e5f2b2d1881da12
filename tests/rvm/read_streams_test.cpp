// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Programs that read pages one after the other, or here and there, in front of a page cache that is only a set.
#include "regions/read_streams.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tenure::rvm {
namespace {

using page_at = read_streams::page_count;

class page_cache {
 public:
  explicit page_cache(page_at pages, std::size_t room = ~std::size_t{0}) : pages_(pages), room_(room) {}

  // The program reads a page. Now and then the streams get their turn.
  void touch(page_at which) {
    ++touched_;
    if (!in_.contains(which)) {
      ++waited_;
      add(which);
    }
    if (touched_ % 16 == 0) streams_.follow();
    if (touched_ % 128 == 0) found_ += streams_.find(pages_);
  }
  void walk(page_at from, page_at to) {
    for (page_at at = from; at != to; at += from < to ? 1 : -1) touch(at);
  }
  void grow(page_at pages) { pages_ = pages; }
  void look() { found_ += streams_.find(pages_); }
  void rest(unsigned turns) {
    for (unsigned n = 0; n < turns; ++n) streams_.follow();
  }
  void fill(page_at from, page_at to) {
    for (page_at p = from; p < to; ++p) in_.insert(p);
  }
  void forget_kernel() { is_known_ = false; }

  [[nodiscard]] page_at waited() const { return waited_; }
  [[nodiscard]] page_at asked() const { return asked_; }
  [[nodiscard]] unsigned found() const { return found_; }
  [[nodiscard]] bool is_followed() const { return !streams_.is_empty(); }

 private:
  void add(page_at which) {
    if (in_.size() == room_) {
      const auto after = in_.lower_bound(static_cast<page_at>(random_() % static_cast<unsigned long>(pages_)));
      in_.erase(after == in_.end() ? in_.begin() : after);
    }
    in_.insert(which);
  }

  page_at pages_;
  std::size_t room_;
  std::set<page_at> in_;
  std::mt19937 random_{7};
  page_at touched_ = 0, waited_ = 0, asked_ = 0;
  unsigned found_ = 0;
  bool is_known_ = true;
  read_streams streams_{[this](page_at first, std::span<unsigned char> into) {
                          EXPECT_GE(first, 0);
                          EXPECT_LE(first + static_cast<page_at>(into.size()), pages_);
                          for (std::size_t n = 0; n < into.size(); ++n)
                            into[n] =
                                static_cast<unsigned char>(0xfe | int{in_.contains(first + static_cast<page_at>(n))});
                          return is_known_;
                        },
                        [this](page_at first, page_at count) {
                          EXPECT_GE(first, 0);
                          EXPECT_GT(count, 0);
                          EXPECT_LE(first + count, pages_);
                          asked_ += count;
                          for (page_at p = first; p < first + count; ++p) add(p);
                        }};
};

TEST(read_streams, a_walk_waits_for_few_pages_in_both_directions) {
  for (const page_at pages : {page_at{20'000}, page_at{20'001}, page_at{4'097}}) {
    page_cache up(pages), down(pages);
    up.walk(0, pages);
    EXPECT_LT(up.waited(), 400) << pages;
    EXPECT_GT(up.asked(), pages - 800) << pages;
    down.walk(pages - 1, -1);
    EXPECT_LT(down.waited(), 400) << pages;
  }
}

TEST(read_streams, several_walks_at_a_time_are_followed) {
  page_cache cache(80'000);
  for (page_at n = 0; n < 10'000; ++n)
    for (page_at walk = 0; walk < 4; ++walk) cache.touch(walk * 20'000 + (walk % 2 == 0 ? n : 19'999 - n));
  EXPECT_LT(cache.waited(), 2'500);
}

TEST(read_streams, reading_here_and_there_asks_for_nothing) {
  page_cache cache(1 << 16, 1 << 14);
  std::mt19937 random(3);
  for (int n = 0; n < 100'000; ++n) cache.touch(static_cast<page_at>(random() % (1 << 16)));
  EXPECT_EQ(cache.asked(), 0);
  EXPECT_FALSE(cache.is_followed());
}

TEST(read_streams, a_stream_ends_when_the_program_goes_elsewhere) {
  for (page_at length = 400; length < 2'000; length += 50) {
    page_cache cache(1 << 16);
    cache.walk(30'000, 30'000 + length);
    EXPECT_TRUE(cache.is_followed());
    cache.rest(2 * read_streams::patience);
    const page_at asked = cache.asked();
    EXPECT_FALSE(cache.is_followed());
    cache.look();  // what the stream has brought in is no walk
    EXPECT_FALSE(cache.is_followed()) << length;
    EXPECT_EQ(cache.asked(), asked);
    EXPECT_LE(asked, length + 2 * 2 * read_streams::most_at_once);
  }
}

TEST(read_streams, what_is_in_memory_at_first_and_what_was_asked_for_is_no_walk) {
  page_cache cache(100'000);
  for (page_at n = 0; n < 127; ++n) cache.touch(5'000 + n);
  cache.look();
  cache.look();
  EXPECT_EQ(cache.found(), 0u);
  cache.walk(5'127, 5'300);
  EXPECT_EQ(cache.found(), 1u);  // up and down
  const page_at asked = cache.asked();
  for (int n = 0; n < 10; ++n) cache.look();
  EXPECT_EQ(cache.found(), 1u);
  EXPECT_EQ(cache.asked(), asked);
}

TEST(read_streams, pages_that_are_added_are_followed) {
  page_cache cache(100);
  cache.walk(0, 100);
  EXPECT_EQ(cache.waited(), 100);
  cache.grow(20'000);
  cache.look();
  cache.walk(100, 20'000);
  EXPECT_LT(cache.waited(), 600);
}

TEST(read_streams, large_mappings_are_looked_at_in_parts) {
  const page_at pages = 2 * read_streams::part + 1'000;
  page_cache cache(pages);
  for (int n = 0; n < 3; ++n) cache.look();  // as it is at first
  cache.walk(pages - 900, pages - 700);
  for (int n = 0; n < 3; ++n) cache.look();
  EXPECT_GE(cache.found(), 1u);
}

TEST(read_streams, where_the_kernel_does_not_tell_nothing_is_asked_for) {
  page_cache cache(10'000);
  cache.forget_kernel();
  cache.walk(0, 10'000);
  EXPECT_EQ(cache.asked(), 0);
}

TEST(read_streams, run_no_further_than_a_little_through_pages_that_are_there) {
  page_cache cache(1 << 16);
  cache.walk(0, 400);
  cache.fill(400, 1 << 16);
  const page_at asked = cache.asked();
  cache.rest(1);
  EXPECT_GT(cache.asked(), asked);
  EXPECT_LE(cache.asked(), asked + 2 * read_streams::most_asked * read_streams::most_at_once);
}

TEST(read_streams, of_too_many_streams_the_idlest_end) {
  page_cache cache(4 * read_streams::part);
  constexpr page_at apart = 3 * read_streams::most_at_once;
  for (int n = 0; n < 4; ++n) cache.look();
  for (page_at walk = 0; walk < 40; ++walk) cache.walk(walk * apart, walk * apart + 200);
  for (int n = 0; n < 4; ++n) cache.look();
  const page_at before = cache.waited();
  cache.walk(39 * apart + 200, 39 * apart + 1'000);
  EXPECT_LT(cache.waited() - before, 300);
}

}  // namespace
}  // namespace tenure::rvm
