// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments and regions: where they lie, what they show, on what storage; and opening for reading only.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "log/checksum.hpp"
#include "os/virtual_memory.hpp"
#include "os/write_tracking.hpp"
#include "records/format.hpp"
#include "sim/disk.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

TEST(mapping, at_a_chosen_address) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib});
  void* const place = free_address(64 * kib);
  for (const bool copy : {false, true}) {
    region r = m.map(dir / "seg", {.address = place, .copy_in = copy});
    EXPECT_EQ(r.data(), place);
    EXPECT_EQ(r.size(), 64 * kib);
    EXPECT_EQ(r.offset(), 0u);
    EXPECT_EQ(r.segment_path(), dir / "seg");
    put(m, r, 0, "here");
  }
}

TEST(mapping, several_regions_of_a_segment) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "seg", {.length = 64 * kib});
  region last = m.map(dir / "seg", {.offset = 48 * kib}), first = m.map(dir / "seg", {.length = 16 * kib}),
         middle = m.map(dir / "seg", {.offset = 20 * kib, .length = 4 * kib, .copy_in = true});
  EXPECT_EQ(last.size(), 16 * kib);
  EXPECT_EQ(middle.offset(), 20 * kib);
  m.transact([&](transaction& tx) {
    tx.modify(first.data(), "first", 5);
    tx.modify(last.data(), "last", 4);
    tx.modify(middle.data(), "middle", 6);
  });
  first.unmap();
  put(m, last, 8, "goes on");
  last.unmap();
  middle.unmap();
  region all = m.map(dir / "seg");
  EXPECT_EQ(get(all, 0, 5), "first");
  EXPECT_EQ(get(all, 20 * kib, 6), "middle");
  EXPECT_EQ(get(all, 48 * kib, 4), "last");
  EXPECT_EQ(get(all, 48 * kib + 8, 7), "goes on");
  all.unmap();
  EXPECT_TRUE(m.verify_segment(dir / "seg").empty());
}

// The committed image, and nothing else, is what another mapping shows: not what was written without a transaction.
TEST(mapping, unmapped_and_mapped_elsewhere) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  for (const bool copy : {false, true}) {
    region r = m.map(dir / "seg", {.create_length = 16 * kib, .copy_in = copy});
    put(m, r, 0, "committed");
    put(m, r, 4 * kib, "lazily committed", commit_mode::no_flush);
    {
      transaction tx = m.begin();
      tx.modify(r.data() + 8 * kib, "aborted", 7);
      tx.abort();
    }
    std::memcpy(r.data() + 12 * kib, "undeclared", 10);
    std::byte* const before = r.data();
    r.unmap();
    void* const in_the_way = os::map_anonymous(before, 16 * kib);
    r = m.map(dir / "seg");
    EXPECT_NE(r.data(), before);
    os::unmap(in_the_way, 16 * kib);
    EXPECT_EQ(get(r, 0, 9), "committed");
    EXPECT_EQ(get(r, 4 * kib, 16), "lazily committed");
    EXPECT_EQ(r.at<char>(8 * kib), '\0');
    EXPECT_EQ(r.at<char>(12 * kib), '\0');
    r.unmap();
    std::filesystem::remove(dir / "seg");
  }
}

TEST(mapping, copied_in_region_does_not_depend_on_the_file) {
  temp_dir dir;
  {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.create_length = 64 * kib});
    put(m, r, 60 * kib, "from the file");
  }
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.copy_in = true});
  EXPECT_EQ(get(r, 60 * kib, 13), "from the file");
  put(m, r, 60 * kib, "changed");
  m.truncate();
  EXPECT_EQ(get(r, 60 * kib, 7), "changed");
  EXPECT_EQ(m.stats().private_pages_dropped + m.stats().private_pages_kept, 0u);
}

TEST(mapping, reading_ahead_brings_in_what_was_asked_for) {
  temp_dir dir;
  { memory(dir / "log", small_log()).create_segment(dir / "seg", {.length = 8 * mib}); }
  const auto until_present = [](const region& r, std::size_t bytes) {
    os::write_tracking notes;
    const auto count = [&] { return notes.count_present(r.data(), r.size(), ~std::uint64_t{0}); };
    while (count() < bytes / os::page_size()) std::this_thread::yield();
    EXPECT_EQ(count(), bytes / os::page_size());
  };
  memory m(dir / "log", small_log());
  for (const bool tracked : {false, true}) {
    region r = m.map(dir / "seg", {.sparse = true,
                                   .tracking = tracked ? tracking_mode::automatic : tracking_mode::explicit_ranges,
                                   .force_mechanism = tracking_mechanism::scan});
    if (os::write_tracking().count_present(r.data(), r.size(), ~std::uint64_t{0}) == ~std::uint64_t{0})
      GTEST_SKIP() << "the kernel does not tell which pages are in memory";
    until_present(r, 0);
    r.read_ahead(6 * mib);
    until_present(r, 6 * mib);
    r.read_ahead(r.size());  // once only
  }
  region ended = m.map(dir / "seg");
  ended.read_ahead(ended.size());
  ended = {};  // at once
}

