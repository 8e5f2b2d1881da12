// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/database_state.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include <tenure/error.hpp>

#include "log/checksum.hpp"
#include "log/format.hpp"
#include "log/invariant.hpp"
#include "objects/database_set.hpp"
#include "objects/header_check.hpp"
#include "objects/object_text.hpp"
#include "objects/table_check.hpp"
#include "os/fault.hpp"
#include "os/process.hpp"
#include "os/room_for_one.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure {

using namespace heap;

namespace {

constexpr std::uint64_t first_length = bookkeeping_size + (1 << 20);
// The addresses that are free in every kind of build, except under ThreadSanitizer (docs/formats.md).
constexpr std::uint64_t homes_from = 0x110000000000, homes_to = 0x500000000000;

std::uint64_t random_home(std::uint64_t reservation) {
  std::uint64_t n;
  os::random_bytes(std::as_writable_bytes(std::span(&n, 1)));
  const std::uint64_t first = (homes_from + reservation - 1) / reservation, end = homes_to / reservation;
  return (first + n % (end - first)) * reservation;
}

}  // namespace

new_object heap::described_object(std::uint32_t index, const type& of, const pointer_map& words, std::uint64_t bytes) {
  new_object made{index, bytes, of.alignment};
  const bool is_array = bytes != of.size;
  made.may_be_typed = !of.is_conservative && (!is_array || (bytes <= largest_typed_array && of.size % 8 == 0));
  made.is_pointer_free = !words.has_pointers();
  return made;
}

rvm::segment_options database_state::segment_for(const database_set* beside, const std::string& file,
                                                 const database_options& how) {
  if (!std::has_single_bit(how.reservation) || how.reservation < smallest_reservation ||
      how.reservation > largest_reservation)
    throw error(errc::bad_option, file + ": a reservation of " + std::to_string(how.reservation) +
                                      " bytes: it must be a power of two from " + std::to_string(smallest_reservation) +
                                      " to " + std::to_string(largest_reservation));
  if (how.home % how.reservation != 0)
    throw error(errc::misaligned, file + ": the home " + os::hexadecimal(reinterpret_cast<void*>(how.home)) +
                                      " is not a multiple of the reservation");
  // Of the same store: before the file is made.
  const auto taken_by = [&](std::uint64_t from) -> const database_state* {
    if (beside == nullptr) return nullptr;
    for (const auto& other : *beside)
      if (from < other->home - vtable_area + other->reservation && other->home - vtable_area < from + how.reservation)
        return other.get();
    return nullptr;
  };
  // Also by another store that this process has open, with which it would never be open together.
  const auto is_taken = [&](std::uint64_t from) {
    return taken_by(from) != nullptr || !os::occupant(reinterpret_cast<void*>(from), how.reservation).empty();
  };
  std::uint64_t slot = how.home != 0 ? how.home : random_home(how.reservation);
  for (int tries = 0; how.home == 0 && tries < 1000 && is_taken(slot); ++tries) slot = random_home(how.reservation);
  if (const database_state* const other = taken_by(slot))
    throw error(errc::address_taken, file + ": its home addresses are those of " + other->file);
  return {.length = first_length,
          .max_length = how.reservation - vtable_area,
          .home = slot + vtable_area,
          .tag = database_tag,
          .member = true};
}

database_state::database_state(database_set& of, std::string its_name, std::string its_file)
    : owner(of), name(std::move(its_name)), file(std::move(its_file)) {
  const rvm::segment_info info = owner.memory().describe_segment(file);
  if (info.tag != database_tag) throw error(errc::not_a_segment, file + ": is a segment, but no database of a store");
  if (!info.is_of_this_log)
    throw error(errc::wrong_log,
                file + ": its last changes were made under another log than " + owner.memory().log_path() +
                    ": one of the two belongs to another store; put the right one in place; or, if the store's log is "
                    "lost, `tenure log renew " +
                    owner.memory().log_path() + "` makes a new one for the databases that are there");
  home = info.home;
  reservation = info.max_length + vtable_area;
  const auto taken = [&](const error& e) -> error {
    if (e.code() != errc::address_taken) return e;
    for (const auto& other : owner)
      if (home - vtable_area < other->home + other->reservation && other->home - vtable_area < home + info.max_length)
        return error(errc::address_taken, file + ": its home addresses are those of " + other->file);
    return error(errc::address_taken,
                 file + ": its home addresses are taken, by another open store or by something else in this process: " +
                     e.what());
  };
  try {
    vtables.reset(static_cast<std::byte*>(os::map_anonymous(reinterpret_cast<void*>(home - vtable_area), vtable_area)));
    region = owner.memory().map(file, {.address = reinterpret_cast<void*>(home),
                                       .reserve = true,
                                       .sparse = true,  // opening reads a few pages; then read_ahead() is called
                                       .fresh = rvm::fresh_space::huge_pages,
                                       .tracking = rvm::tracking_mode::automatic,
                                       .force_mechanism = owner.how().mechanism,
                                       .tracking_strict = owner.how().strict_tracking,
                                       .barriers = owner.how().barriers,
                                       .card_size = owner.how().card_size});
  } catch (const error& e) {
    throw taken(e);
  }
  map = std::make_unique<block_map>(region.data(), region.capacity());
  types = std::make_unique<type_index>(file, vtables.get());
  if (owner.is_read_only()) return;  // nothing is tracked
  region.set_change_filter(this);
}

