// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The real disk in special surroundings: full disks, block devices, kernels and file systems that lack calls. Each test
// is skipped, with the reason, where the surroundings cannot be made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include "os/file.hpp"
#include "os/os_test_support.hpp"
#include "support/refused_calls.hpp"

namespace tenure::os {
namespace {

using support::refuse_calls;
using support::without_calls;

void write_durably(file& to, std::uint64_t offset, std::string_view text) {
  const const_bytes part = as_bytes(text);
  to.write_durably_at(offset, {&part, 1});
}

// --- Other file systems ----------------------------------------------------------------------------------------------

// Runs `action` with a file system of the given type mounted on `directory`, seen by nobody else. False if the process
// may not mount. The mount ends with the thread that sees it.
bool with_file_system(const char* type, const char* options, const std::string& directory,
                      const std::function<void()>& action) {
  bool mounted = false;
  std::thread([&] {
    if (::unshare(CLONE_NEWNS) != 0) return;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    if (::mount("none", directory.c_str(), type, 0, options) != 0) return;
    mounted = true;
    action();
  }).join();
  return mounted;
}

TEST(full_disk, refuses_writes_and_says_what_to_do) {
  const scratch_directory scratch;
  const bool mounted = with_file_system("tmpfs", "size=64k", scratch.path(), [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    const std::string text(100 * 1024, 'x');
    const std::string advice = "free some space and try again";
    const auto full = std::errc::no_space_on_device;
    expect_error(full, {"cannot allocate 102400 bytes at offset 0 of " + (scratch / "x"), advice},
                 [&] { made->allocate(0, text.size()); });
    // The first 64 KiB are written, then the rest is refused.
    expect_error(full, {"cannot write 36864 bytes at offset 65536 of " + (scratch / "x"), advice},
                 [&] { made->write_at(0, as_bytes(text)); });
    expect_error(full, {"cannot write 36864 bytes at offset 65536 of "}, [&] { write_durably(*made, 0, text); });
    made->write_at(0, as_bytes("fits"));
    made->sync();
    EXPECT_EQ(read_text(*made, 0, 5), "fitsx");
  });
  if (!mounted) GTEST_SKIP() << "file systems cannot be mounted here";
}

TEST(file_system_without_allocation, is_written_with_zeros) {
  const scratch_directory scratch;
  const bool mounted = with_file_system("ramfs", nullptr, scratch.path(), [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    made->write_at(5000, as_bytes("content"));
    made->allocate(100, 10'000);
    EXPECT_EQ(made->size(), 10'100u);
    EXPECT_EQ(read_text(*made, 0, 10'200), std::string(5000, '\0') + "content" + std::string(5093, '\0'));
  });
  if (!mounted) GTEST_SKIP() << "file systems cannot be mounted here";
}

// --- Kernels that lack calls -----------------------------------------------------------------------------------------

TEST(kernel_without_durable_writes, syncs_instead) {
  for (const unsigned code : {unsigned{EOPNOTSUPP}, unsigned{ENOSYS}, unsigned{EINVAL}}) {
    const scratch_directory scratch;
    const bool refused = without_calls({SYS_pwritev2}, code, [&] {
      const auto made = real_disk().create(scratch / "x", 0600);
      write_durably(*made, 0, "content");
      write_durably(*made, 3, "TENT");  // does not try again
      EXPECT_EQ(read_text(*made, 0, 100), "conTENT");
    });
    if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
  }
}

TEST(kernel_without_durable_writes, reports_when_it_cannot_sync) {
  const scratch_directory scratch;
  const bool refused = without_calls({SYS_pwritev2}, EOPNOTSUPP, [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    ASSERT_TRUE(refuse_calls({SYS_fdatasync}, EIO));
    expect_error(std::errc::io_error, {"cannot make the writes to " + (scratch / "x") + " durable", "dmesg"},
                 [&] { write_durably(*made, 0, "content"); });
    expect_error(std::errc::io_error, {"durable"}, [&] { made->sync(); });
  });
  if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
}

TEST(failing_device, is_reported_and_not_tried_again) {
  const scratch_directory scratch;
  const bool refused = without_calls({SYS_pwritev2, SYS_pwritev, SYS_pread64, SYS_fsync, SYS_ftruncate}, EIO, [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    const auto failed = std::errc::io_error;
    expect_error(failed, {"cannot write 7 bytes at offset 1 of"}, [&] { write_durably(*made, 1, "content"); });
    EXPECT_EQ(made->size(), 0u);  // no plain write was made in its place
    expect_error(failed, {"cannot write 7 bytes at offset 1 of"}, [&] { made->write_at(1, as_bytes("content")); });
    expect_error(failed, {"cannot read 9 bytes at offset 2 of"}, [&] { (void)read_text(*made, 2, 9); });
    expect_error(failed, {"cannot resize"}, [&] { made->resize(10); });
    expect_error(failed, {"cannot make the names in directory"}, [&] { real_disk().sync_directory_of(scratch / "x"); });
  });
  if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
}

TEST(write_of_nothing, is_an_error) {
  const scratch_directory scratch;
  // Code 0 makes the calls return 0: no progress and no reason.
  const bool refused = without_calls({SYS_pwritev2, SYS_pwritev}, 0, [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    expect_error(std::errc::io_error, {"the system wrote nothing"}, [&] { made->write_at(0, as_bytes("content")); });
    expect_error(std::errc::io_error, {"the system wrote nothing"}, [&] { write_durably(*made, 0, "content"); });
  });
  if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
}

TEST(directory_that_cannot_be_synced, is_accepted) {
  const scratch_directory scratch;
  const bool refused =
      without_calls({SYS_fsync}, EINVAL, [&] { EXPECT_NO_THROW(real_disk().sync_directory_of(scratch / "x")); });
  if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
}

// One of many gets the name; what had it stays.
void expect_one_winner() {
  const scratch_directory scratch;
  const auto name = [&](int i) { return scratch / ("from" + std::to_string(i)); };
  for (int i = 0; i < 3; ++i) real_disk().create(name(i), 0600)->write_at(0, as_bytes(std::to_string(i)));
  real_disk().rename_to_new(name(1), scratch / "to");
  EXPECT_FALSE(real_disk().exists(name(1)));
  expect_error(std::errc::file_exists, {"cannot rename", name(2), " to " + (scratch / "to")},
               [&] { real_disk().rename_to_new(name(2), scratch / "to"); });
  EXPECT_TRUE(real_disk().exists(name(2)));
  EXPECT_EQ(read_text(*real_disk().open(scratch / "to", access::read_only), 0, 10), "1");
  real_disk().rename_to_new(name(2), scratch / "other");
  EXPECT_EQ(read_text(*real_disk().open(scratch / "other", access::read_only), 0, 10), "2");
  expect_error(std::errc::no_such_file_or_directory, {name(1)},
               [&] { real_disk().rename_to_new(name(1), scratch / "third"); });
}

TEST(file_system_without_exclusive_renames, has_one_winner) {
  expect_one_winner();
  for (const unsigned code : {ENOSYS, EINVAL})
    if (!without_calls({SYS_renameat2}, code, expect_one_winner)) GTEST_SKIP() << "system calls cannot be refused here";
}

TEST(file_system_without_exclusive_renames, nor_links_has_one_winner) {
  // One filter: both calls fail with the same code.
  if (!without_calls({SYS_renameat2, SYS_link, SYS_linkat}, ENOSYS, expect_one_winner))
    GTEST_SKIP() << "system calls cannot be refused here";
}

TEST(kernel_without_allocation, fills_the_holes) {
  const scratch_directory scratch;
  const bool refused = without_calls({SYS_fallocate}, EOPNOTSUPP, [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    constexpr std::size_t mib = 1 << 20;
    made->resize(mib);
    made->write_at(mib / 2 + 1000, as_bytes("content"));
    made->allocate(10'000, 2 * mib);
    EXPECT_EQ(made->size(), 10'000 + 2 * mib);
    EXPECT_EQ(read_text(*made, mib / 2 + 1000, 8), std::string("content\0", 8));
    made->sync();
    struct stat found {};
    ASSERT_EQ(::stat((scratch / "x").c_str(), &found), 0);
    EXPECT_GE(static_cast<std::size_t>(found.st_blocks) * 512, 2 * mib);
    std::string zeros = read_text(*made, 0, 4 * mib);
    zeros.erase(mib / 2 + 1000, 7);
    EXPECT_EQ(zeros.find_first_not_of('\0'), std::string::npos);
  });
  if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
}

TEST(kernel_without_batches, drops_run_by_run) {
  // Also without the page map's ioctl, which falls back to reading.
  const scratch_directory scratch;
  const auto file = real_disk().create(scratch / "x", 0600);
  file->write_at(0, as_bytes(std::string(10 * page, 'a')));
  auto* const memory = static_cast<std::byte*>(file->map_private(nullptr, 0, 10 * page, os::access::read_write));
  const bool refused = without_calls({SYS_process_madvise, SYS_ioctl}, EPERM, [&] {
    page_runs runs;
    for (std::size_t p = 0; p < 10; p += 2) {
      std::memset(memory + p * page, 'x', page);
      runs.push_back({memory + p * page, page});
    }
    const auto found = [&] {
      std::size_t pages = 0;
      for_each_private_copy(memory, 10 * page, [&](page_run run) { pages += run.length / page; });
      return pages;
    };
    const bool readable = ::access("/proc/self/pagemap", R_OK) == 0;
    EXPECT_EQ(found(), readable ? 5u : 10u);
    drop_private_copies(runs);
    EXPECT_EQ(found(), readable ? 0u : 10u);
    EXPECT_EQ(memory[0], std::byte{'a'});
  });
  unmap(memory, 10 * page);
  if (!refused) GTEST_SKIP() << "system calls cannot be refused here";
}

#ifdef __x86_64__
// --- System calls that do less than they could, or something else ----------------------------------------------------

// Runs `action` in a thread whose system calls `calls` are replaced: `replacement` gets the number and the arguments
// and returns the result, negative for an errno. `only_with` restricts this to calls with these bits in the fourth
// argument. False if that is not possible.
using call_arguments = std::array<long, 6>;
bool with_replaced_calls(std::initializer_list<long> calls, long (*replacement)(long, const call_arguments&),
                         const std::function<void()>& action, unsigned only_with = 0) {
  static long (*current)(long, const call_arguments&);
  current = replacement;
  struct sigaction replace {
  }, before{};
  replace.sa_flags = SA_SIGINFO;
  replace.sa_sigaction = [](int, siginfo_t* info, void* context) {
    auto& r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    r[REG_RAX] = current(info->si_syscall, {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]});
  };
  if (::sigaction(SIGSYS, &replace, &before) != 0) return false;

  std::vector<sock_filter> program;
  const std::uint8_t next = only_with == 0 ? 1 : 3;  // instructions to skip for another call
  for (const long call : calls) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, next));
    if (only_with != 0) {
      program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])));
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, only_with, 0, 1));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  bool replaced = false;
  std::thread([&] {
    replaced = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    replaced = replaced && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
    if (replaced) action();
  }).join();
  ::sigaction(SIGSYS, &before, nullptr);
  return replaced;
}

