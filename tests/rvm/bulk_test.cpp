// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages written straight to a segment. What crashes leave of them, crashing.with_bulk_writes_and_growth looks at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <tenure/rvm/participant.hpp>

#include "log/log_files.hpp"
#include "os/virtual_memory.hpp"
#include "records/batch.hpp"
#include "records/group.hpp"
#include "records/thresholds.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/log_image.hpp"
#include "support/segments_on_sim.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

constexpr std::size_t page = 4 * kib;

// A memory with a segment on a simulated disk; nothing happens that is not asked for.
class bulk : public ::testing::Test {
 protected:
  void open(std::uint64_t log_size = 256 * kib, const std::function<void(options&)>& change = {}) {
    options how = small_log(&disk);
    how.log.size = how.log.max_size = log_size;
    how.background = false;
    how.tune.truncation_threshold = 2;
    if (change) change(how);
    m.emplace("/d/log", how);
    r = m->map("/d/seg", {.create_length = length});
  }
  // Fills pages and writes them in bulk.
  void fill(transaction& tx, std::size_t first, std::size_t pages, char with) {
    std::byte* const at = r.data() + first * page;
    tx.hold(at, pages * page);
    std::memset(at, with, pages * page);
    const std::span<const std::byte> whole(at, pages * page);
    tx.write_bulk(r, first * page, {&whole, 1});
  }
  void fill(std::size_t first, std::size_t pages, char with, commit_mode mode = commit_mode::flush) {
    m->transact([&](transaction& tx) { fill(tx, first, pages, with); }, mode);
  }
  [[nodiscard]] std::string data(const sim::disk& on, std::size_t at, std::size_t of) const {
    const auto bytes = on.current_bytes("/d/seg");
    const segment_header header = read_segment_header(const_cast<sim::disk&>(on), "/d/seg");
    return {reinterpret_cast<const char*>(bytes.data()) + header.data_offset + at, of};
  }
  // What a crash leaves, recovered: the bytes there, and no wrong checksum.
  std::string recovered(sim::disk& on, std::size_t at, std::size_t of, std::uint64_t memory_for_it = 8 * mib) {
    options how = small_log(&on, open_mode::open);
    how.recovery_memory = memory_for_it;
    const thresholds small{.least_recovery_memory = memory_for_it};
    how.limits = &small;
    memory again("/d/log", how);
    EXPECT_TRUE(again.verify_segment("/d/seg").empty());
    const region all = again.map("/d/seg");
    return get(all, at, of);
  }

  std::uint64_t length = 2 * mib;
  sim::disk disk;
  std::optional<memory> m;
  region r;
};

// With an archive, what overlaps goes into the log once: declared ranges win, then what was written later.
TEST_F(bulk, in_the_log_has_each_byte_once) {
  open(256 * kib, [](options& how) { how.archive.emplace(); });
  const std::string later(2 * page, 'b');
  const os::const_bytes bytes = std::as_bytes(std::span(later));
  m->transact([&](transaction& tx) {
    fill(tx, 16, 4, 'a');
    tx.write_bulk(r, 18 * page, {&bytes, 1});
    std::memset(r.data() + 18 * page, 'b', 2 * page);
    tx.modify(r.data() + 17 * page + 100, "declared", 8);
  });
  std::string wanted = std::string(2 * page, 'a') + std::string(2 * page, 'b');
  wanted.replace(page + 100, 8, "declared");
  const auto left = disk.crash(1, sim::policy::drop_all);
  EXPECT_EQ(recovered(*left, 16 * page, 4 * page), wanted);
}

