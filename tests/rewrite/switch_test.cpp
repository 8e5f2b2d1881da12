// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Rewriting in place on a disk that loses power, or fails, at every operation: the store is the old one or the new one, with
// the same in it, and the next writer leaves no files of the other [heap.rewrite.switch].
#include <algorithm>
#include <latch>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "replay/backup.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace switched_types {

struct bead {
  bead* next = nullptr;
};

}  // namespace switched_types

namespace {

constexpr std::uint64_t item_count = 12;

class switching_files : public ::testing::Test {
 protected:
  switching_files() {
    store s("/store", options(base));
    s.create_database("far", {.reservation = std::uint64_t{1} << 28, .home = next_home(std::uint64_t{1} << 28)});
    auto& root = s.root<everything>("all");
    fill(s, root, item_count);
    s.transact([&] { (void)root.places.erase(1000); });
  }
  store_options options(sim::disk& disk, rvm::open_mode mode = rvm::open_mode::open_or_create) const {
    store_options as = how;
    as.mode = mode;
    as.memory.disk = &disk;
    return as;
  }
  static bool has_new_files(const sim::disk& disk) {
    const auto names = disk.names();
    return std::ranges::any_of(names, [](const std::string& n) { return n.find(".rewritten") != std::string::npos; });
  }
  void expect_whole(sim::disk& disk) {
    const bool was_settled = !has_new_files(disk);
    try {
      const store s("/store", options(disk, rvm::open_mode::read_only));
      expect_filled(*s.find_root<everything>("all"), item_count);
    } catch (const error& e) {
      EXPECT_TRUE(!was_settled && e.code() == errc::read_only) << e.what();
    }
    {
      const store s("/store", options(disk, rvm::open_mode::open));
      EXPECT_FALSE(has_new_files(disk));
      expect_sound(s);
      expect_filled(*s.find_root<everything>("all"), item_count);
    }
    const rewrite_report again = compact("/store", {.disk = &disk});
    EXPECT_EQ(again.left_out, 0u);
    const store s("/store", options(disk, rvm::open_mode::open));
    expect_filled(*s.find_root<everything>("all"), item_count);
  }
  [[nodiscard]] std::uint64_t operations_of_compact() const {
    const auto disk = base.crash(0, sim::policy::keep_all);
    (void)compact("/store", {.disk = disk.get()});
    return disk->operations();
  }

  store_options how = [] {
    store_options made = small_store();
    made.memory.log.size = 256 << 10;
    made.memory.background = false;
    return made;
  }();
  sim::disk base;
};

TEST_F(switching_files, survive_a_crash_at_every_operation) {
  const std::uint64_t operations = operations_of_compact();
  ASSERT_GT(operations, 40u);
  for (std::uint64_t at = 1; at <= operations; at += rvm::testing::scaled_stride()) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    disk->crash_at(at);
    try {
      (void)compact("/store", {.disk = disk.get()});
    } catch (const sim::power_failure&) {
    }
    std::vector<sim::policy> policies{sim::policy::drop_all, sim::policy::keep_all};
    // Names may become durable in any order, of which there are many while files get theirs.
    policies.resize(at + 16 > operations ? 14 : 3, sim::policy::random);
    for (std::size_t n = 0; n < policies.size(); ++n) {
      const sim::policy policy = policies[n];
      SCOPED_TRACE("crash at operation " + std::to_string(at) + " of " + std::to_string(operations) + ", policy " +
                   std::to_string(static_cast<int>(policy)));
      ASSERT_NO_THROW(expect_whole(*disk->crash(at + 1000 * n, policy)));
      if (HasFailure()) return;
    }
  }
}

// Other addresses, so all references are others, and another order.
TEST_F(switching_files, survive_a_crash_while_objects_get_other_addresses) {
  const std::uint64_t reservation = std::uint64_t{1} << 28;
  rewrite_options other{.order = object_order::by_type,
                        .homes = {{"main", next_home(reservation)}, {"far", next_home(reservation)}}};
  const auto whole = base.crash(0, sim::policy::keep_all);
  other.disk = whole.get();
  (void)compact("/store", other);
  const std::uint64_t operations = whole->operations();
  for (std::uint64_t at = 1; at <= operations; at += rvm::testing::scaled_stride(3)) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    disk->crash_at(at);
    other.disk = disk.get();
    try {
      (void)compact("/store", other);
    } catch (const sim::power_failure&) {
    }
    for (const sim::policy policy : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all}) {
      SCOPED_TRACE("crash at operation " + std::to_string(at) + ", policy " + std::to_string(static_cast<int>(policy)));
      ASSERT_NO_THROW(expect_whole(*disk->crash(at, policy)));
      if (HasFailure()) return;
    }
  }
}

