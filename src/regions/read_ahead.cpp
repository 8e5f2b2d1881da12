// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/read_ahead.hpp"

#include <algorithm>
#include <system_error>

#include "os/virtual_memory.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

void ahead_reader::start(segment& in, std::uint64_t offset, std::byte* base, std::size_t length, std::size_t step) {
  try {
    thread_ = std::thread([this, &in, offset, base, length, step] { read(in, offset, base, length, step); });
  } catch (const std::system_error&) {  // pages are read when they are touched
  }
}

void ahead_reader::end() noexcept {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
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

}  // namespace tenure::rvm
