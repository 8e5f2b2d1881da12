// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The known defects of the original, by number (docs/classic-api.md has the list), and that they are not ours.
#include <rvm/rds.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "classic/scenario.hpp"
#include "log/checksum.hpp"
#include "os/virtual_memory.hpp"
#include "records/format.hpp"
#include "support/sanitizers.hpp"

namespace tenure::classic {
namespace {

class defects : public classic_test {
 protected:
  static rvm_statistics_t statistics() {
    rvm_statistics_t s;
    rvm_init_statistics(&s);
    EXPECT_OK(RVM_STATISTICS(&s));
    return s;
  }
  static constexpr std::size_t manifest_length = 2 * rvm::manifest_copy_size;
  // The log's manifest and, behind it, its files.
  std::string log_contents(const std::string& path) {
    log_lengths = {{"", manifest_length}};
    std::string all = contents_of(path);
    for (int number = 1; std::filesystem::exists(path + "." + std::to_string(number)); ++number) {
      const std::string suffix = "." + std::to_string(number), bytes = contents_of(path + suffix);
      log_lengths.emplace_back(suffix, bytes.size());
      all += bytes;
    }
    return all;
  }
  std::vector<std::pair<std::string, std::size_t>> log_lengths;  // of the last one
  // What a process finds that opens this log with the segment as it is now: a code, then (if it is 0) the first bytes.
  std::string opened_with(const std::string& log_bytes, const std::string& segment_bytes, unsigned long length) const {
    // Over the files that are there: a log in use refuses copies.
    std::size_t at = 0;
    for (const auto& [suffix, bytes] : log_lengths) {
      write_file(log + suffix, log_bytes.substr(std::min(at, log_bytes.size()), bytes));
      at += bytes;
    }
    write_file(segment, segment_bytes);
    support::child_process child([&] {
      options_for options(log);
      const int code = RVM_INIT(&options);
      if (code != RVM_SUCCESS) return std::printf("%s", rvm_return(code)) < 0 ? 1 : 0;
      std::string device = segment;
      rvm_region_t region = region_of(device);
      EXPECT_OK(rvm_map(&region, nullptr));
      std::fwrite(region.vmaddr, 1, length, stdout);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    const support::child_end end = child.wait();
    EXPECT_TRUE(end.exited_with(0)) << "status " << end.status << ": " << end.output;
    return end.output;
  }
  // A disk that takes no more: writing fails from now on, until it is lifted.
  static void limit_files(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
};

TEST_F(defects, n01_uncommitted_data_is_not_logged) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "committed", no_flush);
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "uncommit.", 9));
    EXPECT_OK(rvm_flush());
  });
  EXPECT_EQ(recovered(0, 9), "committed");
}

TEST_F(defects, n02_crash_after_the_commit_that_made_room) {
  log = dir / "small";
  make_log(65536);
  std::uint64_t last = 0;
  in_process([&] {
    options_for options(log);
    options.options.truncate = 0;  // only when it is full
    EXPECT_OK(RVM_INIT(&options));
    rvm_region_t region = region_of(segment);
    EXPECT_OK(rvm_map(&region, nullptr));
    for (std::uint64_t i = 1; statistics().n_truncation_wait < 3; ++i)
      put(region.vmaddr, {reinterpret_cast<const char*>(&i), sizeof i}), last = i;
    std::memcpy(region.vmaddr + 100, &last, sizeof last);
    put(region.vmaddr + 100, std::string(region.vmaddr + 100, sizeof last));
  });
  const std::string first = recovered(0, sizeof last), second = recovered(100, sizeof last);
  std::memcpy(&last, first.data(), sizeof last);
  EXPECT_GT(last, 0u);
  EXPECT_EQ(first, second);
}

TEST_F(defects, n03_background_truncation_loses_no_wakeup) {
  log = dir / "small";
  make_log(65536);
  in_process([&] {
    options_for options(log);
    options.options.truncate = 1;
    EXPECT_OK(RVM_INIT(&options));
    rvm_region_t region = region_of(segment);
    EXPECT_OK(rvm_map(&region, nullptr));
    std::vector<std::jthread> all;
    for (int t = 0; t < 4; ++t)
      all.emplace_back([&, t] {
        for (int i = 0; i < 300; ++i)
          put(region.vmaddr + t * page, std::string(2000, static_cast<char>(i)), i % 10 == 0 ? flush : no_flush);
      });
    all.clear();
    EXPECT_OK(rvm_terminate());
  });
}

TEST_F(defects, n04_log_nearly_full_of_coalesced_transactions) {
  log = dir / "small";
  make_log(4096);
  in_process([&] {
    const rvm_region_t region = open(RVM_ALL_OPTIMIZATIONS);
    std::mt19937 random(1);
    for (unsigned i = 0; i < 3000; ++i) {
      const unsigned long length = random() % 3000 + 1, at = random() % (segment_length - length);
      put(region.vmaddr + at, std::string(length, static_cast<char>(i)), i % 97 == 0 ? flush : no_flush);
    }
    put(region.vmaddr, "last");
  });
  EXPECT_EQ(recovered(0, 4), "last");
}

