// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/block_map.hpp"

#include <algorithm>
#include <string>

#include "log/invariant.hpp"

namespace tenure::heap {

using rvm::require_invariant;

void block_map::check() const {
  const std::uint64_t end = header().blocks_end;
  require_invariant(end >= bookkeeping_blocks_of(kind_of_zone(0)) && end <= blocks_,
                    "the blocks that were ever used lie in the database");
  for (std::uint64_t zone = (end + blocks_in_zone - 1) / blocks_in_zone; zone < blocks_ / blocks_in_zone; ++zone)
    require_invariant(kind_of_zone(zone) == zone_kind::unused, "zones that were never used are unused");
  for (std::uint64_t block = 0; block < end;) {
    const std::uint64_t zone = block / blocks_in_zone;
    require_invariant(zone != 0 || has_blocks(kind_of_zone(zone)), "the first zone has the header");
    if (!has_blocks(kind_of_zone(zone))) {
      // Behind large objects check_large() skips the zones that they continue into.
      require_invariant(kind_of_zone(zone) == zone_kind::unused,
                        "a zone without bookkeeping belongs to a large object");
      block = (zone + 1) * blocks_in_zone;
    } else {
      block = check_block(block);
    }
  }
}

std::uint64_t block_map::end_of_used_blocks(std::uint64_t end) const {
  for (std::uint64_t b = end; b-- != 0;) {
    const std::uint64_t zone = b / blocks_in_zone;
    if (!has_blocks(kind_of_zone(zone))) {  // a large object may continue there: its first block says it
      b = zone * blocks_in_zone;
      continue;
    }
    if (is_bookkeeping(b) || entry(b).kind == block_kind::unused) continue;
    const std::uint64_t back = entry(b).kind == block_kind::continued ? entry(b).span : 0,
                        first = back <= b % blocks_in_zone ? b - back : b;
    return entry(first).kind == block_kind::large ? std::min(first + entry(first).span, end) : b + 1;
  }
  return 0;
}

bool block_map::is_unused(std::uint64_t zone) const {
  for (std::uint64_t b = zone * blocks_in_zone + bookkeeping_blocks_of(kind_of_zone(zone)); b < end_of_zone(zone); ++b)
    if (entry(b).kind != block_kind::unused) return false;
  return true;
}

std::uint64_t block_map::check_block(std::uint64_t block) const {
  const block_entry& e = entry(block);
  if (e.kind != block_kind::typed)
    require_invariant(record(block).pages == page_words{}, "only blocks of typed pages have words for them");
  require_invariant((e.kind == block_kind::bookkeeping) == is_bookkeeping(block), "a zone begins with its bookkeeping");
  require_invariant(e.kind != block_kind::typed || !is_headed(block), "objects of a headed zone have headers");
  if (is_bookkeeping(block)) return block + 1;
  const start_bits& here = starts(block);
  if (const transient_block* const y = find_transient_block(block); y != nullptr && y->first == block) {
    // [heap.object.once]
    require_invariant(here.is_disjoint_from(y->starts), "an object is persistent or transient, never both");
    require_invariant(e.kind == block_kind::unused || e.kind == y->kind, "a block has objects of one kind");
    for (std::size_t n = 0; n < pages_in_block; ++n)
      require_invariant(!record(block).pages[n].is_typed() || record(block).pages[n] == y->pages[n],
                        "a typed page has one type");
    check_typed_starts(y->pages, y->starts);
  }
  switch (e.kind) {
    case block_kind::unused:
      require_invariant(here.empty(), "no object starts in an unused block");
      require_invariant(e.used == 0 && e.span == 0, "the entry of an unused block is empty");
      return block + 1;
    case block_kind::small: {
      const std::uint64_t objects = here.count();
      require_invariant(objects != 0, "a block without objects is unused");
      require_invariant(objects <= e.used && e.used <= granules_in_block, "the granules in use fit the objects");
      return block + 1;
    }
    case block_kind::typed:
      require_invariant(here.count() != 0 && here.count() == e.used, "the objects of a typed block are counted");
      check_typed_starts(record(block).pages, here);
      for (std::size_t n = 0; n < pages_in_block; ++n)
        require_invariant(record(block).pages[n].is_typed() == !here.empty_in_page(n),
                          "a typed page without objects is free for any type");
      return block + 1;
    case block_kind::large: return check_large(block);
    default: require_invariant(false, "a continued block follows those of its large object"); return block + 1;
  }
}

void block_map::check_typed_starts(const page_words& pages, const start_bits& starts) {
  for (const page_word page : pages)
    require_invariant(!page.is_typed() || page.is_sound(), "a typed page has objects of some type and size");
  starts.for_each([&](std::uint64_t g) {
    const page_word page = pages[g * granule / typed_page_size];
    if (!page.is_typed()) return;
    const address object = object_of_bit(0, pages, g);
    require_invariant(object / granule == g && object % typed_page_size + page.stride() <= typed_page_size,
                      "an object of a typed page lies in a slot");
  });
}

std::uint64_t block_map::check_large(std::uint64_t first) const {
  const std::uint64_t end = first + entry(first).span;
  require_invariant(starts(first).count() == 1, "one object starts in the first block of a large object");
  require_invariant(end > first && end <= header().blocks_end, "a large object ends among the blocks in use");
  const std::uint64_t zone_end = (first / blocks_in_zone + 1) * blocks_in_zone;
  for (std::uint64_t b = first + 1; b < std::min(end, zone_end); ++b)
    require_invariant(entry(b).kind == block_kind::continued && entry(b).span == b - first && starts(b).empty(),
                      "the other blocks of a large object lead to its first");
  if (end <= zone_end) return end;
  for (std::uint64_t b = zone_end; b < end; b += blocks_in_zone)
    require_invariant(kind_of_zone(b / blocks_in_zone) == zone_kind::continued,
                      "a zone into which a large object continues has no bookkeeping");
  return (end + blocks_in_zone - 1) / blocks_in_zone * blocks_in_zone;
}

}  // namespace tenure::heap
