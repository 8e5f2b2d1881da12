// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvmutl and rdsinit.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <rvm/rds.h>

#include "log_command.hpp"
#include "log_shell.hpp"
#include "rds_init.hpp"
#include "support/child_process.hpp"
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
  EXPECT_GE(std::filesystem::file_size(dir / "log"), 100u * 1024);
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

#ifdef __SANITIZE_THREAD__  // knows few ranges
const std::string address = "0x550000000000";
#else
const std::string address = "0x180000000000";
#endif

class rdsinit_test : public testing::Test {
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
