// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Storage that fails: an operation either throws and nothing acknowledged is lost, or it succeeds. Transactions stay
// abortable after every error, and a memory whose log failed never accepts a commit again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>

#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"
#include "support/workload.hpp"

namespace tenure::rvm::testing {
namespace {

// Opens what is on the disk as a new process would: without a crash, so that what was not synced is still there. Power
// may then go at any time.
std::string judge_reopening(sim::disk& disk, const layout& of, const model& expected, std::uint64_t seed) {
  std::string wrong;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (wrong.empty())
      wrong = judge_crash(disk, of, expected, seed * 16 + at.index % 16,
                          at.index % 3 == 0 ? sim::policy::drop_all : sim::policy::random);
    if (!wrong.empty() && wrong.find("while reopening") == std::string::npos) wrong += " while reopening";
  });
  try {
    const auto verdict = expected.judge(recovered_image(disk, of));
    if (!verdict.empty()) wrong = verdict + ", reopened on the same disk";
  } catch (const std::exception& e) {
    wrong = std::string("reopening failed: ") + e.what();
  }
  disk.on_operation({});
  return wrong;
}

struct outcome {
  std::string wrong;
  bool hit = false;
  std::size_t errors = 0;
};

outcome run_with_fault(const layout& where, const workload_options& how, const sim::fault& what) {
  outcome result;
  sim::disk disk;
  install_raw_segments(disk, where);
  const auto number = disk.inject(what);
  model expected(where);
  try {
    workload user(disk, where, expected, how);
    result.errors = user.run_through_errors().size();
    result.hit = disk.hits(number) != 0;
    disk.clear_faults();
    for (const auto policy : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all})
      if (result.wrong.empty()) result.wrong = judge_crash(disk, where, expected, how.seed + what.nth * 8, policy);
  } catch (const std::exception& e) {
    result.wrong = std::string("the workload failed: ") + e.what();
    return result;
  }
  if (result.wrong.empty()) result.wrong = judge_reopening(disk, where, expected, how.seed + what.nth);
  if (result.wrong.empty()) {
    const auto verdict = expected.judge(recovered_and_used(disk, where, 1));
    if (!verdict.empty()) result.wrong = verdict + ", reopened again";
  }
  return result;
}

class failing : public ::testing::TestWithParam<sim::operation> {};

// Every operation of that kind in turn.
TEST_P(failing, once) {
  const sim::operation kind = GetParam();
  std::uint64_t runs = 0, errors = 0;
  for (std::uint64_t seed = 1; seed <= scaled(7); ++seed) {
    layout where = seed == 6 ? bulk_layout() : seed == 7 ? paged_layout() : small_layout();
    where.tune.truncation_threshold = seed % 2 == 0 ? 0.3 : 2;
    if (seed == 3) where.log.max_size = 1 << 20;
    workload_options how{.seed = seed,
                         .steps = seed == 7 ? std::uint64_t{40} : 120,
                         .longest_range = seed == 3 ? std::uint64_t{60000} : 5000,
                         .automatic = seed == 4 || seed == 5,
                         .paged = seed == 7};
    std::vector<sim::fault> kinds = {{.kind = kind, .error = EIO}};
    if (kind == sim::operation::write || kind == sim::operation::durable_write) {
      kinds.push_back({.kind = kind, .error = ENOSPC, .bytes = 700});
      kinds.push_back({.kind = kind, .error = EIO, .bytes = sim::for_ever});
      kinds.push_back({.kind = kind, .count = sim::for_ever, .error = ENOSPC});
    } else if (kind == sim::operation::sync) {
      kinds.push_back({.kind = kind, .what = sim::effect::lose_writes});
      kinds.push_back({.kind = kind, .what = sim::effect::keep_unsynced});
    } else if (kind == sim::operation::read) {
      kinds.push_back({.kind = kind, .what = sim::effect::short_read, .bytes = 100});
    } else {
      kinds.push_back({.kind = kind, .count = sim::for_ever, .error = ENOSPC});
    }
    for (const auto& what : kinds) {
      const std::uint64_t stride = runs > 300 ? 3 : 1;
      for (std::uint64_t n = 1;; n += stride) {
        sim::fault fault = what;
        fault.nth = n;
        SCOPED_TRACE("workload seed " + std::to_string(seed) + ", number " + std::to_string(n) + ", effect " +
                     std::to_string(static_cast<int>(fault.what)) + ", bytes " + std::to_string(fault.bytes) +
                     ", count " + std::to_string(fault.count) + ", error " + std::to_string(fault.error));
        const auto result = run_with_fault(where, how, fault);
        ASSERT_EQ(result.wrong, "") << "workload seed " << seed << ", " << sim::name_of(kind) << " number " << n
                                    << ", effect " << static_cast<int>(fault.what) << ", error " << fault.error
                                    << ", bytes " << fault.bytes << ", count " << fault.count;
        if (!result.hit) break;
        ++runs;
        errors += result.errors;
      }
    }
  }
  std::cout << "  faults: " << runs << ", errors seen: " << errors << '\n';
  EXPECT_GT(runs, 0U);
  EXPECT_GT(errors, 0U);
}

