// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The heap's own persistent objects: the type index, the roots, the list of databases. They are ordinary objects of the
// heap with ordinary types, so their pointers are plain ones (stored_address.hpp). Their layouts are part of the format.
// Text is an array of char without a zero at its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tenure/fields.hpp>

namespace tenure::heap {

struct stored_text {
  const char* text;
  std::uint64_t length;
};

struct stored_field {
  stored_text name, type_name;
  std::uint64_t offset, size, count;
  std::uint64_t guard_offset, guard_value;
  std::uint32_t guard_width;  // 0: no guard
  std::uint32_t of;           // nested: type index
  std::uint32_t subobject;
  std::uint8_t kind, scalar;
  std::uint8_t reserved[2];
};

struct stored_type {
  stored_text name;
  std::uint64_t size, alignment, fingerprint;
  std::uint32_t version, flags;
  std::uint32_t first_slot, slots;  // of vtables
  stored_field* fields;
  std::uint64_t field_count;
  std::uint64_t tail;       // 0. For the offset from which on the fields repeat
  std::uint32_t same_name;  // 0. For the index of another layout of the same name
  std::uint32_t reserved[3];
};
constexpr std::uint32_t stored_type_conservative = 1, stored_type_tolerates_stale = 2;

[[nodiscard]] inline std::uint32_t flags_of(const type& t) {
  return (t.is_conservative ? stored_type_conservative : 0) | (t.tolerates_stale ? stored_type_tolerates_stale : 0);
}
// Without its texts. `of`: the number of its type, if it is nested.
[[nodiscard]] inline stored_field stored_form_of(const type_field& f, std::uint32_t of) {
  stored_field s{};
  s.offset = f.offset;
  s.size = f.size;
  s.count = f.count;
  s.of = of;
  s.subobject = f.subobject;
  s.kind = static_cast<std::uint8_t>(f.kind);
  s.scalar = static_cast<std::uint8_t>(f.scalar);
  if (f.only_if) {
    s.guard_offset = f.only_if->offset;
    s.guard_width = f.only_if->width;
    s.guard_value = f.only_if->value;
  }
  return s;
}

struct type_table {
  stored_type** types;  // by index; the first is null
  std::uint64_t count, capacity;
  std::uint64_t slots;  // of vtables, ever given out
};

struct root_entry {
  stored_text name;
  void* object;
};
struct root_table {
  root_entry* entries;  // in no order
  std::uint64_t count, capacity;
};

}  // namespace tenure::heap
