// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// References that no commit knows: of transient objects, and in transient fields of persistent ones.
#pragma once

#include <utility>

#include "objects/database_state.hpp"
#include "objects/references.hpp"
#include "os/writable_memory.hpp"

namespace tenure::heap {

// Calls f(to, may_be_end) for each that the object has. Neither allocates nor locks.
template <class F>
void for_each_unlogged_reference(const database_state& in, const object_facts& object, bool is_transient, F&& f) {
  const known_type* const type = in.types->find(object.type);
  if (type == nullptr || type->words == nullptr) return;
  if (is_transient)
    for_each_reference(*type, object, [&](const reference_field& r) { f(static_cast<address>(r.to), r.may_be_end); });
  for_each_transient_word(*type, object, [&](std::uint64_t, address word) { f(word, true); });
}

// Calls f(facts) for the persistent objects below `end` whose transient fields may have been written: what is written there lies
// on pages that the process has its own copies of. Neither allocates nor locks. Returns false if the kernel does not say which.
template <class F>
[[nodiscard]] bool for_each_with_transient_fields(const database_state& in, std::uint64_t bytes, F&& f) {
  if (!in.types->has_transients()) return true;
  const auto* const begin = reinterpret_cast<const std::byte*>(in.home);
  return os::for_each_own_page({begin, begin + bytes}, [&](os::memory_stretch run) {
    address last = 0;
    for (auto page = reinterpret_cast<address>(run.begin); page < reinterpret_cast<address>(run.end);
         page += typed_page_size)
      in.map->for_each_persistent_in(page, page + typed_page_size, [&](address object) {
        if (std::exchange(last, object) != object) f(in.map->facts(object));
      });
  });
}

}  // namespace tenure::heap
