// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/verifier.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "objects/database_set.hpp"
#include "objects/object_text.hpp"
#include "objects/object_walk.hpp"
#include "objects/unreadable_pages.hpp"
#include "objects/weak_cells.hpp"
#include "os/system_error.hpp"
#include "segments/format.hpp"
#include "types/fingerprint.hpp"
#include "types/pointee.hpp"

namespace tenure::heap {

namespace {

constexpr std::size_t most_complaints = 500;

class verifier {
 public:
  verifier(const database_set& store, verified_by who) : store_(store), by_writer_(who == verified_by::writer) {}

  std::vector<std::string> run() {
    for (const auto& d : store_) {
      if (!by_writer_) check_checksums(*d);
      check_descriptions(*d);
      check_blocks(*d);
      if (d->birth)
        d->birth->with_lock([&] {
          for (const std::string& wrong : d->birth->find_wrong_owners()) say(d->file + ": " + wrong);
        });
    }
    for (const auto& d : store_) {
      store_.with_births_locked([&] { check_roots(*d); });
      check_objects(*d);
    }
    return std::move(found_);
  }

 private:
  void say(std::string what) {
    if (found_.size() < most_complaints) found_.push_back(std::move(what));
  }
  const reachable_objects& reached() {
    if (!reached_) reached_.emplace(store_).search();
    return *reached_;
  }
  bool is_meant(address object) { return reached().is_meant(object); }
  std::string how_reached(address object) {
    const std::string path = reached().path(object);
    return path.empty() ? " (not reachable from a root)" : " (" + path + ")";
  }
  static std::string at(const database_state& d, std::uint64_t block) {
    return d.file + ": block " + std::to_string(block) + " at " +
           os::hexadecimal(reinterpret_cast<void*>(d.map->start_of(block)));
  }

  void check_checksums(database_state& d) {
    const std::vector<std::uint64_t> damaged = store_.memory().verify_segment(d.file);
    if (store_.is_read_only()) replace_unreadable(d, damaged);
    for (const std::uint64_t offset : damaged) {
      std::string text = d.file + ": the page at offset " + std::to_string(offset) + " is damaged";
      const address page = d.home + offset;
      const std::uint64_t block = offset / block_size;
      if (d.map->kind_of_zone(block / blocks_in_zone) != zone_kind::continued && d.map->is_bookkeeping(block)) {
        say(text + ": bookkeeping");
        continue;
      }
      bool is_empty = true;
      d.map->for_each_persistent_in(page, page + rvm::redo_page, [&](address object) {
        is_empty = false;
        say(text + ": " + object_text(store_, object) + how_reached(object));
      });
      if (is_empty) say(text + ": no object is on it");
    }
  }

  void check_blocks(database_state& d) {
    const std::uint64_t end = d.header().blocks_end;
    if (end > d.map->blocks() || end * block_size > d.region.size())
      return say(d.file + ": blocks_end is " + std::to_string(end) + ", beyond the segment's end");
    if (const std::uint64_t used = d.map->end_of_used_blocks(d.region.size() / block_size); used > end)
      say(at(d, used - 1) + ": is in use, but blocks_end is " + std::to_string(end));
    for (std::uint64_t b = 0; b < end; ++b) {
      const std::uint64_t zone = b / blocks_in_zone;
      if (!has_blocks(d.map->kind_of_zone(zone))) {
        b = (zone + 1) * blocks_in_zone - 1;
        continue;
      }
      const block_entry& e = d.map->entry(b);
      if (e.kind != block_kind::typed && d.map->record(b).pages != page_words{})
        say(at(d, b) + ": has types for its pages, but is not of that kind");
      if (d.map->is_bookkeeping(b)) {
        if (e.kind != block_kind::bookkeeping) say(at(d, b) + ": is not marked as bookkeeping");
        continue;
      }
      // Other threads make objects meanwhile: the transient ones of the block change.
      store_.with_births_locked([&] { check_block(d, b, e); });
    }
  }

