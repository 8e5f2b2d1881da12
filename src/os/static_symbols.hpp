// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Names of static variables. Another process, or another build of the program, finds the variables again by these
// names. They come from the symbol tables in the files of the program and its libraries, which have local symbols, too.
// ELF, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tenure::os {

// Names that another build may give to another variable, or change.
enum class symbol_kind {
  lasting,
  numbered,  // by the compiler, in source order: "cache.0" of gcc for a variable of a function in C
  optimized  // at link time, which removes the source files' names and numbers symbols of one name
};

struct symbol_place {
  std::string module;  // the file name of a library without its directory; "": the program
  std::string file;    // the source file of a local symbol, as the compiler noted it; "": the symbol is global
  std::string symbol;
  std::uint64_t offset = 0;  // from the symbol's begin to the address
  std::uint64_t size = 0;    // of the symbol
  symbol_kind kind = symbol_kind::lasting;
};
// The variable that has a byte at `address`. None if the address is on the stack or in the heap, or if the module has
// no symbol there. Throws if a module's file cannot be read.
[[nodiscard]] std::optional<symbol_place> symbol_around(const void* address);

struct symbol_address {
  std::byte* address = nullptr;  // nullptr: no such symbol, or several, or its name may change
  std::uint64_t size = 0;        // bytes
};
[[nodiscard]] symbol_address address_of_symbol(const std::string& module, const std::string& file,
                                               const std::string& symbol);

// Finds the variable by its name alone.
[[nodiscard]] symbol_kind kind_of_symbol(std::string_view symbol);
// The name without the numbers by which the compiler distinguishes variables of one name in one function, and their
// lambda expressions and unnamed types. Two variables with the same result may be exchanged in another build.
[[nodiscard]] std::string symbol_without_numbers(std::string_view symbol);

// Keeps the library of the variable loaded even if the program closes it. Does nothing for the program itself, and for
// addresses in no library. Calls the dynamic loader, which may run the library's code.
class module_hold {
 public:
  module_hold() = default;
  explicit module_hold(const void* variable);

 private:
  std::shared_ptr<void> module_;
};

}  // namespace tenure::os
