// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Two-phase commit: transactions that are prepared, and their outcome.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/recoverable_heap.hpp>
#include <tenure/rvm.hpp>
#include <tenure/rvm/backup.hpp>

#include "log/log_hold.hpp"
#include "os/process.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::get, support::page, support::put, support::small_log, support::kib, support::mib;

struct prepared : ::testing::Test {
  std::vector<std::unique_ptr<sim::disk>> disks;  // of processes that have ended
  std::unique_ptr<sim::disk> disk = std::make_unique<sim::disk>();
  std::optional<memory> m{std::in_place, "/log", small_log(disk.get())};
  region r = m->map("/segment", {.create_length = 64 * kib});

  static void write(transaction& tx, const region& in, std::size_t at, const std::string& text) {
    tx.modify(in.data() + at, text.data(), text.size());
  }
  void write(transaction& tx, std::size_t at, const std::string& text) const { write(tx, r, at, text); }
  // The process ends with all that is durable, and no more.
  void crash() {
    disks.push_back(std::exchange(disk, disk->crash(1, sim::policy::drop_all)));
    std::optional<memory> old = std::move(m);
    m.reset();
    region gone = std::move(r);
    leaked.push_back({std::move(old), std::move(gone)});
  }
  void open(options how) {
    how.disk = disk.get();
    m.emplace("/log", how);
    r = m->map("/segment");
  }
  void open(outcome said) {
    options how = small_log();
    how.in_doubt = [this, said](const prepared_transaction& what) {
      asked.push_back(what);
      return said;
    };
    open(how);
  }
  std::vector<prepared_transaction> asked;

 private:
  struct left {
    std::optional<memory> of;
    region in;
  };
  std::vector<left> leaked;
};

TEST_F(prepared, commits_and_aborts_as_any_other) {
  for (const bool commits : {true, false}) {
    transaction tx = m->begin();
    write(tx, 0, commits ? "first" : "other");
    EXPECT_FALSE(tx.is_prepared());
    tx.prepare("payroll/17");
    EXPECT_TRUE(tx.is_prepared());
    if (commits)
      tx.commit();
    else
      tx.abort();
    EXPECT_EQ(get(r, 0, 5), "first");
  }
  put(*m, r, 10, "after");
  r.unmap();
  m->close();
  open(small_log());
  EXPECT_EQ(get(r, 0, 5), "first");
  EXPECT_EQ(get(r, 10, 5), "after");
}

// [rvm.prepared.log] [rvm.prepared.redo]
TEST_F(prepared, survives_the_process_until_its_outcome_is_said) {
  for (const outcome said : {outcome::aborted, outcome::committed}) {
    put(*m, r, 0, "before", commit_mode::no_flush);  // durable with what is prepared
    transaction tx = m->begin();
    tx.label("raise");
    write(tx, 0, "raised");
    write(tx, 5000, "more");
    tx.prepare("payroll/17");
    crash();
    expect_error(errc::in_doubt, {"/log", "payroll/17", "in_doubt", "tenure resolve"}, [&] { open(small_log()); });
    open(support::reading());
    ASSERT_TRUE(m->in_doubt());
    EXPECT_EQ(m->in_doubt()->global_id, "payroll/17");
    EXPECT_EQ(m->in_doubt()->label, "raise");
    EXPECT_EQ(m->in_doubt()->ranges, 2u);
    EXPECT_EQ(m->in_doubt()->bytes, 10u);
    EXPECT_EQ(get(r, 0, 6), "before");
    m->close();
    options how = small_log();
    how.in_doubt = [](const prepared_transaction&) -> outcome { throw error(errc::closed, "the coordinator is away"); };
    expect_error(errc::closed, {"away"}, [&] { open(how); });
    asked.clear();
    open(said);
    EXPECT_EQ(asked.size(), 1u);
    EXPECT_EQ(get(r, 0, 6), said == outcome::committed ? "raised" : "before");
    EXPECT_EQ(get(r, 5000, 4), said == outcome::committed ? "more" : std::string(4, 0));
    crash();
    open(small_log());
    EXPECT_EQ(get(r, 0, 6), said == outcome::committed ? "raised" : "before");
  }
}

