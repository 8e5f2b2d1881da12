// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Files and processes that are not as they should be, and what the user is told. Each test prints the message.
#include <gtest/gtest.h>

#include <signal.h>

#include <cerrno>
#include <cstddef>
#include <limits>

#include "log/checksum.hpp"
#include "os/process.hpp"
#include "records/format.hpp"
#include "sim/disk.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/log_image.hpp"
#include "support/sanitizers.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

// A disk that lost its power after commits: the log at /d/log has changes for the segment at /d/seg.
std::unique_ptr<sim::disk> crashed(int commits = 1) {
  sim::disk disk;
  options how = small_log(&disk);
  how.tune.truncation_threshold = 2;
  memory m("/d/log", how);
  region r = m.map("/d/seg", {.create_length = 64 * kib});
  for (int i = 0; i < commits; ++i) put(m, r, static_cast<std::size_t>(i) * 8, "changed" + std::to_string(i % 10));
  return disk.crash(1, sim::policy::drop_all);
}

template <class T>
T read_struct(const sim::disk& disk, const std::string& path, std::uint64_t offset) {
  T value;
  std::memcpy(&value, disk.current_bytes(path).data() + offset, sizeof value);
  return value;
}
// Changes both headers of a segment as a program with another idea of the format would.
template <class F>
void rewrite(sim::disk& disk, const std::string& path, F&& change) {
  for (const std::uint64_t at : {0, 4096}) {
    auto block = read_struct<segment_header>(disk, path, at);
    change(block);
    block.checksum = header_checksum(block, offsetof(segment_header, checksum));
    disk.poke(path, at, std::as_bytes(std::span{&block, 1}));
  }
}

TEST(misuse_files, segment_with_changes_in_another_log) {
  const auto disk = crashed();
  {
    memory other("/d/other", small_log(disk.get()));
    expect_error(errc::wrong_log, {"/d/seg", "/d/log", "open that log"}, [&] { (void)other.map("/d/seg"); });
    expect_error(errc::wrong_log, {"/d/seg", "/d/log"}, [&] { (void)other.verify_segment("/d/seg"); });
  }
  {
    memory reader("/d/other", reading(disk.get()));
    expect_error(errc::wrong_log, {"/d/seg", "/d/log"}, [&] { (void)reader.map("/d/seg"); });
  }
  memory("/d/log", small_log(disk.get())).close();
  memory other("/d/other", small_log(disk.get()));
  EXPECT_EQ(get(other.map("/d/seg"), 0, 8), "changed0");
}

TEST(misuse_files, another_segment_in_its_place) {
  const auto disk = crashed();
  disk->rename("/d/seg", "/d/elsewhere");
  { memory("/d/other", small_log(disk.get())).create_segment("/d/seg", {.length = 64 * kib}); }
  expect_error(errc::wrong_log, {"/d/log", "/d/seg", "put the right file back", "give_up_segments"}, [&] {
    memory{"/d/log", small_log(disk.get())};
  });
  disk->remove("/d/seg");
  expect_error(errc::segment_missing, {"/d/log", "/d/seg", "put it back"}, [&] {
    memory{"/d/log", small_log(disk.get())};
  });
  disk->rename("/d/elsewhere", "/d/seg");
  memory m("/d/log", small_log(disk.get()));
  EXPECT_EQ(m.recovery().transactions, 1u);
  EXPECT_TRUE(m.recovery().given_up.empty());
  EXPECT_EQ(get(m.map("/d/seg"), 0, 8), "changed0");
}

TEST(misuse_files, segments_that_are_given_up) {
  std::unique_ptr<sim::disk> disk;
  {
    sim::disk before;
    memory m("/d/log", small_log(&before));
    region lost = m.map("/d/lost", {.create_length = 4 * kib}), kept = m.map("/d/kept", {.create_length = 4 * kib});
    put(m, lost, 0, "lost");
    put(m, kept, 0, "kept");
    disk = before.crash(1, sim::policy::drop_all);
  }
  disk->remove("/d/lost");
  options how = small_log(disk.get());
  expect_error(errc::segment_missing, {"/d/log", "/d/lost", "put it back"}, [&] { memory{"/d/log", how}; });
  how.give_up_segments = true;
  {
    memory m("/d/log", how);
    EXPECT_EQ(m.recovery().given_up, std::vector<std::string>{"/d/lost"});
    EXPECT_EQ(get(m.map("/d/kept"), 0, 4), "kept");
  }
  memory m("/d/log", small_log(disk.get()));
  EXPECT_FALSE(m.recovery().needed);
}

