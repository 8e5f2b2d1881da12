// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/stabilizer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <optional>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "objects/object_walk.hpp"
#include "objects/references.hpp"
#include "os/system_error.hpp"

namespace tenure::heap {

namespace {

constexpr std::uint64_t least_table = 32;  // types: those of a new database, and some

constexpr stabilizer::refusal_reason outside{
    "which is not in the store",
    "make the object with store.make, set the pointer to null, or declare the field transient"};
constexpr stabilizer::refusal_reason in_another_store{
    "which is in another store",
    "pointers lead from one store to another in transient fields only; a container that is in no store gets its memory "
    "from the store whose transaction the thread has begun last, so copy it to where it belongs, or build it there"};
constexpr stabilizer::refusal_reason destroyed{
    "an object that this transaction has destroyed",
    "set the pointer to null, or take its object out of the container, before the commit"};
constexpr stabilizer::refusal_reason nothing{
    "where no object is",
    "if it was destroyed earlier, the pointer should have been set to null then; set it to null now"};
constexpr stabilizer::refusal_reason moved{
    "where an object was before an earlier commit copied it",
    "read the pointer anew in each transaction, or keep a tenure::handle to the object"};

}  // namespace

void stabilizer::trace(std::span<const rvm::memory_range> changes) {
  freed_.resize(store_.size());
  for (const auto& d : store_) {
    destroyed_.insert(destroyed_.end(), d->destroyed.begin(), d->destroyed.end());
    destroyed_.insert(destroyed_.end(), d->retired.begin(), d->retired.end());
  }
  std::ranges::sort(destroyed_);
  store_.with_births_locked([&] {
    trace_changes(changes);
    trace_pending();
    trace_unchanged();
    trace_pending();
    refuse_destroyed_references();
  });
}

void stabilizer::describe() {
  while (!undescribed_.empty() || !grown_.empty()) {
    for (const auto& [in, what] : std::exchange(undescribed_, {})) describe(*in, *what);
    store_.with_births_locked([&] {
      trace_pending();
      if (undescribed_.empty()) promote_tables();
    });
  }
}

// Until the commit is captured or undone, the births know that what it frees is not free yet [heap.blocks.unfinished].
void stabilizer::write() {
  store_.with_births_locked([&] {
    try {
      for (const auto& d : store_) write_bookkeeping(*d);
      for (std::size_t n = 0; n < store_.size(); ++n) {
        auto& blocks = freed_[n];
        std::ranges::sort(blocks);
        blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
        store_[n].birth->prepare_commit(store_[n].retired.size(), blocks);
      }
    } catch (...) {
      undo_writes();
      throw;
    }
  });
}

void stabilizer::trace_changes(std::span<const rvm::memory_range> changes) {
  database_state* in = nullptr;
  for (const rvm::memory_range& range : changes) {
    if (in == nullptr || !in->map->contains(reinterpret_cast<address>(range.address))) in = store_.at(range.address);
    if (in == nullptr) continue;
    const auto from = reinterpret_cast<address>(range.address), to = from + range.length;
    if (from < in->home + zone_kinds_at) {
      const database_header& h = in->header();
      for (const stored_address internal : {h.types, h.roots}) follow(*in, {in->home, 0, internal}, if_nothing::refuse);
      continue;
    }
    in->map->for_each_persistent_in(from, to, [&](address object) {
      if (is_destroyed(object)) return;
      const std::uint64_t begin = from > object ? from - object : 0;
      const object_facts facts = in->map->facts(object);
      trace_object(*in, in->types->at(facts.type), object, facts.size, begin,
                   std::min(to - std::min(to, object), facts.size), if_nothing::refuse);
    });
  }
}

void stabilizer::trace_unchanged() {
  // Mostly changes lead to all of them: to look at all pages anyway took a third of the time of a commit.
  const auto is_left = [&](address object) { return !is_destroyed(object); };
  if (std::ranges::none_of(store_, [&](const auto& d) { return d->birth->any_left_in_reused_memory(is_left); })) return;
  tx_.for_each_written_page([&](const rvm::memory_range& page) {
    database_state* const in = store_.at(page.address);
    const auto from = reinterpret_cast<address>(page.address), to = from + page.length;
    if (in == nullptr || from < in->home + zone_kinds_at) return;
    in->map->for_each_persistent_in(from, to, [&](address object) {
      if (is_destroyed(object)) return;
      const object_facts facts = in->map->facts(object);
      const std::uint64_t begin = from > object ? from - object : 0,
                          end = std::min(to - std::min(to, object), facts.size);
      for_each_reference(in->types->at(facts.type), reinterpret_cast<const std::byte*>(object), facts.size, begin, end,
                         [&](const reference_field& r) {
                           follow_new(*in, static_cast<address>(r.to), if_nothing::refuse);
                           if (r.may_be_end)
                             follow_new(*in, static_cast<address>(byte_before(r.to)), if_nothing::ignore);
                         });
    });
  });
}

void stabilizer::follow_new(database_state& from, address to, if_nothing behind) {
  database_state* const in = from.map->contains(to) ? &from : store_.at(reinterpret_cast<const void*>(to));
  if (in == nullptr || !in->map->may_have_transients(in->map->block_of(to))) return;
  const found_object found = in->map->find(to);
  if (found && !found.is_persistent && !in->map->was_moved(found) && !is_destroyed(found.at))
    promote(*in, *found.within, found.at, behind);
}

void stabilizer::trace_object(database_state& in, const known_type& type, address object, std::uint64_t size,
                              std::uint64_t from, std::uint64_t to, if_nothing how) {
  auto* const bytes = reinterpret_cast<std::byte*>(object);
  if (type.words->has_vtables()) in.types->canonicalize(type, bytes, size, from, to);
  for_each_reference(type, bytes, size, from, to, [&](const reference_field& r) {
    follow(in, {object, r.offset, r.to}, r.is_ambiguous ? if_nothing::ignore : how, how);
    if (r.may_be_end) follow(in, {object, r.offset, byte_before(r.to)}, if_nothing::ignore, if_nothing::ignore);
  });
}

void stabilizer::follow(database_state& from, const reference& r, if_nothing how, if_nothing behind) {
  if (r.to == stored_address::none) return;
  const bool is_near = from.map->contains(static_cast<address>(r.to));
  database_state* const in = is_near ? &from : store_.at(in_memory(r.to));
  if (in == nullptr) {
    if (how == if_nothing::ignore) return;
    refuse(r, open_set_with(in_memory(r.to)) != nullptr ? in_another_store : outside);
  }
  const found_object found = in->map->find(static_cast<address>(r.to));
  if (!found || is_destroyed(found.at)) {
    if (how == if_nothing::ignore) return;
    refuse(r, found ? destroyed : nothing);
  }
  if (found.is_persistent) return;
  if (in->map->was_moved(found)) {  // what stale bytes lead to is nothing
    if (how == if_nothing::ignore) return;
    refuse(r, moved);
  }
  promote(*in, *found.within, found.at, behind);
}

void stabilizer::promote(database_state& in, transient_block& y, address object, if_nothing how) {
  const std::uint64_t bit = (object - in.map->start_of(y.first)) / granule;
  assert(y.starts.test(bit));
  if (y.promoted.test(bit)) return;
  in.birth->note_promoted(y);
  y.promoted.set(bit);
  const object_facts facts = in.map->transient_facts(y, object);
  if (tallies_.empty() || !tallies_.back().is_of(in, facts.type)) turn_to(in, facts.type);
  tally& sum = tallies_.back();
  ++sum.objects;
  sum.bytes += facts.end - facts.begin;
  if (sum.may_refer) pending_.push_back({&in, sum.of, object, facts.size, how});
  if (sum.of->cell != cell_kind::none) cells_.push_back(object);
}

void stabilizer::turn_to(database_state& in, std::uint32_t type) {
  const auto known = std::ranges::find_if(tallies_, [&](const tally& t) { return t.is_of(in, type); });
  if (known != tallies_.end()) return std::swap(*known, tallies_.back());
  known_type& of = *in.types->find(type);
  tallies_.push_back({&in, type, of.words->has_pointers() || of.words->has_vtables(), &of});
  if (of.stored == nullptr) undescribed_.emplace_back(&in, &of);
}

// Depth first, with an explicit list: a chain of any length needs no stack.
void stabilizer::trace_pending() {
  while (!pending_.empty()) {
    const pending next = pending_.back();
    pending_.pop_back();
    trace_object(*next.in, *next.type, next.object, next.size, 0, next.size, next.how);
  }
}

void stabilizer::refuse(const reference& r, const refusal_reason& why) {
  const std::string path = find_path(store_, r.from);
  throw error(errc::cannot_persist, "cannot make persistent: " + (path.empty() ? object_text(store_, r.from) : path) +
                                        field_text(store_, r.from, r.offset) + " refers to " +
                                        os::hexadecimal(in_memory(r.to)) + ", " + describe_address(in_memory(r.to)) +
                                        why.what + "; " + why.advice);
}

// Costs about 20 ns for each object that is in memory. What no root leads to may refer to anything [heap.garbage.opaque].
void stabilizer::refuse_destroyed_references() {
  const destroy_check check = store_.how().check_destroyed;
#ifdef NDEBUG
  if (check != destroy_check::always) return;
#else
  if (check == destroy_check::never) return;
#endif
  std::vector<std::pair<address, address>> gone;  // begin and end
  for (const address object : destroyed_) {
    const block_map& map = *store_.at(reinterpret_cast<void*>(object))->map;
    gone.emplace_back(object, object + map.facts(map.find_start(object)).size);
  }
  if (gone.empty()) return;
  std::ranges::sort(gone);
  const auto is_gone = [&](stored_address to) {
    const auto at = std::ranges::upper_bound(gone, static_cast<address>(to), {}, [](const auto& g) { return g.first; });
    return at != gone.begin() && static_cast<address>(to) < std::prev(at)->second;
  };
  std::optional<reachable_objects> reached;
  const auto is_garbage = [&](address object) {
    if (!reached) reached.emplace(store_).search();
    return !reached->is_meant(object);
  };
  for (const auto& d : store_)
    d->map->for_each_persistent(0, d->header().blocks_end, [&](address object) {
      if (is_destroyed(object)) return;
      const object_facts facts = d->map->facts(object);
      for_each_reference(d->types->at(facts.type), facts, [&](const reference_field& r) {
        if (!r.is_ambiguous && is_gone(r.to) && !is_garbage(object)) refuse({object, r.offset, r.to}, destroyed);
      });
    });
}

// --- The type index ---------------------------------------------------------------------------------------------------

void stabilizer::describe(database_state& in, known_type& what) {
  if (what.stored != nullptr) return;
  // Set before anything else, because it may describe the types of the description itself.
  auto* const made = in.make_array<stored_type>(1);
  described_.push_back(&what);
  what.stored = made;
  const type& t = *what.of;
  made->name = in.make_text(t.name);
  made->size = t.size;
  made->alignment = t.alignment;
  made->fingerprint = t.fingerprint;
  made->version = t.version;
  made->flags = flags_of(t);
  made->first_slot = what.first_slot;
  made->slots = what.slots;
  made->field_count = t.fields.size();
  if (!t.fields.empty()) made->fields = in.make_array<stored_field>(t.fields.size());
  for (std::size_t n = 0; n < t.fields.size(); ++n) {
    const type_field& f = t.fields[n];
    const bool is_nested = f.kind == field_kind::nested && f.of;
    stored_field& s = made->fields[n] = stored_form_of(f, is_nested ? in.types->index_of(f.of()) : 0);
    s.name = in.make_text(f.name);
    s.type_name = in.make_text(f.type_name);
    if (!is_nested) continue;
    known_type& nested = *in.types->find(s.of);
    if (nested.stored == nullptr) describe(in, nested);
  }
  type_table& table = in.type_table();
  if (what.index >= table.capacity) {
    const std::uint64_t capacity = std::max<std::uint64_t>({least_table, 2 * table.capacity, what.index + 1});
    auto* const larger = in.make_array<stored_type*>(capacity);
    std::copy_n(table.types, table.count, larger);
    if (const found_object old = in.map->find_start(reinterpret_cast<address>(table.types))) {
      auto& gone = old.is_persistent ? in.destroyed : in.retired;
      replaced_.emplace_back(&gone, old.at);
      gone.insert(old.at);
    }
    write(table.types) = larger;
    write(table.capacity) = capacity;
    if (std::ranges::find(grown_, &in) == grown_.end()) grown_.push_back(&in);
  }
  write(table.types[what.index]) = made;
  if (what.index >= table.count) write(table.count) = what.index + 1;
  write(table.slots) = std::max<std::uint64_t>(table.slots, what.first_slot + what.slots);
  in.birth->with_lock([&] {
    follow(in, {reinterpret_cast<address>(table.types), what.index * sizeof(void*), stored_address_of(made)},
           if_nothing::refuse);
  });
}

// Called when no type is left to describe. So arrays that the same commit has replaced by larger ones do not become
// persistent.
void stabilizer::promote_tables() {
  for (database_state* const in : std::exchange(grown_, {})) {
    const type_table& table = in->type_table();
    follow(*in, {reinterpret_cast<address>(&table), 0, stored_address_of(table.types)}, if_nothing::refuse);
  }
  trace_pending();
}

// --- Bookkeeping ------------------------------------------------------------------------------------------------------

void stabilizer::declare_write(void* at, std::size_t length) {
  assert(store_.at(at) != nullptr && store_.at(static_cast<std::byte*>(at) + length - 1) == store_.at(at));
  tx_.set_range(at, length);
  const std::size_t saved = saved_.size();
  saved_.insert(saved_.end(), static_cast<std::byte*>(at), static_cast<std::byte*>(at) + length);
  writes_.push_back({static_cast<std::byte*>(at), length, saved});  // undo() looks at what is here
}

void stabilizer::write_bookkeeping(database_state& in) {
  std::vector<transient_block*> blocks = in.birth->promoted();
  std::ranges::sort(blocks, {}, &transient_block::first);
  const bool large = worth_bulk(in, blocks);
  // Only space that is unused in the committed image is written past the log. Space that this commit frees is not: a
  // crash must leave it as it was [heap.bulk.unused].
  std::vector<bool> was_unused;
  was_unused.reserve(blocks.size());
  for (const transient_block* y : blocks) was_unused.push_back(!in.map->holds_persistent(y->first));
  free_destroyed(in);
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    transient_block* const y = blocks[n];
    write_block(in, *y);
    if (large && was_unused[n])
      write_in_bulk(in, *y);
    else
      declare_objects(in, *y);
  }
  flush_bulk();
  if (!in.trimming.empty()) ++write(in.header().trims);
  for (const auto& [first, length] : in.trimming) tx_.clear(in.region, first * block_size, length * block_size);
  if (blocks.empty()) return;
  const std::uint64_t end = blocks.back()->first + blocks.back()->span;
  if (end > in.header().blocks_end) write(in.header().blocks_end) = end;
}

