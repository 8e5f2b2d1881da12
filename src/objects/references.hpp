// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The references of an object, found by the stored description of its type. Stabilizing, verifying, messages and tools use
// this one loop. It needs the object's bytes only, which may be a copy: nothing has to be mapped.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "objects/stored_address.hpp"
#include "objects/type_index.hpp"

namespace tenure::heap {

struct reference_field {
  std::uint64_t offset;  // in the object
  stored_address to;     // not none
  bool is_ambiguous;     // of unknown layout, or possibly stale
  bool may_be_end;       // of unknown layout: may point one past the end of the object that is meant
};

// Calls f(reference_field) for each reference that is not null and has a byte in [from, to), offsets in the object, in the
// order of offsets. And for those of optionals and variants that became valid by a change of these bytes
// [heap.reference.guards].
template <class F>
void for_each_reference(const known_type& of, const std::byte* bytes, std::uint64_t size, std::uint64_t from,
                        std::uint64_t to, F&& f) {
  assert(from <= to);
  const pointer_map& words = *of.words;
  const std::uint64_t stride = of.of->size;
  if (!words.has_pointers() || stride == 0) return;
  const auto visit = [&](std::uint64_t at, bool is_ambiguous, bool may_be_end) {
    if (const stored_address target = stored_address_in(bytes + at); target != stored_address::none)
      f(reference_field{at, target, is_ambiguous, may_be_end});
  };
  // Mostly whole objects are looked at: the division takes a fifth of the time of a small one.
  for (std::uint64_t element = from == 0 ? 0 : from / stride * stride; element < to && element + stride <= size;
       element += stride) {
    const std::uint64_t first = from < element ? 0 : from - element, end = to - element;
    for (const pointer_map::word& w : words.words_near(first, end)) {
      const std::uint64_t at = element + w.offset;
      if (!words.depends_on(w, first, end)) continue;
      if (w.kind == field_kind::reference) {
        if (w.guards == 0 || words.holds(w, bytes + element)) visit(at, of.of->tolerates_stale, false);
      } else if (w.kind == field_kind::conservative) {
        for (std::uint64_t each = at; each + sizeof(void*) <= at + w.length; each += sizeof(void*))
          visit(each, true, true);
      }
    }
  }
}

// The same for a whole object that is mapped.
template <class F>
void for_each_reference(const known_type& of, const object_facts& object, F&& f) {
  for_each_reference(of, reinterpret_cast<const std::byte*>(object.at), object.size, 0, object.size,
                     std::forward<F>(f));
}

// Calls f(offset, word) for each word of a mapped object's transient fields. Neither allocates nor locks.
template <class F>
void for_each_transient_word(const known_type& of, const object_facts& object, F&& f) {
  const std::uint64_t stride = of.of->size;
  if (!of.words->has_transients() || stride == 0) return;
  for (std::uint64_t element = 0; element + stride <= object.size; element += stride)
    for (const pointer_map::word& w : of.words->words()) {
      if (w.kind != field_kind::transient) continue;
      const address end = object.at + element + w.offset + w.length;
      for (address at = (object.at + element + w.offset + 7) & ~address{7}; at + sizeof(address) <= end;
           at += sizeof(address)) {
        address word;
        std::memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
        f(at - object.at, word);
      }
    }
}

}  // namespace tenure::heap