database_state::~database_state() {
  // The region stays mapped if it cannot be given back now.
  region.end_change_filter();
  birth.reset();
  map.reset();
}

void database_state::unmapped::operator()(std::byte* area) const noexcept { os::unmap(area, vtable_area); }

bool database_state::is_blank() const {
  const auto* const bytes = region.data();
  return std::all_of(bytes, bytes + records_at + record_page, [](std::byte b) { return b == std::byte{}; });
}

void database_state::read() {
  const database_header& h = header();
  require_right_header(h, {file, home, reservation, owner.is_read_only()});
  require_sound_tables(*this);
  birth = std::make_unique<heap::birth>(*map, region, owner.how().tune, [this](std::uint64_t bytes) {
    if (bytes <= region.size()) return;
    // In steps of a quarter, so that little space is unused. Each takes one sync.
    const std::uint64_t step = std::clamp<std::uint64_t>(region.size() / 4, least_growth, most_growth);
    const std::uint64_t length = rvm::round_up(std::max(bytes, region.size() + step), growth_unit);
    owner.memory().grow_segment(file, std::min<std::uint64_t>(length, region.capacity()));
  });
  if (h.types != stored_address::none) types->read(type_table());
}

void database_state::initialize(rvm::transaction& tx, const std::array<std::uint8_t, 16>& database_id) {
  database_header& h = header();
  tx.set_range(h);
  h.magic = database_header::right_magic;
  h.version = database_header::right_version;
  h.abi = database_header::this_abi;
  h.database_id = database_id;
  h.store_id = owner.front().header().database_id;
  h.home = home;
  h.reservation = reservation;
  std::copy_n(name.data(), std::min(name.size(), h.name.size() - 1), h.name.begin());
  h.checksum = header_checksum(h);
  h.blocks_end = bookkeeping_blocks;
  read();
  h.types = stored_address_of(make_array<heap::type_table>(1));
  h.roots = stored_address_of(make_array<heap::root_table>(1));
}

found_object database_state::find(const void* at) const {
  found_object found;
  birth->with_lock([&] { found = map->find(reinterpret_cast<address>(at)); });
  return found;
}

found_object database_state::find_start(const void* at) const {
  found_object found;
  birth->with_lock([&] { found = map->find_start(reinterpret_cast<address>(at)); });
  return found;
}

address database_state::make(const type& of, std::uint64_t bytes, maker who) {
  const known_type& known = types->at(types->index_of(of));
  if (who == maker::other) os::unblock_faults();  // as a transaction does
  return birth->make(described_object(known.index, of, *known.words, bytes), who);
}

address database_state::make_internal(const type& of, std::uint64_t bytes) {
  return birth->make({types->index_of(of), bytes, of.alignment}, maker::writer);
}

object_facts database_state::describe(const void* object) const {
  object_facts facts;
  birth->with_lock([&] {
    const found_object found = map->find_start(reinterpret_cast<address>(object));
    if (found) facts = map->facts(found);
  });
  return facts;
}

void database_state::retire(const void* object) {
  const found_object found = find_start(object);
  if (!found) return;
  auto& set = found.is_persistent ? destroyed : retired;
  if (notes_retired_) os::reserve_one_more(noted_);
  if (set.insert(found.at).second && notes_retired_) noted_.push_back(found.at);
}

void database_state::unretire(std::size_t count) noexcept {
  for (std::size_t n = count; n < noted_.size(); ++n) {
    destroyed.erase(noted_[n]);
    retired.erase(noted_[n]);
  }
  os::shorten(noted_, count);
}

stored_text database_state::make_text(std::string_view text) {
  if (text.empty()) return {};
  char* const to = make_array<char>(text.size());
  text.copy(to, text.size());
  return {to, text.size()};
}

