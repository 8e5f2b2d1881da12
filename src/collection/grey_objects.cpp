// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/grey_objects.hpp"

#include <cassert>

#include "os/virtual_memory.hpp"

namespace tenure::heap {

namespace {
constexpr std::size_t ring_bytes = std::max<std::size_t>(grey_objects::capacity * sizeof(address), 64 << 10);
}

grey_objects::grey_objects() : objects_(static_cast<address*>(os::map_anonymous(nullptr, ring_bytes))) {
  os::exclude_from_fork(objects_, ring_bytes);
}

grey_objects::~grey_objects() { os::unmap(objects_, ring_bytes); }

std::size_t grey_objects::copy_last(std::span<address> to) const {
  const std::size_t some = std::min(size(), to.size());
  for (std::size_t n = 0; n < some; ++n) to[n] = objects_[(end_ - some + n) & (capacity - 1)];
  return some;
}

void grey_objects::give_first(std::span<address> to) {
  assert(to.size() <= size());
  for (address& each : to) each = objects_[begin_++ & (capacity - 1)];
}

bool grey_objects::refill_from(std::deque<granule_bits>& rest) {
  assert(empty());
  begin_ = end_ = 0;
  bool is_done = true;
  for (granule_bits& bits : rest) {
    bits.for_each_while([&](address object) {
      is_done = end_ != capacity / 2;
      return is_done && push(object);
    });
    for (std::size_t n = 0; n < end_; ++n) bits.reset(objects_[n]);
    if (!is_done) break;
  }
  std::reverse(objects_, objects_ + end_);
  return is_done;
}

void grey_rest::give(grey_objects& to) {
  if (has_some_.exchange(false, std::memory_order_relaxed) && !to.refill_from(bits_))
    has_some_.store(true, std::memory_order_relaxed);
}

}  // namespace tenure::heap
