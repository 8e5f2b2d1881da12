// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/space.hpp"

#include <algorithm>

#include "pobj/errors.hpp"

namespace tenure::pobj {

namespace {

// Free slots up to this length are taken as they are; longer ones are cut.
constexpr std::uint64_t small = std::uint64_t{64} << 10;
// What a transaction takes at a time once it has taken much.
constexpr std::uint64_t largest_step = std::uint64_t{16} << 20;

}  // namespace

std::uint64_t space::next_serial(position p) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << slot_word::serial_bits) - 1;
  if ((++serial_ & mask) == word_at(p).serial()) ++serial_;
  return serial_ & mask;
}

void space::write_free(position begin, position end) const {
  while (begin != end) {
    const std::uint64_t length = std::min(end - begin, largest_free);
    // The serial stays, for who comes next.
    set_word(begin, slot_word::of(length - 8, slot_word::type_free, word_at(begin).serial()));
    begin += length;
  }
}

void space::remove(position begin, position end) {
  by_place_.erase(begin);
  by_size_.erase({end - begin, begin});
}

void space::add(position begin, position end) {
  if (begin == end) return;
  const auto after = by_place_.lower_bound(begin);
  if (after != by_place_.end() && after->first == end && after->second - begin <= largest_free) {
    const position far_end = after->second;
    remove(end, far_end);
    end = far_end;
  }
  const auto next = by_place_.lower_bound(begin);
  if (next != by_place_.begin()) {
    const auto [from, to] = *std::prev(next);
    if (to == begin && end - from <= largest_free) {
      remove(from, to);
      begin = from;
    }
  }
  by_place_.emplace(begin, end);
  by_size_.emplace(end - begin, begin);
}

area space::take(std::uint64_t length, std::uint64_t taken) {
  // Who has taken much wants no holes between the slots of others.
  const std::uint64_t wanted = std::max({length, small, std::min(taken, largest_step)});
  auto found = by_size_.lower_bound({taken < small ? length : wanted, 0});
  if (found == by_size_.end()) {
    grow(wanted);
    found = by_size_.lower_bound({wanted, 0});
  }
  const position begin = found->second, end = begin + found->first;
  position until = end;
  const bool is_cut = end - begin > small;
  if (is_cut) {
    until = begin + std::min(round_to_8(wanted), end - begin);
    // Whole pages, so that pages can be written whole.
    if (const position even = (until + 4095) / 4096 * 4096; even < end) until = even;
    cut(begin, until, end);
  }
  remove(begin, end);
  if (until != end) add(until, end);
  return {begin, until, begin, is_cut && until - begin <= largest_free};
}

// Lazily: it becomes durable with, or before, the commit that needs it.
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
  if (more > region_.size() - end) memory_.grow_segment(path_, end + more);
  rvm::transaction tx = memory_.begin();
  tx.set_range(header.end);
  for (position p = end; p < end + more; p += largest_free) tx.set_range(at(p), 8);
  write_free(end, end + more);
  header.end = end + more;
  tx.commit(rvm::commit_mode::no_flush);
  add(end, end + more);
}

}  // namespace tenure::pobj
