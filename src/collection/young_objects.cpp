// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/young_objects.hpp"

#include <mutex>

#include "collection/handles.hpp"
#include "collection/unlogged_references.hpp"
#include "objects/weak_cells.hpp"

namespace tenure::heap {

void young_objects::mark_object(address at) {
  const database_state* const in = store_.at(reinterpret_cast<const void*>(at));
  const found_object there = in != nullptr ? in->map->find(at) : found_object{};
  if (!there || there.is_persistent) return;
  const address block = in->map->start_of(there.within->first);
  if (last_.first != block) last_ = {block, &marks_[block]};
  const std::uint64_t bit = (there.at - block) / granule;
  if (last_.second->test(bit)) return;
  last_.second->set(bit);
  grey_.push_back({in, there});
}

void young_objects::mark(address to, bool may_be_end) {
  mark_object(to);
  if (may_be_end) mark_object(to - 1);
}

bool young_objects::mark() {
  bool is_complete = true;
  store_.with_births_locked([&] {
    {
      const std::scoped_lock lock(detail::handles::mutex());
      detail::handles::for_each([&](const void* to) {
        const database_state* const in = store_.at(to);
        const auto at = reinterpret_cast<address>(to);
        mark(at, in == nullptr || !in->map->find(at));
      });
    }
    for (const auto& d : store_)
      is_complete = for_each_with_transient_fields(*d, d->region.size(),
                                                   [&](const object_facts& object) {
                                                     for_each_unlogged_reference(
                                                         *d, object, false,
                                                         [&](address to, bool may_be_end) { mark(to, may_be_end); });
                                                   }) &&
                    is_complete;
    follow();
  });
  return is_complete;
}

void young_objects::follow() {
  while (!grey_.empty()) {
    const auto [in, object] = grey_.back();
    grey_.pop_back();
    for_each_unlogged_reference(*in, in->map->facts(object), true,
                                [&](address to, bool may_be_end) { mark(to, may_be_end); });
    // A queue is to hear of what it watches: by a collection of everything.
    if (const found_cell cell = found_cell_of(*in, object); cell && cell.kind == cell_kind::finalization)
      mark(reinterpret_cast<address>(cell.target()), false);
  }
}

start_bits young_objects::marked_in(const database_state& in, std::uint64_t block) const {
  const auto marked = marks_.find(in.map->start_of(block));
  return marked != marks_.end() ? marked->second : start_bits();
}

bool young_objects::keeps(const void* object) const {
  const database_state* const in = store_.at(object);
  const found_object there = in != nullptr ? in->find(object) : found_object{};
  if (!there || there.is_persistent) return true;
  const std::uint64_t block = there.within->first;
  return marked_in(*in, block).test((there.at - in->map->start_of(block)) / granule);
}

birth::counts young_objects::sweep() {
  birth::counts gone;
  for (const auto& d : store_)
    for (const std::uint64_t block : d->birth->transient_blocks()) {
      const birth::counts here =
          d->birth->discard_garbage(block, [&](const transient_block& y) { return marked_in(*d, y.first); });
      gone.objects += here.objects;
      gone.bytes += here.bytes;
    }
  return gone;
}

}  // namespace tenure::heap
