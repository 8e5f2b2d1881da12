// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Durable storage for the rest of the library: files, and the directory entries that name them.
//
// Everything that must survive a crash goes through these two interfaces, so that tests can put a simulated disk under
// the whole library (tests/sim). Durable writes are never made through shared mappings. So the disk can have exactly
// what was written here. [os.file.only-way]
//
// All functions throw tenure::error, with the code from errno and a message with path, offset and length. They repeat
// interrupted and short system calls. A write either happens whole or throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "os/access.hpp"

namespace tenure::os {

using bytes = std::span<std::byte>;
using const_bytes = std::span<const std::byte>;

enum class lock_kind { shared, exclusive };

// What tells a file from every other one of the machine, and from its copies.
struct file_id {
  std::uint64_t device, inode;
  bool operator==(const file_id&) const = default;
};

// An open file or block device. Thread-safe: operations on distinct ranges may run at the same time.
class file {
 public:
  virtual ~file() = default;
  file(const file&) = delete;
  file& operator=(const file&) = delete;

  [[nodiscard]] virtual const std::string& path() const = 0;
  [[nodiscard]] virtual bool is_device() const = 0;
  [[nodiscard]] virtual file_id id() const = 0;
  // In bytes. For a block device, the size of the device.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // The unit that the storage writes as a whole, or a multiple of that unit: 512 to 4096 bytes.
  [[nodiscard]] virtual std::uint32_t block_size() const = 0;

  // Reads up to into.size() bytes at `offset`. Reads fewer only at the end of the file. Returns the number of bytes.
  virtual std::size_t read_at(std::uint64_t offset, bytes into) = 0;
  // Advice: these bytes will be read soon. Returns at once. The storage can fetch several of these ranges together.
  virtual void read_ahead(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
  // Writes all of `from`. Durable only after sync().
  virtual void write_at(std::uint64_t offset, const_bytes from) = 0;
  // Advice: begin to write these bytes to the storage. A later sync() waits for them.
  virtual void write_behind(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
  // Writes several buffers one after the other, starting at `offset`.
  virtual void write_all_at(std::uint64_t offset, std::span<const const_bytes> from) = 0;
  // Writes all of the buffers and makes *these bytes* durable before it returns. Earlier writes may stay undurable. The
  // space must be allocated and initialised already, because no metadata is made durable.
  virtual void write_durably_at(std::uint64_t offset, std::span<const const_bytes> from) = 0;
  // Makes all earlier writes durable, and the metadata needed to read them (fdatasync).
  virtual void sync() = 0;

  // Sets the size. New bytes are zero. Not for devices.
  virtual void resize(std::uint64_t size) = 0;
  // Reserves space for [offset, offset+length), and extends the file if needed. Then later writes there cannot meet a
  // full disk, on file systems that overwrite in place. Does nothing for devices.
  virtual void allocate(std::uint64_t offset, std::uint64_t length) = 0;

  // Gives the space of [offset, offset+length) back to the file system. The bytes become zeros, durably after sync(), as
  // if they were written. Later writes there may meet a full disk, unless the space is allocated again. Returns false,
  // and has changed nothing, if the file system cannot. The range lies in the file.
  [[nodiscard]] virtual bool punch(std::uint64_t offset, std::uint64_t length) = 0;

  // Takes an advisory lock, which ends with this object or the process. Returns false if another holder has it.
  [[nodiscard]] virtual bool try_lock(lock_kind kind) = 0;
  // The holder of a lock that could not be taken, as the subject of a sentence: "another process, 71 (bank),", or, if
  // `object` is "memory", "another memory of this process". If the system does not tell which, it says that it is one
  // of the two.
  [[nodiscard]] virtual std::string lock_holders(const std::string& object) const {
    return "another process, or another " + object + " of this one,";
  }
  // Lets every user read the file, whatever the process's umask says. If the system refuses, nothing has changed.
  virtual void let_all_read() noexcept {}
  // Whether the path still names this file. A rename may have replaced it since it was opened.
  [[nodiscard]] virtual bool is_current() const = 0;
  // The file has this name now (disk::rename): path() and is_current() use it. The file has one user meanwhile.
  virtual void renamed(const std::string& path) = 0;
  // Makes the file's name durable, like disk::sync_directory_of, but does not fail when no descriptor is free. The
  // caller may write; one user at a time.
  virtual void sync_name() = 0;

  // Maps [offset, offset+length) privately: reads see the file, and writes stay in this process's copy. Both are
  // multiples of os::page_size(). If `at` is nullptr, anywhere; otherwise exactly there, and never over an existing
  // mapping. Returns the address. Throws errc::address_taken if something is mapped there.
  virtual void* map_private(void* at, std::uint64_t offset, std::size_t length, access how) = 0;
  // The same, but replaces the mapping at `at`, which the caller must own (virtual_memory.hpp: reserve_address_space).
  // Other threads that read there meanwhile see the old bytes or the new ones. If the kernel refuses, it throws, and
  // nothing has changed.
  virtual void map_private_over(void* at, std::uint64_t offset, std::size_t length, access how) = 0;

 protected:
  file() = default;
};

// The names of files. Thread-safe.
class disk {
 public:
  virtual ~disk() = default;
  disk(const disk&) = delete;
  disk& operator=(const disk&) = delete;

  // Opens an existing file or block device. Throws with std::errc::no_such_file_or_directory if there is none.
  [[nodiscard]] virtual std::unique_ptr<file> open(const std::string& path, access how) = 0;
  // Creates a file that must not exist (std::errc::file_exists). The name is durable after sync_directory_of(path).
  [[nodiscard]] virtual std::unique_ptr<file> create(const std::string& path, unsigned permissions) = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
  // The path of the file to which the symbolic link `path` leads; `path` itself if it is no link. If that file does not
  // exist, the path where the link expects it.
  [[nodiscard]] virtual std::string behind_links(const std::string& path) = 0;
  // Replaces `to` if it exists, atomically. Durable after sync_directory_of(to).
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // The same, but `to` must not exist (std::errc::file_exists). If several processes try it at once, one of them
  // succeeds.
  virtual void rename_to_new(const std::string& from, const std::string& to) = 0;
  // A file, or an empty directory.
  virtual void remove(const std::string& path) = 0;
  // Makes a directory, durably. Its parent must exist. Does nothing if the directory exists.
  virtual void make_directory(const std::string& path) = 0;
  // What is in a directory, in no order; nothing if there is no such directory.
  [[nodiscard]] virtual std::vector<std::string> names_in(const std::string& directory) = 0;
  // Gives a file the owner, the group and the permissions of another one, if that is there, as far as this process may.
  virtual void take_owner_of(const std::string& /*path*/, const std::string& /*other*/) {}
  // Makes creations, renames and removals durable in the directory of the file `path`. If `path` is a link, that is the
  // directory of its target, too.
  virtual void sync_directory_of(const std::string& path) = 0;

 protected:
  disk() = default;
};

// The file system of this machine.
[[nodiscard]] disk& real_disk();

}  // namespace tenure::os
