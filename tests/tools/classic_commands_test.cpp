// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvmutl and rdsinit.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <rvm/rds.h>

#include "log/log_files.hpp"
#include "log_command.hpp"
#include "log_shell.hpp"
#include "rds_init.hpp"
#include "records/archive_reader.hpp"
#include "support/child_process.hpp"
#include "support/sanitizers.hpp"
#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::tools {
namespace {

using namespace support;
using stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

stream holding(const std::string& text) {
  stream file(std::tmpfile(), &std::fclose);
  std::fputs(text.c_str(), file.get());
  std::rewind(file.get());
  return file;
}
std::string text_of(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  return text;
}

struct ended {
  int code;
  std::string output;
  [[nodiscard]] bool has(const std::string& part) const { return output.find(part) != std::string::npos; }
};
ended rvmutl(const std::string& commands) {
  const stream in = holding(commands), out = holding("");
  log_shell shell(os::real_disk());
  const int code = shell.run(in.get(), out.get());
  return {code, text_of(out.get())};
}
ended rdsinit(const rds_init_arguments& arguments, const std::string& answers = "") {
  child_process child([&] {
    const stream in = holding(answers);
    return rds_init(arguments, in.get(), stdout);
  });
  const child_end end = child.wait();
  EXPECT_TRUE(WIFEXITED(end.status));
  return {WEXITSTATUS(end.status), end.output};
}

TEST(rvmutl, makes_a_log) {
  temp_dir dir;
  const ended made = rvmutl("i " + dir / "log" + " 100K\nq\nnot read\n");
  EXPECT_EQ(made.code, exit_ok) << made.output;
  EXPECT_TRUE(made.output.starts_with("* "));
  std::uintmax_t sum = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir.path())) sum += file.file_size();
  EXPECT_GE(sum, 100u * 1024);
  EXPECT_EQ(rvmutl("init_log " + dir / "log" + " 100K\nq\n").code, exit_damaged);  // exists
  EXPECT_TRUE(rvmutl("init " + dir / "new" + " x\nq\n").has("no length"));
  EXPECT_TRUE(rvmutl("init\n").has("usage"));
}

TEST(rvmutl, shows_and_recovers) {
  temp_dir dir;
  run_and_die([&] {
    rvm::memory m(dir / "log", small_log());
    rvm::region r = m.map(dir / "seg", {.create_length = 4 * kib});
    put(m, r, 0, "first");
    put(m, r, 8, "second");
    die();
  });
  const ended shown =
      rvmutl("open " + dir / "log" + "\nstatus\nlog_st\nshow head\ntail\nshow all\nstati\ns tail\nclose\n");
  EXPECT_EQ(shown.code, exit_ok) << shown.output;
  EXPECT_TRUE(shown.has("2 transactions, 2 ranges, 11 bytes"));
  EXPECT_TRUE(shown.has("transaction 2"));
  EXPECT_TRUE(shown.has("bytes behind the head"));
  EXPECT_TRUE(shown.has("truncation_ns"));
  const ended all = rvmutl("log " + dir / "log" + "\nall > " + dir / "records" + "\nq\n");
  EXPECT_EQ(all.code, exit_ok) << all.output;
  EXPECT_FALSE(all.has("transaction 1"));
  EXPECT_NE(contents_of(dir / "records").find("transaction 1"), std::string::npos);

  const ended recovered = rvmutl("l " + dir / "log" + "\nrecover\nrec\nall\nq\n");
  EXPECT_EQ(recovered.code, exit_ok) << recovered.output;
  EXPECT_TRUE(recovered.has("2 transactions, 2 ranges, 11 bytes written to 1 segments"));
  EXPECT_TRUE(recovered.has("0 transactions"));
}