  void check_block(database_state& d, std::uint64_t b, const block_entry& e) {
    switch (e.kind) {
      case block_kind::unused:
      case block_kind::continued:
        if (!d.map->starts(b).empty()) say(at(d, b) + ": objects start in a block that has none");
        if (e.kind == block_kind::continued &&
            (e.span == 0 || e.span > b % blocks_in_zone || d.map->entry(b - e.span).kind != block_kind::large ||
             d.map->entry(b - e.span).span <= e.span))
          say(at(d, b) + ": continues a large object that is not there");
        if (e.kind == block_kind::unused && (e.used != 0 || e.span != 0))
          say(at(d, b) + ": is unused, but counts objects or blocks");
        break;
      case block_kind::small: check_small(d, b, e); break;
      case block_kind::typed:
        if (d.map->is_headed(b)) say(at(d, b) + ": has typed pages, but its zone has none");
        check_typed(d, b, e);
        break;
      case block_kind::large: check_large(d, b, e); break;
      default: say(at(d, b) + ": is of unknown kind " + std::to_string(static_cast<int>(e.kind)));
    }
  }

  // Whether what its header or its page says of an object makes sense.
  bool check_facts(database_state& d, std::uint64_t b, const object_facts& object, std::uint64_t room) {
    const known_type* const type = d.types->find(object.type);
    if (type == nullptr || type->stored == nullptr) {
      say(at(d, b) + ": the object at " + os::hexadecimal(reinterpret_cast<void*>(object.at)) +
          " has the unknown type " + std::to_string(object.type) + how_reached(object.at));
      return false;
    }
    if (object.size == 0 || object.size > room || (type->of->size != 0 && object.size % type->of->size != 0)) {
      say(at(d, b) + ": " + type->of->name + " at " + os::hexadecimal(reinterpret_cast<void*>(object.at)) +
          " has the size " + std::to_string(object.size) + how_reached(object.at));
      return false;
    }
    return true;
  }

  void check_flags(database_state& d, std::uint64_t b, address object) {
    const auto* const header = reinterpret_cast<const object_header*>(object - sizeof(object_header));
    if (const std::uint32_t flags = header->type / most_types; flags != 0)
      say(at(d, b) + ": the object at " + os::hexadecimal(reinterpret_cast<void*>(object)) + " has the unknown flags " +
          std::to_string(flags) + how_reached(object));
  }

  void check_once(database_state& d, std::uint64_t b, std::uint64_t start_bit, address object) {
    if (const transient_block* y = d.map->find_transient_block(b); y != nullptr && y->starts.test(start_bit))
      say(at(d, b) + ": the object at " + os::hexadecimal(reinterpret_cast<void*>(object)) +
          " is persistent and transient at once");
  }

  void check_small(database_state& d, std::uint64_t b, const block_entry& e) {
    std::uint64_t used = 0;
    address free_from = d.map->start_of(b);
    d.map->starts(b).for_each([&](std::uint64_t g) {
      const object_facts object = facts_of_headed(d.map->start_of(b) + g * granule);
      check_flags(d, b, object.at);
      if (!check_facts(d, b, object, d.map->start_of(b + 1) - object.at)) return;
      if (object.begin < free_from)
        say(at(d, b) + ": the object at " + os::hexadecimal(reinterpret_cast<void*>(object.at)) +
            " overlaps the one before");
      free_from = object.end;
      used += granules_of(object.size);
      check_once(d, b, g, object.at);
    });
    if (used != e.used)
      say(at(d, b) + ": " + std::to_string(used) + " granules are in use, " + std::to_string(e.used) + " are counted");
    if (d.map->starts(b).empty()) say(at(d, b) + ": has no objects, but is not unused");
  }