TEST_F(prepared, a_commit_that_is_in_the_log_needs_no_second_write) {
  put(*m, r, 100, "once");
  transaction tx = m->begin();
  write(tx, 0, "first");
  tx.prepare("one");
  const std::uint64_t before = disk->operations();
  tx.commit();
  EXPECT_LE(disk->operations() - before, 2u);
  crash();
  open(small_log());
  EXPECT_EQ(get(r, 0, 5), "first");
  // A lazy one is in doubt again: it may be lost.
  tx = m->begin();
  write(tx, 0, "other");
  tx.prepare("two");
  tx.commit(commit_mode::no_flush);
  crash();
  open(outcome::committed);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].global_id, "two");
  EXPECT_EQ(get(r, 0, 5), "other");
}

// [rvm.prepared.alone]
TEST_F(prepared, nothing_else_commits_meanwhile) {
  transaction tx = m->begin(), other = m->begin(), third = m->begin();
  write(tx, 0, "first");
  write(other, 100, "other");
  write(third, 200, "third");
  tx.prepare("one");
  expect_error(errc::in_doubt, {"prepared", "commit this one again"}, [&] { other.commit(); });
  expect_error(errc::in_doubt, {"prepared"}, [&] { other.commit(commit_mode::no_flush); });
  expect_error(errc::in_doubt, {"prepared"}, [&] { other.prepare("two"); });
  third.abort();
  tx.commit();
  other.prepare("two");
  other.commit();
  m->check();
  crash();
  open(small_log());
  EXPECT_EQ(get(r, 100, 5), "other");
  EXPECT_EQ(get(r, 200, 5), std::string(5, 0));
}

TEST_F(prepared, misuse) {
  transaction tx = m->begin();
  write(tx, 0, "first");
  expect_error(errc::bad_option, {"printable"}, [&] { tx.prepare(""); });
  expect_error(errc::bad_option, {"printable"}, [&] { tx.prepare("two\nlines"); });
  expect_error(errc::bad_option, {"256"}, [&] { tx.prepare(std::string(256, 'x')); });
  expect_error(errc::bad_transaction, {"not prepared"}, [&] { tx.leave_in_doubt(); });
  {
    inner_transaction in = tx.begin_inner();
    expect_error(errc::bad_transaction, {"inner"}, [&] { tx.prepare("one"); });
  }
  tx.prepare(std::string(255, 'x'));
  expect_error(errc::bad_transaction, {"prepared already"}, [&] { tx.prepare("one"); });
  expect_error(errc::bad_transaction, {"cannot change"}, [&] { write(tx, 0, "second"); });
  expect_error(errc::bad_transaction, {"cannot change"}, [&] { (void)tx.begin_inner(); });
  expect_error(errc::bad_transaction, {"cannot change"}, [&] { tx.clear(r, 0, page); });
  expect_error(errc::transactions_open, {}, [&] { m->close(); });
  tx.abort();
  transaction fast = m->begin(restore_mode::no_restore);
  write(fast, 0, "fast");
  expect_error(errc::cannot_abort, {"no_restore"}, [&] { fast.prepare("one"); });
  fast.commit();
  transaction nothing = m->begin();
  nothing.prepare("nothing");
  put(*m, r, 0, "meanwhile");  // there is nothing to hold
  nothing.commit();
}

TEST_F(prepared, is_left_in_doubt) {
  transaction tx = m->begin();
  write(tx, 0, "first");
  tx.prepare("one");
  tx.leave_in_doubt();
  EXPECT_FALSE(tx.is_open());
  EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
  expect_error(errc::in_doubt, {"open it again"}, [&] { (void)m->begin(); });
  expect_error(errc::in_doubt, {}, [&] { m->close(); });
  m.reset();
  open(outcome::committed);
  EXPECT_EQ(get(r, 0, 5), "first");
}

