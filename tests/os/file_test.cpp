// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The real disk on an ordinary file system. What needs special surroundings is in file_environment_test.cpp.
#include "os/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <thread>

#include "os/os_test_support.hpp"

namespace tenure::os {
namespace {

namespace fs = std::filesystem;

class real_files : public ::testing::Test {
 protected:
  std::unique_ptr<file> create(std::string_view name, std::string_view content = "") const {
    auto made = disk_.create(scratch_ / name, 0600);
    made->write_at(0, as_bytes(content));
    return made;
  }
  std::unique_ptr<file> open(std::string_view name, access how = access::read_write) const {
    return disk_.open(scratch_ / name, how);
  }

  const scratch_directory scratch_;
  disk& disk_ = real_disk();
};

// --- Names -----------------------------------------------------------------------------------------------------------

TEST_F(real_files, are_created_once) {
  const auto made = create("x");
  EXPECT_EQ(made->path(), scratch_ / "x");
  EXPECT_FALSE(made->is_device());
  EXPECT_EQ(made->size(), 0u);
  expect_error(std::errc::file_exists, {"cannot create " + (scratch_ / "x") + ": File exists"}, [&] { create("x"); });
  expect_error(std::errc::no_such_file_or_directory, {scratch_ / "none/x"}, [&] { create("none/x"); });
}

TEST_F(real_files, have_the_permissions_asked_for) {
  const mode_t old = ::umask(0);
  (void)disk_.create(scratch_ / "x", 0640);
  ::umask(old);
  EXPECT_EQ(fs::status(scratch_ / "x").permissions(), fs::perms{0640});
}

TEST_F(real_files, take_owners_and_permissions) {
  create("old");
  create("new");
  const auto facts_of = [&](const char* name) {
    struct stat found {};
    EXPECT_EQ(::stat((scratch_ / name).c_str(), &found), 0);
    return found;
  };
  ASSERT_EQ(::chmod((scratch_ / "old").c_str(), 0664), 0);
  disk_.take_owner_of(scratch_ / "new", scratch_ / "none");
  EXPECT_EQ(facts_of("new").st_mode & 07777, 0600U);
  disk_.take_owner_of(scratch_ / "new", scratch_ / "old");
  EXPECT_EQ(facts_of("new").st_mode & 07777, 0664U);
  constexpr uid_t somebody = 65534;
  if (::chown((scratch_ / "old").c_str(), somebody, somebody) != 0) return;  // that needs privileges
  disk_.take_owner_of(scratch_ / "new", scratch_ / "old");
  EXPECT_EQ(facts_of("new").st_uid, somebody);
  EXPECT_EQ(facts_of("new").st_gid, somebody);
  EXPECT_EQ(facts_of("new").st_mode & 07777, 0664U);
}

TEST_F(real_files, are_opened_if_they_exist) {
  EXPECT_FALSE(disk_.exists(scratch_ / "x"));
  expect_error(std::errc::no_such_file_or_directory,
               {"cannot open " + (scratch_ / "x") + ": No such file or directory"}, [&] { open("x"); });
  create("x", "content");
  EXPECT_TRUE(disk_.exists(scratch_ / "x"));
  EXPECT_FALSE(disk_.exists(scratch_ / "x/below"));  // x is no directory
  EXPECT_EQ(read_text(*open("x", access::read_only), 0, 100), "content");
  const std::string too_long(5000, 'n');
  expect_error(std::errc::filename_too_long, {"cannot look for"}, [&] { (void)disk_.exists(scratch_ / too_long); });
}

TEST_F(real_files, are_not_directories_sockets_pipes_or_terminals) {
  expect_error(std::errc::is_a_directory, {"cannot open " + scratch_.path() + ": Is a directory; name a file in it"},
               [&] { (void)disk_.open(scratch_.path(), access::read_only); });

  ASSERT_EQ(::mkfifo((scratch_ / "pipe").c_str(), 0600), 0);
  expect_error(std::errc::invalid_argument, {scratch_ / "pipe", "it is a pipe"}, [&] { open("pipe"); });

  expect_error(std::errc::invalid_argument, {"/dev/full", "it is a character device"},
               [&] { (void)disk_.open("/dev/full", access::read_write); });

  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = scratch_ / "socket";
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_error(std::errc::invalid_argument, {"it is a socket"}, [&] { open("socket"); });
  ::close(socket);
}

TEST_F(real_files, may_be_reached_by_links) {
  create("x", "content");
  fs::create_symlink("x", scratch_ / "link");
  EXPECT_EQ(read_text(*open("link"), 0, 100), "content");
  EXPECT_TRUE(open("link")->is_current());
  fs::create_symlink("nothing", scratch_ / "dangling");
  EXPECT_FALSE(disk_.exists(scratch_ / "dangling"));
}

TEST_F(real_files, need_permission) {
  create("x");
  ASSERT_EQ(::chmod((scratch_ / "x").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0755), 0);
  std::thread([&] {
    // The superuser may do everything: be somebody else, in this thread only (hence not seteuid(3)).
    constexpr unsigned nobody = 65534;
    const bool root = ::geteuid() == 0;
    ASSERT_EQ(root ? ::syscall(SYS_setresuid, -1, nobody, -1) : 0, 0);
    const std::string advice = "check the permissions";
    expect_error(std::errc::permission_denied, {"for writing", advice}, [&] { open("x"); });
    EXPECT_NO_THROW(open("x", access::read_only));
    if (root) {
      expect_error(std::errc::permission_denied, {"cannot create", advice}, [&] { create("y"); });
    }
  }).join();
}

TEST_F(real_files, are_replaced_by_renaming) {
  const auto old = create("to", "old");
  const auto made = create("from", "new");
  EXPECT_TRUE(old->is_current());
  EXPECT_TRUE(made->is_current());
  disk_.rename(scratch_ / "from", scratch_ / "to");
  disk_.sync_directory_of(scratch_ / "to");
  EXPECT_FALSE(disk_.exists(scratch_ / "from"));
  EXPECT_FALSE(old->is_current());
  EXPECT_FALSE(made->is_current());  // its path is "from" still
  EXPECT_TRUE(open("to")->is_current());
  EXPECT_EQ(read_text(*open("to"), 0, 100), "new");
  EXPECT_EQ(read_text(*old, 0, 100), "old");  // lives on without a name
  expect_error(std::errc::no_such_file_or_directory, {"cannot rename", scratch_ / "from", " to " + (scratch_ / "to")},
               [&] { disk_.rename(scratch_ / "from", scratch_ / "to"); });
}

TEST_F(real_files, know_the_name_that_they_were_given) {
  const auto old = create("to", "old");
  const auto made = create("from", "new");
  disk_.rename(scratch_ / "from", scratch_ / "to");
  made->renamed(scratch_ / "to");
  EXPECT_TRUE(made->is_current());
  EXPECT_EQ(made->path(), scratch_ / "to");
  EXPECT_NO_THROW(made->sync_name());
  EXPECT_NO_THROW(made->sync_name());
  EXPECT_FALSE(old->is_current());
}

TEST_F(real_files, are_found_behind_links) {
  std::filesystem::create_directory(scratch_ / "d");
  std::filesystem::create_symlink("../second", scratch_ / "d/first");
  std::filesystem::create_symlink(scratch_ / "d/file", scratch_ / "second");
  std::filesystem::create_symlink("round", scratch_ / "round");
  const auto at = [&](const std::string& name) {
    return std::filesystem::path(disk_.behind_links(scratch_ / name)).lexically_normal().string();
  };
  for (int there = 0; there < 2; ++there) {
    for (const char* name : {"d/first", "second", "d/file"}) EXPECT_EQ(at(name), scratch_ / "d/file");
    if (there == 0) (void)create("d/file", "text");
  }
  EXPECT_EQ(at("none"), scratch_ / "none");
  EXPECT_EQ(at("round"), scratch_ / "round");
  EXPECT_NO_THROW(disk_.sync_directory_of(scratch_ / "d/first"));
  EXPECT_NO_THROW(open("d/first")->sync_name());
}

TEST_F(real_files, are_removed) {
  const auto made = create("x", "content");
  disk_.remove(scratch_ / "x");
  disk_.sync_directory_of(scratch_ / "x");
  EXPECT_FALSE(disk_.exists(scratch_ / "x"));
  EXPECT_FALSE(made->is_current());
  expect_error(std::errc::no_such_file_or_directory, {"cannot remove " + (scratch_ / "x")},
               [&] { disk_.remove(scratch_ / "x"); });
  fs::remove_all(scratch_.path());
  EXPECT_FALSE(made->is_current());
}

TEST_F(real_files, stay_current_when_the_working_directory_changes) {
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_FS), 0);  // a working directory of this thread's own
    ASSERT_EQ(::chdir(scratch_.path().c_str()), 0);
    const auto made = disk_.create("x", 0600);
    disk_.sync_directory_of("x");
    EXPECT_EQ(made->path(), "x");
    EXPECT_TRUE(made->is_current());
    ASSERT_EQ(::chdir("/"), 0);
    EXPECT_TRUE(made->is_current());
    disk_.remove(scratch_ / "x");
    EXPECT_FALSE(made->is_current());
  }).join();
}

