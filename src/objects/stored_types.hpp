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