// Every other call is interrupted; the others move seven bytes at most.
long move_a_little(long call, const call_arguments& arguments) {
  static int calls;
  if (++calls % 2 == 0) return -EINTR;
  const int descriptor = static_cast<int>(arguments[0]);
  if (call == SYS_pread64) {
    const iovec part{reinterpret_cast<void*>(arguments[1]),
                     std::min<std::size_t>(7, static_cast<std::size_t>(arguments[2]))};
    return ::preadv(descriptor, &part, 1, arguments[3]);
  }
  const auto& first = *reinterpret_cast<const iovec*>(arguments[1]);
  return ::pwrite(descriptor, first.iov_base, std::min<std::size_t>(7, first.iov_len), arguments[3]);
}

TEST(interrupted_and_short_calls, are_continued) {
  const scratch_directory scratch;
  const bool replaced = with_replaced_calls({SYS_pwritev, SYS_pwritev2, SYS_pread64}, move_a_little, [&] {
    const auto made = real_disk().create(scratch / "x", 0600);
    const const_bytes parts[] = {as_bytes("the first, "), {}, as_bytes("second "), as_bytes("and third buffer")};
    const std::string all = "the first, second and third buffer";
    made->write_all_at(1, parts);
    EXPECT_EQ(read_text(*made, 1, 100), all);
    made->write_durably_at(40, parts);
    EXPECT_EQ(read_text(*made, 40, 100), all);
    EXPECT_EQ(read_text(*made, 1, all.size()), all);
  });
  if (!replaced) GTEST_SKIP() << "system calls cannot be replaced here";
}

