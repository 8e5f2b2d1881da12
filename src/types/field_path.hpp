// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Paths that name fields of a class: "weight", "where.x" in a nested class, "entity::id" of a base.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/types/type.hpp>

namespace tenure::types {

class evolution;

// "where.x" leads into "where".
[[nodiscard]] bool leads_into(std::string_view path, std::string_view of);

// A field, found by its path through nested classes.
struct found_field {
  const type_field* field = nullptr;
  std::uint64_t offset = 0;              // of the class that has the field
  std::vector<field_guard> guards = {};  // of the classes around it; offsets from the whole value
  std::string path = {};                 // as the stored class has it
};

// `renamed`: names of bases in names of fields are those that the program has. {}: there is no such field.
[[nodiscard]] found_field find_field(const type& in, std::string_view path, const evolution* renamed = nullptr);

}  // namespace tenure::types