INSTANTIATE_TEST_SUITE_P(each, failing,
                         ::testing::Values(sim::operation::write, sim::operation::durable_write, sim::operation::sync,
                                           sim::operation::allocate, sim::operation::create, sim::operation::rename,
                                           sim::operation::sync_directory, sim::operation::read, sim::operation::map,
                                           sim::operation::open),
                         [](const auto& kind) {
                           std::string name = sim::name_of(kind.param);
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// --- One fault, looked at closely ---

// A memory with one segment on a simulated disk.
struct store {
  explicit store(std::uint64_t log_size = 64 << 10, std::uint64_t max_size = 64 << 10) {
    where.segments = {{"/store/a.seg", 1 << 20, false}};
    where.log = {.size = log_size, .max_size = max_size};
    where.tune.truncation_threshold = 2;
  }
  void open() {
    m.emplace(where.log_path, where.how(disk));
    r = m->map(where.segments[0].path, {.create_length = where.segments[0].length});
  }
  void close() {
    m.reset();
    r = {};
  }
  std::uint64_t& word(std::size_t n) { return r.at<std::uint64_t>(n * 8); }
  void commit_word(std::size_t n, std::uint64_t value, commit_mode mode = commit_mode::flush) {
    m->transact([&](transaction& tx) { tx.modify(word(n), value); }, mode);
  }

  sim::disk disk;
  layout where;
  std::optional<memory> m;
  region r;
};

template <class F>
std::error_code code_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.code();
  }
  return {};
}

void expect_refusal(store& s) {
  EXPECT_EQ(code_of([&] { (void)s.m->begin(); }), errc::outcome_unknown);
  EXPECT_EQ(code_of([&] { s.m->truncate(); }), errc::outcome_unknown);
  EXPECT_EQ(code_of([&] { (void)s.m->truncate_incrementally(1000); }), errc::outcome_unknown);
  EXPECT_EQ(code_of([&] { s.m->wait({1000}); }), errc::outcome_unknown);
}

// In the middle of a file a batch is one durable write; around its end two writes and two syncs.
class failed_log_write : public ::testing::TestWithParam<sim::fault> {};