void stabilizer::open_zone(database_state& in, std::uint64_t zone) {
  if (has_blocks(in.map->kind_of_zone(zone))) return;
  const zone_kind kind = zone == 0 && in.owner.how().tune.headed ? zone_kind::headed : zone_kind::ordinary;
  write(in.map->kind_of_zone(zone)) = kind;
  // The zone's bookkeeping may have been in use before, or a large object may have covered it. What memory shows then is
  // not what the file has [heap.zone.covered].
  // The first zone never becomes unused again, so its bookkeeping is new: to read all of it took a twelfth of the processor
  // time in which a store is made.
  const bool is_covered = in.birth->has_covered(zone);
  constexpr std::size_t piece = 4 << 10;
  for (std::uint64_t at = zone == 0 ? bookkeeping_size : records_at; at < bookkeeping_size; at += piece) {
    auto* const bytes = reinterpret_cast<std::byte*>(in.map->zone_start(zone) + at);
    if (!is_covered && std::all_of(bytes, bytes + piece, [](std::byte b) { return b == std::byte{}; })) continue;
    declare_write(bytes, piece);
    std::memset(bytes, 0, piece);
  }
  for (std::uint64_t n = 0; n < bookkeeping_blocks_of(kind); ++n)
    write(in.map->entry(zone * blocks_in_zone + n)) = {block_kind::bookkeeping, 0, 0, 0};
}

