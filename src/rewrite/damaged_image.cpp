// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/damaged_image.hpp"

#include <algorithm>
#include <array>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "objects/unreadable_pages.hpp"
#include "os/storage_guard.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"
#include "rewrite/key_orders.hpp"
#include "segments/format.hpp"
#include "types/fingerprint.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

using namespace heap;

namespace {

[[nodiscard]] std::string address_text(address at) { return os::hexadecimal(reinterpret_cast<const void*>(at)); }

[[noreturn]] void need_backup(const database_state& d, const std::string& what) {
  throw error(errc::damaged, d.file + ": cannot be repaired: " + what + "; restore the store from a backup");
}

}  // namespace

damaged_image::damaged_image(const database_set& store, os::disk& disk, finding_callback found)
    : store_(store), disk_(disk), found_(std::move(found)) {
  for (const auto& d : store)
    if (const int code = os::protect(d->region.data(), d->region.size(), os::access::read_write); code != 0)
      throw error(std::error_code(code, std::generic_category()), d->file + ": its memory cannot be changed");
}

void damaged_image::find_damage(const rvm::progress_callback& on_progress) {
  for (const auto& d : store_) {
    find_pages(*d, on_progress);
    check_zones(*d);
    require_descriptions(*d);
    check_blocks(*d);
    lose_pages(*d);
  }
}

// --- Pages ----------------------------------------------------------------------------------------------------------------

void damaged_image::find_pages(const database_state& d, const rvm::progress_callback& on_progress) {
  (void)on_progress;  // the memory shows what it verifies
  std::vector<std::uint64_t> bad = store_.memory().verify_segment(d.file);
  // The storage may deliver now what it did not deliver before, when its place was taken by zeros.
  for (const address page : os::storage_guard::noted_in(d.region.data(), d.region.size()))
    bad.push_back((page - d.home) / rvm::redo_page * rvm::redo_page);
  std::ranges::sort(bad);
  bad.erase(std::unique(bad.begin(), bad.end()), bad.end());
  const stored_address roots = d.header().roots;
  replace_unreadable(d, bad);
  if (d.header().magic != database_header::right_magic) need_backup(d, "its header cannot be read");
  if (roots == stored_address::none) need_backup(d, "it has no table of roots");
  pages_[&d].insert(bad.begin(), bad.end());
  for (const std::uint64_t offset : bad)
    say(repair_finding::kind::page, d.file + ": the page at offset " + std::to_string(offset) + " is damaged",
        d.home + offset);
}

bool damaged_image::is_on_damaged_page(const database_state& d, address at) const {
  return pages_.at(&d).contains((at - d.home) / rvm::redo_page * rvm::redo_page);
}

// The program's objects are read by descriptions of types, which were read when the store was opened. They are written anew.
void damaged_image::require_descriptions(const database_state& d) {
  if (d.header().types == stored_address::none) return;
  const auto is_sound = [&](const void* from, std::uint64_t bytes, std::string_view type) {
    const auto begin = reinterpret_cast<address>(from), page = begin / rvm::redo_page * rvm::redo_page;
    if (bytes == 0) return true;
    const sound_object in = find(begin);
    const bool is_unknown = has_blocks(d.map->kind_of_zone(d.map->block_of(begin) / blocks_in_zone)) &&
                            has_damaged_record(d, d.map->block_of(begin));
    if (in && (in.at != begin || bytes > in.size || name_of_elements(*in.type->of) != type)) return false;
    if (!in && !is_unknown) return false;
    for (address at = page; at < begin + bytes; at += rvm::redo_page)
      if (is_on_damaged_page(d, at)) return false;
    return true;
  };
  const auto need = [&](const char* what, std::uint64_t type) {
    need_backup(d, std::string(what) + " of its type " + std::to_string(type) +
                       " is on a damaged page, or makes no sense; objects cannot be told apart");
  };
  const heap::type_table& table = d.type_table();
  const auto is_sound_text = [&](const stored_text& t) { return is_sound(t.text, t.length, "char"); };
  if (!is_sound(&table, sizeof table, "tenure::heap::type_table") ||
      !is_sound(table.types, table.count * sizeof(stored_type*), "tenure::heap::stored_type*"))
    need_backup(d, "the table of its types is on a damaged page, or makes no sense");
  for (std::uint64_t n = 1; n < table.count; ++n) {
    const known_type* const known = d.types->find(static_cast<std::uint32_t>(n));
    if (known == nullptr || known->stored == nullptr) continue;
    const stored_type& s = *known->stored;
    if (!is_sound(&s, sizeof s, "tenure::heap::stored_type") || !is_sound_text(s.name)) need("the description", n);
    if (types::fingerprint_of(*known->of) != s.fingerprint) need("the list of fields", n);
    bool has_fields = is_sound(s.fields, s.field_count * sizeof(stored_field), "tenure::heap::stored_field");
    for (std::uint64_t f = 0; f < s.field_count; ++f)
      has_fields = has_fields && is_sound_text(s.fields[f].name) && is_sound_text(s.fields[f].type_name);
    if (has_fields) continue;
    say(repair_finding::kind::bookkeeping,
        d.file + ": the description of its type " + std::to_string(n) + ", " + known->of->name +
            ", is on a damaged page; its fingerprint proves it right",
        reinterpret_cast<address>(&s));
  }
}

