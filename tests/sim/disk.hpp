// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A disk that loses power. It keeps apart what programs see now and what a crash would leave, for file contents, file
// sizes and directory entries alike, and it fails on request. Everything is decided by seeds: a run can be repeated.
//
// What is durable [sim.disk.durable]
// - write_at, resize, allocate, punch: pending until sync() of that file. The space that punch has taken may be gone after a
//   crash where zeros are found. It is there again when an allocate, or a write, is durable.
// - write_durably_at: durable at once where the file's blocks were initialised before, that is, lie within the durable
//   size and were written and synced (or installed) earlier. The rest is pending, as with a plain write: the interface
//   promises no metadata. Earlier pending writes stay pending, except for the bytes that are overwritten here.
// - create, rename, remove: pending until sync_directory_of. sync() of a file does not save its name.
//
// What a crash leaves [sim.disk.crash]
// - Every pending write is kept, dropped, or torn at sectors of 512 bytes, independently of the others, so that any
//   reordering can be seen. Bytes that no pending write covers never change.
// - Pending changes of one file's size survive as a prefix of their order, as with a metadata journal. Written bytes
//   beyond the surviving size are lost; a surviving size without the bytes reads as zero.
// - Pending directory operations survive as a prefix, or as a subset in which nothing survives that builds upon a lost
//   operation on the same name.
//
// The disk, and each of its files, is thread-safe; files may outlive the disk. Paths are plain strings, normalised;
// every directory exists.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/file.hpp"

namespace tenure::sim {

inline constexpr std::uint64_t sector_size = 512;
inline constexpr std::uint64_t for_ever = std::numeric_limits<std::uint64_t>::max();

// Thrown by everything that touches the disk once the power is gone (a file's size(), path() and such still answer, and
// private mappings stay). Deliberately no std::exception: only catch (...) sees it, so no error handling of the library
// can take it for an ordinary failure.
struct power_failure {
  std::uint64_t operation;  // index of the operation at which the power went
};

// Those before `read` change the disk: they have an index each (the first is 1), and the power can go at any of them.
enum class operation {
  write,  // write_at and write_all_at
  durable_write,
  sync,
  resize,
  allocate,
  punch,
  create,
  rename,
  remove,
  sync_directory,
  read,
  map,
  open,
  exists,
  lock,
};

[[nodiscard]] constexpr bool changes_disk(operation kind) { return kind < operation::read; }
[[nodiscard]] const char* name_of(operation kind);

// What to make of pending changes at a crash.
enum class policy {
  random,
  random_with_garbage,  // as random; some of the bytes written to a torn sector may be neither old nor new
  drop_all,             // exactly what is durable: what an acknowledged commit must be found in
  keep_all,
};

enum class effect {
  fail,         // throws tenure::error with `error`; `bytes` of a write happen (as pending) before
  short_read,   // a read returns at most `bytes`
  flip_bit,     // a read succeeds with bit number `bytes` of what it returns inverted (modulo its length)
  lose_writes,  // a sync fails with `error`; the file's pending writes are gone from its current contents, too, and the
                // next sync succeeds (what some file systems do with dirty pages after an error)
  keep_unsynced,  // the same, but the writes stay visible until the crash, though no later sync will save them
};

// `count` matching operations have the effect, beginning with the nth that comes after inject().
struct fault {
  std::optional<operation> kind = {};  // none: all that the effect makes sense for; with `fail`, every operation
  std::string path = {};               // part of the path; empty: every path
  std::uint64_t nth = 1;
  std::uint64_t count = 1;  // or for_ever
  effect what = effect::fail;
  int error = EIO;
  std::uint64_t bytes = 0;
  std::uint64_t from = 0, to = for_ever;  // only operations on bytes of a file that are in this range
};

// One operation, as recorded by record_trace when it begins (failing ones, too) and given to on_operation.
struct trace_entry {
  operation kind;
  std::uint64_t index;  // of operations that change the disk: theirs; otherwise that of the last one before
  std::string path;
  std::string from;  // the old name, for rename
  std::uint64_t offset;
  std::uint64_t length;  // for resize: the new size is in offset
};

class core;

class disk final : public os::disk {
 public:
  explicit disk(std::uint32_t block_size = 4096);
  ~disk() override;

