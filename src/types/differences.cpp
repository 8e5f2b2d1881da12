// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/differences.hpp"

#include <cstddef>
#include <string_view>

namespace tenure::types {
namespace {

const char* kind_in_words(field_kind kind) {
  switch (kind) {
    case field_kind::data: return "data";
    case field_kind::reference: return "a pointer";
    case field_kind::derived: return "a pointer that follows another";
    case field_kind::transient: return "transient";
    case field_kind::vtable: return "a vtable pointer";
    case field_kind::nested: return "a class";
    case field_kind::conservative: return "of unknown layout";
  }
  return "?";
}

std::string type_of_field(const type_field& f) {
  if (f.kind == field_kind::vtable) return "a vtable pointer";
  std::string text = f.type_name.empty() ? kind_in_words(f.kind) : f.type_name;
  if (f.count != 1) text += "[" + std::to_string(f.count) + "]";
  return text;
}
std::string place_of_field(const type_field& f) { return type_of_field(f) + " at offset " + std::to_string(f.offset); }

bool same_guards(const type_field& one, const type_field& other) { return one.only_if == other.only_if; }

class comparison {
 public:
  void compare(const std::string& path, const type& stored, const type& program) {
    const std::size_t before = found.size();
    if (stored.version != program.version)
      say(path, "was version " + std::to_string(stored.version) + ", is version " + std::to_string(program.version));
    if (stored.fingerprint == program.fingerprint) return;
    if (stored.size != program.size)
      say(path, "had " + std::to_string(stored.size) + " bytes, has " + std::to_string(program.size));
    if (stored.alignment != program.alignment)
      say(path, "had alignment " + std::to_string(stored.alignment) + ", has " + std::to_string(program.alignment));
    compare_fields(path, stored, program);
    if (found.size() == before)
      say(path, stored.tolerates_stale != program.tolerates_stale ? "is part of a container in only one of the two"
                                                                  : "has the same fields in another order");
  }

  std::vector<std::string> found;

 private:
  void say(const std::string& path, const std::string& what) { found.push_back(path + ": " + what); }

  // The n-th field with the name of `like`. Several fields may have no name, for example alternatives and vtable
  // pointers.
  static const type_field* find(const type& in, const type_field& like, std::size_t n) {
    for (const type_field& f : in.fields)
      if (f.name == like.name && (f.kind == field_kind::vtable) == (like.kind == field_kind::vtable) && n-- == 0)
        return &f;
    return nullptr;
  }
  static std::size_t number_of(const type& in, const type_field& wanted) {
    std::size_t n = 0;
    for (const type_field& f : in.fields) {
      if (&f == &wanted) break;
      if (f.name == wanted.name && (f.kind == field_kind::vtable) == (wanted.kind == field_kind::vtable)) ++n;
    }
    return n;
  }
  static std::string title(const type_field& f) {
    if (f.kind == field_kind::vtable) return "the vtable pointer";
    return f.name.empty() ? "its value" : "field `" + f.name + "`";
  }

  void compare_fields(const std::string& path, const type& stored, const type& program) {
    for (const type_field& was : stored.fields) {
      if (const type_field* const is = find(program, was, number_of(stored, was)); is != nullptr)
        compare_field(was.name.empty() ? path : path + "." + was.name, was, *is);
      else
        say(path, title(was) + " is gone: it was " + place_of_field(was));
    }
    for (const type_field& is : program.fields)
      if (find(stored, is, number_of(program, is)) == nullptr) say(path, title(is) + " is new: " + place_of_field(is));
  }

  void compare_field(const std::string& path, const type_field& was, const type_field& is) {
    const bool both_nested = was.kind == field_kind::nested && is.kind == field_kind::nested;
    if (was.type_name != is.type_name || was.count != is.count || was.offset != is.offset)
      say(path, "was " + place_of_field(was) + ", is " + place_of_field(is));
    else if (was.kind != is.kind)
      say(path, "was " + std::string(kind_in_words(was.kind)) + ", is " + kind_in_words(is.kind));
    else if (!both_nested && (was.size != is.size || was.scalar != is.scalar))
      say(path, "had " + std::to_string(was.size) + " bytes, has " + std::to_string(is.size) +
                    ", or is another kind of number");
    if (was.subobject != is.subobject) say(path, "is another one of the vtable pointers");
    if (!same_guards(was, is)) say(path, "is there under another condition");
    if (both_nested && was.type_name == is.type_name) compare_nested(path, was.of(), is.of());
  }
  void compare_nested(const std::string& path, const type& stored, const type& program) {
    if (stored.fingerprint != program.fingerprint || stored.version != program.version)
      compare(path + " (" + program.name + ")", stored, program);
  }
};

}  // namespace

std::vector<std::string> differences(const type& stored, const type& program) {
  comparison result;
  if (stored.name != program.name) result.found.push_back(stored.name + ": is " + program.name + " in the program");
  result.compare(program.name, stored, program);
  return std::move(result.found);
}

}  // namespace tenure::types