TEST_F(defects, n05_adjacent_ranges_flush_and_no_flush) {
  in_process([&] {
    const rvm_region_t region = open(RVM_COALESCE_TRANS);
    std::vector<std::jthread> both;
    for (const rvm_mode_t how : {flush, no_flush})
      both.emplace_back([&, how] {
        for (int i = 0; i < 500; ++i) put(region.vmaddr + (how == flush ? 0 : 8), "adjacent", how);
      });
    both.clear();
    EXPECT_OK(rvm_flush());
  });
  EXPECT_EQ(recovered(0, 16), "adjacentadjacent");
}

TEST_F(defects, n06_coalesced_transactions_leave_the_region_free) {
  in_process([&] {
    rvm_region_t region = open(RVM_COALESCE_TRANS);
    put(region.vmaddr, "lazy", no_flush);
    put(region.vmaddr, "sure", flush);
    EXPECT_OK(rvm_unmap(&region));
  });
}

TEST_F(defects, n07_abort_after_a_commit_that_failed) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "old");
    std::string other_file = dir / "other";
    write_file(other_file, std::string(512 * 1024, '\0'));
    rvm_region_t other = region_of(other_file);
    EXPECT_OK(rvm_map(&other, nullptr));
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "new", 3));
    EXPECT_OK(rvm_set_range(&tid, other.vmaddr, other.length));  // twice the log
    std::memset(other.vmaddr, 'x', other.length);
    EXPECT_CODE(RVM_ETOO_BIG, rvm_end_transaction(&tid, flush));
    EXPECT_CODE(RVM_ETOO_BIG, rvm_end_transaction(&tid, no_flush));
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_STREQ(region.vmaddr, "old");
    EXPECT_EQ(other.vmaddr[100], '\0');

    tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "new", 3));
    limit_files(0);
    EXPECT_CODE(RVM_EIO, rvm_end_transaction(&tid, flush));
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_STREQ(region.vmaddr, "old");
  });
  EXPECT_EQ(recovered(0, 3), "old");
}

TEST_F(defects, n08_nothing_is_committed_after_a_failed_write) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "old");
    rvm_tid_t tid = begun(), another = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "new", 3));
    EXPECT_OK(rvm_modify_bytes(&another, region.vmaddr + 8, "new", 3));
    limit_files(0);
    EXPECT_CODE(RVM_EIO, rvm_end_transaction(&tid, flush));
    limit_files(RLIM_INFINITY);
    EXPECT_CODE(RVM_EIO, rvm_end_transaction(&tid, flush));
    EXPECT_CODE(RVM_EIO, rvm_end_transaction(&another, flush));
    EXPECT_CODE(RVM_EIO, rvm_flush());
    rvm_tid_t later;
    rvm_init_tid(&later);
    EXPECT_CODE(RVM_EIO, rvm_begin_transaction(&later, restore));
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_OK(rvm_abort_transaction(&another));
    EXPECT_CODE(RVM_EIO, rvm_terminate());
  });
  EXPECT_EQ(recovered(0, 11), std::string("old\0\0\0\0\0\0\0\0", 11));
}

TEST_F(defects, n09_checksums_cover_every_byte) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "twelve bytes");
    put(region.vmaddr + 100, "later");  // so that the first one is known to be acknowledged
  });
  const std::string log_bytes = log_contents(log), segment_bytes = contents_of(segment);
  const std::size_t at = log_bytes.find("twelve bytes");
  ASSERT_NE(at, std::string::npos);
  const std::size_t group = at / 512 * 512;
  EXPECT_EQ(opened_with(log_bytes, segment_bytes, 12), "twelve bytes");
  for (std::size_t i = group; i < at + 12; ++i) {
    std::string damaged = log_bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_EQ(opened_with(damaged, segment_bytes, 12), "RVM_ELOG") << "byte " << i - group;
  }
}

// Each case takes a process of its own, which ThreadSanitizer is slow to start.
constexpr int one_of = support::thread_sanitizer ? 16 : 1;