  void check_typed(database_state& d, std::uint64_t b, const block_entry& e) {
    const record_view r = d.map->record(b);
    const auto page_text = [&](std::size_t n) {
      return at(d, b) + ": the typed page at " +
             os::hexadecimal(reinterpret_cast<void*>(d.map->start_of(b) + n * typed_page_size));
    };
    for (std::size_t n = 0; n < pages_in_block; ++n) {
      const page_word page = r.pages[n];
      const std::uint64_t objects = r.starts.count_in_page(n);
      if (page.is_typed() != (objects != 0))
        say(page_text(n) + " has " + std::to_string(objects) + " objects, but " + (page.is_typed() ? "a" : "no") +
            " type");
      if (page.is_typed() && !page.is_sound())
        say(page_text(n) + " has objects of type " + std::to_string(page.type()) + " with " +
            std::to_string(page.size()) + " bytes");
    }
    r.starts.for_each([&](std::uint64_t g) {
      const std::size_t n = g * granule / typed_page_size;
      if (!r.pages[n].is_sound()) return;
      const object_facts object = facts_of_typed(object_of_bit(d.map->start_of(b), r.pages, g), r.pages[n]);
      const std::uint64_t offset = object.at - d.map->start_of(b);
      if (offset / granule != g || offset + r.pages[n].stride() > (n + 1) * typed_page_size)
        say(page_text(n) + " has an object that lies in no slot, at granule " + std::to_string(g));
      else if (check_facts(d, b, object, r.pages[n].size()))
        check_once(d, b, g, object.at);
    });
    if (const std::uint64_t objects = r.starts.count(); objects != e.used)
      say(at(d, b) + ": has " + std::to_string(objects) + " objects, " + std::to_string(e.used) + " are counted");
    if (r.starts.empty()) say(at(d, b) + ": has no objects, but is not unused");
  }

  void check_large(database_state& d, std::uint64_t b, const block_entry& e) {
    if (e.span == 0 || e.span > d.map->blocks() || (b + e.span) * block_size > d.region.size())
      return say(at(d, b) + ": a large object of " + std::to_string(e.span) + " blocks does not fit there");
    std::uint64_t objects = 0;
    d.map->starts(b).for_each([&](std::uint64_t g) {
      ++objects;
      check_flags(d, b, d.map->start_of(b) + g * granule);
      (void)check_facts(d, b, facts_of_headed(d.map->start_of(b) + g * granule), e.span * block_size - g * granule);
    });
    if (objects != 1) say(at(d, b) + ": " + std::to_string(objects) + " objects start in the block of a large one");
    const std::uint64_t next_zone = (b / blocks_in_zone + 1) * blocks_in_zone;
    for (std::uint64_t n = b + 1; n < std::min(b + e.span, next_zone); ++n)
      if (const block_entry& each = d.map->entry(n); each.kind != block_kind::continued || each.span != n - b)
        say(at(d, n) + ": belongs to the large object before it, but does not say so");
    for (std::uint64_t n = next_zone; n < b + e.span; n += blocks_in_zone)
      if (d.map->kind_of_zone(n / blocks_in_zone) != zone_kind::continued)
        say(at(d, n) + ": its zone belongs to the large object before it, but does not say so");
  }

  // As they were read from the store.
  void check_descriptions(const database_state& d) {
    for (std::uint32_t n = 1; n < d.types->count(); ++n)
      if (const known_type* const known = d.types->find(n);
          known != nullptr && known->owned && types::fingerprint_of(*known->owned) != known->owned->fingerprint)
        say(d.file + ": the description of its type " + std::to_string(n) + ", " + known->owned->name +
            ", has another fingerprint than it says: it is damaged");
  }

  void check_roots(const database_state& d) {
    if (d.header().roots == stored_address::none) return;
    const root_table& roots = d.root_table();
    for (std::uint64_t n = 0; n < roots.count; ++n) {
      const void* const object = roots.entries[n].object;
      const sound_object found = find_sound(store_, object);
      if (!found || found.at != reinterpret_cast<address>(object) || (!found.is_persistent && !by_writer_))
        say(d.file + ": the root \"" + std::string(roots.entries[n].name.text, roots.entries[n].name.length) +
            "\" refers to " + os::hexadecimal(object) + ", where no object starts");
    }
  }

  void check_objects(database_state& d) {
    const std::uint64_t end = std::min(d.header().blocks_end, d.region.size() / block_size);
    d.map->for_each_persistent(0, end,
                               [&](address object) { store_.with_births_locked([&] { check_object(d, object); }); });
  }