TEST_P(failed_log_write, ends_all_commits_for_ever) {
  store s;
  s.open();
  while (s.m->stats().log_size < s.where.log.size) s.commit_word(1, 1);
  auto bystander = s.m->begin();
  bystander.set_range(s.word(500));
  s.word(500) = 77;
  const auto fault = s.disk.inject(GetParam());
  std::uint64_t acknowledged = 0;
  std::error_code code;
  while (!code && acknowledged < 1000) {
    auto tx = s.m->begin();
    tx.modify(s.word(0), acknowledged + 1);
    std::uint64_t filler[1100] = {};  // three blocks of 16 in the log: some batch lies around its end
    tx.modify(&s.word(1000), filler, sizeof filler);
    code = code_of([&] { tx.commit(); });
    if (!code) {
      ++acknowledged;
      if (acknowledged % 10 == 0) s.m->truncate();
      continue;
    }
    ASSERT_TRUE(tx.is_open());
    EXPECT_EQ(code_of([&] { tx.commit(); }), errc::outcome_unknown);
    EXPECT_EQ(code_of([&] { tx.commit(commit_mode::no_flush); }), errc::outcome_unknown);
    EXPECT_EQ(s.word(0), acknowledged + 1);
    tx.abort();
    EXPECT_EQ(s.word(0), acknowledged);
  }
  EXPECT_EQ(s.disk.hits(fault), 1U);
  EXPECT_EQ(code, errc::outcome_unknown);
  // The device is well again, but what the kernel still holds is not known: nothing may succeed.
  s.disk.clear_faults();
  expect_refusal(s);
  EXPECT_EQ(code_of([&] { bystander.commit(); }), errc::outcome_unknown);
  EXPECT_EQ(code_of([&] { bystander.commit(commit_mode::no_flush); }), errc::outcome_unknown);
  bystander.abort();
  EXPECT_EQ(s.word(500), 0U);
  const auto crashed = s.disk.crash(1, sim::policy::drop_all);
  s.close();
  s.open();
  EXPECT_TRUE(s.word(0) == acknowledged || s.word(0) == acknowledged + 1) << s.word(0) << " of " << acknowledged;
  EXPECT_EQ(s.word(500), 0U);
  s.commit_word(1, 5);
  const auto found = recovered_image(*crashed, s.where);
  std::uint64_t value;
  std::memcpy(&value, found.data(), 8);
  EXPECT_TRUE(value == acknowledged || value == acknowledged + 1) << value << " of " << acknowledged;
}

INSTANTIATE_TEST_SUITE_P(
    all, failed_log_write,
    ::testing::Values(
        sim::fault{.kind = sim::operation::durable_write, .path = ".log", .nth = 5},
        sim::fault{.kind = sim::operation::durable_write, .path = ".log", .nth = 5, .error = ENOSPC, .bytes = 512},
        sim::fault{.kind = sim::operation::durable_write, .path = ".log", .nth = 5, .bytes = sim::for_ever},
        sim::fault{.kind = sim::operation::sync, .path = ".log", .nth = 1},
        sim::fault{.kind = sim::operation::sync, .path = ".log", .nth = 1, .what = sim::effect::lose_writes},
        sim::fault{.kind = sim::operation::sync, .path = ".log", .nth = 1, .what = sim::effect::keep_unsynced},
        sim::fault{.kind = sim::operation::write, .path = ".log", .nth = 2}));

// A file of the log that was freed could not be taken for new bytes. Whoever truncates then, with a queue that begins at the old head,
// would write that head again, and give the file away.
TEST(failed_truncation, is_the_last_one) {
  store s(1 << 20, 1 << 20);
  s.open();
  constexpr std::size_t pages = 40, words = 512;
  auto bystander = s.m->begin();
  for (std::size_t n = 0; n < pages; ++n)
    s.m->transact([&](transaction& tx) {
      for (std::size_t at = 0; at < words; ++at) tx.modify(s.word(n * words + at), std::uint64_t{n + 1});
    });
  s.disk.inject({.kind = sim::operation::durable_write, .path = ".log.", .error = ENOSPC, .to = 4096});
  EXPECT_EQ(code_of([&] { (void)s.m->truncate_incrementally(pages / 2 * 4096); }), errc::outcome_unknown);
  s.disk.clear_faults();
  expect_refusal(s);
  bystander.set_range(s.word(5 * words));  // the head cannot pass the page
  tuning due = s.where.tune;
  due.truncation_threshold = 0;
  s.m->set_tuning(due);
  bystander.abort();
  s.close();
  s.open();
  for (std::size_t n = 0; n < pages; ++n) EXPECT_EQ(s.word(n * words + words - 1), n + 1);
}

