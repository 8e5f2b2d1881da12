// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores that released versions have written: see fixtures/content.hpp.
#include "fixtures/list.hpp"
#include "fixtures/packed.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include <tenure/upgrade.hpp>

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

}  // namespace
}  // namespace tenure::pobj