// [rvm.archive.beside]
TEST(rvmutl, recovers_into_the_archive) {
  temp_dir dir;
  run_and_die([&] {
    rvm::options how = small_log();
    how.archive.emplace();
    rvm::memory m(dir / "log", how);
    rvm::region r = m.map(dir / "seg", {.create_length = 4 * kib});
    put(m, r, 0, "first");
    m.truncate();
    put(m, r, 8, "second");
    die();
  });
  EXPECT_EQ(rvmutl("l " + dir / "log" + "\nrecover\nq\n").code, exit_ok);
  const rvm::manifest status = rvm::log_files::open_unlocked(os::real_disk(), dir / "log")->status();
  const rvm::archive_reader archive(os::real_disk(), dir / "log.archive", status.log_id);
  EXPECT_EQ(archive.end(), status.tail);
}

TEST(rvmutl, steps) {
  temp_dir dir;
  run_and_die([&] {
    rvm::memory m(dir / "log", small_log());
    rvm::region r = m.map(dir / "seg", {.create_length = 4 * kib});
    for (int i = 0; i < 4; ++i) put(m, r, static_cast<std::size_t>(8 * i), "value");
    die();
  });
  const ended one = rvmutl("open " + dir / "log" + "\nnext\n");
  EXPECT_EQ(one.code, exit_ok) << one.output;
  EXPECT_TRUE(one.has("transaction 1 "));
  EXPECT_FALSE(one.has("transaction 2 "));
  const ended two = rvmutl("open " + dir / "log" + "\nhead\nn 2\n");
  EXPECT_TRUE(two.has("transaction 1 ") && two.has("transaction 2 ") && two.has("transaction 3 ")) << two.output;
  EXPECT_FALSE(two.has("transaction 4 "));
  const ended all = rvmutl("open " + dir / "log" + "\nn 3\nshow next 7\n");
  EXPECT_TRUE(all.has("transaction 4 ")) << all.output;
  EXPECT_FALSE(all.has("no more"));
  EXPECT_TRUE(rvmutl("open " + dir / "log" + "\nn 3\nn\nn\n").has("-- no more records"));
  // Anew, for a log that is opened anew.
  const ended again = rvmutl("open " + dir / "log" + "\nn 4\nopen " + dir / "log" + "\nn > " + dir / "shown" + "\n");
  EXPECT_EQ(again.code, exit_ok);
  EXPECT_NE(contents_of(dir / "shown").find("transaction 1 "), std::string::npos);
  for (const char* wrong : {"0", "x", "1x", "-1", "1 2"})
    EXPECT_EQ(rvmutl("open " + dir / "log" + "\nnext " + wrong + "\n").code, exit_damaged) << wrong;
  EXPECT_TRUE(rvmutl("next\n").has("no log is open"));
}

// A loaded segment, whose header may be in the log only; and bytes that several transactions have changed.
class show_mods : public ::testing::Test {
 protected:
  temp_dir dir;
  char* const base = static_cast<char*>(free_address(1 << 20));
  std::string log = dir / "log", segment = dir / "segment";

  void make(bool truncated) {
    write_file(segment, "");
    run_and_die([&] {
      rvm_options_t options;
      rvm_init_options(&options);
      options.log_dev = log.data();
      options.create_log_file = rvm_true;
      options.create_log_size = RVM_MK_OFFSET(0, 1 << 20);
      EXPECT_EQ(RVM_INIT(&options), RVM_SUCCESS);
      rvm_region_def_t defs[2];
      RVM_INIT_REGION(defs[0], RVM_MK_OFFSET(0, 0), 8192, base);
      RVM_INIT_REGION(defs[1], RVM_MK_OFFSET(0, 0), 4096, base + 65536);
      EXPECT_EQ(rvm_create_segment(segment.data(), RVM_MK_OFFSET(0, 0), nullptr, 2, defs), RVM_SUCCESS);
      unsigned long count;
      rvm_region_def_t* loaded;
      EXPECT_EQ(rvm_load_segment(segment.data(), RVM_MK_OFFSET(0, 0), nullptr, &count, &loaded), RVM_SUCCESS);
      if (truncated) {
        EXPECT_EQ(rvm_truncate(), RVM_SUCCESS);
      }
      const auto change = [](char* at, const std::string& bytes) {
        rvm_tid_t tid;
        rvm_init_tid(&tid);
        EXPECT_EQ(rvm_begin_transaction(&tid, ::restore), RVM_SUCCESS);
        EXPECT_EQ(rvm_modify_bytes(&tid, at, bytes.data(), bytes.size()), RVM_SUCCESS);
        EXPECT_EQ(rvm_end_transaction(&tid, flush), RVM_SUCCESS);
      };
      change(base + 65536 + 16, "\x4a\x95");
      change(base + 65536 + 8, std::string(16, 'x'));
      change(base + 65536 + 100, "elsewhere");
      change(base + 4096, "AB");
      die();
    });
  }
  ended mods(const std::string& which) { return rvmutl("open " + log + "\nshow mods " + which + "\n"); }
  std::string at(unsigned long offset) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", static_cast<void*>(base + offset));
    return text;
  }
};

