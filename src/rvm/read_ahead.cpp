// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading a region before it is asked for.
#include <algorithm>
#include <mutex>
#include <thread>

#include "os/virtual_memory.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

namespace {

// What is read before the thread looks whether it should end; and how much the disk is asked for beyond that.
constexpr std::size_t step = 2 << 20, ahead = 4 * step;

void read(const std::stop_token& stop, region_state& what, std::size_t length) {
  if (length > os::usable_memory() / 4) return;
  const auto ask = [&](std::size_t from, std::size_t to) {
    to = std::min(to, length);
    if (from < to) what.in->read_ahead(what.offset + from, to - from);
  };
  ask(0, ahead);
  for (std::size_t at = 0; at < length && !stop.stop_requested(); at += step) {
    ask(at + ahead, at + ahead + step);
    os::populate(what.base + at, std::min(step, length - at));
  }
}

}  // namespace

void memory_state::read_ahead(region_state& what, std::size_t length) {
  require_own_process();
  if (!what.backed_by_file) return;
  os::advise_by_size(what.base, what.length);
  if (!how.background || length == 0) return;
  length = std::min(round_down(length + os::page_size() - 1, os::page_size()), what.length.load());
  std::call_once(what.asked_ahead, [&] {
    try {
      what.reading_ahead = std::jthread([&what, length](const std::stop_token& stop) { read(stop, what, length); });
    } catch (const std::system_error&) {  // no thread can be had: pages are read when they are touched
    }
  });
}

}  // namespace tenure::rvm
