// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The tenure command's functions, on logs of every kind. Whatever they show, no byte may change.
#include "log_command.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "log/unfinished.hpp"
#include "records/format.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/log_image.hpp"
#include "support/small_memory.hpp"
#include "tools/shown.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using namespace rvm;
using nlohmann::json;

// Runs f, which prints to a stream, and sees to it that the disk stays as it is.
shown show(sim::disk& disk, const std::function<int(std::FILE*)>& f) {
  const auto before = disk.operations();
  shown result = tools::show(f);
  EXPECT_EQ(disk.operations(), before) << "the disk was changed";
  return result;
}
shown status(sim::disk& disk, bool as_json = false) {
  return show(disk, [&](std::FILE* out) { return show_log_status(disk, "/d/log", as_json, out); });
}
shown records(sim::disk& disk, const record_selection& which = {}, bool as_json = false) {
  return show(disk, [&](std::FILE* out) { return show_log_records(disk, "/d/log", which, as_json, out); });
}

options kept_log(sim::disk& disk) {
  options how = small_log(&disk);
  how.tune.truncation_threshold = 2;
  return how;
}

// Five transactions, of which the fourth and the fifth are in one batch.
std::unique_ptr<sim::disk> crashed() {
  sim::disk disk;
  memory m("/d/log", kept_log(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib}), other = m.map("/d/other", {.create_length = 64 * kib});
  m.transact([&](transaction& tx) {
    tx.label("deposit");
    tx.modify(r.data(), "first", 5);
    tx.modify(other.data() + 100, "elsewhere", 9);
  });
  put(m, r, 0, "second");
  put(m, r, 1000, std::string(20, 'x'));
  put(m, other, 0, "lazy", commit_mode::no_flush);
  put(m, r, 64, "flushed");
  return disk.crash(1, sim::policy::drop_all);
}

TEST(log_status, of_a_log_left_by_a_crash) {
  const auto disk = crashed();
  const shown text = status(*disk);
  std::printf("%s", text.text.c_str());
  EXPECT_EQ(text.exit_code, exit_ok);
  for (const char* part : {"/d/log", "copy 0 at offset 0: valid", "copy 1 at offset 16384: valid", "not closed",
                           "head           LSN 4096 (/d/log.1, offset 8192)", "4 groups, 4 batches",
                           "5 transactions, 6 ranges", "segment        other", "segment        seg", "opened 1 times"})
    EXPECT_TRUE(text.has(part)) << part;
  const json j = status(*disk, true).parsed();
  EXPECT_EQ(j["path"], "/d/log");
  EXPECT_EQ(j["clean"], false);
  EXPECT_EQ(j["head"], 4096);
  EXPECT_EQ(j["tail"], 4096 + 4 * 4096);
  EXPECT_EQ(j["used"], 4 * 4096);
  EXPECT_EQ(j["groups"], 4);
  EXPECT_EQ(j["transactions"], 5);
  EXPECT_EQ(j["bytes"], 5 + 9 + 6 + 20 + 4 + 7);
  EXPECT_EQ(j["segments"].size(), 2u);
  EXPECT_EQ(j["segments"][1]["path"], "seg");
  EXPECT_EQ(j["torn"]["groups"], 0);
  EXPECT_TRUE(j["damage"].empty());
  // As recovery finds it.
  memory m("/d/log", small_log(disk.get()));
  EXPECT_EQ(m.recovery().tail, j["tail"]);
  EXPECT_EQ(m.recovery().transactions, 5u);
}

TEST(log_status, of_a_clean_log_and_a_live_one) {
  sim::disk disk;
  {
    memory m("/d/log", kept_log(disk));
    region r = m.map("/d/seg", {.create_length = 4 * kib});
    put(m, r, 0, "live");
    const json j = status(disk, true).parsed();  // another process holds the lock
    EXPECT_EQ(j["clean"], false);
    EXPECT_EQ(j["transactions"], 1);
    put(m, r, 0, "more");
    EXPECT_EQ(status(disk, true).parsed()["transactions"], 2);
  }
  const shown text = status(disk);
  EXPECT_EQ(text.exit_code, exit_ok);
  EXPECT_TRUE(text.has("closed cleanly"));
  const json j = status(disk, true).parsed();
  EXPECT_EQ(j["clean"], true);
  EXPECT_EQ(j["transactions"], 0);
  EXPECT_EQ(j["used"], 0);
  EXPECT_EQ(j["totals"]["opened"], 1);
  EXPECT_EQ(j["totals"]["transactions"], 2);
}