TEST_F(bulk, goes_to_the_segment_and_not_into_the_log) {
  open();
  const auto before = m->stats().log_bytes_written;
  fill(16, 256, 'b');
  EXPECT_LE(m->stats().log_bytes_written - before, 4 * kib);
  EXPECT_EQ(m->stats().bulk_runs, 1u);
  EXPECT_EQ(m->stats().bulk_bytes, 256 * page);
  EXPECT_EQ(data(disk, 16 * page, 256 * page), std::string(256 * page, 'b'));
  EXPECT_EQ(get(r, 16 * page, page), std::string(page, 'b'));
  const auto left = disk.crash(1, sim::policy::drop_all);
  EXPECT_EQ(recovered(*left, 15 * page, 258 * page),
            std::string(page, '\0') + std::string(256 * page, 'b') + std::string(page, '\0'));
  // The head moves over it although no page is dirty.
  m->truncate();
  EXPECT_EQ(m->stats().log_used, 0u);
  EXPECT_TRUE(m->verify_segment("/d/seg").empty());
  r.unmap();
  m->close();
  EXPECT_EQ(log_files::open(disk, "/d/log", os::access::read_only)->status().incompatible, 0u);
}

// [rvm.bulk.before-commit], [rvm.bulk.noted]
TEST_F(bulk, is_durable_step_by_step) {
  open();
  fill(0, 1, 'a');
  disk.record_trace(true);
  fill(16, 4, 'b');
  std::string order;
  for (const auto& at : disk.trace())
    if (sim::changes_disk(at.kind))
      order += (at.path == "/d/seg" ? "segment " : "log ") + std::string(sim::name_of(at.kind)) + ", ";
  EXPECT_EQ(order, "segment durable write, segment write, segment write, segment sync, log durable write, ");
}

// A page may be free only because of a commit that waits in the spool [rvm.bulk.free].
TEST_F(bulk, waits_for_what_was_committed_before) {
  open();
  fill(16, 1, 'o');
  put(*m, r, 0, "freed", commit_mode::no_flush);
  transaction tx = m->begin();
  fill(tx, 16, 1, 'n');
  std::unique_ptr<sim::disk> at_write;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (at.path == "/d/seg" && at.kind == sim::operation::write && at_write == nullptr)
      at_write = disk.crash(1, sim::policy::keep_all);
  });
  tx.commit();
  disk.on_operation({});
  ASSERT_NE(at_write, nullptr);
  EXPECT_EQ(recovered(*at_write, 0, 5), "freed");
}

// [rvm.bulk.masked]
TEST_F(bulk, older_records_of_the_pages_are_passed_over) {
  open();
  put(*m, r, 16 * page + 10, "older");
  put(*m, r, 17 * page + 10, "older");
  fill(16, 3, 'b');
  put(*m, r, 17 * page + 20, "newer");
  std::string expected(3 * page, 'b');
  expected.replace(page + 20, 5, "newer");
  {  // by recovery
    const auto left = disk.crash(1, sim::policy::drop_all);
    EXPECT_EQ(recovered(*left, 16 * page, 3 * page), expected);
  }
  {  // by who only reads
    const auto left = disk.crash(1, sim::policy::drop_all);
    memory reader("/d/log", reading(left.get()));
    const region all = reader.map("/d/seg");
    EXPECT_EQ(get(all, 16 * page, 3 * page), expected);
  }
  m->truncate();  // by truncation
  EXPECT_EQ(data(disk, 16 * page, 3 * page), expected);
  EXPECT_TRUE(m->verify_segment("/d/seg").empty());
}

// While the batch that has the extents is not written yet, too.
TEST_F(bulk, older_records_are_passed_over_before_the_commit_is_durable) {
  open();
  put(*m, r, 16 * page + 10, "older");
  put(*m, r, 100 * page, "other");
  fill(16, 1, 'b', commit_mode::no_flush);
  ASSERT_NE(m->stats().spooled_bytes, 0u);
  (void)m->truncate_incrementally(100 * kib);
  EXPECT_EQ(data(disk, 100 * page, 5), "other");
  EXPECT_EQ(data(disk, 16 * page, page), std::string(page, 'b'));
  m->flush();
  EXPECT_EQ(recovered(*disk.crash(1, sim::policy::drop_all), 16 * page, page), std::string(page, 'b'));
}