// --- Bookkeeping ----------------------------------------------------------------------------------------------------------

void damaged_image::say_block(const database_state& d, std::uint64_t block, const std::string& what) {
  say(repair_finding::kind::bookkeeping,
      d.file + ": block " + std::to_string(block) + " at " + address_text(d.map->start_of(block)) + ": " + what,
      d.map->start_of(block));
}

bool damaged_image::has_damaged_record(const database_state& d, std::uint64_t block) const {
  if (pages_.at(&d).empty()) return false;
  const record_view r = d.map->record(block);
  return is_on_damaged_page(d, reinterpret_cast<address>(&r.entry)) ||
         is_on_damaged_page(d, reinterpret_cast<address>(&r.starts));
}

// Zones whose records are there, but which count as unused.
void damaged_image::check_zones(const database_state& d) {
  const std::uint64_t blocks = d.region.size() / block_size;
  database_header& h = d.header();
  h.blocks_end = std::min(h.blocks_end, blocks);
  if (const std::uint64_t used = d.map->end_of_used_blocks(blocks); used > h.blocks_end) {
    say_block(d, used - 1, "is in use, but blocks_end is " + std::to_string(h.blocks_end));
    h.blocks_end = used;
  }
  if (pages_.at(&d).empty() || pages_.at(&d).lower_bound(bookkeeping_size) == pages_.at(&d).begin()) return;
  if (is_on_damaged_page(d, d.home)) d.header().blocks_end = blocks;
  for (std::uint64_t zone = 0; zone * blocks_in_zone + bookkeeping_blocks <= blocks; ++zone) {
    if (d.map->kind_of_zone(zone) != zone_kind::unused ||
        !is_on_damaged_page(d, reinterpret_cast<address>(&d.map->kind_of_zone(zone))))
      continue;
    bool is_ordinary = true;
    for (std::uint64_t b = 0; b < bookkeeping_blocks; ++b) {
      const auto& stored = *reinterpret_cast<const block_record*>(d.map->zone_start(zone) + record_offset(b));
      is_ordinary &= stored.entry.kind == block_kind::bookkeeping;
    }
    if (!is_ordinary) continue;
    d.map->kind_of_zone(zone) = zone_kind::ordinary;
    d.header().blocks_end = std::max(d.header().blocks_end, std::min((zone + 1) * blocks_in_zone, blocks));
    say_block(d, zone * blocks_in_zone, "its zone counts as unused, but has objects");
  }
}

void damaged_image::check_blocks(const database_state& d) {
  for (std::uint64_t b = 0; b < d.header().blocks_end; ++b) {
    const std::uint64_t zone = b / blocks_in_zone;
    if (!has_blocks(d.map->kind_of_zone(zone))) {
      b = (zone + 1) * blocks_in_zone - 1;
      continue;
    }
    const record_view r = d.map->record(b);
    if (r.entry.kind != block_kind::typed && !d.map->is_headed(b) && r.pages != page_words{}) {
      say_block(d, b, "has types for its pages, but is not of that kind");
      r.pages = {};
    }
    if (!d.map->is_bookkeeping(b)) {
      check_block(d, b);
    } else if (block_entry& e = d.map->entry(b); e.kind != block_kind::bookkeeping) {
      say_block(d, b, "is not marked as bookkeeping");
      e.kind = block_kind::bookkeeping;
      d.map->starts(b) = {};
    }
  }
}

