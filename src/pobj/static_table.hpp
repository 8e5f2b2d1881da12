// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Static variables whose values are stored: anchors [pobj 3.5.5, 4.2]. One is known by its module, source file, symbol and
// offset, or by a name that the program gives it, never by its address, which is another one in the next process
// [pobj.static.name]. The store's lock guards them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pobj/format.hpp"

namespace tenure::pobj {

struct static_name {
  bool given = false;                // by the program: in `symbol`
  std::string module, file, symbol;  // module "": the program itself; file "": the symbol is global
  std::uint64_t offset = 0;          // of the variable from the symbol

  friend auto operator<=>(const static_name&, const static_name&) = default;
};
// "program:lines.c:list+0"
[[nodiscard]] std::string text_of(const static_name& name);
// Of the variable at an address. Throws POBJ_ESTATIC if it cannot be found again by it.
[[nodiscard]] static_name name_of_static(const void* variable);
// Where it is in this process, if it is there and has `size` bytes; nullptr.
[[nodiscard]] std::byte* find_static(const static_name& name, std::uint64_t size);

struct static_variable {
  static_name name;
  std::uint64_t size = 0;
  std::uint32_t type = 0;
  position slot = 0;
  std::uint64_t value = 0;       // offset of the value from the slot's bytes
  std::byte* address = nullptr;  // nullptr: unbound

  [[nodiscard]] position image() const { return slot + 8 + value; }
};

// A variable that the program has given a name before there was a store.
struct named_static {
  std::byte* address;
  std::uint64_t size;
  std::vector<std::uint32_t> references;
};
[[nodiscard]] std::map<std::string, named_static>& named_statics();

class static_table {
 public:
  static_variable& add(static_variable v);
  // The last one; a transaction that made it has aborted.
  void remove(const static_variable& v);
  [[nodiscard]] static_variable* at(const void* address) const;
  [[nodiscard]] static_variable* find(const static_name& name) const;
  void bind(static_variable& v, std::byte* address);
  [[nodiscard]] const std::vector<std::unique_ptr<static_variable>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<static_variable>> all_;
  std::map<const void*, static_variable*> by_address_;
};

}  // namespace tenure::pobj