TEST_F(bulk, pieces_gaps_and_ranges) {
  open();
  const std::string one(3000, '1'), gap(5000, '\0'), two(4288, '2'), none;
  const auto bytes = [](const std::string& of) { return std::as_bytes(std::span(of)); };
  const std::span<const std::byte> pieces[] = {bytes(one), bytes(none), bytes(gap), bytes(two)};
  transaction tx = m->begin();
  tx.label("in pieces");
  tx.write_bulk(r, 16 * page, pieces);
  fill(tx, 17, 1, 'l');                             // written twice: the later one holds
  tx.modify(r.data() + 16 * page + 5, "range", 5);  // and ranges over both
  tx.modify(r.data(), "elsewhere", 9);
  tx.commit();
  std::string expected = one + gap + two;
  expected.replace(page, page, std::string(page, 'l'));
  expected.replace(5, 5, "range");
  const auto left = disk.crash(1, sim::policy::drop_all);
  EXPECT_EQ(recovered(*left, 16 * page, 3 * page), expected);
  EXPECT_EQ(recovered(*left, 0, 9), "elsewhere");
  EXPECT_EQ(get(r, 16 * page, 5), std::string(5, '\0')) << "memory is not changed";
  m->truncate();
  EXPECT_EQ(data(disk, 16 * page, 3 * page), expected);
}

TEST_F(bulk, aborted_or_empty_leaves_nothing) {
  open();
  const auto before = disk.current_bytes("/d/seg");
  {
    transaction tx = m->begin();
    fill(tx, 16, 4, 'b');
    tx.write_bulk(r, 0, {});
    tx.abort();
  }
  {
    transaction tx = m->begin();
    tx.write_bulk(r, 0, {});
    tx.commit();
  }
  EXPECT_TRUE(disk.current_bytes("/d/seg") == before);
  EXPECT_EQ(m->stats().bulk_runs, 0u);
  m->truncate();
}

TEST_F(bulk, misuse) {
  open();
  const std::vector<std::byte> bytes(2 * page);
  const std::span<const std::byte> one(bytes.data(), page), odd(bytes.data(), 100), two(bytes);
  transaction tx = m->begin();
  expect_error(errc::misaligned, {"7"}, [&] { tx.write_bulk(r, 7, {&one, 1}); });
  expect_error(errc::misaligned, {"100"}, [&] { tx.write_bulk(r, page, {&odd, 1}); });
  expect_error(errc::partly_mapped, {}, [&] { tx.write_bulk(r, length - page, {&two, 1}); });
  expect_error(errc::closed, {}, [&] { tx.write_bulk(region(), 0, {&one, 1}); });
  memory other("/d/other.log", small_log(&disk));
  region elsewhere = other.map("/d/other.seg", {.create_length = length});
  expect_error(errc::not_mapped, {"another memory"}, [&] { tx.write_bulk(elsewhere, 0, {&one, 1}); });
  expect_error(errc::not_mapped, {}, [&] { tx.hold(bytes.data(), 1); });
  tx.write_bulk(r, 0, {&one, 1});
  expect_error(errc::region_busy, {}, [&] { r.unmap(); });
  struct late : participant {
    void prepare(commit_scope&) override { of->write_bulk(*where, 0, {&what, 1}); }
    void undo_prepare(commit_scope&) noexcept override {}
    void committed(commit_scope&) noexcept override {}
    void aborted(commit_scope&) noexcept override {}
    transaction* of;
    region* where;
    std::span<const std::byte> what;
  } who;
  who.of = &tx;
  who.where = &r;
  who.what = one;
  tx.join(who);
  expect_error(errc::bad_transaction, {"participant"}, [&] { tx.commit(); });
  tx.abort();
  expect_error(errc::bad_transaction, {}, [&] { tx.write_bulk(r, 0, {&one, 1}); });
  m->truncate();
}

TEST_F(bulk, in_checking_mode_is_declared) {
  open(256 * kib, [](options& how) { how.tune.check_undeclared = true; });
  transaction tx = m->begin();
  fill(tx, 16, 4, 'b');
  put(*m, r, 0, "other transaction");
  tx.commit();
  put(*m, r, 0, "afterwards");
  r.data()[17 * page] = std::byte{'?'};
  expect_error(errc::undeclared_write, {}, [&] { put(*m, r, 0, "now"); });
}