// [rvm.prepared.none]
TEST_F(prepared, the_log_cannot_be_written) {
  for (const sim::policy left : {sim::policy::drop_all, sim::policy::keep_all}) {
    put(*m, r, 0, "before");
    transaction tx = m->begin();
    write(tx, 0, "first");
    disk->inject({.kind = sim::operation::durable_write, .path = "/log", .error = EIO, .bytes = page});
    expect_error(errc::outcome_unknown, {"/log", "open it again"}, [&] { tx.prepare("one"); });
    EXPECT_FALSE(tx.is_prepared());
    tx.abort();
    EXPECT_EQ(get(r, 0, 6), "before");
    expect_error(errc::outcome_unknown, {}, [&] { (void)m->begin(); });
    disks.push_back(std::exchange(disk, disk->crash(1, left)));
    m.reset();
    open(outcome::aborted);  // it may be in doubt, and was not prepared for whoever decides
    EXPECT_EQ(get(r, 0, 6), "before");
  }
}

TEST_F(prepared, the_abort_cannot_be_logged) {
  transaction tx = m->begin();
  write(tx, 0, "first");
  tx.prepare("one");
  disk->inject({.kind = sim::operation::durable_write, .path = "/log", .error = EIO});
  tx.abort();
  EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
  expect_error(errc::outcome_unknown, {"close this memory"}, [&] { (void)m->begin(); });
  m.reset();
  open(outcome::aborted);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
}

// Nothing is prepared whose commit might not have space.
TEST_F(prepared, there_is_no_space) {
  region large = m->map("/large", {.create_length = 2 * mib});
  const std::string much(900 * kib, 'x');
  {
    transaction tx = m->begin();
    write(tx, large, 0, much);
    disk->inject({.kind = sim::operation::create, .count = sim::for_ever, .error = ENOSPC});
    expect_error(std::errc::no_space_on_device, {"/log"}, [&] { tx.prepare("one"); });
    disk->clear_faults();
    EXPECT_FALSE(tx.is_prepared());
    put(*m, r, 100, "other");
    tx.prepare("two");
    for (int n = 0; n < 3; ++n) m->truncate();
    disk->inject({.kind = sim::operation::create, .count = sim::for_ever, .error = ENOSPC});
    tx.commit();
    m->check();
  }
  crash();
  open(small_log());
  EXPECT_TRUE(get(m->map("/large"), 0, much.size()) == much);
}

// [rvm.prepared.log]
TEST_F(prepared, stays_in_the_log_as_long_as_it_has_no_outcome) {
  for (const outcome said : {outcome::aborted, outcome::committed}) {
    put(*m, r, 0, "before");
    put(*m, r, 100, "lazy", commit_mode::no_flush);  // in the batch of what is prepared
    transaction tx = m->begin();
    write(tx, 0, "raised");
    tx.prepare("payroll/17");
    for (int n = 0; n < 3; ++n) m->truncate();
    m->flush();
    m->check();
    EXPECT_EQ(get(r, 0, 6), "raised");
    crash();
    for (int n = 0; n < 3; ++n) {
      options asking = small_log();
      asking.in_doubt = [&](const prepared_transaction& what) -> outcome {
        EXPECT_EQ(what.global_id, "payroll/17");
        throw error(errc::closed, "the coordinator is away");
      };
      expect_error(errc::closed, {"away"}, [&] { open(asking); });
      open(support::reading());
      EXPECT_EQ(m->in_doubt().value().global_id, "payroll/17");
      EXPECT_EQ(get(r, 100, 4), "lazy");
      r.unmap();
      m->close();
    }
    open(said);
    EXPECT_EQ(get(r, 0, 6), said == outcome::committed ? "raised" : "before");
    put(*m, r, 0, "later!");
    m->truncate();
    put(*m, r, 200, "last");
    crash();
    open(small_log());
    EXPECT_EQ(get(r, 0, 6), "later!");
    EXPECT_EQ(get(r, 200, 4), "last");
  }
}

