// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies of a store's files that were made piece by piece, while programs opened, changed and closed it: refused, or whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/sanitizers.hpp"
#include "support/small_image.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace tenure::support::image_types;

namespace {

// Copies the files in some order, each in some pieces. Between them there is time.
class copier {
 public:
  copier(sim::disk& from, std::mt19937_64& random) : from_(from) {
    order_ = from.names();
    std::ranges::shuffle(order_, random);
    pieces_ = 1 + random() % 3;
  }
  [[nodiscard]] bool is_done() const { return at_ == order_.size(); }
  void step() {
    const std::string& name = order_[at_];
    if (from_.exists(name)) {
      const std::vector<std::byte> now = from_.current_bytes(name);
      copy_.resize(now.size());
      const std::size_t begin = now.size() / pieces_ * piece_,
                        end = piece_ + 1 == pieces_ ? now.size() : now.size() / pieces_ * (piece_ + 1);
      std::copy(now.begin() + static_cast<std::ptrdiff_t>(begin), now.begin() + static_cast<std::ptrdiff_t>(end),
                copy_.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    if (++piece_ < pieces_) return;
    if (!copy_.empty()) to.install(name, copy_);
    copy_.clear();
    piece_ = 0;
    ++at_;
  }

  sim::disk to;

 private:
  sim::disk& from_;
  std::vector<std::string> order_;
  std::vector<std::byte> copy_;
  std::size_t at_ = 0, piece_ = 0, pieces_ = 1;
};

class copies : public ::testing::Test {
 protected:
  copies() { make_image(first, home); }
  // Changes both databases.
  static void change(store& s) {
    s.transact([&] {
      ++s.root<catalog>("catalog").large->bytes[0];
      ++s.find_database("more")->root<part>("first").number;
    });
  }
  sim::disk first;
  const std::uint64_t home = next_home(2 * image_reservation);
};

TEST_F(copies, made_at_any_instant_are_refused_or_whole) {
  std::size_t refused = 0, whole = 0, in_use = 0;
  for (std::uint64_t seed = 1; seed <= rvm::testing::scaled(150); ++seed) {
    std::mt19937_64 random(seed);
    const auto disk = first.crash(1, sim::policy::keep_all);
    copier copying(*disk, random);
    const std::uint64_t between = 1 + random() % 60;
    std::uint64_t operations = 0;
    disk->on_operation([&](const sim::trace_entry&) {
      if (++operations % between == 0 && !copying.is_done()) copying.step();
    });
    const std::uint64_t openings = 1 + random() % 6;
    for (std::uint64_t n = 0; n < openings; ++n) {
      store_options how = image_options(*disk, home);
      how.memory.tune.truncation_threshold = random() % 2 == 0 ? 2 : 0;
      store s(image_path, how);
      for (std::uint64_t k = random() % 5; k != 0; --k) change(s);
      s.close();
    }
    disk->on_operation({});
    while (!copying.is_done()) copying.step();
    try {
      store s(image_path, image_options(copying.to, home));
      expect_sound(s);
      const auto here = s.root<catalog>("catalog").large->bytes[0] - 's';
      EXPECT_EQ(s.find_database("more")->root<part>("first").number % 100, static_cast<std::uint64_t>(here) % 100)
          << "files of different moments were opened, seed " << seed;
      s.close();
      ++whole;
    } catch (const error& e) {
      EXPECT_TRUE(e.code() == errc::wrong_log || e.code() == errc::damaged || e.code() == errc::copied) << e.what();
      ++refused;
      in_use += e.code() == errc::copied;
    }
  }
  EXPECT_GT(refused, in_use);
  EXPECT_GT(in_use, 0U);
  EXPECT_GT(whole, 0U);
}

// The power goes at each operation while a database is made: afterwards the store has it, or it can be made again.
TEST_F(copies, of_a_database_that_is_half_made_are_dropped) {
  const database_options where{.reservation = image_reservation, .home = home + 2 * image_reservation};
  std::size_t without = 0, with = 0;
  for (std::uint64_t operation = 1;; ++operation) {
    const auto disk = first.crash(1, sim::policy::keep_all);
    bool was_made = false;
    {
      store s(image_path, image_options(*disk, home));
      disk->crash_at(disk->operations() + operation);
      try {
        (void)s.create_database("third", where);
        was_made = true;
      } catch (const sim::power_failure&) {
      } catch (const error&) {
      }
    }
    for (const auto what : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
      const auto left = disk->crash(operation, what);
      store s(image_path, image_options(*left, home));
      expect_sound(s);
      const bool is_there = s.find_database("third").has_value();
      EXPECT_TRUE(is_there || !was_made);
      ++(is_there ? with : without);
      if (!is_there) (void)s.create_database("third", where);
      EXPECT_EQ(s.databases().size(), 3U);
      s.close();
      store again(image_path, image_options(*left, home));
      EXPECT_EQ(again.databases().size(), 3U);
    }
    if (was_made) break;
  }
  EXPECT_GT(without, 0U);
  EXPECT_GT(with, 0U);
}

// Homes are drawn at random, and a store has its own to avoid: of so large ones there is room for 63 only.
TEST_F(copies, of_one_home_are_never_given_to_two_databases) {
  sim::disk disk;
  store_options how = image_options(disk, home);
  {
    store s(image_path, how);
    for (int n = 0; n < 12 && !thread_sanitizer; ++n)
      (void)s.create_database("large" + std::to_string(n), {.reservation = std::uint64_t{1} << 38});
    expect_error(errc::address_taken, {"/store/same.db", "those of /store/main.db"},
                 [&] { (void)s.create_database("same", {.reservation = image_reservation, .home = home}); });
    EXPECT_FALSE(disk.exists("/store/same.db"));
  }
  store s(image_path, how);
  EXPECT_EQ(s.databases().size(), thread_sanitizer ? 1U : 13U);
}

}  // namespace
