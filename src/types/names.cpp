// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include <tenure/types/detail/names.hpp>

namespace tenure::detail {
namespace {

// cache::ref<T> is stored as a T* is, and has its name [types.name.ref]. A name in it may have others.
std::string with_pointers(std::string name) {
  constexpr std::string_view ref = "tenure::cache::ref<";
  for (std::size_t at = 0; (at = name.find(ref, at)) != name.npos;) {
    std::size_t end = at + ref.size();
    for (int depth = 1; end < name.size(); ++end) {
      depth += name[end] == '<' ? 1 : name[end] == '>' ? -1 : 0;
      if (depth == 0) break;
    }
    if (end == name.size()) break;  // an operator's name, such as "operator<"
    name[end] = '*';
    name.erase(at, ref.size());
  }
  return name;
}

}  // namespace

std::string readable_name(const std::type_info& of) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(of.name(), nullptr, nullptr, &status),
                                                         std::free);
  constexpr int no_memory = -1;
  if (status == no_memory) throw std::bad_alloc();  // the mangled name would be stored, and found by nobody
  if (status != 0) return of.name();
  // Some demanglers put a space before ">", others do not. The name has none.
  std::string name;
  for (const char* c = demangled.get(); *c != '\0'; ++c)
    if (*c != ' ' || c[1] != '>') name += *c;
  return with_pointers(std::move(name));
}

}  // namespace tenure::detail
