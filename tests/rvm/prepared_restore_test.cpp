// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups and restores of a log in which transactions were prepared.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/rvm.hpp>
#include <tenure/rvm/backup.hpp>

#include "os/process.hpp"
#include "rvm/prepared_memory.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::get, support::put, support::small_log, support::kib;

struct prepared_restore : testing::prepared_memory {};

// What was committed before a transaction was prepared, with commits left out that later ones cover; and what is prepared.
TEST_F(prepared_restore, has_what_became_durable_with_it) {
  for (const int end : {0, 1, 2}) {  // prepared, aborted, committed
    const std::string n = std::to_string(end);
    put(*m, r, 0, "before");
    m->backup("/backup" + n);
    for (const char* const text : {"lazy 1", "lazy 2", "lazy 3"}) put(*m, r, 0, text, commit_mode::no_flush);
    transaction tx = m->begin();
    write(tx, 100, "raised");
    tx.prepare("payroll/17");
    ASSERT_GT(m->stats().inter_transactions_saved, 0u);
    if (end == 1) tx.abort();
    if (end == 2) tx.commit();
    m->backup("/increment" + n, {.since = "/backup" + n});
    for (const bool uses_log : {true, false}) {
      const std::string to = "/restored" + n + (uses_log ? "log" : "");
      restore_options from{.disk = disk.get()};
      (uses_log ? from.log : from.increments.emplace_back()) = uses_log ? "/log" : "/increment" + n;
      restore("/backup" + n, to, from);
      asked.clear();
      options how = small_log(disk.get());
      how.in_doubt = [this](const prepared_transaction& what) {
        asked.push_back(what);
        return outcome::committed;
      };
      memory again(to + "/log", how);
      const region in = again.map(to + "/segment");
      EXPECT_EQ(get(in, 0, 6), "lazy 3") << to;
      EXPECT_EQ(asked.size(), end == 0 && uses_log ? 1u : 0u) << to;
      EXPECT_EQ(get(in, 100, 6) == "raised", end == 2 || (end == 0 && uses_log)) << to;
    }
    if (end == 0) tx.abort();
    put(*m, r, 100, std::string(6, 0));
  }
}

// Only what is prepared has changed it since the backup.
TEST_F(prepared_restore, makes_a_new_segment) {
  m->backup("/backup");
  const region made = m->map("/made", {.create_length = 64 * kib});
  transaction tx = m->begin();
  write(tx, made, 5000, "first");
  tx.prepare("one");
  restore("/backup", "/restored", {.log = "/log", .disk = disk.get()});
  options how = small_log(disk.get());
  how.in_doubt = [](const prepared_transaction&) { return outcome::committed; };
  memory again("/restored/log", how);
  EXPECT_EQ(get(again.map("/restored/made"), 5000, 5), "first");
}

// [rvm.restore.in-doubt]
TEST_F(prepared_restore, to_the_end_of_the_log_keeps_it) {
  put(*m, r, 0, "before");
  m->backup("/backup");
  put(*m, r, 100, "later", commit_mode::no_flush);
  transaction tx = m->begin();
  write(tx, 0, "raised");
  tx.prepare("payroll/17");
  const auto restored = [&](const std::string& to, restore_options from) {
    from.disk = disk.get();
    restore("/backup", to, from);
    asked.clear();
    options how = small_log(disk.get());
    how.in_doubt = [this](const prepared_transaction& what) {
      asked.push_back(what);
      return outcome::committed;
    };
    memory again(to + "/log", how);
    const region in = again.map(to + "/segment");
    EXPECT_EQ(get(in, 100, 5) == "later", !from.log.empty());
    return get(in, 0, 6);
  };
  EXPECT_EQ(restored("/restored", {.log = "/log"}), "raised");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].global_id, "payroll/17");
  EXPECT_EQ(restored("/alone", {}), "before");
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(restored("/later", {.log = "/log", .until = {.time = os::wall_clock_ns()}}), "raised");
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(restored("/named", {.log = "/log", .until = {.transaction = 2}}), "before");
  EXPECT_TRUE(asked.empty());
  m->backup("/backup-meanwhile");  // what is only prepared is not committed
  tx.commit();
  EXPECT_EQ(restored("/after", {.log = "/log"}), "raised");
  EXPECT_TRUE(asked.empty());
  restore("/backup-meanwhile", "/from-meanwhile", {.disk = disk.get()});
  memory again("/from-meanwhile/log", small_log(disk.get()));
  EXPECT_EQ(get(again.map("/from-meanwhile/segment"), 0, 6), "before");
}

// In the log, an abort leaves a record, and no transaction.
TEST_F(prepared_restore, goes_over_what_was_prepared) {
  put(*m, r, 0, "before");
  m->backup("/backup");
  for (int n = 0; n < 6; ++n) {
    transaction tx = m->begin();
    write(tx, 100 + 10 * static_cast<std::size_t>(n), n % 2 == 0 ? "aborted" : "kept");
    tx.prepare(std::to_string(n));
    if (n % 2 == 0)
      tx.abort();
    else
      tx.commit(commit_mode::no_flush);
  }
  m->flush();
  m->backup("/increment", {.since = "/backup"});
  for (const bool uses_log : {true, false}) {
    const std::string to = uses_log ? "/from-log" : "/from-increment";
    restore_options how{.disk = disk.get()};
    if (uses_log)
      how.log = "/log";
    else
      how.increments = {"/increment"};
    EXPECT_EQ(restore("/backup", to, how).transactions, 3u);
    memory again(to + "/log", small_log(disk.get()));
    const region in = again.map(to + "/segment");
    EXPECT_EQ(get(in, 0, 200), get(r, 0, 200));
  }
}

}  // namespace
}  // namespace tenure::rvm