TEST(misuse_files, other_versions) {
  const auto disk = crashed();
  const auto open = [&] { memory{"/d/log", small_log(disk.get())}; };
  change_manifest(*disk, "/d/log", [](manifest_header& s) { s.version = 7; });
  expect_error(errc::wrong_version, {"/d/log", "version 7", "has 2"}, open);
  change_manifest(*disk, "/d/log", [](manifest_header& s) {
    s.version = log_format_version, s.endian = __builtin_bswap32(endian_mark);
  });
  expect_error(errc::wrong_version, {"/d/log", "byte order"}, open);
  change_manifest(*disk, "/d/log", [](manifest_header& s) { s.endian = endian_mark, s.incompatible = 4; });
  expect_error(errc::wrong_version, {"/d/log", "features"}, open);
  change_manifest(*disk, "/d/log", [](manifest_header& s) { s.incompatible = 0, s.read_only_compatible = 4; });
  expect_error(errc::wrong_version, {"/d/log", "features"}, open);
  { memory{"/d/log", reading(disk.get())}; }
  change_manifest(*disk, "/d/log", [](manifest_header& s) { s.read_only_compatible = 0, s.compatible = 4; });
  rewrite(*disk, "/d/seg", [](segment_header& s) { s.version = 9; });
  expect_error(errc::wrong_version, {"/d/seg", "version 9", "has 2"}, open);
  rewrite(*disk, "/d/seg", [](segment_header& s) { s.version = segment_format_version, s.incompatible = 1; });
  expect_error(errc::wrong_version, {"/d/seg", "features"}, open);
  rewrite(*disk, "/d/seg", [](segment_header& s) { s.incompatible = 0; });
  open();
}

TEST(misuse_files, damaged_log) {
  const auto disk = crashed(3);
  const log_image good(*disk, "/d/log");
  const lsn head = good.read_manifest().head;
  log_image bad = good;
  bad[head + 100] ^= std::byte{1};
  bad.install(*disk);
  const auto before = disk->current_bytes("/d/log.1");
  expect_error(
      errc::damaged,
      {"/d/log", "LSN " + std::to_string(head), "/d/log.1, offset " + std::to_string(good.offset_of(head)), "backup"},
      [&] {
        memory{"/d/log", small_log(disk.get())};
      });
  expect_error(errc::damaged, {"/d/log"}, [&] { memory{"/d/log", reading(disk.get())}; });
  EXPECT_EQ(disk->current_bytes("/d/log.1"), before);

  good.install(*disk);
  const std::byte wrong{0xff};
  disk->poke("/d/log", 90, {&wrong, 1});
  disk->poke("/d/log", manifest_copy_size + 90, {&wrong, 1});
  expect_error(errc::damaged, {"/d/log", "both copies", "offset 0", "offset 16384"}, [&] {
    memory{"/d/log", small_log(disk.get())};
  });

  good.install(*disk);
  const std::uint64_t length = good.files[0].contents.size();
  disk->install("/d/log.1", os::const_bytes(good.files[0].contents).first(length - 4096));
  expect_error(errc::damaged, {"/d/log.1", std::to_string(length), std::to_string(length - 4096)}, [&] {
    memory{"/d/log", small_log(disk.get())};
  });

  good.install(*disk);
  EXPECT_EQ(memory("/d/log", small_log(disk.get())).recovery().transactions, 3u);
}

TEST(misuse_files, damaged_segment_header) {
  const auto disk = crashed();
  const std::byte wrong{0xff};
  disk->poke("/d/seg", 50, {&wrong, 1});
  disk->poke("/d/seg", 4096 + 50, {&wrong, 1});
  expect_error(errc::damaged, {"/d/seg", "offsets 0 and 4096"}, [&] { memory{"/d/log", small_log(disk.get())}; });
}

// The time is shown to people and decides nothing.
TEST(misuse_files, clock_set_back) {
  const auto disk = crashed();
  change_manifest(*disk, "/d/log",
                  [](manifest_header& s) { s.created = s.written = std::numeric_limits<std::int64_t>::max(); });
  for (int i = 0; i < 2; ++i) {
    memory m("/d/log", small_log(disk.get()));
    EXPECT_EQ(m.recovery().transactions, i == 0 ? 1u : 0u);
    region r = m.map("/d/seg");
    EXPECT_EQ(get(r, 0, 8), "changed0");
    put(m, r, 64, "after");
  }
  change_manifest(*disk, "/d/log",
                  [](manifest_header& s) { s.created = s.written = std::numeric_limits<std::int64_t>::min(); });
  memory m("/d/log", small_log(disk.get()));
  EXPECT_EQ(get(m.map("/d/seg"), 64, 5), "after");
}

