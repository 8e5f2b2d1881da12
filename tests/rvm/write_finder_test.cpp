// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What each mechanism that finds writes must do, whatever it costs: the conformance suite of write_finder.
#include "regions/write_finder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "log/counters.hpp"
#include "os/fault.hpp"
#include "os/file.hpp"
#include "os/virtual_memory.hpp"
#include "records/thresholds.hpp"
#include "regions/hot_pages.hpp"
#include "regions/kernel_notes.hpp"
#include "regions/page_traps.hpp"
#include "regions/private_scan.hpp"
#include "support/model.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

constexpr page_number count = 200;

// Mapped memory of a file, with one mechanism.
class tracked_memory final : public os::write_trap {
 public:
  enum class mechanism { single_traps, growing_traps, notes, copies };

  explicit tracked_memory(mechanism which) : how(which) {
    file_->resize(bytes_);
    explained_ = os::fault_range(base_, bytes_, "file", 0, this);
    const auto runs = which == mechanism::growing_traps ? page_traps::run_rule::growing : page_traps::run_rule::single;
    traps.emplace(pages, hot, resting, runs, counted_, limits_);
    if (which == mechanism::notes)
      other_ = std::make_unique<kernel_notes>(pages, counted_);
    else if (which == mechanism::copies)
      other_ = std::make_unique<private_scan>(pages, counted_);
  }
  ~tracked_memory() {
    other_.reset();
    explained_ = {};
    os::unmap(base_, bytes_);
  }
  tracked_memory(const tracked_memory&) = delete;
  tracked_memory& operator=(const tracked_memory&) = delete;

  [[nodiscard]] write_finder& finder() { return other_ != nullptr ? *other_ : *traps; }
  answer on_write(std::byte* at) noexcept override {
    const protection_guard lock(pages.protection);
    const page_number page = pages.page_of(at);
    return pages[page].open || finder().on_write(lock, page) ? answer::resume : answer::stray;
  }
  // As write_finders does it. False if this system does not have the mechanism.
  [[nodiscard]] bool start() {
    const protection_guard lock(pages.protection);
    if (!finder().start(lock)) return false;
    return finder().closes_pages() || os::protect(base_, bytes_, os::access::read_write) == 0;
  }
  void write(page_number page) { pages.range_of(page).address[page % pages.page_size] ^= std::byte{1}; }
  [[nodiscard]] std::set<page_number> find() {
    std::vector<page_number> found;
    EXPECT_TRUE(finder().find(found));
    return {found.begin(), found.end()};
  }
  // A transaction ends, after find().
  void end() {
    const protection_guard lock(pages.protection);
    finder().compared();
    if (finder().closes_pages()) {
      EXPECT_TRUE(traps->close_compared(lock, {}, {}));
      traps->check();
      traps->begin();
    }
  }

 private:
  support::temp_dir dir_;
  std::unique_ptr<os::file> file_ = os::real_disk().create(dir_ / "file", 0600);
  const std::size_t bytes_ = count * os::page_size();
  std::byte* const base_ = static_cast<std::byte*>(file_->map_private(nullptr, 0, bytes_, os::access::read_write));
  const thresholds limits_;
  counters::tracking_part counted_;
  os::fault_range explained_;
  std::unique_ptr<write_finder> other_;

 public:
  const mechanism how;
  tracked_pages pages{base_, bytes_, bytes_};
  hot_pages hot{pages, hot_pages::rule::none, limits_};
  resting_pages resting{pages, write_barriers::none, limits_};
  std::optional<page_traps> traps;
};

struct write_finders_conform : ::testing::TestWithParam<tracked_memory::mechanism> {
  void SetUp() override {
    if (!memory.start()) GTEST_SKIP() << "this system does not have the mechanism";
  }
  tracked_memory memory{GetParam()};
};

bool contains_all(const std::set<page_number>& found, const std::set<page_number>& written) {
  return std::ranges::includes(found, written);
}

// [rvm.tracking.candidates]
TEST_P(write_finders_conform, every_written_page_is_found) {
  testing::random_source random(1);
  for (int transaction = 0; transaction < 100; ++transaction) {
    std::set<page_number> written;
    for (std::uint64_t n = random.below(30); n-- > 0;) {
      const auto page = static_cast<page_number>(random.below(count));
      memory.write(page);
      written.insert(page);
    }
    EXPECT_TRUE(contains_all(memory.find(), written));
    memory.end();
  }
}