TEST(interrupted_and_short_calls, are_made_again) {
  static int calls;
  const auto second_time = [](long, const call_arguments&) -> long { return ++calls % 2 == 0 ? 0 : -EINTR; };
  const scratch_directory scratch;
  const auto made = real_disk().create(scratch / "x", 0600);
  const bool replaced =
      with_replaced_calls({SYS_fdatasync, SYS_fsync, SYS_ftruncate, SYS_fallocate, SYS_flock}, second_time, [&] {
        calls = 0;
        made->sync();
        real_disk().sync_directory_of(scratch / "x");
        made->resize(10);
        made->allocate(0, 10);
        EXPECT_TRUE(made->try_lock(lock_kind::exclusive));
        EXPECT_EQ(calls, 10);
      });
  if (!replaced) GTEST_SKIP() << "system calls cannot be replaced here";
}

// Kernels before 4.17 do not know MAP_FIXED_NOREPLACE, and take the address as a hint that they may ignore.
TEST(kernel_without_fixed_addresses, is_not_trusted) {
  static void* mapped;
  const auto map_anywhere = [](long, const call_arguments& a) -> long {
    mapped = ::mmap(nullptr, static_cast<std::size_t>(a[1]), static_cast<int>(a[2]),
                    static_cast<int>(a[3]) & ~MAP_FIXED_NOREPLACE, static_cast<int>(a[4]), a[5]);
    return reinterpret_cast<long>(mapped);
  };
  const scratch_directory scratch;
  const auto file = real_disk().create(scratch / "x", 0600);
  const auto action = [&] {
    expect_error(errc::address_taken, {"cannot map " + (scratch / "x"), "only 0x", "was offered"},
                 [&] { (void)file->map_private(free_address(0), 0, page_size(), os::access::read_write); });
    EXPECT_NE(occupant(mapped, page_size()), scratch / "x");  // unmapped again
    expect_error(errc::address_taken, {"cannot map anonymous memory", "was offered"},
                 [&] { (void)map_anonymous(free_address(0), page_size()); });
  };
  if (!with_replaced_calls({SYS_mmap}, map_anywhere, action, MAP_FIXED_NOREPLACE))
    GTEST_SKIP() << "system calls cannot be replaced here";
}
#endif