// Until it is durable, the commit may be lost, and must be found again.
TEST_F(prepared, stays_in_the_log_until_its_commit_is_durable) {
  transaction tx = m->begin();
  write(tx, 0, "first");
  tx.prepare("one");
  tx.commit(commit_mode::no_flush);
  (void)m->truncate_incrementally(mib);
  crash();
  open(outcome::committed);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(get(r, 0, 5), "first");
}

// The commit of one and the next one that is prepared are one write.
TEST_F(prepared, one_after_the_other_takes_one_write_each) {
  transaction first = m->begin();
  write(first, 0, "0");
  first.prepare("0");
  first.commit(commit_mode::no_flush);
  const auto before = m->stats().batches;
  for (int n = 1; n <= 10; ++n) {
    transaction tx = m->begin();
    write(tx, 0, std::to_string(n));
    tx.prepare(std::to_string(n));
    tx.commit(commit_mode::no_flush);
  }
  EXPECT_EQ(m->stats().batches - before, 10u);
  crash();
  open(outcome::committed);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].global_id, "10");
  EXPECT_EQ(get(r, 0, 2), "10");
}

TEST_F(prepared, finds_changes_by_itself_and_knows_pages_written_in_bulk) {
  for (const outcome said : {outcome::aborted, outcome::committed}) {
    region found = m->map("/found", {.create_length = 64 * kib, .tracking = tracking_mode::automatic});
    region large = m->map("/large", {.create_length = 64 * kib});
    const std::string bulk(2 * page, 'b');
    transaction tx = m->begin_automatic();
    found.data()[3 * page] = std::byte{'x'};
    std::memcpy(large.data() + page, bulk.data(), bulk.size());
    const std::array pieces = {std::as_bytes(std::span(bulk))};
    tx.write_bulk(large, page, pieces);
    tx.clear(large, 4 * page, page);
    tx.prepare("one");
    if (said == outcome::committed) found.data()[0] = std::byte{0};  // the same: reading and writing go on
    crash();
    open(said);
    region again = m->map("/found"), pages = m->map("/large");
    EXPECT_EQ(get(again, 3 * page, 1), said == outcome::committed ? "x" : std::string(1, 0));
    EXPECT_EQ(get(pages, page, bulk.size()) == bulk, said == outcome::committed);
  }
}

TEST_F(prepared, a_heap_takes_part) {
  {
    region in = m->map("/heap", {.create_length = 256 * kib});
    m->transact([&](transaction& tx) { recoverable_heap::format(tx, in); });
    recoverable_heap heap(in);
    transaction tx = m->begin();
    void* const kept = heap.allocate(tx, 100);
    void* const freed = heap.allocate(tx, 2000);
    tx.prepare("one");
    tx.commit();
    heap.check();
    EXPECT_EQ(heap.stats().objects, 2u);
    tx = m->begin();
    heap.deallocate(tx, kept);
    tx.prepare("two");
    tx.abort();
    tx = m->begin();
    heap.deallocate(tx, freed);
    tx.prepare("three");
    crash();
  }
  open(outcome::committed);
  region in = m->map("/heap");
  const recoverable_heap heap(in);
  heap.check();
  EXPECT_EQ(heap.stats().objects, 1u);
}

// Its commit is lost otherwise, with nothing that says so.
TEST_F(prepared, an_empty_one_makes_durable_what_was_committed_before) {
  for (const bool commits : {true, false}) {
    transaction tx = m->begin();
    write(tx, 0, commits ? "first" : "other");
    tx.prepare("one");
    tx.commit(commit_mode::no_flush);
    transaction nothing = m->begin();
    nothing.prepare("nothing");
    if (commits)
      nothing.commit(commit_mode::no_flush);
    else
      nothing.abort();
    crash();
    open(small_log());
    EXPECT_EQ(get(r, 0, 5), commits ? "first" : "other");
  }
}