TEST_F(real_files, are_in_directories_that_can_be_synced) {
  disk_.sync_directory_of(scratch_ / "anything");
  disk_.sync_directory_of("/anything");
  expect_error(std::errc::no_such_file_or_directory, {"cannot make the names in directory " + (scratch_ / "none")},
               [&] { disk_.sync_directory_of(scratch_ / "none/x"); });
}

// --- Reading and writing ---------------------------------------------------------------------------------------------

TEST_F(real_files, read_what_was_written) {
  const auto made = create("x", "0123456789");
  made->write_at(3, as_bytes("abc"));
  EXPECT_EQ(made->size(), 10u);
  EXPECT_EQ(read_text(*made, 0, 10), "012abc6789");
  EXPECT_EQ(read_text(*made, 8, 10), "89");  // fewer only at the end
  EXPECT_EQ(read_text(*made, 10, 10), "");
  EXPECT_EQ(read_text(*made, 1000, 10), "");
  EXPECT_EQ(made->read_at(0, {}), 0u);
  made->write_at(12, as_bytes("z"));
  EXPECT_EQ(read_text(*made, 9, 10), std::string("9\0\0z", 4));
  made->write_at(100, {});
  EXPECT_EQ(made->size(), 13u);
}

TEST_F(real_files, write_many_buffers_one_after_the_other) {
  // More than one system call takes (1024), some of them empty.
  std::string expected;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < 5000; ++i) {
    parts.emplace_back(i % 7, static_cast<char>('a' + i % 26));
    expected += parts.back();
  }
  std::vector<const_bytes> from;
  for (const std::string& part : parts) from.push_back(as_bytes(part));

  const auto made = create("x", "><");
  made->write_all_at(1, from);
  EXPECT_EQ(read_text(*made, 0, expected.size() + 10), ">" + expected);
  made->resize(0);
  made->write_durably_at(1, from);
  EXPECT_EQ(read_text(*made, 0, expected.size() + 10), std::string(1, '\0') + expected);

  const const_bytes nothing[3];
  made->write_all_at(50, nothing);
  made->write_durably_at(50, nothing);
  made->write_all_at(50, {});
  made->write_durably_at(50, {});
  EXPECT_EQ(made->size(), expected.size() + 1);
  made->sync();
}

