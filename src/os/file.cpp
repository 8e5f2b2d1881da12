// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The file system of this machine.
#include "os/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "os/held_locks.hpp"
#include "os/lock_holders.hpp"
#include "os/map_at.hpp"
#include "os/process.hpp"
#include "os/system_error.hpp"

namespace tenure::os {
namespace {

using buffers = std::span<const const_bytes>;

constexpr std::uint32_t smallest_block = 512;
constexpr std::uint32_t largest_block = 4096;

// Calls `call` again for as long as a signal interrupts it.
template <class Call>
auto uninterrupted(Call call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

// The part of a list of buffers that is still to be written, in the form that the kernel takes.
class buffer_cursor {
 public:
  explicit buffer_cursor(buffers from) : from_(from) { advance(0); }

  [[nodiscard]] bool at_end() const { return from_.empty(); }
  [[nodiscard]] std::uint64_t done() const { return done_; }  // bytes
  [[nodiscard]] std::uint64_t left() const {
    std::uint64_t total = 0;
    for (const const_bytes each : from_) total += each.size();
    return total - done_in_first_;
  }

  // At most IOV_MAX (1024) buffers. Valid until the next call.
  [[nodiscard]] std::span<const iovec> next() {
    const std::size_t count = std::min(from_.size(), vector_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const const_bytes part = from_[i].subspan(i == 0 ? done_in_first_ : 0);
      vector_[i] = {const_cast<std::byte*>(part.data()), part.size()};
    }
    return std::span(vector_).first(count);
  }

  void advance(std::size_t bytes) {
    done_ += bytes;
    done_in_first_ += bytes;
    while (!from_.empty() && done_in_first_ >= from_.front().size()) {
      done_in_first_ -= from_.front().size();
      from_ = from_.subspan(1);
    }
  }

 private:
  buffers from_;
  std::uint64_t done_ = 0;
  std::size_t done_in_first_ = 0;
  std::array<iovec, 1024> vector_;
};

// The physical block size of the device with this number, or 0 if it is not known (a network or pseudo file system).
std::uint32_t physical_block_size(dev_t device) {
  const std::string entry = "/sys/dev/block/" + std::to_string(major(device)) + ':' + std::to_string(minor(device));
  std::uint32_t size = 0;
  // A partition has no queue. Its disk has one, in the directory above.
  for (const char* queue : {"/queue/physical_block_size", "/../queue/physical_block_size"})
    if (std::ifstream(entry + queue) >> size) return size;
  return 0;
}

std::uint32_t usable_block_size(std::uint32_t size) {
  return std::bit_ceil(std::clamp(size, smallest_block, largest_block));
}

void refuse_unless_storage(const struct stat& found, const std::string& path) {
  const char* kind = nullptr;
  switch (found.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK: return;
    case S_IFDIR: throw_system_error(EISDIR, "cannot open " + path, "name a file in it");
    case S_IFSOCK: kind = "a socket"; break;
    case S_IFIFO: kind = "a pipe"; break;
    case S_IFCHR: kind = "a character device"; break;
    default: kind = "a special file"; break;
  }
  throw_system_error(EINVAL, "cannot open " + path, std::string("it is ") + kind + ", not a file or a block device");
}

// Moves a new descriptor away from 0, 1 and 2. A program may have been started with one of them closed. Then the new
// descriptor would take its place, and text that the program prints would go into the file.
int behind_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int code = errno;
  ::close(descriptor);
  errno = code;
  return moved;
}

// The path to which a symbolic link leads; `path` itself if it is no link.
std::string target_of(std::string path) {
  namespace fs = std::filesystem;
  constexpr int most = 40;  // the kernel's limit
  for (int links = 0; links < most; ++links) {
    std::error_code failure;
    const fs::path to = fs::read_symlink(path, failure);
    if (failure) break;  // mostly because it is no link
    path = (fs::path(path).parent_path() / to).string();
  }
  return path;
}

// The directory that holds the last component of the path.
std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

int open_directory(const std::string& directory) {
  return behind_standard_streams(
      uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
}

std::string syncing_names(const std::string& directory) {
  return "cannot make the names in directory " + directory + " durable";
}

void sync_names(int descriptor, const std::string& directory) {
  if (uninterrupted([&] { return ::fsync(descriptor); }) == 0) return;
  // Some network and user-space file systems cannot sync directories and report this. Nothing better can be done then.
  if (const int code = errno; code != EINVAL && code != EOPNOTSUPP && code != ENOSYS)
    throw_system_error(code, syncing_names(directory));
}

class real_file final : public file {
 public:
  // Owns the descriptor from now on, even if it throws.
  real_file(int descriptor, std::string path, access how) : descriptor_(descriptor), path_(std::move(path)), how_(how) {
    try {
      absolute_path_ = absolute_path(path_);
      inspect();
      if (how == access::read_write && !device_) find_directory();
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }

  ~real_file() override {
    if (locked_.load(std::memory_order_relaxed)) {
      forget_lock(descriptor_);
      // A child that was made without the fork handlers shares the lock. Unlocking ends it, although the child goes on.
      if (generation_ == fork_generation()) ::flock(descriptor_, LOCK_UN);
    }
    if (descriptor_ >= 0) ::close(descriptor_);
    if (directory_ >= 0) ::close(directory_);
    if (mapped_ >= 0) ::close(mapped_);
  }

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] bool is_device() const override { return device_; }
  [[nodiscard]] file_id id() const override {
    const struct stat opened = status();
    return {opened.st_dev, opened.st_ino};
  }
  [[nodiscard]] std::uint32_t block_size() const override {
    if (device_) {
      unsigned physical = 0;
      if (::ioctl(descriptor_, BLKPBSZGET, &physical) != 0)
        throw_system_error(errno, "cannot get the block size of device " + path_);
      return usable_block_size(physical);
    }
    const struct stat found = status();
    const auto preferred = static_cast<std::uint32_t>(std::clamp<blksize_t>(found.st_blksize, 0, largest_block));
    return usable_block_size(std::max(preferred, physical_block_size(found.st_dev)));
  }

  [[nodiscard]] std::uint64_t size() const override {
    if (!device_) return static_cast<std::uint64_t>(status().st_size);
    std::uint64_t bytes = 0;
    if (::ioctl(descriptor_, BLKGETSIZE64, &bytes) != 0)
      throw_system_error(errno, "cannot get the size of device " + path_);
    return bytes;
  }

  std::size_t read_at(std::uint64_t offset, bytes into) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = ::pread(descriptor_, into.data() + done, into.size() - done, position(offset + done));
      if (got == 0) break;
      if (got > 0) {
        done += static_cast<std::size_t>(got);
      } else if (errno != EINTR) {
        throw_system_error(errno, "cannot read " + place(into.size() - done, offset + done, path_));
      }
    }
    return done;
  }

