// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Two-phase commit: transactions that are prepared, and their outcome.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tenure/recoverable_heap.hpp>
#include <tenure/rvm.hpp>
#include <tenure/rvm/backup.hpp>

#include "log/checksum.hpp"
#include "records/prepared_file.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using support::expect_error, support::get, support::page, support::put, support::small_log, support::kib;

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
    EXPECT_TRUE(disk->exists("/log.prepared"));
    if (commits)
      tx.commit();
    else
      tx.abort();
    EXPECT_EQ(get(r, 0, 5), "first");
  }
  EXPECT_FALSE(disk->exists("/log.prepared"));
  put(*m, r, 10, "after");
  r.unmap();
  m->close();
  open(small_log());
  EXPECT_EQ(get(r, 0, 5), "first");
  EXPECT_EQ(get(r, 10, 5), "after");
}

// [rvm.prepared.file] [rvm.prepared.redo]
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
    EXPECT_FALSE(disk->exists("/log.prepared"));
    crash();
    open(small_log());
    EXPECT_EQ(get(r, 0, 6), said == outcome::committed ? "raised" : "before");
  }
}

// [rvm.prepared.resolved]
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
  EXPECT_FALSE(disk->exists("/log.prepared"));
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

TEST_F(prepared, the_file_cannot_be_written) {
  for (const auto kind : {sim::operation::create, sim::operation::write, sim::operation::sync}) {
    transaction tx = m->begin();
    write(tx, 0, "first");
    disk->inject({.kind = kind, .path = "prepared", .error = ENOSPC});
    expect_error(std::errc::no_space_on_device, {"/log.prepared"}, [&] { tx.prepare("one"); });
    EXPECT_FALSE(tx.is_prepared());
    put(*m, r, 100, "other");
    tx.prepare("two");
    tx.abort();
  }
}

