// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The pages on which an open transaction has declared ranges: its uncommitted references [RVM §5.1.2]. The
// transaction's thread adds to the list with plain stores. Other threads may read the list at any time. After a heavy
// fence, a reader sees every reference that was listed before the fence and was not removed since [rvm.page.reserved].
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "records/batch.hpp"

namespace tenure::rvm {

// A set of pages that is searched many times.
class page_set {
 public:
  using run = std::shared_ptr<const std::vector<page_ref>>;  // sorted, never changed

  explicit page_set(std::vector<page_ref> pages = {}) : few_(std::move(pages)) { sort(); }
  void add(page_ref page) { few_.push_back(page); }
  void add(run pages) { many_.push_back(std::move(pages)); }
  // Called once all pages are added.
  void sort() { std::ranges::sort(few_, before); }

  [[nodiscard]] bool contains(const page_ref& page) const {
    return std::ranges::binary_search(few_, page, before) ||
           std::ranges::any_of(many_, [&](const run& r) { return std::ranges::binary_search(*r, page, before); });
  }
  [[nodiscard]] bool empty() const { return few_.empty() && many_.empty(); }

  static bool before(const page_ref& a, const page_ref& b) {
    return a.page != b.page ? a.page < b.page : std::less<>{}(a.in, b.in);
  }

 private:
  std::vector<page_ref> few_;
  std::vector<run> many_;
};

class page_references {
 public:
  // Called by the transaction's thread. `readers` is the lock that other threads hold while they read.
  void add(page_ref page, std::mutex& readers) {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size == capacity_) grow(readers);
    // Another thread may be reading the old contents of this place. At worst it sees one word of each page, and takes a
    // page for referenced that is not.
    std::atomic_ref(pages_[size].in).store(page.in, std::memory_order_release);
    std::atomic_ref(pages_[size].page).store(page.page, std::memory_order_release);
    size_.store(size + 1, std::memory_order_release);
  }
  void clear(std::mutex& readers) {
    // Done before places are used again, so that a thread that has sorted their old contents notices.
    generation_.store(generation_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    size_.store(0, std::memory_order_release);
    if (capacity_ > most_kept) {
      const std::scoped_lock lock(readers);
      pages_.reset();
      sorted_.clear();
      capacity_ = sorted_size_ = 0;
    }
  }
  [[nodiscard]] std::span<const page_ref> all() const { return {pages_.get(), size_.load(std::memory_order_relaxed)}; }

  // May be called by any thread that holds `readers`. Adds the listed pages to a set. If the list is long, only what
  // was listed since the last call is read and sorted: truncation calls this for every few pages that it drops, while
  // these pages are reserved. Returns how many pages that were.
  std::size_t add_to(page_set& set) {
    const std::uint64_t generation = generation_.load(std::memory_order_acquire);
    const std::size_t size = size_.load(std::memory_order_acquire);
    if (size <= few) {
      for (std::size_t i = 0; i < size; ++i) set.add(at(i));
      return size;
    }
    if (sorted_generation_ != generation || sorted_size_ > size) {
      sorted_.clear();
      sorted_size_ = 0;
      sorted_generation_ = generation;
    }
    std::vector<page_ref> fresh;
    fresh.reserve(size - sorted_size_);
    for (std::size_t i = sorted_size_; i < size; ++i) fresh.push_back(at(i));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (generation_.load(std::memory_order_relaxed) != generation) {
      // The list was cleared meanwhile: what was read may be of both generations, and nothing that was sorted before
      // counts.
      for (std::size_t i = 0; i < size; ++i) set.add(at(i));
      return size;
    }
    const std::size_t read = fresh.size();
    if (read != 0) remember(std::move(fresh));
    sorted_size_ = size;
    for (const page_set::run& r : sorted_) set.add(r);
    return read;
  }

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 16, few = 512;

  [[nodiscard]] page_ref at(std::size_t place) const {
    return {std::atomic_ref(pages_[place].in).load(std::memory_order_acquire),
            std::atomic_ref(pages_[place].page).load(std::memory_order_acquire)};
  }
  // Merges runs of about the same length, so that there are few runs and each page is moved few times.
  void remember(std::vector<page_ref> fresh) {
    const auto same = [](const page_ref& a, const page_ref& b) { return a.page == b.page && a.in == b.in; };
    std::ranges::sort(fresh, page_set::before);
    fresh.erase(std::unique(fresh.begin(), fresh.end(), same), fresh.end());
    sorted_.reserve(sorted_.size() + 1);
    std::size_t runs = sorted_.size();
    while (runs != 0 && sorted_[runs - 1]->size() < 2 * fresh.size()) {
      std::vector<page_ref> both;
      both.reserve(sorted_[runs - 1]->size() + fresh.size());
      std::ranges::set_union(*sorted_[runs - 1], fresh, std::back_inserter(both), page_set::before);
      fresh = std::move(both);
      --runs;
    }
    auto last = std::make_shared<const std::vector<page_ref>>(std::move(fresh));
    sorted_.resize(runs);
    sorted_.push_back(std::move(last));
  }

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
  std::atomic<std::uint64_t> generation_{0};  // of what is listed: since clear()
  // Guarded by `readers`: the first pages of a generation, in sorted runs, longest first.
  std::vector<page_set::run> sorted_;
  std::size_t sorted_size_ = 0;
  std::uint64_t sorted_generation_ = 0;
};

}  // namespace tenure::rvm