TEST_F(prepared, what_another_one_has_prepared_stays) {
  for (const bool commits : {true, false}) {
    transaction nothing = m->begin(), tx = m->begin(), other = m->begin();
    nothing.prepare("nothing");
    write(tx, 0, "first");
    write(other, 100, "other");
    tx.prepare("one");
    if (commits)
      nothing.commit();
    else
      nothing.abort();
    expect_error(errc::in_doubt, {"prepared"}, [&] { other.commit(); });
    crash();
    open(outcome::committed);
    EXPECT_EQ(get(r, 0, 5), "first");
  }
}

// What was committed before a transaction was prepared, with commits left out that later ones cover; and what is prepared.
TEST_F(prepared, a_restore_has_what_became_durable_with_it) {
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
TEST_F(prepared, a_restore_makes_a_new_segment) {
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
TEST_F(prepared, a_restore_to_the_end_of_the_log_keeps_it) {
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
TEST_F(prepared, a_restore_goes_over_what_was_prepared) {
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

// --- Openings that fail ---

// Of a memory whose threads are at work.
TEST_F(prepared, an_opening_that_commits_it_fails) {
  {
    transaction tx = m->begin();
    write(tx, 0, std::string(12 * kib, 'x'));
    tx.prepare("one");
    crash();
  }
  int failed = 0;
  for (const auto kind : {sim::operation::durable_write, sim::operation::write, sim::operation::sync})
    for (std::uint64_t nth = 1; nth <= 12; ++nth) {
      const auto copy = disk->crash(1, sim::policy::drop_all);
      options how = small_log(copy.get());
      how.log.size = 64 * kib;
      how.tune.truncation_threshold = 0.01;
      how.in_doubt = [&](const prepared_transaction&) {
        copy->inject({.kind = kind, .nth = nth});
        return outcome::committed;
      };
      try {
        memory again("/log", how);
      } catch (const error&) {
        ++failed;
      }
    }
  EXPECT_GT(failed, 3);
}

TEST_F(prepared, a_segment_is_lost_and_given_up) {
  region other = m->map("/other", {.create_length = 64 * kib});
  transaction tx = m->begin();
  write(tx, 0, "first");
  write(tx, other, 0, "lost!");
  tx.prepare("one");
  crash();
  disk->remove("/other");
  expect_error(std::errc::no_such_file_or_directory, {"/other"}, [&] { open(outcome::committed); });
  options how = small_log();
  how.give_up_segments = true;
  how.in_doubt = [](const prepared_transaction&) { return outcome::committed; };
  open(how);
  EXPECT_EQ(get(r, 0, 5), "first");
  EXPECT_EQ(m->recovery().given_up, std::vector<std::string>{"/other"});
}

// Somebody reads the log, so that its space is not free; then the power goes again before the commit is durable.
TEST_F(prepared, stays_while_an_opening_makes_room_for_its_commit) {
  sim::disk first;
  options how = small_log(&first);
  how.background = false;
  how.log.size = 64 * kib;
  how.log.max_size = 128 * kib;
  how.tune.truncation_threshold = 2;
  const std::string much(14'500, 'x');
  {
    memory of("/log", how);
    region in = of.map("/segment", {.create_length = 128 * kib});
    for (int n = 0; n < 14; ++n) put(of, in, 0, std::string(3900, static_cast<char>('a' + n)));
    transaction tx = of.begin();
    write(tx, in, 64 * kib, much);
    tx.prepare("one");
    tx.leave_in_doubt();
  }
  const auto opened = [&](sim::disk& on) {
    how.disk = &on;
    how.in_doubt = [](const prepared_transaction&) { return outcome::committed; };
    memory again("/log", how);
    return get(again.map("/segment"), 64 * kib, much.size()) == much;
  };
  for (std::uint64_t operation = 1; operation < 60; ++operation) {
    const auto copy = first.crash(1, sim::policy::drop_all);
    const log_hold held = log_hold::take(*copy, "/log", "a reader");
    copy->crash_at(copy->operations() + operation);
    try {
      EXPECT_TRUE(opened(*copy));
    } catch (const sim::power_failure&) {
    }
    const auto after = copy->crash(1, sim::policy::drop_all);
    EXPECT_TRUE(opened(*after)) << "operation " << operation;
  }
}

// What is held is not free: the log may not grow further, and then nothing is prepared.
TEST_F(prepared, has_space_for_its_commit_beside_a_reader) {
  int refused = 0, committed = 0;
  for (int fill = 0; fill < 40; ++fill) {
    sim::disk on;
    options how = small_log(&on);
    how.background = false;
    how.log.size = how.log.max_size = 64 * kib;
    memory of("/log", how);
    region in = of.map("/segment", {.create_length = 64 * kib});
    put(of, in, 0, "x");
    const log_hold held = log_hold::take(on, "/log", "a reader");
    try {
      for (int n = 0; n < fill; ++n) put(of, in, 0, std::string(1500, 'y'));
    } catch (const error&) {
      continue;
    }
    transaction tx = of.begin();
    write(tx, in, 0, std::string(5000, 'z'));
    try {
      tx.prepare("one");
    } catch (const error&) {
      ++refused;
      continue;
    }
    EXPECT_NO_THROW(tx.commit()) << fill;
    ++committed;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(committed, 0);
}

// --- Bytes that are not right ---

// What was not written whole was not prepared.
TEST_F(prepared, damaged_bytes) {
  put(*m, r, 0, "before");
  transaction tx = m->begin();
  write(tx, 0, "raised");
  tx.prepare("one");
  crash();
  const auto file = disk->open("/log.1", os::access::read_write);
  std::vector<std::byte> all(file->size());
  ASSERT_EQ(file->read_at(0, all), all.size());
  const std::string_view text(reinterpret_cast<const char*>(all.data()), all.size());
  const std::size_t id = text.find("one"), value = text.find("raised");
  ASSERT_LT(id, value);
  ASSERT_LT(value, all.size());
  const std::size_t group = id / 512 * 512;
  for (std::size_t at = group; at < value + 6; ++at) {
    const auto copy = disk->crash(1, sim::policy::keep_all);
    {
      const auto damaged = copy->open("/log.1", os::access::read_write);
      const std::byte other = all[at] ^ std::byte{1};
      damaged->write_at(at, {&other, 1});
      damaged->sync();
    }
    options how = small_log(copy.get());
    memory again("/log", how);
    EXPECT_EQ(get(again.map("/segment"), 0, 6), "before") << at;
  }
}

// --- Crashes ---

// Somebody else decides, and remembers what it has decided. What it has decided to commit is there after each crash.
class two_phases {
 public:
  explicit two_phases(std::uint64_t seed) : random_(seed), automatic_(seed % 3 == 0), archived_(seed % 4 == 0) {}

  void run() {
    options how = small_log(disk_.get());
    how.background = false;
    how.log.size = 64 * kib;
    how.tune.truncation_threshold = draw(2) == 0 ? 0.1 : 0.9;
    if (archived_) how.archive = archive_options{};
    how.in_doubt = [&](const prepared_transaction& what) {
      EXPECT_FALSE(aborted_.contains(what.global_id)) << what.global_id << " was aborted";
      if (what.global_id == prepared_) must_be_in_doubt_ = false;
      ++asked_;
      return committed_.contains(what.global_id) ? outcome::committed : outcome::aborted;
    };
    memory m("/log", how);
    region r = m.map("/segment", {.create_length = 16 * kib,
                                  .tracking = automatic_ ? tracking_mode::automatic : tracking_mode::explicit_ranges});
    EXPECT_FALSE(must_be_in_doubt_) << prepared_ << " is gone";
    if (may_commit_ && r_is(r, next_)) now_ = next_;
    EXPECT_TRUE(r_is(r, now_)) << "after " << prepared_;
    may_commit_ = false;
    for (int n = 0; n < 12; ++n) change(m, r);
    r.unmap();
    m.close();
  }
  void crash_at(std::uint64_t operation) {
    const std::uint64_t off = disk_->operations() + operation;
    disk_->crash_at(off);
    try {
      run();
    } catch (const sim::power_failure&) {
    } catch (const error& e) {  // of an abort that could not be logged
      EXPECT_EQ(e.code(), errc::outcome_unknown) << e.what();
      EXPECT_GE(disk_->operations(), off) << e.what();
    }
    disk_ = disk_->crash(operation, draw(2) == 0 ? sim::policy::random : sim::policy::drop_all);
  }
  [[nodiscard]] int asked() const { return asked_; }
  [[nodiscard]] int truncated() const { return truncated_; }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

 private:
  using bytes = std::vector<char>;
  static bool r_is(const region& r, const bytes& expected) {
    return std::memcmp(r.data(), expected.data(), expected.size()) == 0;
  }
  void change(memory& m, region& r) {
    transaction tx = automatic_ ? m.begin_automatic() : m.begin();
    next_ = now_;
    for (std::uint64_t n = 1 + draw(5); n != 0; --n) {
      const std::uint64_t most = draw(3) == 0 ? 5000 : 200, length = 1 + draw(most), at = draw(next_.size() - length);
      const char with = static_cast<char>(random_());
      std::fill_n(next_.begin() + static_cast<std::ptrdiff_t>(at), length, with);
      if (!automatic_) tx.set_range(r.data() + at, length);
      std::memset(r.data() + at, with, length);
    }
    if (draw(4) == 0) {  // in one phase
      may_commit_ = true;
      tx.commit();
      now_ = next_;
      may_commit_ = false;
      return;
    }
    prepared_ = "tx/" + std::to_string(++number_);
    tx.prepare(prepared_);
    must_be_in_doubt_ = next_ != now_;  // otherwise nothing may be prepared
    if (draw(3) == 0) {
      m.truncate();
      ++truncated_;
    }
    if (draw(3) == 0) {
      must_be_in_doubt_ = false;
      tx.abort();
      m.require_usable();
      aborted_.insert(prepared_);
      return;
    }
    committed_.insert(prepared_);
    now_ = next_;
    must_be_in_doubt_ = false;
    tx.commit(draw(3) == 0 ? commit_mode::flush : commit_mode::no_flush);
    if (draw(3) == 0) (void)m.truncate_incrementally(mib);
    if (draw(8) == 0) m.truncate();
  }

  std::mt19937_64 random_;
  const bool automatic_, archived_;
  std::unique_ptr<sim::disk> disk_ = std::make_unique<sim::disk>();
  bytes now_ = bytes(16 * kib), next_ = now_;
  std::string prepared_;
  std::set<std::string> committed_, aborted_;  // what was decided; an abort that was not logged is not among these
  int number_ = 0, asked_ = 0, truncated_ = 0;
  bool must_be_in_doubt_ = false, may_commit_ = false;
};

TEST(prepared_model, a_crash_anywhere) {
  int asked = 0, truncated = 0;
  for (std::uint64_t seed = 1; seed <= testing::scaled(60); ++seed) {
    two_phases work(seed);
    for (int round = 0; round < 12; ++round) {
      work.crash_at(1 + work.draw(round == 0 ? 300 : 60));
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", round " << round;
        return;
      }
    }
    asked += work.asked();
    truncated += work.truncated();
  }
  EXPECT_GT(asked, 0);
  EXPECT_GT(truncated, 0);
  std::printf("%d transactions were in doubt; %d times the log was truncated meanwhile\n", asked, truncated);
}

}  // namespace
}  // namespace tenure::rvm
