// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The right to look at, and to change, which pages of a memory's automatically tracked regions are open and what their twins
// hold. An automatic transaction has it from begin to the capture of its values; truncation borrows it, without waiting, to
// give pages back; unmapping takes it. What one holder leaves the next finds: the lock of its mutex orders them.
#pragma once

#include <condition_variable>
#include <mutex>

namespace tenure::rvm {

class automatic_right {
 public:
  enum class holder { nobody, transaction, housekeeping };

  // Waits while anybody has it. May be given by another thread.
  void take_for_transaction() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return holder_ == holder::nobody; });
    holder_ = holder::transaction;
  }
  // False if anybody has it.
  [[nodiscard]] bool try_take() {
    const std::scoped_lock lock(mutex_);
    if (holder_ != holder::nobody) return false;
    holder_ = holder::housekeeping;
    return true;
  }
  // False if a transaction has it; waits for others, who are soon done.
  [[nodiscard]] bool take_unless_transaction() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return holder_ != holder::housekeeping; });
    if (holder_ != holder::nobody) return false;
    holder_ = holder::housekeeping;
    return true;
  }
  void give() noexcept {
    {
      const std::scoped_lock lock(mutex_);
      holder_ = holder::nobody;
    }
    free_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  holder holder_ = holder::nobody;
};

}  // namespace tenure::rvm