// [rvm.archive.before-head]: history is whole.
TEST_F(bulk, goes_through_the_log_with_an_archive) {
  open(mib, [](options& how) { how.archive = archive_options{}; });
  put(*m, r, 16 * page, "older");
  fill(16, 4, 'b');
  EXPECT_EQ(m->stats().bulk_runs, 0u);
  EXPECT_GT(m->stats().bytes_logged, 4 * page);
  EXPECT_EQ(data(disk, 16 * page, 5), std::string(5, '\0'));
  EXPECT_EQ(recovered(*disk.crash(1, sim::policy::drop_all), 16 * page, 4 * page), std::string(4 * page, 'b'));
  m->truncate();
  EXPECT_EQ(data(disk, 16 * page, 4 * page), std::string(4 * page, 'b'));
}

// [rvm.bulk.checked]
TEST_F(bulk, damage_of_an_extent_is_reported) {
  open();
  fill(16, 4, 'b');
  put(*m, r, 18 * page, "newer");
  const auto left = disk.crash(1, sim::policy::drop_all);
  const std::uint64_t data_offset = read_segment_header(*left, "/d/seg").data_offset;
  const std::byte wrong{'?'};
  left->poke("/d/seg", data_offset + 17 * page + 5, {&wrong, 1});
  const auto log_before = left->current_bytes("/d/log");
  expect_error(errc::damaged, {"/d/seg", std::to_string(17 * page), "1 page"},
               [&] { memory again("/d/log", small_log(left.get())); });
  EXPECT_TRUE(left->current_bytes("/d/log") == log_before);
  options how = small_log(left.get());
  how.give_up_segments = true;
  memory again("/d/log", how);
  EXPECT_EQ(again.recovery().given_up, std::vector<std::string>{"/d/seg"});
  EXPECT_EQ(again.verify_segment("/d/seg"), std::vector<std::uint64_t>{17 * page});
  const region all = again.map("/d/seg");
  EXPECT_EQ(get(all, 18 * page, 6), "newerb");
}

// A truncation that a crash has interrupted may have written newer records over a bulk run that is still in the log: the
// log as it was before, with the segment as it is after.
TEST_F(bulk, newer_records_that_were_truncated_are_no_damage) {
  for (const bool in_parts : {false, true}) {
    length = 24 * mib;
    r = {};
    m.reset();
    for (const std::string& file : disk.names()) disk.remove(file);
    open(32 * mib);
    put(*m, r, 16 * page, "older");
    put(*m, r, 17 * page, "older");
    fill(16, 3, 'b');
    const std::string filler(128 * kib, 'f');
    if (in_parts)
      for (std::size_t at = mib; at < 21 * mib; at += filler.size()) put(*m, r, at, filler, commit_mode::no_flush);
    put(*m, r, 17 * page + 7, "newer");
    const log_image log(disk, "/d/log");
    m->truncate();
    const std::uint64_t data_offset = read_segment_header(disk, "/d/seg").data_offset;
    // The segment as it is now, but for these bytes; the log as it was.
    const auto made = [&](std::size_t at, std::string_view text) {
      auto left = disk.crash(1, sim::policy::keep_all);
      log.install(*left);
      left->poke("/d/seg", data_offset + at, std::as_bytes(std::span(text)));
      return left;
    };
    std::string expected(3 * page, 'b');
    expected.replace(page + 7, 5, "newer");
    EXPECT_EQ(recovered(*made(17 * page + 7, "newer"), 16 * page, 3 * page), expected) << in_parts;
    EXPECT_EQ(recovered(*made(17 * page + 7, "bbbbb"), 16 * page, 3 * page), expected) << in_parts;
    // But a page that nothing newer changes is damaged.
    expect_error(errc::damaged, {std::to_string(18 * page)},
                 [&] { memory again("/d/log", small_log(made(18 * page, "?").get())); });
  }
}