// What makes no sense is as if it were not there; references to what it was will find out.
void damaged_image::check_block(const database_state& d, std::uint64_t b) {
  const record_view r = d.map->record(b);
  switch (r.entry.kind) {
    case block_kind::typed:
      if (!d.map->is_headed(b)) return check_typed(d, b);
      break;
    case block_kind::small:
    case block_kind::large: return check_headed(d, b);
    case block_kind::unused:
    case block_kind::continued:
      if (!r.starts.empty()) say_block(d, b, "objects start in a block that has none");
      r.starts = {};
      if (r.entry.kind == block_kind::unused) {
        if (r.entry.used == 0 && r.entry.span == 0) return;
        say_block(d, b, "is unused, but counts objects or blocks");
      } else {
        const std::uint64_t back = r.entry.span;
        if (back != 0 && back <= b % blocks_in_zone && d.map->entry(b - back).kind == block_kind::large &&
            d.map->entry(b - back).span > back)
          return;
        say_block(d, b, "continues a large object that is not there");
      }
      r.entry = {};
      return;
    default: break;
  }
  say_block(d, b, "is of unknown kind " + std::to_string(static_cast<int>(r.entry.kind)));
  r.entry = {};
  r.starts = {};
}

void damaged_image::check_typed(const database_state& d, std::uint64_t b) {
  const record_view r = d.map->record(b);
  for (std::size_t n = 0; n < pages_in_block; ++n) {
    page_word& page = r.pages[n];
    const known_type* const type = page.is_sound() ? d.types->find(page.type()) : nullptr;
    const bool is_empty = r.starts.empty_in_page(n);
    if (is_empty && !page.is_typed()) continue;
    if (!is_empty && type != nullptr && type->words != nullptr && type->of->size != 0 &&
        page.size() % type->of->size == 0)
      continue;
    say_block(d, b,
              "its page " + std::to_string(n) + (is_empty ? " has a type, and no objects" : " has objects of no type"));
    // The bits of such a page name no objects.
    constexpr std::uint64_t in_page = granules_in_block / pages_in_block;
    for (std::uint64_t g = n * in_page; g < (n + 1) * in_page; ++g) r.starts.reset(g);
    page = {};
  }
  r.starts.for_each([&](std::uint64_t g) {
    const page_word page = r.pages[g * granule / typed_page_size];
    const std::uint64_t offset = object_of_bit(d.map->start_of(b), r.pages, g) - d.map->start_of(b);
    if (offset / granule == g && offset % typed_page_size + page.stride() <= typed_page_size) return;
    say_block(d, b, "an object lies in no slot, at granule " + std::to_string(g));
    r.starts.reset(g);
  });
  for (std::size_t n = 0; n < pages_in_block; ++n)
    if (r.starts.empty_in_page(n)) r.pages[n] = {};
  if (r.starts.count() != r.entry.used) {
    say_block(d, b,
              "has " + std::to_string(r.starts.count()) + " objects, " + std::to_string(r.entry.used) + " are counted");
    r.entry.used = static_cast<std::uint16_t>(r.starts.count());
  }
  if (r.starts.empty()) say_block(d, b, "has no objects, but is not unused");
}

bool damaged_image::is_sound_header(const database_state& d, address object, std::uint64_t room) const {
  const auto& header = *reinterpret_cast<const object_header*>(object - sizeof(object_header));
  const object_facts facts = facts_of_headed(object);
  const known_type* const type = d.types->find(facts.type);
  return header.type / most_types == 0 && type != nullptr && type->words != nullptr && facts.size != 0 &&
         facts.size <= room && (type->of->size == 0 || facts.size % type->of->size == 0);
}

// A large object's first record says which blocks are its own. Others would hide what is lost of it.
void damaged_image::claim_blocks(const database_state& d, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t next_zone = (first / blocks_in_zone + 1) * blocks_in_zone;
  for (std::uint64_t b = first + 1; b < std::min(end, next_zone); ++b) {
    const record_view r = d.map->record(b);
    const auto back = static_cast<std::uint32_t>(b - first);
    if (r.entry.kind == block_kind::continued && r.entry.span == back) continue;
    say_block(d, b, "belongs to the large object before it");
    r.entry = {block_kind::continued, 0, 0, back};
    r.starts = {};
  }
  for (std::uint64_t zone = next_zone / blocks_in_zone; zone * blocks_in_zone < end; ++zone) {
    zone_kind& kind = d.map->kind_of_zone(zone);
    if (kind == zone_kind::continued) continue;
    say_block(d, zone * blocks_in_zone, "its zone belongs to the large object before it");
    kind = zone_kind::continued;
  }
}