TEST(misuse_files, segment_cut_off) {
  const auto disk = crashed();
  auto bytes = disk->current_bytes("/d/seg");
  const std::string size = std::to_string(bytes.size() - 4096);
  disk->install("/d/seg", os::const_bytes(bytes).first(bytes.size() - 4096));
  expect_error(errc::segment_too_short, {"/d/seg", std::to_string(bytes.size()), size, "cut off"}, [&] {
    memory{"/d/log", small_log(disk.get())};
  });
  disk->install("/d/seg", bytes);
  { memory{"/d/log", small_log(disk.get())}; }
  disk->install("/d/seg", os::const_bytes(bytes).first(bytes.size() - 4096));
  memory m("/d/log", small_log(disk.get()));
  expect_error(errc::segment_too_short, {"/d/seg", size, "cut off"}, [&] { (void)m.map("/d/seg"); });
}

TEST(misuse_files, segment_shorter_than_a_logged_change) {
  std::unique_ptr<sim::disk> disk;
  const std::vector<std::byte> zeros(16 * kib);
  {
    sim::disk before;
    before.install("/d/raw", zeros);
    memory m("/d/log", small_log(&before));
    region r = m.map("/d/raw", {.raw = true});
    put(m, r, 12 * kib + 5, "far");
    disk = before.crash(1, sim::policy::drop_all);
  }
  disk->install("/d/raw", os::const_bytes(zeros).first(8 * kib));
  const auto log = disk->current_bytes("/d/log");
  for (const auto mode : {open_mode::open, open_mode::read_only}) {
    expect_error(errc::segment_too_short, {"/d/raw", "offset 12293", "length 3", "8192 bytes"}, [&] {
      memory m("/d/log", small_log(disk.get(), mode));
      (void)m.map("/d/raw", {.raw = true});
    });
  }
  EXPECT_EQ(disk->current_bytes("/d/log"), log);
  disk->install("/d/raw", zeros);
  memory m("/d/log", small_log(disk.get()));
  EXPECT_EQ(get(m.map("/d/raw", {.raw = true}), 12 * kib + 5, 3), "far");
}

TEST(misuse_files, read_only_files) {
  temp_dir dir;
  { memory(dir / "log", small_log()).create_segment(dir / "seg", {.length = 4 * kib}); }
  namespace fs = std::filesystem;
  fs::permissions(dir.path(), fs::perms(0755));
  for (const char* name : {"log", "log.1", "seg"}) fs::permissions(dir / name, fs::perms(0444));
  child_process child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 77;  // root may write everything
    expect_error(std::errc::permission_denied, {dir / "log", "for writing", "permissions"}, [&] {
      memory{dir / "log", small_log()};
    });
    memory reader(dir / "log", reading());
    (void)reader.map(dir / "seg").at<char>(0);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  const child_end end = child.wait();
  std::printf("%s", end.output.c_str());
  if (end.exited_with(77)) GTEST_SKIP() << "cannot become another user";
  EXPECT_TRUE(end.exited_with(0));
}

TEST(misuse_files, read_only_file_system) {
  const auto disk = crashed();
  disk->set_read_only(true);
  expect_error(std::errc::read_only_file_system, {"/d/log"}, [&] { memory{"/d/log", small_log(disk.get())}; });
  expect_error(std::errc::read_only_file_system, {"/d/new"}, [&] { memory{"/d/new", small_log(disk.get())}; });
  memory reader("/d/log", reading(disk.get()));
  EXPECT_EQ(get(reader.map("/d/seg"), 0, 8), "changed0");
}

TEST(misuse_files, read_only_segment_of_a_writable_log) {
  sim::disk disk;
  memory m("/d/log", small_log(&disk));
  m.create_segment("/d/seg", {.length = 4 * kib});
  disk.inject({.kind = sim::operation::open, .path = "/d/seg", .count = sim::for_ever, .error = EACCES});
  expect_error(std::errc::permission_denied, {"/d/seg"}, [&] { (void)m.map("/d/seg"); });
  disk.clear_faults();
  EXPECT_TRUE(m.map("/d/seg"));
}