  // os::disk
  [[nodiscard]] std::unique_ptr<os::file> open(const std::string& path, os::access how) override;
  [[nodiscard]] std::unique_ptr<os::file> create(const std::string& path, unsigned permissions) override;
  [[nodiscard]] bool exists(const std::string& path) override;
  [[nodiscard]] std::string behind_links(const std::string& path) override { return path; }  // there are none
  void rename(const std::string& from, const std::string& to) override;
  void rename_to_new(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  void make_directory(const std::string&) override {}  // directories are there as soon as a name is in them
  [[nodiscard]] std::vector<std::string> names_in(const std::string& directory) override;
  void sync_directory_of(const std::string& path) override;

  // --- Losing power ---

  // The disk as it may be found after losing power now. This one is not changed, and may go on. The new one has no
  // faults, no locks, and counts from 0. The same seed and history give the same result. May be called from any thread
  // at any time, also with the power gone. Cheap: contents are shared until written.
  [[nodiscard]] std::unique_ptr<disk> crash(std::uint64_t seed, policy what = policy::random) const;

  // The power goes at the nth operation since the disk was made (the first is 1): that one is at most pending, and it
  // and everything after it throw power_failure. Of a write, only the first `sectors` become pending.
  void crash_at(std::uint64_t nth, std::uint64_t sectors = for_ever);
  // The power goes now.
  void power_off();
  // From now on nothing can be written where there is no space: behind the end of a file, and where punch has taken it.
  void fill_up(bool is_full = true);
  // The bytes of a file, by its path, whose space punch has taken.
  [[nodiscard]] std::uint64_t holes(const std::string& path) const;
  [[nodiscard]] bool is_off() const;

  // Operations so far that change the disk, and reads so far (read and map).
  [[nodiscard]] std::uint64_t operations() const;
  [[nodiscard]] std::uint64_t reads() const;

  // --- Failing ---

  // Returns a number to ask hits() with. If several faults match an operation, only the earliest injected acts.
  std::size_t inject(fault what);
  // The device does not deliver these bytes any more: reads fail with EIO, and so do mappings that are made from now on, with
  // SIGBUS for each page.
  void lose(const std::string& path, std::uint64_t from, std::uint64_t to);
  // How often that fault has had its effect.
  [[nodiscard]] std::uint64_t hits(std::size_t fault_number) const;
  void clear_faults();
  // Every change fails with EROFS, and so does opening for writing.
  void set_read_only(bool yes);

  // --- Watching ---

  void record_trace(bool yes);
  [[nodiscard]] std::vector<trace_entry> trace() const;
  void clear_trace();
  // Called after each successful operation that changes the disk, in its thread, with no lock held: it may call
  // crash(). To be set while no other thread uses the disk.
  void on_operation(std::function<void(const trace_entry&)> call);
  // Parts of durable writes that were not durable, because the blocks were not initialised: 0 if the caller is right.
  [[nodiscard]] std::uint64_t weak_durable_writes() const;

  // --- Helpers; none of them is an operation, and all work with the power gone. A missing path throws
  // std::errc::no_such_file_or_directory. ---

  // A block device of that size; all of it is zero, initialised and durable.
  void add_device(const std::string& path, std::uint64_t size);
  // Makes a file, or gives one these contents, as `cp` does: it keeps its number. Durable in name and contents.
  void install(const std::string& path, os::const_bytes contents);
  void install_from_real(const std::string& real_path, const std::string& path);
  void copy_to_real(const std::string& path, const std::string& real_path) const;

  [[nodiscard]] std::vector<std::byte> current_bytes(const std::string& path) const;
  // Of the file that the durable directory entry names: what crash(…, policy::drop_all) would find there.
  [[nodiscard]] std::vector<std::byte> durable_bytes(const std::string& path) const;
  // Overwrites bytes of the current and, so far as it reaches, the durable contents. Throws std::out_of_range beyond
  // the current size.
  void poke(const std::string& path, std::uint64_t offset, os::const_bytes from);
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::vector<std::string> durable_names() const;
  // Pending changes of a file: of contents and size; of all directories.
  [[nodiscard]] std::size_t unsynced(const std::string& path) const;
  [[nodiscard]] std::size_t unsynced_names() const;

 private:
  explicit disk(std::shared_ptr<core> made);
  void rename(const std::string& from, const std::string& to, bool replacing);

  std::shared_ptr<core> core_;
};

}  // namespace tenure::sim
