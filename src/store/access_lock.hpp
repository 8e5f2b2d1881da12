// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Lets one writer or many readers in, by thread. A waiting writer keeps new readers out. When a writer leaves, the
// waiting readers go before the next writer. So neither can starve the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <tenure/error.hpp>

namespace tenure::heap {

class access_lock {
 public:
  // Both throw errc::bad_transaction where waiting would never end: if a thread that reads wants to write.
  void lock_exclusive();
  void unlock_exclusive() noexcept;
  // From now on lock_exclusive() throws errc::closed in this thread instead of waiting. {}: in none.
  void turn_away(std::thread::id who) noexcept;
  // A thread that reads or writes already gets the lock at once.
  void lock_shared();
  void unlock_shared() noexcept;

  // Whether the calling thread is the writer.
  [[nodiscard]] bool is_writer() const noexcept {
    return writer_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  [[nodiscard]] bool is_reader() const noexcept;
  // This thread goes before other writers from now on. A writer that begins again at once would never let it in: it has the lock
  // before a thread that waits is awake.
  void prefer_this_thread() noexcept { preferred_ = std::this_thread::get_id(); }
  // Whether any thread has the lock.
  [[nodiscard]] bool in_use();
  // Throws if an invariant does not hold.
  void check() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable readers_may_enter_, writer_may_enter_;
  std::atomic<std::thread::id> writer_{};
  std::thread::id turned_away_{};
  void notify_writers() noexcept;

  std::atomic<std::thread::id> preferred_{};
  bool preferred_waits_ = false;
  std::size_t readers_ = 0, waiting_readers_ = 0, waiting_writers_ = 0;
  std::size_t admitted_ = 0;  // number of waiting readers that go before the next writer
};

// Of a collection: no transaction is open.
class exclusive_access {
 public:
  explicit exclusive_access(access_lock& of) : of_(of) {
    if (of_.is_writer())
      throw error(errc::bad_transaction, "a callback of a collection has left a transaction open: end it there");
    of_.lock_exclusive();
  }
  ~exclusive_access() { of_.unlock_exclusive(); }
  exclusive_access(const exclusive_access&) = delete;
  exclusive_access& operator=(const exclusive_access&) = delete;

 private:
  access_lock& of_;
};

}  // namespace tenure::heap
