// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Durable storage as the rest of the library sees it: files and the directory entries that name them.
//
// Everything that must survive a crash goes through these two interfaces, so that the tests can put a simulated disk
// under the whole library (tests/sim). Durable writes are never made through shared mappings: what can be on the disk is
// exactly what was written here. [os.file.only-way]
//
// All functions throw tenure::error (code from errno, message with path, offset and length). Interrupted and short
// system calls are continued inside; a write either happens whole or throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tenure::os {

using bytes = std::span<std::byte>;
using const_bytes = std::span<const std::byte>;

enum class access { read_only, read_write };
enum class lock_kind { shared, exclusive };

// An open file or block device. Thread-safe: operations on distinct ranges may run at the same time.
class file {
 public:
  virtual ~file() = default;
  file(const file&) = delete;
  file& operator=(const file&) = delete;

  [[nodiscard]] virtual const std::string& path() const = 0;
  [[nodiscard]] virtual bool is_device() const = 0;
  // Bytes. A block device has the device's size.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // The unit that the storage writes as a whole, or a multiple of it: 512 to 4096.
  [[nodiscard]] virtual std::uint32_t block_size() const = 0;

  // Reads up to into.size() bytes at `offset`; fewer only at the end of the file. Returns the number read.
  virtual std::size_t read_at(std::uint64_t offset, bytes into) = 0;
  // Advice: these bytes will be read soon. Returns at once; many at a time are fetched together.
  virtual void read_ahead(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
  // Writes all of `from`. Durable only after sync().
  virtual void write_at(std::uint64_t offset, const_bytes from) = 0;
  // Advice: begin to write these bytes to the storage, which a later sync() then waits for.
  virtual void write_behind(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
  // Writes several buffers one after the other, starting at `offset`.
  virtual void write_all_at(std::uint64_t offset, std::span<const const_bytes> from) = 0;
  // Writes all of the buffers and makes *these bytes* durable before it returns; says nothing of earlier writes. The
  // file must have this space allocated and initialised already (no metadata is made durable).
  virtual void write_durably_at(std::uint64_t offset, std::span<const const_bytes> from) = 0;
  // Makes all earlier writes durable, and the metadata needed to read them (fdatasync).
  virtual void sync() = 0;

  // Sets the size; new bytes read as zero. Not for devices.
  virtual void resize(std::uint64_t size) = 0;
  // Reserves space for [offset, offset+length), extending the file if needed: later writes there cannot meet a full
  // disk (on file systems that overwrite in place). Not for devices, where it does nothing.
  virtual void allocate(std::uint64_t offset, std::uint64_t length) = 0;

  // Takes an advisory lock that ends with this object or the process. False if another holder excludes it.
  [[nodiscard]] virtual bool try_lock(lock_kind kind) = 0;
  // Who has the lock that could not be taken, as the subject of a sentence: "another process, 71 (bank)," or, `object` being
  // "memory", "another memory of this process". Says that it is one of both where the system does not tell.
  [[nodiscard]] virtual std::string lock_holders(const std::string& object) const {
    return "another process, or another " + object + " of this one,";
  }
  // Whether the path still names this very file (it may have been replaced by a rename since it was opened).
  [[nodiscard]] virtual bool is_current() const = 0;
  // It has this name now (disk::rename): path() and is_current() are of it. While the file has one user.
  virtual void renamed(const std::string& path) = 0;
  // Makes the file's name durable: disk::sync_directory_of, but it does not fail for want of a descriptor. For who may
  // write; one user at a time.
  virtual void sync_name() = 0;

  // Maps [offset, offset+length) privately: reads see the file, writes stay in this process's copy. Both multiples of
  // os::page_size(). `at` nullptr: anywhere free; else exactly there, never over an existing mapping. Returns the
  // address. Throws errc::address_taken where something is there already.
  virtual void* map_private(void* at, std::uint64_t offset, std::size_t length, bool writable) = 0;
  // The same, in place of what is at `at`, which must be the caller's own (virtual_memory.hpp: reserve_address_space).
  // Who reads there meanwhile sees what was there or what comes. Throws if the kernel refuses; then nothing has changed.
  virtual void map_private_over(void* at, std::uint64_t offset, std::size_t length, bool writable) = 0;

 protected:
  file() = default;
};

// The name space of files. Thread-safe.
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
  // The path of the file that `path` names by a symbolic link; `path` if it is none. Where there is no such file, the path
  // at which the link wants it.
  [[nodiscard]] virtual std::string behind_links(const std::string& path) = 0;
  // Replaces `to` if it exists, atomically. Durable after sync_directory_of(to).
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // The same, but `to` must not exist (std::errc::file_exists); of several who try it at once, one succeeds.
  virtual void rename_to_new(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  // Makes a directory, durably; its parent must exist. Nothing happens if it is there already.
  virtual void make_directory(const std::string& path) = 0;
  // Makes creations, renames and removals durable in the directory that holds the file `path`, which may be a link to it.
  virtual void sync_directory_of(const std::string& path) = 0;

 protected:
  disk() = default;
};

// The machine's own file system.
[[nodiscard]] disk& real_disk();

}  // namespace tenure::os