void stabilizer::write_block(database_state& in, transient_block& y) {
  open_zone(in, y.first / blocks_in_zone);
  start_bits& stored = in.map->starts(y.first);
  std::size_t first = start_bits::words, last = 0;
  for (std::size_t n = 0; n < start_bits::words; ++n)
    if (y.promoted.word(n) != 0) first = std::min(first, n), last = n;
  assert(first <= last && stored.is_disjoint_from(y.promoted));  // [heap.object.once]
  declare_write(&stored.word(first), (last - first + 1) * sizeof(std::uint64_t));
  for (std::size_t n = first; n <= last; ++n) stored.word(n) |= y.promoted.word(n);
  const record_view record = in.map->record(y.first);
  block_entry& entry = write(record.entry);
  assert(entry.kind == block_kind::unused || (y.kind != block_kind::large && entry.kind == y.kind));
  if (y.kind == block_kind::typed) {
    entry.kind = block_kind::typed;
    entry.used = static_cast<std::uint16_t>(entry.used + y.promoted.count());
    for (std::size_t n = 0; n < pages_in_block; ++n) {
      assert(!record.pages[n].is_typed() || record.pages[n] == y.pages[n]);
      if (!record.pages[n].is_typed() && !y.promoted.empty_in_page(n)) write(record.pages[n]) = y.pages[n];
    }
    return;
  }
  if (y.kind == block_kind::small) {
    entry.kind = block_kind::small;
    y.promoted.for_each([&](std::uint64_t g) {
      entry.used = static_cast<std::uint16_t>(
          entry.used + granules_of(facts_of_headed(in.map->start_of(y.first) + g * granule).size));
    });
    assert(entry.used <= granules_in_block);
    return;
  }
  entry = {block_kind::large, 0, 0, y.span};
  const std::uint64_t zone_end = (y.first / blocks_in_zone + 1) * blocks_in_zone, end = y.first + y.span;
  for (std::uint64_t b = y.first + 1; b < std::min(zone_end, end); ++b)
    write(in.map->entry(b)) = {block_kind::continued, 0, 0, static_cast<std::uint32_t>(b - y.first)};
  for (std::uint64_t b = zone_end; b < end; b += blocks_in_zone)
    write(in.map->kind_of_zone(b / blocks_in_zone)) = zone_kind::continued;
}

