// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/stored_database.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "log/format.hpp"
#include "objects/header_check.hpp"
#include "os/system_error.hpp"

namespace tenure::cache {

using heap::block_kind;
using heap::block_size;
using heap::blocks_in_zone;
using heap::granule;
using heap::start_bits;
using heap::zone_kind;
using heap::zone_size;

namespace {

rvm::segment_info described(rvm::memory& memory, const rvm::segment_member& member) {
  rvm::segment_info info = memory.describe_segment(member.path);
  if (info.id != member.id)
    throw error(errc::wrong_log, member.path +
                                     ": is not the database of this store, but another one's file, or an older one; "
                                     "put the right one back, or restore the store from a backup, with all its files");
  if (info.tag != heap::database_tag)
    throw error(errc::not_a_segment, member.path + ": is a segment, but no database of a store");
  if (!info.is_of_this_log)
    throw error(errc::wrong_log, member.path + ": its last changes were made under another log than " +
                                     memory.log_path() +
                                     ": one of the two belongs to another store; put the right one in place");
  return info;
}

}  // namespace

stored_database::stored_database(rvm::memory& memory, const rvm::segment_member& member, page_pool& pool,
                                 bool is_read_only)
    : memory_(memory),
      pool_(pool),
      file_(member.path),
      name_(std::filesystem::path(member.path).stem()),
      is_read_only_(is_read_only) {
  const rvm::segment_info info = described(memory, member);
  home_ = info.home;
  capacity_ = info.max_length;
  segment_ = memory.open_pages(file_);
  length_ = segment_.size();
}

bool stored_database::is_blank() {
  std::vector<std::byte> bytes(heap::records_at + heap::record_page);
  if (!has(0, bytes.size())) return false;
  pool_.read(segment_, 0, bytes);
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; });
}

heap::database_header stored_database::header() { return at<heap::database_header>(0); }

void stored_database::require_right_header() {
  const heap::database_header h = header();
  heap::require_right_header(h, {file_, home_, capacity_ + heap::vtable_area, is_read_only_});
  if (h.blocks_end > segment_.size() / block_size)
    throw damaged("its blocks end at " + std::to_string(h.blocks_end) + ", beyond the segment's end");
}

error stored_database::damaged(const std::string& what) const {
  return {errc::damaged,
          file_ + ": is damaged: " + what + "; `tenure verify` says what else is; restore it from a backup"};
}

// In steps, as the object heap does: each takes one sync.
void stored_database::grow(std::uint64_t length) {
  const std::uint64_t now = length_ = segment_.size();
  if (length <= now) return;
  const std::uint64_t step = std::clamp<std::uint64_t>(now / 4, heap::least_growth, heap::most_growth);
  const std::uint64_t wanted = rvm::round_up(std::max(length, now + step), heap::growth_unit);
  memory_.grow_segment(file_, std::min(wanted, capacity_));
  length_ = segment_.size();
}

// [cache.fault.resolve] The same as block_map::find_persistent.
const stored_database::block_record& stored_database::record(std::uint64_t block) {
  known_record& known = known_[block % known_.size()];
  if (known.block == block) return known.record;
  const std::uint64_t zone = block / blocks_in_zone, in_zone = block % blocks_in_zone;
  block_record r{};
  r.zone = kind_of_zone(zone);
  switch (r.zone) {
    case zone_kind::ordinary: {
      const auto stored = at<heap::block_record>(zone * zone_size + heap::record_offset(in_zone));
      r.entry = stored.entry;
      r.pages = stored.pages;
      r.starts = stored.starts;
      break;
    }
    case zone_kind::headed:
      r.entry = at<heap::block_entry>(zone * zone_size + heap::headed_entries_at + in_zone * sizeof(heap::block_entry));
      r.starts = at<start_bits>(zone * zone_size + heap::headed_starts_at + in_zone * sizeof(start_bits));
      break;
    default: break;
  }
  known = {block, r};  // an error in reading leaves what was known before
  return known.record;
}

std::uint64_t stored_database::head_of(std::uint64_t block) {
  std::uint64_t zone = block / blocks_in_zone;
  if (record(block).zone == zone_kind::continued) {
    while (zone != 0 && kind_of_zone(zone) == zone_kind::continued) --zone;
    block = (zone + 1) * blocks_in_zone - 1;  // the last block of the zone in which the object begins
  }
  const heap::block_entry& e = record(block).entry;
  switch (e.kind) {
    case block_kind::small:
    case block_kind::typed:
    case block_kind::large: return block;
    case block_kind::continued: return e.span <= block % blocks_in_zone ? block - e.span : start_bits::none;
    default: return start_bits::none;
  }
}

stored_database::stored_object stored_database::headed_object(std::uint64_t offset) {
  const auto h = at<heap::object_header>(offset - sizeof(heap::object_header));
  std::uint64_t size = h.size;
  if (h.size == heap::huge_size) size = at<std::uint64_t>(offset - 2 * sizeof(heap::object_header));
  if (!has(offset, size))
    throw damaged("the object at " + os::hexadecimal(home_ + offset) + " has " + std::to_string(size) +
                  " bytes, more than the segment");
  return {home_ + offset, h.type & (heap::most_types - 1), size};
}

stored_database::stored_object stored_database::find(std::uint64_t address) {
  if (!contains(address) || !has(address - home_, 1)) return {};
  const std::uint64_t offset = address - home_, block = offset / block_size, head = head_of(block);
  if (head == start_bits::none) return {};
  const block_record& r = record(head);
  if (r.entry.kind == block_kind::typed) {
    const heap::page_word page = r.pages[offset % block_size / heap::typed_page_size];
    if (!page.is_typed()) return {};
    if (!page.is_sound()) throw damaged("the page of " + os::hexadecimal(address) + " has an impossible type");
    const std::uint64_t start = block * block_size;
    // An object may start at offset 0 of a block, but never of the database.
    const heap::address object = heap::block_map::find_typed(r.pages, r.starts, start, offset);
    if (object == 0 || !has(object, page.size())) return {};
    return {home_ + object, page.type(), page.size()};
  }
  const std::uint64_t in = head == block ? offset % block_size / granule : heap::granules_in_block - 1;
  const std::uint64_t start = r.starts.find_last(in);
  if (start == start_bits::none) return {};
  const std::uint64_t object = head * block_size + start * granule;
  if (offset < object || object < 2 * sizeof(heap::object_header)) return {};
  const stored_object found = headed_object(object);
  return offset - object < found.size ? found : stored_object{};
}

}  // namespace tenure::cache
