// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores that released versions have written: see fixtures/content.hpp.
#include "fixtures/list.hpp"
#include "fixtures/packed.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include <tenure/upgrade.hpp>

#include "log/unfinished.hpp"
#include "support/temp_dir.hpp"
#include "upgrade/unpacked.hpp"

namespace tenure::pobj {
namespace {

void expect_list_in(const std::string& path) {
  pobj_options how{};
  how.path = path.c_str();
  how.program = "fixture";
  ASSERT_EQ(pobj_init_with(&how), 0) << pobj_error();
  EXPECT_EQ(fixtures::wrong_in_list(), "");
  EXPECT_EQ(pobj_close(), 0);
}

TEST(fixtures_of_pobj, are_upgraded_from_format_1) {
  const support::temp_dir dir;
  upgrade_tests::unpack(upgrade_tests::fixture("1-pobj"), dir / "old");
  EXPECT_GT(upgrade(dir / "old", dir / "new").transactions, 10U);
  expect_list_in(dir / "new");
  expect_list_in(dir / "new");
}

// [upgrade.whole]
TEST(fixtures_of_pobj, that_were_upgraded_in_part_do_not_open) {
  const support::temp_dir dir;
  rvm::mark_unfinished(os::real_disk(), dir / "log");
  pobj_options how{};
  const std::string path = dir.path();
  how.path = path.c_str();
  how.program = "fixture";
  EXPECT_NE(pobj_init_with(&how), 0);
  EXPECT_NE(std::string(pobj_error()).find("an upgrade into this directory was interrupted"), std::string::npos)
      << pobj_error();
  EXPECT_FALSE(std::filesystem::exists(dir / "log"));
}

}  // namespace
}  // namespace tenure::pobj