  void write_at(std::uint64_t offset, const_bytes from) override { write_all_at(offset, {&from, 1}); }

  void write_all_at(std::uint64_t offset, buffers from) override {
    buffer_cursor left(from);
    while (!left.at_end()) {
      const std::span<const iovec> parts = left.next();
      const std::uint64_t at = offset + left.done();
      advance(left, ::pwritev(descriptor_, parts.data(), static_cast<int>(parts.size()), position(at)), at);
    }
  }

  void write_durably_at(std::uint64_t offset, buffers from) override {
    if (!write_with_dsync(offset, from)) {
      write_all_at(offset, from);
      sync();
    }
  }

  void read_ahead(std::uint64_t offset, std::uint64_t length) noexcept override {
    // At each call the kernel reads no more than its window, whose size depends on the device, and ignores the rest.
    constexpr std::uint64_t least_window = std::uint64_t{128} << 10;
    for (const std::uint64_t end = offset + length; offset < end; offset += least_window)
      ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(std::min(least_window, end - offset)),
                      POSIX_FADV_WILLNEED);
  }

  void write_behind(std::uint64_t offset, std::uint64_t length) noexcept override {
    ::sync_file_range(descriptor_, static_cast<off64_t>(offset), static_cast<off64_t>(length), SYNC_FILE_RANGE_WRITE);
  }

  void sync() override {
    if (uninterrupted([&] { return ::fdatasync(descriptor_); }) != 0)
      throw_system_error(errno, "cannot make the writes to " + path_ + " durable");
  }

  void resize(std::uint64_t size) override {
    const std::string what = "cannot resize " + path_ + " to " + std::to_string(size) + " bytes";
    if (device_) throw_system_error(EINVAL, what, "a block device has the size that it has");
    refuse_unless_writable(what);
    if (uninterrupted([&] { return ::ftruncate(descriptor_, position(size)); }) != 0) throw_system_error(errno, what);
  }

