// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "upgrade_command.hpp"

#include <gtest/gtest.h>

#include "log_command.hpp"
#include "shown.hpp"
#include "support/expect_error.hpp"
#include "support/temp_dir.hpp"
#include "upgrade/unpacked.hpp"

namespace tenure::tools {
namespace {

using support::expect_error;
using support::temp_dir;

TEST(upgrade_command, makes_a_store_anew_and_checks_it) {
  const temp_dir dir;
  upgrade_tests::unpack(upgrade_tests::fixture("1-killed"), dir / "old");
  const shown made = tools::show([&](std::FILE* out) {
    return upgrade_format({.path = dir / "old", .to = dir / "new", .check = true}, false, out, nullptr);
  });
  EXPECT_EQ(made.exit_code, exit_ok);
  EXPECT_TRUE(made.has("in 2 files, and 40 transactions of the log")) << made.text;
  EXPECT_TRUE(made.has("nothing is wrong")) << made.text;
  const shown again = tools::show(
      [&](std::FILE* out) { return upgrade_format({.path = dir / "old", .to = dir / "again"}, true, out, nullptr); });
  EXPECT_EQ(again.parsed()["databases"], 2);
  EXPECT_EQ(again.parsed()["transactions"], 40);
  expect_error(errc::bad_option, {dir / "old/in"},
               [&] { (void)upgrade_format({.path = dir / "old", .to = dir / "old/in"}, false, stdout, nullptr); });
  expect_error(errc::wrong_version, {dir / "new/log", "format 2 already"},
               [&] { (void)upgrade_format({.path = dir / "new", .to = dir / "third"}, false, stdout, nullptr); });
}

}  // namespace
}  // namespace tenure::tools
