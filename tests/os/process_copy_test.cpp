// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies of the process, and what they must not keep.
#include "os/process_copy.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "os/file.hpp"
#include "os/virtual_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::os {
namespace {

// [os.copy.silent] A program is killed whose copy is there still: it has the program's mappings, but not its locks.
TEST(process_copy, keeps_no_lock_of_a_program_that_was_killed) {
  const support::temp_dir dir;
  const std::string path = dir / "locked";
  real_disk().create(path, 0600)->resize(page_size());
  const shared_memory shared(sizeof(std::atomic<int>));
  auto& copy = *new (shared.data()) std::atomic<int>(0);  // its process, once it has closed its files
  const pid_t program = ::fork();
  if (program == 0) {
    const auto file = real_disk().open(path, access::read_write);
    if (!file->try_lock(lock_kind::exclusive)) ::_exit(1);
    (void)file->map_private(nullptr, 0, page_size(), access::read_write);
    process_copy made;
    const bool is_made = made.start(
        [](void* out) {
          ::prctl(PR_SET_PDEATHSIG, 0);
          *static_cast<std::atomic<int>*>(out) = ::getpid();
          for (;;) ::pause();
        },
        &copy);
    while (is_made && copy == 0) {
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(program, &status, 0), program);
  ASSERT_TRUE(WIFSIGNALED(status));
  if (copy == 0) GTEST_SKIP() << "no copy of a process can be made here";
  const auto file = real_disk().open(path, access::read_write);
  EXPECT_TRUE(file->try_lock(lock_kind::exclusive)) << file->lock_holders("file");
  ::kill(copy, SIGKILL);
}

}  // namespace
}  // namespace tenure::os
