// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rvm/read_ahead.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "os/virtual_memory.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

// Nobody waits for the thread in a program that just ends.
std::shared_ptr<ahead_reader> ahead_reader::start(segment& in, std::uint64_t offset, std::byte* base,
                                                  std::size_t length, std::size_t step) {
  try {
    auto made = std::make_shared<ahead_reader>();
    std::thread([made, &in, offset, base, length, step] {
      made->read(in, offset, base, length, step);
      made->done_ = true;
      made->done_.notify_all();
    }).detach();
    return made;
  } catch (const std::system_error&) {  // pages are read when they are touched
    return nullptr;
  }
}

void ahead_reader::end() noexcept {
  stop_ = true;
  done_.wait(false);
}

void ahead_reader::read(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step) {
  if (length > os::usable_memory() / 4) return os::advise_by_size(base, length);
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

void memory_state::read_ahead(region_state& what, std::size_t length) {
  require_own_process();
  if (!what.backed_by_file) return;
  // While all is read, a page that is touched meanwhile need not wait for others.
  if (!how.background || length == 0) return os::advise_by_size(what.base, what.length);
  length = std::min(round_down(length + os::page_size() - 1, os::page_size()), what.length.load());
  std::call_once(what.asked_ahead, [&] {
    what.reading_ahead = ahead_reader::start(*what.in, what.offset, what.base, length, limits.read_ahead_step);
  });
}

}  // namespace tenure::rvm
