// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The modification status of a segment's pages [RVM §5.1.2, fig. 7].
//
// The paper's uncommitted reference count is not kept with the page: open transactions list what they have declared
// (page_references), and the rare who wants to know looks through the lists. A count is a locked instruction for every
// page of every transaction: with counts a commit of four ranges in the cache took 250 ns, with lists 235.
//
// The reserved mark is the paper's internal lock: while it is set, set_range waits, so that a private copy can be compared
// and dropped without losing a write [rvm.page.reserved]. Commits that are not yet synced are known by the last batch that
// changes the page; they do not stop truncation as they would have to if pages were written from memory: what truncation
// writes comes from the synced part of the log [rvm.truncation.from-log]. They do keep the page's private copy
// [rvm.page.drop].
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "os/virtual_memory.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

class page_vector {
 public:
  // For a segment of `length` bytes. The table is paged in lazily: its cost is what is used of it.
  explicit page_vector(std::uint64_t length)
      : pages_(round_up(length, redo_page) / redo_page),
        bytes_(static_cast<std::size_t>(round_up(pages_ * sizeof(entry) + 1, os::page_size()))),
        entries_(static_cast<entry*>(os::map_anonymous(nullptr, bytes_))) {}
  ~page_vector() { os::unmap(entries_, bytes_); }
  page_vector(const page_vector&) = delete;
  page_vector& operator=(const page_vector&) = delete;

  [[nodiscard]] std::uint64_t pages() const { return pages_; }

  // Whether memory is known to have a private copy of the page. For who has a reference to it.
  [[nodiscard]] bool is_private(std::uint64_t page) const {
    return entries_[page].is_private.load(std::memory_order_relaxed);
  }
  void note_private(std::uint64_t page) { entries_[page].is_private.store(true, std::memory_order_relaxed); }

  // Waits while the page is reserved. After a reference was listed, and a light fence: then it will not be reserved again
  // until the reference goes. Reservations last for a comparison of some pages and a system call.
  void wait_until_released(std::uint64_t page) const {
    while (entries_[page].reserved.load(std::memory_order_acquire)) [[unlikely]] std::this_thread::yield();
  }
  // By one thread at a time. Between the two, a heavy fence and a look at the lists and at last_batch() tell whether the
  // page is its own.
  void reserve(std::uint64_t page) { entries_[page].reserved.store(true, std::memory_order_seq_cst); }
  void release(std::uint64_t page) { entries_[page].reserved.store(false, std::memory_order_release); }
  // The private copy is gone; the page is still reserved.
  void note_dropped(std::uint64_t page) { entries_[page].is_private.store(false, std::memory_order_relaxed); }

  // A commit in this batch changes the page. Returns whether it is the first one. With the commit lock held; before the
  // transaction's reference goes.
  bool note_commit(std::uint64_t page, std::uint64_t batch) {
    auto& last = entries_[page].last_batch;
    if (last.load(std::memory_order_relaxed) == batch) return false;
    last.store(batch, std::memory_order_release);
    return true;
  }
  // 0: none yet.
  [[nodiscard]] std::uint64_t last_batch(std::uint64_t page) const {
    return entries_[page].last_batch.load(std::memory_order_acquire);
  }

  // The LSN of the batch that made the page dirty: committed and synced, but not in the segment. 0: clean. Guarded by the
  // page queue's mutex.
  [[nodiscard]] std::uint64_t& dirty_since(std::uint64_t page) { return entries_[page].dirty_since; }

 private:
  struct entry {
    std::atomic<std::uint64_t> last_batch;
    std::uint64_t dirty_since;
    std::atomic<bool> reserved, is_private;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

  std::uint64_t pages_;
  std::size_t bytes_;
  entry* entries_;
};

}  // namespace tenure::rvm