TEST_F(real_files, opened_for_reading_cannot_be_changed) {
  create("x", "content");
  const auto file = open("x", access::read_only);
  const const_bytes text = as_bytes("new");
  const std::string advice = "it was opened for reading";
  const std::string write = "cannot write 3 bytes at offset 2 of " + (scratch_ / "x") + ": ";
  const auto bad = std::errc::bad_file_descriptor;
  expect_error(bad, {write, advice}, [&] { file->write_at(2, text); });
  expect_error(bad, {write, advice}, [&] { file->write_all_at(2, {&text, 1}); });
  expect_error(bad, {write, advice}, [&] { file->write_durably_at(2, {&text, 1}); });
  expect_error(bad, {"cannot resize " + (scratch_ / "x") + " to 5 bytes", advice}, [&] { file->resize(5); });
  expect_error(bad, {"cannot allocate 7 bytes at offset 6 of", advice}, [&] { file->allocate(6, 7); });
  EXPECT_EQ(read_text(*file, 0, 100), "content");
}

TEST_F(real_files, have_no_offsets_beyond_two_to_the_63) {
  const auto made = create("x", "content");
  constexpr std::uint64_t far = std::uint64_t{1} << 63;
  const const_bytes text = as_bytes("new");
  const std::string where = "3 bytes at offset " + std::to_string(far) + " of ";
  expect_error(std::errc::invalid_argument, {"cannot write " + where}, [&] { made->write_at(far, text); });
  expect_error(std::errc::invalid_argument, {"cannot write " + where}, [&] {
    made->write_durably_at(far, {&text, 1});
  });
  expect_error(std::errc::invalid_argument, {"cannot read " + where}, [&] { (void)read_text(*made, far, 3); });
  expect_error(std::errc::invalid_argument, {"cannot resize"}, [&] { made->resize(far); });
  expect_error(std::errc::invalid_argument, {"cannot allocate"}, [&] { made->allocate(far, 1); });
}

