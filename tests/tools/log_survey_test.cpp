// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Looking at logs that change while they are looked at.
#include "log_survey.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "sim/disk.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using namespace rvm;

// A disk for reading, on which something happens before a read of the log's bytes.
class eventful_disk final : public os::disk {
 public:
  // `event` comes before the nth read of the log's bytes.
  eventful_disk(os::disk& on, int nth, std::function<void()> event) : on_(on), left_(nth), event_(std::move(event)) {}

  std::unique_ptr<os::file> open(const std::string& path, os::access how) override {
    return std::make_unique<eventful_file>(*this, on_.open(path, how));
  }
  bool exists(const std::string& path) override { return on_.exists(path); }
  std::unique_ptr<os::file> create(const std::string&, unsigned) override { throw std::logic_error("create"); }
  std::string behind_links(const std::string& path) override { return on_.behind_links(path); }
  void rename(const std::string&, const std::string&) override { throw std::logic_error("rename"); }
  void rename_to_new(const std::string&, const std::string&) override { throw std::logic_error("rename"); }
  void remove(const std::string&) override { throw std::logic_error("remove"); }
  void make_directory(const std::string&) override { throw std::logic_error("make_directory"); }
  std::vector<std::string> names_in(const std::string&) override { throw std::logic_error("names_in"); }
  void sync_directory_of(const std::string&) override { throw std::logic_error("sync"); }
  [[nodiscard]] bool has_happened() const { return left_ <= 0; }

 private:
  class eventful_file final : public os::file {
   public:
    eventful_file(eventful_disk& of, std::unique_ptr<os::file> on) : of_(of), file_(std::move(on)) {}
    const std::string& path() const override { return file_->path(); }
    bool is_device() const override { return file_->is_device(); }
    os::file_id id() const override { return file_->id(); }
    std::uint64_t size() const override { return file_->size(); }
    std::uint32_t block_size() const override { return file_->block_size(); }
    std::size_t read_at(std::uint64_t offset, os::bytes into) override {
      if (file_->path().starts_with("/d/log.") && offset >= log_file_data && --of_.left_ == 0) of_.event_();
      return file_->read_at(offset, into);
    }
    bool is_current() const override { return file_->is_current(); }
    void renamed(const std::string&) override { throw std::logic_error("rename"); }
    void sync_name() override { throw std::logic_error("sync"); }
    void write_at(std::uint64_t, os::const_bytes) override { throw std::logic_error("write"); }
    void write_all_at(std::uint64_t, std::span<const os::const_bytes>) override { throw std::logic_error("write"); }
    void write_durably_at(std::uint64_t, std::span<const os::const_bytes>) override { throw std::logic_error("write"); }
    void sync() override { throw std::logic_error("sync"); }
    void resize(std::uint64_t) override { throw std::logic_error("resize"); }
    void allocate(std::uint64_t, std::uint64_t) override { throw std::logic_error("allocate"); }
    bool punch(std::uint64_t, std::uint64_t) override { throw std::logic_error("punch"); }
    bool try_lock(os::lock_kind) override { throw std::logic_error("lock"); }
    void* map_private(void*, std::uint64_t, std::size_t, os::access) override { throw std::logic_error("map"); }
    void map_private_over(void*, std::uint64_t, std::size_t, os::access) override { throw std::logic_error("map"); }

   private:
    eventful_disk& of_;
    std::unique_ptr<os::file> file_;
  };

  os::disk& on_;
  int left_;
  std::function<void()> event_;
};

// A log of 16 blocks. Its head is at block 12 and its tail at block 14, so that looking at it takes two reads: blocks 12
// to 15, and 0 to 11. Every commit takes a block.
class log_survey : public ::testing::Test {
 protected:
  log_survey() {
    commit(12);
    m.truncate();
    commit(2);
  }
  options how() {
    options o = small_log(&disk);
    o.log.size = o.log.max_size = 64 * kib;
    o.tune.truncation_threshold = 2;
    return o;
  }
  void commit(int times) {
    while (times-- > 0) put(m, r, 0, "x");
  }
  survey look(os::disk& on) {
    seen.clear();
    survey found = survey_log(on, "/d/log", [&](const group_view& group, os::const_bytes) {
      for (const auto& tx : group.transactions()) seen.push_back(tx.id);
      return true;
    });
    for (const damage& d : found.damaged) ADD_FAILURE() << d.from << " to " << d.to << ": " << d.reason;
    EXPECT_EQ(found.torn_groups, 0u);
    return found;
  }
  using ids = std::vector<std::uint64_t>;

  sim::disk disk{4096};
  memory m{"/d/log", how()};
  region r = m.map("/d/seg", {.create_length = 4 * kib});
  ids seen;
};

