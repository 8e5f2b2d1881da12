// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatically tracked regions that grow, with each kind of fresh space and each mechanism.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "os/virtual_memory.hpp"
#include "support/mechanisms.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using support::mib, support::page;

struct tracking_growth : ::testing::TestWithParam<std::tuple<tracking_mechanism, fresh_space>> {
  support::temp_dir dir;
  std::optional<memory> m;
  region r;
  std::vector<std::uint64_t> model;  // the first word of each page
  std::mt19937_64 random{1};

  void open() {
    r = {};
    m.reset();
    rvm::options how = support::small_log();
    how.log.size = 8 * mib;
    m.emplace(dir / "log", how);
    if (!std::filesystem::exists(dir / "segment"))
      m->create_segment(dir / "segment", {.length = 8 * mib, .max_length = 64 * mib});
    const auto [mechanism, fresh] = GetParam();
    r = m->map(dir / "segment",
               {.reserve = true, .fresh = fresh, .tracking = tracking_mode::automatic, .force_mechanism = mechanism});
    model.resize(r.size() / page);
  }
  [[nodiscard]] std::uint64_t& word(std::size_t number) const { return r.at<std::uint64_t>(number * page); }
  // Writes to so many pages, anywhere.
  void transact(std::size_t pages, bool commit = true) {
    transaction tx = m->begin_automatic();
    for (std::size_t i = 0; i < pages; ++i) {
      const std::size_t at = random() % model.size();
      const std::uint64_t value = random();
      if (std::get<0>(GetParam()) == tracking_mechanism::announced) tx.set_range(&word(at), 8);
      word(at) = value;
      if (commit) model[at] = value;
    }
    if (commit)
      tx.commit(commit_mode::no_flush);
    else
      tx.abort();
  }
  void grow(std::size_t bytes) {
    m->grow_segment(dir / "segment", r.size() + bytes);
    model.resize(r.size() / page);
  }
  void check() const {
    for (std::size_t i = 0; i < model.size(); ++i)
      ASSERT_EQ(word(i), model[i]) << "page " << i << " of " << model.size();
  }
};

// The kernel's notes are of a mapping, which growth makes longer while they are kept, used or not.
TEST_P(tracking_growth, nothing_is_missed) {
  open();
  for (int round = 0; round < 3; ++round) {
    transact(2000);                            // enough to let the kernel keep notes
    for (int i = 0; i < 50; ++i) transact(0);  // and not to
    grow((round % 2 == 0 ? 3 : 2) * mib + 5 * page);
    transact(3000);
    transact(1500, false);
    check();
    m->truncate();
    transact(1);
    check();
  }
  if (std::get<0>(GetParam()) == tracking_mechanism::choose && os::knows_private_copies()) {
    EXPECT_GT(m->stats().tracking.whole_openings, 1U) << "the kernel's notes were never taken up again";
  }
  open();
  check();
}

// Otherwise everything that was ever written is compared in each transaction, from the first growth on.
TEST_P(tracking_growth, the_kernel_goes_on_with_its_notes) {
  if (std::get<0>(GetParam()) != tracking_mechanism::scan) GTEST_SKIP() << "of the kernel's notes only";
  open();
  transact(1000);
  if (m->stats().tracking.scans == 0) GTEST_SKIP() << "not on this kernel";
  for (int i = 0; i < 4; ++i) {
    grow((1 + i) * mib);
    transact(10);
    const tracking_statistics before = m->stats().tracking;
    transact(10);
    const tracking_statistics now = m->stats().tracking;
    EXPECT_GT(now.scans, before.scans);
    EXPECT_EQ(now.private_scans, 0u);
    EXPECT_LE(now.compared_pages - before.compared_pages, 40u);
    check();
  }
}

TEST_P(tracking_growth, random_programs) {
  open();
  const int steps = static_cast<int>(testing::scaled(60));
  for (int i = 0; i < steps; ++i) {
    switch (random() % 8) {
      case 0:
        if (r.size() < 48 * mib) grow((1 + random() % 300) * page);
        break;
      case 1: m->truncate(); break;
      case 2: transact(random() % 2000, false); break;
      case 3: transact(random() % 4000); break;
      default: transact(random() % 20, random() % 4 != 0);
    }
    if (i % 10 == 0) check();
    if (i == steps / 2) open();
  }
  check();
  open();
  check();
}

// What has been truncated is the file's memory again, in extents of 2 MiB; no sooner, and not while something of it is not
// in the file.
TEST_P(tracking_growth, fresh_space_becomes_the_files) {
  const tracking_mechanism mechanism = std::get<0>(GetParam());
  const fresh_space fresh = std::get<1>(GetParam());
  open();
  grow(5 * mib);
  const std::size_t new_pages = 5 * mib / page;
  const auto anonymous = [&] { return m->stats().tracking.anonymous_pages; };
  const auto write_all = [&](std::size_t from, std::size_t to) {
    transaction tx = m->begin_automatic();
    for (std::size_t at = from; at < to; ++at) {
      if (mechanism == tracking_mechanism::announced) tx.set_range(&word(at), 8);
      word(at) = model[at] = at + 1;
    }
    tx.commit();
  };
  const std::size_t first = 8 * mib / page;
  ASSERT_EQ(model.size(), first + new_pages);
  EXPECT_EQ(anonymous(), fresh == fresh_space::file ? 0 : new_pages);
  write_all(first, first + 2 * mib / page);
  EXPECT_EQ(anonymous(), fresh == fresh_space::file ? 0 : new_pages);
  m->truncate();
  transact(0);
  check();
  // Which pages are closed is a matter of the mechanism: where none is, nothing can go.
  const bool are_closed = mechanism == tracking_mechanism::traps || mechanism == tracking_mechanism::growing_runs ||
                          mechanism == tracking_mechanism::announced;
  if (fresh != fresh_space::file && are_closed) {
    EXPECT_EQ(anonymous(), new_pages - 2 * mib / page);
    std::size_t copies = 0;
    os::for_each_private_copy(r.data() + first * page, 2 * mib, [&](os::page_run run) { copies += run.length; });
    if (os::knows_private_copies()) {
      EXPECT_EQ(copies, 0U);
    }
  }
  write_all(first + 1, first + 3);
  transact(500);
  transact(500, false);
  check();
  open();
  check();
  EXPECT_EQ(anonymous(), 0U);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<tracking_mechanism, fresh_space>>& of) {
  const fresh_space fresh = std::get<1>(of.param);
  return support::mechanism_name({std::get<0>(of.param), 0}) + (fresh == fresh_space::file        ? "_file"
                                                                : fresh == fresh_space::anonymous ? "_anonymous"
                                                                                                  : "_huge_pages");
}
INSTANTIATE_TEST_SUITE_P(all, tracking_growth,
                         ::testing::Combine(support::every_mechanism,
                                            ::testing::Values(fresh_space::file, fresh_space::anonymous,
                                                              fresh_space::huge_pages)),
                         name_of);

}  // namespace
}  // namespace tenure::rvm