TEST_F(defects, n10_torn_last_record) {
  const std::string before(3000, 'b'), after(3000, 'a');
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, before);
    std::filesystem::copy(log, dir / "log.before");
    for (int number = 1; std::filesystem::exists(log + "." + std::to_string(number)); ++number)
      std::filesystem::copy(log + "." + std::to_string(number), dir / ("log.before." + std::to_string(number)));
    put(region.vmaddr, after);
  });
  const std::string old_log = log_contents(dir / "log.before"), new_log = log_contents(log),
                    segment_bytes = contents_of(segment);
  std::vector<std::size_t> sectors;
  for (std::size_t at = 0; at < new_log.size(); at += 512)
    if (old_log.compare(at, 512, new_log, at, 512) != 0) sectors.push_back(at);
  ASSERT_GE(sectors.size(), 6u);
  ASSERT_LE(sectors.size(), 9u);
  for (std::size_t subset = 0; subset < std::size_t{1} << sectors.size(); ++subset) {
    const bool whole = subset + 1 == std::size_t{1} << sectors.size();
    if (subset % one_of != 0 && !whole) continue;
    std::string torn = old_log;
    for (std::size_t i = 0; i < sectors.size(); ++i)
      if (subset >> i & 1) torn.replace(sectors[i], 512, new_log, sectors[i], 512);
    EXPECT_EQ(opened_with(torn, segment_bytes, 3000), whole ? after : before) << "sectors " << subset;
  }
}

TEST_F(defects, n11_manifest_damaged) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "safe");
  });
  const std::string log_bytes = log_contents(log), segment_bytes = contents_of(segment);
  std::string both = log_bytes;
  for (std::size_t at = 0; at < manifest_length; at += 512) {
    if (at % rvm::manifest_copy_size >= 2048) continue;  // zeros that mean nothing
    std::string damaged = log_bytes;
    damaged.replace(at, 512, std::string(512, '\xa5'));
    EXPECT_EQ(opened_with(damaged, segment_bytes, 4), "safe") << at;
  }
  both.replace(0, manifest_length, std::string(manifest_length, '\xa5'));
  EXPECT_EQ(opened_with(both, segment_bytes, 4), "RVM_ELOG");
}

// Times in the log are in the future, as if the clock had been set back since.
TEST_F(defects, n12_clock_set_back) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "timeless");
  });
  std::string log_bytes = log_contents(log);
  for (std::size_t at = 0; at < manifest_length; at += rvm::manifest_copy_size) {
    rvm::manifest_header m;
    std::memcpy(&m, log_bytes.data() + at, sizeof m);
    m.created += 3'600'000'000'000;
    m.written += 7'200'000'000'000;
    m.checksum = 0;
    std::memcpy(log_bytes.data() + at, &m, sizeof m);
    m.checksum = rvm::crc32c(std::as_bytes(std::span(log_bytes)).subspan(at, m.length));
    std::memcpy(log_bytes.data() + at, &m, sizeof m);
  }
  EXPECT_EQ(opened_with(log_bytes, contents_of(segment), 8), "timeless");
}

TEST_F(defects, n13_group_commit) {
  in_process([&] {
    const rvm_region_t region = open();
    std::vector<std::jthread> all;
    for (int t = 0; t < 8; ++t)
      all.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) put(region.vmaddr + t * 64, "together");
      });
    all.clear();
    const rvm_statistics_t s = statistics();
    EXPECT_EQ(s.n_flush_commit, 1600u);
    EXPECT_LT(s.n_flush, 1600u);
  });
}

TEST_F(defects, n14_threads_are_joined) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  in_process([&] {
    std::jthread([] {}).join();  // sanitizers start theirs with the first one
    const auto before = threads();
    open();
    EXPECT_GT(threads(), before);
    EXPECT_OK(rvm_terminate());
    // The kernel shows a thread that has been joined for a moment longer.
    for (int tries = 0; threads() > before && tries < 100'000; ++tries) std::this_thread::yield();
    EXPECT_EQ(threads(), before);
  });
}

TEST_F(defects, n15_statistics_are_exact) {
  in_process([&] {
    const rvm_region_t region = open();
    std::vector<std::jthread> all;
    std::atomic<bool> done{false};
    std::jthread reader([&] {
      while (!done) (void)statistics();
    });
    for (int t = 0; t < 25; ++t)
      all.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) put(region.vmaddr + t * 64, "counted", no_flush);
      });
    all.clear();
    done = true;
    const rvm_statistics_t s = statistics();
    EXPECT_EQ(s.n_no_flush_commit, 5000u);
    EXPECT_EQ(s.range_lengths[0], 5000u);
  });
}

TEST_F(defects, n16_interleaved_transactions_on_the_heap) {
  std::string file = dir / "heap";
  write_file(file, "");
  in_process([&] {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
    char* const base = fixed_address(3);
    char* fixed;
    int err;
    EXPECT_EQ(rds_zap_heap(file.data(), {0, 0}, base, page, 64 * page, 20, 64, &err), 0);
    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), 0);
    rvm_tid_t first = begun(), second = begun();
    char* const lost = rds_malloc(100, &first, &err);
    char* const kept = rds_malloc(100, &second, &err);
    ASSERT_NE(lost, nullptr);
    ASSERT_NE(kept, nullptr);
    EXPECT_OK(rvm_end_transaction(&second, flush));
    EXPECT_OK(rvm_abort_transaction(&first));
    for (int i = 0; i < 200; ++i) EXPECT_NE(rds_malloc(100, nullptr, &err), kept);
    EXPECT_EQ(rds_free(kept, nullptr, &err), 0) << err;
  });
}

