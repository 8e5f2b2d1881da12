// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/access_lock.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include <tenure/error.hpp>

#include "log/invariant.hpp"

namespace tenure::heap {

namespace {

// The access locks that this thread has for reading, one entry for each time.
struct entry {
  const access_lock* access;
  bool counted;  // false: the thread was the writer
};
thread_local std::vector<entry> readings;

}  // namespace

bool access_lock::is_reader() const noexcept {
  return std::ranges::any_of(readings, [&](const entry& e) { return e.access == this && e.counted; });
}

bool access_lock::in_use() {
  const std::scoped_lock lock(mutex_);
  return readers_ != 0 || writer_.load() != std::thread::id();
}

void access_lock::lock_exclusive() {
  if (is_reader())
    throw error(
        errc::bad_transaction,
        "a thread that has a read transaction cannot begin a write transaction: end the read transaction first, "
        "and read again in the write transaction what you decide upon");
  std::unique_lock lock(mutex_);
  const bool is_preferred = preferred_.load() == std::this_thread::get_id();
  if (is_preferred) preferred_waits_ = true;
  ++waiting_writers_;
  const auto may_enter = [&] {
    return readers_ == 0 && admitted_ == 0 && writer_.load() == std::thread::id() &&
           (is_preferred || !preferred_waits_);
  };
  writer_may_enter_.wait(lock, [&] { return may_enter() || turned_away_ == std::this_thread::get_id(); });
  --waiting_writers_;
  if (is_preferred) preferred_waits_ = false;
  if (!may_enter()) {  // others may have waited for this one
    readers_may_enter_.notify_all();
    writer_may_enter_.notify_all();
    throw error(errc::closed, "the store is being closed; the collection has ended");
  }
  writer_ = std::this_thread::get_id();
}

void access_lock::turn_away(std::thread::id who) noexcept {
  const std::scoped_lock lock(mutex_);
  turned_away_ = who;
  writer_may_enter_.notify_all();
}

void access_lock::unlock_exclusive() noexcept {
  assert(is_writer());
  const std::scoped_lock lock(mutex_);
  writer_ = std::thread::id();
  admitted_ = waiting_readers_;
  readers_may_enter_.notify_all();
  if (admitted_ == 0) notify_writers();
}

// One of them, or all, if only a certain one may enter.
void access_lock::notify_writers() noexcept {
  if (preferred_waits_)
    writer_may_enter_.notify_all();
  else
    writer_may_enter_.notify_one();
}

void access_lock::lock_shared() {
  const bool counted = !is_writer();
  readings.push_back({this, counted});
  if (!counted) return;
  std::unique_lock lock(mutex_);
  const auto others = std::ranges::count_if(readings, [&](const entry& e) { return e.access == this && e.counted; });
  if (others == 1) {  // a thread that reads already must not wait for a writer that waits for it
    ++waiting_readers_;
    readers_may_enter_.wait(
        lock, [&] { return writer_.load() == std::thread::id() && (waiting_writers_ == 0 || admitted_ > 0); });
    --waiting_readers_;
    if (admitted_ > 0) --admitted_;
  }
  ++readers_;
}

void access_lock::unlock_shared() noexcept {
  const auto last = std::find_if(readings.rbegin(), readings.rend(), [&](const entry& e) { return e.access == this; });
  assert(last != readings.rend());
  const bool counted = last->counted;
  readings.erase(std::next(last).base());
  if (!counted) return;
  const std::scoped_lock lock(mutex_);
  assert(readers_ != 0);
  if (--readers_ == 0) notify_writers();
}

void access_lock::check() const {
  const std::scoped_lock lock(mutex_);
  const bool has_writer = writer_.load() != std::thread::id();
  rvm::require_invariant(!has_writer || readers_ == 0, "one writer or many readers have the access lock");
  rvm::require_invariant(!has_writer || admitted_ == 0, "readers that were admitted go before the next writer");
  rvm::require_invariant(admitted_ <= waiting_readers_, "only readers that wait are admitted");
}

}  // namespace tenure::heap
