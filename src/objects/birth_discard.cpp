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
  y->starts.reset(bit);
  if (y->touched) y->starts_at_begin.reset(bit);  // an abort does not bring the object back
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

birth::counts birth::discard_garbage(std::uint64_t block, const std::function<start_bits()>& kept) {
  const std::scoped_lock lock(whole_);
  counts gone;
  const transient_block* const y = map_.find_transient_block(block);
  if (y == nullptr) return gone;
  const start_bits stay = kept();
  address_list<address> objects;
  y->starts.for_each([&](std::uint64_t g) {
    if (stay.test(g)) return;
    const address object = object_of_bit(map_.start_of(y->first), y->pages, g);
    const object_facts facts = map_.transient_facts(*y, object);
    objects.push_back(object);
    gone.bytes += facts.end - facts.begin;
  });
  for (const address object : objects) forget(object);  // the last one may take the block with it
  gone.objects = objects.size();
  return gone;
}

}  // namespace tenure::heap
