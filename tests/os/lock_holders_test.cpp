// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Who has a lock, and descriptors that programs without standard streams get.
#include "os/lock_holders.hpp"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <sstream>

#include "os/os_test_support.hpp"

namespace tenure::os {
namespace {

std::string holders_in(const std::string& locks, dev_t device, ino_t number) {
  std::istringstream in(locks);
  return lock_holders(in, device, number, "object");
}

// A process that lives, and one that does not: the number is larger than any.
const std::string parent = std::to_string(::getppid()), nobody = "2147483647";

TEST(lock_holders, are_read_from_the_list_of_locks) {
  const dev_t disk = makedev(0xfe, 1);
  const std::string locks = "1: POSIX  ADVISORY  WRITE " + nobody + " fe:01:12 0 EOF\n" +  //
                            "2: FLOCK  ADVISORY  WRITE " + parent + " fe:01:12 0 EOF\n" +  //
                            "2: -> FLOCK  ADVISORY  WRITE 1 fe:01:12 0 EOF\n" +            //
                            "3: FLOCK  ADVISORY  WRITE " + nobody + " fe:01:13 0 EOF\n" +  //
                            "4: FLOCK  ADVISORY  READ " + parent + " fe:01:14 0 EOF\n" +   //
                            "5: FLOCK  ADVISORY  READ " + nobody + " fe:01:14 0 EOF\n" +   //
                            "6: FLOCK  ADVISORY  WRITE " + std::to_string(::getpid()) + " fe:01:15 0 EOF\n" +
                            "nonsense\n\n";
  EXPECT_TRUE(holders_in(locks, disk, 12).starts_with("another process, " + parent + " ("))
      << holders_in(locks, disk, 12);
  EXPECT_TRUE(holders_in(locks, disk, 12).ends_with("),"));
  EXPECT_EQ(holders_in(locks, disk, 13), "a child of process " + nobody + ", which has ended,");
  EXPECT_TRUE(holders_in(locks, disk, 14).ends_with(" and 1 more,"));
  EXPECT_EQ(holders_in(locks, disk, 15), "another object of this process");
  EXPECT_EQ(holders_in(locks, disk, 2), "");
  EXPECT_EQ(holders_in(locks, makedev(0xfe, 2), 13), "") << "of another disk";
  EXPECT_NE(holders_in(locks, makedev(0, 40), 13), "") << "the system gives such files other numbers";
  EXPECT_EQ(holders_in("", disk, 12), "");
}

TEST(lock_holders, are_named_if_the_system_knows_them) {
  const scratch_directory scratch;
  const auto first = real_disk().create(scratch / "x", 0600);
  const auto second = real_disk().open(scratch / "x", access::read_write);
  ASSERT_TRUE(first->try_lock(lock_kind::exclusive));
  ASSERT_FALSE(second->try_lock(lock_kind::exclusive));
  const std::string here = second->lock_holders("object");
  if (here == "another process, or another object of this one,") GTEST_SKIP() << "there is no /proc/locks";
  EXPECT_EQ(here, "another object of this process");
  const std::string id = std::to_string(::getpid());
  EXPECT_EQ(
      in_child([&] { return second->lock_holders("object").starts_with("another process, " + id + " (") ? 0 : 1; }), 0);
}

// What such a program prints must not land in its files.
TEST(descriptors, of_files_are_none_of_the_standard_streams) {
  const scratch_directory scratch;
  EXPECT_EQ(in_child([&] {
              // The lowest that is free: whoever runs the tests may have left some open.
              const int next = ::fcntl(::open("/dev/null", O_RDONLY), F_DUPFD, STDERR_FILENO + 1);
              if (next == -1 || ::close(next) != 0) return 3;
              for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(stream);
              const auto made = real_disk().create(scratch / "x", 0600);
              const auto opened = real_disk().open(scratch / "x", access::read_write);
              for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
                if (::fcntl(stream, F_GETFD) != -1) return 1;
              const int flags = ::fcntl(next, F_GETFD);
              return flags != -1 && (flags & FD_CLOEXEC) != 0 ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace tenure::os
