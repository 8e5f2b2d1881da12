// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a pointer of a declared type may refer to. Descriptions tell: the names of pointers' types, and the fields and bases of
// the objects that they lead to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tenure/type.hpp>

namespace tenure {

// The declared type, such as "part*", of the pointer at this offset in the type; "" if it is not known, or if it is one of
// several.
[[nodiscard]] std::string declared_type_of_pointer(const type& of, std::uint64_t offset);
// The same of one of the type's words: in a variant, of the field that this word is.
[[nodiscard]] std::string declared_type_of_pointer(const type& of, const pointer_map& words,
                                                   const pointer_map::word& word);

// Of "tenure::slots<part>", which arrays of standard containers have: "part".
[[nodiscard]] std::string_view without_slots(std::string_view name);

// What a pointer of this declared type refers to: "part" of "part const*".
[[nodiscard]] std::string_view pointee_of(std::string_view declared);

// Whether something of this type is, or may be, at `offset` of an object, or of an array, of the type `in`. False only if the
// descriptions rule it out. They have members of bases, not the bases: one is where all of its members are.
[[nodiscard]] bool may_contain(const type& in, std::uint64_t offset, const type& pointee);

}  // namespace tenure
