// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/dropped_objects.hpp"

#include <algorithm>
#include <functional>

#include "objects/object_walk.hpp"
#include "objects/references.hpp"

namespace tenure {

using namespace heap;

dropped_objects::dropped_objects(const database_set& of) : of_(of) {
  for (const auto& d : of) referred_to_.emplace_back(d->home, d->region.size() / block_size);
}

void dropped_objects::note_references(const database_state& in, std::span<const address> garbage) {
  for (const address object : garbage) {
    const sound_object from = sound_at(in, object);
    if (!from) continue;
    for_each_reference(*from.type, from.facts(), [&](const reference_field& r) {
      for (std::size_t n = 0; n < of_.size(); ++n)
        if (const address to = of_[n].map->find_persistent(static_cast<address>(r.to)); to != 0 && to != object)
          referred_to_[n].set(to);
    });
  }
}

void dropped_objects::count(const database_state& in, std::span<const address> garbage) {
  constexpr std::size_t most = 64;
  std::size_t n = 0;
  while (&of_[n] != &in) ++n;
  for (const address object : garbage) {
    if (referred_to_[n].test(object)) continue;
    const sound_object dropped = sound_at(in, object);
    if (!dropped) continue;
    const object_facts facts = in.map->facts(object);
    type_count& sum = counts_[dropped.type->of->name];
    sum.type = dropped.type->of->name;
    ++sum.objects;
    sum.bytes += facts.end - facts.begin;
    if (some_.size() < most) some_.push_back(reinterpret_cast<const void*>(object));
  }
}

void dropped_objects::finish(collect_report& report) {
  for (auto& [type, sum] : counts_) report.dropped.push_back(sum);
  std::ranges::stable_sort(report.dropped, std::greater<>(), &type_count::objects);
  report.dropped_objects = std::move(some_);
}

}  // namespace tenure
