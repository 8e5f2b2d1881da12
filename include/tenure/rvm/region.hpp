// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Parts of segments in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include <tenure/error.hpp>
#include <tenure/rvm/map_options.hpp>

namespace tenure::rvm {

class change_filter;
struct region_state;
class region_tracker;

#pragma GCC visibility push(default)  // libtenure.so exports it

class memory;
class transaction;

// A part of a segment in memory. Moves; unmaps when destroyed unless it has uncommitted transactions, in which case it
// stays mapped until the memory is closed. If there is no memory for that, the next region that is mapped tries again.
class region {
 public:
  region() = default;
  ~region();
  region(region&&) noexcept = default;
  region& operator=(region&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept;
  // Bytes that can be used. Grows with the segment if the region was mapped with map_options::reserve.
  [[nodiscard]] std::size_t size() const noexcept;
  // What size() can become: address space that is the region's own.
  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] const std::string& segment_path() const;
  [[nodiscard]] std::uint64_t offset() const noexcept;  // of data() in the segment
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

  // Reads the first `length` bytes from the disk in a thread of its own, for a program that will soon want most of them.
  // Returns at once. If that is more than a quarter of the memory that the process may use, or without options::background,
  // or for 0 bytes, it only ends map_options::sparse. Does nothing the second time.
  // Pages of a region with more bytes than half of that memory are read one by one; with options::background, a thread reads
  // those that follow while the program reads one after the other [rvm.region.streams].
  void read_ahead(std::size_t length);

  // The object of type T that is stored at `offset` bytes from data(). T must mean something without its constructor.
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    check_range(offset, sizeof(T));
    return *reinterpret_cast<T*>(data() + offset);
  }
  template <class T>
  [[nodiscard]] std::span<T> array(std::size_t offset, std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    check_range(offset, count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T));
    return {reinterpret_cast<T*>(data() + offset), count};
  }

  // Gives memory back to the kernel where it holds the same as the segment's file: anonymous memory (fresh_space, copy_in)
  // is replaced by the file's pages, private copies of these are dropped. For [offset, offset+length) of the region,
  // multiples of the page size. Pages with changes that are not in the segment yet, or declared by an open transaction,
  // stay as they are: truncate() first. Nobody may write there undeclared meanwhile. Returns the bytes in the range that
  // the file backs now. Replacing costs the kernel a mapping where file and anonymous memory meet (vm.max_map_count), so
  // memory is replaced in pieces of 2 MiB, aligned in the region (at its ends and those of the range less), or not at all.
  // errc::wrong_tracking for a region that is tracked automatically: it gives memory back by itself.
  std::size_t back_with_file(std::size_t offset, std::size_t length);

  // Makes sure that the segment has disk space for these bytes, which transaction::clear() may have taken away. Durable on
  // return: what is committed there later cannot stop truncation with a full disk. Any thread. Does nothing in a memory
  // that was opened for reading only.
  void allocate(std::size_t offset, std::size_t length);

  // Writes committed changes to the segment and unmaps. Throws errc::region_busy, and changes nothing, while a
  // transaction has uncommitted ranges in it [RVM §4.1].
  void unmap();

  // --- For layers above (participant.hpp) ---
  //
  // On automatically tracked regions (errc::wrong_tracking on others). Nothing is tracked in a memory that
  // was opened for reading only: the last two do nothing there.
  //
  // Makes whole pages writable and leaves them out of tracking: memory for new objects. What is on them is not recoverable
  // until a participant's set_range logs bytes of a page in a commit; then the page is tracked. The pages must hold nothing
  // that is committed and still wanted. Any thread, inside and outside of transactions.
  void open_untracked(void* address, std::size_t length);
  [[nodiscard]] bool is_open_untracked(const void* address) const;
  // Holds until the region is unmapped; nullptr: everything is recoverable. Set it before the region is used.
  void set_change_filter(change_filter* filter);
  // No filter is asked any more, also if the region stays mapped. Outside of transactions, or when the memory was closed.
  void end_change_filter() noexcept;

 private:
  friend class memory;
  friend class transaction;
  explicit region(std::shared_ptr<region_state> state);
  void check_range(std::size_t offset, std::size_t length) const;
  [[nodiscard]] region_tracker& tracker(const void* from, std::size_t length) const;
  std::shared_ptr<region_state> state_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
