// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The classic interface on a disk that loses power: what is found then is exactly what some prefix of the committed
// transactions made, no shorter than what was acknowledged as flushed.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "classic/library.hpp"
#include "classic/scenario.hpp"
#include "sim/disk.hpp"

namespace tenure::classic {
namespace {

constexpr std::size_t words = 4096, page = 4096;
constexpr int transactions = 60;
using image = std::vector<std::uint64_t>;

// A program written for the interface, and what it knows.
class program {
 public:
  explicit program(sim::disk& disk) { the_library().disk = &disk; }

  // Until it is done, or the first call fails.
  void run() {
    states_.emplace_back(words);
    rvm_options_t options;
    rvm_init_options(&options);
    std::string log = "/d/log", segment = "/d/seg";
    options.log_dev = log.data();
    options.create_log_file = rvm_true;
    options.create_log_size = {0, 64 * 1024};
    options.create_log_mode = 0600;
    options.truncate = 50;
    if (RVM_INIT(&options) != RVM_SUCCESS) return;
    rvm_region_t region;
    rvm_init_region(&region);
    region.data_dev = segment.data();
    if (rvm_map(&region, nullptr) != RVM_SUCCESS) return;
    auto* const data = reinterpret_cast<std::uint64_t*>(region.vmaddr);
    for (int i = 1; i <= transactions; ++i)
      if (!transact(data, static_cast<std::uint64_t>(i))) return;
    if (rvm_truncate() != RVM_SUCCESS) return;
    if (rvm_unmap(&region) != RVM_SUCCESS || rvm_terminate() != RVM_SUCCESS) return;
    acknowledged_ = states_.size() - 1;
    done_ = true;
  }
  [[nodiscard]] bool is_done() const { return done_; }

  void judge(sim::disk& left) const {
    if (!left.exists("/d/log")) {
      EXPECT_EQ(acknowledged_, 0u);
      return;
    }
    rvm::options how;
    how.disk = &left;
    how.background = false;
    rvm::memory memory("/d/log", how);
    const rvm::region found = memory.map("/d/seg", {.raw = true});
    const auto is = [&](const image& state) { return std::memcmp(found.data(), state.data(), words * 8) == 0; };
    const auto first = states_.begin() + static_cast<std::ptrdiff_t>(acknowledged_);
    EXPECT_TRUE(std::any_of(first, states_.end(), is))
        << "of " << states_.size() - 1 << " transactions " << acknowledged_ << " were acknowledged";
  }

 private:
  bool transact(std::uint64_t* data, std::uint64_t i) {
    rvm_tid_t tid;
    rvm_init_tid(&tid);
    const bool gives_up = random_() % 5 == 0, lazy = random_() % 2 == 0;
    if (rvm_begin_transaction(&tid, restore) != RVM_SUCCESS) return false;
    image next = states_.back();
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = random_() % (words - 40), count = 1 + random_() % 40;
      if (rvm_set_range(&tid, data + at, count * 8) != RVM_SUCCESS) return false;
      for (std::size_t w = at; w < at + count; ++w) data[w] = next[w] = i * 1000 + w;
    }
    if (gives_up) return rvm_abort_transaction(&tid) == RVM_SUCCESS;
    states_.push_back(std::move(next));  // from here on it may be found
    if (rvm_end_transaction(&tid, lazy ? no_flush : flush) != RVM_SUCCESS) return false;
    if (!lazy) acknowledged_ = states_.size() - 1;
    if (i % 13 != 0) return true;
    if (rvm_flush() != RVM_SUCCESS) return false;
    acknowledged_ = states_.size() - 1;
    return true;
  }

  std::mt19937 random_{1};
  std::vector<image> states_;  // after each committed transaction
  std::size_t acknowledged_ = 0;
  bool done_ = false;
};

std::unique_ptr<sim::disk> disk_with_segment() {
  auto disk = std::make_unique<sim::disk>(512);
  disk->install("/d/seg", std::vector<std::byte>(words * 8));
  return disk;
}

TEST(classic_crash, at_every_operation) {
  bool done = false;
  std::uint64_t crashes = 0;
  for (std::uint64_t n = 1; !done && !::testing::Test::HasFailure(); n += 1 + n / 40) {
    support::child_process child([&] {
      const auto disk = disk_with_segment();
      disk->crash_at(n, n % 3);
      program user(*disk);
      user.run();
      for (const auto what : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all})
        user.judge(*disk->crash(n, what));
      return ::testing::Test::HasFailure() ? 1 : user.is_done() ? 2 : 0;
    });
    const auto end = child.wait();
    done = end.exited_with(2);
    EXPECT_TRUE(done || end.exited_with(0)) << "operation " << n << ": " << end.output;
    ++crashes;
  }
  EXPECT_GT(crashes, 30u);
}

TEST(classic_crash, calls_that_fail_return_codes_and_lose_nothing) {
  for (const auto kind : {sim::operation::durable_write, sim::operation::write, sim::operation::sync}) {
    for (std::uint64_t nth = 1; nth < 40 && !::testing::Test::HasFailure(); nth += 1 + nth / 8) {
      support::child_process child([&] {
        const auto disk = disk_with_segment();
        disk->inject({.kind = kind, .nth = nth, .error = EIO});
        program user(*disk);
        user.run();  // a call returns a code, or the library got by
        user.judge(*disk->crash(nth, sim::policy::drop_all));
        return ::testing::Test::HasFailure() ? 1 : 0;
      });
      const auto end = child.wait();
      EXPECT_TRUE(end.exited_with(0)) << sim::name_of(kind) << " " << nth << ": " << end.output;
    }
  }
}

}  // namespace
}  // namespace tenure::classic