// --- Processes ---

TEST(misuse_process, second_process_on_the_same_log) {
  temp_dir dir;
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  // Forked before this process has anything open, so that it shares nothing.
  child_process child([&] {
    char ready;
    if (::read(go[0], &ready, 1) != 1) return 2;
    expect_error(errc::in_use, {dir / "log", "another process"}, [&] { memory{dir / "log", small_log()}; });
    expect_error(errc::in_use, {dir / "log"}, [&] { memory{dir / "log", reading()}; });
    memory other(dir / "other", small_log());
    expect_error(errc::in_use, {dir / "seg", "another process"}, [&] { (void)other.map(dir / "seg"); });
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.create_length = 4 * kib});
    ASSERT_EQ(::write(go[1], "x", 1), 1);
    const child_end end = child.wait();
    std::printf("%s", end.output.c_str());
    EXPECT_TRUE(end.exited_with(0));
    put(m, r, 0, "undisturbed");
  }
  memory again(dir / "log", small_log());
  EXPECT_EQ(get(again.map(dir / "seg"), 0, 11), "undisturbed");
  ::close(go[0]);
  ::close(go[1]);
}

TEST(misuse_process, second_memory_in_the_same_process) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 4 * kib});
  expect_error(errc::in_use, {dir / "log", "another object"}, [&] { memory{dir / "log", small_log()}; });
  expect_error(errc::in_use, {dir / "log"}, [&] { memory{dir / "log", reading()}; });
  memory other(dir / "other", small_log());
  expect_error(errc::in_use, {dir / "seg", "another memory"}, [&] { (void)other.map(dir / "seg"); });
  r.unmap();
  EXPECT_TRUE(other.map(dir / "seg"));
}

TEST(misuse_process, child_of_a_fork) {
  temp_dir dir;
  {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.create_length = 4 * kib});
    transaction tx = m.begin();
    tx.modify(r.data(), "parent", 6);
    child_process child([&] {
      const auto forked = [&](auto&& f) { expect_error(errc::forked, {dir / "log", "fork"}, f); };
      forked([&] { (void)m.begin(); });
      forked([&] { tx.set_range(r.data() + 64, 1); });
      forked([&] { tx.commit(); });
      forked([&] { tx.abort(); });
      forked([&] { (void)m.map(dir / "seg"); });
      forked([&] { r.unmap(); });
      forked([&] { m.flush(); });
      forked([&] { m.truncate(); });
      forked([&] { (void)m.open_transactions(); });
      forked([&] { m.create_segment(dir / "new", {.length = 1}); });
      forked([&] { m.set_tuning({}); });
      forked([&] { m.close(); });
      // Its destructors do nothing to the parent's.
      { transaction gone = std::move(tx); }
      { region gone = std::move(r); }
      { memory gone = std::move(m); }
      // A log of its own is its right.
      auto how = small_log();
      if (support::thread_sanitizer) how.background = false;  // it has no threads after a fork
      memory own(dir / "own", how);
      region mine = own.map(dir / "own.seg", {.create_length = 4 * kib});
      put(own, mine, 0, "child");
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    const child_end end = child.wait();
    std::printf("%s", end.output.c_str());
    EXPECT_TRUE(end.exited_with(0));
    tx.commit();
  }
  memory again(dir / "log", small_log());
  EXPECT_EQ(get(again.map(dir / "seg"), 0, 6), "parent");
}

TEST(misuse_process, child_of_a_fork_touches_memory) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib});
  region r = m.map(dir / "seg", {.offset = 16 * kib});
  region copy = m.map(dir / "seg", {.length = 16 * kib, .copy_in = true});
  for (const region* in : {&r, &copy}) {
    child_process child([&] {
      volatile std::byte* const at = in->data() + 100;
      return std::to_integer<int>(*at);
    });
    const child_end end = child.wait();
    std::printf("    %s\n", end.output.substr(0, end.output.find('\n')).c_str());
    // Killed by the signal; a sanitizer's handler exits instead.
    EXPECT_TRUE(WIFSIGNALED(end.status) ? WTERMSIG(end.status) == SIGSEGV : WEXITSTATUS(end.status) != 0);
    EXPECT_NE(end.output.find(dir / "seg"), std::string::npos) << end.output;
    EXPECT_NE(end.output.find("fork"), std::string::npos) << end.output;
  }
}