TEST(mapping, truncated_pages_are_given_back_and_show_the_same) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  region r = m.map(dir / "seg", {.create_length = 256 * kib});
  for (std::size_t page = 0; page < 64; ++page) put(m, r, page * 4 * kib + page, "page", commit_mode::no_flush);
  m.truncate();
  EXPECT_EQ(m.stats().private_pages_dropped, 64u);
  for (std::size_t page = 0; page < 64; ++page) EXPECT_EQ(get(r, page * 4 * kib + page, 4), "page");
  // A page with a stray write differs from the file and stays as it is.
  put(m, r, 0, "good");
  r.at<char>(100) = 'x';
  m.truncate();
  EXPECT_EQ(m.stats().private_pages_kept, 1u);
  EXPECT_EQ(r.at<char>(100), 'x');
}

TEST(mapping, segments_are_of_the_length_asked_for) {
  temp_dir dir;
  memory m(dir / "log", small_log());
  m.create_segment(dir / "odd", {.length = 5000, .max_length = mib});
  EXPECT_EQ(m.segment_length(dir / "odd"), 8192u);
  EXPECT_EQ(m.map(dir / "odd").size(), 8192u);
  region r = m.map(dir / "made", {.create_length = 1});
  EXPECT_EQ(r.size(), 4096u);
  EXPECT_EQ(m.segment_length(dir / "made"), 4096u);  // of a mapped one
  r.unmap();
  EXPECT_EQ(m.map(dir / "made", {.create_length = 100'000}).size(), 4096u);  // it exists: nothing is made
  // Zero at first, and valid.
  EXPECT_TRUE(m.verify_segment(dir / "odd").empty());
  EXPECT_FALSE(std::filesystem::exists(dir / "odd.tenure-new"));
}

TEST(mapping, raw_segments_are_taken_as_they_are) {
  temp_dir dir;
  write_file(dir / "raw", std::string(10'000, 'r'));
  {
    memory m(dir / "log", small_log());
    EXPECT_EQ(m.segment_length(dir / "raw", true), 8192u);
    region r = m.map(dir / "raw", {.raw = true});
    EXPECT_EQ(r.size(), 8192u);
    EXPECT_EQ(get(r, 8000, 4), "rrrr");
    put(m, r, 8000, "new!");
  }
  std::string expected(10'000, 'r');
  expected.replace(8000, 4, "new!");
  EXPECT_EQ(contents_of(dir / "raw"), expected);
  run_and_die([&] {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "raw", {.raw = true});
    put(m, r, 0, "crash");
    die();
  });
  EXPECT_EQ(contents_of(dir / "raw"), expected);
  { memory m(dir / "log", small_log()); }
  expected.replace(0, 5, "crash");
  EXPECT_EQ(contents_of(dir / "raw"), expected);
}

// The last page of a region that ends in whole blocks of 512 bytes is written to the file's end, by truncation and by
// recovery; what lies behind is not declared, and not written.
TEST(mapping, raw_segments_that_end_inside_a_page) {
  for (const bool copy_in : {false, true}) {
    temp_dir dir;
    std::string expected(10'000, 'r');
    write_file(dir / "raw", expected);
    const map_options how{.length = 9728, .raw = true, .copy_in = copy_in};
    {
      memory m(dir / "log", small_log());
      expect_error(errc::segment_too_short, {"raw"},
                   [&] { (void)m.map(dir / "raw", {.length = 10'240, .raw = true}); });
      expect_error(errc::misaligned, {"length"}, [&] { (void)m.map(dir / "raw", {.length = 9'729, .raw = true}); });
      expect_error(errc::misaligned, {"length"}, [&] {
        (void)m.map(dir / "raw", {.length = 9728, .raw = true, .tracking = tracking_mode::automatic});
      });
      region r = m.map(dir / "raw", how);
      EXPECT_EQ(r.size(), 9728u);
      EXPECT_EQ(get(r, 9'720, 8), "rrrrrrrr");
      put(m, r, 9'724, "last");
      transaction tx = m.begin();
      expect_error(errc::partly_mapped, {}, [&] { tx.set_range(r.data() + 9'727, 2); });
      tx.abort();
      m.truncate();
      expected.replace(9'724, 4, "last");
      EXPECT_EQ(contents_of(dir / "raw"), expected);
      put(m, r, 9'000, "again");
      put(m, r, 4'000, std::string(5'000, 'n'));  // a run of pages
    }
    expected.replace(9'000, 5, "again");
    expected.replace(4'000, 5'000, std::string(5'000, 'n'));
    EXPECT_EQ(contents_of(dir / "raw"), expected);
    run_and_die([&] {
      memory m(dir / "log", small_log());
      region r = m.map(dir / "raw", how);
      put(m, r, 9'727, "!");
      die();
    });
    {
      memory m(dir / "log", {.mode = open_mode::read_only});
      EXPECT_EQ(get(m.map(dir / "raw", how), 9'724, 4), "las!");
    }
    EXPECT_EQ(contents_of(dir / "raw"), expected);
    { memory m(dir / "log", small_log()); }
    expected.replace(9'727, 1, "!");
    EXPECT_EQ(contents_of(dir / "raw"), expected);
  }
}

TEST(mapping, directory_moved_elsewhere) {
  temp_dir dir;
  std::filesystem::create_directories(dir / "old/below");
  run_and_die([&] {
    memory m(dir / "old/log", small_log());
    region near = m.map(dir / "old/near", {.create_length = 4 * kib}),
           below = m.map(dir / "old/below/seg", {.create_length = 4 * kib});
    region far = m.map(dir / "far", {.create_length = 4 * kib});
    put(m, near, 0, "near");
    put(m, below, 0, "below");
    put(m, far, 0, "far");
    die();
  });
  std::filesystem::rename(dir / "old", dir / "new");
  memory m(dir / "new/log", small_log());
  EXPECT_EQ(m.recovery().transactions, 3u);
  EXPECT_EQ(get(m.map(dir / "new/near"), 0, 4), "near");
  EXPECT_EQ(get(m.map(dir / "new/below/seg"), 0, 5), "below");
  EXPECT_EQ(get(m.map(dir / "far"), 0, 3), "far");  // named absolutely
}

TEST(mapping, taking_over_a_segment_whose_log_is_lost) {
  temp_dir dir;
  run_and_die([&] {
    memory m(dir / "lost", small_log());
    region r = m.map(dir / "seg", {.create_length = 4 * kib});
    put(m, r, 0, "lost");
    die();
  });
  run_and_die([&] {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.take_over = true});
    EXPECT_EQ(r.at<char>(0), '\0');
    put(m, r, 8, "new");
    die();
  });
  // It belongs to the new log now. The lost one, should it turn up, must not overwrite what came after.
  {
    memory third(dir / "third", small_log());
    expect_error(errc::wrong_log, {dir / "seg", dir / "log"}, [&] { (void)third.map(dir / "seg"); });
  }
  expect_error(errc::wrong_log, {dir / "seg", dir / "lost", "taken it over"}, [&] {
    memory{dir / "lost", small_log()};
  });
  {
    memory m(dir / "log", small_log());
    EXPECT_EQ(get(m.map(dir / "seg"), 8, 3), "new");
    m.close();
  }
  // Nor does a reader see them on what is there now.
  memory lost(dir / "lost", reading());
  expect_error(errc::wrong_log, {dir / "seg", dir / "lost", "taken it over"}, [&] { (void)lost.map(dir / "seg"); });
}

// Though nothing has been committed under the new log, and the old one has changes that it knows of.
TEST(mapping, taking_over_holds_at_once) {
  temp_dir dir;
  for (const char* const log : {"first", "second", "first", "second"}) {
    memory m(dir / log, small_log());
    region r = m.map(dir / "seg", {.create_length = 4 * kib, .take_over = true});
    if (log == std::string("first")) {
      put(m, r, 0, log);
      m.truncate();
    }
    m.close();
    memory again(dir / log, small_log());
    EXPECT_EQ(get(again.map(dir / "seg"), 0, 5), "first");
  }
}

TEST(mapping, logs_of_all_block_sizes_and_tiny_ones) {
  sim::disk disk(512);
  for (const std::uint32_t block : {512u, 1024u, 2048u, 4096u}) {
    const std::string name = "/d/log" + std::to_string(block), seg = "/d/seg" + std::to_string(block);
    options how = small_log(&disk);
    how.log = {.size = 1, .max_size = 1, .block_size = block};  // 64 KiB is the least
    std::string model(16 * kib, '\0');
    {
      memory m(name, how);
      EXPECT_EQ(m.stats().log_size, 16 * kib);
      region r = m.map(seg, {.create_length = 16 * kib});
      for (std::size_t i = 0; i < 300; ++i) {
        const std::string text(1 + i * 7 % 900, static_cast<char>('a' + i % 26));
        const std::size_t at = i * 997 % (16 * kib - 900);
        put(m, r, at, text, i % 3 == 0 ? commit_mode::no_flush : commit_mode::flush);
        model.replace(at, text.size(), text);
      }
      EXPECT_EQ(get(r, 0, 16 * kib), model);
      EXPECT_EQ(m.stats().log_grown, 0u);
      EXPECT_LE(m.stats().log_size, 64 * kib);  // the last file is taken when truncation is behind
      if (block == 512) {
        EXPECT_LT(m.stats().log_bytes_written, 300u * 1536);
      }
    }
    memory m(name, how);
    EXPECT_EQ(get(m.map(seg), 0, 16 * kib), model);
  }
}

TEST(mapping, log_grows_for_a_large_transaction) {
  temp_dir dir;
  options how = small_log();
  how.log.size = 64 * kib;
  {
    memory m(dir / "log", how);
    region r = m.map(dir / "seg", {.create_length = 4 * mib});
    put(m, r, 0, "before");
    m.transact([&](transaction& tx) {
      tx.set_range(r.data() + 100, 3 * mib);
      std::memset(r.data() + 100, 'g', 3 * mib);
    });
    EXPECT_EQ(m.stats().log_grown, 1u);
    EXPECT_GT(m.stats().log_size, 3 * mib);
    put(m, r, 8, "after");
    // What it needs no more is given back.
    m.truncate();
    put(m, r, 16, "later");
    m.truncate();
    EXPECT_LT(m.stats().log_size, 3 * mib);
  }
  memory m(dir / "log", how);
  region r = m.map(dir / "seg");
  EXPECT_EQ(get(r, 0, 6), "before");
  EXPECT_EQ(get(r, 8, 5), "after");
  EXPECT_EQ(get(r, 100, 3 * mib), std::string(3 * mib, 'g'));
}

// --- Block devices ---

TEST(mapping, segment_on_a_simulated_device) {
  sim::disk disk(512);
  disk.add_device("/dev/store", 64 * kib);
  std::unique_ptr<sim::disk> left;
  {
    memory m("/d/log", small_log(&disk));
    EXPECT_EQ(m.segment_length("/dev/store", true), 64 * kib);
    region r = m.map("/dev/store", {.raw = true});
    put(m, r, 60 * kib, "on the device");
    left = disk.crash(1, sim::policy::drop_all);
  }
  memory m("/d/log", small_log(left.get()));
  EXPECT_EQ(m.recovery().transactions, 1u);
  EXPECT_EQ(get(m.map("/dev/store", {.raw = true}), 60 * kib, 13), "on the device");
}

// A file as a block device, for as long as the object lives.
class loop_device {
 public:
  explicit loop_device(const std::string& file) {
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) return;
    const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
    ::close(control);
    if (number < 0) return;
    const std::string name = "/dev/loop" + std::to_string(number);
    const int backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    device_ = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
    if (device_ >= 0 && ::ioctl(device_, LOOP_SET_FD, backing) == 0) name_ = name;
    ::close(backing);
  }
  ~loop_device() {
    if (!name_.empty()) ::ioctl(device_, LOOP_CLR_FD, 0);
    if (device_ >= 0) ::close(device_);
  }
  loop_device(const loop_device&) = delete;
  loop_device& operator=(const loop_device&) = delete;
  // Empty if the system does not let us.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  int device_ = -1;
  std::string name_;
};

TEST(mapping, segment_on_a_loop_device) {
  temp_dir dir;
  write_file(dir / "backing", std::string(256 * kib, '\0'));
  {
    loop_device device(dir / "backing");
    if (device.name().empty()) GTEST_SKIP() << "no loop devices here";
    run_and_die([&] {
      memory m(dir / "log", small_log());
      region r = m.map(device.name(), {.offset = 64 * kib, .raw = true});
      put(m, r, 0, "by recovery");
      die();
    });
    memory m(dir / "log", small_log());
    EXPECT_EQ(m.segment_length(device.name(), true), 256 * kib);
    region r = m.map(device.name(), {.raw = true});
    EXPECT_EQ(get(r, 64 * kib, 11), "by recovery");
    put(m, r, 128 * kib, "by truncation");
    r.unmap();
  }
  const std::string contents = contents_of(dir / "backing");
  EXPECT_EQ(contents.substr(64 * kib, 11), "by recovery");
  EXPECT_EQ(contents.substr(128 * kib, 13), "by truncation");
}

// --- Reading only ---

TEST(read_only_memory, of_a_clean_log) {
  temp_dir dir;
  {
    memory m(dir / "log", small_log());
    region r = m.map(dir / "seg", {.create_length = 16 * kib});
    put(m, r, 0, "clean");
  }
  const std::string log = contents_of(dir / "log"), segment = contents_of(dir / "seg");
  {
    memory m(dir / "log", reading());
    EXPECT_FALSE(m.recovery().needed);
    EXPECT_EQ(m.segment_length(dir / "seg"), 16 * kib);
    EXPECT_EQ(get(m.map(dir / "seg"), 0, 5), "clean");
    EXPECT_EQ(get(m.map(dir / "seg", {.copy_in = true}), 0, 5), "clean");
    EXPECT_TRUE(m.verify_segment(dir / "seg").empty());
  }
  EXPECT_EQ(contents_of(dir / "log"), log);
  EXPECT_EQ(contents_of(dir / "seg"), segment);
}

TEST(read_only_memory, of_a_log_that_needs_recovery) {
  temp_dir dir;
  run_and_die([&] {
    options how = small_log();
    how.tune.truncation_threshold = 2;
    memory m(dir / "log", how);
    region r = m.map(dir / "seg", {.create_length = 16 * kib}),
           other = m.map(dir / "other", {.create_length = 16 * kib});
    put(m, r, 0, "old");
    put(m, r, 0, "new");
    put(m, r, 4094, "across");
    put(m, other, 0, "other");
    die();
  });
  const std::string log = contents_of(dir / "log"), segment = contents_of(dir / "seg");
  {
    // Two at once, in two processes.
    memory m(dir / "log", reading());
    EXPECT_TRUE(m.recovery().needed);
    child_process child([&] {
      memory another(dir / "log", reading());
      return get(another.map(dir / "seg"), 0, 3) == "new" ? 0 : 1;
    });
    region r = m.map(dir / "seg");
    EXPECT_EQ(get(r, 0, 3), "new");
    EXPECT_EQ(get(r, 4094, 6), "across");
    EXPECT_EQ(get(m.map(dir / "other", {.copy_in = true}), 0, 5), "other");
    const child_end end = child.wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output;
    // Nobody can write meanwhile.
    expect_error(errc::in_use, {dir / "log"}, [&] { memory{dir / "log", small_log()}; });
    // A part of the segment shows its part of the changes.
    r.unmap();
    region part = m.map(dir / "seg", {.offset = 4 * kib, .length = 4 * kib});
    EXPECT_EQ(get(part, 0, 4), "ross");
    EXPECT_TRUE(m.verify_segment(dir / "seg").empty());
  }
  EXPECT_EQ(contents_of(dir / "log"), log);
  EXPECT_EQ(contents_of(dir / "seg"), segment);
  memory m(dir / "log", small_log());
  EXPECT_TRUE(m.recovery().needed);
  EXPECT_EQ(get(m.map(dir / "seg"), 0, 3), "new");
}

// A crash in the middle of truncation leaves pages whose checksum is not written yet. Recovery writes them anew.
TEST(read_only_memory, pages_that_recovery_will_write_are_not_called_damaged) {
  temp_dir dir;
  run_and_die([&] {
    options how = small_log();
    how.tune.truncation_threshold = 2;
    memory m(dir / "log", how);
    region r = m.map(dir / "seg", {.create_length = 16 * kib});
    put(m, r, 0, "changed");
    die();
  });
  std::string segment = contents_of(dir / "seg");
  segment.replace(segment.size() - 16 * kib, 7, "changed");  // page 0, without its checksum
  for (const std::size_t at : {0, 4096}) {                   // as who does not know `applied` leaves it
    segment_header h;
    std::memcpy(&h, segment.data() + at, sizeof h);
    h.applied_sequence = 0;
    h.checksum = header_checksum(h, offsetof(segment_header, checksum));
    std::memcpy(segment.data() + at, &h, sizeof h);
  }
  segment.replace(segment.size() - 4 * kib, 1, "d");  // page 3, damaged
  write_file(dir / "seg", segment);
  const std::vector<std::uint64_t> damaged{12 * kib};
  EXPECT_EQ(memory(dir / "log", reading()).verify_segment(dir / "seg"), damaged);
  EXPECT_EQ(memory(dir / "log", small_log()).verify_segment(dir / "seg"), damaged);
}

}  // namespace
}  // namespace tenure::rvm
