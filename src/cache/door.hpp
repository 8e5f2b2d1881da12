// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where transactions of a cache come in and go out: one that is exclusive, or many that are shared. When nobody who could use
// an unpinned object is inside, objects can be evicted: whoever leaves last does it, if it is due. If it is due, nobody comes in
// before [cache.evict.quiet]. Where there is no memory for it, whoever comes in next tries, and fails with std::bad_alloc.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>
#include <utility>

namespace tenure::cache {

class door {
 public:
  // Called with the door's mutex: whether room must be made; and what makes it.
  door(std::function<bool()> is_crowded, std::function<void()> make_room)
      : is_crowded_(std::move(is_crowded)), make_room_(std::move(make_room)) {}

  void enter_shared() {
    std::unique_lock lock(mutex_);
    is_due_ = is_due_ || is_crowded_();  // pins may have ended meanwhile
    changed_.wait(lock, [&] { return !exclusive_ && waiting_ == 0 && may_enter(); });
    ++shared_;
  }
  void enter_exclusive() {
    std::unique_lock lock(mutex_);
    ++waiting_;  // keeps those that share out
    changed_.wait(lock, [&] { return !exclusive_ && shared_ == 0; });
    --waiting_;
    is_due_ = is_due_ || is_crowded_();
    try {
      (void)may_enter();
    } catch (...) {
      changed_.notify_all();
      throw;
    }
    exclusive_ = true;
  }
  void leave_shared() noexcept {
    const std::scoped_lock lock(mutex_);
    --shared_;
    changed();
  }
  void leave_exclusive() noexcept {
    const std::scoped_lock lock(mutex_);
    exclusive_ = false;
    changed();
  }
  // Whoever is inside uses no unpinned object any more. If room must be made, this waits for all others to rest or leave, too.
  void rest_shared() {
    std::unique_lock lock(mutex_);
    const struct rest {
      std::size_t& all;
      explicit rest(std::size_t& resting) : all(++resting) {}
      ~rest() { --all; }
      rest(const rest&) = delete;
      rest& operator=(const rest&) = delete;
    } resting(resting_);
    changed();
    changed_.wait(lock, [&] { return may_enter(); });
  }
  void rest_exclusive() {
    const std::scoped_lock lock(mutex_);
    if (is_crowded_()) make_room_();
  }
  [[nodiscard]] bool is_empty() const {
    const std::scoped_lock lock(mutex_);
    return !exclusive_ && shared_ == 0;
  }

 private:
  // Makes room if it is due and possible. Whether nothing is due then, or somebody is inside who needs what there is.
  [[nodiscard]] bool may_enter() {
    if (!is_due_) return true;
    if (exclusive_ || shared_ != resting_) return false;
    make_room_();
    is_due_ = false;
    return true;
  }
  void changed() noexcept {
    is_due_ = is_due_ || is_crowded_();
    try {
      (void)may_enter();
    } catch (const std::bad_alloc&) {
    }
    changed_.notify_all();
  }

  const std::function<bool()> is_crowded_;
  const std::function<void()> make_room_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool exclusive_ = false, is_due_ = false;
  std::size_t shared_ = 0, resting_ = 0, waiting_ = 0;
};

}  // namespace tenure::cache