// --- Block devices ---------------------------------------------------------------------------------------------------

// A loop device over a file; path() is empty where that is not permitted.
class loop_device {
 public:
  loop_device(const std::string& file, unsigned block_size) {
    const int backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    // Another program may take the free device first: try a few times.
    for (int attempt = 0; attempt < 5 && control >= 0 && descriptor_ < 0; ++attempt) {
      const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
      if (number < 0) break;
      const std::string name = "/dev/loop" + std::to_string(number);
      descriptor_ = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
      if (descriptor_ < 0) break;
      if (::ioctl(descriptor_, LOOP_SET_FD, backing) == 0) {
        path_ = name;
        if (::ioctl(descriptor_, LOOP_SET_BLOCK_SIZE, block_size) != 0) path_.clear();
      } else {
        ::close(descriptor_);
        descriptor_ = -1;
      }
    }
    ::close(backing);
    if (control >= 0) ::close(control);
  }
  ~loop_device() {
    if (descriptor_ < 0) return;
    ::ioctl(descriptor_, LOOP_CLR_FD, 0);
    ::close(descriptor_);
  }
  loop_device(const loop_device&) = delete;
  loop_device& operator=(const loop_device&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int descriptor_ = -1;
  std::string path_;
};

// The same for a block device and, where none can be made, for a file of the same size.
void check_fixed_size_storage(const std::string& path, bool device) {
  constexpr std::uint64_t size = 1 << 20;
  const auto opened = real_disk().open(path, access::read_write);
  EXPECT_EQ(opened->is_device(), device);
  EXPECT_EQ(opened->size(), size);
  EXPECT_TRUE(opened->is_current());
  opened->write_at(1000, as_bytes("content"));
  write_durably(*opened, 1007, " of the device");
  opened->sync();
  EXPECT_EQ(read_text(*opened, 1000, 21), "content of the device");
  EXPECT_EQ(read_text(*opened, size - 3, 10), std::string(3, '\0'));
  EXPECT_EQ(read_text(*opened, size, 10), "");

  opened->allocate(size, 100);
  if (device) {
    EXPECT_EQ(opened->size(), size);
    expect_error(std::errc::no_space_on_device, {"cannot write 7 bytes at offset " + std::to_string(size)},
                 [&] { opened->write_at(size, as_bytes("content")); });
    expect_error(std::errc::no_space_on_device, {"cannot write 4 bytes at offset " + std::to_string(size)},
                 [&] { opened->write_at(size - 3, as_bytes("content")); });
    expect_error(std::errc::invalid_argument, {"cannot resize " + path, "has the size that it has"},
                 [&] { opened->resize(size / 2); });
  }

  const auto other = real_disk().open(path, access::read_only);
  EXPECT_TRUE(opened->try_lock(lock_kind::exclusive));
  EXPECT_FALSE(other->try_lock(lock_kind::shared));

  const std::size_t page = page_size();
  auto* const memory = static_cast<volatile char*>(opened->map_private(nullptr, 0, page, os::access::read_write));
  EXPECT_EQ(memory[1000], 'c');
  memory[1000] = 'x';
  EXPECT_EQ(read_text(*other, 1000, 1), "c");
  unmap(const_cast<char*>(memory), page);
}

TEST(block_device, is_storage_of_fixed_size) {
  const scratch_directory scratch;
  const std::string backing = scratch / "backing";
  real_disk().create(backing, 0600)->resize(1 << 20);
  const loop_device loop(backing, 512);
  check_fixed_size_storage(loop.path().empty() ? backing : loop.path(), !loop.path().empty());
  if (loop.path().empty()) GTEST_SKIP() << "no loop device can be made here; the checks were made with a file";
}

TEST(block_device, tells_its_block_size) {
  for (const unsigned size : {512u, 1024u, 4096u}) {
    const scratch_directory scratch;
    const std::string backing = scratch / "backing";
    real_disk().create(backing, 0600)->resize(1 << 20);
    const loop_device loop(backing, size);
    if (loop.path().empty()) GTEST_SKIP() << "no loop device can be made here";
    EXPECT_EQ(real_disk().open(loop.path(), access::read_only)->block_size(), size);
  }
}

}  // namespace
}  // namespace tenure::os