TEST_F(defects, n17_begin_twice) {
  in_process([&] {
    const rvm_region_t region = open();
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "kept", 4));
    EXPECT_CODE(RVM_ETID, rvm_begin_transaction(&tid, restore));
    EXPECT_OK(rvm_end_transaction(&tid, flush));
    EXPECT_OK(rvm_terminate());  // nothing is left open
  });
}

TEST_F(defects, n17_unmap_unmaps) {
  in_process([&] {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
    rvm_region_t region = region_of(segment);
    // A place that the kernel gives to nobody else once it is free.
    region.vmaddr = fixed_address(5);
    EXPECT_OK(rvm_map(&region, nullptr));
    EXPECT_NE(os::occupant(fixed_address(5), segment_length), "");
    EXPECT_OK(rvm_unmap(&region));
    EXPECT_EQ(os::occupant(fixed_address(5), segment_length), "");
  });
}

TEST_F(defects, n17_relative_log_path_again) {
  in_process([&] {
    ASSERT_EQ(::chdir(dir.path().c_str()), 0);
    options_for options("log");
    EXPECT_OK(RVM_INIT(&options));
    EXPECT_OK(rvm_set_options(&options));
    options.path = "./log";
    options.options.log_dev = options.path.data();
    EXPECT_OK(rvm_set_options(&options));
  });
}

TEST_F(defects, n17_nothing_is_printed) {
  support::child_process child([&] {
    rvm_region_t region = open();
    put(region.vmaddr, "quiet");
    rvm_tid_t never;
    rvm_init_tid(&never);
    (void)rvm_abort_transaction(&never);
    (void)rvm_map(&region, nullptr);
    int err;
    (void)rds_free(region.vmaddr, nullptr, &err);
    (void)rds_start_heap(region.vmaddr, &err);
    (void)rvm_terminate();
    return 0;
  });
  EXPECT_EQ(child.wait().output, "");
}

TEST_F(defects, n18_log_has_all_its_space) {
  off_t sum = 0;
  for (int number = 1; std::filesystem::exists(log + "." + std::to_string(number)); ++number) {
    struct stat status {};
    ASSERT_EQ(::stat((log + "." + std::to_string(number)).c_str(), &status), 0);
    EXPECT_GE(status.st_blocks * 512, status.st_size);
    sum += status.st_size;
  }
  EXPECT_GE(sum, 256 * 1024);
}

TEST_F(defects, n19_no_damage_is_a_crash) {
  in_process([&] {
    const rvm_region_t region = open();
    for (int i = 0; i < 20; ++i) put(region.vmaddr + i * 100, std::string(90, static_cast<char>('a' + i)));
  });
  const std::string log_bytes = log_contents(log), segment_bytes = contents_of(segment);
  const std::size_t live = log_bytes.find_last_not_of('\0');
  std::mt19937 random(2);
  for (int round = 0; round < 200; round += one_of) {
    std::string damaged = log_bytes;
    for (int i = 0; i <= round % 20; ++i) damaged[random() % live] = static_cast<char>(random());
    if (round % 10 == 0) damaged.resize(random() % damaged.size());
    const std::string found = opened_with(damaged, segment_bytes, 90);  // expects that it exits
    EXPECT_TRUE(found == "RVM_ELOG" || found == "RVM_ELOG_VERSION_SKEW" || found == std::string(90, 'a')) << found;
  }
}

TEST_F(defects, n20_one_process_at_a_time) {
  in_process([&] {
    int ready[2], done[2];
    ASSERT_EQ(::pipe(ready) + ::pipe(done), 0);
    support::child_process other([&] {
      open();
      char byte = 0;
      if (::write(ready[1], &byte, 1) != 1 || ::read(done[0], &byte, 1) != 1) return 1;
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    char byte;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    options_for options(log);
    EXPECT_CODE(RVM_EIO, RVM_INIT(&options));
    // The segment under another log.
    options_for another(dir / "another");
    rvm_offset_t size = RVM_MK_OFFSET(0, 65536);
    EXPECT_OK(rvm_create_log(&another, &size, 0600));
    EXPECT_OK(RVM_INIT(&another));
    rvm_region_t region = region_of(segment);
    EXPECT_CODE(RVM_EIO, rvm_map(&region, nullptr));
    ASSERT_EQ(::write(done[1], &byte, 1), 1);
    EXPECT_TRUE(other.wait().exited_with(0));
    EXPECT_OK(rvm_map(&region, nullptr));
  });
}

}  // namespace
}  // namespace tenure::classic