TEST_P(write_finders_conform, writes_of_other_threads_are_found) {
  std::set<page_number> written;
  for (int transaction = 0; transaction < 20; ++transaction) {
    const auto write_some = [&](page_number first) {
      for (page_number page = first; page < count; page += 10) memory.write(page);
    };
    std::thread one(write_some, transaction % 10), other(write_some, (transaction + 3) % 10);
    one.join();
    other.join();
    written.clear();
    for (page_number page = transaction % 10; page < count; page += 10) written.insert(page);
    for (page_number page = (transaction + 3) % 10; page < count; page += 10) written.insert(page);
    EXPECT_TRUE(contains_all(memory.find(), written));
    memory.end();
  }
}

// A commit that fails is repeated.
TEST_P(write_finders_conform, what_was_found_is_found_until_it_is_compared) {
  memory.write(3);
  EXPECT_TRUE(memory.find().contains(3));
  memory.write(7);
  EXPECT_TRUE(contains_all(memory.find(), {3, 7}));
  EXPECT_TRUE(contains_all(memory.find(), {3, 7}));
  memory.end();
  memory.write(3);
  EXPECT_TRUE(memory.find().contains(3));
}

// Nothing is missed that is written between the two.
TEST_P(write_finders_conform, a_write_after_the_search_is_found_by_the_next) {
  memory.write(5);
  (void)memory.find();
  memory.write(6);
  memory.end();
  EXPECT_TRUE(memory.find().contains(6));
}

TEST_P(write_finders_conform, announced_pages_are_found_if_they_are_written) {
  {
    const protection_guard lock(memory.pages.protection);
    EXPECT_TRUE(memory.finder().announce(lock, 20, 10));
  }
  for (page_number page = 20; page < 30; ++page) memory.write(page);
  EXPECT_TRUE(contains_all(memory.find(), {20, 21, 22, 23, 24, 25, 26, 27, 28, 29}));
}

TEST_P(write_finders_conform, can_be_started_again) {
  for (int i = 0; i < 3; ++i) {
    memory.write(9);
    (void)memory.find();
    memory.end();
    memory.finder().stop();
    ASSERT_TRUE(memory.start());
    memory.write(11);
    EXPECT_TRUE(memory.find().contains(11));
    memory.end();
  }
}

TEST_P(write_finders_conform, costs_grow_with_what_is_to_be_done) {
  const write_finder& finder = memory.finder();
  EXPECT_LE(finder.cost_to_start(1'000), finder.cost_to_start(10'000));
  EXPECT_LE(finder.cost(1'000, 10), finder.cost(10'000, 10));
  EXPECT_LE(finder.cost(1'000, 10), finder.cost(1'000, 100));
  EXPECT_LT(finder.cost(1'000, 10), finder.cost(10'000, 100));
}

constexpr std::array mechanisms = {tracked_memory::mechanism::single_traps, tracked_memory::mechanism::growing_traps,
                                   tracked_memory::mechanism::notes, tracked_memory::mechanism::copies};
constexpr std::array names = {"single_traps", "growing_traps", "kernel_notes", "private_scan"};

INSTANTIATE_TEST_SUITE_P(each, write_finders_conform, ::testing::ValuesIn(mechanisms),
                         [](const auto& of) { return names.at(static_cast<std::size_t>(of.param)); });

// A page that is written in two transactions stays open, until many leave it alone.
TEST(hot_pages, are_written_again_and_again) {
  const thresholds limits;
  std::vector<std::byte> bytes(8 * os::page_size());
  tracked_pages pages(bytes.data(), bytes.size(), bytes.size());
  hot_pages hot(pages, hot_pages::rule::written_twice, limits);
  std::uint32_t transaction = 0;
  const page_number noted[] = {2};
  const auto end = [&](bool written) {
    hot.reserve(1);
    hot.note(2, written, ++transaction);
    hot.update(noted);
  };
  end(true);
  EXPECT_TRUE(hot.list().empty());
  end(true);
  EXPECT_EQ(hot.list(), std::vector<page_number>{2});
  for (std::uint32_t i = 0; i + 1 < limits.hot_patience; ++i) end(false);
  EXPECT_EQ(hot.list(), std::vector<page_number>{2});
  end(false);
  EXPECT_TRUE(hot.list().empty());
  for (std::uint32_t i = 0; i < limits.hot_within; ++i) end(false);
  end(true);
  EXPECT_TRUE(hot.list().empty()) << "the last time was too long ago";
  end(true);
  EXPECT_EQ(hot.list(), std::vector<page_number>{2});
  hot.note_cold(2, true, ++transaction);
  hot.update(noted);
  EXPECT_TRUE(hot.list().empty()) << "the kernel notes writes now";
}

}  // namespace
}  // namespace tenure::rvm
