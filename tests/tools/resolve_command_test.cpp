// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure resolve, and what tenure info says of a store in doubt.
#include "resolve_command.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <tenure/tenure.hpp>
#include <tenure/transact_all.hpp>

#include "adopt_command.hpp"
#include "log_command.hpp"
#include "store_command.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/temp_dir.hpp"
#include "support/test_store.hpp"
#include "tools/shown.hpp"

namespace resolve_types {
struct tally {
  std::uint64_t number = 0;
};
}  // namespace resolve_types

namespace tenure::tools {
namespace {

using resolve_types::tally;
using support::expect_error;

class resolve_command : public ::testing::Test {
 protected:
  // A process ends before the second store's commit is durable.
  void leave_in_doubt() {
    support::run_and_die([&] {
      store a(first, support::small_store()), b(second, support::small_store());
      for (int n = 0; n < 2; ++n)
        transact_all(a, b, [&] {
          ++a.root<tally>("tally").number;
          ++b.root<tally>("tally").number;
        });
      support::die();
    });
  }
  std::uint64_t number_in(const std::string& path) {
    store_options how = support::small_store();
    how.mode = rvm::open_mode::read_only;
    store s(path, how);
    return s.find_root<tally>("tally")->number;
  }
  shown run(const wanted_outcome& wanted, bool as_json = false) {
    return tools::show([&](std::FILE* out) { return resolve_prepared(second, wanted, as_json, out); });
  }
  support::temp_dir dir;
  const std::string first = dir / "first", second = dir / "second";
};

TEST_F(resolve_command, asks_the_coordinator) {
  leave_in_doubt();
  const shown info = tools::show([&](std::FILE* out) { return show_store(second, false, out); });
  EXPECT_TRUE(info.has("in doubt")) << info.text;
  EXPECT_TRUE(info.has("tenure:")) << info.text;
  EXPECT_EQ(tools::show([&](std::FILE* out) { return show_store(first, true, out); }).parsed()["log"]["in_doubt"],
            nullptr);
  const shown only_shown = run({});
  EXPECT_EQ(only_shown.exit_code, exit_ok);
  EXPECT_TRUE(only_shown.has("--coordinator")) << only_shown.text;
  EXPECT_EQ(number_in(second), 1u);
  expect_error(errc::in_doubt, {"does not coordinate"}, [&] { (void)run({.coordinator = second}); });
  const shown ended = run({.coordinator = first});
  EXPECT_TRUE(ended.has("committed")) << ended.text;
  EXPECT_EQ(number_in(first), 2u);
  EXPECT_EQ(number_in(second), 2u);
  EXPECT_TRUE(run({.coordinator = first}).has("nothing is in doubt"));
  store b(second, support::small_store());
}

TEST_F(resolve_command, does_as_the_operator_says) {
  leave_in_doubt();
  const nlohmann::json before = run({}, true).parsed();
  EXPECT_TRUE(before["in_doubt"]["global_id"].get<std::string>().starts_with("tenure:")) << before;
  EXPECT_GT(before["in_doubt"]["bytes"], 0);
  EXPECT_EQ(before["outcome"], nullptr);
  const nlohmann::json aborted = run({.abort = true}, true).parsed();
  EXPECT_EQ(aborted["outcome"], "aborted");
  EXPECT_EQ(number_in(second), 1u);
  EXPECT_EQ(run({.abort = true}, true).parsed()["in_doubt"], nullptr);
  leave_in_doubt();
  EXPECT_TRUE(tools::show([&](std::FILE* out) {
                return resolve_prepared(second + "/log", {.commit = true}, false, out);
              }).has("committed"));
  EXPECT_EQ(number_in(second), 3u);
}

// Somebody else was faster, and perhaps prepared another one.
TEST_F(resolve_command, ends_the_transaction_that_was_seen) {
  leave_in_doubt();
  const std::string log = second + "/log";
  rvm::options reading;
  reading.mode = rvm::open_mode::read_only;
  const auto seen = rvm::memory(log, reading).in_doubt();
  ASSERT_TRUE(seen);
  rvm::prepared_transaction other = *seen;
  other.global_id = "another one";
  expect_error(errc::in_doubt, {"another one", seen->global_id, "by now"},
               [&] { (void)end_prepared(log, other, rvm::outcome::committed); });
  EXPECT_EQ(rvm::memory(log, reading).in_doubt()->global_id, seen->global_id);
  EXPECT_TRUE(end_prepared(log, *seen, rvm::outcome::committed));
  EXPECT_FALSE(end_prepared(log, *seen, rvm::outcome::aborted));
  EXPECT_EQ(number_in(second), 2u);
}

// It could neither be adopted, because of the doubt, nor resolved, because it is a copy.
TEST_F(resolve_command, a_copy_in_doubt_is_adopted_first) {
  leave_in_doubt();
  const std::string copy = dir / "copy";
  std::filesystem::copy(second, copy, std::filesystem::copy_options::recursive);
  const auto commit = [&](std::FILE* out) { return resolve_prepared(copy, {.commit = true}, false, out); };
  expect_error(errc::copied, {"tenure adopt"}, [&] { (void)tools::show(commit); });
  const shown adopted = tools::show([&](std::FILE* out) { return adopt_copy(copy, false, out, nullptr); });
  EXPECT_EQ(adopted.exit_code, exit_ok);
  EXPECT_TRUE(adopted.has("is adopted")) << adopted.text;
  EXPECT_TRUE(adopted.has("tenure resolve")) << adopted.text;
  EXPECT_TRUE(tools::show(commit).has("committed"));
  EXPECT_EQ(number_in(copy), 2u);
}

}  // namespace
}  // namespace tenure::tools