void damaged_image::check_headed(const database_state& d, std::uint64_t b) {
  const record_view r = d.map->record(b);
  const address start = d.map->start_of(b);
  const bool is_large = r.entry.kind == block_kind::large;
  const std::uint64_t end = b + (is_large ? r.entry.span : 1);
  if (end > d.header().blocks_end || (is_large && (r.entry.span == 0 || r.starts.count() != 1))) {
    say_block(d, b, "a large object is not there, or does not fit");
    r.entry = {};
    r.starts = {};
    return;
  }
  std::vector<std::uint64_t> starts;
  r.starts.for_each([&](std::uint64_t g) { starts.push_back(g); });
  const bool knows_starts = !has_damaged_record(d, b);
  address free_from = start;
  std::uint64_t used = 0, kept = 0;
  for (std::size_t n = 0; n < starts.size(); ++n) {
    const address object = start + starts[n] * granule;
    // Sizes on a damaged page must not cost others. Where starts are known, an object ends before the next one.
    const bool is_lost =
        starts[n] != 0 && is_on_damaged_page(d, object - sizeof(object_header)) && !is_root_table(d, object);
    const address limit = !is_large && knows_starts && n + 1 < starts.size()
                              ? start + starts[n + 1] * granule - sizeof(object_header)
                              : d.map->start_of(end);
    if (is_lost && !is_large)
      lose(d, object, "it lies on a damaged page");
    else if (starts[n] == 0 || !is_sound_header(d, object, limit - object))
      lose(d, object, "its header makes no sense");
    else if (const object_facts facts = facts_of_headed(object); facts.begin < free_from)
      lose(d, object, "it overlaps the one before");
    else
      free_from = facts.end, used += granules_of(facts.size), ++kept;
  }
  if (is_large && knows_starts) claim_blocks(d, b, end);
  if (!is_large && starts.empty()) say_block(d, b, "has no objects, but is not unused");
  if (!is_large && used != r.entry.used) {
    if (kept == starts.size() || has_damaged_record(d, b))
      say_block(d, b, "the units in use are not those that are counted");
    r.entry.used = static_cast<std::uint16_t>(used);
  }
}

// --- Objects --------------------------------------------------------------------------------------------------------------

void damaged_image::lose_pages(const database_state& d) {
  for (const std::uint64_t offset : pages_.at(&d)) {
    const address page = d.home + offset;
    const std::uint64_t block = d.map->block_of(page);
    if (block >= d.header().blocks_end) continue;
    const zone_kind zone = d.map->kind_of_zone(block / blocks_in_zone);
    if (zone == zone_kind::unused || (has_blocks(zone) && d.map->is_bookkeeping(block))) continue;
    std::vector<address> found;
    d.map->for_each_persistent_in(page, page + rvm::redo_page, [&](address object) { found.push_back(object); });
    for (const address object : found) {
      if (is_root_table(d, object)) {
        if (!is_sound_header(d, object, d.region.size())) need_backup(d, "the table of its roots is lost");
        say_block(d, block, "the table of roots is on a damaged page");  // each root is looked at
      } else if (!lose_elements(d, object, page)) {
        lose(d, object, "it lies on a damaged page");
      }
    }
  }
}

bool damaged_image::is_root_table(const database_state& d, address object) {
  return object == static_cast<address>(d.header().roots) ||
         object == reinterpret_cast<address>(d.root_table().entries);
}

// Elements of a large array that zeros may take the place of.
bool damaged_image::lose_elements(const database_state& d, address object, address page) {
  const record_view r = d.map->record(d.map->block_of(object));
  const object_facts facts = d.map->facts(object);
  const known_type* const type = d.types->find(facts.type);
  if (r.entry.kind != block_kind::large || facts.begin >= page || is_on_damaged_page(d, facts.begin) ||
      is_on_damaged_page(d, object - 1) || type == nullptr)
    return false;
  const std::uint64_t each = type->of->size;
  if (each == 0 || facts.size / each < 2 || !may_be_zero(*type->of)) return false;
  const address from = std::max(page, object), to = std::min<address>(page + rvm::redo_page, facts.end);
  const std::uint64_t first = (from - object) / each, end = (to - object + each - 1) / each;
  clear(object + first * each, (end - first) * each);
  in_part_.insert(object);
  // Entries behind a group may have found it full.
  if (type->of->name.starts_with("tenure::detail::hash_group<"))
    for (std::uint64_t n = first; n < end; ++n)
      for (const type_field& f : type->of->fields)
        if (f.name == "passed") put<std::uint8_t>(object + n * each + f.offset, 255);
  say(repair_finding::kind::lost_elements,
      "elements " + std::to_string(first) + " to " + std::to_string(end - 1) + " of " + object_text(store_, object) +
          " lie on a damaged page",
      object + first * each);
  return true;
}

