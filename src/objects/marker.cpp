// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/marker.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "os/system_error.hpp"

namespace tenure::heap {

marker::marker(const database_set& store) : store_(store) {
  for (const auto& d : store) marks_.emplace_back(d.get(), std::vector<start_bits>(d->header().blocks_end));
}

std::vector<start_bits>& marker::marks_of(const database_state& in) {
  return std::ranges::find(marks_, &in, [](const auto& each) { return each.first; })->second;
}

bool marker::is_marked(const database_state& in, address object) const {
  const auto& marks = std::ranges::find(marks_, &in, [](const auto& each) { return each.first; })->second;
  const std::uint64_t block = in.map->block_of(object);
  return marks[block].test((object - in.map->start_of(block)) / granule);
}

void marker::run(const progress& on_progress) {
  constexpr std::uint64_t often = 1 << 16;
  for (const auto& d : store_) mark_roots(*d);
  while (!pending_.empty()) {
    const address next = pending_.back();
    pending_.pop_back();
    follow(next);
    if (marked_ % often == 0 && on_progress) on_progress(marked_);
  }
}

void marker::mark_roots(const database_state& of) {
  const auto mark_one = [&](stored_address to) {
    if (to == stored_address::none) return;
    const sound_object object = find_sound(store_, to);
    if (!object) refuse(0, 0, to);
    mark(object);
  };
  mark_one(of.header().types);
  mark_one(of.header().roots);  // the table refers to the objects
}

void marker::mark(const sound_object& what) {
  const std::uint64_t block = what.in->map->block_of(what.at);
  const std::uint64_t bit = (what.at - what.in->map->start_of(block)) / granule;
  std::vector<start_bits>& marks = marks_of(*what.in);
  if (block >= marks.size()) refuse(0, 0, stored_address_of(reinterpret_cast<const void*>(what.at)));
  if (marks[block].test(bit)) return;
  marks[block].set(bit);
  ++marked_;
  if (what.type->words->has_pointers()) pending_.push_back(what.at);
}

void marker::follow(address object) {
  const sound_object from = find_sound(store_, reinterpret_cast<const void*>(object));
  assert(from.at == object && is_marked(*from.in, object));
  for_each_reference(*from.type, from.facts(), [&](const reference_field& r) {
    const sound_object to = find_sound(store_, r.to);
    if (to)
      mark(to);
    else if (!r.is_ambiguous)
      refuse(object, r.offset, r.to);
    if (!r.may_be_end) return;
    if (const sound_object before = find_sound(store_, byte_before(r.to))) mark(before);
  });
}

void marker::refuse(address from, std::uint64_t offset, stored_address to) const {
  throw error(errc::damaged,
              store_.directory() + ": " +
                  (from == 0 ? "a root or a table" : object_text(store_, from) + field_text(store_, from, offset)) +
                  " refers to " + os::hexadecimal(in_memory(to)) +
                  ", where no object is; nothing was collected; `tenure verify` tells all that is wrong");
}

}  // namespace tenure::heap
