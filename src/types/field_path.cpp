// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/field_path.hpp"

#include "types/evolution.hpp"

namespace tenure::types {

bool leads_into(std::string_view path, std::string_view of) {
  return path.size() > of.size() && path.starts_with(of) && path[of.size()] == '.';
}

found_field find_field(const type& in, std::string_view path, const evolution* renamed) {
  for (const type_field& f : in.fields) {
    if (f.kind == field_kind::vtable || f.name.empty()) continue;
    const bool is_of_base = renamed != nullptr && f.name.find("::") != std::string::npos;
    const std::string name = is_of_base ? renamed->renamed_member(f.name) : f.name;
    if (name == path) return {&f, 0, {}, f.name};
    if (!leads_into(path, name) || f.kind != field_kind::nested || f.count != 1) continue;
    found_field inner = find_field(f.of(), path.substr(name.size() + 1), renamed);
    if (inner.field == nullptr) continue;
    inner.path = f.name + "." + inner.path;
    inner.offset += f.offset;
    for (field_guard& g : inner.guards) g.offset += f.offset;
    if (f.only_if) inner.guards.push_back(*f.only_if);
    return inner;
  }
  return {};
}

}  // namespace tenure::types
