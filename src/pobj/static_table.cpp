// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/static_table.hpp"

#include <algorithm>
#include <utility>

#include "os/static_symbols.hpp"
#include "pobj/errors.hpp"

namespace tenure::pobj {

std::string text_of(const static_name& name) {
  if (name.given) return name.symbol;
  return (name.module.empty() ? "program" : name.module) + ":" + name.file + ":" + name.symbol + "+" +
         std::to_string(name.offset);
}

named_place name_of_static(const void* variable) {
  const auto found = os::symbol_around(variable);
  if (!found)
    throw failure(POBJ_ESTATIC, hexadecimal(variable) +
                                    " is in no static variable of a symbol table: is it on the stack, or the program "
                                    "stripped? pobj_static_named names a variable without its symbol");
  static_name name{false, found->module, found->file, found->symbol, found->offset};
  const auto refuse = [&](const char* why) {
    throw failure(POBJ_ESTATIC, text_of(name) + ": " + why +
                                    ", so that another build could take one variable for another; give this one a name "
                                    "with pobj_static_named");
  };
  if (found->kind == os::symbol_kind::numbered)
    refuse("the compiler tells this variable of a function from others by a number that it chooses");
  if (found->kind == os::symbol_kind::optimized)
    refuse("link-time optimization has taken away the name of this variable's source file");
  if (os::address_of_symbol(name.module, name.file, name.symbol).address !=
      static_cast<const std::byte*>(variable) - found->offset)
    refuse("the program has several variables of this name in one function, or in files of one name");
  return {name, found->size - found->offset};
}

std::byte* find_static(const static_name& name, std::uint64_t size) {
  if (name.given) return nullptr;
  const auto found = os::address_of_symbol(name.module, name.file, name.symbol);
  if (found.address == nullptr || name.offset > found.size || size > found.size - name.offset) return nullptr;
  return found.address + name.offset;
}

std::map<std::string, named_static>& named_statics() {
  static auto* const only = new std::map<std::string, named_static>;
  return *only;
}

static_variable& static_table::add(static_variable v) {
  all_.push_back(std::make_unique<static_variable>(std::move(v)));
  static_variable& added = *all_.back();
  try {
    if (added.address != nullptr) by_address_.insert_or_assign(added.address, &added);
  } catch (...) {
    all_.pop_back();
    throw;
  }
  return added;
}

std::unique_ptr<static_variable> static_table::remove(const static_variable& v) noexcept {
  if (const auto at = by_address_.find(v.address); at != by_address_.end() && at->second == &v) by_address_.erase(at);
  const auto found = std::ranges::find_if(all_, [&](const auto& each) { return each.get() == &v; });
  std::unique_ptr<static_variable> removed = std::move(*found);
  all_.erase(found);
  return removed;
}

static_variable* static_table::at(const void* address) const {
  const auto found = by_address_.find(static_cast<const std::byte*>(address));
  return found == by_address_.end() ? nullptr : found->second;
}

static_variable* static_table::find(const static_name& name) const {
  const auto found = std::ranges::find_if(all_, [&](const auto& each) { return each->name == name; });
  return found == all_.end() ? nullptr : found->get();
}

static_variable* static_table::overlapping(const void* address, std::uint64_t size, const static_variable* but) const {
  const auto* const begin = static_cast<const std::byte*>(address);
  // Bound variables do not overlap. So of the variables that begin before, only the last one can reach this far.
  auto at = by_address_.lower_bound(begin);
  if (at != by_address_.begin() && std::prev(at)->first + std::prev(at)->second->size > begin) --at;
  for (; at != by_address_.end() && at->first < begin + size; ++at)
    if (at->second != but) return at->second;
  return nullptr;
}

void static_table::bind(static_variable& v, std::byte* address, os::module_hold module, os::module_hold* before) {
  if (address != nullptr) by_address_.insert_or_assign(address, &v);
  if (v.address != nullptr && v.address != address) by_address_.erase(v.address);
  v.address = address;
  std::swap(v.module, module);
  if (before != nullptr) *before = std::move(module);
}

}  // namespace tenure::pobj
