// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Types of one name for the store, as those of two builds of a program are: here they are in two namespaces.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include <tenure/type.hpp>

#include "types/fingerprint.hpp"

namespace tenure::support {

// The type with these namespaces ("before::") left out of all names, and what it consists of likewise. Valid for ever.
inline const type& renamed(const type& t, std::initializer_list<std::string_view> namespaces) {
  auto* const result = new type(t);
  const auto rename = [&](std::string& text) {
    for (const std::string_view space : namespaces)
      for (std::size_t at = 0; (at = text.find(space)) != text.npos;) text.erase(at, space.size());
  };
  rename(result->name);
  for (field& f : result->fields) {
    rename(f.name);
    rename(f.type_name);
    if (f.kind == field_kind::nested) f.of = &renamed(f.of(), namespaces);
  }
  result->fingerprint = types::fingerprint_of(*result);
  return *result;
}

}  // namespace tenure::support