TEST_F(switching_files, a_clone_is_whole_or_refused_after_a_crash_at_every_operation) {
  std::uint64_t operations = 0, whole = 0, refused = 0;
  {
    const auto disk = base.crash(0, sim::policy::keep_all);
    (void)clone("/store", "/clone", {.disk = disk.get()});
    operations = disk->operations();
  }
  // Behind the last operation, too.
  const std::uint64_t stride = rvm::testing::scaled_stride(2);
  for (std::uint64_t at = 1; at <= operations + stride; at += stride) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    disk->crash_at(at);
    bool is_made = false;
    try {
      (void)clone("/store", "/clone", {.disk = disk.get()});
      is_made = true;
    } catch (const sim::power_failure&) {
    }
    for (const sim::policy policy : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all}) {
      SCOPED_TRACE("crash at operation " + std::to_string(at) + ", policy " + std::to_string(static_cast<int>(policy)));
      const auto left = disk->crash(at, policy);
      {
        const store original("/store", options(*left, rvm::open_mode::open));
        expect_filled(*original.find_root<everything>("all"), item_count);
      }
      try {
        const store s("/clone", options(*left, rvm::open_mode::open));
        expect_sound(s);
        expect_filled(*s.find_root<everything>("all"), item_count);
        ++whole;
      } catch (const error& e) {
        EXPECT_FALSE(is_made) << e.what();
        EXPECT_TRUE(e.code() == errc::damaged || e.code() == std::errc::no_such_file_or_directory) << e.what();
        ++refused;
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(whole, 0u);
  EXPECT_GT(refused, 0u);
}

TEST_F(switching_files, survive_a_failure_of_every_operation) {
  const std::uint64_t operations = operations_of_compact();
  int refused = 0;
  for (std::uint64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE("operation " + std::to_string(at) + " fails");
    const auto disk = base.crash(0, sim::policy::keep_all);
    disk->inject({.nth = at});
    try {
      (void)compact("/store", {.disk = disk.get()});
    } catch (const error&) {
      ++refused;
    }
    disk->clear_faults();
    ASSERT_NO_THROW(expect_whole(*disk));
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 20);
}

TEST_F(switching_files, leave_nothing_if_one_cannot_be_written) {
  for (std::uint64_t nth = 1; nth < 8; ++nth) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    disk->inject({.kind = sim::operation::write, .path = "far.db.rewritten", .nth = nth, .error = ENOSPC});
    try {
      (void)compact("/store", {.disk = disk.get()});
    } catch (const error& e) {
      EXPECT_EQ(e.code(), std::errc::no_space_on_device);
      EXPECT_FALSE(has_new_files(*disk));
    }
    disk->clear_faults();
    expect_whole(*disk);
  }
}

TEST_F(switching_files, need_space) {
  const auto disk = base.crash(0, sim::policy::keep_all);
  disk->fill_up();
  expect_error(std::errc::no_space_on_device, {}, [&] { (void)compact("/store", {.disk = disk.get()}); });
  disk->fill_up(false);
  EXPECT_FALSE(has_new_files(*disk));
  expect_whole(*disk);
}

// It began after the rewriting, which has looked for those that hold the log, and before the switch.
TEST_F(switching_files, are_noticed_by_backups) {
  const auto disk = base.crash(0, sim::policy::keep_all);
  {
    store s("/store", options(*disk));
    s.transact([&] {
      // More than those after which it tells of its progress.
      auto& first = s.root<switched_types::bead>("beads");
      for (int n = 0; n < 70'000; ++n) {
        auto* const made = s.make<switched_types::bead>();
        made->next = std::exchange(first.next, made);
      }
    });
  }
  std::latch copying(1), switched(1);
  std::error_code refused;
  const auto back_up = [&] {
    bool is_first = true;
    rvm::backup_options with;
    with.on_progress = [&](const rvm::progress&) {
      if (!std::exchange(is_first, false)) return;
      copying.count_down();
      switched.wait();
    };
    try {
      (void)rvm::back_up(*disk, "/store/log", "/copy", with);
    } catch (const error& e) {
      refused = e.code();
    }
  };
  std::thread backup;
  rewrite_options rewriting{.disk = disk.get()};
  rewriting.on_progress = [&](const rvm::progress&) {
    if (backup.joinable()) return;
    backup = std::thread(back_up);
    copying.wait();
  };
  (void)compact("/store", rewriting);
  switched.count_down();
  ASSERT_TRUE(backup.joinable());
  backup.join();
  EXPECT_EQ(refused, errc::in_use);
  EXPECT_FALSE(disk->exists("/copy/log"));
}

}  // namespace