TEST_F(log_survey, around_the_end_of_the_area) {
  look(disk);
  EXPECT_EQ(seen, (ids{13, 14}));
  commit(5);
  const survey found = look(disk);
  EXPECT_EQ(seen, (ids{13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(found.groups, 7u);
  EXPECT_EQ(found.batches, 7u);
  EXPECT_EQ(found.tail - found.head, 7u * 4096);
  EXPECT_EQ(found.last_group, found.tail - 4096);
}

// [rvm.prepared.log] The head is in the middle of a batch then.
TEST_F(log_survey, a_transaction_is_prepared) {
  for (const rvm::outcome said : {rvm::outcome::aborted, rvm::outcome::committed}) {
    put(m, r, 0, "lazy", rvm::commit_mode::no_flush);
    rvm::transaction tx = m.begin();
    tx.modify(r.data(), "x", 1);
    tx.prepare("one");
    EXPECT_EQ(look(disk).groups, 4u);
    m.truncate();
    const survey found = look(disk);
    EXPECT_EQ(found.groups, 1u);
    EXPECT_EQ(found.last_group, found.head);
    EXPECT_TRUE(seen.empty());
    const auto copy = disk.crash(1, sim::policy::keep_all);
    EXPECT_EQ(look(*copy).groups, 1u);
    options again = how();
    again.disk = copy.get();
    again.in_doubt = [said](const rvm::prepared_transaction&) { return said; };
    const rvm::memory opened("/d/log", again);
    look(*copy);
    tx.abort();
    look(disk);
    m.truncate();
    commit(2);
  }
}

// What is prepared is of an older opening then.
TEST_F(log_survey, a_prepared_transaction_is_committed_by_an_opening) {
  put(m, r, 0, "lazy", rvm::commit_mode::no_flush);
  rvm::transaction tx = m.begin();
  tx.modify(r.data(), "x", 1);
  tx.prepare("one");
  const auto left = disk.crash(1, sim::policy::keep_all);
  for (std::uint64_t operation = 1; operation < 40; ++operation) {
    const auto copy = left->crash(1, sim::policy::keep_all);
    options again = how();
    again.disk = copy.get();
    again.in_doubt = [](const rvm::prepared_transaction&) { return rvm::outcome::committed; };
    copy->crash_at(copy->operations() + operation);
    try {
      const rvm::memory opened("/d/log", again);
    } catch (const sim::power_failure&) {
    }
    look(*copy->crash(1, sim::policy::keep_all));
  }
}

// Blocks 14 and 15 were read before they were written, and those behind them after.
TEST_F(log_survey, tail_that_grows) {
  eventful_disk on(disk, 2, [&] { commit(5); });
  look(on);
  EXPECT_TRUE(on.has_happened());
  EXPECT_EQ(seen, (ids{13, 14, 15, 16, 17, 18, 19}));
}

// And overwritten in the next lap before they could be read again.
TEST_F(log_survey, head_that_moves_on) {
  eventful_disk on(disk, 2, [&] {
    commit(4);  // blocks 14, 15, 0, 1
    m.truncate();
    commit(14);  // blocks 2 to 15
  });
  look(on);
  EXPECT_TRUE(on.has_happened());
  EXPECT_EQ(seen, (ids{13, 14, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}));
}

TEST_F(log_survey, stops_when_told) {
  commit(3);
  int groups = 0;
  const survey found = survey_log(disk, "/d/log", [&](const group_view&, os::const_bytes) { return ++groups < 2; });
  EXPECT_EQ(groups, 2);
  EXPECT_EQ(found.groups, 2u);
}

// What an earlier torn batch has left behind the tail is nothing to be told.
TEST(log_survey_torn, left_overs_of_an_earlier_opening) {
  sim::disk disk;
  options how = small_log(&disk);
  how.log.size = 16 * mib;
  how.background = false;  // a file that is made meanwhile makes the manifest say how long the log is
  std::unique_ptr<sim::disk> left;
  {
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 4 * mib});
    m.transact([&](transaction& tx) { tx.set_range(r.data(), 4 * mib); });
    left = disk.crash(1, sim::policy::drop_all);
  }
  const std::vector<std::byte> nothing(4096);
  left->poke("/d/log.1", log_file_data, nothing);  // the first group did not reach the disk
  const auto all = [](const group_view&, os::const_bytes) { return true; };
  EXPECT_GE(survey_log(*left, "/d/log", all).torn_groups, 3u);
  how.disk = left.get();
  memory m("/d/log", how);
  EXPECT_FALSE(m.recovery().needed);
  survey found = survey_log(*left, "/d/log", all);
  EXPECT_EQ(found.torn_groups, 0u);
  EXPECT_TRUE(found.damaged.empty());
  region r = m.map("/d/seg");
  put(m, r, 0, "over it");
  found = survey_log(*left, "/d/log", all);
  EXPECT_EQ(found.groups, 1u);
  EXPECT_EQ(found.torn_groups, 0u);
  EXPECT_TRUE(found.damaged.empty());
}

// A log that is written to while it is read: never damaged, and what is shown is in order.
TEST(log_survey_live, follows_a_live_log) {
  temp_dir dir;
  options how = small_log();
  how.log.size = 256 * kib;
  memory m(dir / "log", how);
  region r = m.map(dir / "seg", {.create_length = 64 * kib});
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    for (std::size_t i = 0; !stop; ++i)
      put(m, r, i * 4096 % (64 * kib), std::string(1 + i * 397 % 3000, 'x'),
          i % 8 == 7 ? commit_mode::flush : commit_mode::no_flush);
  });
  for (int i = 0; i < 50; ++i) {
    lsn last = 0;
    const survey found = survey_log(os::real_disk(), dir / "log", [&](const group_view& group, os::const_bytes) {
      EXPECT_GT(group.header().lsn, last);
      last = group.header().lsn;
      return true;
    });
    for (const damage& d : found.damaged) ADD_FAILURE() << d.from << " to " << d.to << ": " << d.reason;
  }
  stop = true;
}

}  // namespace
}  // namespace tenure::tools
