// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archiver.hpp"

#include <cassert>
#include <utility>

#include "os/cleared_memory.hpp"
#include "os/thread.hpp"

namespace tenure::rvm {

archiver::archiver(archive_writer& to, const readable_log& log, bool background)
    : to_(to), log_(log), is_running_(background) {
  if (background)
    thread_ = os::begin_thread<std::jthread>("archives the log " + log.path(),
                                             [this](const std::stop_token& stop) { run(stop); });
}

void archiver::stop() noexcept {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void archiver::begin(lsn from, lsn to) noexcept {
  assert(from <= to);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return from_ == until_; });  // what was begun for a truncation that has failed
    failure_ = nullptr;
    if (!is_running_) return;
    from_ = from, until_ = to;
  }
  changed_.notify_all();
}

void archiver::finish(lsn from, lsn to) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return from_ == until_; });
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  to_.append(log_, from, to);
}

void archiver::run(const std::stop_token& stop) noexcept {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return from_ != until_; })) {
    lock.unlock();
    std::exception_ptr failure;
    try {
      to_.append(log_, from_, until_);
    } catch (...) {
      failure = std::current_exception();
    }
    os::clear_unused_stack();
    lock.lock();
    failure_ = failure;
    from_ = until_;
    changed_.notify_all();
  }
  is_running_ = false;  // what is asked for from now on would never be done
}

}  // namespace tenure::rvm
