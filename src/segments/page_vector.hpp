// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The state of a segment's pages with regard to modification [RVM §5.1.2, fig. 7].
//
// The paper keeps an uncommitted reference count with each page. Here, open transactions list the pages on which they
// have declared ranges (page_references), and truncation, which rarely needs the answer, searches the lists. A count
// would cost a locked instruction for every page of every transaction: with counts a commit of four ranges in the cache
// took 250 ns, with lists 235.
//
// The reserved mark is the paper's internal lock. While it is set, set_range waits, so that truncation can compare a
// private copy and drop it without losing a write [rvm.page.reserved]. Each page also has the number of the last batch
// that changes it, which tells whether it has commits that are not synced yet. Such commits would stop truncation if it
// wrote pages from memory. They do not, because it writes only what the synced part of the log has
// [rvm.truncation.from-log]. But they keep the page's private copy from being dropped [rvm.page.drop].
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <thread>

#include "os/virtual_memory.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

class page_vector {
 public:
  // For a segment of `length` bytes. The kernel allocates the table lazily: only the used part of it costs memory.
  explicit page_vector(std::uint64_t length)
      : pages_(round_up(length, redo_page) / redo_page),
        bytes_(static_cast<std::size_t>(round_up(pages_ * sizeof(entry) + 1, os::page_size()))),
        entries_(static_cast<entry*>(os::map_anonymous(nullptr, bytes_))) {}
  ~page_vector() { os::unmap(entries_, bytes_); }
  page_vector(const page_vector&) = delete;
  page_vector& operator=(const page_vector&) = delete;

  [[nodiscard]] std::uint64_t pages() const { return pages_; }

  // Whether memory is known to have a private copy of the page. The caller has a reference to the page.
  [[nodiscard]] bool is_private(std::uint64_t page) const {
    return entries_[page].is_private.load(std::memory_order_relaxed);
  }
  void note_private(std::uint64_t page) { entries_[page].is_private.store(true, std::memory_order_relaxed); }

  // Waits while the page is reserved. The caller has listed its reference and made a light fence before. The page will
  // not be reserved again until the reference is removed. A reservation lasts for the comparison of some pages and one
  // system call.
  void wait_until_released(std::uint64_t page) const {
    while (entries_[page].reserved.load(std::memory_order_acquire)) [[unlikely]] std::this_thread::yield();
  }
  // One thread at a time reserves pages. After reserve(), and before it drops the page, it makes a heavy fence and
  // looks at the transactions' lists and at last_batch(): they tell whether anybody else uses the page.
  void reserve(std::uint64_t page) { entries_[page].reserved.store(true, std::memory_order_seq_cst); }
  void release(std::uint64_t page) { entries_[page].reserved.store(false, std::memory_order_release); }
  // The private copy is gone. The page is still reserved.
  void note_dropped(std::uint64_t page) { entries_[page].is_private.store(false, std::memory_order_relaxed); }

  // A commit in this batch changes the page. Returns whether it is the batch's first commit to do so. Called with the
  // commit lock held, before the transaction's reference is removed.
  bool note_commit(std::uint64_t page, std::uint64_t batch) {
    assert(page < pages_);
    auto& last = entries_[page].last_batch;
    if (last.load(std::memory_order_relaxed) == batch) return false;
    last.store(batch, std::memory_order_release);
    return true;
  }
  // The last batch that changes the page. 0: none yet.
  [[nodiscard]] std::uint64_t last_batch(std::uint64_t page) const {
    assert(page < pages_);
    return entries_[page].last_batch.load(std::memory_order_acquire);
  }

  // The LSN of the batch that made the page dirty; 0: the page is clean. Dirty means that the page has changes which
  // are committed and synced, but not in the segment. Guarded by the page queue's mutex.
  [[nodiscard]] std::uint64_t& dirty_since(std::uint64_t page) {
    assert(page < pages_);
    return entries_[page].dirty_since;
  }

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
