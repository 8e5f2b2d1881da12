// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transient objects that are taken back.
#include <cassert>

#include "objects/birth.hpp"

namespace tenure::heap {

void birth::discard(address object) {
  const std::scoped_lock lock(mutex_);
  const auto beside = lock_lane_of(object);
  forget(object);
}

bool birth::discard_transient(address at) {
  const std::scoped_lock lock(mutex_);
  const auto beside = lock_lane_of(at);
  const found_object found = map_.find_start(at);
  if (!found || found.is_persistent) return false;
  forget(found.at);
  return true;
}

void birth::forget(address object) {
  transient_block* const y = map_.find_transient_block(map_.block_of(object));
  assert(y != nullptr);
  const std::uint64_t bit = (object - map_.start_of(y->first)) / granule;
  assert(y->starts.test(bit));
  if (y->promoted.test(bit)) return;  // a commit has met it by chance, and is on its way: it becomes persistent garbage
  y->starts.reset(bit);
  if (y->touched != 0) {  // an abort does not bring the object back
    y->starts_at_begin.reset(bit);
    start_bits gone;
    gone.set(bit);
    forget_in_levels(*y, gone);
  }
  share(*y);
  release_if_empty(*y);
}

void birth::for_each_transient(const std::function<void(address)>& f) const {
  const std::scoped_lock lock(whole_);
  for (const transient_block* y : all_)
    y->starts.for_each([&](std::uint64_t g) { f(object_of_bit(map_.start_of(y->first), y->pages, g)); });
}

std::vector<std::uint64_t> birth::transient_blocks() const {
  const std::scoped_lock lock(whole_);
  std::vector<std::uint64_t> found;
  for (const transient_block* y : all_)
    if (!y->starts.empty()) found.push_back(y->first);
  return found;
}

// Typed pages are counted, not their objects looked at: one at a time, 19 000 objects took a millisecond.
birth::counts birth::discard_garbage(std::uint64_t block,
                                     const std::function<start_bits(const transient_block&)>& kept) {
  const std::scoped_lock lock(whole_);
  counts all;
  transient_block* const y = map_.find_transient_block(block);
  if (y == nullptr) return all;
  const start_bits stay = kept(*y);
  start_bits gone;
  for (std::size_t n = 0; n < start_bits::words; ++n)
    gone.word(n) = y->starts.word(n) & ~(stay.word(n) | y->promoted.word(n));
  all.objects = gone.count();
  if (all.objects == 0) return all;
  if (y->kind == block_kind::typed)
    for (std::size_t page = 0; page < pages_in_block; ++page)
      all.bytes += gone.count_in_page(page) * y->pages[page].stride();
  else
    gone.for_each([&](std::uint64_t g) {
      const object_facts facts = map_.transient_facts(*y, map_.start_of(y->first) + g * granule);
      all.bytes += facts.end - facts.begin;
    });
  for (std::size_t n = 0; n < start_bits::words; ++n) {
    y->starts.word(n) &= ~gone.word(n);
    if (y->touched != 0) y->starts_at_begin.word(n) &= ~gone.word(n);  // an abort does not bring the objects back
  }
  if (y->touched != 0) forget_in_levels(*y, gone);
  share(*y);
  release_if_empty(*y);
  return all;
}

}  // namespace tenure::heap
