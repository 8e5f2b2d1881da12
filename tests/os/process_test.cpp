// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/process.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "os/os_test_support.hpp"

namespace tenure::os {
namespace {

namespace fs = std::filesystem;

TEST(fork_generation, grows_in_each_child_and_stays_in_the_parent) {
  const std::uint32_t here = fork_generation();
  EXPECT_EQ(in_child([&] {
              if (fork_generation() != here + 1) return 1;
              return in_child([&] { return fork_generation() == here + 2 ? 0 : 2; });
            }),
            0);
  EXPECT_EQ(fork_generation(), here);
}

TEST(wall_clock, is_in_nanoseconds_since_1970) {
  constexpr std::int64_t year = 365LL * 24 * 3600 * 1'000'000'000;
  EXPECT_GT(wall_clock_ns(), 50 * year);
  EXPECT_LT(wall_clock_ns(), 200 * year);
}

TEST(random_bytes, fills_everything_and_differs_each_time) {
  std::vector<std::byte> first(1 << 20), second(1 << 20);  // more than the kernel gives at once while interrupted
  random_bytes(first);
  random_bytes(second);
  EXPECT_NE(first, second);
  for (std::size_t at = 0; at < first.size(); at += 64) {
    const auto part = std::span(first).subspan(at, 64);
    ASSERT_TRUE(std::ranges::any_of(part, [](std::byte b) { return b != std::byte{}; })) << "at " << at;
  }
  random_bytes({});
}

TEST(absolute_path, is_normalised) {
  EXPECT_EQ(absolute_path("/a/b"), "/a/b");
  EXPECT_EQ(absolute_path("/"), "/");
  EXPECT_EQ(absolute_path("/a//b/./c/"), "/a/b/c");
  EXPECT_EQ(absolute_path("/no-such-directory/../b"), "/b");
  EXPECT_EQ(absolute_path("/../../b"), "/b");
  EXPECT_EQ(absolute_path("x/y"), (fs::current_path() / "x/y").string());
  EXPECT_EQ(absolute_path("./x"), (fs::current_path() / "x").string());
  EXPECT_EQ(absolute_path("."), fs::current_path().string());
  EXPECT_EQ(absolute_path("x/../y"), (fs::current_path() / "y").string());
}

TEST(absolute_path, keeps_links_and_means_the_same_file_as_before) {
  const scratch_directory scratch;
  fs::create_directories(scratch / "real/below");
  fs::create_directory(scratch / "real/directory");
  fs::create_symlink("real/directory", scratch / "link");
  EXPECT_EQ(absolute_path(scratch / "link/file"), scratch / "link/file");
  // The parent of a link's target, not of the link: leaving out "link/.." would name something else.
  EXPECT_EQ(absolute_path(scratch / "link/../below"), scratch / "link/../below");
  EXPECT_TRUE(fs::exists(absolute_path(scratch / "link/../below")));
  EXPECT_EQ(absolute_path(scratch / "link/../below/.."), scratch / "link/..");
  EXPECT_EQ(absolute_path(scratch / "link/../.."), scratch / "link/../..");
  EXPECT_EQ(absolute_path(scratch / "real/directory/../below"), scratch / "real/below");
}

TEST(absolute_path, needs_a_path_and_a_working_directory) {
  expect_error(std::errc::no_such_file_or_directory, {"empty path"}, [] { (void)absolute_path(""); });
  const scratch_directory scratch;
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_FS), 0);  // a working directory of this thread's own
    const std::string gone = scratch / "gone";
    fs::create_directory(gone);
    ASSERT_EQ(::chdir(gone.c_str()), 0);
    fs::remove(gone);
    expect_error(std::errc::no_such_file_or_directory, {"cannot make the path x absolute"},
                 [] { (void)absolute_path("x"); });
  }).join();
}

}  // namespace
}  // namespace tenure::os