// The process is killed between the writing of a batch and its sync, so that the next one finds in the page cache what
// is not on the disk. If power goes while that one recovers, the batch is there in all segments or in none.
TEST(reopening, makes_an_unsynced_batch_durable_before_replaying_it) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    store s;
    s.open();
    s.commit_word(0, 1);
    s.disk.inject({.kind = sim::operation::durable_write, .path = ".log", .bytes = sim::for_ever});
    {
      auto tx = s.m->begin();
      for (std::size_t page = 0; page < 200; page += 2) tx.modify(s.word(page * 512), std::uint64_t{2});
      EXPECT_EQ(code_of([&] { tx.commit(); }), errc::outcome_unknown);
      tx.abort();
    }
    s.disk.clear_faults();
    s.close();
    std::unique_ptr<sim::disk> left;
    std::uint64_t n = 0;
    s.disk.on_operation([&](const sim::trace_entry&) {
      if (++n == seed % 6 + 1) left = s.disk.crash(seed, sim::policy::random);
    });
    s.open();
    ASSERT_NE(left, nullptr);
    s.disk.on_operation({});
    const auto found = recovered_image(*left, s.where);
    for (std::size_t page = 2; page < 200; page += 2)
      ASSERT_EQ(found[page * 4096], found[0] == std::byte{2} ? std::byte{2} : std::byte{0})
          << "seed " << seed << ", page " << page;
  }
}

TEST(segment_sync, failing_ends_all_commits) {
  for (const auto what : {sim::effect::fail, sim::effect::lose_writes, sim::effect::keep_unsynced}) {
    store s;
    s.open();
    s.commit_word(0, 1);
    s.commit_word(1, 2, commit_mode::no_flush);
    auto open = s.m->begin();
    open.modify(s.word(2000), std::uint64_t{3});
    s.disk.inject({.kind = sim::operation::sync, .path = ".seg", .what = what});
    EXPECT_EQ(code_of([&] { s.m->truncate(); }), errc::outcome_unknown);
    expect_refusal(s);
    EXPECT_EQ(code_of([&] { open.commit(); }), errc::outcome_unknown);
    open.abort();
    EXPECT_EQ(s.word(2000), 0U);
    for (const auto policy : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
      const auto found = recovered_image(*s.disk.crash(1, policy), s.where);
      EXPECT_EQ(found[0], std::byte{1});
      EXPECT_EQ(found[8], std::byte{2});
    }
    s.close();
    s.open();
    EXPECT_EQ(s.word(0), 1U);
    EXPECT_EQ(s.word(1), 2U);
    EXPECT_EQ(s.word(2000), 0U);
  }
}

// The status block is written by truncation; the log itself is well.
TEST(status_write, failing_ends_all_commits) {
  for (const std::uint64_t copy : {1U, 2U})
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{512}, sim::for_ever}) {
      store s;
      s.open();
      s.commit_word(0, 1);
      s.disk.inject({.kind = sim::operation::durable_write, .path = ".log", .nth = copy, .bytes = bytes});
      EXPECT_EQ(code_of([&] { s.m->truncate(); }), errc::outcome_unknown);
      s.disk.clear_faults();
      expect_refusal(s);
      for (std::uint64_t seed = 0; seed < 8; ++seed)
        EXPECT_EQ(recovered_image(*s.disk.crash(seed), s.where)[0], std::byte{1});
      s.close();
      s.open();
      EXPECT_EQ(s.word(0), 1U);
    }
}

