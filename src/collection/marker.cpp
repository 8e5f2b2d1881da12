// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/marker.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::heap {

// --- Grey objects -----------------------------------------------------------------------------------------------------

namespace {

#ifdef TENURE_SMALL_GEOMETRY
constexpr std::size_t most_grey = 64;
#else
constexpr std::size_t most_grey = 1 << 20;
#endif
constexpr std::size_t grey_bytes = std::max<std::size_t>(most_grey * sizeof(address), 64 << 10);

}  // namespace

grey_objects::grey_objects(std::deque<granule_bits>& rest)
    : rest_(rest), objects_(static_cast<address*>(os::map_anonymous(nullptr, grey_bytes))) {
  os::exclude_from_fork(objects_, grey_bytes);
}

grey_objects::~grey_objects() { os::unmap(objects_, grey_bytes); }

void grey_objects::push(std::size_t database, address object) {
  if (used_ < most_grey) {
    objects_[used_++] = object;
    return;
  }
  rest_[database].set(object);
  has_rest_ = true;
}

address grey_objects::pop() {
  if (used_ == 0) take_from_rest();
  return used_ == 0 ? 0 : objects_[--used_];
}

// In the order of addresses, for the disk's sake.
void grey_objects::take_from_rest() {
  if (!has_rest_) return;
  has_rest_ = false;
  for (granule_bits& bits : rest_) {
    bits.for_each_while([&](address object) {
      if (used_ == most_grey / 2) {
        has_rest_ = true;
        return false;
      }
      objects_[used_++] = object;
      return true;
    });
    for (std::size_t n = 0; n < used_; ++n) bits.reset(objects_[n]);
    if (has_rest_) break;
  }
  std::reverse(objects_, objects_ + used_);
}

// --- Marking ----------------------------------------------------------------------------------------------------------

marker::marker(const database_set& store, if_nothing how) : store_(store), how_(how), grey_(rest_) {
  for (const auto& d : store) {
    const std::uint64_t blocks = d->region.size() / block_size;
    databases_.emplace_back(*d, blocks);
    rest_.emplace_back(d->home, blocks);
  }
}

start_bits marker::marked_in(const database_state& in, std::uint64_t block) const {
  const auto found = std::ranges::find(databases_, &in, &marked_database::of);
  start_bits marked;
  if (found != databases_.end())
    found->marks.add_block_to(block, marked);
  else
    for (std::size_t n = 0; n < start_bits::words; ++n) marked.word(n) = ~std::uint64_t{0};
  return marked;
}

std::size_t marker::number_of(address at) const {
  if (databases_[last_].of->map->contains(at)) return last_;
  for (std::size_t n = 0; n < databases_.size(); ++n)
    if (databases_[n].of->map->contains(at)) return last_ = n;
  return npos;
}

bool marker::has_met(std::size_t database, address begin, address end) const {
  if (database >= databases_.size()) return false;
  const marked_database& in = databases_[database];
  for (address at = begin & ~address{7}; at < end; at += 8)
    if (in.missed_in(at).test(at)) return true;
  return false;
}

bool marker::is_revived(address at) const {
  if (!is_reviving_) return false;
  const std::size_t n = number_of(at);
  const address object = n != npos ? databases_[n].of->map->find_persistent(at) : 0;
  return object != 0 && databases_[n].revived.test(object);
}

void marker::mark(std::size_t database, address object) {
  granule_bits& marks = databases_[database].marks;
  if (marks.test(object) || !marks.covers(object)) return;
  marks.set(object);
  if (is_reviving_) databases_[database].revived.set(object);
  ++marked_;
  __builtin_prefetch(reinterpret_cast<const void*>(object));
  grey_.push(database, object);
}

void marker::mark_named_roots() {
  for (const marked_database& d : databases_)
    for (const stored_address to : {d.of->header().types, d.of->header().roots}) {  // these tables refer to the objects
      if (to == stored_address::none) continue;
      if (!mark_persistent(to) && how_ == if_nothing::refuse) refuse(0, 0, to);
    }
}

void marker::mark_roots(const root_snapshot& found) {
  transient_references_ = found.transient_references();
  for (const transient_reference& r : transient_references_) {
    const std::size_t n = number_of(r.from), to = number_of(r.to);
    if (n == npos || to == npos) continue;
    databases_[n].has_transient_references.set(r.from);
    if (databases_[n].marks.test(r.from)) mark(to, r.to);  // it may have been followed already
  }
  for (std::size_t n = 0; n < databases_.size(); ++n) found.for_each_root(n, [&](address object) { mark(n, object); });
}

void marker::mark_object(address at) {
  const std::size_t n = number_of(at);
  if (const found_object object = n != npos ? databases_[n].of->find(reinterpret_cast<void*>(at)) : found_object{})
    mark(n, object.at);
}

bool marker::mark_persistent(stored_address to) {
  const auto at = static_cast<address>(to);
  const std::size_t n = number_of(at);
  const address object = n != npos && databases_[n].marks.covers(at) ? databases_[n].of->map->find_persistent(at) : 0;
  if (object != 0) mark(n, object);
  return object != 0;
}

void marker::mark_target(stored_address to, bool may_be_end) {
  (void)mark_persistent(to);
  if (may_be_end) mark_end(to);
}

void marker::mark_targets_of(const database_state& in, address object) {
  (void)mark_targets_of(in, object, 0, ~std::uint64_t{0});
  mark_met();
}

