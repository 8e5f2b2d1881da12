// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Many threads at once, with truncation and log writing in the background: each thread has words of its own, some are
// shared under a mutex. Meant for ThreadSanitizer, too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/drawn_limits.hpp"
#include "support/model.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm::testing {
namespace {

constexpr std::size_t page = 4096, pages = 64, threads = 6, accounts = 32;
constexpr std::uint64_t segment_length = pages * page;

// A word of a thread's own in every page: all threads write to all pages. Behind them the shared accounts.
constexpr std::size_t own_word(std::size_t thread, std::size_t in_page) { return in_page * page + thread * 8; }
constexpr std::size_t account(std::size_t n) { return n * 2 * page + 2048; }

// What a thread has committed, by its own account.
struct record {
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(pages);  // newest committed
  std::atomic<std::uint64_t> durable{0};                                 // newest acknowledged number
};

class crowd {
 public:
  crowd(os::disk& on, std::string directory, const thresholds& limits = {})
      : disk_(on), directory_(std::move(directory)), limits_(limits), records_(threads) {
    open();
  }

  void run(std::uint64_t rounds, const std::function<void()>& meanwhile) {
    std::vector<std::thread> all;
    std::atomic<std::size_t> running{threads};
    for (std::size_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        work(t, rounds);
        --running;
      });
    // Looks on, and asks for truncations of its own.
    std::uint64_t looks = 0;
    while (running != 0) {
      const auto s = memory_->stats();
      EXPECT_LE(s.log_used, s.log_size);
      (void)memory_->open_transactions();
      (void)memory_->last_commit();
      if (++looks % 64 == 0) (void)memory_->truncate_incrementally(20000);
      if (looks % 256 == 0) memory_->truncate();
      if (meanwhile) meanwhile();
      std::this_thread::yield();
    }
    for (auto& thread : all) thread.join();
  }

  // Everything was committed, and nothing else is in memory.
  void check_all() const {
    std::int64_t sum = 0;
    for (std::size_t n = 0; n < accounts; ++n) sum += static_cast<std::int64_t>(at(0, account(n)));
    EXPECT_EQ(sum, 0);
    for (std::size_t t = 0; t < threads; ++t)
      for (std::size_t p = 0; p < pages; ++p)
        for (std::size_t s = 0; s < 2; ++s)
          ASSERT_EQ(at(s, own_word(t, p)), records_[t].words[p])
              << "thread " << t << ", page " << p << ", segment " << s;
  }
  void flush() { memory_->flush(); }
  void reopen() {
    memory_->close();
    for (auto& r : regions_) r = {};
    memory_.reset();
    open();
  }
  [[nodiscard]] statistics stats() const { return memory_->stats(); }
  [[nodiscard]] std::vector<std::uint64_t> durable() const {
    std::vector<std::uint64_t> all;
    for (const auto& r : records_) all.push_back(r.durable.load());
    return all;
  }
  [[nodiscard]] layout where() const {
    layout l;
    l.log_path = directory_ + "/stress.log";
    l.segments = {{directory_ + "/a.seg", segment_length, false}, {directory_ + "/b.seg", segment_length, false}};
    l.log = {.size = 512 << 10, .max_size = 512 << 10};
    l.tune.truncation_threshold = 0.3;
    l.tune.spool_limit = 256 << 10;
    l.limits = limits_;
    return l;
  }

 private:
  void open() {
    const layout l = where();
    auto how = l.how(disk_);
    how.background = true;
    memory_.emplace(l.log_path, how);
    for (std::size_t s = 0; s < 2; ++s)
      regions_[s] = memory_->map(l.segments[s].path, {.create_length = segment_length});
  }
  std::uint64_t& at(std::size_t s, std::size_t offset) const { return regions_[s].at<std::uint64_t>(offset); }

  void work(std::size_t t, std::uint64_t rounds) {
    random_source random(t + 1);
    record& mine = records_[t];
    for (std::uint64_t n = 1; n <= rounds; ++n) {
      const auto dice = random.below(20);
      if (dice == 0) {
        transfer(random);
        continue;
      }
      const bool abort = dice == 1;
      auto tx = memory_->begin(!abort && dice < 8 ? restore_mode::no_restore : restore_mode::restore);
      std::vector<std::size_t> changed;
      for (std::uint64_t i = 0, count = 1 + random.below(4); i < count; ++i) {
        const std::size_t p = random.below(pages);
        // The same in both segments: a mixture would show.
        for (std::size_t s = 0; s < 2; ++s) tx.modify(at(s, own_word(t, p)), n);
        changed.push_back(p);
      }
      if (abort) {
        tx.abort();
        for (const auto p : changed) EXPECT_EQ(at(0, own_word(t, p)), mine.words[p]);
        continue;
      }
      const auto mode = dice < 6 ? commit_mode::flush : commit_mode::no_flush;
      const auto promise = tx.commit(mode);
      for (const auto p : changed) mine.words[p] = n;
      if (dice == 6) memory_->wait(promise);
      if (mode == commit_mode::flush || dice == 6) mine.durable.store(n);
      if (dice == 7 && random.one_in(8)) {
        memory_->flush();
        mine.durable.store(n);
      }
    }
  }
  // Between shared accounts. RVM does not isolate: the mutex is held until the commit has its place in the order.
  void transfer(random_source& random) {
    const std::scoped_lock lock(accounts_mutex_);
    auto tx = memory_->begin();
    auto& from = at(0, account(random.below(accounts)));
    auto& to = at(0, account(random.below(accounts)));
    tx.modify(from, from - 1);
    tx.modify(to, to + 1);
    if (random.one_in(4))
      tx.abort();
    else
      tx.commit(random.one_in(2) ? commit_mode::flush : commit_mode::no_flush);
  }