void database_state::check() const {
  using rvm::require_invariant;
  if (birth == nullptr || is_blank()) return;  // it was not read, or its first transaction was aborted
  const database_header& h = header();
  require_invariant(h.magic == database_header::right_magic && h.checksum == header_checksum(h) && h.home == home &&
                        h.reservation == reservation,
                    "the constant part of a database's header does not change");
  require_invariant(map->home() == home && map->capacity() == region.capacity(), "a database is mapped at its home");
  require_invariant(h.blocks_end * block_size <= region.size(), "the blocks in use lie in the segment");
  birth->with_lock([&] {
    map->check();
    birth->check();
    for (const address object : destroyed)
      require_invariant(map->find_start(object).is_persistent, "only persistent objects are destroyed");
    for (const address object : retired) {
      const found_object found = map->find_start(object);
      require_invariant(found && !found.is_persistent, "only transient objects are retired");
    }
  });
  types->check();
  if (h.roots != stored_address::none) names->check(root_table());
}

// Bytes that belong to no persistent object are not recoverable. If a block has no transient objects, and had none
// since its pages were compared, nobody writes such bytes there.
void database_state::recoverable_parts(const rvm::memory_range& page, std::vector<rvm::memory_range>& kept) {
  const auto from = reinterpret_cast<address>(page.address), to = from + page.length;
  assert(map->contains(from) && map->block_of(from) == map->block_of(to - 1));
  const std::uint64_t block = map->block_of(from);
  if (from < home + zone_kinds_at)
    return kept.push_back({page.address, std::min<std::size_t>(page.length, zone_kinds_at)});
  if (is_bookkeeping(block)) return;
  if (!map->holds_persistent(block)) return;
  if (!map->may_have_transients(block) && !types->has_transients()) {
    kept.push_back(page);
    return;
  }
  const auto keep = [&](address begin, address end) {
    begin = std::max(begin, from);
    end = std::min(end, to);
    if (begin >= end) return;
    if (!kept.empty() && reinterpret_cast<address>(kept.back().end()) == begin)
      kept.back().length += end - begin;
    else
      kept.push_back({reinterpret_cast<std::byte*>(begin), end - begin});
  };
  // A page to which objects are added is compared by each of these transactions.
  if (!types->has_transients() && map->kind_of_zone(block / blocks_in_zone) == zone_kind::ordinary &&
      map->entry(block).kind == block_kind::typed)
    return map->for_each_typed_run(block, from, to, keep);
  map->for_each_persistent_in(from, to, [&](address at) {
    const object_facts object = map->facts(at);
    const known_type& type = types->at(object.type);
    address begin = object.begin;
    if (type.words->has_transients()) {
      const std::uint64_t first = from > at ? (from - at) / type.of->size * type.of->size : 0;
      for (std::uint64_t element = first; element < object.size && at + element < to; element += type.of->size)
        for (const pointer_map::word& w :
             type.words->words_near(from > at + element ? from - at - element : 0, to - at - element)) {
          if (w.kind != field_kind::transient) continue;
          keep(begin, at + element + w.offset);
          begin = at + element + w.offset + w.length;
        }
    }
    keep(begin, object.end);
  });
}

// Keeps persistent objects whole, with the fields that are not logged. Transient objects keep what was written to them.
void database_state::restorable_parts(const rvm::memory_range& page, std::vector<rvm::memory_range>& kept) {
  const auto from = reinterpret_cast<address>(page.address), to = from + page.length;
  const std::uint64_t block = map->block_of(from);
  if (is_bookkeeping(block) || (map->holds_persistent(block) && !map->may_have_transients(block)))
    return kept.push_back(page);
  map->for_each_persistent_in(from, to, [&](address at) {
    const object_facts object = map->facts(at);
    const address begin = std::max(object.begin, from), end = std::min(object.end, to);
    if (begin < end) kept.push_back({reinterpret_cast<std::byte*>(begin), end - begin});
  });
}

bool database_state::is_bookkeeping(std::uint64_t block) const {
  return map->kind_of_zone(block / blocks_in_zone) != zone_kind::continued && map->is_bookkeeping(block);
}

// The stabilizer announces what it writes. The database's header is changed by the transaction that makes it, too.
bool database_state::is_announced(const rvm::memory_range& page) const noexcept {
  const auto from = reinterpret_cast<address>(page.address);
  return from >= home + zone_kinds_at && is_bookkeeping(map->block_of(from));
}

// Runs in a signal handler.
bool database_state::allows_stray_write(const std::byte* at) const noexcept {
  const auto where = reinterpret_cast<address>(at);
  const std::uint64_t block = map->block_of(where);
  if (has_blocks(map->kind_of_zone(block / blocks_in_zone)) && map->is_bookkeeping(block)) return false;
  bool recoverable = false;
  map->for_each_persistent_in(where, where + 1, [&](address) { recoverable = true; });
  return !recoverable;
}

std::string database_state::describe(const std::byte* at) const {
  const found_object found = find(at);
  if (!found) return {};
  return object_text(owner, found.at) + field_text(owner, found.at, reinterpret_cast<address>(at) - found.at);
}

}  // namespace tenure