TEST_F(real_files, say_where_a_write_stopped) {
  // A limit lets the first part of the write through: a short count, then the error.
  const int result = in_child([&] {
    const rlimit limit{10'000, 10'000};
    std::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    const auto made = create("x");
    const std::string text(6000, 'x');
    const const_bytes both[] = {as_bytes(text), as_bytes(text)};
    expect_error(std::errc::file_too_large, {"cannot write 2500 bytes at offset 10000 of ", "ulimit -f"},
                 [&] { made->write_all_at(500, both); });
    expect_error(std::errc::file_too_large, {"cannot write 2500 bytes at offset 10000 of "},
                 [&] { made->write_durably_at(500, both); });
    expect_error(std::errc::file_too_large, {"cannot resize"}, [&] { made->resize(10'001); });
    expect_error(std::errc::file_too_large, {"cannot allocate 2 bytes at offset 9999"},
                 [&] { made->allocate(9999, 2); });
    EXPECT_EQ(made->size(), 10'000u);
    return HasFailure() ? 1 : 0;
  });
  if (result == 77) GTEST_SKIP() << "the limit of the file size cannot be set";
  EXPECT_EQ(result, 0);
}

TEST_F(real_files, are_written_by_many_threads_at_once) {
  const auto made = create("x");
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::string text(100, static_cast<char>('a' + t));
      const const_bytes part = as_bytes(text);
      for (std::size_t i = 0; i < 50; ++i) {
        if (i % 10 == 0) {
          made->write_durably_at((i * 4 + t) * 100, {&part, 1});
        } else {
          made->write_at((i * 4 + t) * 100, part);
        }
      }
      made->sync();
    });
  for (std::thread& each : threads) each.join();
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(read_text(*made, i * 100, 100), std::string(100, static_cast<char>('a' + i % 4)));
}

// --- Space -----------------------------------------------------------------------------------------------------------

TEST_F(real_files, can_be_resized) {
  const auto made = create("x", "content");
  made->resize(10);
  EXPECT_EQ(read_text(*made, 0, 100), std::string("content\0\0\0", 10));
  made->resize(3);
  EXPECT_EQ(read_text(*made, 0, 100), "con");
  made->resize(5);
  EXPECT_EQ(read_text(*made, 0, 100), std::string("con\0\0", 5));
}

TEST_F(real_files, can_be_allocated) {
  const auto made = create("x", "content");
  made->allocate(0, 0);
  EXPECT_EQ(made->size(), 7u);
  made->allocate(0, 3);
  EXPECT_EQ(made->size(), 7u);
  made->allocate(100'000, 50'000);
  EXPECT_EQ(made->size(), 150'000u);
  EXPECT_EQ(read_text(*made, 0, 10), std::string("content\0\0\0", 10));
  EXPECT_EQ(read_text(*made, 120'000, 3), std::string(3, '\0'));
  struct stat found {};
  ASSERT_EQ(::stat((scratch_ / "x").c_str(), &found), 0);
  EXPECT_GE(found.st_blocks * 512, 50'000);
}

TEST_F(real_files, have_a_block_size_that_the_log_can_use) {
  const std::uint32_t size = create("x")->block_size();
  struct stat found {};
  ASSERT_EQ(::stat((scratch_ / "x").c_str(), &found), 0);
  EXPECT_GE(size, std::min<blksize_t>(found.st_blksize, 4096));
  EXPECT_GE(size, 512u);
  EXPECT_LE(size, 4096u);
  EXPECT_TRUE(std::has_single_bit(size));
}

TEST_F(real_files, are_not_inherited_by_other_programs) {
  const auto one = create("x"), two = open("x"), three = open("x", access::read_only);
  int descriptors = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) != scratch_ / "x") continue;
    ++descriptors;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(descriptors, 3);
}

// --- Locks -----------------------------------------------------------------------------------------------------------

TEST_F(real_files, are_locked_against_other_openings) {
  const auto one = create("x");
  auto two = open("x"), three = open("x", access::read_only);
  EXPECT_TRUE(one->try_lock(lock_kind::exclusive));
  EXPECT_TRUE(one->try_lock(lock_kind::exclusive));  // again: nothing changes
  EXPECT_FALSE(two->try_lock(lock_kind::exclusive));
  EXPECT_FALSE(three->try_lock(lock_kind::shared));
  EXPECT_TRUE(one->try_lock(lock_kind::shared));  // becomes shared
  EXPECT_TRUE(two->try_lock(lock_kind::shared));
  EXPECT_TRUE(three->try_lock(lock_kind::shared));
  EXPECT_FALSE(two->try_lock(lock_kind::exclusive));
  EXPECT_EQ(in_child([&] { return open("x")->try_lock(lock_kind::exclusive) ? 1 : 0; }), 0);
  three.reset();
  two.reset();
  EXPECT_TRUE(one->try_lock(lock_kind::exclusive));  // the others' locks ended with them
}

TEST_F(real_files, stay_locked_when_a_child_closes_its_copy) {
  auto one = create("x");
  const auto two = open("x");
  ASSERT_TRUE(one->try_lock(lock_kind::exclusive));
  EXPECT_EQ(in_child([&] {
              one.reset();
              return 0;
            }),
            0);
  EXPECT_FALSE(two->try_lock(lock_kind::exclusive));
}

TEST_F(real_files, are_unlocked_by_the_parent_although_a_child_lives) {
  auto one = create("x");
  const auto two = open("x");
  ASSERT_TRUE(one->try_lock(lock_kind::exclusive));
  int hold[2];  // the child ends when the parent closes its end
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(hold[1]);
    char nothing;
    ::_exit(static_cast<int>(::read(hold[0], &nothing, 1)));
  }
  one.reset();
  EXPECT_TRUE(two->try_lock(lock_kind::exclusive));
  ::close(hold[0]);
  ::close(hold[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// --- Mapping ---------------------------------------------------------------------------------------------------------

class mapped_files : public real_files {
 protected:
  void SetUp() override {
    file_ = create("segment", std::string(page, 'a') + std::string(page, 'b') + std::string(page, 'c'));
  }

  std::unique_ptr<file> file_;
};

TEST_F(mapped_files, show_the_file_and_keep_writes_to_themselves) {
  auto* const memory = static_cast<volatile char*>(file_->map_private(nullptr, page, 2 * page, os::access::read_write));
  EXPECT_EQ(memory[0], 'b');
  EXPECT_EQ(memory[2 * page - 1], 'c');
  memory[0] = 'x';
  EXPECT_EQ(memory[0], 'x');
  EXPECT_EQ(read_text(*file_, page, 1), "b");
  file_->write_at(page, as_bytes("1"));
  file_->write_at(2 * page, as_bytes("2"));
  EXPECT_EQ(memory[0], 'x');     // the private copy
  EXPECT_EQ(memory[page], '2');  // the file
  drop_private_copies(std::vector<page_run>{{reinterpret_cast<std::byte*>(const_cast<char*>(memory)), page}});
  EXPECT_EQ(memory[0], '1');
  unmap(const_cast<char*>(memory), 2 * page);
}

TEST_F(mapped_files, are_writable_only_if_asked_for) {
  const auto reader = open("segment", access::read_only);
  // A private mapping is writable whatever the file is: the writes do not reach it.
  auto* memory = static_cast<volatile char*>(reader->map_private(nullptr, 0, page, os::access::read_write));
  memory[0] = 'x';
  unmap(const_cast<char*>(memory), page);
  EXPECT_EQ(read_text(*file_, 0, 1), "a");

  auto* const constant = static_cast<char*>(reader->map_private(nullptr, 0, page, os::access::read_only));
  EXPECT_EQ(constant[0], 'a');
  // The kernel refuses to write into it, which is what a fault would show.
  const int descriptor = ::open((scratch_ / "segment").c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = ::pread(descriptor, constant, 1, 0);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(descriptor);
  unmap(constant, page);
}

TEST_F(mapped_files, go_exactly_where_they_are_wanted) {
  void* const wanted = free_address(2);
  EXPECT_EQ(file_->map_private(wanted, 0, 3 * page, os::access::read_write), wanted);
  EXPECT_EQ(*static_cast<const char*>(wanted), 'a');
  unmap(wanted, 3 * page);
}

TEST_F(mapped_files, never_replace_what_is_there) {
  auto* const taken = static_cast<char*>(map_anonymous(free_address(2), page));
  *taken = 'x';
  for (char* const at : {taken, taken - page})
    expect_error(errc::address_taken, {"cannot map " + (scratch_ / "segment"), "anonymous memory is there"},
                 [&] { (void)file_->map_private(at, 0, 2 * page, os::access::read_write); });
  EXPECT_EQ(*taken, 'x');

  (void)file_->map_private(taken + page, 0, page, os::access::read_write);
  expect_error(errc::address_taken, {(scratch_ / "segment") + " is there"},
               [&] { (void)map_anonymous(taken + page, page); });
  unmap(taken, 2 * page);
}

TEST_F(mapped_files, begin_and_end_with_pages) {
  expect_error(errc::misaligned, {"offset 512"},
               [&] { (void)file_->map_private(nullptr, 512, page, os::access::read_write); });
  expect_error(errc::misaligned, {"100 bytes"},
               [&] { (void)file_->map_private(nullptr, 0, 100, os::access::read_write); });
  expect_error(errc::misaligned, {"not zero"},
               [&] { (void)file_->map_private(nullptr, 0, 0, os::access::read_write); });
  expect_error(errc::misaligned, {"0x551000000001"}, [&] {
    (void)file_->map_private(static_cast<char*>(free_address(0)) + 1, 0, page, os::access::read_write);
  });
}

TEST_F(mapped_files, may_be_mapped_before_they_grow) {
  // Far more than the file has, and than there is memory: nothing is charged.
  constexpr std::size_t length = std::size_t{64} << 30;
  auto* const memory =
      static_cast<volatile char*>(file_->map_private(free_address(100), 0, length, os::access::read_write));
  file_->resize(1000 * page);
  file_->write_at(999 * page, as_bytes("z"));
  EXPECT_EQ(memory[999 * page], 'z');
  EXPECT_EQ(memory[998 * page], '\0');
  unmap(const_cast<char*>(memory), length);
}

TEST_F(mapped_files, outlive_the_opening) {
  auto* const memory = static_cast<const volatile char*>(file_->map_private(nullptr, 0, page, os::access::read_only));
  file_.reset();
  EXPECT_EQ(memory[0], 'a');
  unmap(const_cast<char*>(memory), page);
}

}  // namespace
}  // namespace tenure::os
