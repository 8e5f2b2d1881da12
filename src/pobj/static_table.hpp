// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Static variables whose values are stored: anchors [pobj 3.5.5, 4.2]. A variable is identified by its module, source
// file, symbol and offset, or by a name that the program gives it. It is never identified by its address, which differs
// in the next process [pobj.static.name]. The store's lock guards them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/static_symbols.hpp"
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

// What the symbol tables say about an address.
struct named_place {
  static_name name;
  std::uint64_t room = 0;  // bytes up to the symbol's end
};
// Throws POBJ_ESTATIC if the variable cannot be found again by its name, or could be confused with another one
// [pobj.static.name]. Reads files, so it is called without the store's lock.
[[nodiscard]] named_place name_of_static(const void* variable);
// The variable's address in this process, if it exists and has `size` bytes; otherwise nullptr.
[[nodiscard]] std::byte* find_static(const static_name& name, std::uint64_t size);

struct static_variable {
  static_name name;
  std::uint64_t size = 0;
  std::uint32_t type = 0;
  position slot = 0;
  std::uint64_t value = 0;       // offset of the value from the slot's bytes
  std::byte* address = nullptr;  // nullptr: unbound
  os::module_hold module = {};   // holds the library that has the variable
  std::uint64_t users = 0;       // open transactions that have changed it
  bool is_going = false;         // an open transaction forgets it [pobj.static.forgotten]
  // Variables that were removed together. They may hold libraries, which must not be closed with the lock held.
  std::unique_ptr<static_variable> next = {};

  [[nodiscard]] position image() const { return slot + 8 + value; }
};

// A variable that the program has named, perhaps before a store was open.
struct named_static {
  std::byte* address;
  std::uint64_t size;
  std::vector<std::uint32_t> references;
  os::module_hold module;
};
[[nodiscard]] std::map<std::string, named_static>& named_statics();

class static_table {
 public:
  static_variable& add(static_variable v);
  [[nodiscard]] std::unique_ptr<static_variable> remove(const static_variable& v) noexcept;
  // The variable that begins there.
  [[nodiscard]] static_variable* at(const void* address) const;
  [[nodiscard]] static_variable* find(const static_name& name) const;
  // A variable other than `but` that has one of the bytes.
  [[nodiscard]] static_variable* overlapping(const void* address, std::uint64_t size,
                                             const static_variable* but = nullptr) const;
  // `before` gets the hold on the variable's earlier library, because libraries must not be closed with the lock held.
  void bind(static_variable& v, std::byte* address, os::module_hold module, os::module_hold* before = nullptr);
  [[nodiscard]] const std::vector<std::unique_ptr<static_variable>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<static_variable>> all_;
  std::map<const std::byte*, static_variable*, std::less<>> by_address_;
};

}  // namespace tenure::pobj
