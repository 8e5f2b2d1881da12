// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Two-phase commit: crashes anywhere, with a coordinator that remembers.
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/rvm.hpp>

#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::small_log, support::kib, support::mib;

// Somebody else decides, and remembers what it has decided. What it has decided to commit is there after each crash.
class two_phases {
 public:
  explicit two_phases(std::uint64_t seed) : random_(seed), automatic_(seed % 3 == 0), archived_(seed % 4 == 0) {}

  void run() {
    options how = small_log(disk_.get());
    how.background = false;
    how.log.size = 64 * kib;
    how.tune.truncation_threshold = draw(2) == 0 ? 0.1 : 0.9;
    if (archived_) how.archive = archive_options{};
    how.in_doubt = [&](const prepared_transaction& what) {
      EXPECT_FALSE(aborted_.contains(what.global_id)) << what.global_id << " was aborted";
      if (what.global_id == prepared_) must_be_in_doubt_ = false;
      ++asked_;
      return committed_.contains(what.global_id) ? outcome::committed : outcome::aborted;
    };
    memory m("/log", how);
    region r = m.map("/segment", {.create_length = 16 * kib,
                                  .tracking = automatic_ ? tracking_mode::automatic : tracking_mode::explicit_ranges});
    EXPECT_FALSE(must_be_in_doubt_) << prepared_ << " is gone";
    if (may_commit_ && r_is(r, next_)) now_ = next_;
    EXPECT_TRUE(r_is(r, now_)) << "after " << prepared_;
    may_commit_ = false;
    for (int n = 0; n < 12; ++n) change(m, r);
    r.unmap();
    m.close();
  }
  void crash_at(std::uint64_t operation) {
    const std::uint64_t off = disk_->operations() + operation;
    disk_->crash_at(off);
    try {
      run();
    } catch (const sim::power_failure&) {
    } catch (const error& e) {  // of an abort that could not be logged
      EXPECT_EQ(e.code(), errc::outcome_unknown) << e.what();
      EXPECT_GE(disk_->operations(), off) << e.what();
    }
    disk_ = disk_->crash(operation, draw(2) == 0 ? sim::policy::random : sim::policy::drop_all);
  }
  [[nodiscard]] int asked() const { return asked_; }
  [[nodiscard]] int truncated() const { return truncated_; }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

 private:
  using bytes = std::vector<char>;
  static bool r_is(const region& r, const bytes& expected) {
    return std::memcmp(r.data(), expected.data(), expected.size()) == 0;
  }
  void change(memory& m, region& r) {
    transaction tx = automatic_ ? m.begin_automatic() : m.begin();
    next_ = now_;
    for (std::uint64_t n = 1 + draw(5); n != 0; --n) {
      const std::uint64_t most = draw(3) == 0 ? 5000 : 200, length = 1 + draw(most), at = draw(next_.size() - length);
      const char with = static_cast<char>(random_());
      std::fill_n(next_.begin() + static_cast<std::ptrdiff_t>(at), length, with);
      if (!automatic_) tx.set_range(r.data() + at, length);
      std::memset(r.data() + at, with, length);
    }
    if (draw(4) == 0) {  // in one phase
      may_commit_ = true;
      tx.commit();
      now_ = next_;
      may_commit_ = false;
      return;
    }
    prepared_ = "tx/" + std::to_string(++number_);
    tx.prepare(prepared_);
    must_be_in_doubt_ = next_ != now_;  // otherwise nothing may be prepared
    if (draw(3) == 0) {
      m.truncate();
      ++truncated_;
    }
    if (draw(3) == 0) {
      must_be_in_doubt_ = false;
      tx.abort();
      m.require_usable();
      aborted_.insert(prepared_);
      return;
    }
    committed_.insert(prepared_);
    now_ = next_;
    must_be_in_doubt_ = false;
    tx.commit(draw(3) == 0 ? commit_mode::flush : commit_mode::no_flush);
    if (draw(3) == 0) (void)m.truncate_incrementally(mib);
    if (draw(8) == 0) m.truncate();
  }

  std::mt19937_64 random_;
  const bool automatic_, archived_;
  std::unique_ptr<sim::disk> disk_ = std::make_unique<sim::disk>();
  bytes now_ = bytes(16 * kib), next_ = now_;
  std::string prepared_;
  std::set<std::string> committed_, aborted_;  // what was decided; an abort that was not logged is not among these
  int number_ = 0, asked_ = 0, truncated_ = 0;
  bool must_be_in_doubt_ = false, may_commit_ = false;
};

TEST(prepared_model, a_crash_anywhere) {
  int asked = 0, truncated = 0;
  for (std::uint64_t seed = 1; seed <= testing::scaled(60); ++seed) {
    two_phases work(seed);
    for (int round = 0; round < 12; ++round) {
      work.crash_at(1 + work.draw(round == 0 ? 300 : 60));
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", round " << round;
        return;
      }
    }
    asked += work.asked();
    truncated += work.truncated();
  }
  EXPECT_GT(asked, 0);
  EXPECT_GT(truncated, 0);
  std::printf("%d transactions were in doubt; %d times the log was truncated meanwhile\n", asked, truncated);
}

}  // namespace
}  // namespace tenure::rvm
