// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The pages on which an open transaction has declared ranges: its uncommitted references [RVM §5.1.2]. The transaction's
// thread adds to the list with plain stores; others may look through it at any time. Who looks sees every reference that
// was listed before its heavy fence and is still there [rvm.page.reserved].
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "rvm/batch.hpp"

namespace tenure::rvm {

class page_references {
 public:
  // For the transaction's thread. `readers` is the lock under which others look.
  void add(page_ref page, std::mutex& readers) {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size == capacity_) grow(readers);
    // Somebody may be reading what the place held before: of the two words he sees one of each, at worst, and takes a page
    // for referenced that is not.
    std::atomic_ref(pages_[size].in).store(page.in, std::memory_order_release);
    std::atomic_ref(pages_[size].page).store(page.page, std::memory_order_release);
    size_.store(size + 1, std::memory_order_release);
  }
  void clear(std::mutex& readers) {
    size_.store(0, std::memory_order_release);
    if (capacity_ > most_kept) {
      const std::scoped_lock lock(readers);
      pages_.reset();
      capacity_ = 0;
    }
  }
  [[nodiscard]] std::span<const page_ref> all() const { return {pages_.get(), size_.load(std::memory_order_relaxed)}; }

  // For any thread that holds `readers`.
  void append_to(std::vector<page_ref>& pages) const {
    const std::size_t size = size_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < size; ++i)
      pages.push_back({std::atomic_ref(pages_[i].in).load(std::memory_order_acquire),
                       std::atomic_ref(pages_[i].page).load(std::memory_order_acquire)});
  }

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 16;

  void grow(std::mutex& readers) {
    const std::size_t capacity = std::max<std::size_t>(16, 2 * capacity_);
    auto larger = std::make_unique<page_ref[]>(capacity);
    std::copy_n(pages_.get(), capacity_, larger.get());
    const std::scoped_lock lock(readers);
    pages_.swap(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<page_ref[]> pages_;
  std::size_t capacity_ = 0;
  std::atomic<std::size_t> size_{0};
};

// A set of pages, to be asked many times.
class page_set {
 public:
  explicit page_set(std::vector<page_ref> pages) : sorted_(std::move(pages)) { std::ranges::sort(sorted_, before); }
  [[nodiscard]] bool contains(const page_ref& page) const { return std::ranges::binary_search(sorted_, page, before); }

 private:
  static bool before(const page_ref& a, const page_ref& b) {
    return a.page != b.page ? a.page < b.page : std::less<>{}(a.in, b.in);
  }
  std::vector<page_ref> sorted_;
};

}  // namespace tenure::rvm
