// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The right to read and to change which pages of a memory's automatically tracked regions are open, and their before-images.
// An automatic transaction has it from begin until its values are captured. Truncation borrows it, without waiting, to give
// pages back. Unmapping takes it. The lock of its mutex orders what one holder does before what the next one does.
#pragma once

#include <condition_variable>
#include <mutex>

namespace tenure::rvm {

class automatic_right {
 public:
  enum class holder { nobody, transaction, housekeeping };

  // Waits while it has a holder. Another thread may give it back.
  void take_for_transaction() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return holder_ == holder::nobody; });
    holder_ = holder::transaction;
  }
  // False if it has a holder.
  [[nodiscard]] bool try_take() {
    const std::scoped_lock lock(mutex_);
    if (holder_ != holder::nobody) return false;
    holder_ = holder::housekeeping;
    return true;
  }
  // False if a transaction has it. Waits while truncation or unmapping has it, which is short.
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