TEST_F(show_mods, by_address) {
  for (const bool truncated : {false, true}) {
    for (const char* suffix : {"", ".1", ".2"}) std::filesystem::remove(log + suffix);
    make(truncated);
    const ended two = mods(at(65536 + 16) + " / 4b");
    EXPECT_EQ(two.code, exit_ok) << two.output;
    EXPECT_TRUE(two.has(at(65536 + 16) + ": 74 -107 - -\n") && two.has(": 120 120 120 120\n")) << two.output;
    EXPECT_TRUE(two.has(segment) && two.has("modifies these bytes") && two.has("-- no more records"));
    EXPECT_TRUE(mods(at(4096) + "/2cb").has(": A B\n"));
    EXPECT_TRUE(mods(at(4096) + "/xs").has(": 0x4241\n"));
    EXPECT_TRUE(mods(at(65536 + 8) + "/2x").has(": 0x7878787878787878 0x7878787878787878\n"));
    EXPECT_TRUE(mods(at(65536 + 16) + "/bu2").has(": 74 149\n"));
    EXPECT_TRUE(mods(at(65536 + 16) + "/ob").has(": 0112\n"));
    EXPECT_FALSE(mods(at(65536 + 200) + "/8b").has("LSN"));
    EXPECT_TRUE(mods(at(12288)).has("no segment that is loaded there"));
  }
}

TEST_F(show_mods, by_segment_and_by_value) {
  make(false);
  const std::string here = segment + ":12304";  // the header, 8192 bytes of the first region, 16 of the second
  EXPECT_TRUE(mods(here + "/2b").has(": 74 -107\n"));
  EXPECT_TRUE(mods(here).has(": 8680820740569200760\n")) << mods(here).output;
  const ended first = mods(here + "/2b = 0x4a -107"), second = mods(here + " / 8b = 0170");
  EXPECT_TRUE(first.has("assigns these values") && first.has(": 74 -107\n")) << first.output;
  EXPECT_FALSE(first.has(": 120"));
  EXPECT_TRUE(second.has(": 120 120 120 120 120 120 120 120\n")) << second.output;
  EXPECT_FALSE(mods(here + "/b = 75").has("LSN"));
  for (const char* wrong : {"", "x", "1/0b", "1/5000b", "1/b =", "1/b = 1 2", "1/b = x", "0x", "12q"})
    EXPECT_EQ(mods(wrong).code, exit_damaged) << wrong;
  EXPECT_TRUE(rvmutl("show mods 1\n").has("no log is open"));
}

TEST(rvmutl, mistakes) {
  temp_dir dir;
  EXPECT_TRUE(rvmutl("status\n").has("no log is open"));
  EXPECT_TRUE(rvmutl("close_log\n").has("no log is open"));
  EXPECT_TRUE(rvmutl("frobnicate\n").has("no such command"));
  EXPECT_TRUE(rvmutl("stat\n").has("ambiguous"));
  EXPECT_TRUE(rvmutl("show quit\n").has("nothing that can be shown"));
  EXPECT_TRUE(rvmutl("open " + dir / "none" + "\n").has(dir / "none"));
  EXPECT_TRUE(rvmutl("help > " + dir / "none/x" + "\n").has("cannot be written"));
  EXPECT_EQ(rvmutl("frobnicate\nq\n").code, exit_damaged);
  const ended good = rvmutl("\nhelp\nquit\n");
  EXPECT_EQ(good.code, exit_ok);
  EXPECT_TRUE(good.has("recover"));
}

