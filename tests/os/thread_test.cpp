// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/thread.hpp"

#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace tenure::os {
namespace {

// Of a system that has none left.
struct refused_thread {
  template <class F>
  explicit refused_thread(F&&) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
};

TEST(threads, that_cannot_begin_say_what_for) {
  support::expect_error(std::errc::resource_unavailable_try_again, {"cannot begin a thread that does it", "ulimit"},
                        [] { (void)begin_thread<refused_thread>("does it", [] {}); });
}

TEST(threads, begin) {
  bool has_run = false;
  begin_thread<std::thread>("does it", [&] { has_run = true; }).join();
  EXPECT_TRUE(has_run);
}

}  // namespace
}  // namespace tenure::os
