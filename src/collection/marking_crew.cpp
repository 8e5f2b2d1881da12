// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/marking_crew.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <string>

#include <tenure/error.hpp>

#include "os/unsynchronized_reads.hpp"

namespace tenure::heap {

namespace {
#ifdef TENURE_SMALL_GEOMETRY
constexpr std::uint64_t at_once = 1;
constexpr std::size_t least_given = 1;
#else
constexpr std::uint64_t at_once = 32;  // some 3 us: a writer that wants in waits for that
constexpr std::size_t least_given = 32;
#endif
constexpr std::size_t most_given = std::min<std::size_t>(grey_objects::capacity / 2, 4096);
}  // namespace

void require_markers(std::uint32_t markers) {
  constexpr std::uint32_t most = 64;
  if (markers == 0 || markers > most)
    throw error(errc::bad_option, "markers is " + std::to_string(markers) + ": from 1 to 64 are possible");
}

marking_crew::marking_crew(marker& of) : of_(of) {
  given_.reserve(most_given);
  threads_.reserve(of_.followers().size() - 1);
  try {
    for (auto each = std::next(of_.followers().begin()); each != of_.followers().end(); ++each)
      threads_.emplace_back([this, &as = *each] {
        help(as);
        os::clear_unused_stack();  // the next thread may get it
      });
  } catch (...) {  // the system has no thread, or no memory for one: with those that there are
  }
}

marking_crew::~marking_crew() {
  {
    const guard lock(mutex_);
    is_ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& each : threads_) each.join();
}

void marking_crew::follow(std::uint64_t most, const std::atomic<std::uint32_t>& is_wanted) {
  marker::follower& mine = of_.followers().front();
  {
    const guard lock(mutex_);
    is_wanted_ = &is_wanted;
    is_stopped_ = false;
    is_open_ = true;
  }
  begun_.notify_all();
  try {
    do work(mine, most);
    while (most != 0 && wait_for_some(mine));
  } catch (...) {
    fail();
  }
  is_stopped_ = true;
  {
    const guard lock(mutex_);
    is_open_ = false;
  }
  while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  const guard lock(mutex_);
  assert(busy_ == 0 && given_.size() <= most_given);
  if (failed_) std::rethrow_exception(failed_);
  take_some(lock, mine);
}

void marking_crew::work(marker::follower& as, std::uint64_t& most) {
  for (; most != 0 && !must_stop(); most -= std::min(most, at_once)) {
    if (hungry_.load(std::memory_order_relaxed) != 0) give_some(as);
    if (as.follow(at_once) != 0) return;
  }
  most = 0;
}

void marking_crew::help(marker::follower& as) {
  guard lock(mutex_);
  for (;;) {
    ++hungry_;
    begun_.wait(lock, [&] { return is_ending_ || (is_open_ && (as.has_grey() || !given_.empty())); });
    --hungry_;
    if (is_ending_) return;
    if (!as.has_grey()) take_some(lock, as);
    ++busy_;
    lock.unlock();
    try {
      [[maybe_unused]] const os::unsynchronized_reads racing;
      std::uint64_t most = ~std::uint64_t{0};
      work(as, most);
    } catch (...) {
      fail();
    }
    lock.lock();
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

void marking_crew::give_some(marker::follower& of) {
  const std::size_t some = std::min(of.grey().size() / 2, most_given);
  if (some < least_given) return;
  {
    const guard lock(mutex_);
    if (!is_open_ || !given_.empty()) return;
    given_.resize(some);
    of.grey().give_first(given_);
  }
  begun_.notify_one();
}

void marking_crew::take_some(const guard&, marker::follower& to) {
  to.take_over(given_);
  os::clear_all_of(given_);
}

// Not asleep, so that it sees when it must stop. Helpers that have many objects give some within microseconds.
bool marking_crew::wait_for_some(marker::follower& to) {
  constexpr int tries = 100;
  ++hungry_;
  for (int n = 0; n < tries && !to.has_grey() && !must_stop(); ++n) {
    {
      const guard lock(mutex_);
      take_some(lock, to);
      if (busy_ == 0) break;
    }
    std::this_thread::yield();
  }
  --hungry_;
  return to.has_grey();
}

void marking_crew::fail() noexcept {
  const guard lock(mutex_);
  if (!failed_) failed_ = std::current_exception();
  is_stopped_ = true;
}

}  // namespace tenure::heap