TEST(log_status, of_a_torn_log) {
  // A commit of several groups.
  const auto run = [](sim::disk& on) {
    options how = kept_log(on);
    how.log.size = 16 * mib;
    how.background = false;
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 4 * mib});
    put(m, r, 0, "whole");
    on.clear_trace();
    on.record_trace(true);
    m.transact([&](transaction& tx) { tx.set_range(r.data(), 3 * mib); });
    std::uint64_t last = 0;
    for (const auto& t : on.trace())
      if (t.kind == sim::operation::write && t.path.starts_with("/d/log.") && !t.path.ends_with("-new")) last = t.index;
    return last;
  };
  sim::disk whole, disk;
  const std::uint64_t last = run(whole);
  // The power left only some of it.
  disk.crash_at(last, 0);
  EXPECT_ANY_THROW(run(disk));
  const auto left = disk.crash(1, sim::policy::keep_all);
  const shown text = status(*left);
  std::printf("%s", text.text.c_str());
  EXPECT_EQ(text.exit_code, exit_ok);
  const json j = status(*left, true).parsed();
  EXPECT_GE(j["torn"]["groups"], 1);
  EXPECT_EQ(j["transactions"], 1);
  const memory recovered("/d/log", small_log(left.get()));
  EXPECT_EQ(j["torn"]["groups"], recovered.recovery().torn_groups);
  EXPECT_EQ(j["torn"]["bytes"], recovered.recovery().torn_bytes);
  EXPECT_EQ(j["tail"], recovered.recovery().tail);
}

TEST(log_records, are_shown) {
  const auto disk = crashed();
  const shown text = records(*disk, {.with_data = true});
  std::printf("%s", text.text.c_str());
  EXPECT_EQ(text.exit_code, exit_ok);
  for (const char* part : {"transaction 1 ", "flush, to be continued  \"deposit\"", "seg  offset 0  length 5",
                           "other  offset 100  length 9", "66 69 72 73 74", "first", "elsewhere",
                           "no_flush\n    other  offset 0  length 4", "transaction 5 ", "xxxxxxxxxxxxxxxx"})
    EXPECT_TRUE(text.has(part)) << part;
  const json j = records(*disk, {.with_data = true}, true).parsed();
  ASSERT_EQ(j["records"].size(), 6u);
  EXPECT_TRUE(j["damage"].empty());
  const json& first = j["records"][0];
  EXPECT_EQ(first["label"], "deposit");
  EXPECT_EQ(first["transaction"], 1);
  EXPECT_EQ(first["flush"], true);
  EXPECT_EQ(first["group"], 4096);
  EXPECT_EQ(first["first"], true);
  EXPECT_EQ(first["last"], false);
  EXPECT_EQ(first["ranges"].size(), 1u);
  EXPECT_EQ(j["records"][1]["last"], true);
  EXPECT_EQ(j["records"][4]["flush"], false);
  EXPECT_EQ(j["records"][4]["batch"], j["records"][5]["batch"]);
  EXPECT_EQ(j["records"][3]["ranges"][0]["data"], json(std::string("7878787878787878787878787878787878787878")));
  for (std::size_t i = 1; i < 6; ++i) EXPECT_GT(j["records"][i]["lsn"], j["records"][i - 1]["lsn"]);
}

// [rvm.prepared.log]
TEST(log_status, of_a_log_with_a_prepared_transaction) {
  sim::disk disk;
  memory m("/d/log", kept_log(disk));
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  put(m, r, 0, "first");
  transaction tx = m.begin();
  tx.modify(r.data(), "second", 6);
  tx.modify(r.data() + 5000, "elsewhere", 9);
  tx.prepare("transfer 7");
  const json before = status(disk, true).parsed();
  EXPECT_EQ(before["prepared"]["global_id"], "transfer 7");
  EXPECT_EQ(before["prepared"]["ranges"], 2);
  EXPECT_EQ(before["prepared"]["bytes"], 15);
  EXPECT_EQ(before["transactions"], 1);
  for (const char* part : {"transfer 7", "2 ranges, 15 bytes", "no outcome", "tenure resolve"})
    EXPECT_TRUE(status(disk).has(part)) << part;
  const json all = records(disk, {}, true).parsed()["records"];
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["prepared"], false);
  EXPECT_EQ(all[1]["prepared"], true);
  EXPECT_EQ(all[1]["ranges"].size(), 2u);
  EXPECT_TRUE(records(disk).has("prepared"));
  tx.commit();
  const json after = status(disk, true).parsed();
  EXPECT_EQ(after["prepared"], nullptr);
  EXPECT_EQ(after["transactions"], 2);
  EXPECT_EQ(records(disk, {}, true).parsed()["records"].back()["prepared"], false);
}

