// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/new_space.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include <tenure/error.hpp>

namespace tenure::rewriting {

using namespace heap;

namespace {

[[nodiscard]] constexpr std::uint64_t up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

new_space::new_space(std::string name, address home, std::uint64_t capacity, std::uint64_t typed_from)
    : name_(std::move(name)), home_(home), blocks_(capacity / block_size), typed_from_(typed_from) {
  use_zone(0, zone_kind::ordinary);
}

void new_space::use_zone(std::uint64_t zone, zone_kind kind) {
  if (zone >= kinds_.size()) {
    kinds_.resize(zone + 1, zone_kind::unused);
    zones_.resize(zone + 1);
  }
  kinds_[zone] = kind;
  if (kind != zone_kind::ordinary || zones_[zone] != nullptr) return;
  zones_[zone] = std::make_unique<zone_records>(std::min(blocks_in_zone, blocks_ - zone * blocks_in_zone));
  for (std::uint64_t n = 0; n < bookkeeping_blocks; ++n) (*zones_[zone])[n].entry.kind = block_kind::bookkeeping;
}

block_record& new_space::record(std::uint64_t block) const {
  return (*zones_[block / blocks_in_zone])[block % blocks_in_zone];
}

void new_space::set_start(address object) {
  const std::uint64_t block = block_of(object);
  record(block).starts.set((object - start_of(block)) / granule);
}

std::uint64_t new_space::take_block() {
  if (left_.empty()) return take_blocks(1);
  auto& [first, count] = left_.back();
  const std::uint64_t block = first++;
  if (--count == 0) left_.pop_back();
  return block;
}

std::uint64_t new_space::take_blocks(std::uint64_t count) {
  std::uint64_t first = unused_from_;
  const std::uint64_t rest = blocks_in_zone - first % blocks_in_zone;
  if (count > rest && first % blocks_in_zone > bookkeeping_blocks) first += rest + bookkeeping_blocks;
  const std::uint64_t end = first + count;
  if (end > blocks_)
    throw error(errc::out_of_memory, name_ + ": the new database is full: its reservation of " +
                                         std::to_string(blocks_ * block_size) + " bytes has no room for " +
                                         std::to_string(count * block_size) + " more; choose a larger one");
  if (first != unused_from_) left_.emplace_back(unused_from_, rest);
  const std::uint64_t zone = first / blocks_in_zone, last_zone = (end - 1) / blocks_in_zone;
  use_zone(zone, zone_kind::ordinary);
  for (std::uint64_t z = zone + 1; z <= last_zone; ++z) use_zone(z, zone_kind::continued);
  blocks_end_ = end;
  // The rest of a zone into which an object continues has no bookkeeping.
  unused_from_ = last_zone != zone ? (last_zone + 1) * blocks_in_zone : end;
  if (unused_from_ % blocks_in_zone == 0) unused_from_ += bookkeeping_blocks;
  return first;
}

bool new_space::has_header(address object) const {
  const std::uint64_t block = block_of(object);
  return !record(block).pages[(object - start_of(block)) / typed_page_size].is_typed();
}

address new_space::place(const new_object& what) {
  const std::uint64_t alignment = std::max(what.alignment, granule), size = std::max<std::uint64_t>(what.size, 1);
  if (what.may_be_typed && page_word::suits(what.size, what.alignment)) {
    object_class& in = classes_[std::uint64_t{what.type} << 12 | what.size];
    if (in.with_headers >= typed_from_) return place_typed(in, page_word(what.type, what.size, what.is_pointer_free));
    in.with_headers += what.size;
  }
  return size + alignment <= largest_small ? place_small(size, alignment) : place_large(size, alignment);
}

address new_space::place_typed(object_class& in, page_word word) {
  if (in.next + word.stride() > in.limit) {
    if (next_page_ == pages_in_block) {
      typed_block_ = take_block();
      record(typed_block_).entry.kind = block_kind::typed;
      next_page_ = 0;
    }
    in.next = start_of(typed_block_) + next_page_ * typed_page_size;
    in.limit = in.next + typed_page_size;
    record(typed_block_).pages[next_page_++] = word;
  }
  const address object = std::exchange(in.next, in.next + word.stride());
  set_start(object);
  ++record(block_of(object)).entry.used;
  return object;
}

address new_space::place_small(std::uint64_t size, std::uint64_t alignment) {
  address object = up(next_ + sizeof(object_header), alignment);
  if (object + size > limit_) {
    const std::uint64_t block = take_block();
    record(block).entry.kind = block_kind::small;
    next_ = start_of(block);
    limit_ = next_ + block_size;
    object = up(next_ + sizeof(object_header), alignment);
  }
  next_ = object + size;
  set_start(object);
  block_entry& entry = record(block_of(object)).entry;
  entry.used = static_cast<std::uint16_t>(entry.used + granules_of(size));
  return object;
}

address new_space::place_large(std::uint64_t size, std::uint64_t alignment) {
  const std::uint64_t before = up(header_bytes(size), alignment),
                      blocks = (before + size + block_size - 1) / block_size;
  const std::uint64_t first = take_blocks(blocks), end_of_zone = (first / blocks_in_zone + 1) * blocks_in_zone;
  record(first).entry = {block_kind::large, 0, 0, static_cast<std::uint32_t>(blocks)};
  for (std::uint64_t b = first + 1; b < std::min(end_of_zone, first + blocks); ++b)
    record(b).entry = {block_kind::continued, 0, 0, static_cast<std::uint32_t>(b - first)};
  const address object = start_of(first) + before;
  set_start(object);
  return object;
}

}  // namespace tenure::rewriting
