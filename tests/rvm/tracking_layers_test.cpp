// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What automatic tracking offers to layers above: filters, untracked pages, participants, transient bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/rvm/participant.hpp>

#include "support/expect_error.hpp"
#include "support/mechanisms.hpp"
#include "support/sanitizers.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::get, support::mib, support::page, support::small_log;

// Of each kilobyte, the first half is recoverable and the second is not.
struct halves final : change_filter {
  void recoverable_parts(const memory_range& of, std::vector<memory_range>& kept) override {
    for (std::size_t at = 0; at < of.length; at += 1024) kept.push_back({of.address + at, 512});
  }
  void restorable_parts(const memory_range& of, std::vector<memory_range>& kept) override { kept.push_back(of); }
  [[nodiscard]] bool allows_stray_write(const std::byte* at) const noexcept override {
    return (at - base) % 1024 >= 512;
  }
  const std::byte* base = nullptr;
};
constexpr std::size_t transient = 600;  // an offset of transient bytes on a page

struct layers : ::testing::TestWithParam<tracking_mechanism> {
  support::temp_dir dir;
  std::optional<memory> m;
  region r;
  halves filter;

  void SetUp() override { open(); }
  void open() {
    r = {};
    m.reset();
    m.emplace(dir / "log", small_log());
    r = m->map(dir / "segment",
               {.create_length = mib, .tracking = tracking_mode::automatic, .force_mechanism = GetParam()});
  }
  void filtered() {
    filter.base = r.data();
    r.set_change_filter(&filter);
  }
  void write(std::size_t offset, const std::string& text) const {
    std::memcpy(r.data() + offset, text.data(), text.size());
  }
  [[nodiscard]] tracking_statistics counts() const { return m->stats().tracking; }
};

// [rvm.tracking.filter]
TEST_P(layers, bytes_that_are_filtered_out_are_not_logged) {
  filtered();
  m->transact_automatically([&](transaction&) {
    write(0, "kept");
    write(transient, "not kept");
    write(page + 500, std::string(24, 'x'));  // two words of it
    write(2 * page + transient, "alone");
  });
  EXPECT_EQ(counts().changed_pages, 2U);
  EXPECT_EQ(counts().changed_bytes, 8U + 16U);
  EXPECT_EQ(get(r, transient, 8), "not kept");
  open();
  EXPECT_EQ(get(r, 0, 4), "kept");
  EXPECT_EQ(get(r, transient, 8), std::string(8, 0));
  EXPECT_EQ(get(r, page + 500, 24), std::string(12, 'x') + std::string(12, 0));
}

TEST_P(layers, transient_bytes_get_their_value_at_begin_back) {
  filtered();
  m->transact_automatically([&](transaction&) { write(0, "kept"), write(transient, "first"); });
  write(transient, "later");  // outside of a transaction
  write(3 * page + transient, "as well");
  {
    transaction tx = m->begin_automatic();
    write(0, "lost");
    write(transient, "gone!");
    write(3 * page + transient, "perdu");
    tx.abort();
  }
  EXPECT_EQ(get(r, 0, 4), "kept");
  EXPECT_EQ(get(r, transient, 5), "later");
  EXPECT_EQ(get(r, 3 * page + transient, 7), "as well");
  EXPECT_EQ(counts().stray_writes, 0U);
  m->truncate();  // nothing is dropped that the file does not have
  EXPECT_EQ(get(r, transient, 5), "later");
  EXPECT_EQ(get(r, 3 * page + transient, 7), "as well");
}

TEST_P(layers, a_stray_write_beside_transient_ones_is_rolled_back_alone) {
  filtered();
  m->transact_automatically([&](transaction&) { write(0, "kept"); });
  write(transient, "open");  // now the page is open, or has been all the time
  write(8, "stray");
  expect_error(errc::stray_write, {"1 page was"}, [&] { (void)m->begin_automatic(); });
  EXPECT_EQ(get(r, 0, 13), std::string("kept") + std::string(9, 0));
  EXPECT_EQ(get(r, transient, 4), "open");
}

// Makes objects on untracked pages, and logs those that are wanted, as an object heap does.
struct maker final : participant {
  memory_range object{};
  std::vector<memory_range> seen;
  int captures = 0;
  bool refuse = false;
  char before[4];
  void prepare(commit_scope& tx) override {
    const auto changes = tx.changes();
    seen.assign(changes.begin(), changes.end());
    if (object.length != 0) {
      tx.set_range(object.address, object.length);
      std::memcpy(before, object.address, 4);
      std::memcpy(object.address, "made", 4);
    }
    if (refuse) throw error(errc::bad_option, "refused");
  }
  void undo_prepare(commit_scope&) noexcept override {
    if (object.length != 0) std::memcpy(object.address, before, 4);
  }
  void captured(commit_scope&) noexcept override { ++captures; }
  void committed(commit_scope&) noexcept override {}
  void aborted(commit_scope&) noexcept override {}
};

