// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/space.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "pobj/errors.hpp"

namespace tenure::pobj {

std::uint64_t space::next_serial(position p) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << slot_word::serial_bits) - 1;
  if ((++serial_ & mask) == word_at(p).serial()) ++serial_;
  return serial_ & mask;
}

void space::write_free(position begin, position end) const {
  while (begin != end) {
    const std::uint64_t length = std::min(end - begin, largest_free);
    // Keeps the serial, for the next slot at this place.
    set_word(begin, slot_word::of(length - 8, slot_word::type_free, word_at(begin).serial()));
    begin += length;
  }
}

space::note space::remove(position begin, position end) noexcept {
  return {by_place_.extract(begin), by_size_.extract({end - begin, begin})};
}

void space::insert(note&& n, position begin, position end) noexcept {
  n.place.key() = begin;
  n.place.mapped() = end;
  n.size.value() = {end - begin, begin};
  by_place_.insert(std::move(n.place));
  by_size_.insert(std::move(n.size));
}

space::note space::make_note(position begin, position end) {
  places place;
  sizes size;
  place.emplace(begin, end);
  size.emplace(end - begin, begin);
  return {place.extract(begin), size.extract(size.begin())};
}

void space::add(position begin, position end) noexcept {
  if (begin == end) return;
  // A neighbour's note is used again.
  note n;
  const auto after = by_place_.find(end);
  if (after != by_place_.end() && after->second - begin <= largest_free) {
    const position far_end = after->second;
    n = remove(end, far_end);
    end = far_end;
  }
  const auto next = by_place_.lower_bound(begin);
  if (next != by_place_.begin()) {
    const auto [from, to] = *std::prev(next);
    if (to == begin && end - from <= largest_free) {
      n = remove(from, to);
      begin = from;
    }
  }
  try {
    if (n.place.empty()) n = make_note(begin, end);
    insert(std::move(n), begin, end);
  } catch (const std::bad_alloc&) {  // no neighbour, and no memory: the next opening finds [begin, end)
  }
}

area space::take(std::uint64_t length, std::uint64_t taken) {
  // A transaction that has taken much does not take small holes between slots of others.
  const std::uint64_t small = limits_.small, wanted = std::max({length, small, std::min(taken, limits_.largest)});
  auto found = by_size_.lower_bound({taken < small ? length : wanted, 0});
  if (found == by_size_.end()) {
    // If the store cannot grow by that much, uses its smaller free slots first.
    const bool may_grow = wanted <= region_.capacity() - region_.at<store_header>(0).end;
    if (!may_grow) found = by_size_.lower_bound({length, 0});
    if (found == by_size_.end()) {
      grow(may_grow ? wanted : length);
      found = by_size_.lower_bound({length, 0});
    }
  }
  const position begin = found->second, end = begin + found->first;
  position until = end;
  const bool is_cut = end - begin > small;
  if (is_cut) {
    until = begin + std::min(round_to_8(wanted), end - begin);
    // Ends the area at a page's end if possible, so that whole pages can be written.
    if (const position even = (until + 4095) / 4096 * 4096; even < end) until = even;
    cut(begin, until, end);
  }
  note n = remove(begin, end);
  if (until != end) insert(std::move(n), until, end);
  return {begin, until, begin, is_cut && until - begin <= largest_free};
}

// Commits lazily: the cut becomes durable together with the commit that needs it, or before.
void space::cut(position begin, position middle, position end) {
  rvm::transaction tx = memory_.begin();
  for (position p = begin; p < middle; p += largest_free) tx.set_range(at(p), 8);
  for (position p = middle; p < end; p += largest_free) tx.set_range(at(p), 8);
  write_free(begin, middle);
  write_free(middle, end);
  tx.commit(rvm::commit_mode::no_flush);
}

void space::grow(std::uint64_t length) {
  auto& header = region_.at<store_header>(0);
  const std::uint64_t step = std::uint64_t{1} << 20;
  const std::uint64_t most = region_.capacity(), end = header.end;
  if (length > most - end)
    throw failure(POBJ_ETOOBIG, path_ + ": the store is full: it has " + std::to_string(end) + " bytes, may have " +
                                    std::to_string(most) + " (max_size when it was made), and needs " +
                                    std::to_string(length) + " more");
  std::uint64_t more = std::max(length + 4096, std::min(end / 2, largest_free / 4));
  more = std::min((more + step - 1) / step * step, most - end);
  // Allocates the note first. If that failed after the store has grown, the new space would not be known as free, and
  // the next call would grow the store again.
  note n = make_note(end, end + more);
  if (more > region_.size() - end) memory_.grow_segment(path_, end + more);
  rvm::transaction tx = memory_.begin();
  tx.set_range(header.end);
  for (position p = end; p < end + more; p += largest_free) tx.set_range(at(p), 8);
  write_free(end, end + more);
  header.end = end + more;
  tx.commit(rvm::commit_mode::no_flush);
  insert(std::move(n), end, end + more);
}

}  // namespace tenure::pobj
