// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What inner transactions make. The first level of a transaction is the outermost one. A block that a level changes first of all is
// noted in itself, as it was when the transaction began; one that an outer level has changed before is noted in the level, as it was
// when the level began [heap.inner.births].
#include <algorithm>
#include <cassert>
#include <utility>

#include "objects/birth.hpp"
#include "os/room_for_one.hpp"

namespace tenure::heap {

void birth::begin_level() {
  const std::scoped_lock lock(whole_);
  assert(in_transaction_);
  os::reserve_one_more(levels_);
  levels_.push_back({transaction_area_, touched_.size(), used_classes_.size(), {}, {}});
}

namespace {

// What the level has noted is noted in the next outer one, unless that has noted it before. Nothing is allocated.
template <class Noted, class MarkOf>
void hand_over(Noted& from, Noted* to, std::uint32_t outer, MarkOf&& mark_of) noexcept {
  while (!from.empty()) {
    auto node = from.extract(from.begin());
    auto& level_of_it = mark_of(*node.key());
    const std::uint32_t before = mark_of(node.mapped());
    level_of_it = outer;
    if (before < outer) to->insert(std::move(node));
  }
}

}  // namespace

void birth::commit_level() noexcept {
  const std::scoped_lock lock(whole_);
  inner_level& ended = levels_.back();
  inner_level* const next = levels_.size() > 1 ? &levels_[levels_.size() - 2] : nullptr;
  const std::uint32_t outer = level() - 1;
  hand_over(
      ended.blocks, next != nullptr ? &next->blocks : nullptr, outer, [](auto& of) -> auto& { return of.touched; });
  hand_over(
      ended.classes, next != nullptr ? &next->classes : nullptr, outer, [](auto& of) -> auto& { return of.used; });
  for (std::size_t n = ended.touched; n < touched_.size(); ++n)
    touched_[n]->touched = std::min(touched_[n]->touched, outer);
  for (std::size_t n = ended.used_classes; n < used_classes_.size(); ++n)
    used_classes_[n]->used = std::min(used_classes_[n]->used, outer);
  levels_.pop_back();
}

// As abort(). A block with persistent objects stays one that the transaction has touched: bytes of what was made there are left
// beside them, and count for nothing as long as the block may have transient objects. So does one that memory is too short to give
// back: the end of the transaction does so.
void birth::abort_level() noexcept {
  const std::scoped_lock lock(whole_);
  inner_level ended = std::move(levels_.back());
  levels_.pop_back();
  const std::uint32_t outer = level();
  for (auto& [of, was] : ended.classes) {
    return_to(*of, was.at, was.with_headers);
    of->used = was.used;
  }
  restore_cursors(ended.used_classes);
  for (auto& [y, was] : ended.blocks) {
    y->starts = was.starts;
    y->pages = was.pages;
    y->touched = was.touched;
  }
  restore_area(std::move(ended.at_begin));
  const auto first = touched_.begin() + static_cast<std::ptrdiff_t>(ended.touched);
  for (auto y = first; y != touched_.end(); ++y) {
    (*y)->starts = (*y)->starts_at_begin;
    (*y)->pages = (*y)->pages_at_begin;
  }
  const auto gone = [&](transient_block* y) {
    if (!map_.holds_persistent(y->first)) {
      y->touched = 0;
      if (try_release(*y)) return true;
    }
    y->touched = outer;
    return false;
  };
  touched_.erase(std::remove_if(first, touched_.end(), gone), touched_.end());
}

void birth::forget_in_levels(transient_block& in, const start_bits& gone) {
  for (inner_level& each : levels_) {
    const auto noted = each.blocks.find(&in);
    if (noted == each.blocks.end()) continue;
    for (std::size_t n = 0; n < start_bits::words; ++n) noted->second.starts.word(n) &= ~gone.word(n);
  }
}

bool birth::has_older_transients() const {
  return std::ranges::any_of(all_, [](const transient_block* y) {
    for (std::size_t n = 0; n < start_bits::words; ++n)
      if ((y->touched != 0 ? y->starts.word(n) & y->starts_at_begin.word(n) : y->starts.word(n)) != 0) return true;
    return false;
  });
}

}  // namespace tenure::heap