  void allocate(std::uint64_t offset, std::uint64_t length) override {
    if (device_ || length == 0) return;
    const std::string what = "cannot allocate " + place(length, offset, path_);
    refuse_unless_writable(what);
    if (uninterrupted([&] { return ::fallocate(descriptor_, 0, position(offset), position(length)); }) == 0) return;
    if (errno != EOPNOTSUPP && errno != ENOSYS) throw_system_error(errno, what);
    allocate_by_writing(offset, length);
  }

  [[nodiscard]] bool punch(std::uint64_t offset, std::uint64_t length) override {
    if (device_ || length == 0) return length == 0;
    const std::string what = "cannot give back the space of " + place(length, offset, path_);
    refuse_unless_writable(what);
    constexpr int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (uninterrupted([&] { return ::fallocate(descriptor_, how, position(offset), position(length)); }) == 0)
      return true;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return false;
    throw_system_error(errno, what);
  }

  [[nodiscard]] bool try_lock(lock_kind kind) override {
    const int wanted = (kind == lock_kind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
    // A program that was killed may have left a copy of its process [os.copy.silent], which closes its files first.
    for (int tries = 0;; ++tries) {
      if (uninterrupted([&] { return ::flock(descriptor_, wanted); }) == 0) {
        note_lock(descriptor_);
        locked_.store(true, std::memory_order_relaxed);
        return true;
      }
      if (errno != EWOULDBLOCK) throw_system_error(errno, "cannot lock " + path_);
      if (tries == 20) return false;
      const timespec a_moment{0, 1'000'000};
      ::nanosleep(&a_moment, nullptr);
    }
  }

  [[nodiscard]] std::string lock_holders(const std::string& object) const override {
    const struct stat opened = status();
    const std::string known = os::lock_holders(opened.st_dev, opened.st_ino, object);
    return known.empty() ? file::lock_holders(object) : known;
  }

  void let_all_read() noexcept override { (void)::fchmod(descriptor_, 0644); }

  [[nodiscard]] bool is_current() const override {
    struct stat named {};
    if (::stat(absolute_path_.c_str(), &named) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return false;
      throw_system_error(errno, "cannot look for " + absolute_path_);
    }
    const struct stat opened = status();
    return named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  }

  void renamed(const std::string& path) override {
    absolute_path_ = absolute_path(path);
    path_ = path;
    name_is_durable_ = false;
  }

  void sync_name() override {
    if (device_ || name_is_durable_) return;
    const std::string directory = directory_of(target_of(absolute_path_));
    if (directory_ < 0) directory_ = open_directory(directory);
    if (directory_ < 0) throw_system_error(errno, syncing_names(directory));
    sync_names(directory_, directory);
    name_is_durable_ = true;
    ::close(std::exchange(directory_, -1));
  }

  void* map_private(void* at, std::uint64_t offset, std::size_t length, access how) override {
    return map_at(at, length, PROT_READ | (how == access::read_write ? PROT_WRITE : 0), 0, for_mappings(), offset,
                  path_);
  }

  void map_private_over(void* at, std::uint64_t offset, std::size_t length, access how) override {
    map_over(at, length, PROT_READ | (how == access::read_write ? PROT_WRITE : 0), 0, for_mappings(), offset, path_);
  }

 private:
  // For mappings, which would keep the locks of this file as long as any process has them: a copy of the process has them until its
  // memory is given back, 0.1 s after the program was killed [os.copy.silent]. So the file is opened again, once, because pages are
  // mapped anew at each truncation. Where it cannot be, it is this one.
  [[nodiscard]] int for_mappings() {
    int known = mapped_;
    if (known >= 0) return known;
    const std::string path = "/proc/thread-self/fd/" + std::to_string(descriptor_);
    const int made = behind_standard_streams(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
    if (made < 0) return descriptor_;
    if (mapped_.compare_exchange_strong(known, made)) return made;
    ::close(made);
    return known;
  }

  // Offsets from 2^63 on become negative. The kernel refuses them.
  static off_t position(std::uint64_t offset) { return static_cast<off_t>(offset); }

  [[nodiscard]] struct stat status() const {
    struct stat result {};
    if (::fstat(descriptor_, &result) != 0) throw_system_error(errno, "cannot get the status of " + path_);
    return result;
  }

  void inspect() {
    const struct stat found = status();
    refuse_unless_storage(found, path_);
    device_ = S_ISBLK(found.st_mode);
  }

  // Called early, so that sync_name() does not fail later because the process has too many files open.
  void find_directory() {
    const std::string directory = directory_of(target_of(absolute_path_));
    directory_ = open_directory(directory);
    if (directory_ < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
      throw_system_error(errno, "cannot open directory " + directory);
  }

  void refuse_unless_writable(const std::string& what) const {
    if (how_ == access::read_only) throw_system_error(EBADF, what, "it was opened for reading");
  }

  // Moves the cursor over the bytes that a system call has written. `written` is its result, `at` the offset of its
  // first byte.
  void advance(buffer_cursor& left, ssize_t written, std::uint64_t at) const {
    if (written > 0) return left.advance(static_cast<std::size_t>(written));
    const int code = written < 0 ? errno : EIO;
    if (code == EINTR) return;
    const std::string what = "cannot write " + place(left.left(), at, path_);
    refuse_unless_writable(what);
    throw_system_error(code, what, written < 0 ? "" : "the system wrote nothing and gave no reason");
  }

  // Returns false if the kernel or the file system cannot do it. Then some bytes may be written, but need not be
  // durable.
  bool write_with_dsync(std::uint64_t offset, buffers from) {
    if (dsync_refused_.load(std::memory_order_relaxed)) return false;
    buffer_cursor left(from);
    while (!left.at_end()) {
      const std::span<const iovec> parts = left.next();
      const std::uint64_t at = offset + left.done();
      const ssize_t written =
          ::pwritev2(descriptor_, parts.data(), static_cast<int>(parts.size()), position(at), RWF_DSYNC);
      if (written < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) {
        // EINVAL may also mean a bad offset. Then the plain write fails, too, and reports it.
        if (errno != EINVAL || position(at) >= 0) dsync_refused_.store(true, std::memory_order_relaxed);
        return false;
      }
      advance(left, written, at);
    }
    return true;
  }

  // For file systems without fallocate. Writing zeros over bytes that read as zero fills the holes and changes nothing.
  void allocate_by_writing(std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t end = offset + length;
    const std::uint64_t existing = std::min(end, size());
    std::uint64_t at = offset;
    for (std::array<std::byte, largest_block> block; at < existing;) {
      const std::uint64_t block_end = std::min(existing, (at / block.size() + 1) * block.size());
      const bytes part = bytes(block).first(static_cast<std::size_t>(block_end - at));
      if (read_at(at, part) == part.size() && std::ranges::all_of(part, [](std::byte b) { return b == std::byte{}; }))
        write_at(at, part);
      at = block_end;
    }
    const std::vector<std::byte> zeros(at < end ? std::size_t{1} << 16 : 0);
    while (at < end) {
      const auto part = const_bytes(zeros).first(std::min<std::uint64_t>(zeros.size(), end - at));
      write_at(at, part);
      at += part.size();
    }
  }

  std::atomic<int> mapped_{-1};  // for_mappings()
  std::atomic<int> descriptor_;  // -1 in a child of a fork, if it was locked
  int directory_ = -1;           // holds the file's name, until that is durable; -1: could not be opened
  bool name_is_durable_ = false;
  std::string path_;
  const access how_;
  const std::uint32_t generation_ = fork_generation();
  std::string absolute_path_;  // is_current must not depend on the working directory
  bool device_ = false;
  std::atomic<bool> locked_{false};
  std::atomic<bool> dsync_refused_{false};
};

class system_disk final : public disk {
 public:
  [[nodiscard]] std::unique_ptr<file> open(const std::string& path, access how) override {
    // Checks the kind of the file before opening it: opening a pipe may wait, and opening some devices has effects.
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) throw_system_error(errno, "cannot open " + path);
    refuse_unless_storage(found, path);
    const int flags = (how == access::read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;
    const int descriptor = behind_standard_streams(uninterrupted([&] { return ::open(path.c_str(), flags); }));
    if (descriptor < 0)
      throw_system_error(errno, "cannot open " + path + (how == access::read_only ? "" : " for writing"));
    return std::make_unique<real_file>(descriptor, path, how);
  }

  [[nodiscard]] std::unique_ptr<file> create(const std::string& path, unsigned permissions) override {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    const int descriptor = behind_standard_streams(
        uninterrupted([&] { return ::open(path.c_str(), flags, static_cast<mode_t>(permissions)); }));
    if (descriptor < 0) throw_system_error(errno, "cannot create " + path);
    return std::make_unique<real_file>(descriptor, path, access::read_write);
  }

  [[nodiscard]] bool exists(const std::string& path) override {
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw_system_error(errno, "cannot look for " + path);
  }

  [[nodiscard]] std::string behind_links(const std::string& path) override { return target_of(path); }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw_system_error(errno, renaming(from, to));
  }

  void rename_to_new(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS) throw_system_error(errno, renaming(from, to));
    // Mostly a network file system. If the old name cannot be removed, the file has two names.
    if (::link(from.c_str(), to.c_str()) == 0) return static_cast<void>(::unlink(from.c_str()));
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) throw_system_error(errno, renaming(from, to));
    // There are no links either. The new name is an empty file before the second step, and after a crash between the
    // steps.
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    const int descriptor = uninterrupted([&] { return ::open(to.c_str(), flags, 0600); });
    if (descriptor < 0) throw_system_error(errno, renaming(from, to));
    ::close(descriptor);
    if (::rename(from.c_str(), to.c_str()) == 0) return;
    const int code = errno;
    ::unlink(to.c_str());
    throw_system_error(code, renaming(from, to));
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0 || (errno == EISDIR && ::rmdir(path.c_str()) == 0)) return;
    throw_system_error(errno, "cannot remove " + path);
  }

  void take_owner_of(const std::string& path, const std::string& other) override {
    struct stat wanted {
    }, found{};
    if (::stat(other.c_str(), &wanted) != 0 || ::stat(path.c_str(), &found) != 0) return;
    // Only a privileged process may give a file to another owner, and to a group that it is not in. What the other file's group may
    // do, no other group may.
    bool has_group = found.st_gid == wanted.st_gid;
    if (found.st_uid != wanted.st_uid || !has_group)
      has_group = ::chown(path.c_str(), wanted.st_uid, wanted.st_gid) == 0 || has_group ||
                  ::chown(path.c_str(), static_cast<uid_t>(-1), wanted.st_gid) == 0;
    const mode_t mode = wanted.st_mode & (has_group ? 0777 : 0707);
    if ((found.st_mode & 07777) != mode && ::chmod(path.c_str(), mode) != 0)
      throw_system_error(errno, "cannot give " + path + " the permissions of " + other);
  }

  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) == 0) return sync_directory_of(path);
    if (const int code = errno; code != EEXIST) throw_system_error(code, "cannot make the directory " + path);
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && !S_ISDIR(found.st_mode))
      throw_system_error(ENOTDIR, "cannot make the directory " + path, "something else has this name");
  }

  [[nodiscard]] std::vector<std::string> names_in(const std::string& directory) override {
    DIR* const opened = ::opendir(directory.c_str());
    if (opened == nullptr) {
      if (errno == ENOENT) return {};
      throw_system_error(errno, "cannot read the directory " + directory);
    }
    std::vector<std::string> names;
    errno = 0;                                               // readdir leaves it alone at the end
    while (const dirent* const entry = ::readdir(opened)) {  // NOLINT(concurrency-mt-unsafe): its own stream
      if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    const int code = errno;
    ::closedir(opened);
    if (code != 0) throw_system_error(code, "cannot read the directory " + directory);
    return names;
  }

  void sync_directory_of(const std::string& path) override {
    const std::string directory = directory_of(target_of(path));
    const int descriptor = open_directory(directory);
    if (descriptor < 0) throw_system_error(errno, syncing_names(directory));
    try {
      sync_names(descriptor, directory);
    } catch (...) {
      ::close(descriptor);
      throw;
    }
    ::close(descriptor);
  }

 private:
  static std::string renaming(const std::string& from, const std::string& to) {
    return "cannot rename " + from + " to " + to;
  }
};

}  // namespace

disk& real_disk() {
  // Never destroyed, because static objects may still use it.
  static system_disk* const the_disk = new system_disk;
  return *the_disk;
}

}  // namespace tenure::os
