// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The command that repairs stores: what it says, and what it returns.
#include "repair_command.hpp"

#include "log_command.hpp"
#include "objects/format.hpp"
#include "support/expect_error.hpp"
#include "tools/small_store.hpp"

namespace tenure::tools {
namespace {

class repair_command : public store_command {
 protected:
  shown repair(const wanted_repair& what, bool as_json = false) {
    return show([&](std::FILE* out) { return repair_store(what, as_json, out, nullptr); });
  }
  // More parts than a page has, so that few objects share the page of one of them. Returns where one of them is.
  std::uint64_t make_many() {
    make();
    store s(path, small_store());
    std::uint64_t found = 0;
    s.transact([&] {
      part* last = s.find_root<part>("first")->next->next;
      for (std::int32_t n = 0; n < 300; ++n) {
        last->next = s.make<part>();
        last = last->next;
        last->number = n;
        if (n == 200) found = reinterpret_cast<std::uint64_t>(last) - home;
      }
    });
    s.close();
    return found;
  }
};

TEST_F(repair_command, says_what_is_lost_and_writes_the_rest) {
  const std::uint64_t lost = make_many();
  damage(lost);
  const shown before = verify();
  EXPECT_EQ(before.exit_code, exit_damaged);
  EXPECT_TRUE(before.has("part at")) << before.text;     // what lies on the page,
  EXPECT_TRUE(before.has("root first")) << before.text;  // and how it is reached
  const auto json_before = verify(true).parsed();
  EXPECT_NE(json_before["wrong"].dump().find("part at"), std::string::npos);

  const shown looked = repair({.path = path, .dry_run = true});
  EXPECT_EQ(looked.exit_code, exit_damaged);
  EXPECT_TRUE(looked.has("DAMAGED: ")) << looked.text;
  EXPECT_TRUE(looked.has("LOST: store_command_types::part at ")) << looked.text;
  EXPECT_TRUE(looked.has("CUT: ")) << looked.text;
  EXPECT_TRUE(looked.has("nothing was written")) << looked.text;
  EXPECT_EQ(verify().exit_code, exit_damaged);

  const auto copied = repair({.path = path, .to = dir / "copy"}, true).parsed();
  EXPECT_EQ(copied["made"], dir / "copy");
  EXPECT_EQ(copied["pages"], 1);
  EXPECT_EQ(copied["cut_references"], 1);
  EXPECT_GT(copied["lost_objects"], 5);
  EXPECT_EQ(copied["found"].size(), 1 + 1 + copied["lost_objects"].get<std::size_t>());
  EXPECT_EQ(copied["found"].back()["what"], "cut_reference");
  EXPECT_NE(copied["found"].back()["text"].get<std::string>().find("is null now"), std::string::npos);
  EXPECT_TRUE(copied["wrong"].empty());
  EXPECT_EQ(verify().exit_code, exit_damaged);

  const shown done = repair({.path = path});
  EXPECT_EQ(done.exit_code, exit_ok);
  EXPECT_TRUE(done.has("nothing is wrong")) << done.text;
  EXPECT_EQ(verify().exit_code, exit_ok);
  const shown again = repair({.path = path});
  EXPECT_EQ(again.exit_code, exit_ok);
  EXPECT_TRUE(again.has("nothing is damaged, and nothing was written")) << again.text;
  EXPECT_TRUE(repair({.path = path}, true).parsed()["made"].is_null());
}

TEST_F(repair_command, refuses_what_only_a_backup_has) {
  make();
  damage(8);  // the version of the database's format
  expect_error(errc::wrong_version, {}, [&] { (void)repair({.path = path}); });
  damage(8);
  damage(60);  // the identity, in what its checksum covers
  expect_error(errc::damaged, {"its header fails its checksum"}, [&] { (void)repair({.path = path}); });
}

}  // namespace
}  // namespace tenure::tools
