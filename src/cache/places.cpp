// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/places.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <optional>

#include <tenure/error.hpp>

#include "os/system_error.hpp"

namespace tenure::cache {

using heap::block_kind;
using heap::block_size;
using heap::blocks_in_zone;
using heap::bookkeeping_blocks;
using heap::granule;
using heap::page_word;
using heap::zone_kind;

namespace {

std::uint64_t up(std::uint64_t at, std::uint64_t to) { return (at + to - 1) & ~(to - 1); }
std::uint64_t class_of(page_word word) { return std::uint64_t{word.type()} << 12 | word.size(); }

}  // namespace

std::uint64_t places::take(const heap::new_object& what) {
  begin();
  const std::uint64_t alignment = std::max(what.alignment, granule), size = std::max<std::uint64_t>(what.size, 1);
  if (size + alignment > heap::largest_small) return take_large(size, alignment);
  if (what.may_be_typed && page_word::suits(what.size, what.alignment)) {
    const page_word word(what.type, what.size, what.is_pointer_free);
    stretch& of = typed_[class_of(word)];
    // A type with few objects would leave most of a page unused.
    if (of.with_headers >= typed_from_ || !of.free.empty())
      if (const std::uint64_t home = take_typed(word); home != 0) return home;
    of.with_headers += size;
  }
  return take_headed(size, alignment);
}

// 0: the next block that is free has no typed pages, because its zone is of format 1.
std::uint64_t places::take_typed(page_word word) {
  stretch& of = typed_[class_of(word)];
  if (!of.free.empty()) {
    const std::uint64_t home = of.free.back();
    of.free.pop_back();
    return home;
  }
  if (of.end - of.next < word.stride()) {
    if (typed_pages_ == heap::pages_in_block) {
      if (is_in_headed_zone_) return 0;
      const std::uint64_t block = take_blocks(1, [&](std::uint64_t taken) {
        if (of_.kind_of_zone(taken / blocks_in_zone) == zone_kind::headed)
          begin_headed(taken);
        else
          uses_.emplace(taken, use{block_kind::typed});
      });
      if (uses_.at(block).kind != block_kind::typed) return 0;
      typed_block_ = block;
      typed_pages_ = 0;
    }
    uses_.at(typed_block_).pages[typed_pages_] = word;
    of.next = home_of(typed_block_) + typed_pages_ * heap::typed_page_size;
    of.end = of.next + heap::typed_page_size;
    ++typed_pages_;
  }
  const std::uint64_t home = of.next;
  of.next += word.stride();
  return home;
}

std::uint64_t places::take_headed(std::uint64_t size, std::uint64_t alignment) {
  const std::uint64_t granules = heap::granules_of(size);
  for (auto alike = headed_.lower_bound({granules, std::countr_zero(alignment)});
       alike != headed_.end() && alike->first.first == granules; ++alike) {
    if (alike->second.empty()) continue;
    const std::uint64_t home = alike->second.back();
    alike->second.pop_back();
    return home;
  }
  stretch& in = headed_last_;
  std::uint64_t home = up(in.next + sizeof(heap::object_header), alignment);
  if (in.next == 0 || home + size > in.end) {
    take_blocks(1, [&](std::uint64_t taken) { begin_headed(taken); });
    home = up(in.next + sizeof(heap::object_header), alignment);
  }
  in.next = home + size;
  return home;
}

void places::begin_headed(std::uint64_t block) {
  const bool is_in_headed_zone = of_.kind_of_zone(block / blocks_in_zone) == zone_kind::headed;
  uses_.emplace(block, use{block_kind::small});  // from here on nothing fails
  headed_last_.next = home_of(block);
  headed_last_.end = headed_last_.next + block_size;
  is_in_headed_zone_ = is_in_headed_zone;
}

std::uint64_t places::take_large(std::uint64_t size, std::uint64_t alignment) {
  constexpr std::uint64_t most = heap::huge_size - 1;
  if (alignment > block_size / 2 || size > most)
    throw error(errc::out_of_memory, of_.file() + ": an object of " + std::to_string(size) + " bytes, aligned to " +
                                         std::to_string(alignment) +
                                         ", is too large for a cache, which stores at most " + std::to_string(most) +
                                         " bytes in one object; tenure::store stores larger ones");
  const std::uint64_t before = up(heap::header_bytes(size), alignment),
                      blocks = (before + size + block_size - 1) / block_size;
  const std::uint64_t first = take_blocks(blocks, [&](std::uint64_t taken) {
    uses_.emplace(taken, use{block_kind::large, {}, blocks});
  });
  return home_of(first) + before;
}

const places::use& places::use_of(std::uint64_t home) const {
  const auto found = std::prev(uses_.upper_bound(block_of(home)));
  assert(block_of(home) < found->first + found->second.blocks);
  return found->second;
}

bool places::is_taken(std::uint64_t block) const {
  const auto behind = uses_.upper_bound(block);
  if (behind == uses_.begin()) return false;
  const auto found = std::prev(behind);
  return block < found->first + found->second.blocks;
}

// [cache.commit.captured]
void places::give_back(std::uint64_t home, std::uint64_t size) noexcept {
  try {
    remember(home, size);
  } catch (const std::bad_alloc&) {
  }
}

void places::remember(std::uint64_t home, std::uint64_t size) {
  const std::uint64_t block = block_of(home);
  const use& in = use_of(home);
  switch (in.kind) {
    case block_kind::typed: {
      const page_word word = in.pages[(home - home_of(block)) / heap::typed_page_size];
      typed_[class_of(word)].free.push_back(home);
      return;
    }
    case block_kind::small: {
      // The largest object of as many granules must fit, which the block's last place may not allow.
      const std::uint64_t granules = heap::granules_of(std::max<std::uint64_t>(size, 1));
      if (home + granules * granule - sizeof(heap::object_header) <= home_of(block + 1))
        headed_[{granules, std::countr_zero(home)}].push_back(home);
      return;
    }
    default: {
      const std::uint64_t blocks = in.blocks;
      uses_.erase(block);
      free(block, blocks);
    }
  }
}

// Blocks that have got new objects of this process stay what they are, also when they become empty; so do those that others
// were destroyed in.
void places::add(const freed& what) noexcept {
  assert(free_);
  try {
    if (!is_taken(block_of(what.home))) uses_.emplace(block_of(what.home), what.was);
  } catch (const std::bad_alloc&) {
    return;
  }
  give_back(what.home, what.size);
}

// --- Blocks ----------------------------------------------------------------------------------------------------------------

// An error leaves it to the next call.
void places::begin() {
  if (free_) return;
  const heap::database_header h = of_.header();
  std::uint64_t never_used = h.blocks_end;
  // An object that continues into its last zone has used that zone's bookkeeping.
  if (never_used % blocks_in_zone != 0 && of_.kind_of_zone(never_used / blocks_in_zone) == zone_kind::continued)
    never_used = (never_used / blocks_in_zone + 1) * blocks_in_zone;
  if (never_used % blocks_in_zone < bookkeeping_blocks)
    never_used = never_used / blocks_in_zone * blocks_in_zone + bookkeeping_blocks;
  if (h.blocks_end != 0) continue_last_block(h.blocks_end - 1);
  search_end_ = h.blocks_end;
  never_used_ = never_used;
  may_lack_space_ = h.trims != 0;
  free_.emplace(of_.blocks());
}

// Behind the objects with headers that an earlier opening has left: otherwise each opening would begin a block.
void places::continue_last_block(std::uint64_t block) {
  if (block % blocks_in_zone < bookkeeping_blocks) return;
  const auto& r = of_.record(block);
  if (!heap::has_blocks(r.zone) || r.entry.kind != block_kind::small) return;
  const std::uint64_t last = r.starts.find_last(heap::granules_in_block - 1);
  if (last == heap::start_bits::none) return;
  const stored_database::stored_object object = of_.find(home_of(block) + last * granule);
  if (!object || object.at + object.size > home_of(block + 1)) return;
  begin_headed(block);
  headed_last_.next = object.at + object.size;
}

template <class F>
std::uint64_t places::take_blocks(std::uint64_t count, F&& begin_use) {
  std::optional<std::uint64_t> first;
  const bool is_of_zones = count > blocks_in_zone - bookkeeping_blocks;
  const auto look = [&] {
    if (is_of_zones)
      first = take_zones(count);
    else if (const auto found = free_->take(count, count); found.blocks != 0)
      first = found.first;
  };
  // What lies behind the object in its last zone must not be found later: until the commit, it looks like any unused block.
  while (is_of_zones && searched_ < search_end_) search();
  look();
  // Blocks at the end of the file cost less than a long search, but there is no growth as long as something is free.
  const bool must_grow = (never_used_ + count) * block_size > of_.segment().size();
  while (!first && searched_ < search_end_) {
    search();
    look();
    if (!must_grow) break;
  }
  if (!first) first = take_never_used(count);
  try {
    of_.grow((*first + count) * block_size);
    // What was cleared has no space on the disk, and truncation must not meet a full one [heap.blocks.space].
    if (may_lack_space_) of_.segment().allocate(*first * block_size, count * block_size);
    begin_use(*first);
  } catch (...) {
    free(*first, count);
    throw;
  }
  return *first;
}

// As the object heap does: an object that is larger than a zone begins at a zone's first block, and continues over the
// bookkeeping of the following ones, which must be unused.
std::optional<std::uint64_t> places::take_zones(std::uint64_t count) {
  const std::uint64_t following = (count + bookkeeping_blocks - 1) / blocks_in_zone;
  std::optional<std::uint64_t> first;
  free_->find_whole_zone([&](std::uint64_t zone) {
    const std::uint64_t begin = zone * blocks_in_zone + bookkeeping_blocks;
    if (begin + count > of_.blocks()) return false;
    for (std::uint64_t z = zone + 1; z <= zone + following; ++z)
      if (of_.kind_of_zone(z) != zone_kind::unused || !free_->has_whole_zone(z)) return false;
    first = begin;
    return true;
  });
  if (first)
    for (std::uint64_t z = *first / blocks_in_zone; z <= *first / blocks_in_zone + following; ++z) free_->take_zone(z);
  return first;
}

// What was in use of the zones into which an object continued was that object.
void places::free(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t end = first + count, zone = first / blocks_in_zone;
  if ((end - 1) / blocks_in_zone == zone) return free_->add(first, count);
  for (std::uint64_t z = zone; z * blocks_in_zone < end; ++z) {
    const std::uint64_t begin = z == zone ? first : z * blocks_in_zone + bookkeeping_blocks;
    free_->add(begin, std::min((z + 1) * blocks_in_zone, of_.blocks()) - begin);
  }
}

std::uint64_t places::take_never_used(std::uint64_t count) {
  std::uint64_t first = never_used_;
  if (const std::uint64_t left = blocks_in_zone - first % blocks_in_zone;
      count > left && first % blocks_in_zone > bookkeeping_blocks)
    first += left + bookkeeping_blocks;
  if (first + count > of_.blocks())
    throw error(errc::out_of_memory, of_.file() + ": the database is full: its reservation has no room for " +
                                         std::to_string(count * block_size) +
                                         " bytes more; make a database with a larger reservation");
  if (first != never_used_) free_->add(never_used_, blocks_in_zone - never_used_ % blocks_in_zone);
  never_used_ = first + count;
  if ((never_used_ - 1) / blocks_in_zone !=
      first / blocks_in_zone)  // there is no bookkeeping for the rest of the last zone
    never_used_ = up(never_used_, blocks_in_zone);
  if (never_used_ % blocks_in_zone == 0) never_used_ += bookkeeping_blocks;
  return first;
}

// Finds blocks that nothing stored uses, some at a time.
void places::search() {
  const std::uint64_t end = std::min(search_end_, searched_ + blocks_at_once);
  for (; searched_ < end; ++searched_) {
    if (searched_ % blocks_in_zone < bookkeeping_blocks || is_taken(searched_)) continue;
    const auto& r = of_.record(searched_);
    if (r.zone == zone_kind::unused || (heap::has_blocks(r.zone) && r.entry.kind == block_kind::unused))
      free_->add(searched_, 1);
  }
}

}  // namespace tenure::cache
