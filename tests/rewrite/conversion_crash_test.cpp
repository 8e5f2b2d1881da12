// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store is converted to a changed class on a disk that loses power, or fails, at every operation: all objects are of the old
// class or of the new one, with the same values, and the next opening converts what was not [heap.rewrite.switch].
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/evolve.hpp>
#include <tenure/tenure.hpp>

#include "sim/disk.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/renamed_type.hpp"
#include "support/test_store.hpp"

namespace interrupted_conversion {

namespace was {
struct place {
  std::int32_t x = 0, y = 0;
};
struct part {
  std::int32_t weight = 0;
  part* next = nullptr;
  place where;
  std::int32_t* y_of_next = nullptr;  // into it
  tenure::string name;
};
}  // namespace was
namespace is {
struct place {
  std::int32_t y = 0;
  std::int64_t x = 0;
};
struct part {
  tenure::string name;
  place where;
  std::int64_t mass = 0;
  std::int64_t doubled = 0;
  std::int32_t fresh = 7;
  std::int32_t* y_of_next = nullptr;
  part* next = nullptr;
};
}  // namespace is
struct root {
  tenure::vector<void*> all;
};

}  // namespace interrupted_conversion

namespace tenure {

template <>
struct evolve<interrupted_conversion::is::part> {
  static void describe(changes<interrupted_conversion::is::part>& of) {
    of.since(0)
        .renamed("weight", "mass")
        .converted([](const old_object& old, interrupted_conversion::is::part& made, conversion&) {
          made.doubled = 2 * old.get<std::int64_t>("weight");
        });
  }
};

}  // namespace tenure

namespace interrupted_conversion {

using namespace tenure;

constexpr std::uint64_t part_count = 30;

std::string name_of(std::uint64_t n) {
  return n % 2 == 0 ? std::to_string(n) : "a name that has memory of its own, number " + std::to_string(n);
}
// What the store knows as one class: as the old program described it, and as the new one does.
const type& old_class() {
  static const type& of = support::renamed(type_of<was::part>(), {"was::"});
  return of;
}
const type& new_class() {
  static const type& of = support::renamed(type_of<is::part>(), {"is::"});
  return of;
}

class interrupted_conversions : public ::testing::Test {
 protected:
  static store_options options(sim::disk& disk, schema_change evolve) {
    static const store_options made = [] {
      store_options how = support::small_store();
      how.memory.log.size = 256 << 10;
      how.memory.background = false;
      return how;
    }();
    store_options how = made;
    how.memory.disk = &disk;
    how.evolve = evolve;
    return how;
  }
  // The old program's store. Nobody in this process knows the new class before.
  static sim::disk& base() {
    static sim::disk& disk = *new sim::disk;
    static const bool is_made [[maybe_unused]] = [] {
      {
        store s("/store", options(disk, schema_change::refuse));
        auto& in = s.root<root>("parts");
        s.transact([&] {
          was::part* last = nullptr;
          for (std::uint64_t n = 0; n < part_count; ++n) {
            void* const memory =
                detail::make_object(current_store()->databases->front(), old_class(), sizeof(was::part));
            auto* const made = new (memory) was::part;
            made->weight = static_cast<std::int32_t>(n);
            made->where = {static_cast<std::int32_t>(n), -static_cast<std::int32_t>(n)};
            made->next = last;
            made->y_of_next = last == nullptr ? nullptr : &last->where.y;
            made->name = name_of(n);
            in.all.push_back(last = made);
          }
        });
      }
      detail::register_type(new_class);
      return true;
    }();
    return disk;
  }
  static void expect_converted(store& s) {
    support::expect_sound(s);
    const auto& in = s.root<root>("parts");
    ASSERT_EQ(in.all.size(), part_count);
    const is::part* last = nullptr;
    for (std::uint64_t n = 0; n < part_count; ++n) {
      SCOPED_TRACE(n);
      const auto* const one = static_cast<const is::part*>(in.all[n]);
      const auto value = static_cast<std::int64_t>(n);
      ASSERT_EQ(one->mass, value);
      ASSERT_EQ(one->doubled, 2 * value);
      ASSERT_EQ(one->fresh, 7);
      ASSERT_EQ(one->where.x, value);
      ASSERT_EQ(one->where.y, -value);
      ASSERT_EQ(one->next, last);
      ASSERT_EQ(one->y_of_next, last == nullptr ? nullptr : &last->where.y);
      ASSERT_EQ(std::string(one->name), name_of(n));
      last = one;
    }
  }
  // Whether it has the new class already. A reader converts nothing, and does not finish a switch.
  static std::optional<bool> is_converted(sim::disk& disk) {
    store_options reading = options(disk, schema_change::refuse);
    reading.mode = rvm::open_mode::read_only;
    try {
      const store s("/store", reading);
      return true;
    } catch (const error& e) {
      if (e.code() == errc::schema_mismatch) return false;
      EXPECT_EQ(e.code(), errc::read_only) << e.what();
      return std::nullopt;
    }
  }
  static void convert(sim::disk& disk) {
    store s("/store", options(disk, schema_change::convert));
    expect_converted(s);
    for (const std::string& name : disk.names()) EXPECT_EQ(name.find(".rewritten"), name.npos) << name;
  }
  static std::uint64_t operations() {
    const auto disk = base().crash(0, sim::policy::keep_all);
    EXPECT_EQ(is_converted(*disk), false);
    const std::uint64_t before = disk->operations();
    convert(*disk);
    EXPECT_EQ(is_converted(*disk), true);
    return disk->operations() - before;
  }
};

TEST_F(interrupted_conversions, by_a_crash_leave_the_old_store_or_the_new_one) {
  const std::uint64_t last = operations();
  ASSERT_GT(last, 30u);
  std::uint64_t old = 0, converted = 0;
  for (std::uint64_t at = 1; at <= last; ++at) {
    const auto disk = base().crash(0, sim::policy::keep_all);
    disk->crash_at(at);
    try {
      convert(*disk);
    } catch (const sim::power_failure&) {
    }
    for (const sim::policy policy : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all}) {
      SCOPED_TRACE("crash at operation " + std::to_string(at) + " of " + std::to_string(last) + ", policy " +
                   std::to_string(static_cast<int>(policy)));
      const auto left = disk->crash(at, policy);
      if (const auto is = is_converted(*left)) ++(*is ? converted : old);
      ASSERT_NO_THROW(convert(*left));
      EXPECT_EQ(is_converted(*left), true);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(old, 10u);
  EXPECT_GT(converted, 0u);
}

TEST_F(interrupted_conversions, by_a_failure_leave_the_old_store_or_the_new_one) {
  const std::uint64_t last = operations();
  int refused = 0;
  for (std::uint64_t at = 1; at <= last; ++at) {
    SCOPED_TRACE("operation " + std::to_string(at) + " fails");
    const auto disk = base().crash(0, sim::policy::keep_all);
    disk->inject({.nth = at});
    try {
      convert(*disk);
    } catch (const error&) {
      ++refused;
    }
    disk->clear_faults();
    ASSERT_NO_THROW(convert(*disk));
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 20);
}

TEST_F(interrupted_conversions, by_a_full_disk_leave_the_old_store) {
  const auto disk = base().crash(0, sim::policy::keep_all);
  disk->fill_up();
  support::expect_error(std::errc::no_space_on_device, {}, [&] { convert(*disk); });
  disk->fill_up(false);
  EXPECT_EQ(is_converted(*disk), false);
  convert(*disk);
}

}  // namespace interrupted_conversion
