// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Random automatic transactions, under every means of finding changed pages: memory, segments, and the number of bytes
// logged are those of an obvious model, and the counters tell that no other means was used.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>

#include "regions/page_difference.hpp"
#include "sim/disk.hpp"
#include "support/drawn_limits.hpp"
#include "support/mechanisms.hpp"
#include "support/model.hpp"
#include "support/refused_calls.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::page, support::small_log;
using testing::random_source, testing::scaled, testing::image;

// What commits log: differing words, and what is alone between two of them, a page of 4096 at a time.
std::uint64_t bytes_to_log(const image& now, const image& then) {
  std::uint64_t bytes = 0;
  for (std::size_t base = 0; base < now.size(); base += 4096) {
    std::size_t last = ~std::size_t{0};
    for (std::size_t word = 0; word < 512; ++word) {
      if (std::memcmp(now.data() + base + 8 * word, then.data() + base + 8 * word, 8) == 0) continue;
      bytes += last != ~std::size_t{0} && word - last <= 2 ? 8 * (word - last) : 8;
      last = word;
    }
  }
  return bytes;
}

struct plan {
  tracking_mechanism mechanism = tracking_mechanism::choose;
  bool strict = false;
  std::uint64_t seed = 1, transactions = scaled(120);
  std::size_t pages = 256;
  std::size_t most_pages = 40;  // written by one transaction
  thresholds limits = {};
  write_barriers barriers = write_barriers::none;
  std::size_t card_size = 64;
};

// A formatted segment in two regions, and a raw one, all tracked; and one that is not.
class user {
 public:
  explicit user(const plan& p) : plan_(p), random_(p.seed), now_(p.pages * 3 / 2 * page), then_(now_.size()) {
    disk_.install("/raw", std::vector<std::byte>(p.pages / 2 * page));
    open();
  }

