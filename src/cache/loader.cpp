// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/loader.hpp"

#include <cstring>
#include <span>

#include <tenure/error.hpp>

#include "cache/type_check.hpp"
#include "cache/words.hpp"
#include "os/room_for_one.hpp"
#include "os/system_error.hpp"
#include "regions/announced_stores.hpp"
#include "types/pointee.hpp"

namespace tenure::cache {

namespace {

std::uint64_t plain_word(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

loader::reached loader::begin(load& all, std::uint64_t home, const type* declared) {
  const rvm::own_stores constructors;  // of programs, which vtables() may call, with the store's mutex
  const reached result = locate(all, home, declared, nullptr);
  // There are more while they are followed.
  for (std::size_t n = 0; n < all.objects.size(); ++n) {
    follow(all, *all.objects[n]);
    all.end_of_pointers.push_back(all.pointers.size());
  }
  return result;
}

std::vector<cached_object*> loader::in_memory(const load& all) {
  std::vector<cached_object*> found;
  for (const plain_pointer& pointer : all.pointers)
    if (pointer.target != nullptr && all.by_home.find(pointer.target->home) == nullptr) found.push_back(pointer.target);
  return found;
}

void loader::finish(load& all) {
  std::size_t next = 0;
  for (std::size_t n = 0; n < all.objects.size(); next = all.end_of_pointers[n++])
    convert(*all.objects[n], all.pointers.data() + next);
  objects_.add(std::move(all.made));
  loaded_ += all.objects.size();
  next = 0;
  for (std::size_t n = 0; n < all.objects.size(); ++n)
    for (; next < all.end_of_pointers[n]; ++next)
      if (cached_object* const target = all.pointers[next].target) object_table::unite(*all.objects[n], *target);
}

// Finds the object in memory, among those that are being loaded, or in the database.
loader::reached loader::locate(load& all, std::uint64_t home, const type* declared, const cached_object* from) {
  if (cached_object* const loading = all.by_home.find(home)) return {loading, 0, false};
  if (cached_object* const known = objects_.find(home)) return {known, 0, false};
  if (cached_object* const made = objects_.find_made(home)) return {made, home - made->home, false};
  open_database* const in = databases_.at(home);
  const stored_database::stored_object found = in != nullptr ? in->stored.find(home) : stored_database::stored_object{};
  if (!found) {
    if (from != nullptr && from->type.program->tolerates_stale) return {nullptr, 0, false};
    const std::string what = "a reference to " + os::hexadecimal(home) + ", where no object is";
    if (from != nullptr) throw from->in.damaged(from->text() + ", has " + what);
    if (in != nullptr) throw in->stored.damaged("there is " + what);
    throw error(errc::damaged, what + ", and no database of the store");
  }
  const std::uint64_t offset = home - found.at;
  if (offset != 0) {
    if (cached_object* const also = all.by_home.find(found.at)) return {also, offset, false};
    if (cached_object* const known = objects_.find(found.at)) return {known, offset, false};
  }
  return {bring(all, *in, found, offset == 0 ? declared : nullptr), offset, true};
}

// Reads the bytes of an object, as they are stored.
cached_object* loader::bring(load& all, open_database& in, const stored_database::stored_object& found,
                             const type* declared) {
  const bound_type& type = in.types.bind(found.type, declared);
  const auto what = [&] { return "the object at " + os::hexadecimal(found.at) + ", a " + type.program->name + ","; };
  if (type.program->size == 0 || found.size == 0 || found.size % type.program->size != 0)
    throw in.stored.damaged(what() + " has " + std::to_string(found.size) + " bytes");
  all.cost += object_table::cost_of(found.size);
  objects_.require_room(all.cost, what);
  all.by_home.reserve(1);
  os::reserve_one_more(all.objects);
  cached_object& made = all.made.emplace_back(objects_, in.stored, found, type);
  all.by_home.add(found.at, &made);
  all.objects.push_back(&made);
  in.stored.read(found.at, {made.bytes, static_cast<std::size_t>(found.size)}, what);
  require_sound_flags(made);
  return &made;
}

// A flag that is neither 0 nor 1 says yes to the program, and not to us, who would leave an address that means nothing.
void loader::require_sound_flags(const cached_object& object) {
  const pointer_map& words = object.type.words;
  if (words.guards().empty()) return;
  const std::uint64_t stride = object.type.program->size;
  for (std::uint64_t at = 0; at + stride <= object.size; at += stride)
    for (const pointer_map::word& w : words.words())
      for (std::uint32_t n = w.first_guard; n < w.first_guard + w.guards; ++n) {  // outer ones come first
        const field_guard& guard = words.guards()[n];
        std::uint64_t value = 0;
        std::memcpy(&value, object.bytes + at + guard.offset, guard.width);
        if (object.type.flags[n] && value > 1)
          throw object.in.damaged(object.text() + ", has " + std::to_string(value) + " in " +
                                  pointer_map::path_of(*object.type.program, guard.offset) + ", which is a bool");
        if (value != guard.value) break;
      }
}

// Finds what its plain pointers lead to.
void loader::follow(load& all, cached_object& object) {
  std::vector<plain_pointer>& into = all.pointers;
  for_each_word(
      object.type, object.bytes, object.size, [&](const pointer_map::word& w, std::size_t, const std::byte* at) {
        if (w.kind != field_kind::reference) return;
        const std::uint64_t home = plain_word(at);
        if (w.is_checked) return objects_.prefetch(home);
        if (home == 0) {
          into.push_back({nullptr, 0});
          return;
        }
        reached target = locate(all, home, w.of, &object);
        if (target.object != nullptr && w.of != nullptr && target.object->type.program != w.of) {
          if (target.offset == 0) require_one_description(target.object->type, *w.of);
          // Pointers to classes that no object has, as the bases of nodes, cannot be judged.
          open_database* const in = databases_.at(home);
          if (in->types.knows(w.of->name) && !may_contain(*target.object->type.program, target.offset, *w.of)) {
            if (!object.type.program->tolerates_stale)
              throw object.in.damaged(object.text() + ", has a pointer to a " + w.of->name + ", but " +
                                      target.object->text() + ", is there");
            target = {nullptr, 0, false};
          }
        }
        into.push_back({target.object, target.offset});
      });
}

// From what is stored to what it is in memory. Plain pointers come in the order in which follow() has found them.
void loader::convert(cached_object& object, const plain_pointer* next) {
  std::uint64_t stored_base = 0, base = 0;  // of the last reference, which derived pointers follow
  for_each_word(object.type, object.bytes, object.size, [&](const pointer_map::word& w, std::size_t, std::byte* at) {
    const std::uint64_t stored = plain_word(at);
    std::uint64_t word = stored;
    switch (w.kind) {
      case field_kind::transient: std::memset(at, 0, static_cast<std::size_t>(w.length)); return;
      case field_kind::vtable: {
        const void* const table = w.of->operations->vtables()[w.slot];
        std::memcpy(at, &table, sizeof table);
        return;
      }
      case field_kind::derived:
        if (word != 0) word = base + (stored - stored_base);
        break;
      case field_kind::reference:
        if (w.is_checked) {
          if (is_beyond_homes(stored))
            throw object.in.damaged(object.text() + ", has a reference to " + os::hexadecimal(stored) +
                                    ", where no object can be");
          if ((stored & 1U) != 0)
            throw error(errc::bad_type, object.text() + ", has a reference to the odd address " +
                                            os::hexadecimal(stored) + ", which no ref can be");
          const cached_object* const target = stored == 0 ? nullptr : objects_.find(stored);
          const bool is_known = target != nullptr && target->type.program == w.of;
          discovered_ += is_known ? 1 : 0;
          word = is_known ? objects_.word_to(*target) : identifier_of(stored);
        } else {
          const plain_pointer& pointer = *next++;
          if (pointer.target != nullptr) word = pointer.target->at() + pointer.offset;
          stored_base = stored;
          base = word;
        }
        break;
      default: return;
    }
    std::memcpy(at, &word, sizeof word);
  });
}

}  // namespace tenure::cache
