// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of types that are made by hand: of types in two namespaces that have one name for the store, as those of two
// builds of a program do.
#pragma once

#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/type.hpp>

#include "types/fingerprint.hpp"

namespace tenure::support {

// A description that is made by hand, valid for ever, as those of type_of are.
inline type& keep(type described) {
  static auto* const all = new std::deque<type>;
  return all->emplace_back(std::move(described));
}

// The type with these namespaces ("before::") left out of all names, and what it consists of likewise. Valid for ever.
inline const type& renamed(const type& t, std::initializer_list<std::string_view> namespaces) {
  type& result = keep(t);
  const auto rename = [&](std::string& text) {
    for (const std::string_view space : namespaces)
      for (std::size_t at = 0; (at = text.find(space)) != text.npos;) text.erase(at, space.size());
  };
  rename(result.name);
  for (type_field& f : result.fields) {
    rename(f.name);
    rename(f.type_name);
    if (f.kind == field_kind::nested) f.of = &renamed(f.of(), namespaces);
  }
  result.fingerprint = types::fingerprint_of(result);
  return result;
}

}  // namespace tenure::support
