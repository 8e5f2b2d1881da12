// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The pages of an automatically tracked region: what is known of each, and the list of those that were opened. The table
// is paged in lazily: only what is used of it costs memory. The fault handler uses it, so nothing here takes a lock, and only
// opened_pages::take() allocates.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <tenure/rvm/map_options.hpp>

#include "os/virtual_memory.hpp"
#include "regions/cards.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

// A page of the host, by its number in the region.
using page_number = std::uint32_t;

struct tracked_page {
  // Writable, and in some list, or untracked; otherwise read-only. Changed with the protection lock, and only while the
  // region is not open as a whole.
  std::atomic<bool> open;
  std::atomic<bool> untracked;
  std::atomic<bool> listed;          // in opened_pages
  std::atomic<std::uint32_t> next;   // there
  std::atomic<std::uint64_t> cards;  // with barriers: of its first 64 cards, those with announced stores
  // The rest belongs to the holder of the automatic right.
  bool hot;                    // stays open between transactions
  bool resting, in_resting;    // resting_pages: open, and not listed; in its list
  bool marked;                 // for a moment, there
  std::uint8_t idle;           // commits since it was changed, while it is hot
  std::uint32_t before_image;  // its number in the before_image_store, or none
  std::uint32_t last_changed;  // by which automatic transaction; 0: none
};

// Guards the protection of a region's pages. It is held for a system call or a few, by the fault handler too. So its holder
// must not write to a closed page, and a thread that waits for it spins.
class protection_lock {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  [[nodiscard]] bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};
using protection_guard = std::unique_lock<protection_lock>;

// A table of zeros, `count` long, or empty.
template <class T>
class lazy_table {
 public:
  explicit lazy_table(std::uint64_t count)
      : bytes_(static_cast<std::size_t>(round_up(count * sizeof(T), os::page_size()))),
        all_(bytes_ == 0 ? nullptr : static_cast<T*>(os::map_anonymous(nullptr, bytes_))) {}
  ~lazy_table() { release(); }
  lazy_table(const lazy_table&) = delete;
  lazy_table& operator=(const lazy_table&) = delete;
  void release() noexcept {
    os::unmap(all_, bytes_);
    all_ = nullptr;
  }
  [[nodiscard]] T& operator[](std::uint64_t index) const noexcept { return all_[index]; }

 private:
  std::size_t bytes_;
  T* all_;
};

// Pages that were opened and are to be compared, linked through the table. Any thread adds, lock-free.
class opened_pages {
 public:
  explicit opened_pages(const lazy_table<tracked_page>& pages) : pages_(pages) {}

  void add(page_number page) noexcept {
    if (pages_[page].listed.exchange(true, std::memory_order_acquire)) return;
    std::uint32_t first = first_.load(std::memory_order_relaxed);
    do pages_[page].next.store(first, std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(first, page + 1, std::memory_order_release, std::memory_order_relaxed));
  }
  // Moves all that were added so far to the end of `list`. By the holder of the automatic right.
  void take(std::vector<page_number>& list) {
    std::uint32_t left = first_.exchange(0, std::memory_order_acquire);
    const auto unlink = [&] {
      tracked_page& page = pages_[left - 1];
      const page_number number = left - 1;
      left = page.next.load(std::memory_order_relaxed);
      page.listed.store(false, std::memory_order_release);
      return number;
    };
    try {
      while (left != 0) {
        if (list.size() == list.capacity()) list.reserve(2 * list.size() + 16);
        list.push_back(unlink());
      }
    } catch (...) {
      while (left != 0) add(unlink());
      throw;
    }
  }

 private:
  const lazy_table<tracked_page>& pages_;
  std::atomic<std::uint32_t> first_{0};  // the page's number plus 1; 0: none
};

// What the parts of a tracker share.
struct tracked_pages {
  tracked_pages(std::byte* at, std::size_t length, std::size_t capacity, std::size_t card_size = card_layout::usual)
      : base(at),
        cards(page_size, card_size),
        count(length / page_size),
        table(capacity / page_size),
        more_cards(capacity / page_size * (cards.words() - 1)) {}

  [[nodiscard]] page_number page_of(const std::byte* at) const noexcept {
    return static_cast<page_number>(static_cast<std::size_t>(at - base) >> page_shift);
  }
  [[nodiscard]] memory_range range_of(page_number page, std::uint64_t pages = 1) const noexcept {
    return {base + page * page_size, static_cast<std::size_t>(pages) * page_size};
  }
  // With barriers: those of a word of the page's cards with announced stores.
  [[nodiscard]] std::atomic<std::uint64_t>& announced_cards(page_number page, std::size_t word) const noexcept {
    return word == 0 ? table[page].cards : more_cards[page * (cards.words() - 1) + word - 1];
  }
  [[nodiscard]] memory_range all() const noexcept { return range_of(0, count); }
  [[nodiscard]] tracked_page& operator[](page_number page) const noexcept { return table[page]; }

  std::byte* const base;
  const std::size_t page_size = os::page_size();
  const int page_shift = std::countr_zero(page_size);  // an announced store would divide five times
  const card_layout cards;
  std::atomic<std::uint64_t> count;                   // grows
  lazy_table<tracked_page> table;                     // for all that the region can become
  lazy_table<std::atomic<std::uint64_t>> more_cards;  // of each page, if there are more than 64
  opened_pages opened{table};
  std::atomic<std::uint64_t> untracked{0};      // pages
  std::atomic<std::uint64_t> before_images{0};  // pages that have one
  mutable protection_lock protection;
};

}  // namespace tenure::rvm