// Block by block: each word is declared once, and not for each object.
void stabilizer::free_destroyed(database_state& in) {
  std::vector<std::uint64_t> emptier;  // zones
  address_list<address> gone(in.destroyed.begin(), in.destroyed.end());
  std::ranges::sort(gone);
  const auto in_block = [&](address object) { return in.map->block_of(object); };
  for (auto first = gone.begin(); first != gone.end();) {
    const std::uint64_t block = in_block(*first);
    const auto end = std::ranges::upper_bound(first, gone.end(), block, {}, in_block);
    start_bits objects;
    const record_view record = in.map->record(block);
    for (; first != end; ++first) {
      const std::uint64_t bit = (*first - in.map->start_of(block)) / granule;
      if (record.starts.test(bit)) objects.set(bit);
    }
    if (objects.empty()) continue;
    for (std::size_t n = 0; n < start_bits::words; ++n)
      if (objects.word(n) != 0) write(record.starts.word(n)) &= ~objects.word(n);
    assert(block_map::has_objects(record.entry.kind));
    if (record.entry.kind == block_kind::large)
      free_large(in, block);
    else
      count_down(in, block, objects);
    if (record.entry.kind == block_kind::unused) emptier.push_back(block / blocks_in_zone);
  }
  // Large objects can continue over unused zones. Headed zones stay: their first blocks may have had objects, and would
  // become bookkeeping [heap.zone.headed].
  emptier.erase(std::unique(emptier.begin(), emptier.end()), emptier.end());
  for (const std::uint64_t zone : emptier) {
    if (zone != 0 && in.map->kind_of_zone(zone) == zone_kind::ordinary && in.map->is_unused(zone))
      write(in.map->kind_of_zone(zone)) = zone_kind::unused;
  }
}

