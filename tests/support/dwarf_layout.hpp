// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of types against the truth: what the compiler wrote about the layout of T into this program's debug information
// [Texas did its swizzling by that]. For every type whose description matters:
//
//     EXPECT_EQ(dwarf_disagreements<town>(), agreement);
//
// Needs libdw, and a program with debug information.
#pragma once

#include <string>
#include <vector>

#include <tenure/fields.hpp>

namespace tenure::support {

// Makes the compiler write about T.
template <class T>
union dwarf_sample {
  dwarf_sample() {}
  ~dwarf_sample() {}
  T value;
};
template <class T>
dwarf_sample<T>* volatile dwarf_anchor = nullptr;

// `anchor`: the address of dwarf_anchor<T>.
[[nodiscard]] std::vector<std::string> dwarf_disagreements(const volatile void* anchor, const type& described);

// What the description of T, with all that is in it, says of pointers and vtable pointers and the debug information does not, or
// the other way round; a sentence each. Throws std::runtime_error where there is no debug information.
template <class T>
std::vector<std::string> dwarf_disagreements() {
  return dwarf_disagreements(&dwarf_anchor<T>, type_of<T>());
}
// The same, and what of the description is conservative, which agrees with everything.
[[nodiscard]] std::vector<std::string> exact_disagreements(const volatile void* anchor, const type& described);
template <class T>
std::vector<std::string> exact_disagreements(const type& described = type_of<T>()) {
  return exact_disagreements(&dwarf_anchor<T>, described);
}
inline const std::vector<std::string> agreement;

}  // namespace tenure::support
