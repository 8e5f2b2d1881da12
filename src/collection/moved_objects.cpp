// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/moved_objects.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <tenure/barriers.hpp>

namespace tenure::heap {

void moved_objects::add(database_state& in, const known_type& type, address object, std::uint64_t size) {
  assert(size < block_size);
  std::vector<std::uint32_t>& beside = by_block_[object / block_size];
  const auto behind = std::ranges::upper_bound(beside, object, {}, [&](std::uint32_t n) { return moves_[n].from; });
  beside.insert(behind, static_cast<std::uint32_t>(moves_.size()));
  moves_.push_back({&in, &type, object, size});
}

void moved_objects::copy() {
  for (move& m : moves_) {
    m.to = m.in->birth->make(described_object(m.type->index, *m.type->of, *m.type->words, m.size), maker::writer);
    std::memcpy(reinterpret_cast<void*>(m.to), reinterpret_cast<const void*>(m.from), m.size);
  }
}

void moved_objects::clear() {
  os::clear_all_of(moves_);
  os::clear_all_of(rewritten_);
  by_block_.clear();
}

const moved_objects::move* moved_objects::find(address at) const {
  const auto beside = by_block_.find(at / block_size);
  if (beside == by_block_.end()) return nullptr;
  const auto behind = std::ranges::upper_bound(beside->second, at, {}, [&](std::uint32_t n) { return moves_[n].from; });
  if (behind == beside->second.begin()) return nullptr;
  const move& m = moves_[*std::prev(behind)];
  return at < m.from + m.size || at == m.from ? &m : nullptr;
}

void moved_objects::rewrite(const known_type& type, address object, std::uint64_t size, std::uint64_t from,
                            std::uint64_t to, bytes_of what) {
  const pointer_map& words = *type.words;
  const std::uint64_t stride = type.of->size;
  if (!words.has_pointers() || stride == 0) return;
  for (std::uint64_t element = from / stride * stride; element < to && element + stride <= size; element += stride) {
    auto* const bytes = reinterpret_cast<std::byte*>(object + element);
    const move* last = nullptr;  // what the last reference leads to, which derived pointers follow
    for (const pointer_map::word& w : words.words()) {
      if (w.kind != field_kind::reference && w.kind != field_kind::derived) continue;
      if (w.guards != 0 && !words.holds(w, bytes)) continue;
      address at;
      std::memcpy(&at, bytes + w.offset, sizeof at);
      if (w.kind == field_kind::reference) last = at != 0 ? find(at) : nullptr;
      if (last == nullptr || at < last->from || at > last->from + last->size) continue;
      if (what != bytes_of::copy) rewritten_.push_back({object + element + w.offset, at});
      at += last->to - last->from;
      if (what == bytes_of::stored_object) announce_store(bytes + w.offset, sizeof at);
      std::memcpy(bytes + w.offset, &at, sizeof at);
    }
  }
}

void moved_objects::rewrite_stored(const database_state& in, address from, address to) {
  in.map->for_each_persistent_in(from, to, [&](address object) {
    const object_facts facts = in.map->facts(object);
    const known_type* const type = in.types->find(facts.type);
    if (type == nullptr || contains(object)) return;
    rewrite(*type, object, facts.size, std::max(from, object) - object, std::min(to - object, facts.size),
            bytes_of::stored_object);
  });
}

// A stored one was announced when it was rewritten, in the same transaction.
void moved_objects::put_back() noexcept {
  for (const rewritten& each : rewritten_) std::memcpy(reinterpret_cast<void*>(each.place), &each.to, sizeof each.to);
  os::clear_all_of(rewritten_);
}

}  // namespace tenure::heap
