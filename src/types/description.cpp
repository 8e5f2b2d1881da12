// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The last step of making a type's description, after fields.hpp. It is the same for all types.
#include <algorithm>
#include <cstring>
#include <memory>

#include <tenure/error.hpp>
#include <tenure/fields.hpp>

#include "os/modules.hpp"
#include "types/fingerprint.hpp"

namespace tenure::detail {
namespace {

constexpr std::uint64_t word = sizeof(void*);

bool covers(const type& t, std::uint64_t offset) {
  return std::any_of(t.fields.begin(), t.fields.end(),
                     [&](const type_field& f) { return f.offset < offset + word && offset < f.offset + f.size; });
}

const void* word_at(const std::byte* bytes, std::uint64_t offset) {
  const void* value = nullptr;
  std::memcpy(&value, bytes + offset, sizeof value);
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

// Sorts the fields, and computes the fingerprint and all that follows from the fields. Throws errc::bad_type if a class
// must name all its members, and has room for a pointer that no named member covers.
void complete(type& t, bool must_be_covered) {
  std::stable_sort(t.fields.begin(), t.fields.end(),
                   [](const type_field& one, const type_field& other) { return one.offset < other.offset; });
  if (must_be_covered) require_coverage(t);
  t.is_conservative = std::any_of(t.fields.begin(), t.fields.end(), [](const type_field& f) {
    return f.kind == field_kind::conservative || (f.kind == field_kind::nested && f.of().is_conservative);
  });
  t.fingerprint = types::fingerprint_of(t);
}

// Sorts the vtable pointers and makes a field of each.
void add_vtable_fields(class_parts& parts) {
  std::sort(parts.vtables.begin(), parts.vtables.end());
  parts.vtables.erase(std::unique(parts.vtables.begin(), parts.vtables.end()), parts.vtables.end());
  for (std::size_t i = 0; i < parts.vtables.size(); ++i) {
    type_field f;
    f.kind = field_kind::vtable;
    f.offset = parts.vtables[i];
    f.size = word;
    f.subobject = static_cast<std::uint32_t>(i);
    parts.fields.push_back(std::move(f));
  }
}

std::uint64_t offset_of(const class_parts& parts, const void* at) {
  return static_cast<std::uint64_t>(static_cast<const char*>(at) - static_cast<const char*>(parts.object));
}

}  // namespace

void* nowhere() noexcept { return reinterpret_cast<void*>(std::uintptr_t{1} << 32); }

void add_known_field(std::vector<type_field>& to, std::string_view name, std::uint64_t offset, const field_facts& facts,
                     const field_guard* only_if) {
  type_field f;
  f.name = name;
  f.kind = facts.kind;
  f.scalar = facts.scalar;
  f.offset = offset;
  f.size = facts.size;
  f.count = facts.count;
  f.row = facts.row;
  f.of = facts.of;
  f.is_checked = facts.is_checked;
  if (facts.element != nullptr) f.type_name = readable_name(*facts.element);
  if (only_if != nullptr) f.only_if = *only_if;
  to.push_back(std::move(f));
}

void add_known_members(class_parts& parts, const std::type_info& of, const void* at, const listed_field* members,
                       const char* names, const std::uint64_t* offsets, std::size_t count) {
  const std::string prefix = of == parts.of ? "" : readable_name(of) + "::";
  const std::uint64_t base = offset_of(parts, at);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name(names);
    names += name.size() + 1;
    if (members[i].facts == nullptr) continue;
    add_known_field(parts.fields, prefix + std::string(name), base + offsets[i], *members[i].facts, nullptr);
    if (members[i].is_derived) parts.fields.back().kind = field_kind::derived;
  }
}

void add_known_bases(class_parts& parts, const listed_base* bases, const void* const* places, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const listed_base& base = bases[i];
    if (base.info == nullptr) continue;
    std::pair<std::string, std::uint64_t> visit{readable_name(*base.info), offset_of(parts, places[i])};
    if (std::find(parts.visited.begin(), parts.visited.end(), visit) != parts.visited.end()) continue;
    if (base.add != nullptr)
      base.add(parts, places[i]);
    else if (base.facts != nullptr)
      add_known_field(parts.fields, visit.first, visit.second, *base.facts, nullptr);
    parts.visited.push_back(std::move(visit));
  }
}

void add_vtable(class_parts& parts, const void* at) { parts.vtables.push_back(offset_of(parts, at)); }

void describe_class(type& t, const std::type_info& of, class_adder add, const void* object) {
  class_parts parts{of, object};
  add(parts, object);
  add_vtable_fields(parts);
  t.fields = std::move(parts.fields);
}

const type& make_description(described_type& of) {
  const type_facts& facts = of.facts;
  auto t = std::make_unique<type>();
  t->name = facts.name.empty() ? readable_name(*facts.info) : std::string(facts.name);
  t->size = facts.size;
  t->alignment = facts.alignment;
  t->version = facts.version;
  t->operations = facts.operations;
  if (facts.only_field != nullptr) {
    add_known_field(t->fields, "", 0, *facts.only_field, nullptr);
    if (facts.only_field->element == nullptr) t->fields.back().type_name = t->name;
  } else if (facts.add != nullptr) {
    describe_class(*t, *facts.info, facts.add, nowhere());
  } else if (facts.describe != nullptr) {
    facts.describe(*t);
  }
  complete(*t, facts.must_be_covered);
  if (facts.add_allocated != nullptr) facts.add_allocated(t->allocates);
  // If several threads come at once, the first one wins. There is no lock, because constructors of the program's
  // classes have run.
  const type* none = nullptr;
  if (!__atomic_compare_exchange_n(&of.made, &none, t.get(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return *none;
  return *t.release();
}

type stale_slots_of(const type& t) {
  type slots = t;
  slots.name = "tenure::slots<" + t.name + ">";
  slots.tolerates_stale = true;
  slots.fingerprint = types::fingerprint_of(slots);
  return slots;
}

namespace {
thread_local int prototypes_that_are_made = 0;
}  // namespace

prototype_memory::prototype_memory() noexcept { ++prototypes_that_are_made; }
prototype_memory::~prototype_memory() { --prototypes_that_are_made; }
bool prototype_memory::is_used() noexcept { return prototypes_that_are_made != 0; }

std::vector<const void*> vtables_in(const type& t, const std::byte* one, const std::byte* other) {
  std::vector<const void*> found;
  for (const type_field& f : t.fields) {
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