// Of a block that has lost these objects.
void stabilizer::count_down(database_state& in, std::uint64_t block, const start_bits& objects) {
  const record_view record = in.map->record(block);
  std::uint64_t taken = 0;
  if (record.entry.kind == block_kind::typed) {
    taken = objects.count();
    for (std::size_t n = 0; n < pages_in_block; ++n)
      if (record.pages[n].is_typed() && !objects.empty_in_page(n) && record.starts.empty_in_page(n))
        write(record.pages[n]) = {};
  } else {
    objects.for_each(
        [&](std::uint64_t g) { taken += granules_of(facts_of_headed(in.map->start_of(block) + g * granule).size); });
  }
  block_entry& entry = write(record.entry);
  assert(entry.used >= taken);
  entry.used = static_cast<std::uint16_t>(entry.used - taken);
  if (entry.used == 0) entry = {};
  freed_in(in).push_back(block);
}

// The blocks of a large object that begins there.
void stabilizer::free_large(database_state& in, std::uint64_t block) {
  auto& freed = freed_in(in);
  const std::uint64_t zone_end = (block / blocks_in_zone + 1) * blocks_in_zone;
  const std::uint64_t object_end = block + in.map->entry(block).span,
                      end = std::min<std::uint64_t>(object_end, zone_end);
  for (std::uint64_t b = block; b < end; ++b) {
    write(in.map->entry(b)) = {};
    freed.push_back(b);
  }
  for (std::uint64_t b = zone_end; b < object_end; b += blocks_in_zone) {
    write(in.map->kind_of_zone(b / blocks_in_zone)) = zone_kind::unused;
    for (std::uint64_t n = b + bookkeeping_blocks; n < in.map->end_of_zone(b / blocks_in_zone); ++n) freed.push_back(n);
  }
}