  tracking_statistics run() {
    for (std::uint64_t i = 0; i < plan_.transactions && !::testing::Test::HasFailure(); ++i) {
      transact();
      if (random_.one_in(10)) memory_->truncate();
      if (random_.one_in(10)) (void)memory_->truncate_incrementally(1 + random_.below(100'000));
      memory_->check();
      if (random_.one_in(30)) use_explicitly();
      look();
    }
    const tracking_statistics counts = memory_->stats().tracking;
    regions_.clear();
    explicit_ = {};
    memory_->close();
    open();
    look();
    return counts;
  }

 private:
  void open() {
    options how = small_log(&disk_);
    how.background = false;
    how.limits = &plan_.limits;
    memory_.emplace("/log", how);
    map_options what{.tracking = tracking_mode::automatic,
                     .force_mechanism = plan_.mechanism,
                     .tracking_strict = plan_.strict,
                     .barriers = plan_.barriers,
                     .card_size = plan_.card_size};
    const std::size_t cut = plan_.pages / 3 * page;
    what.create_length = plan_.pages * page;
    what.length = cut;
    regions_.push_back(memory_->map("/formatted", what));
    what.offset = cut;
    what.length = 0;
    regions_.push_back(memory_->map("/formatted", what));
    what.offset = 0;
    what.raw = true;
    regions_.push_back(memory_->map("/raw", what));
    explicit_ = memory_->map("/explicit", {.create_length = 16 * page});
  }
  std::byte* at(std::size_t offset, std::size_t& room) {
    for (region& r : regions_) {
      room = r.size();
      if (offset < r.size()) {
        room -= offset;
        return r.data() + offset;
      }
      offset -= r.size();
    }
    std::abort();
  }
  void write(transaction& tx, std::size_t offset, std::size_t length) {
    std::size_t room;
    std::byte* const to = at(offset, room);
    length = std::min(length, room);
    if (plan_.mechanism == tracking_mechanism::announced || random_.one_in(8)) tx.set_range(to, length);
    image value(now_.begin() + static_cast<std::ptrdiff_t>(offset),
                now_.begin() + static_cast<std::ptrdiff_t>(offset + length));
    if (!random_.one_in(6)) testing::fill_random(value.data(), length, random_);  // else the same again
    announce(to, length);
    std::memcpy(to, value.data(), length);
    std::memcpy(now_.data() + offset, value.data(), length);
  }
  // Where whole pages are compared, a byte on each page is enough.
  void announce(std::byte* to, std::size_t length) {
    if (plan_.barriers == write_barriers::none) return;
    if (plan_.barriers != write_barriers::announced || random_.one_in(2)) return announce_store(to, length);
    for (std::size_t at = 0; at < length; at += page) announce_store(to + at, 1);
    announce_store(to + length - 1, 1);
  }
  void transact() {
    transaction tx = memory_->begin_automatic();
    if (random_.one_in(4)) tx.label("label");
    std::vector<std::pair<inner_transaction, image>> inner;  // with what there was when it began
    const auto end_inner = [&] {
      if (random_.one_in(2)) {
        inner.back().first.commit();
      } else {
        if (random_.one_in(2)) inner.back().first.abort();
        now_ = inner.back().second;
      }
      inner.pop_back();  // which aborts, too
      look();
    };
    const bool nests = random_.one_in(3);
    for (std::uint64_t n = random_.below(plan_.most_pages); n > 0; --n) {
      if (nests && random_.one_in(6)) inner.emplace_back(tx.begin_inner(), now_);
      if (!inner.empty() && random_.one_in(8)) end_inner();
      const std::size_t hot = random_.below(8) * 5 * page, anywhere = random_.below(now_.size());
      switch (random_.below(4)) {
        case 0: write(tx, hot + random_.below(page), 1 + random_.below(40)); break;
        case 1: write(tx, anywhere, 1 + random_.below(8)); break;
        case 2: write(tx, anywhere, 1 + random_.below(200)); break;
        default:
          if (random_.one_in(4)) write(tx, anywhere, 1 + random_.below(6 * page));
      }
    }
    while (!inner.empty() && random_.one_in(4)) end_inner();
    if (random_.one_in(5)) {
      if (random_.one_in(2)) tx.abort();
      now_ = then_;
      return;  // which aborts, too
    }
    while (!inner.empty()) end_inner();
    const auto before = memory_->stats();
    tx.commit(random_.one_in(3) ? commit_mode::flush : commit_mode::no_flush);
    const auto after = memory_->stats();
    ASSERT_EQ(after.tracking.changed_bytes - before.tracking.changed_bytes, bytes_to_log(now_, then_));
    then_ = now_;
  }
  void use_explicitly() {
    transaction automatic = memory_->begin_automatic();
    transaction tx = memory_->begin();
    tx.modify(explicit_.at<std::uint64_t>(random_.below(100) * 8), random_.next());
    write(automatic, 100, 50);
    if (random_.one_in(2)) automatic.set_range(explicit_.at<std::uint64_t>(1000 * 8));
    tx.commit();
    automatic.abort();
    now_ = then_;
  }
  void look() {
    std::size_t offset = 0;
    for (const region& r : regions_) {
      ASSERT_EQ(std::memcmp(r.data(), now_.data() + offset, r.size()), 0);
      offset += r.size();
    }
  }

  const plan plan_;
  random_source random_;
  sim::disk disk_;
  image now_, then_;
  std::optional<memory> memory_;
  std::vector<region> regions_;
  region explicit_;
};

struct tracking_model : ::testing::TestWithParam<bool> {
  static tracking_statistics run(plan p) {
    p.strict = GetParam();
    tracking_statistics sum;
    for (p.seed = 1; p.seed <= 3 && !HasFailure(); ++p.seed) {
      SCOPED_TRACE("seed " + std::to_string(p.seed));
      const tracking_statistics one = user(p).run();
      for (const auto part :
           {&tracking_statistics::traps, &tracking_statistics::trapped_pages, &tracking_statistics::announced_pages,
            &tracking_statistics::hot_pages_compared, &tracking_statistics::scans, &tracking_statistics::private_scans,
            &tracking_statistics::whole_openings, &tracking_statistics::widened_traps,
            &tracking_statistics::changed_pages, &tracking_statistics::before_images_made,
            &tracking_statistics::pages_given_back, &tracking_statistics::unseen_stores,
            &tracking_statistics::audited_pages})
        sum.*part += one.*part;
    }
    EXPECT_GT(sum.changed_pages, 100U);
    EXPECT_GT(sum.before_images_made, 0U);
    if (p.mechanism != tracking_mechanism::hot) {  // with which most stay open
      EXPECT_GT(sum.pages_given_back, 0U);
    }
    return sum;
  }
};

TEST_P(tracking_model, traps) {
  const auto n = run({.mechanism = tracking_mechanism::traps});
  EXPECT_GT(n.traps, 100U);
  EXPECT_EQ(n.traps, n.trapped_pages);
  EXPECT_EQ(n.hot_pages_compared + n.whole_openings + n.scans + n.private_scans + n.widened_traps, 0U);
}
TEST_P(tracking_model, growing_runs) {
  const auto n = run({.mechanism = tracking_mechanism::growing_runs});
  EXPECT_GT(n.trapped_pages, n.traps);
  EXPECT_EQ(n.hot_pages_compared + n.whole_openings + n.scans + n.private_scans + n.widened_traps, 0U);
}
TEST_P(tracking_model, hot_pages) {
  const auto n = run({.mechanism = tracking_mechanism::hot});
  EXPECT_EQ(n.hot_pages_compared > 0, !GetParam());  // strict leaves nothing open
  EXPECT_EQ(n.whole_openings + n.scans + n.private_scans + n.widened_traps, 0U);
}
TEST_P(tracking_model, scan) {
  const auto n = run({.mechanism = tracking_mechanism::scan});
  EXPECT_GT(n.scans, 100U);
  EXPECT_EQ(n.traps + n.private_scans + n.announced_pages + n.widened_traps, 0U);
}
TEST_P(tracking_model, private_copies) {
  const auto n = run({.mechanism = tracking_mechanism::private_copies});
  EXPECT_GT(n.private_scans, 100U);
  EXPECT_EQ(n.traps + n.scans + n.announced_pages + n.widened_traps, 0U);
}
TEST_P(tracking_model, announced) {
  const auto n = run({.mechanism = tracking_mechanism::announced});
  EXPECT_GT(n.announced_pages, 100U);
  EXPECT_EQ(n.traps + n.scans + n.private_scans + n.widened_traps, 0U);
}
// Nothing is trapped, or unseen.
TEST_P(tracking_model, barriers) {
  if (GetParam()) GTEST_SKIP() << "barriers leave pages open, which strict tracking excludes";
  for (const write_barriers how : {write_barriers::announced, write_barriers::cards, write_barriers::checking}) {
    SCOPED_TRACE(static_cast<int>(how));
    const auto n = run({.transactions = scaled(240), .barriers = how, .card_size = 16});
    EXPECT_GT(n.announced_pages, 100U);
    EXPECT_GT(n.audited_pages, 10U);
    EXPECT_EQ(n.traps + n.hot_pages_compared + n.scans + n.private_scans + n.widened_traps + n.unseen_stores, 0U);
  }
}
TEST_P(tracking_model, barriers_with_drawn_limits) {
  if (GetParam()) GTEST_SKIP() << "barriers leave pages open, which strict tracking excludes";
  for (std::uint64_t seed = 1; seed <= scaled(12) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random(seed);
    plan p{.seed = seed, .transactions = scaled(60)};
    p.pages = 128 << random.below(3);
    p.most_pages = 5 << random.below(6);
    p.limits = testing::drawn_limits(random);
    p.limits.audits_at_first = static_cast<std::uint32_t>(random.below(4));
    p.limits.audit_every = 1 + random.below(10);
    p.barriers = random.one_in(3) ? write_barriers::announced : write_barriers::cards;
    p.card_size = support::card_sizes[random.below(support::card_sizes.size())];
    EXPECT_EQ(user(p).run().unseen_stores, 0U);
  }
}
TEST_P(tracking_model, choose) {
  const auto few = run({.transactions = 120, .most_pages = 5});
  EXPECT_GT(few.traps, 0U);
  const auto many = run({.transactions = scaled(50), .pages = 1024, .most_pages = 400});
  EXPECT_GT(many.whole_openings, 0U);
  EXPECT_GT(many.scans, 0U);
  EXPECT_EQ(many.private_scans, 0U);
}
TEST_P(tracking_model, drawn_limits) {
  constexpr tracking_mechanism means[] = {tracking_mechanism::choose, tracking_mechanism::hot,
                                          tracking_mechanism::growing_runs};
  for (std::uint64_t seed = 1; seed <= scaled(12) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random(seed);
    plan p{.mechanism = means[random.one_in(3) ? 1 + random.below(2) : 0], .strict = GetParam(), .seed = seed};
    p.transactions = scaled(60);
    p.pages = 128 << random.below(3);
    p.most_pages = 5 << random.below(6);
    p.limits = testing::drawn_limits(random);
    (void)user(p).run();
  }
}
TEST_P(tracking_model, without_vector_instructions) {
  use_vector_instructions(false);
  (void)run({});
  use_vector_instructions(true);
}
TEST_P(tracking_model, without_userfaultfd) {
  ASSERT_TRUE(support::without_calls({SYS_userfaultfd}, EPERM, [] {
    const auto forced = run({.mechanism = tracking_mechanism::scan});
    EXPECT_EQ(forced.scans, 0U);
    EXPECT_GT(forced.private_scans, 0U);
    const auto chosen = run({.transactions = scaled(50), .pages = 1024, .most_pages = 400});
    EXPECT_EQ(chosen.scans, 0U);
    EXPECT_GT(chosen.private_scans, 0U);
  }));
}
// Neither notes nor the scan of the page map; but the page map can be read.
TEST_P(tracking_model, without_page_scans) {
  ASSERT_TRUE(support::without_calls({SYS_ioctl}, ENOTTY, [] {
    const auto forced = run({.mechanism = tracking_mechanism::scan});
    EXPECT_EQ(forced.scans, 0U);
    EXPECT_GT(forced.private_scans, 0U);
    const auto chosen = run({.transactions = scaled(50), .pages = 1024, .most_pages = 400});
    EXPECT_EQ(chosen.scans, 0U);
    EXPECT_GT(chosen.private_scans, 0U);
  }));
}
// The kernel tells nothing: traps of growing width, and comparing everything where that is forced.
TEST_P(tracking_model, without_the_page_map) {
  os::force_page_mechanism(os::page_mechanism::none);
  ASSERT_TRUE(support::without_calls({SYS_ioctl, SYS_userfaultfd}, EPERM, [] {
    const auto chosen = run({.transactions = scaled(50), .pages = 1024, .most_pages = 400});
    EXPECT_EQ(chosen.scans + chosen.private_scans + chosen.whole_openings, 0U);
    EXPECT_GT(chosen.trapped_pages, chosen.traps * 9 / 8);
    const auto forced = run({.mechanism = tracking_mechanism::private_copies});
    EXPECT_GT(forced.private_scans, 0U);
  }));
  os::force_page_mechanism(os::page_mechanism::best);
}
// The process has as many mappings as it may have.
TEST_P(tracking_model, at_the_limit_of_mappings) {
  os::refuse_protection_below(64 * page);
  const auto widened = run({.mechanism = tracking_mechanism::traps, .transactions = scaled(60), .pages = 512});
  EXPECT_GT(widened.widened_traps, 0U);
  os::refuse_protection_below(150 * page);
  const auto opened = run({.mechanism = tracking_mechanism::traps, .transactions = scaled(60), .pages = 512});
  EXPECT_GT(opened.widened_traps, 0U);
  EXPECT_GT(opened.private_scans, 0U);
  os::refuse_protection_below(0);
}

INSTANTIATE_TEST_SUITE_P(all, tracking_model, ::testing::Values(false, true),
                         [](const auto& of) { return of.param ? "strict" : "usual"; });

}  // namespace
}  // namespace tenure::rvm
