// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The compiler's names of types and members. Stored names come from the mangled name, which is the same for all
// compilers of one C++ ABI. Names that the rules use during compilation come from __PRETTY_FUNCTION__, which differs
// between compilers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <typeinfo>

#include <tenure/types/detail/decompose.hpp>

#if !defined(__GXX_RTTI)
#error "tenure: names of types come from run-time type information: compile without -fno-rtti"
#endif

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// The demangled name, without the blanks that only old compilers needed: "std::vector<a::b*, tenure::allocator<a::b*>>".
[[nodiscard]] std::string readable_name(const std::type_info& of);

// A text that contains T's name, somewhere behind "T = ".
template <class T>
consteval std::string_view compiler_name_of_type() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  // gcc continues with the definition of std::string_view, behind a semicolon.
  for (const std::string_view end : {"; std::string_view", "]"})
    if (const std::size_t at = text.rfind(end); at != text.npos) text = text.substr(0, at);
  // Removes inline namespaces for versions of the standard library.
  if (text.starts_with("std::"))
    for (const std::string_view version : {"__cxx11::", "__1::", "__debug::", "__cxx1998::"})
      if (text.substr(5).starts_with(version)) return text.substr(5 + version.size());
  return text.starts_with("std::") ? text.substr(5) : text;
}
// Whether T is of the standard library.
template <class T>
consteval bool is_of_standard_library() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  return text.starts_with("std::");
}
// Whether T is in an anonymous namespace, is a lambda, or is a class without a name. Then no other program can mean the
// same type.
template <class T>
consteval bool has_no_lasting_name() {
  constexpr std::string_view name = compiler_name_of_type<T>();
  for (const std::string_view part : {"{anonymous}", "(anonymous", "<lambda", "(lambda", "<unnamed", "(unnamed"})
    if (name.find(part) != name.npos) return true;
  return false;
}

// The last identifier in `text`.
consteval std::string_view last_identifier(std::string_view text) {
  const auto is_part = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  while (!text.empty() && !is_part(text.back())) text.remove_suffix(1);
  std::size_t begin = text.size();
  while (begin > 0 && is_part(text[begin - 1])) --begin;
  return text.substr(begin);
}

// The name of the member or field to which Pointer refers.
template <auto Pointer>
consteval std::string_view name_of_member() {
  std::string_view text = __PRETTY_FUNCTION__;
  if (const std::size_t end = text.rfind("; std::string_view"); end != text.npos) text = text.substr(0, end);
  return last_identifier(text);
}

// The name of field I of the aggregate T.
template <class Pointer>
struct pointer_holder {
  Pointer pointer;  // clang accepts pointers to parts of objects as template arguments only inside of a class
};
template <pointer_holder Holder>
consteval std::string_view name_of_held() {
  std::string_view text = __PRETTY_FUNCTION__;
  if (const std::size_t end = text.rfind("; std::string_view"); end != text.npos) text = text.substr(0, end);
  return last_identifier(text);
}
template <class T, std::size_t I>
consteval std::string_view name_of_field() {
  return name_of_held<pointer_holder<decltype(phantom_field<T, I>())>{phantom_field<T, I>()}>();
}

#pragma GCC visibility pop

}  // namespace tenure::detail