  os::disk& disk_;
  const std::string directory_;
  const thresholds limits_;
  std::vector<record> records_;
  std::mutex accounts_mutex_;
  std::optional<memory> memory_;
  region regions_[2];
};

// What a crash in the middle has left: of each thread's transactions a prefix, whole, not shorter than acknowledged.
void check_crashed(sim::disk& disk, const layout& of, const std::vector<std::uint64_t>& acknowledged) {
  const image found = recovered_image(disk, of);
  const auto word = [&](std::size_t s, std::size_t offset) {
    std::uint64_t value;
    std::memcpy(&value, found.data() + s * segment_length + offset, sizeof value);
    return value;
  };
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < accounts; ++n) sum += static_cast<std::int64_t>(word(0, account(n)));
  EXPECT_EQ(sum, 0);
  for (std::size_t t = 0; t < threads; ++t) {
    std::uint64_t newest = 0;
    for (std::size_t p = 0; p < pages; ++p) {
      EXPECT_EQ(word(0, own_word(t, p)), word(1, own_word(t, p))) << "thread " << t << ", page " << p;
      newest = std::max(newest, word(0, own_word(t, p)));
    }
    EXPECT_GE(newest, acknowledged[t]) << "thread " << t;
  }
}

TEST(stress, on_the_simulated_disk) {
  sim::disk disk;
  crowd all(disk, "/store");
  std::vector<std::pair<std::unique_ptr<sim::disk>, std::vector<std::uint64_t>>> crashed;
  std::uint64_t looks = 0;
  all.run(scaled(20000), [&] {
    if (++looks % 32 != 0 || crashed.size() >= 40) return;
    auto acknowledged = all.durable();  // before the crash: more may be durable, not less
    crashed.emplace_back(disk.crash(looks, looks % 64 == 0 ? sim::policy::drop_all : sim::policy::random),
                         std::move(acknowledged));
  });
  all.check_all();
  all.flush();
  const auto s = all.stats();
  EXPECT_GT(s.incremental_truncations + s.epoch_truncations, 0U);
  EXPECT_EQ(disk.weak_durable_writes(), 0U);
  {
    const auto last = disk.crash(1, sim::policy::drop_all);
    check_crashed(*last, all.where(), all.durable());
  }
  all.reopen();
  all.check_all();
  for (auto& [left, acknowledged] : crashed) check_crashed(*left, all.where(), acknowledged);
}

TEST(stress, with_drawn_limits) {
  for (std::uint64_t seed = 1; seed <= scaled(8); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random(seed);
    sim::disk disk;
    crowd all(disk, "/store", drawn_limits(random));
    all.run(scaled(1500), {});
    all.check_all();
    all.flush();
    check_crashed(*disk.crash(1, sim::policy::drop_all), all.where(), all.durable());
    all.reopen();
    all.check_all();
  }
}

TEST(stress, on_the_real_disk) {
  const support::temp_dir directory;
  crowd all(os::real_disk(), directory.path());
  all.run(scaled(2000), {});
  all.check_all();
  all.reopen();
  all.check_all();
}

// Threads that map and unmap regions of one segment while others commit to another.
TEST(stress, mapping_while_committing) {
  sim::disk disk;
  layout where;
  where.segments = {{"/store/a.seg", segment_length, false}, {"/store/b.seg", segment_length, false}};
  where.log = {.size = 128 << 10, .max_size = 128 << 10};
  auto how = where.how(disk);
  how.background = true;
  memory m(where.log_path, how);
  auto a = m.map(where.segments[0].path, {.create_length = segment_length});
  m.create_segment(where.segments[1].path, {.length = segment_length});
  const std::uint64_t rounds = scaled(500);
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < 4; ++t)
    all.emplace_back([&, t] {
      for (std::uint64_t n = 1; n <= rounds; ++n) {
        if (t < 2) {
          m.transact(
              [&](transaction& tx) {
                for (std::size_t p = 0; p < 4; ++p) tx.modify(a.at<std::uint64_t>(own_word(t, (n + p) % pages)), n);
              },
              n % 3 == 0 ? commit_mode::flush : commit_mode::no_flush);
        } else {
          auto mine =
              m.map(where.segments[1].path, {.offset = (t - 2) * segment_length / 2, .length = segment_length / 2});
          EXPECT_EQ(mine.at<std::uint64_t>(0), n - 1);
          m.transact([&](transaction& tx) { tx.modify(mine.at<std::uint64_t>(0), n); },
                     n % 2 == 0 ? commit_mode::flush : commit_mode::no_flush);
          mine.unmap();
        }
      }
    });
  for (auto& thread : all) thread.join();
  m.flush();
  const auto found = recovered_image(*disk.crash(1, sim::policy::drop_all), where);
  EXPECT_EQ(std::memcmp(found.data(), a.data(), segment_length), 0);
  for (const std::size_t half : {0U, 1U}) {
    std::uint64_t value;
    std::memcpy(&value, found.data() + segment_length + half * segment_length / 2, sizeof value);
    EXPECT_EQ(value, rounds);
  }
}

}  // namespace
}  // namespace tenure::rvm::testing