// The log is replayed in parts, oldest first; where it is cut, and which part has the extent, makes no difference.
TEST_F(bulk, older_records_are_masked_however_the_log_is_cut) {
  constexpr std::size_t fillers = 8;
  for (std::size_t before = 0; before <= fillers; ++before) {
    r = {};
    m.reset();
    for (const std::string& file : disk.names()) disk.remove(file);
    open(4 * mib);
    put(*m, r, 16 * page, "older");
    put(*m, r, 18 * page + 5, "older");
    for (std::size_t n = 0; n <= fillers; ++n) {
      if (n == before) fill(16, 3, 'b');
      if (n != fillers) put(*m, r, mib + n * 64 * kib, std::string(60 * kib, static_cast<char>('0' + n)));
    }
    const auto left = disk.crash(1, sim::policy::drop_all);
    for (const std::uint64_t memory_for_it : {64 * kib, 128 * kib, 300 * kib, 8 * mib}) {
      const auto cut = left->crash(1, sim::policy::keep_all);
      EXPECT_EQ(recovered(*cut, 16 * page, 3 * page, memory_for_it), std::string(3 * page, 'b'))
          << before << " before, " << memory_for_it << " bytes of memory";
    }
  }
}

TEST_F(bulk, on_a_full_disk_can_be_tried_again) {
  open();
  fill(30, 1, 'x');
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{700}, 5 * page}) {
    transaction tx = m->begin();
    fill(tx, 16, 8, 'b');
    disk.inject({.kind = sim::operation::write, .path = "/d/seg", .error = ENOSPC, .bytes = bytes});
    expect_error(std::errc::no_space_on_device, {}, [&] { tx.commit(); });
    EXPECT_TRUE(tx.is_open());
    EXPECT_TRUE(m->verify_segment("/d/seg").empty());
    EXPECT_TRUE(disk.crash(1, sim::policy::random) != nullptr);
    tx.commit();
    EXPECT_TRUE(m->verify_segment("/d/seg").empty());
  }
  EXPECT_EQ(recovered(*disk.crash(1, sim::policy::drop_all), 16 * page, 8 * page), std::string(8 * page, 'b'));
}

// [rvm.segment.one-sync]
TEST_F(bulk, failed_sync_ends_all_commits) {
  open();
  fill(0, 1, 'a');
  transaction tx = m->begin();
  fill(tx, 16, 8, 'b');
  disk.inject({.kind = sim::operation::sync, .path = "/d/seg", .what = sim::effect::lose_writes});
  expect_error(errc::outcome_unknown, {"/d/seg"}, [&] { tx.commit(); });
  expect_error(errc::outcome_unknown, {}, [&] { tx.commit(); });
  tx.abort();
  expect_error(errc::outcome_unknown, {}, [&] { put(*m, r, 0, "x"); });
  r = {};
  m.reset();
  EXPECT_EQ(recovered(disk, 0, 1), "a");
}

// What is still visible then is in the page cache only: who opens the segment again must not make checksums for it durable
// and lose the bytes with the power.
TEST_F(bulk, what_a_failed_sync_leaves_visible_is_written_again) {
  open();
  fill(0, 1, 'a');
  {
    transaction tx = m->begin();
    fill(tx, 16, 8, 'b');
    disk.inject({.kind = sim::operation::sync, .path = "/d/seg", .what = sim::effect::keep_unsynced});
    expect_error(errc::outcome_unknown, {"/d/seg"}, [&] { tx.commit(); });
  }
  r = {};
  m.reset();
  std::uint64_t crashes = 0;
  disk.on_operation([&](const sim::trace_entry& at) {
    ++crashes;
    EXPECT_EQ(recovered(*disk.crash(at.index, sim::policy::drop_all), 0, 1), "a");
  });
  EXPECT_EQ(recovered(disk, 0, 1), "a");
  disk.on_operation({});
  EXPECT_GT(crashes, 4u);
}

// The log still has a bulk run whose pages were freed, and overwritten by a bulk write that never committed.
TEST_F(bulk, pages_overwritten_without_a_commit_are_no_damage) {
  open();
  fill(16, 4, 'o');
  put(*m, r, 0, "freed");
  std::uint64_t crashes = 0;
  disk.on_operation([&](const sim::trace_entry& at) {
    if (at.path != "/d/seg") return;
    for (const auto policy : {sim::policy::keep_all, sim::policy::drop_all, sim::policy::random}) {
      ++crashes;
      EXPECT_EQ(recovered(*disk.crash(at.index, policy), 0, 5), "freed");
    }
  });
  fill(17, 2, 'n');
  disk.on_operation({});
  EXPECT_GE(crashes, 12u);
}