std::vector<std::uint64_t>& stabilizer::freed_in(const database_state& of) {
  return freed_[static_cast<std::size_t>(std::ranges::find(store_, &of, &std::unique_ptr<database_state>::get) -
                                         store_.begin())];
}

// New objects are logged whole, together with the padding between them, which is zero.
void stabilizer::declare_objects(database_state& in, transient_block& y) {
  address from = 0, to = 0;
  y.promoted.for_each([&](std::uint64_t g) {
    const object_facts object = in.map->transient_facts(y, object_of_bit(in.map->start_of(y.first), y.pages, g));
    ++objects_;
    bytes_ += object.end - object.begin;
    const known_type& type = in.types->at(object.type);
    if (type.words->has_transients()) hide_transients(type, object);
    if (from != 0 && object.begin < to + granule) {
      to = object.end;
      return;
    }
    if (from != 0) tx_.set_range(reinterpret_cast<void*>(from), to - from);
    from = object.begin;
    to = object.end;
  });
  if (from != 0) tx_.set_range(reinterpret_cast<void*>(from), to - from);
}

// --- Bulk --------------------------------------------------------------------------------------------------------------

bool stabilizer::worth_bulk(database_state& in, std::span<transient_block* const> blocks) const {
  const std::uint64_t worth_it = store_.how().tune.bulk;
  std::uint64_t bytes = 0;
  for (const transient_block* y : blocks) {
    if (y->kind == block_kind::large)
      bytes += y->span * block_size;
    else if (y->kind == block_kind::typed)
      for (std::size_t n = 0; n < pages_in_block; ++n) bytes += y->promoted.count_in_page(n) * y->pages[n].size();
    else
      y->promoted.for_each([&](std::uint64_t g) {
        bytes += in.map->transient_facts(*y, object_of_bit(in.map->start_of(y->first), y->pages, g)).size;
      });
    if (bytes >= worth_it) return true;
  }
  return bytes >= worth_it;
}

