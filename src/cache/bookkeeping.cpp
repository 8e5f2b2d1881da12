// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/bookkeeping.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include <tenure/error.hpp>

#include "os/system_error.hpp"

namespace tenure::cache {

using heap::block_entry;
using heap::block_kind;
using heap::block_size;
using heap::blocks_in_zone;
using heap::bookkeeping_blocks;
using heap::granule;
using heap::zone_kind;
using heap::zone_size;

heap::zone_kind& bookkeeping::zone(std::uint64_t number) { return pages_.at<zone_kind>(heap::zone_kinds_at + number); }

heap::record_view bookkeeping::record(std::uint64_t block) {
  const std::uint64_t start = block / blocks_in_zone * zone_size, in_zone = block % blocks_in_zone;
  if (zone(block / blocks_in_zone) != zone_kind::headed) {
    auto& stored = pages_.at<heap::block_record>(start + heap::record_offset(in_zone));
    return {stored.entry, stored.pages, stored.starts};
  }
  static heap::page_words none;  // blocks of headed zones have no typed pages
  return {pages_.at<block_entry>(start + heap::headed_entries_at + in_zone * sizeof(block_entry)), none,
          pages_.at<heap::start_bits>(start + heap::headed_starts_at + in_zone * sizeof(heap::start_bits))};
}

// Its bookkeeping may have been in use before, or a large object may have covered it.
void bookkeeping::open_zone(std::uint64_t number) {
  if (heap::has_blocks(zone(number))) return;
  assert(number != 0);  // the header's
  zone(number) = zone_kind::ordinary;
  static constexpr std::array<std::byte, edited_pages::page_length> zeros{};
  for (std::uint64_t at = heap::records_at; at < heap::bookkeeping_size; at += zeros.size())
    pages_.write(number * zone_size + at, zeros);
  for (std::uint64_t n = 0; n < bookkeeping_blocks; ++n)
    record(number * blocks_in_zone + n).entry = {block_kind::bookkeeping, 0, 0, 0};
}

void bookkeeping::add(std::uint64_t home, std::uint64_t size, const places::use& in) {
  const std::uint64_t offset = home - of_.home(), block = offset / block_size;
  open_zone(block / blocks_in_zone);
  const heap::record_view r = record(block);
  r.starts.set(offset % block_size / granule);
  r.entry.kind = in.kind;
  switch (in.kind) {
    case block_kind::typed: {
      const std::size_t page = offset % block_size / heap::typed_page_size;
      assert(!r.pages[page].is_typed() || r.pages[page] == in.pages[page]);
      r.pages[page] = in.pages[page];
      ++r.entry.used;
      break;
    }
    case block_kind::small:
      r.entry.used = static_cast<std::uint16_t>(r.entry.used + heap::granules_of(size));
      assert(r.entry.used <= heap::granules_in_block);
      break;
    default: {
      const std::uint64_t end = block + in.blocks, zone_end = (block / blocks_in_zone + 1) * blocks_in_zone;
      r.entry = {block_kind::large, 0, 0, static_cast<std::uint32_t>(in.blocks)};
      for (std::uint64_t b = block + 1; b < std::min(end, zone_end); ++b)
        record(b).entry = {block_kind::continued, 0, 0, static_cast<std::uint32_t>(b - block)};
      for (std::uint64_t b = zone_end; b < end; b += blocks_in_zone) zone(b / blocks_in_zone) = zone_kind::continued;
    }
  }
  auto& header = pages_.at<heap::database_header>(0);
  header.blocks_end = std::max(header.blocks_end, block + in.blocks);
}

places::freed bookkeeping::remove(std::uint64_t home, std::uint64_t size) {
  const std::uint64_t offset = home - of_.home(), block = offset / block_size, bit = offset % block_size / granule;
  const heap::record_view r = record(block);
  if (!heap::has_blocks(zone(block / blocks_in_zone)) || !r.starts.test(bit))
    throw of_.damaged("no object starts at " + os::hexadecimal(home) + ", where one is to be destroyed");
  places::freed was{home, size, {r.entry.kind, r.pages}};
  r.starts.reset(bit);
  if (r.entry.kind == block_kind::large) {
    was.was.blocks = r.entry.span;
    free_blocks(block, r.entry.span);
    return was;
  }
  const std::size_t page = offset % block_size / heap::typed_page_size;
  const std::uint64_t taken = r.entry.kind == block_kind::typed ? 1 : heap::granules_of(size);
  if (r.pages[page].is_typed() && r.starts.empty_in_page(page)) r.pages[page] = {};
  if (r.entry.used < taken)
    throw of_.damaged("the block of the object at " + os::hexadecimal(home) + " says that it has no objects");
  r.entry.used = static_cast<std::uint16_t>(r.entry.used - taken);
  if (r.entry.used == 0) r.entry = {};
  return was;
}

void bookkeeping::free_blocks(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t end = first + count, zone_end = std::min(end, (first / blocks_in_zone + 1) * blocks_in_zone);
  if (count == 0 || end > of_.blocks())
    throw of_.damaged("the object in block " + std::to_string(first) + " has " + std::to_string(count) + " blocks");
  for (std::uint64_t b = first; b < zone_end; ++b) record(b).entry = {};
  for (std::uint64_t b = zone_end; b < end; b += blocks_in_zone) zone(b / blocks_in_zone) = zone_kind::unused;
}

}  // namespace tenure::cache