TEST_F(prepared, the_file_cannot_be_removed) {
  transaction tx = m->begin();
  write(tx, 0, "first");
  tx.prepare("one");
  disk->inject({.kind = sim::operation::remove, .path = "prepared", .error = EIO});
  tx.abort();
  EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
  expect_error(errc::outcome_unknown, {"prepared", "close this memory"}, [&] { (void)m->begin(); });
  m.reset();
  open(outcome::aborted);
  EXPECT_EQ(get(r, 0, 5), std::string(5, 0));
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

// [rvm.prepared.none] The disk has all of the file, although it could not be synced.
TEST_F(prepared, what_could_not_be_prepared_is_not_in_doubt) {
  put(*m, r, 0, "before");
  for (const bool is_new : {true, false}) {
    if (!is_new) {
      transaction earlier = m->begin();
      write(earlier, 0, "before");
      earlier.prepare("earlier");
      earlier.commit();
    }
    transaction tx = m->begin();
    write(tx, 0, "first");
    disk->inject({.kind = is_new ? sim::operation::sync : sim::operation::durable_write,
                  .path = "prepared",
                  .error = EIO,
                  .bytes = page});
    expect_error(std::errc::io_error, {"/log.prepared"}, [&] { tx.prepare("one"); });
    tx.abort();
    disks.push_back(std::exchange(disk, disk->crash(1, sim::policy::keep_all)));
    m.reset();
    open(small_log());
    EXPECT_EQ(get(r, 0, 6), "before");
  }
  transaction earlier = m->begin();
  write(earlier, 0, "before");
  earlier.prepare("earlier");
  earlier.commit();
  transaction tx = m->begin();
  write(tx, 0, "first");
  disk->inject({.kind = sim::operation::durable_write, .path = "prepared", .error = EIO, .bytes = page});
  disk->inject({.kind = sim::operation::remove, .path = "prepared", .error = EIO});
  expect_error(errc::outcome_unknown, {"/log", "could not be removed", "open it again"}, [&] { tx.prepare("one"); });
  tx.abort();
  expect_error(errc::outcome_unknown, {"could not be removed"}, [&] { (void)m->begin(); });
  m.reset();
  open(outcome::aborted);
  EXPECT_EQ(get(r, 0, 6), "before");
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

TEST_F(prepared, the_file_of_another_one_stays) {
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

// Otherwise the file that is removed could be that of the next one.
TEST_F(prepared, nothing_else_is_prepared_before_the_file_is_gone) {
  transaction tx = m->begin(), other = m->begin();
  write(tx, 0, "first");
  write(other, 100, "other");
  tx.prepare("one");
  int removals = 0;
  disk->on_operation([&](const sim::trace_entry& done) {
    if (done.kind != sim::operation::remove) return;
    ++removals;
    expect_error(errc::in_doubt, {"prepared"}, [&] { other.prepare("two"); });
  });
  tx.abort();
  EXPECT_EQ(removals, 1);
  disk->on_operation({});
  other.prepare("two");
  EXPECT_TRUE(disk->exists("/log.prepared"));
}

// [rvm.restore.in-doubt]
TEST_F(prepared, a_restore_to_the_end_of_the_log_keeps_it) {
  put(*m, r, 0, "before");
  m->backup("/backup");
  put(*m, r, 100, "later");
  transaction tx = m->begin();
  write(tx, 0, "raised");
  tx.prepare("payroll/17");
  const auto restored = [&](const std::string& to) {
    restore("/backup", to, {.log = "/log", .disk = disk.get()});
    asked.clear();
    options how = small_log(disk.get());
    how.in_doubt = [this](const prepared_transaction& what) {
      asked.push_back(what);
      return outcome::committed;
    };
    memory again(to + "/log", how);
    const region in = again.map(to + "/segment");
    EXPECT_EQ(get(in, 100, 5), "later");
    return get(in, 0, 6);
  };
  EXPECT_EQ(restored("/restored"), "raised");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].global_id, "payroll/17");
  tx.commit();
  EXPECT_EQ(restored("/after"), "raised");
  EXPECT_TRUE(asked.empty());
}

// --- Files that are not right ---

TEST_F(prepared, files_of_others_and_damaged_ones) {
  transaction tx = m->begin();
  write(tx, 0, "first");
  tx.prepare("one");
  crash();
  std::vector<std::byte> right(1000);
  {
    const auto file = disk->open("/log.prepared", os::access::read_only);
    right.resize(file->read_at(0, right));
    prepared_header h;
    std::memcpy(&h, right.data(), sizeof h);
    right.resize(static_cast<std::size_t>(h.length));
  }
  const auto with = [&](std::vector<std::byte> bytes) {
    const auto file = disk->open("/log.prepared", os::access::read_write);
    file->resize(0);
    file->write_at(0, bytes);
    file->sync();
  };
  const auto header = [&](auto&& change) {
    std::vector<std::byte> bytes = right;
    prepared_header h;
    std::memcpy(&h, bytes.data(), sizeof h);
    change(h);
    h.checksum = 0;
    std::memcpy(bytes.data(), &h, sizeof h);
    h.checksum = crc32c(bytes);
    std::memcpy(bytes.data(), &h, sizeof h);
    return bytes;
  };
  with(header([](prepared_header& h) { h.version = 9; }));
  expect_error(errc::wrong_version, {"/log.prepared", "9"}, [&] { open(outcome::committed); });
  with(header([](prepared_header& h) { h.log_id[0] ^= std::byte{1}; }));
  expect_error(errc::wrong_log, {"/log.prepared", "another log"}, [&] { open(outcome::committed); });
  with(header([](prepared_header& h) { h.tail += 512; }));
  expect_error(errc::wrong_log, {"/log.prepared", "older"}, [&] { open(outcome::committed); });
  for (const auto& change : std::vector<void (*)(prepared_header&)>{
           [](prepared_header& h) { h.ranges = 2; }, [](prepared_header& h) { h.ranges = 0; },
           [](prepared_header& h) { h.segments = 2; }, [](prepared_header& h) { h.label = 4000; }}) {
    with(header(change));
    expect_error(errc::damaged, {"/log.prepared", "no sense"}, [&] { open(outcome::committed); });
  }
  // Writing it was interrupted: nothing was prepared.
  for (std::size_t at = 0; at < right.size(); at += 7) {
    std::vector<std::byte> bytes = right;
    bytes[at] ^= std::byte{1};
    with(bytes);
    open(outcome::committed);
    EXPECT_EQ(get(r, 0, 5), std::string(5, 0)) << at;
    EXPECT_FALSE(disk->exists("/log.prepared"));
    r.unmap();
    m->close();
    disk->create("/log.prepared", 0600)->sync();
  }
  // The right one counts as long as nothing was committed since.
  with(right);
  open(outcome::committed);
  EXPECT_EQ(get(r, 0, 5), "first");
  r.unmap();
  m->close();
  disk->create("/log.prepared", 0600)->sync();
  with(right);
  open(outcome::aborted);
  EXPECT_EQ(get(r, 0, 5), "first");
}

// --- Crashes ---

// Somebody else decides: commits what is prepared, now and then. Its answer is that of the last decision that it has made.
class two_phases {
 public:
  explicit two_phases(std::uint64_t seed) : random_(seed), automatic_(seed % 3 == 0) {}

  void run() {
    options how = small_log(disk_.get());
    how.background = false;
    how.log.size = 128 * kib;
    how.in_doubt = [this](const prepared_transaction& what) {
      EXPECT_EQ(what.global_id, prepared_);
      EXPECT_TRUE(may_be_in_doubt_) << what.global_id << " was aborted";
      ++asked_;
      if (decided_) now_ = next_;
      return decided_ ? outcome::committed : outcome::aborted;
    };
    const int asked = asked_;
    memory m("/log", how);
    region r = m.map("/segment", {.create_length = 16 * kib,
                                  .tracking = automatic_ ? tracking_mode::automatic : tracking_mode::explicit_ranges});
    if (asked_ == asked) {
      if ((may_commit_ || decided_) && r_is(r, next_)) now_ = next_;
      EXPECT_TRUE(!must_be_in_doubt_ || (decided_ && r_is(r, next_))) << "what was prepared is gone";
    }
    EXPECT_TRUE(r_is(r, now_)) << "after " << prepared_;
    must_be_in_doubt_ = may_be_in_doubt_ = may_commit_ = decided_ = false;
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
    } catch (const error& e) {  // of the file that could not be removed
      EXPECT_EQ(e.code(), errc::outcome_unknown) << e.what();
      EXPECT_GE(disk_->operations(), off) << e.what();
    }
    disk_ = disk_->crash(operation, draw(2) == 0 ? sim::policy::random : sim::policy::drop_all);
  }
  [[nodiscard]] int asked() const { return asked_; }
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
      const std::uint64_t at = draw(next_.size() - 200), length = 1 + draw(200);
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
    may_be_in_doubt_ = true;
    tx.prepare(prepared_);
    must_be_in_doubt_ = true;
    if (draw(3) == 0) {
      must_be_in_doubt_ = false;
      tx.abort();
      m.require_usable();
      may_be_in_doubt_ = false;
      return;
    }
    decided_ = true;
    tx.commit(draw(2) == 0 ? commit_mode::no_flush : commit_mode::flush);
    m.flush();
    now_ = next_;
    must_be_in_doubt_ = may_be_in_doubt_ = decided_ = false;
  }

  std::mt19937_64 random_;
  const bool automatic_;
  std::unique_ptr<sim::disk> disk_ = std::make_unique<sim::disk>();
  bytes now_ = bytes(16 * kib), next_ = now_;
  std::string prepared_;
  int number_ = 0, asked_ = 0;
  // What a crash may leave: prepared or not, in doubt, or committed.
  bool must_be_in_doubt_ = false, may_be_in_doubt_ = false, may_commit_ = false, decided_ = false;
};

TEST(prepared_model, a_crash_anywhere) {
  int asked = 0;
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
  }
  EXPECT_GT(asked, 0);
  std::printf("%d transactions were in doubt\n", asked);
}

}  // namespace
}  // namespace tenure::rvm
