// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/pointee.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

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
      case field_kind::data:  // anything may have been made in an array of bytes that has room for it
        return (rest == 0 && f.type_name == pointee.name) ||
               (f.size == f.count && f.count > 1 && pointee.size <= f.size - (offset - f.offset));
      case field_kind::reference: return rest == 0 && f.type_name == pointee.name;
      default: return true;
    }
  });
}

// Of the pointer at `offset` of the whole, whose guards are these. `base`: where the value is in the whole.
std::string declared_type_in(const type& of, std::uint64_t base, std::span<const field_guard> wanted,
                             std::uint64_t offset, std::vector<field_guard>& guards) {
  for (const type_field& f : of.fields) {
    const std::uint64_t at = base + f.offset;
    if (offset < at || offset - at >= f.size) continue;
    const std::size_t before = guards.size();
    if (f.only_if) guards.push_back({base + f.only_if->offset, f.only_if->width, f.only_if->value});
    std::string found;
    if (f.kind == field_kind::nested) {
      const std::uint64_t each = f.size / f.count;
      found = declared_type_in(f.of(), at + (offset - at) / each * each, wanted, offset, guards);
    } else if (f.kind == field_kind::reference && std::ranges::equal(guards, wanted)) {
      found = f.type_name;
    }
    guards.resize(before);
    if (!found.empty()) return found;
  }
  return "";
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

std::string declared_type_of_pointer(const type& of, const pointer_map& words, const pointer_map::word& word) {
  std::vector<field_guard> guards;  // of the fields around
  return declared_type_in(of, 0, words.guards_of(word), word.offset, guards);
}

bool may_contain(const type& in, std::uint64_t offset, const type& pointee) {
  return is_general(pointee.name) || contains(in, offset, pointee);
}

}  // namespace tenure
