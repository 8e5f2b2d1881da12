// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/handles.hpp"

#include "os/process.hpp"

namespace tenure::detail {

namespace {

// No other thread has the lock in the child of a fork, nor is any being stopped there. A fork waits for the end of a stop.
[[maybe_unused]] const int fork_handlers =
    os::around_forks([] { handles::mutex().lock(); }, [] { handles::mutex().unlock(); });

}  // namespace

// Never destroyed: static objects of the program may have handles.
std::mutex& handles::mutex() {
  static std::mutex& it = *new std::mutex;
  return it;
}

handle_base*& handles::first() {
  static handle_base* it = nullptr;
  return it;
}

handle_base::handle_base(void* to) noexcept : to_(to), before_(nullptr) {
  const std::scoped_lock lock(handles::mutex());
  next_ = handles::first();
  if (next_ != nullptr) next_->before_ = this;
  handles::first() = this;
}

handle_base::~handle_base() {
  const std::scoped_lock lock(handles::mutex());
  (before_ != nullptr ? before_->next_ : handles::first()) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

void handle_base::set(void* to) noexcept {
  const std::scoped_lock lock(handles::mutex());
  to_ = to;
}

}  // namespace tenure::detail