std::uint64_t marker::mark_targets_of(const database_state& in, address object, std::uint64_t begin,
                                      std::uint64_t most) {
  const sound_object from = sound_at(in, object);
  if (!from) {
    if (how_ == if_nothing::refuse && !is_among_garbage_) refuse_damaged(object);
    return 0;
  }
  const std::uint64_t size = from.facts().size, stride = from.type->of->size;
  if (from.type->cell != cell_kind::none) databases_[number_of(object)].cells.set(object);
  if (begin >= size || stride == 0) return 0;
  if (most < size) most = (most + stride - 1) / stride * stride;  // whole elements
  const std::uint64_t end = begin + std::min(most, size - begin);
  databases_[number_of(object)].followed.add(object + begin, object + end);
  for_each_reference(*from.type, reinterpret_cast<const std::byte*>(object), size, begin, end,
                     [&](const reference_field& r) { meet(object, r); });
  if (end < size) rest_of_large_ = {object, end};
  return end - begin;
}

void marker::meet(address from, const reference_field& what) {
  constexpr std::size_t most = 64;
  if (met_.size() == most) mark_met();
  met_.push_back({from, what});
  const auto to = static_cast<address>(what.to);
  const std::size_t n = number_of(to);
  if (n == npos) return;
  databases_[n].of->map->prefetch(to);
  databases_[n].marks.prefetch(to);
}

void marker::mark_met() {
  for (const met_reference& r : met_) {
    if (!mark_persistent(r.what.to)) {
      if (how_ == if_nothing::refuse && !r.what.is_ambiguous && !is_among_garbage_)
        refuse(r.from, r.what.offset, r.what.to);
      const auto to = static_cast<address>(r.what.to);
      if (const std::size_t n = number_of(to); n != npos) databases_[n].missed_in(to).set(to);
    }
    if (r.what.may_be_end) mark_end(r.what.to);
  }
  os::clear_all_of(met_);
}

// Whole elements: a reference may depend on bytes beside it [heap.reference.guards].
void marker::look_again_at(const database_state& in, address from, address to) {
  const marked_database& d = databases_[number_of(from)];
  for (address page = from; page < to; page += typed_page_size) {
    const address end = std::min<address>(page + typed_page_size, to);
    if (!d.followed.contains(page)) continue;
    in.map->for_each_persistent_in(page, end, [&](address object) {
      if (!d.marks.test(object)) return;
      const sound_object again = sound_at(in, object);
      if (!again) return;
      for_each_reference(*again.type, reinterpret_cast<const std::byte*>(object), again.size,
                         std::max(page, object) - object, std::min(end - object, again.size),
                         [&](const reference_field& r) { mark_target(r.to, r.may_be_end); });
    });
  }
}

void marker::forget_followed() {
  for (marked_database& d : databases_) d.followed.clear();
}

void marker::mark_end(stored_address end) {
  const stored_address last = byte_before(end);
  if (how_ == if_nothing::ignore || is_among_garbage_) return void(mark_persistent(last));
  const std::size_t n = number_of(static_cast<address>(last));
  const address object = n != npos ? databases_[n].of->map->find_persistent(static_cast<address>(last)) : 0;
  if (object == 0) return;
  databases_[n].ends.set(object);
  has_ends_ = true;
}

void marker::follow_ends() {
  if (!std::exchange(has_ends_, false)) return;
  is_among_garbage_ = true;
  for (std::size_t n = 0; n < databases_.size(); ++n)
    databases_[n].ends.for_each_while([&](address object) {
      mark(n, object);
      return true;
    });
}

bool marker::follow(std::uint64_t most) {
  for (std::uint64_t bytes = 0; most != 0; most -= std::min(most, 1 + bytes / bytes_of_an_object)) {
    if (const rest_of_object large = std::exchange(rest_of_large_, {}); large.object != 0) {
      bytes = follow_rest(large);
      continue;
    }
    if (grey_.empty()) mark_met();
    if (grey_.empty()) follow_ends();
    const address next = grey_.pop();
    if (next == 0) return false;
    bytes = follow_object(next);
  }
  mark_met();
  return !grey_.empty() || has_ends_ || rest_of_large_.object != 0;
}

// Whatever is there now: what was there before is gone, and who has destroyed it has said what it referred to.
std::uint64_t marker::follow_rest(const rest_of_object& of) {
  const database_state& in = *databases_[number_of(of.object)].of;
  return in.map->find_persistent(of.object) == of.object ? mark_targets_of(in, of.object, of.begin, most_at_once) : 0;
}

// `object`: where it starts, or the granule where it starts. It may be gone, or may have become persistent.
std::uint64_t marker::follow_object(address object) {
  const std::size_t n = number_of(object);
  assert(n != npos);
  const marked_database& d = databases_[n];
  const address granule_of = object & ~(granule - 1);
  if (d.has_transient_references.test(granule_of)) {
    const auto first = std::ranges::lower_bound(transient_references_, granule_of, {}, &transient_reference::from);
    for (auto r = first; r != transient_references_.end() && r->from == granule_of; ++r)
      if (const std::size_t to = number_of(r->to); to != npos) mark(to, r->to);
  }
  for (const address at : {granule_of, granule_of + 8})
    if (d.of->map->find_persistent(at) == at) return mark_targets_of(*d.of, at, 0, most_at_once);
  return 0;
}

void marker::refuse_damaged(address object) const {
  throw error(errc::damaged, store_.directory() + ": what the store says of the object at " +
                                 os::hexadecimal(reinterpret_cast<void*>(object)) +
                                 " is damaged; nothing was collected; `tenure verify` tells all that is wrong");
}

void marker::refuse(address from, std::uint64_t offset, stored_address to) const {
  throw error(errc::damaged,
              store_.directory() + ": " +
                  (from == 0 ? "a root or a table" : object_text(store_, from) + field_text(store_, from, offset)) +
                  " refers to " + os::hexadecimal(in_memory(to)) +
                  ", where no object is; nothing was collected; `tenure verify` tells all that is wrong");
}

}  // namespace tenure::heap
