// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/static_table.hpp"

#include <algorithm>

#include "os/static_symbols.hpp"
#include "pobj/errors.hpp"

namespace tenure::pobj {

std::string text_of(const static_name& name) {
  if (name.given) return name.symbol;
  return (name.module.empty() ? "program" : name.module) + ":" + name.file + ":" + name.symbol + "+" +
         std::to_string(name.offset);
}

static_name name_of_static(const void* variable) {
  const auto found = os::symbol_around(variable);
  if (!found)
    throw failure(POBJ_ESTATIC, hexadecimal(variable) +
                                    " is in no static variable of a symbol table: is it on the stack, or the program "
                                    "stripped? pobj_static_named names a variable without its symbol");
  static_name name{false, found->module, found->file, found->symbol, found->offset};
  if (os::address_of_symbol(name.module, name.file, name.symbol).address !=
      static_cast<const std::byte*>(variable) - found->offset)
    throw failure(POBJ_ESTATIC, text_of(name) +
                                    ": the program has several variables of this name in files of one name; give this "
                                    "one a name with pobj_static_named");
  return name;
}

std::byte* find_static(const static_name& name, std::uint64_t size) {
  if (name.given) return nullptr;
  const auto found = os::address_of_symbol(name.module, name.file, name.symbol);
  if (found.address == nullptr || name.offset + size > found.size) return nullptr;
  return found.address + name.offset;
}

std::map<std::string, named_static>& named_statics() {
  static auto* const only = new std::map<std::string, named_static>;
  return *only;
}

static_variable& static_table::add(static_variable v) {
  all_.push_back(std::make_unique<static_variable>(std::move(v)));
  static_variable& added = *all_.back();
  if (added.address != nullptr) by_address_.insert_or_assign(added.address, &added);
  return added;
}

void static_table::remove(const static_variable& v) {
  if (const auto at = by_address_.find(v.address); at != by_address_.end() && at->second == &v) by_address_.erase(at);
  std::erase_if(all_, [&](const auto& each) { return each.get() == &v; });
}

static_variable* static_table::at(const void* address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? nullptr : found->second;
}

static_variable* static_table::find(const static_name& name) const {
  const auto found = std::ranges::find_if(all_, [&](const auto& each) { return each->name == name; });
  return found == all_.end() ? nullptr : found->get();
}

void static_table::bind(static_variable& v, std::byte* address) {
  if (v.address != nullptr) by_address_.erase(v.address);
  v.address = address;
  if (address != nullptr) by_address_.insert_or_assign(address, &v);
}

}  // namespace tenure::pobj
