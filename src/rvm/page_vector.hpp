// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The modification status of a segment's pages [RVM §5.1.2, fig. 7].
//
// An entry's uncommitted count is the number of ranges declared on the page by transactions that are still open. Commits
// that are not yet synced are counted apart, and do not stop truncation as they would have to if pages were written from
// memory: what truncation writes comes from the synced part of the log [rvm.truncation.from-log]. They do keep the page's
// private copy [rvm.page.drop]. The reserved bit is the paper's internal lock: while it is set, set_range waits, so that a
// private copy can be compared and dropped without losing a write [rvm.page.reserved].
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <thread>

#include "os/virtual_memory.hpp"
#include "rvm/format.hpp"

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

  // A range on the page was declared. Waits while the page is reserved. Returns whether memory is known to have a private
  // copy of the page.
  bool add_reference(std::uint64_t page) {
    auto& state = entries_[page].state;
    // The count goes up first: from here on the page cannot be reserved any more.
    const std::uint64_t before = state.fetch_add(1, std::memory_order_acquire);
    if (before & reserved_bit) return wait_until_released(state);
    return before & private_bit;
  }
  void note_private(std::uint64_t page) { entries_[page].state.fetch_or(private_bit, std::memory_order_relaxed); }
  // The transaction that declared it has ended without a change.
  void drop_reference(std::uint64_t page) {
    const auto before = entries_[page].state.fetch_sub(1, std::memory_order_release);
    assert((before & references) != 0);
    (void)before;
  }
  // The transaction that declared it is in a batch now: the reference becomes an unsynced commit.
  void commit_reference(std::uint64_t page) {
    entries_[page].state.fetch_add(one_unsynced - 1, std::memory_order_release);
  }
  // That batch is durable.
  void settle(std::uint64_t page) { entries_[page].state.fetch_sub(one_unsynced, std::memory_order_release); }

  [[nodiscard]] bool is_referenced(std::uint64_t page) const {
    return (entries_[page].state.load(std::memory_order_acquire) & references) != 0;
  }
  // Succeeds if nothing uncommitted and nothing unsynced is on the page.
  [[nodiscard]] bool try_reserve(std::uint64_t page) {
    auto& state = entries_[page].state;
    std::uint64_t expected = state.load(std::memory_order_relaxed) & private_bit;
    return state.compare_exchange_strong(expected, expected | reserved_bit, std::memory_order_acq_rel);
  }
  void release(std::uint64_t page) { entries_[page].state.fetch_and(~reserved_bit, std::memory_order_release); }
  // The private copy is gone.
  void release_dropped(std::uint64_t page) {
    entries_[page].state.fetch_and(~(reserved_bit | private_bit), std::memory_order_release);
  }

  // The LSN of the batch that made the page dirty: committed and synced, but not in the segment. 0: clean. Guarded by the
  // page queue's mutex.
  [[nodiscard]] std::uint64_t& dirty_since(std::uint64_t page) { return entries_[page].dirty_since; }

 private:
  // The state's parts, from the lowest bit: open transactions' references, whether there is a private copy, the reserved
  // bit, unsynced commits' references.
  static constexpr std::uint64_t private_bit = std::uint64_t{1} << 30, reserved_bit = private_bit << 1,
                                 references = private_bit - 1, one_unsynced = reserved_bit << 1;
  struct entry {
    std::atomic<std::uint64_t> state;
    std::uint64_t dirty_since;
  };
  static_assert(sizeof(entry) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

  // Reservations last for a comparison of a page and a system call.
  static bool wait_until_released(const std::atomic<std::uint64_t>& state) {
    std::uint64_t now;
    while ((now = state.load(std::memory_order_acquire)) & reserved_bit) std::this_thread::yield();
    return now & private_bit;
  }

  std::uint64_t pages_;
  std::size_t bytes_;
  entry* entries_;
};

}  // namespace tenure::rvm
