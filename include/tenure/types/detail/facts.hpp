// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The compiler's knowledge of types, as constant data. The library makes descriptions from it
// (src/types/description.cpp). So a program has almost no code for that, and compiles faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tenure/types/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Facts about the values of a field.
struct field_facts {
  const std::type_info* element = nullptr;  // of one value; nullptr: the described type
  const type& (*of)() = nullptr;            // see type_field::of
  std::uint64_t size = 0, count = 1, row = 1;
  field_kind kind = field_kind::data;
  scalar_kind scalar = scalar_kind::none;
  bool is_checked = false;  // see type_field
};

// A member or a base in a list of them.
struct listed_field {
  const field_facts* facts = nullptr;  // nullptr: it has no bytes
  bool is_derived = false;
};

// The parts of a class, including those of its bases.
struct class_parts {
  const std::type_info& of;
  const void* object;
  std::vector<type_field> fields = {};
  std::vector<std::uint64_t> vtables = {};                          // offsets of vtable pointers
  std::vector<std::pair<std::string, std::uint64_t>> visited = {};  // a virtual base is reached on several paths
};
// Adds the members and bases of the class at `at`, which is the object or a base in it.
using class_adder = void (*)(class_parts& parts, const void* at);

struct listed_base {
  const std::type_info* info = nullptr;
  class_adder add = nullptr;           // for a class whose members are known
  const field_facts* facts = nullptr;  // for others; if both are nullptr, it has no bytes
};

struct type_facts {
  const std::type_info* info = nullptr;
  std::string_view name = {};  // empty: the name in `info`
  std::uint64_t size = 0, alignment = 1;
  std::uint32_t version = 0;
  bool must_be_covered = false;  // the class names all of its members that may hold pointers
  const type_operations* operations = nullptr;
  // How the fields are found: there is at most one; or they are those of a class without virtual bases; or a function
  // finds them.
  const field_facts* only_field = nullptr;
  class_adder add = nullptr;
  void (*describe)(type& t) = nullptr;
  void (*add_allocated)(std::vector<type_reference>& to) = nullptr;  // type::allocates
};

// A type, and its description once that was requested.
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

// An address from which addresses of members are computed. Nothing is there.
[[nodiscard]] void* nowhere() noexcept;

void add_known_field(std::vector<type_field>& to, std::string_view name, std::uint64_t offset, const field_facts& facts,
                     const field_guard* only_if);
// `count` members and names. Each name ends with a zero.
void add_known_members(class_parts& parts, const std::type_info& of, const void* at, const listed_field* members,
                       const char* names, const std::uint64_t* offsets, std::size_t count);
void add_known_bases(class_parts& parts, const listed_base* bases, const void* const* places, std::size_t count);
void add_vtable(class_parts& parts, const void* at);
// Describes a class. `object` is an object of it, or nowhere().
void describe_class(type& t, const std::type_info& of, class_adder add, const void* object);

#pragma GCC visibility pop

}  // namespace tenure::detail