TEST(closing, that_fails_loses_nothing) {
  for (std::uint64_t nth = 1; nth < 8; ++nth) {
    store s;
    s.open();
    s.commit_word(0, 1);
    s.commit_word(1, 2, commit_mode::no_flush);
    s.m->flush();
    const auto fault = s.disk.inject({.nth = nth});  // every kind of operation
    (void)code_of([&] { s.m->close(); });
    EXPECT_TRUE(nth > 4 || s.disk.hits(fault) == 1);
    s.disk.clear_faults();
    EXPECT_EQ(code_of([&] { (void)s.m->begin(); }), errc::closed);
    EXPECT_EQ(recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where)[8], std::byte{2});
    s.close();
    s.open();
    EXPECT_EQ(s.word(0), 1U);
    EXPECT_EQ(s.word(1), 2U);
  }
}

// A directory that cannot be synced when a file is made: the file is there, but its name is not durable yet. Whoever
// opens it afterwards relies on the name.
TEST(directory_sync, failing_at_creation_is_made_up_for) {
  for (const char* const directory : {"/store", "/elsewhere"}) {  // of the log, of the segment
    store s;
    s.where.segments[0].path = "/elsewhere/a.seg";
    const auto fault = s.disk.inject({.kind = sim::operation::sync_directory, .path = directory});
    for (int tries = 0; tries < 3 && code_of([&] { s.open(); }); ++tries) s.close();
    ASSERT_EQ(s.disk.hits(fault), 1U);
    ASSERT_TRUE(s.m.has_value());
    s.commit_word(0, 1);
    EXPECT_EQ(recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where)[0], std::byte{1});
  }
}

// The new file is not used, and nothing has changed.
TEST(directory_sync, failing_when_the_log_grows_refuses_the_commit) {
  // A segment beside the log has its own name synced, and with it the log's.
  for (const char* const segment : {"/store/a.seg", "/elsewhere/a.seg"}) {
    store s(64 << 10, 4 << 20);
    s.where.segments[0].path = segment;
    s.open();
    s.commit_word(0, 1);
    {
      auto tx = s.m->begin();
      tx.set_range(s.r.data() + 4096, 200000);
      std::memset(s.r.data() + 4096, 9, 200000);
      s.disk.inject({.kind = sim::operation::sync_directory});
      EXPECT_EQ(code_of([&] { tx.commit(); }), std::errc::io_error);
      tx.abort();
    }
    s.commit_word(8, 1);
    const auto crashed = s.disk.crash(1, sim::policy::drop_all);
    s.close();
    s.open();
    EXPECT_EQ(s.word(0), 1U);
    s.commit_word(0, 2);
    EXPECT_EQ(recovered_image(*crashed, s.where)[0], std::byte{1});
    EXPECT_EQ(recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where)[0], std::byte{2});
  }
}

// Names that were not synced are lost with everything that builds on them; what was acknowledged never is.
TEST(directory_entries, lost_at_a_crash_are_made_again) {
  store s;
  std::vector<std::unique_ptr<sim::disk>> crashed;
  s.disk.on_operation([&](const sim::trace_entry& at) {
    crashed.push_back(s.disk.crash(at.index, sim::policy::drop_all));
    crashed.push_back(s.disk.crash(at.index, sim::policy::random));
  });
  s.open();
  s.disk.on_operation({});
  EXPECT_GT(crashed.size(), 10U);
  for (auto& disk : crashed) EXPECT_EQ(recovered_and_used(*disk, s.where, 1), image(s.where.total()));
}

// A header that a killed process has written but not synced says that the segment has changes in the log. After the
// next crash it may not.
TEST(segment_header, that_was_not_synced_is_written_again) {
  store s;
  s.open();
  s.disk.inject({.kind = sim::operation::durable_write, .path = ".seg", .bytes = sim::for_ever});
  {
    auto tx = s.m->begin();
    tx.modify(s.word(0), std::uint64_t{1});
    EXPECT_TRUE(code_of([&] { tx.commit(); }));
    tx.abort();
  }
  s.disk.clear_faults();
  s.close();
  s.open();
  s.commit_word(0, 2);
  EXPECT_EQ(recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where)[0], std::byte{2});
}