TEST(log_records, are_selected) {
  const auto disk = crashed();
  const auto ids = [&](const record_selection& which) {
    std::vector<int> all;
    const json j = records(*disk, which, true).parsed();
    // The first has two records: one for each segment.
    for (const json& record : j["records"])
      if (all.empty() || all.back() != record["transaction"]) all.push_back(record["transaction"]);
    return all;
  };
  EXPECT_EQ(ids({}), (std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(ids({.limit = 3}), (std::vector{1, 2}));
  EXPECT_EQ(ids({.limit = 0}), std::vector<int>{});
  EXPECT_EQ(ids({.transaction = 3}), std::vector{3});
  EXPECT_EQ(ids({.transaction = 33}), std::vector<int>{});
  EXPECT_EQ(ids({.segment = "other"}), (std::vector{1, 4}));
  EXPECT_EQ(ids({.segment = "/d/other"}), (std::vector{1, 4}));
  EXPECT_EQ(ids({.segment = "/d/no"}), std::vector<int>{});
  EXPECT_EQ(ids({.from = 4096 + 4096}), (std::vector{2, 3, 4, 5}));
  const json all = records(*disk, {}, true).parsed()["records"];
  EXPECT_EQ(ids({.from = all[5]["lsn"].get<lsn>()}), std::vector{5});
  EXPECT_EQ(ids({.from = all[4]["lsn"].get<lsn>() + 1, .limit = 1}), std::vector{5});
  EXPECT_EQ(ids({.from = 1 << 30}), std::vector<int>{});
  // Only the ranges of that segment.
  EXPECT_EQ(records(*disk, {.segment = "other"}, true).parsed()["records"][0]["ranges"].size(), 1u);
}

TEST(log_records, truncated_ones_can_be_read_until_they_are_overwritten) {
  const auto disk = crashed();
  { memory recovered("/d/log", small_log(disk.get())); }
  EXPECT_TRUE(records(*disk, {}, true).parsed()["records"].empty());
  EXPECT_EQ(records(*disk, {.from = 0}, true).parsed()["records"].size(), 6u);
  EXPECT_EQ(records(*disk, {.from = 4096 + 4096}, true).parsed()["records"].size(), 4u);
  // Over the end of a file, with a part of the older ones gone.
  memory m("/d/log", kept_log(*disk));
  region r = m.map("/d/seg");
  for (int lap = 0; lap < 320; ++lap) {
    put(m, r, 0, std::to_string(lap));
    if (lap % 100 == 99) m.truncate();
  }
  const json all = records(*disk, {.from = 0}, true).parsed()["records"];
  EXPECT_GE(all.size(), 20u);  // since the last truncation
  EXPECT_LE(all.size(), 256u);
  EXPECT_EQ(all.back()["transaction"], 320);
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_EQ(all[i]["transaction"].get<int>(), all[i - 1]["transaction"].get<int>() + 1);
}

TEST(log_records, labels_of_any_bytes) {
  sim::disk disk;
  memory m("/d/log", kept_log(disk));
  region r = m.map("/d/seg", {.create_length = 4 * kib});
  m.transact([&](transaction& tx) {
    tx.label("\xff\xfe\"\n");
    tx.modify(r.data(), "x", 1);
  });
  EXPECT_EQ(records(disk, {}, true).parsed()["records"].size(), 1u);
}

// --- Damage ---

void flip(sim::disk& disk, const std::string& file, std::uint64_t offset) {
  const std::byte other = disk.current_bytes(file).at(offset) ^ std::byte{1};
  disk.poke(file, offset, {&other, 1});
}

TEST(log_damage, is_shown_with_what_is_readable_around_it) {
  const auto disk = crashed();
  flip(*disk, "/d/log.1", log_file_data + 4096 + 100);  // the second group
  const shown text = records(*disk);
  std::printf("%s", text.text.c_str());
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has("DAMAGED        LSN 8192 to 12288, 4096 bytes from /d/log.1, offset 12288 on"));
  const json j = records(*disk, {}, true).parsed();
  ASSERT_EQ(j["records"].size(), 5u);
  EXPECT_EQ(j["records"][1]["transaction"], 1);
  EXPECT_EQ(j["records"][2]["transaction"], 3);
  ASSERT_EQ(j["damage"].size(), 1u);
  EXPECT_EQ(j["damage"][0]["from"], 8192);
  EXPECT_EQ(j["damage"][0]["place"], "/d/log.1, offset 12288");
  EXPECT_EQ(status(*disk).exit_code, exit_damaged);
  // Two holes.
  flip(*disk, "/d/log.1", log_file_data + 100);
  const json two = status(*disk, true).parsed();
  ASSERT_EQ(two["damage"].size(), 1u);  // side by side
  EXPECT_EQ(two["damage"][0]["from"], 4096);
  EXPECT_EQ(two["damage"][0]["to"], 4096 + 2 * 4096);
  EXPECT_EQ(two["transactions"], 3);
}

// In the middle of a batch of several groups: those before and those behind are shown.
TEST(log_damage, inside_a_large_transaction) {
  std::unique_ptr<sim::disk> disk;
  {
    sim::disk before;
    options how = kept_log(before);
    how.log.size = 16 * mib;
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 4 * mib});
    put(m, r, 0, "before");
    m.transact([&](transaction& tx) { tx.set_range(r.data(), 4 * mib); });
    put(m, r, 0, "after");
    disk = before.crash(1, sim::policy::drop_all);
  }
  const json whole = records(*disk, {}, true).parsed()["records"];
  ASSERT_GE(whole.size(), 6u);
  EXPECT_EQ(whole[1]["last"], false);
  EXPECT_EQ(whole[2]["first"], false);
  log_image image(*disk, "/d/log");
  image[whole[2]["group"].get<lsn>() + 5000] ^= std::byte{1};
  image.install(*disk);
  const shown damaged = records(*disk, {}, true);
  EXPECT_EQ(damaged.exit_code, exit_damaged);
  const json j = damaged.parsed();
  ASSERT_EQ(j["damage"].size(), 1u);
  EXPECT_EQ(j["damage"][0]["from"], whole[2]["group"]);
  EXPECT_EQ(j["damage"][0]["to"], whole[3]["group"]);
  json expected = whole;
  expected.erase(2);
  EXPECT_EQ(j["records"], expected);
  expect_error(errc::damaged, {"/d/log"}, [&] { memory{"/d/log", small_log(disk.get())}; });
}