// A transaction that holds a page may fill it although the page is being truncated.
TEST_F(bulk, held_pages_are_not_dropped) {
  open();
  const auto own = [&](std::size_t number) {
    std::size_t sum = 0;
    os::for_each_private_copy(r.data() + number * page, page, [&](os::page_run run) { sum += run.length; });
    return sum;
  };
  put(*m, r, 16 * page, "x");
  put(*m, r, 17 * page, "x");
  transaction tx = m->begin();
  tx.hold(r.data() + 16 * page, page);
  m->truncate();
  EXPECT_EQ(own(16), page);
  EXPECT_EQ(own(17), 0u);
  tx.commit();
}

// So many that their checksums do not fit into a group.
TEST(bulk_runs, of_several_groups) {
  segments_on_sim on(2, 64 * kib);
  group_pool pool;
  batch b(1, pool);
  const std::string label = "a label";
  std::vector<bulk_run> runs(3);
  std::uint32_t next = 1;
  const std::uint64_t lengths[] = {3, 300001, 350000};
  for (std::size_t i = 0; i < 3; ++i) {
    runs[i].in = on.all[i == 1 ? 1 : 0].get();
    runs[i].page = 1000000 * (i + 1);
    runs[i].pages = lengths[i];
    for (std::uint64_t n = 0; n < lengths[i]; ++n) runs[i].checksums.push_back(next++);
  }
  const std::string value(1500, 'v');
  const std::vector<new_value> values = {
      {on.all[0].get(), 8, reinterpret_cast<const std::byte*>(value.data()), value.size()}};
  const commit_image image{7, 8, label, false, values, runs};
  b.append(image, {});
  EXPECT_LE(b.length(512), batch::bound(image, 512));
  const log_stamp stamp{{}, 1, 512};
  std::uint64_t seen = 0, records = 0, last = 0, ranges = 0;
  lsn at = 512 * 1024;
  for (const auto& part : b.finish(stamp, at, 0)) {
    group_header header;
    ASSERT_TRUE(read_group_header(part, {0, at, 512}, header));
    ASSERT_TRUE(group_intact(part, header));
    const group_view view(part, header, "here");
    for (const auto& tx : view.transactions()) {
      EXPECT_EQ(tx.id, 7u);
      EXPECT_EQ(tx.label, label);
      EXPECT_EQ((tx.flags & record_first) != 0, records++ == 0);
      EXPECT_EQ(last, 0u);
      last += tx.flags & record_last ? 1 : 0;
      ranges += tx.ranges.size();
      for (const auto& run : tx.runs) {
        EXPECT_EQ(ranges, 0u) << "extents come first";
        for (std::uint64_t n = 0; n < run.pages; ++n, ++seen) {
          const std::size_t i = seen < 3 ? 0 : seen < 300004 ? 1 : 2;
          const std::uint64_t in_extent = seen - (i == 0 ? 0 : i == 1 ? 3 : 300004);
          ASSERT_EQ(run.checksum(n), seen + 1);
          ASSERT_EQ(run.offset / page + n, runs[i].page + in_extent);
          ASSERT_EQ(view.segments()[run.segment].path, on.all[i == 1 ? 1 : 0]->logged_path());
        }
      }
    }
    at += part.size();
  }
  EXPECT_EQ(seen, next - 1);
  EXPECT_EQ(last, 1u);
  EXPECT_EQ(ranges, 1u);
}

// A commit with extents is never dropped because later commits cover it. [rvm.bulk.not-dropped]
TEST_F(bulk, lazy_commits_with_extents_are_not_optimized_away) {
  open();
  m->transact(
      [&](transaction& tx) {
        fill(tx, 16, 1, 'b');
        tx.modify(r.data(), "first", 5);
      },
      commit_mode::no_flush);
  put(*m, r, 0, "later");
  EXPECT_EQ(m->stats().inter_transactions_saved, 0u);
  // Records of it make the page's content sure: damage would be found.
  EXPECT_EQ(recovered(*disk.crash(1, sim::policy::drop_all), 16 * page, page), std::string(page, 'b'));
}

}  // namespace
}  // namespace tenure::rvm
