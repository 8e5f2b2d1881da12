// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Two-phase commit: transactions that are prepared, and their outcome.
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/recoverable_heap.hpp>
#include <tenure/rvm.hpp>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "records/log_reader.hpp"
#include "records/prepared_record.hpp"
#include "rvm/prepared_memory.hpp"
#include "segments/segment.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::get, support::page, support::put, support::small_log, support::kib, support::mib;

struct prepared : testing::prepared_memory {};

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

// A region must say so to have the last page of a raw segment that ends within it.
TEST_F(prepared, ends_within_a_page) {
  const std::size_t length = page + 512;
  disk->install("/raw", std::vector<std::byte>(length));
  region raw = m->map("/raw", {.length = length, .raw = true});
  transaction tx = m->begin();
  write(tx, raw, page + 8, "behind");
  write(tx, 0, "raised");
  tx.prepare("payroll/18");
  crash();
  open(outcome::committed);
  EXPECT_EQ(get(r, 0, 6), "raised");
  const region again = m->map("/raw", {.length = length, .raw = true});
  EXPECT_EQ(get(again, page + 8, 6), "behind");
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
  const std::string much(450 * kib, 'x');
  {
    put(*m, large, 0, std::string(900 * kib, 'y'));
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
// [rvm.segment.in-log] So no other log takes a segment over that has a part of it.
TEST_F(prepared, its_segments_are_those_of_the_log) {
  put(*m, r, 0, "before");
  transaction tx = m->begin();
  write(tx, 0, "raised");
  tx.prepare("payroll/17");
  crash();
  std::uint64_t moments = 0;
  disk->on_operation([&](const sim::trace_entry& at) {
    const auto left = disk->crash(at.index, sim::policy::keep_all);
    const auto log = log_files::open_unlocked(*left, "/log");
    const log_tail end = find_tail(*log, log->status());
    if (!find_prepared(*log, {log->status().head, end.tail, end.last_group})) return;
    ++moments;
    EXPECT_EQ(read_segment_header(*left, "/segment").in_log, 1u) << "operation " << at.index;
  });
  open(outcome::committed);
  disk->on_operation({});
  EXPECT_GT(moments, 5u);
}

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
  const auto writes = m->stats().batches - before;
  EXPECT_GE(writes, 10u);
  EXPECT_LE(writes, 12u);  // before the log takes another file it has no room for two in one
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

// A log that cannot grow, and that somebody reads from its beginning on.
struct log_with_a_reader {
  explicit log_with_a_reader(std::uint64_t size) : of("/log", options_of(size)) {
    put(of, in, 0, "x");
    held.emplace(log_hold::take(on, "/log", "a reader"));
  }
  options options_of(std::uint64_t size) {
    options how = small_log(&on);
    how.background = false;
    how.log.size = how.log.max_size = size;
    return how;
  }

  sim::disk on;
  memory of;
  region in = of.map("/segment", {.create_length = 64 * kib});
  std::optional<log_hold> held;
};

// What is held is not free: the log may not grow further, and then nothing is prepared.
TEST_F(prepared, has_space_for_its_commit_beside_a_reader) {
  int refused = 0, committed = 0;
  for (int fill = 0; fill < 40; ++fill) {
    log_with_a_reader with(64 * kib);
    memory& of = with.of;
    region& in = with.in;
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

// Nobody else who commits meanwhile may need the room that was left for it.
TEST_F(prepared, others_take_no_room_from_its_commit) {
  int committed = 0, refused = 0;
  for (int fill = 0; fill < 40; ++fill) {
    log_with_a_reader with(128 * kib);
    memory& of = with.of;
    region& in = with.in;
    transaction tx = of.begin();
    try {
      for (int n = 0; n < fill; ++n) put(of, in, 0, std::string(1500, 'y'));
      write(tx, in, 0, std::string(5000, 'z'));
      tx.prepare("one");
    } catch (const error&) {
      continue;
    }
    const ticket done = tx.commit(commit_mode::no_flush);
    put(of, in, 16 * kib, std::string(9000, 'o'), commit_mode::no_flush);
    EXPECT_NO_THROW(of.wait(done)) << fill;
    ++committed;
    try {
      of.flush();
    } catch (const error&) {
      ++refused;
    }
  }
  EXPECT_GT(committed, 0);
  EXPECT_GT(refused, 0) << "there was room for both, always";
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

}  // namespace
}  // namespace tenure::rvm