  void check_object(database_state& d, address object) {
    const sound_object known = sound_at(d, object);
    if (!known) return;                        // check_facts has reported it
    if (d.destroyed.contains(object)) return;  // removed in the open transaction: nobody uses it again
    const known_type& type = *known.type;
    for_each_reference(type, known.facts(), [&](const reference_field& r) {
      if (r.is_ambiguous) return;
      const void* const target = in_memory(r.to);
      const database_state* const in = store_.at(target);
      const sound_object to = find_sound(store_, r.to);
      if (to.is_persistent || (to && by_writer_)) return check_target(object, type, r, to);
      if (!is_meant(object)) return;  // garbage may refer to anything [heap.garbage.opaque]
      say(object_text(store_, object) + field_text(store_, object, r.offset) + " refers to " + os::hexadecimal(target) +
          ", " +
          (in == nullptr ? describe_address(target) + "which is not in the store"
           : to          ? "an object that is not persistent"
                         : std::string("where no object is")) +
          how_reached(object));
    });
    check_vtables(d, type, known);
    if (type.cell != cell_kind::none) check_cell(object);
  }

  void check_cell(address object) {
    const void* const target =
        tenure::detail::shown(reinterpret_cast<const tenure::detail::weak_cell*>(object)->hidden);
    const sound_object to = target != nullptr ? find_sound(store_, target) : sound_object{};
    if (target == nullptr || to.is_persistent || (to && by_writer_) || !is_meant(object)) return;
    say(object_text(store_, object) + " leads to " + os::hexadecimal(target) + ", where no persistent object is" +
        how_reached(object));
  }

  // nullptr: the database has no description of it.
  const type* described(const database_state& in, std::string_view name) {
    auto& types = described_[&in];
    if (types.empty())
      for (std::uint32_t n = 1; n < in.types->count(); ++n)
        if (const known_type* const t = in.types->find(n); t != nullptr && !t->of->is_conservative)
          types.emplace(t->of->name, t->of);
    const auto found = types.find(std::string(name));
    return found != types.end() ? found->second : nullptr;
  }

  // A slot of a typed page may have been used again, for the object of another type.
  void check_target(address object, const known_type& type, const reference_field& r, const sound_object& to) {
    const std::string declared = declared_type_of_pointer(*type.of, r.offset);
    const std::string_view pointee = pointee_of(declared);
    if (pointee.empty() || to.type == nullptr || to.type->words->has_vtables()) return;
    const tenure::type* const meant = described(*to.in, pointee);
    if (meant == nullptr) return;
    const std::uint64_t inside = reinterpret_cast<address>(in_memory(r.to)) - to.at;
    if (may_contain(*to.type->of, inside, *meant)) return;
    if (!is_meant(object)) return;  // [heap.garbage.opaque]
    say(object_text(store_, object) + field_text(store_, object, r.offset) + " is a " + declared + ", but refers to " +
        (inside == 0 ? "" : "byte " + std::to_string(inside) + " of ") + object_text(store_, to.at) +
        how_reached(object));
  }

  void check_vtables(const database_state& d, const known_type& type, const sound_object& object) {
    if (!type.words->has_vtables() || by_writer_) return;
    const auto* const bytes = reinterpret_cast<std::byte*>(object.at);
    os::cleared_vector<std::byte> copy(bytes, bytes + object.size);
    if (d.types->canonicalize(type, copy.data(), object.size))
      say(object_text(store_, object.at) + " has a vtable pointer that means nothing in another process" +
          how_reached(object.at));
  }

  const database_set& store_;
  const bool by_writer_;
  std::vector<std::string> found_;
  std::optional<reachable_objects> reached_;
  std::unordered_map<const database_state*, std::unordered_map<std::string, const type*>> described_;
};

}  // namespace

std::vector<std::string> verify(const database_set& store, verified_by who) { return verifier(store, who).run(); }

}  // namespace tenure::heap
