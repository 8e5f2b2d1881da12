// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects of a damaged store that its bookkeeping does not know: those that a reference has found where a record is damaged, and new
// ones.
#include <algorithm>

#include "rewrite/damaged_image.hpp"
#include "rewrite/key_orders.hpp"
#include "segments/format.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

using namespace heap;

// --- Where a record is damaged ----------------------------------------------------------------------------------------------

// The declared type of the pointer must be known, and what is there must fit it.
sound_object damaged_image::adopt(address at, std::string_view pointee, array_extent of_array) {
  const database_state* const d = store_.at(reinterpret_cast<const void*>(at));
  if (d == nullptr || at % 8 != 0 || lost_at(at) != nullptr) return {};
  const std::uint64_t block = d->map->block_of(at);
  if (block >= d->header().blocks_end || d->map->kind_of_zone(block / blocks_in_zone) != zone_kind::ordinary ||
      d->map->is_bookkeeping(block) || !has_damaged_record(*d, block))
    return {};
  if (!adopt_headed(*d, at, pointee) && !adopt_typed(*d, at, pointee, of_array)) return {};
  if (adopted_.insert(block).second)
    say_block(*d, block, "its record is damaged; objects are there that references have found");
  return find(at);
}

bool damaged_image::adopt_headed(const database_state& d, address at, std::string_view pointee) {
  const std::uint64_t block = d.map->block_of(at);
  const address start = d.map->start_of(block);
  if (at % granule != 0 || at == start || is_on_damaged_page(d, at - 1)) return false;
  if (!is_sound_header(d, at, d.home + d.region.size() - at)) return false;
  const object_facts facts = facts_of_headed(at);
  for (address page = facts.begin / rvm::redo_page * rvm::redo_page; page < facts.end; page += rvm::redo_page)
    if (is_on_damaged_page(d, page)) return false;
  const known_type& type = *d.types->find(facts.type);
  const tenure::type* const meant = described(d, pointee);
  const bool is_meant = meant != nullptr ? may_contain(*type.of, 0, *meant)
                                         : name_of_elements(*type.of) == pointee || has_vtables_of(type, at);
  if (!is_meant || !is_plausible(type, at, facts.size)) return false;
  const record_view r = d.map->record(block);
  const std::uint64_t blocks = (facts.end - start + block_size - 1) / block_size;
  if (blocks == 1) {
    if (r.entry.kind != block_kind::small && !(r.entry.kind == block_kind::unused && r.starts.empty())) return false;
    bool is_free = true;
    r.starts.for_each([&](std::uint64_t g) {
      const object_facts other = facts_of_headed(start + g * granule);
      is_free = is_free && (other.end <= facts.begin || other.begin >= facts.end);
    });
    if (!is_free) return false;
    r.entry.kind = block_kind::small;
  } else {
    if (facts.size <= largest_small || block % blocks_in_zone + blocks > blocks_in_zone ||
        block + blocks > d.header().blocks_end)
      return false;
    for (std::uint64_t b = block; b < block + blocks; ++b)
      if (d.map->entry(b).kind != block_kind::unused && d.map->entry(b).kind != block_kind::continued) return false;
    r.entry = {block_kind::large, 0, 0, static_cast<std::uint32_t>(blocks)};
    for (std::uint64_t b = block + 1; b < block + blocks; ++b)
      d.map->entry(b) = {block_kind::continued, 0, 0, static_cast<std::uint32_t>(b - block)};
  }
  r.starts.set((at - start) / granule);
  return true;
}

bool damaged_image::has_vtables_of(const known_type& type, address at) const {
  if (!type.words->has_vtables() || !has_bytes(at, type.of->size)) return false;
  const std::vector<pointer_map::word>& words = type.words->words();
  for (std::size_t n = 0; n < words.size(); ++n)
    if (words[n].kind == field_kind::vtable &&
        get(at + words[n].offset) != static_cast<std::uint64_t>(type.vtable_words[n]))
      return false;
  return true;
}

// Of an object with virtual functions, the type that its vtables say; nullptr: they say none that a pointer to its beginning may mean.
// An abstract class that pointers mean may have no description.
const known_type* damaged_image::type_by_vtables(const database_state& d, address at, std::string_view pointee) const {
  const tenure::type* const meant = described(d, pointee);
  for (std::uint32_t n = 1; n < d.types->count(); ++n) {
    const known_type* const known = d.types->find(n);
    if (known != nullptr && has_vtables_of(*known, at) && (meant == nullptr || may_contain(*known->of, 0, *meant)))
      return known;
  }
  return nullptr;
}