// Writes whole pages: the promoted objects on them, and zeros between. A part that has only promoted objects comes
// straight from memory.
void stabilizer::write_in_bulk(database_state& in, transient_block& y) {
  const address begin = in.map->start_of(y.first), end = begin + y.span * block_size;
  if (bulk_.in != &in || bulk_.to != begin) {
    flush_bulk();
    bulk_.in = &in;
    bulk_.from = bulk_.to = begin;
  }
  const auto whole = [&](address from, address to) {
    return std::span(reinterpret_cast<const std::byte*>(from), to - from);
  };
  address done = begin;  // the pieces reach up to here
  const auto zeros_until = [&](address at) {
    static constexpr std::byte zeros[4096]{};
    while (done < at) {
      const std::uint64_t length = std::min<std::uint64_t>(at - done, sizeof zeros);
      bulk_.pieces.emplace_back(zeros, length);
      done += length;
    }
  };
  const bool is_pure = [&] {
    for (std::size_t n = 0; n < start_bits::words; ++n)
      if (y.starts.word(n) != y.promoted.word(n)) return false;
    return true;
  }();
  address last_end = begin;
  const auto add_stretch = [&](address from, address to) {
    bytes_ += to - from;
    // Padding between objects is zero.
    if (!(is_pure && from - last_end < granule)) {
      if (last_end > done) bulk_.pieces.push_back(whole(done, last_end)), done = last_end;
      zeros_until(from);
    }
    last_end = to;
  };
  const auto add_object = [&](std::uint64_t g) {
    const object_facts object = in.map->transient_facts(y, object_of_bit(begin, y.pages, g));
    ++objects_;
    const known_type& type = in.types->at(object.type);
    if (type.words->has_transients()) hide_transients(type, object);
    add_stretch(object.begin, object.end);
  };
  if (y.kind != block_kind::typed) y.promoted.for_each(add_object);
  for (std::size_t n = 0; y.kind == block_kind::typed && n < pages_in_block; ++n) {
    const page_word word = y.pages[n];
    const address page = begin + n * typed_page_size;
    const std::uint64_t objects = y.promoted.count_in_page(n);
    if (objects != 0 && objects == word.slots() && !in.types->at(word.type()).words->has_transients()) {
      objects_ += objects;  // the page at once: a commit of 1 M nodes takes 40 ms instead of 46
      add_stretch(page, page + objects * word.stride());
    } else {
      y.promoted.for_each_in_page(n, add_object);
    }
  }
  if (last_end > done) bulk_.pieces.push_back(whole(done, last_end)), done = last_end;
  zeros_until(end);
  bulk_.to = end;
}

void stabilizer::flush_bulk() {
  if (bulk_.in == nullptr) return;
  assert(std::accumulate(bulk_.pieces.begin(), bulk_.pieces.end(), address{0},
                         [](address sum, const auto& piece) { return sum + piece.size(); }) == bulk_.to - bulk_.from);
  tx_.write_bulk(bulk_.in->region, bulk_.from - bulk_.in->home, bulk_.pieces);
  bulk_ = {};
}

void stabilizer::hide_transients(const known_type& of, const object_facts& object) {
  for (std::uint64_t element = 0; element < object.size; element += of.of->size)
    for (const pointer_map::word& w : of.words->words()) {
      auto* const at = reinterpret_cast<std::byte*>(object.at + element + w.offset);
      if (w.kind != field_kind::transient || !of.words->holds(w, reinterpret_cast<std::byte*>(object.at + element)))
        continue;
      hidden_.hide(at, w.length);
    }
}

void stabilizer::undo_writes() noexcept {
  for (auto w = writes_.rbegin(); w != writes_.rend(); ++w) std::memcpy(w->at, saved_.data() + w->saved, w->length);
  writes_.clear();
}

void stabilizer::undo() noexcept {
  for (known_type* what : described_) what->stored = nullptr;
  for (const auto& [gone, table] : replaced_) gone->erase(table);
  store_.with_births_locked([&] {
    undo_writes();
    for (const auto& d : store_) d->birth->commit_failed();
  });
}

void stabilizer::committed(store_statistics& counts) noexcept {
  for (std::size_t n = 0; n < store_.size(); ++n) {
    database_state& d = store_[n];
    d.birth->committed(d.retired, freed_[n]);
  }
  counts.objects_stabilized += objects_;
  counts.bytes_stabilized += bytes_;
  for (const auto& d : store_) counts.objects_destroyed += d->destroyed.size();
  if (tallies_.empty()) return;
  counts.last_commit.clear();
  for (const tally& t : tallies_) {
    t.of->objects += t.objects;
    t.of->bytes += t.bytes;
    if (t.of->of->is_conservative) counts.conservative_objects += t.objects;
  }
  try {
    for (const tally& t : tallies_) counts.last_commit.push_back({t.of->of->name, t.objects, t.bytes});
  } catch (const std::bad_alloc&) {
    counts.last_commit.clear();
  }
}

}  // namespace tenure::heap
