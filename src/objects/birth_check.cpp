// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The invariants of births.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "log/invariant.hpp"
#include "objects/birth.hpp"

namespace tenure::heap {

// [heap.blocks.once]
std::vector<std::string> birth::find_wrong_owners() const {
  std::vector<std::string> wrong;
  struct owned {
    std::uint64_t first, end;
    const char* by;
  };
  std::vector<owned> all;
  const auto take = [&](std::uint64_t first, std::uint64_t blocks, const char* by) {
    const std::uint64_t end = first + blocks, zone_end = (end + blocks_in_zone - 1) / blocks_in_zone * blocks_in_zone;
    if (blocks == 0) return;
    if (end > unused_from_) wrong.push_back("blocks from " + std::to_string(first) + " on are among " + by);
    // Nothing else is in use in the zones into which a large object continues.
    all.push_back({first, first / blocks_in_zone == (end - 1) / blocks_in_zone ? end : zone_end, by});
  };
  const auto take_unused = [&](const run& which, const char* by) {
    take(which.first, which.blocks, by);
    for (std::uint64_t b = which.first; b < which.first + which.blocks; ++b)
      if (b % blocks_in_zone >= bookkeeping_blocks && map_.holds_persistent(b))
        wrong.push_back("block " + std::to_string(b) + " has persistent objects, but is among " + by);
  };
  free_.for_each([&](std::uint64_t first, std::uint64_t blocks) {
    take_unused({first, blocks, false}, "the free blocks");
    if (held_large_.intersects(first, first + blocks))
      wrong.push_back("blocks from " + std::to_string(first) + " on are free, but held in part");
    for (std::uint64_t b = first; b < first + blocks; ++b)
      if (held_.contains(b)) wrong.push_back("block " + std::to_string(b) + " is free, but held in part");
  });
  for (const transient_block* y : all_) take(y->first, y->span, "those with transient objects");
  const auto take_ahead_of = [&](const area& in) {
    take_unused(in.ahead, "those to be used next");
    take_unused(in.spare, "those to be used then");
  };
  take_ahead_of(transaction_area_);
  take_ahead_of(other_area_);
  for (const lane& each : lanes_) take_ahead_of(each.in);
  for (const run& r : in_hand_) take_unused(r, "those for which a thread gets memory");
  std::ranges::sort(all, {}, &owned::first);
  for (std::size_t n = 1; n < all.size(); ++n)
    if (all[n].first < all[n - 1].end)
      wrong.push_back("block " + std::to_string(all[n].first) + " has two owners: " + all[n - 1].by + " and " +
                      all[n].by);
  auto next = all.begin();
  for (std::uint64_t b = 0; b < std::min(unused_from_, map_.blocks());) {
    while (next != all.end() && next->end <= b) ++next;
    if (map_.kind_of_zone(b / blocks_in_zone) == zone_kind::continued) {
      b = (b / blocks_in_zone + 1) * blocks_in_zone;
    } else if (next != all.end() && next->first <= b) {
      b = next->end;
    } else {
      const bool has_other_use = (b >= scan_from_ && b < scan_end_) || held_.contains(b) || held_large_.contains(b) ||
                                 std::ranges::find(unoffered_, b) != unoffered_.end();
      if (b % blocks_in_zone >= bookkeeping_blocks && !has_other_use && !map_.holds_persistent(b))
        wrong.push_back("block " + std::to_string(b) + " is unused, but not among the free blocks");
      ++b;
    }
  }
  return wrong;
}

void birth::check() const {
  using rvm::require_invariant;
  free_.check();
  const std::vector<std::string> wrong = find_wrong_owners();
  require_invariant(wrong.empty(), wrong.empty() ? "" : "each block has one owner, but " + wrong.front());
  require_invariant(unused_from_ >= map_.header().blocks_end && unused_from_ % blocks_in_zone >= bookkeeping_blocks,
                    "space that was never used begins behind all blocks");
  require_invariant(scan_end_ <= unused_from_, "only blocks that were used are scanned");
  for (const auto* sparse : {&sparse_, &sparse_typed_})
    require_invariant(sparse->empty() || *sparse->rbegin() < unused_from_, "only blocks with objects are filled again");
  check_transient_blocks();
  check_area(transaction_area_);
  check_area(other_area_);
  for (const lane& each : lanes_) check_area(each.in);
  check_classes();
}

void birth::check_transient_blocks() const {
  using rvm::require_invariant;
  std::unordered_set<const transient_block*> emptied(emptied_.begin(), emptied_.end());
  emptied.insert(compared_.begin(), compared_.end());
  const std::unordered_set<const transient_block*> unreleased(unreleased_.begin(), unreleased_.end());
  require_invariant(emptied.size() == emptied_.size() + compared_.size(), "a block is emptied once");
  require_invariant(in_transaction_ ? unreleased_.empty() : touched_.empty(), "only a transaction touches blocks");
  require_invariant(promoted_.empty(), "only a commit promotes objects");
  std::size_t touched = 0, known_emptied = 0;
  for (const transient_block* y : all_) {
    for (std::uint64_t b = y->first; b < y->first + y->span; ++b)
      require_invariant(map_.find_transient_block(b) == y, "transient objects are found by their block");
    require_invariant(!y->has_promoted && y->promoted.empty(), "what was promoted is persistent after the commit");
    const bool is_large = y->kind == block_kind::large;
    require_invariant(!is_large || y->starts.count() <= 1, "a large object has its blocks for itself");
    require_invariant(is_large || y->span == 1, "small objects lie in single blocks");
    require_invariant(y->kind == block_kind::typed || (y->cursors == 0 && y->pages == page_words{}),
                      "only blocks of typed pages have words for them");
    require_invariant(!y->is_quiet || (y->starts.empty() && !y->is_shared), "a quiet block has nothing transient");
    require_invariant(y->is_quiet != map_.may_have_transients(y->first), "it is known which blocks are quiet");
    touched += y->touched != 0;
    require_invariant(y->touched <= level(), "only levels that are open touch blocks");
    // [heap.transient.shared]
    require_invariant(y->is_emptied == emptied.contains(y), "a block that counts as emptied is listed");
    known_emptied += y->is_emptied;
    bool is_used = y->touched != 0 || y->is_emptied || y->cursors != 0 || unreleased.contains(y);
    for (const area* in : {&transaction_area_, &other_area_, &area_at_begin_})
      is_used = is_used || y == in->within || y == in->typed;
    is_used = is_used || (y->lane != 0 && y == lanes_[y->lane - 1].in.typed);
    require_invariant(is_used || !y->starts.empty(), "a block without transient objects is given back");
  }
  require_invariant(touched == touched_.size(), "an abort knows all blocks that the transaction has touched");
  require_invariant(known_emptied == emptied.size(), "the list of emptied blocks has blocks with transient objects");
}

void birth::check_area(const area& in) const {
  using rvm::require_invariant;
  require_invariant(in.typed == nullptr || (all_.contains(in.typed) && in.typed->kind == block_kind::typed),
                    "the next typed page lies in a block for them");
  if (in.within == nullptr) {
    require_invariant(in.next == in.limit, "free memory of an area lies in its block");
    return;
  }
  const transient_block& y = *in.within;
  require_invariant(all_.contains(in.within) && y.kind == block_kind::small, "the block of an area is its own");
  const address begin = map_.start_of(y.first), end = begin + block_size;
  const auto check_hole = [&](address from, address to) {
    require_invariant(from >= begin && from <= to && to <= end, "free memory of an area lies in its block");
    if (from == to) return;
    const std::uint64_t last = y.starts.find_last((to - 1 - begin) / granule);
    // The first granule may have the end of an object.
    require_invariant(last == start_bits::none || begin + last * granule < from,
                      "free memory of an area has no object");
  };
  check_hole(in.next, in.limit);
  for (const auto& [from, to] : in.holes) check_hole(from, to);
}

}  // namespace tenure::heap
