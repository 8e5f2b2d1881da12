// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stored numbers, and how one kind of them becomes another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tenure/type.hpp>

namespace tenure::types {

struct number_type {
  scalar_kind kind = scalar_kind::none;
  std::uint64_t size = 0;  // bytes
  bool operator==(const number_type&) const = default;
};

// Of a field. A character is a number with a sign or without one: its type's name says which of them it is.
[[nodiscard]] number_type number_of(scalar_kind kind, std::uint64_t size, std::string_view type_name);

// Whether it is one that can be converted.
[[nodiscard]] bool is_number(number_type of);
// Whether each value of the one is a value of the other.
[[nodiscard]] bool is_widening(number_type from, number_type to);
// Writes the value at `from` to `to`. Returns whether it fits; if not, nothing is written. Of an enumeration it is not known
// whether its numbers have signs: if it becomes wider, numbers with the highest bit do not fit.
[[nodiscard]] bool convert_number(number_type from, const std::byte* at, number_type to, std::byte* into);

}  // namespace tenure::types
