// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the compiler knows of types, as constant data. The library makes descriptions of it (src/types/description.cpp), so
// that a program has next to no code for that, and is compiled in less time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tenure/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Of the values of a field.
struct field_facts {
  const std::type_info* element = nullptr;  // of one value; nullptr: of the type that is described
  const type& (*of)() = nullptr;            // as field::of
  std::uint64_t size = 0, count = 1;
  field_kind kind = field_kind::data;
  scalar_kind scalar = scalar_kind::none;
};

// A member or a base in a list of them.
struct listed_field {
  const field_facts* facts = nullptr;  // nullptr: it has no bytes
  bool is_derived = false;
};

// What a class is made of, with the bases' parts among its own.
struct class_parts {
  const std::type_info& of;
  const void* object;
  std::vector<field> fields = {};
  std::vector<std::uint64_t> vtables = {};                          // offsets of vtable pointers
  std::vector<std::pair<std::string, std::uint64_t>> visited = {};  // a virtual base is met on several ways
};
// Adds the members of the class at `at`, which is the object or a base in it, and its bases.
using class_adder = void (*)(class_parts& parts, const void* at);

struct listed_base {
  const std::type_info* info = nullptr;
  class_adder add = nullptr;           // of a class whose members are known
  const field_facts* facts = nullptr;  // of others; neither: it has no bytes
};

struct type_facts {
  const std::type_info* info = nullptr;
  std::string_view name = {};  // empty: what `info` says
  std::uint64_t size = 0, alignment = 1;
  std::uint32_t version = 0;
  bool must_be_covered = false;  // the class names all of its members that may hold pointers
  const type_operations* operations = nullptr;
  // How the fields are found: there is one at most, or those of a class without virtual bases, or in a way of its own.
  const field_facts* only_field = nullptr;
  class_adder add = nullptr;
  void (*describe)(type& t) = nullptr;
};

// A type, and its description when it has been asked for.
struct described_type {
  const type* made = nullptr;
  type_facts facts;
};

[[nodiscard]] const type& make_description(described_type& of);
// Thread-safe.
[[nodiscard]] inline const type& description_of(described_type& of) {
  if (const type* const made = __atomic_load_n(&of.made, __ATOMIC_ACQUIRE)) return *made;
  return make_description(of);
}

// An address to take addresses of members from; nothing is there.
[[nodiscard]] void* nowhere() noexcept;

void add_known_field(std::vector<field>& to, std::string_view name, std::uint64_t offset, const field_facts& facts,
                     const field_guard* only_if);
// `members` and `names`, each of which ends with a zero, are as many as `count`.
void add_known_members(class_parts& parts, const std::type_info& of, const void* at, const listed_field* members,
                       const char* names, const std::uint64_t* offsets, std::size_t count);
void add_known_bases(class_parts& parts, const listed_base* bases, const void* const* places, std::size_t count);
void add_vtable(class_parts& parts, const void* at);
// Describes a class of which there is an object there, or nowhere.
void describe_class(type& t, const std::type_info& of, class_adder add, const void* object);

#pragma GCC visibility pop

}  // namespace tenure::detail
