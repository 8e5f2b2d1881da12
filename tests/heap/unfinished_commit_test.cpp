// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What other threads make while a commit that frees blocks is on its way to the log [heap.blocks.unfinished].
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "sim/disk.hpp"
#include "support/test_store.hpp"

namespace unfinished_types {

struct brick {
  std::uint64_t number = 0, rest[7] = {};
};
struct wall {
  tenure::vector<brick*> bricks;
  tenure::vector<std::uint64_t> numbers;
};

}  // namespace unfinished_types

namespace tenure {
namespace {

using namespace support;
using namespace unfinished_types;

class unfinished_commit : public ::testing::Test {
 protected:
  static constexpr std::uint64_t count = 4000;

  unfinished_commit() {
    how.memory.disk = &disk;
    how.memory.background = false;
    how.memory.tune.spool_limit = 1;
    open();
    s->transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        w->bricks.push_back(s->make<brick>());
        w->bricks.back()->number = n;
      }
      w->numbers.push_back(0);
    });
  }
  ~unfinished_commit() override {
    expect_sound(*s);
    disk.on_operation(nullptr);
  }
  void open() {
    s.reset();
    s.emplace("/store", how);
    w = &s->root<wall>("wall");
  }
  // Another thread does so when the log is written next.
  void at_the_next_write(std::function<void()> what) {
    disk.on_operation([this, does = std::move(what)](const sim::trace_entry& now) {
      if (now.kind != sim::operation::durable_write || now.path.find("log") == std::string::npos || was_written) return;
      was_written = true;
      std::thread(does).join();
    });
  }
  void make_others(std::uint64_t up_to) {
    while (others.size() < up_to) {
      brick& one = *s->make<brick>();
      one.number = ~others.size();
      others.push_back(&one);
    }
  }
  void destroy_all() {
    for (brick* each : std::exchange(w->bricks, {})) s->destroy(each);
  }
  void expect_others() const {
    ASSERT_EQ(others.size(), count);
    for (std::uint64_t n = 0; n < count; ++n) ASSERT_EQ(others[n]->number, ~n) << n;
  }

  sim::disk disk;
  store_options how = small_store();
  std::optional<store> s;
  wall* w = nullptr;
  bool was_written = false;
  std::vector<brick*> others;
};

TEST_F(unfinished_commit, that_is_taken_back_has_its_objects_where_they_were) {
  open();
  at_the_next_write([this] { make_others(count); });
  transaction tx = s->begin();
  destroy_all();
  tx.prepare("one");
  EXPECT_TRUE(was_written);
  tx.abort();
  expect_others();
  ASSERT_EQ(w->bricks.size(), count);
  for (std::uint64_t n = 0; n < count; ++n) ASSERT_EQ(w->bricks[n]->number, n);
}

TEST_F(unfinished_commit, gives_each_block_to_one_owner) {
  open();
  s->transact([&] { ++w->numbers[0]; }, commit_mode::lazy);  // it waits in the spool
  at_the_next_write([this] { make_others(1300); });          // the thread takes some blocks more than it needs
  s->transact([&] { destroy_all(); }, commit_mode::lazy);
  EXPECT_TRUE(was_written);
  expect_sound(*s);
  s->transact([&] {
    for (std::uint64_t n = 0; n < count; ++n) w->bricks.push_back(s->make<brick>());
  });
  expect_sound(*s);
  std::thread([this] { make_others(count); }).join();
  expect_others();
  for (brick* each : w->bricks) ASSERT_EQ(each->number, 0u);
}

}  // namespace
}  // namespace tenure