bool damaged_image::may_be_zero(const type& of) {
  if (const auto known = zeros_.find(&of); known != zeros_.end()) return known->second;
  const std::string_view name = name_of_elements(of);
  // Empty vectors of the standard library are zeros; other containers of it refer to themselves, or to memory.
  bool may = !of.is_conservative &&
             (!name.starts_with("std::") || name.starts_with("std::vector<") || name.starts_with("std::pair<") ||
              name.starts_with("std::tuple<") || name.starts_with("std::array<") || name.starts_with("std::optional<"));
  for (const type_field& f : of.fields)
    may = may && f.kind != field_kind::vtable && f.kind != field_kind::conservative &&
          (f.kind != field_kind::nested || may_be_zero(f.of()));
  return zeros_[&of] = may;
}

void damaged_image::forget(const database_state& d, address object) {
  const std::uint64_t block = d.map->block_of(object);
  const record_view r = d.map->record(block);
  r.starts.reset((object - d.map->start_of(block)) / granule);
  if (r.entry.kind == block_kind::typed && r.entry.used != 0) --r.entry.used;
}

void damaged_image::lose(const database_state& d, address object, const std::string& why) {
  const std::uint64_t block = d.map->block_of(object);
  const bool has_header = d.map->record(block).entry.kind != block_kind::typed;
  const object_facts facts = d.map->facts(object);
  const bool is_known = !has_header || is_sound_header(d, object, d.region.size());
  std::string text = is_known ? object_text(store_, object) : "an object of unknown type at " + address_text(object);
  say(repair_finding::kind::lost_object, text + " is lost: " + why, object);
  lost_[object] = {is_known ? facts.end : object + granule, is_known ? facts.type : 0, is_known ? facts.size : 0,
                   std::move(text)};
  forget(d, object);
}

const damaged_image::lost_object* damaged_image::lost_at(address at) const {
  auto found = lost_.upper_bound(at);
  if (found == lost_.begin()) return nullptr;
  --found;
  return at < found->second.end ? &found->second : nullptr;
}

std::string damaged_image::text_of(address at) const {
  if (const lost_object* const lost = lost_at(at)) return lost->text + ", which is lost";
  if (const sound_object there = find(at)) {
    const std::string text = object_text(store_, there.at);
    return at == there.at ? text : "byte " + std::to_string(at - there.at) + " of " + text;
  }
  return address_text(at) + ", where " +
         (store_.at(reinterpret_cast<const void*>(at)) != nullptr ? "no object is" : "no database of the store is");
}

sound_object damaged_image::find(address at) const {
  const database_state* const d = store_.at(reinterpret_cast<const void*>(at));
  if (d == nullptr || d->map->block_of(at) >= d->header().blocks_end) return {};
  const sound_object found = find_sound(store_, reinterpret_cast<const void*>(at));
  return found.is_persistent ? found : sound_object{};
}

bool damaged_image::has_bytes(address at, std::uint64_t length) const {
  const database_state* const d = store_.at(reinterpret_cast<const void*>(at));
  return d != nullptr && at - d->home < d->region.size() && length <= d->region.size() - (at - d->home);
}

const type* damaged_image::described(const database_state& in, std::string_view name) const {
  auto& types = described_[&in];
  if (types.empty())
    for (std::uint32_t n = 1; n < in.types->count(); ++n)
      if (const known_type* const t = in.types->find(n); t != nullptr && !t->of->is_conservative)
        types.emplace(t->of->name, t->of);
  const auto found = types.find(std::string(name));
  return found != types.end() ? found->second : nullptr;
}

sound_object damaged_image::find(address at, std::string_view pointee, array_extent of_array) {
  sound_object found = find(at);
  if (!found && !pointee.empty()) found = adopt(at, pointee, of_array);
  if (!found) return {};
  const type* const meant = pointee.empty() ? nullptr : described(*found.in, pointee);
  if (meant == nullptr) return found;
  const bool is_right = at % meant->alignment == 0 &&
                        (found.type->words->has_vtables() || may_contain(*found.type->of, at - found.at, *meant));
  return is_right ? found : sound_object{};
}

}  // namespace tenure::rewriting