TEST(rvmutl, lengths) {
  EXPECT_EQ(length_in("100"), 100u);
  EXPECT_EQ(length_in("2K"), 2048u);
  EXPECT_EQ(length_in("3m"), 3u * 1024 * 1024);
  EXPECT_EQ(length_in("4S"), 2048u);
  EXPECT_EQ(length_in("2P"), 2 * os::page_size());
  EXPECT_EQ(length_in("7B"), 7u);
  for (const char* wrong : {"", "K", "1X", "1KK", "-1", "99999999999999999M"}) EXPECT_FALSE(length_in(wrong)) << wrong;
}

// ThreadSanitizer allows few ranges.
const std::string address = support::thread_sanitizer ? "0x550000000000" : "0x180000000000";

class rdsinit_test : public ::testing::Test {
 protected:
  temp_dir dir;
  rds_init_arguments good{true, dir / "log", dir / "data", {"0x200000", address, "1048576", "4096", "50", "64"}};
  void SetUp() override { rvm::memory::create_log(dir / "log", {.size = mib}); }
  ended with(std::size_t place, const std::string& number) {
    rds_init_arguments other = good;
    other.numbers[place] = number;
    return rdsinit(other);
  }
};

TEST_F(rdsinit_test, makes_a_heap) {
  write_file(good.data, "what was there");
  const ended end = rdsinit(good);
  EXPECT_EQ(end.code, 0) << end.output;
  EXPECT_EQ(std::filesystem::file_size(good.data), 0x200000u);
  run_and_die([&] {
    rvm_options_t options;
    rvm_init_options(&options);
    options.log_dev = good.log.data();
    EXPECT_EQ(RVM_INIT(&options), RVM_SUCCESS);
    char* fixed = nullptr;
    int err;
    EXPECT_EQ(rds_load_heap(good.data.data(), RVM_MK_OFFSET(0, 0), &fixed, &err), 0);
    EXPECT_EQ(fixed, reinterpret_cast<char*>(std::stoull(address, nullptr, 0) + 0x100000));
    EXPECT_NE(rds_malloc(100, nullptr, &err), nullptr);
    die();
  });
}

TEST_F(rdsinit_test, asks) {
  good.force = false;
  write_file(good.data, "precious");
  EXPECT_EQ(rdsinit(good, "n\n").code, 1);
  EXPECT_EQ(rdsinit(good).code, 1);
  EXPECT_EQ(contents_of(good.data), "precious");
  good.numbers.resize(2);
  const ended end = rdsinit(good, "1048576\n4096\n50\n64\ny\n");
  EXPECT_EQ(end.code, 0) << end.output;
  EXPECT_TRUE(end.has("length of the heap"));
}

TEST_F(rdsinit_test, refuses) {
  for (const auto& [place, number] : std::vector<std::pair<std::size_t, std::string>>{{0, "1052672"},
                                                                                      {0, "x"},
                                                                                      {0, "-1"},
                                                                                      {1, "0x180000000001"},
                                                                                      {1, "0"},
                                                                                      {2, "1048577"},
                                                                                      {2, "0"},
                                                                                      {3, "100"},
                                                                                      {3, "0x300000"},
                                                                                      {4, "0"},
                                                                                      {5, "39"},
                                                                                      {5, "44"},
                                                                                      {5, ""}}) {
    const ended end = with(place, number);
    EXPECT_EQ(end.code, 1) << number << ": " << end.output;
  }
  EXPECT_FALSE(std::filesystem::exists(good.data));
  good.log = dir / "none";
  EXPECT_TRUE(rdsinit(good).has("RVM_EIO"));
}

}  // namespace
}  // namespace tenure::tools
