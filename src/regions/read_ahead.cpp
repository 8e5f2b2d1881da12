// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/read_ahead.hpp"

#include <algorithm>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "os/virtual_memory.hpp"
#include "regions/read_streams.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

void ahead_reader::start(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step) {
  begin([this, &in, offset, base, length, step] { read(in, offset, base, length, step); });
}

void ahead_reader::follow(segment& in, std::uint64_t offset, const std::byte* base,
                          const std::atomic<std::size_t>& length) {
  begin([this, &in, offset, base, &length] { run_streams(in, offset, base, length); });
}

template <class F>
void ahead_reader::begin(F f) {
  try {
    thread_ = std::thread([f = std::move(f)] {
      try {
        f();
      } catch (const std::bad_alloc&) {  // no more is read in advance
      }
    });
  } catch (const std::system_error&) {  // pages are read when they are touched
  } catch (const std::bad_alloc&) {     // as well: whoever begins to use the memory has taken locks
  }
}

void ahead_reader::end() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ahead_reader::read(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step) {
  const auto ask = [&](std::size_t from, std::size_t to) {
    to = std::min(to, length);
    if (from < to) in.read_ahead(offset + from, to - from);
  };
  const std::size_t ahead = 4 * step;  // what the disk is asked for beyond what is read
  ask(0, ahead);
  for (std::size_t at = 0; at < length && !stop_; at += step) {
    ask(at + ahead, at + ahead + step);
    os::populate(base + at, std::min(step, length - at));
  }
}

// Looking costs 3 ns for a page that is mapped, 36 to 60 for one that is not. So it is done only while the program waits
// for pages, and less often if it reads here and there. A process that reads nothing is looked at ten times a second.
void ahead_reader::run_streams(segment& in, std::uint64_t offset, const std::byte* base,
                               const std::atomic<std::size_t>& length) {
  using std::chrono::milliseconds;
  constexpr milliseconds following{1}, least_pause{10}, longest_pause{100};
  constexpr std::uint64_t few = 16;  // pages
  const std::uint64_t page = os::page_size();
  read_streams streams(
      [&](std::int64_t first, std::span<unsigned char> into) {
        return os::look_for_pages(base + static_cast<std::uint64_t>(first) * page, into);
      },
      [&](std::int64_t first, std::int64_t count) {
        in.read_ahead(offset + static_cast<std::uint64_t>(first) * page, static_cast<std::uint64_t>(count) * page);
      });
  milliseconds pause = least_pause;
  std::uint64_t waited = os::pages_waited_for();
  for (auto next = std::chrono::steady_clock::now(); !wait(streams.is_empty() ? pause : following);) {
    streams.follow();
    const auto now = std::chrono::steady_clock::now();
    if (now < next) continue;
    next = now + pause;
    const std::uint64_t before = std::exchange(waited, os::pages_waited_for());
    const bool found = waited - before >= few &&
                       streams.find(static_cast<std::int64_t>(length.load(std::memory_order_acquire) / page));
    pause = found ? least_pause : std::min(2 * pause, longest_pause);
  }
}

bool ahead_reader::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return stopping_.wait_for(lock, time, [&] { return stop_.load(); });
}

}  // namespace tenure::rvm