TEST(log_damage, of_a_manifest) {
  const auto disk = crashed();
  flip(*disk, "/d/log", 90);
  const shown text = status(*disk);
  std::printf("%s", text.text.c_str());
  EXPECT_EQ(text.exit_code, exit_damaged);
  EXPECT_TRUE(text.has("copy 0 at offset 0: DAMAGED"));
  EXPECT_TRUE(text.has("5 transactions"));
  EXPECT_EQ(records(*disk).exit_code, exit_ok);
  flip(*disk, "/d/log", manifest_copy_size + 90);
  expect_error(errc::damaged, {"both copies"}, [&] { (void)status(*disk); });
  expect_error(errc::not_a_log, {"/d/seg"}, [&] { (void)show_log_status(*disk, "/d/seg", false, stdout); });
  mark_unfinished(*disk, "/new/log");
  expect_error(errc::damaged, {"/new", "interrupted"},
               [&] { (void)show_log_status(*disk, "/new/log", false, stdout); });
}

// Any single flipped bit: nothing but an error or a description of the damage.
TEST(log_damage, anywhere) {
  const auto disk = crashed();
  const auto bytes = disk->current_bytes("/d/log.1");
  for (std::uint64_t i = 0; i < 600; ++i) {
    const std::string file = i < 100 ? "/d/log" : "/d/log.1";
    const std::uint64_t at = i < 100 ? i * 17 : i < 200 ? (i - 100) * 41 : log_file_data + (i - 200) * 53 % (4 * 4096);
    flip(*disk, file, at);
    try {
      const shown text = records(*disk, {.with_data = true}, i % 2 == 0);
      if (i % 2 == 0) (void)text.parsed();
      (void)status(*disk, true).parsed();
    } catch (const error& e) {
      EXPECT_EQ(e.code().category(), category()) << e.what();
    }
    flip(*disk, file, at);
  }
  EXPECT_EQ(disk->current_bytes("/d/log.1"), bytes);
}

// --- Segments ---

TEST(segment_verify, finds_damaged_pages) {
  sim::disk disk;
  {
    memory m("/d/log", small_log(&disk));
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 0, "data");
  }
  const auto verify = [&](bool as_json) {
    return show(disk, [&](std::FILE* out) { return verify_segment(disk, "/d/log", "/d/seg", as_json, out); });
  };
  const shown good = verify(false);
  EXPECT_EQ(good.exit_code, exit_ok);
  EXPECT_TRUE(good.has("16 pages, all match"));
  const std::byte wrong{1};
  disk.poke("/d/seg", disk.current_bytes("/d/seg").size() - 4096, {&wrong, 1});
  const shown bad = verify(false);
  std::printf("%s%s", good.text.c_str(), bad.text.c_str());
  EXPECT_EQ(bad.exit_code, exit_damaged);
  EXPECT_TRUE(bad.has("4096 bytes at offset 61440"));
  const json j = verify(true).parsed();
  EXPECT_EQ(j["damaged"], json::array({61440}));
  EXPECT_EQ(j["pages"], 16);
}

}  // namespace
}  // namespace tenure::tools