TEST(full_disk, when_a_log_is_made) {
  for (const auto kind : {sim::operation::allocate, sim::operation::write}) {
    store s;
    s.disk.inject({.kind = kind, .error = ENOSPC});
    EXPECT_EQ(code_of([&] { s.open(); }), std::errc::no_space_on_device);
    EXPECT_TRUE(s.disk.names().empty()) << "something was left behind";
    s.open();
    s.commit_word(0, 1);
  }
}

TEST(full_disk, when_a_segment_is_made) {
  store s;
  s.m.emplace(s.where.log_path, s.where.how(s.disk));
  const auto before = s.disk.names();
  s.disk.inject({.kind = sim::operation::allocate, .nth = 2, .error = ENOSPC});
  EXPECT_EQ(code_of([&] { s.m->create_segment("/store/a.seg", {.length = 1 << 20}); }), std::errc::no_space_on_device);
  EXPECT_EQ(s.disk.names(), before) << "something was left behind";
  s.m->create_segment("/store/a.seg", {.length = 1 << 20});
}

TEST(full_disk, when_the_log_grows) {
  for (const auto kind : {sim::operation::allocate, sim::operation::write, sim::operation::create}) {
    store s(64 << 10, 4 << 20);
    s.open();
    s.commit_word(0, 1);
    s.m->truncate();
    auto tx = s.m->begin();
    tx.set_range(s.r.data() + 4096, 200000);
    std::memset(s.r.data() + 4096, 9, 200000);
    s.disk.inject({.kind = kind, .error = ENOSPC});
    EXPECT_EQ(code_of([&] { tx.commit(); }), std::errc::no_space_on_device) << sim::name_of(kind);
    // Nothing is broken: others go on, and this one can be tried again.
    s.commit_word(0, 2);
    EXPECT_EQ(recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where)[0], std::byte{2});
    tx.commit();
    const auto found = recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where);
    EXPECT_EQ(found[0], std::byte{2});
    EXPECT_EQ(found[4096 + 199999], std::byte{9});
    EXPECT_EQ(s.m->stats().log_grown, 1U);
    for (const auto& name : s.disk.names()) EXPECT_FALSE(name.ends_with("-new")) << name;
  }
}

TEST(full_disk, in_a_segment_keeps_everything_in_the_log) {
  store s;
  s.open();
  s.commit_word(0, 1);
  const auto fault =
      s.disk.inject({.kind = sim::operation::write, .path = ".seg", .count = sim::for_ever, .error = ENOSPC});
  EXPECT_EQ(code_of([&] { s.m->truncate(); }), std::errc::no_space_on_device);
  EXPECT_EQ(s.disk.hits(fault), 1U);
  std::uint64_t acknowledged = 1;
  std::error_code code;
  while (!code && acknowledged < 100) {
    auto tx = s.m->begin();
    tx.modify(s.word(0), acknowledged + 1);
    code = code_of([&] { tx.commit(); });
    if (code)
      tx.abort();
    else
      ++acknowledged;
  }
  EXPECT_EQ(code, errc::log_stuck);
  EXPECT_EQ(s.word(0), acknowledged);
  EXPECT_EQ(code_of([&] { (void)s.m->begin(); }), errc::log_stuck);
  s.disk.clear_faults();
  const auto crashed = s.disk.crash(1, sim::policy::drop_all);
  s.close();
  s.open();
  EXPECT_EQ(s.word(0), acknowledged);
  EXPECT_EQ(recovered_image(*crashed, s.where)[0], static_cast<std::byte>(acknowledged));
}

