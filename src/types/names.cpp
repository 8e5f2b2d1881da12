// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include <tenure/types/detail/names.hpp>

namespace tenure::detail {

std::string readable_name(const std::type_info& of) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(of.name(), nullptr, nullptr, &status),
                                                         std::free);
  if (status != 0) return of.name();
  // Some demanglers put a space before ">", others do not. The name has none.
  std::string name;
  for (const char* c = demangled.get(); *c != '\0'; ++c)
    if (*c != ' ' || c[1] != '>') name += *c;
  return name;
}

}  // namespace tenure::detail
