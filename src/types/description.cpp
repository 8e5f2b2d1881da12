// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is the same for all types when their descriptions are made: the end of fields.hpp's work.
#include <algorithm>
#include <cstring>

#include <tenure/error.hpp>
#include <tenure/fields.hpp>

#include "os/modules.hpp"
#include "types/fingerprint.hpp"

namespace tenure::detail {
namespace {

constexpr std::uint64_t word = sizeof(void*);

bool covers(const type& t, std::uint64_t offset) {
  return std::any_of(t.fields.begin(), t.fields.end(),
                     [&](const field& f) { return f.offset < offset + word && offset < f.offset + f.size; });
}

const void* word_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  const void* value = nullptr;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void require_coverage(const type& t) {
  for (std::uint64_t at = 0; at + word <= t.size; at += word)
    if (!covers(t, at))
      throw error(errc::bad_type,
                  t.name + ": bytes " + std::to_string(at) + " to " + std::to_string(at + word) +
                      " are in no member that the class has listed, and a pointer may be there: list the "
                      "member in tenure::members<>, or, if there is none that holds pointers, say "
                      "tenure::rest_is_data");
}

}  // namespace

void* nowhere() noexcept { return reinterpret_cast<void*>(std::uintptr_t{1} << 32); }

void complete(type& t, bool must_be_covered) {
  std::stable_sort(t.fields.begin(), t.fields.end(),
                   [](const field& one, const field& other) { return one.offset < other.offset; });
  if (must_be_covered) require_coverage(t);
  t.is_conservative = std::any_of(t.fields.begin(), t.fields.end(), [](const field& f) {
    return f.kind == field_kind::conservative || (f.kind == field_kind::nested && f.of().is_conservative);
  });
  t.fingerprint = types::fingerprint_of(t);
}

type stale_slots_of(const type& t) {
  type slots = t;
  slots.name = "tenure::slots<" + t.name + ">";
  slots.tolerates_stale = true;
  slots.fingerprint = types::fingerprint_of(slots);
  return slots;
}

void add_vtable_fields(class_parts& parts) {
  std::sort(parts.vtables.begin(), parts.vtables.end());
  parts.vtables.erase(std::unique(parts.vtables.begin(), parts.vtables.end()), parts.vtables.end());
  for (std::size_t i = 0; i < parts.vtables.size(); ++i) {
    field f;
    f.kind = field_kind::vtable;
    f.offset = parts.vtables[i];
    f.size = word;
    f.subobject = static_cast<std::uint32_t>(i);
    parts.fields.push_back(std::move(f));
  }
}

std::vector<const void*> vtables_in(const type& t, std::span<const std::byte> one, std::span<const std::byte> other) {
  std::vector<const void*> found;
  for (const field& f : t.fields) {
    if (f.kind != field_kind::vtable) continue;
    const void* const vtable = word_at(one, f.offset);
    if (vtable != word_at(other, f.offset) || os::constant_data_around(vtable).empty())
      throw error(errc::bad_type, t.name + ": there is no vtable pointer at offset " + std::to_string(f.offset) +
                                      " of new objects, where the bases that the class lists would have one: does its "
                                      "prototype make a complete object?");
    found.push_back(vtable);
  }
  for (std::uint64_t at = 0; at + word <= t.size; at += word) {
    const void* const value = word_at(one, at);
    if (!covers(t, at) && value == word_at(other, at) && !os::constant_data_around(value).empty())
      throw error(errc::bad_type,
                  t.name + ": the word at offset " + std::to_string(at) +
                      " of new objects points into the program's constants: a base with virtual functions "
                      "is missing in tenure::bases<>, or a pointer in tenure::members<>");
  }
  return found;
}

}  // namespace tenure::detail