TEST(reading, that_fails_in_recovery_changes_nothing_in_the_log) {
  store s;
  s.open();
  for (std::size_t i = 0; i < 8; ++i) s.commit_word(i * 700, i + 1);
  for (const auto what : {sim::effect::fail, sim::effect::short_read})
    for (std::uint64_t nth = 1;; ++nth) {
      const auto crashed = s.disk.crash(1, sim::policy::drop_all);
      const auto before = crashed->current_bytes(s.where.log_path);
      const auto fault = crashed->inject({.kind = sim::operation::read, .nth = nth, .what = what, .bytes = 16});
      const auto code = code_of([&] { memory m(s.where.log_path, s.where.how(*crashed)); });
      const bool hit = crashed->hits(fault) != 0;
      // A short read of one copy of a header is made up for by the other.
      EXPECT_TRUE(!hit || code || what == sim::effect::short_read) << "read " << nth << " failed and nobody noticed";
      EXPECT_TRUE(!code || crashed->current_bytes(s.where.log_path) == before) << "read " << nth;
      crashed->clear_faults();
      const auto found = recovered_image(*crashed, s.where);
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(found[i * 700 * 8], static_cast<std::byte>(i + 1));
      if (!hit) {
        EXPECT_GT(nth, 3U);
        break;
      }
    }
}

// A read that fails while the checksums of a page's neighbours are fetched must not lose them.
TEST(reading, that_fails_in_truncation_can_be_repeated) {
  for (const auto what : {sim::effect::fail, sim::effect::short_read})
    for (std::uint64_t nth = 1; nth < 6; ++nth) {
      store s;
      s.open();
      s.commit_word(0, 1);
      s.m->truncate();
      s.commit_word(600, 2);
      const auto fault = s.disk.inject({.kind = sim::operation::read, .nth = nth, .what = what, .bytes = 8});
      const auto code = code_of([&] { s.m->truncate(); });
      EXPECT_TRUE(nth > 3 || code) << "read " << nth << " failed and nobody noticed";
      EXPECT_TRUE(!code || s.disk.hits(fault) == 1);
      s.disk.clear_faults();
      s.m->truncate();
      EXPECT_EQ(recovered_image(*s.disk.crash(1, sim::policy::drop_all), s.where)[600 * 8], std::byte{2});
      s.commit_word(600, 3);
    }
}

TEST(errors, leave_a_transaction_abortable) {
  store s;
  s.open();
  auto tx = s.m->begin();
  tx.modify(s.word(0), std::uint64_t{1});
  int elsewhere = 0;
  EXPECT_EQ(code_of([&] { tx.set_range(elsewhere); }), errc::not_mapped);
  EXPECT_EQ(code_of([&] { tx.set_range(s.r.data() + s.r.size() - 4, 8); }), errc::partly_mapped);
  tx.set_range(s.r.data() + 4096, 300000);
  std::memset(s.r.data() + 4096, 1, 300000);
  try {
    tx.commit();
    ADD_FAILURE() << "a transaction that does not fit was committed";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::too_big);
    EXPECT_NE(std::string(e.what()).find("65536"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("300008"), std::string::npos) << e.what();
  }
  tx.abort();
  EXPECT_EQ(s.word(0), 0U);
  EXPECT_TRUE(std::all_of(s.r.data(), s.r.data() + s.r.size(), [](std::byte b) { return b == std::byte{0}; }));
  s.commit_word(0, 3);
}

// Before the first commit a segment notes that the log may have changes for it.
TEST(failed_segment_note, ends_all_commits_for_ever) {
  sim::disk disk;
  const auto how = support::small_log(&disk);
  {
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 64 << 10});
    support::put(m, r, 0, "first ");
    m.close();
  }
  {
    memory m("/d/log", how);
    region r = m.map("/d/seg");
    disk.inject({.kind = sim::operation::durable_write, .path = "/d/seg"});
    for (int n = 0; n < 2; ++n)
      support::expect_error(errc::outcome_unknown, {"/d/seg", "close this memory and open it again"},
                            [&] { support::put(m, r, 0, "second"); });
  }
  memory m("/d/log", how);
  region r = m.map("/d/seg");
  EXPECT_EQ(support::get(r, 0, 6), "first ");
  support::put(m, r, 0, "third ");
}

}  // namespace
}  // namespace tenure::rvm::testing