// --- Storage that fails ---

TEST(misuse_storage, full_disk) {
  sim::disk disk;
  std::size_t fault = disk.inject({.kind = sim::operation::allocate, .path = "/d/log", .error = ENOSPC});
  expect_error(std::errc::no_space_on_device, {"/d/log"}, [&] { memory{"/d/log", small_log(&disk)}; });
  EXPECT_EQ(disk.hits(fault), 1u);
  fault = disk.inject({.kind = sim::operation::write, .path = "/d/log", .error = ENOSPC});
  expect_error(std::errc::no_space_on_device, {"/d/log"}, [&] { memory{"/d/log", small_log(&disk)}; });
  EXPECT_EQ(disk.hits(fault), 1u);
  EXPECT_TRUE(disk.names().empty());

  options how = small_log(&disk);
  how.log.size = 64 * kib;
  memory m("/d/log", how);
  disk.inject({.kind = sim::operation::allocate, .path = "/d/seg", .error = ENOSPC});
  expect_error(std::errc::no_space_on_device, {"/d/seg"}, [&] { (void)m.map("/d/seg", {.create_length = 256 * kib}); });
  EXPECT_EQ(disk.names(), (std::vector<std::string>{"/d/log", "/d/log.1"}));
  region r = m.map("/d/seg", {.create_length = 256 * kib});

  // A transaction that the log must grow for: it can be aborted, or tried again where there is room.
  disk.inject({.kind = sim::operation::allocate, .path = "/d/log", .count = 2, .error = ENOSPC});
  for (const bool again : {false, true}) {
    transaction tx = m.begin();
    tx.set_range(r.data(), 100'000);
    std::memset(r.data(), 'x', 100'000);
    expect_error(std::errc::no_space_on_device, {"/d/log"}, [&] { tx.commit(); });
    if (again) {
      tx.commit();
      EXPECT_EQ(m.stats().log_grown, 1u);
    } else {
      tx.abort();
      EXPECT_EQ(r.at<char>(0), '\0');
      put(m, r, 200'000, "small");
    }
  }
  m.close();
  memory check("/d/log", small_log(&disk));
  EXPECT_EQ(get(check.map("/d/seg"), 99'999, 2), std::string("x\0", 2));
}

TEST(misuse_storage, failed_sync_of_the_log) {
  sim::disk disk;
  {
    memory m("/d/log", small_log(&disk));
    region r = m.map("/d/seg", {.create_length = 4 * kib});
    put(m, r, 0, "first");
    transaction open = m.begin();
    open.modify(r.data() + 64, "open", 4);
    disk.inject({.kind = sim::operation::durable_write, .path = "/d/log"});
    transaction tx = m.begin();
    tx.modify(r.data(), "later", 5);
    expect_error(errc::outcome_unknown, {"/d/log", "not known", "open it again"}, [&] { tx.commit(); });
    // The storage works again, but this memory does not trust it.
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { open.commit(); });
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { tx.commit(); });
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { (void)m.begin(); });
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { m.flush(); });
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { m.truncate(); });
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { (void)m.truncate_incrementally(1); });
    tx.abort();
    open.abort();
    EXPECT_EQ(get(r, 0, 5), "first");
    // Closing says it again, and lets go of the log all the same.
    expect_error(errc::outcome_unknown, {"/d/log"}, [&] { m.close(); });
    memory again("/d/log", small_log(&disk));
    const std::string found = get(again.map("/d/seg"), 0, 5);
    EXPECT_TRUE(found == "first" || found == "later") << found;
  }
}

TEST(misuse_storage, failed_sync_of_a_segment) {
  sim::disk disk;
  memory m("/d/log", small_log(&disk));
  region r = m.map("/d/seg", {.create_length = 4 * kib});
  put(m, r, 0, "first");
  disk.inject({.kind = sim::operation::sync, .path = "/d/seg", .what = sim::effect::lose_writes});
  expect_error(errc::outcome_unknown, {"/d/seg", "still has its changes", "open it again"}, [&] { m.truncate(); });
  expect_error(errc::outcome_unknown, {"/d/seg"}, [&] { put(m, r, 0, "later"); });
  expect_error(errc::outcome_unknown, {"/d/seg"}, [&] { m.close(); });
  memory again("/d/log", small_log(&disk));
  EXPECT_EQ(get(again.map("/d/seg"), 0, 5), "first");
}

}  // namespace
}  // namespace tenure::rvm
