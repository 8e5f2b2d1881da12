// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/object_walk.hpp"

#include <algorithm>
#include <span>

#include "objects/object_text.hpp"

namespace tenure::heap {

namespace {

sound_object sound_if(const database_state& in, const object_facts& object) {
  const std::uint64_t offset = object.at - in.map->home(), end = in.region.size();
  if (offset < bookkeeping_blocks_of(in.map->kind_of_zone(0)) * block_size || offset >= end) return {};
  const known_type* const type = in.types->find(object.type);
  if (object.size == 0 || object.size > end - offset || type == nullptr || type->words == nullptr) return {};
  return {&in, object.at, object.size, type, true};
}

}  // namespace

sound_object sound_at(const database_state& in, address object) {
  if (object - in.map->home() >= in.region.size()) return {};
  return sound_if(in, in.map->facts(object));
}

sound_object find_sound(const database_set& store, const void* at) {
  const database_state* const in = store.at(at);
  const auto address_of = reinterpret_cast<address>(at);
  if (in == nullptr || address_of - in->map->home() >= in->region.size()) return {};
  const found_object found = in->map->find(address_of);
  if (!found) return {};
  sound_object object = sound_if(*in, in->map->facts(found));
  object.is_persistent = found.is_persistent;
  return object;
}

std::vector<referrer> find_referrers(const database_set& store, address object) {
  std::vector<referrer> found;
  const auto is_root_table = [](const database_state& d, address at) {
    return d.header().roots != stored_address::none && reinterpret_cast<address>(d.root_table().entries) == at;
  };
  const auto look_at = [&](const database_state& d, const sound_object& from) {
    if (!from || is_root_table(d, from.at)) return;
    for_each_reference(*from.type, from.facts(), [&](const reference_field& r) {
      const bool is_inside = find_sound(store, r.to).at == object;
      if (is_inside || (r.may_be_end && find_sound(store, byte_before(r.to)).at == object))
        found.push_back({&d, from.at, r.offset, {}});
    });
    // They may have anything, and keep what they may mean.
    for_each_transient_word(*from.type, from.facts(), [&](std::uint64_t offset, address word) {
      const auto is_in = [&](address at) { return find_sound(store, reinterpret_cast<const void*>(at)).at == object; };
      if (word != 0 && (is_in(word) || is_in(word - 1))) found.push_back({&d, from.at, offset, {}});
    });
  };
  for (const auto& d : store) {
    if (d->header().roots != stored_address::none)
      for (const root_entry& root : std::span(d->root_table().entries, d->root_table().count))
        if (root.object == reinterpret_cast<void*>(object))
          found.push_back({d.get(), 0, 0, {root.name.text, root.name.length}});
    for (std::uint64_t block = 0; block < d->header().blocks_end; ++block)
      store.with_births_locked(
          [&] { d->map->for_each_persistent(block, block + 1, [&](address at) { look_at(*d, sound_at(*d, at)); }); });
    store.with_births_locked([&] {
      if (d->birth == nullptr) return;
      d->birth->for_each_transient_block([&](const transient_block& y) {
        y.starts.for_each([&](std::uint64_t g) {
          const address at = object_of_bit(d->map->start_of(y.first), y.pages, g);
          look_at(*d, find_sound(store, reinterpret_cast<void*>(at)));
        });
      });
    });
  }
  return found;
}

namespace {

// Whether an object starts at the address. Does not read its header.
bool is_damaged_object(const database_set& store, const void* at) {
  const database_state* const in = store.at(at);
  const auto object = reinterpret_cast<address>(at);
  if (in == nullptr || object % 8 != 0 || object - in->map->home() >= in->region.size()) return false;
  const std::uint64_t block = in->map->block_of(object);
  if (!has_blocks(in->map->kind_of_zone(block / blocks_in_zone)) || in->map->is_bookkeeping(block)) return false;
  return in->map->starts(block).test((object - in->map->start_of(block)) / granule);
}

}  // namespace

void reachable_objects::add(address object, step how) {
  if (seen_.emplace(object, std::move(how)).second) order_.push_back(object);
}

void reachable_objects::search(address wanted) {
  const auto exists = [&](const void* object) {
    return find_sound(store_, object) || is_damaged_object(store_, object);
  };
  for (const auto& d : store_) {
    if (d->header().roots == stored_address::none) continue;
    const auto add_internal = [&](stored_address object, const char* name) {
      if (exists(in_memory(object))) add(static_cast<address>(object), {0, 0, name + d->name});
    };
    const root_table& roots = d->root_table();
    for (std::uint64_t n = 0; n < roots.count; ++n)
      if (exists(roots.entries[n].object))
        add(reinterpret_cast<address>(roots.entries[n].object),
            {0, 0, "root " + std::string(roots.entries[n].name.text, roots.entries[n].name.length)});
    add_internal(d->header().roots, "roots of ");
    add_internal(d->header().types, "types of ");
  }
  follow_all(wanted);
}

void reachable_objects::search_from(address object) {
  add(object, {0, 0, {}});
  follow_all(0);
}

void reachable_objects::follow_all(address wanted) {
  follow_from(0, wanted);
  if (wanted != 0 && contains(wanted)) return;
  const std::size_t meant = order_.size();
  for (std::size_t next = meant; !ends_.empty(); next = order_.size()) {
    for (auto& [object, how] : std::exchange(ends_, {})) add(object, std::move(how));
    follow_from(next, wanted);
  }
  perhaps_.insert(order_.begin() + static_cast<std::ptrdiff_t>(meant), order_.end());
}

void reachable_objects::follow_from(std::size_t first, address wanted) {
  for (std::size_t next = first; next < order_.size() && order_.size() < most_; ++next) {
    const address object = order_[next];
    if (object == wanted) return;
    const sound_object from = find_sound(store_, reinterpret_cast<const void*>(object));
    if (!from) continue;
    for_each_reference(*from.type, from.facts(), [&](const reference_field& r) {
      if (const sound_object to = find_sound(store_, r.to))
        add(to.at, {object, r.offset, {}});
      else if (is_damaged_object(store_, in_memory(r.to)))
        add(static_cast<address>(r.to), {object, r.offset, {}});
      if (!r.may_be_end) return;
      if (const sound_object to = find_sound(store_, byte_before(r.to)); to && !contains(to.at))
        ends_.emplace_back(to.at, step{object, r.offset, {}});
    });
  }
}

std::string reachable_objects::path(address object) const {
  constexpr std::size_t most_steps = 24;  // of a path in a message
  std::vector<std::string> steps;
  for (auto at = seen_.find(object); at != seen_.end();) {
    const auto& [here, how] = *at;
    if (how.from == 0) {
      steps.push_back(how.root + ", " + object_text(store_, here));
      break;
    }
    steps.push_back(field_text(store_, how.from, how.offset) + " -> " + object_text(store_, here));
    at = seen_.find(how.from);
  }
  std::ranges::reverse(steps);
  if (steps.size() > most_steps) {
    const std::string left_out = " -> (" + std::to_string(steps.size() - most_steps) + " more) ";
    steps.erase(steps.begin() + most_steps / 2, steps.end() - most_steps / 2);
    steps[most_steps / 2 - 1] += left_out;
  }
  std::string text;
  for (const auto& s : steps) text += s;
  return text;
}

std::string find_path(const database_set& store, address object) {
  constexpr std::size_t most = 100'000;
  reachable_objects all(store, most);
  all.search(object);
  return all.path(object);
}

}  // namespace tenure::heap