// [rvm.tracking.untracked]
TEST_P(layers, untracked_pages_are_logged_when_a_participant_says_so) {
  r.open_untracked(r.data() + 16 * page, 16 * page);
  EXPECT_TRUE(r.is_open_untracked(r.data() + 16 * page));
  EXPECT_FALSE(r.is_open_untracked(r.data() + 15 * page));
  const auto traps = counts().traps;
  write(20 * page + 100, "garbage");
  write(20 * page, "????wanted");
  EXPECT_EQ(counts().untracked_pages, 16U);
  maker who;
  who.object = {r.data() + 20 * page, 10};
  {
    transaction tx = m->begin_automatic();
    tx.join(who);
    write(21 * page, "garbage");
    tx.commit();
  }
  EXPECT_EQ(who.captures, 1);
  EXPECT_EQ(who.seen.size(), 0U);
  EXPECT_EQ(counts().traps, traps);
  EXPECT_EQ(counts().untracked_pages, 15U);
  EXPECT_FALSE(r.is_open_untracked(r.data() + 20 * page));
  EXPECT_TRUE(r.is_open_untracked(r.data() + 21 * page));
  {
    transaction tx = m->begin_automatic();
    write(20 * page + 4, "altered");
    tx.abort();
  }
  EXPECT_EQ(get(r, 20 * page, 10), "madewanted");
  EXPECT_EQ(get(r, 20 * page + 100, 7), "garbage");
  EXPECT_EQ(get(r, 21 * page, 7), "garbage");
  m->transact_automatically([&](transaction&) { write(20 * page + 4, "WANTED"); });
  m->truncate();
  EXPECT_EQ(get(r, 20 * page + 100, 7), "garbage");
  open();
  EXPECT_EQ(get(r, 20 * page, 10), "madeWANTED");
  EXPECT_EQ(get(r, 20 * page + 100, 7), std::string(7, 0));
  EXPECT_EQ(get(r, 21 * page, 7), std::string(7, 0));
}

TEST_P(layers, changes_are_shown_to_participants_in_order) {
  maker who;
  who.object = {r.data() + 30 * page, 10};  // a tracked page
  transaction tx = m->begin_automatic();
  tx.join(who);
  write(9 * page + 8, "12345678");
  write(3 * page, "1");
  tx.commit();
  ASSERT_EQ(who.seen.size(), 2U);
  EXPECT_EQ(who.seen[0].address, r.data() + 3 * page);
  EXPECT_EQ(who.seen[0].length, 8U);
  EXPECT_EQ(who.seen[1].address, r.data() + 9 * page + 8);
  EXPECT_EQ(get(r, 30 * page, 4), "made");
  open();
  EXPECT_EQ(get(r, 30 * page, 4), "made");
}

TEST_P(layers, a_commit_that_fails_can_be_repeated_or_aborted) {
  maker who;
  who.object = {r.data() + 30 * page, 10};
  who.refuse = true;
  {
    transaction tx = m->begin_automatic();
    tx.join(who);
    write(0, "changed");
    expect_error(errc::bad_option, {}, [&] { tx.commit(); });
    EXPECT_TRUE(tx.is_open());
    EXPECT_EQ(get(r, 30 * page, 4), std::string(4, 0));
    write(5 * page, "more");
    who.refuse = false;
    tx.commit();
    EXPECT_EQ(who.seen.size(), 2U);
  }
  who.refuse = true;
  {
    transaction tx = m->begin_automatic();
    tx.join(who);
    write(0, "another");
    expect_error(errc::bad_option, {}, [&] { tx.commit(); });
    tx.abort();
  }
  EXPECT_EQ(get(r, 0, 7), "changed");
  EXPECT_EQ(get(r, 30 * page, 4), "made");
  open();
  EXPECT_EQ(get(r, 0, 7), "changed");
  EXPECT_EQ(get(r, 5 * page, 4), "more");
}

// Objects that are not recoverable may be written by any thread at any time, also while pages are closed and dropped.
TEST_P(layers, transient_bytes_survive_transactions_and_truncation) {
  if (support::thread_sanitizer)
    GTEST_SKIP() << "the library copies whole pages, on which bytes that are not its own may change";
  filtered();
  std::atomic<bool> stop{false};
  std::uint64_t written = 0;
  constexpr std::size_t count = 32;
  std::thread other([&] {
    while (!stop || written < 1000) {
      const std::size_t at = written % count * page + transient;
      std::uint64_t value;
      std::memcpy(&value, r.data() + at, sizeof value);
      if (value != (written < count ? 0 : written - count + 1)) break;
      value = ++written;
      std::memcpy(r.data() + at, &value, sizeof value);
    }
  });
  for (int i = 0; i < 200; ++i) {
    m->transact_automatically(
        [&](transaction&) { write((static_cast<std::size_t>(i) * 7) % count * page, std::to_string(i)); },
        commit_mode::no_flush);
    if (i % 10 == 0) m->truncate();
  }
  stop = true;
  other.join();
  EXPECT_GE(written, 1000U);
  EXPECT_EQ(counts().stray_writes, 0U);
}

INSTANTIATE_TEST_SUITE_P(all, layers, support::every_mechanism, support::mechanism_name);

TEST(layers_misuse, of_regions_that_are_not_tracked) {
  support::temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "segment", {.create_length = mib});
  expect_error(errc::wrong_tracking, {"tracking_mode::automatic"}, [&] { r.open_untracked(r.data(), page); });
  expect_error(errc::wrong_tracking, {}, [&] { r.set_change_filter(nullptr); });
  expect_error(errc::bad_option, {"copy_in"}, [&] {
    (void)m.map(dir / "other", {.create_length = mib, .copy_in = true, .tracking = tracking_mode::automatic});
  });
  region tracked = m.map(dir / "third", {.create_length = mib, .tracking = tracking_mode::automatic});
  expect_error(errc::misaligned, {}, [&] { tracked.open_untracked(tracked.data() + 1, page); });
  expect_error(errc::partly_mapped, {}, [&] { tracked.open_untracked(tracked.data() + mib - page, 2 * page); });
}

}  // namespace
}  // namespace tenure::rvm
