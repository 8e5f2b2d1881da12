// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/marker.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "os/system_error.hpp"

namespace tenure::heap {

// --- What all followers share ------------------------------------------------------------------------------------------

marker::marker(const database_set& store, if_nothing how, std::size_t followers) : store_(store), how_(how) {
  for (const auto& d : store) {
    const std::uint64_t blocks = d->region.size() / block_size;
    databases_.emplace_back(*d, blocks);
    rest_.cover(d->home, blocks);
  }
  for (std::size_t n = 0; n < followers; ++n) followers_.emplace_back(*this);
}

marker::~marker() = default;

std::uint64_t marker::marked() const {
  std::uint64_t all = 0;
  for (const follower& each : followers_) all += each.marked();
  return all;
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

std::size_t marker::number_of(address at, std::size_t guess) const {
  if (guess < databases_.size() && databases_[guess].of->map->contains(at)) return guess;
  for (std::size_t n = 0; n < databases_.size(); ++n)
    if (databases_[n].of->map->contains(at)) return n;
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

void marker::mark_named_roots() {
  for (const marked_database& d : databases_)
    for (const stored_address to : {d.of->header().types, d.of->header().roots}) {  // these tables refer to the objects
      if (to == stored_address::none) continue;
      if (!followers_.front().mark_persistent(to) && how_ == if_nothing::refuse) refuse(0, 0, to);
    }
}

void marker::mark_roots(const root_snapshot& found) {
  follower& by = followers_.front();
  transient_references_ = found.transient_references();
  for (const transient_reference& r : transient_references_) {
    const std::size_t n = number_of(r.from), to = number_of(r.to);
    if (n == npos || to == npos) continue;
    databases_[n].has_transient_references.set(r.from);
    if (databases_[n].marks.test(r.from)) by.mark(to, r.to);  // it may have been followed already
  }
  for (std::size_t n = 0; n < databases_.size(); ++n)
    found.for_each_root(n, [&](address object) { by.mark(n, object); });
}

void marker::mark_object(address at) {
  const std::size_t n = number_of(at);
  if (const found_object object = n != npos ? databases_[n].of->find(reinterpret_cast<void*>(at)) : found_object{})
    followers_.front().mark(n, object.at);
}

void marker::note_cell(address cell) {
  if (const std::size_t n = number_of(cell); n != npos && databases_[n].cells.covers(cell))
    databases_[n].cells.add(cell);
}

void marker::mark_target(stored_address to, bool may_be_end) {
  (void)followers_.front().mark_persistent(to);
  if (may_be_end) followers_.front().mark_end(to);
}

void marker::mark_targets_of(const database_state& in, address object) {
  (void)followers_.front().mark_targets_of(in, object, 0, ~std::uint64_t{0});
  followers_.front().mark_met();
}

// Whole elements: a reference may depend on bytes beside it [heap.reference.guards].
void marker::look_again_at(const database_state& in, address from, address to) {
  const std::size_t n = number_of(from);
  for (address page = from; page < to; page += typed_page_size) {
    const address end = std::min<address>(page + typed_page_size, to);
    if (std::ranges::none_of(followers_, [&](const follower& each) { return each.followed_[n].contains(page); }))
      continue;
    in.map->for_each_persistent_in(page, end, [&](address object) {
      if (!databases_[n].marks.test(object)) return;
      const sound_object again = sound_at(in, object);
      if (!again) return;
      for_each_reference(*again.type, reinterpret_cast<const std::byte*>(object), again.size,
                         std::max(page, object) - object, std::min(end - object, again.size),
                         [&](const reference_field& r) { mark_target(r.to, r.may_be_end); });
    });
  }
}

void marker::forget_followed() {
  for (follower& each : followers_)
    for (auto& pages : each.followed_) pages.clear();
}

void marker::follow_ends() {
  if (!has_ends_.exchange(false)) return;
  is_among_garbage_ = true;
  for (std::size_t n = 0; n < databases_.size(); ++n)
    databases_[n].ends.for_each_while([&](address object) {
      followers_.front().mark(n, object);
      return true;
    });
}

bool marker::has_grey() const {
  return !rest_.empty() || std::ranges::any_of(followers_, [](const follower& each) { return each.has_grey(); });
}

bool marker::follow(std::uint64_t most, const std::atomic<std::uint32_t>& is_wanted) {
  do {
    for (follower& each : followers_) most = each.follow(most, is_wanted);
    if (most == 0) break;
    rest_.give(followers_.front().grey());
    if (!has_grey()) follow_ends();
  } while (has_grey());
  return has_grey() || has_ends_;
}

std::size_t marker::next(std::span<address, most_next> objects) const {
  for (const follower& each : followers_)
    if (!each.grey().empty()) return each.grey().copy_last(objects);
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

// --- A follower -------------------------------------------------------------------------------------------------------

marker::follower::follower(marker& of) : of_(of) {
  for (const marked_database& d : of.databases_) followed_.emplace_back(d.of->home, d.of->region.size() / block_size);
}

void marker::follower::mark(std::size_t database, address object) {
  marked_database& in = of_.databases_[database];
  if (in.marks.test(object) || !in.marks.add(object)) return;
  if (of_.is_reviving_) in.revived.add(object);
  ++marked_;
  __builtin_prefetch(reinterpret_cast<const void*>(object));
  if (!grey_.push(object)) of_.rest_.add(database, object);
}

bool marker::follower::mark_persistent(stored_address to) {
  const auto at = static_cast<address>(to);
  const std::size_t n = number_of(at);
  const address object =
      n != npos && of_.databases_[n].marks.covers(at) ? of_.databases_[n].of->map->find_persistent(at) : 0;
  if (object != 0) mark(n, object);
  return object != 0;
}

void marker::follower::mark_end(stored_address end) {
  const stored_address last = byte_before(end);
  if (of_.how_ == if_nothing::ignore || of_.is_among_garbage_) return void(mark_persistent(last));
  const std::size_t n = number_of(static_cast<address>(last));
  const address object = n != npos ? of_.databases_[n].of->map->find_persistent(static_cast<address>(last)) : 0;
  if (object == 0) return;
  of_.databases_[n].ends.add(object);
  of_.has_ends_ = true;
}

std::uint64_t marker::follower::mark_targets_of(const database_state& in, address object, std::uint64_t begin,
                                                std::uint64_t most) {
  const sound_object from = sound_at(in, object);
  if (!from) {
    if (of_.how_ == if_nothing::refuse && !of_.is_among_garbage_) of_.refuse_damaged(object);
    return 0;
  }
  const std::uint64_t size = from.facts().size, stride = from.type->of->size;
  const std::size_t n = number_of(object);
  if (from.type->cell != cell_kind::none) of_.databases_[n].cells.add(object);
  if (begin >= size || stride == 0) return 0;
  if (most < size) most = (most + stride - 1) / stride * stride;  // whole elements
  const std::uint64_t end = begin + std::min(most, size - begin);
  followed_[n].add(object + begin, object + end);
  for_each_reference(*from.type, reinterpret_cast<const std::byte*>(object), size, begin, end,
                     [&](const reference_field& r) { meet(object, r); });
  if (end < size) rest_of_large_ = {object, end};
  return end - begin;
}

void marker::follower::meet(address from, const reference_field& what) {
  constexpr std::size_t most = 16;  // more at once are no faster, and who waits for the marker waits for all of them
  if (met_.size() == most) mark_met();
  met_.push_back({from, what});
  const auto to = static_cast<address>(what.to);
  const std::size_t n = number_of(to);
  if (n == npos) return;
  of_.databases_[n].of->map->prefetch(to);
  of_.databases_[n].marks.prefetch(to);
}

void marker::follower::mark_met() {
  for (const met_reference& r : met_) {
    if (!mark_persistent(r.what.to)) {
      if (of_.how_ == if_nothing::refuse && !r.what.is_ambiguous && !of_.is_among_garbage_)
        of_.refuse(r.from, r.what.offset, r.what.to);
      const auto to = static_cast<address>(r.what.to);
      if (const std::size_t n = number_of(to); n != npos) of_.databases_[n].missed_in(to).add(to);
    }
    if (r.what.may_be_end) mark_end(r.what.to);
  }
  os::clear_all_of(met_);
}

std::uint64_t marker::follower::follow(std::uint64_t most, const std::atomic<std::uint32_t>& is_wanted) {
  constexpr std::uint64_t least = 2;  // so that marking ends, however often somebody waits
  const std::uint64_t enough = most - std::min(most, least);
  std::uint64_t bytes = 0;
  for (; most != 0; most -= std::min(most, 1 + bytes / bytes_of_an_object)) {
    if (most <= enough && is_wanted.load(std::memory_order_relaxed) != 0) break;
    if (const rest_of_object large = std::exchange(rest_of_large_, {}); large.object != 0) {
      bytes = follow_rest(large);
      continue;
    }
    if (grey_.empty()) mark_met();
    const address next = grey_.pop();
    if (next == 0) return most;
    bytes = follow_object(next);
  }
  mark_met();
  return 0;
}

void marker::follower::take_over(std::span<const address> objects) {
  for (const address object : objects)
    if (!grey_.push(object)) of_.rest_.add(number_of(object), object);
}

// Whatever is there now: what was there before is gone, and who has destroyed it has said what it referred to.
std::uint64_t marker::follower::follow_rest(const rest_of_object& of) {
  const database_state& in = *of_.databases_[number_of(of.object)].of;
  return in.map->find_persistent(of.object) == of.object ? mark_targets_of(in, of.object, of.begin, most_at_once) : 0;
}

// `object`: where it starts, or the granule where it starts. It may be gone, or may have become persistent.
std::uint64_t marker::follower::follow_object(address object) {
  const std::size_t n = number_of(object);
  assert(n != npos);
  const marked_database& d = of_.databases_[n];
  const address granule_of = object & ~(granule - 1);
  if (d.has_transient_references.test(granule_of)) {
    const auto& all = of_.transient_references_;
    for (auto r = std::ranges::lower_bound(all, granule_of, {}, &transient_reference::from);
         r != all.end() && r->from == granule_of; ++r)
      if (const std::size_t to = number_of(r->to); to != npos) mark(to, r->to);
  }
  for (const address at : {granule_of, granule_of + 8})
    if (d.of->map->find_persistent(at) == at) return mark_targets_of(*d.of, at, 0, most_at_once);
  return 0;
}

}  // namespace tenure::heap
