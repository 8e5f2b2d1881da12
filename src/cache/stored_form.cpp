// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/stored_form.hpp"

#include <cstring>

#include <tenure/error.hpp>

#include "cache/object_locks.hpp"
#include "cache/words.hpp"
#include "os/system_error.hpp"

namespace tenure::cache {

void add_changed_parts(cached_object& object, std::vector<object_part>& to) {
  const old_value::shape shape = object.shape();
  const std::byte *const before = object.before.bytes(shape), *const now = object.bytes;
  const std::size_t first = to.size();
  object.before.for_each(shape, [&](std::size_t begin, std::size_t length) {
    if (std::memcmp(before + begin, now + begin, length) == 0) return;
    for (std::size_t at = begin; at < begin + length; at += shape.stride) {
      if (std::memcmp(before + at, now + at, shape.stride) == 0) continue;
      if (to.size() != first && to.back().offset + to.back().length == at)
        to.back().length += shape.stride;
      else
        to.push_back({&object, at, shape.stride});
    }
  });
}

void stored_form(open_transaction& tx, const object_part& part, const std::byte* bytes, const object_table& objects,
                 const open_databases& databases, std::span<std::byte> to) {
  const cached_object& object = *part.object;
  std::memcpy(to.data(), bytes + part.offset, part.length);
  const bool is_now = bytes == object.bytes;
  const auto refuse = [&](std::uint64_t word, std::size_t offset, const std::string& why) {
    throw error(errc::cannot_persist,
                object.text() + ", refers to " + os::hexadecimal(word) + " in " +
                    pointer_map::path_of(*object.type.program, offset % object.type.program->size) + ", " + why);
  };
  const auto require_not_destroyed = [&](const cached_object& target, std::uint64_t word, std::size_t offset) {
    if (object_locks::has_destroyed(tx, target) && !object.type.program->tolerates_stale)
      refuse(word, offset, "which the transaction has destroyed: " + target.text());
  };
  // [cache.locks.united]
  const auto has_lock = [&](cached_object& target) {
    return !target.has_guard || target.leader == object.leader || target.state == object_state::made ||
           object.type.program->tolerates_stale || object_locks::try_acquire(tx, target, lock_mode::shared);
  };
  const auto require_home = [&](std::uint64_t word, std::size_t offset) {
    if (!is_now) return word;
    if (const cached_object* const target = objects.find(word)) require_not_destroyed(*target, word, offset);
    if (databases.at(word) == nullptr)
      refuse(word, offset,
             "where no object of the store is; cache::store::make makes objects, and containers that were made in a "
             "transaction that changes the store have their elements there");
    return word;
  };
  const auto home_of = [&](std::uint64_t word, bool is_ref, std::size_t offset) {
    cached_object* const target = objects.find_at(word);
    if (target == nullptr) return require_home(word, offset);  // of a slot behind the last element, as it was stored
    if (is_now) require_not_destroyed(*target, word, offset);
    if (is_now && target->state == object_state::made && !target->is_reached)
      refuse(word, offset, "which another transaction has made: " + target->text());
    if (is_now && !is_ref && !has_lock(*target))
      refuse(word, offset,
             "which another transaction changes or destroys, and this one has no lock of: " + target->text());
    return target->home + (word - target->at());
  };
  std::uint64_t base = 0, stored_base = 0;  // of the last reference, which derived pointers follow
  for_each_word(object.type, to.data(), to.size(), [&](const pointer_map::word& w, std::size_t n, std::byte* at) {
    std::uint64_t word = 0;
    if (w.kind != field_kind::transient) std::memcpy(&word, at, sizeof word);
    const auto offset = static_cast<std::size_t>(at - to.data());
    switch (w.kind) {
      case field_kind::vtable: word = object.type.stored_vtables[n]; break;
      case field_kind::derived:
        if (word != 0) word = stored_base + (word - base);
        break;
      case field_kind::reference:
        base = word;
        if (w.is_checked && is_identifier(word))
          // What it was may be damaged: then a commit mends it.
          word = is_now ? require_home(home_in(word), offset) : home_in(word);
        else if (word != 0)
          word = home_of(w.is_checked ? address_in(word) : word, w.is_checked, offset);
        if (!w.is_checked) stored_base = word;
        break;
      default: return;
    }
    std::memcpy(at, &word, sizeof word);
  });
}

void give_back_transients(const cached_object& object, std::span<const std::byte> before, std::span<std::byte> now) {
  for_each_word(object.type, now.data(), now.size(), [&](const pointer_map::word& w, std::size_t, std::byte* at) {
    if (w.kind == field_kind::transient)
      std::memcpy(at, before.data() + (at - now.data()), static_cast<std::size_t>(w.length));
  });
}

void add_differences(std::span<const std::byte> before, std::span<const std::byte> now, std::vector<byte_range>& to) {
  const std::size_t first = to.size();
  for (std::size_t at = 0; at < now.size();) {
    if (at % 8 == 0 && at + 8 <= now.size() && std::memcmp(before.data() + at, now.data() + at, 8) == 0) {
      at += 8;
    } else if (before[at] == now[at]) {
      ++at;
    } else if (to.size() != first && to.back().offset + to.back().length == at) {
      ++to.back().length;
      ++at;
    } else {
      to.push_back({at, 1});
      ++at;
    }
  }
}

void unswizzle(const object_part& part, const object_table& objects) {
  const cached_object& object = *part.object;
  for_each_word(object.type, object.bytes + part.offset, part.length,
                [&](const pointer_map::word& w, std::size_t, std::byte* at) {
                  if (!w.is_checked || !is_direct(load_word(at))) return;
                  const std::uint64_t word = load_word(at);
                  if (const cached_object* const target = objects.find_at(word))
                    store_word(at, identifier_of(target->home + (word - target->at())));
                });
}

void unite_with_targets(const object_part& part, const object_table& objects) {
  cached_object& object = *part.object;
  for_each_word(object.type, object.bytes + part.offset, part.length,
                [&](const pointer_map::word& w, std::size_t, const std::byte* at) {
                  if (w.kind != field_kind::reference || w.is_checked) return;
                  std::uint64_t word;
                  std::memcpy(&word, at, sizeof word);
                  if (cached_object* const target = objects.find_at(word)) object_table::unite(object, *target);
                });
}

}  // namespace tenure::cache
