// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/pointee.hpp"

#include <algorithm>
#include <array>

namespace tenure {

namespace {

// Any object's bytes may be looked at through these, and numbers of one size through each other's types.
bool is_general(std::string_view pointee) {
  constexpr std::array general = {"void", "bool",  "char",   "short",   "int",
                                  "long", "float", "double", "wchar_t", "std::byte"};
  const std::size_t last = pointee.rfind(' ');
  return pointee.empty() || std::ranges::find(general, pointee.substr(last + 1)) != general.end() ||
         pointee.starts_with("char");
}

// An empty one may be anywhere.
bool has_base(const type& in, std::uint64_t offset, const type& base) {
  if (base.fields.size() == 1 && base.fields.front().name.empty()) return false;  // a number
  return std::ranges::all_of(base.fields, [&](const type_field& member) {
    if (member.name.empty()) return true;
    const std::string name = member.name.find("::") == std::string::npos ? base.name + "::" + member.name : member.name;
    return std::ranges::any_of(
        in.fields, [&](const type_field& f) { return f.offset == offset + member.offset && f.name == name; });
  });
}

bool contains(const type& in, std::uint64_t offset, const type& pointee) {
  if (in.is_conservative || in.size == 0) return true;
  offset %= in.size;
  if ((offset == 0 && without_slots(in.name) == pointee.name) || has_base(in, offset, pointee)) return true;
  return std::ranges::any_of(in.fields, [&](const type_field& f) {
    if (offset < f.offset || offset - f.offset >= f.size) return false;
    const std::uint64_t rest = (offset - f.offset) % (f.size / f.count);
    switch (f.kind) {
      case field_kind::nested: return contains(f.of(), rest, pointee);
      case field_kind::data:  // anything may have been made in an array of bytes
        return (rest == 0 && f.type_name == pointee.name) || (f.size / f.count == 1 && f.count > 1);
      case field_kind::reference: return rest == 0 && f.type_name == pointee.name;
      default: return true;
    }
  });
}

}  // namespace

std::string_view without_slots(std::string_view name) {
  constexpr std::string_view slots = "tenure::slots<";
  if (name.starts_with(slots) && name.ends_with('>')) {
    name.remove_prefix(slots.size());
    name.remove_suffix(1);
  }
  return name;
}

std::string_view pointee_of(std::string_view declared) {
  if (!declared.ends_with('*')) return {};
  declared.remove_suffix(1);
  for (const std::string_view word : {" ", " const", " volatile", " const"})
    if (declared.ends_with(word)) declared.remove_suffix(word.size());
  return declared;
}

std::string declared_type_of_pointer(const type& of, std::uint64_t offset) {
  std::string declared;
  if (of.size == 0) return declared;
  offset %= of.size;
  for (const type_field& f : of.fields) {
    if (offset < f.offset || offset - f.offset >= f.size) continue;
    std::string here;
    if (f.kind == field_kind::nested)
      here = declared_type_of_pointer(f.of(), (offset - f.offset) % (f.size / f.count));
    else if (f.kind == field_kind::reference)
      here = f.type_name;
    if (here.empty() || (!declared.empty() && declared != here)) return "";
    declared = here;
  }
  return declared;
}

bool may_contain(const type& in, std::uint64_t offset, const type& pointee) {
  return is_general(pointee.name) || contains(in, offset, pointee);
}

}  // namespace tenure