// The first one that is found says what the other objects of its page are.
bool damaged_image::adopt_typed(const database_state& d, address at, std::string_view pointee, array_extent of_array) {
  const std::uint64_t block = d.map->block_of(at);
  const address start = d.map->start_of(block);
  const record_view r = d.map->record(block);
  const bool is_free = r.entry.kind == block_kind::unused && r.starts.empty();
  if ((r.entry.kind != block_kind::typed && !is_free) || is_on_damaged_page(d, at)) return false;
  const bool is_array = of_array.elements != 0 || of_array.bytes != 0;
  const known_type* type = is_array ? nullptr : type_by_vtables(d, at, pointee);
  for (std::uint32_t n = 1; n < d.types->count(); ++n)
    if (const known_type* const known = d.types->find(n);
        known != nullptr && !known->words->has_vtables() &&
        (is_array ? name_of_elements(*known->of) : known->of->name) == pointee &&
        (type == nullptr || known->of->tolerates_stale))
      type = known;
  if (type == nullptr || type->of->is_conservative || type->of->size == 0) return false;
  if (of_array.elements > typed_page_size) return false;  // nonsense, as any product with it
  const std::uint64_t size = !is_array                ? type->of->size
                             : of_array.elements != 0 ? of_array.elements * type->of->size
                                                      : of_array.bytes;
  if (size > typed_page_size || size % type->of->size != 0 || !page_word::suits(size, type->of->alignment))
    return false;
  page_word& page = r.pages[(at - start) / typed_page_size];
  const page_word wanted(type->index, size, !type->words->has_pointers());
  const std::uint64_t in_page = (at - start) % typed_page_size;
  if ((page.is_typed() && page != wanted) || in_page % wanted.stride() != 0 ||
      in_page + wanted.stride() > typed_page_size || (!type->of->tolerates_stale && !is_plausible(*type, at, size)))
    return false;
  r.entry.kind = block_kind::typed;
  page = wanted;
  r.starts.set((at - start) / granule);
  r.entry.used = static_cast<std::uint16_t>(r.starts.count());
  return true;
}

// Whether all references are null, or lead into the store.
bool damaged_image::is_plausible(const known_type& type, address at, std::uint64_t size) const {
  bool is_right = true;
  for_each_reference(type, {at, type.index, size, at, at + size}, [&](const reference_field& r) {
    is_right = is_right && (r.is_ambiguous || store_.at(in_memory(r.to)) != nullptr);
  });
  return is_right;
}

// --- New objects ----------------------------------------------------------------------------------------------------------

std::uint64_t damaged_image::take_block(const database_state& d) {
  database_header& h = d.header();
  const std::uint64_t all = std::min(d.region.size() / block_size, d.map->blocks());
  for (std::uint64_t b = bookkeeping_blocks; b < all; ++b) {
    const std::uint64_t zone = b / blocks_in_zone;
    if (d.map->kind_of_zone(zone) != zone_kind::ordinary) {
      b = (zone + 1) * blocks_in_zone - 1;
      continue;
    }
    if (d.map->is_bookkeeping(b) || d.map->entry(b).kind != block_kind::unused || has_damaged_record(d, b)) continue;
    const address start = d.map->start_of(b);
    bool is_damaged = false;
    for (address at = start; at < start + block_size; at += rvm::redo_page) is_damaged |= is_on_damaged_page(d, at);
    if (is_damaged) continue;
    d.map->entry(b) = {block_kind::small, 0, 0, 0};
    d.map->starts(b) = {};
    h.blocks_end = std::max(h.blocks_end, b + 1);
    return b;
  }
  return 0;
}

address damaged_image::make(const database_state& in, std::uint32_t type, std::uint64_t bytes) {
  if (bytes == 0 || bytes > largest_small) return 0;
  filled_block& block = filled_[&in];
  const std::uint64_t room = granule + (bytes + granule - 1) / granule * granule;  // the header is in the first one
  if (block.next + room > block.limit) {
    const std::uint64_t taken = take_block(in);
    if (taken == 0) return 0;
    block = {in.map->start_of(taken), in.map->start_of(taken + 1)};
  }
  const address object = block.next + granule;
  block.next += room;
  clear(object, bytes);
  put(object - sizeof(object_header), object_header{type, static_cast<std::uint32_t>(bytes)});
  const record_view r = in.map->record(in.map->block_of(object));
  r.starts.set((object - in.map->start_of(in.map->block_of(object))) / granule);
  return object;
}

}  // namespace tenure::rewriting
