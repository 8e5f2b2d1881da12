// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Names of static variables, by which another process, or another build of the program, finds them again: from the symbol
// tables in the files of the program and its libraries, which have local symbols, too. ELF, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tenure::os {

// What another build may give to another variable, or call otherwise.
enum class symbol_kind {
  lasting,
  numbered,  // by the compiler, in the order of the source: "cache.0" of gcc for a variable of a function in C
  optimized  // at link time, which takes the source files' names away, and numbers what is then of one name
};

struct symbol_place {
  std::string module;  // the file name of a library without its directory; "": the program
  std::string file;    // the source file's, as the compiler noted it, of a local symbol; "": the symbol is global
  std::string symbol;
  std::uint64_t offset = 0;  // of the address from the symbol's begin
  std::uint64_t size = 0;    // of the symbol
  symbol_kind kind = symbol_kind::lasting;
};
// The variable that has a byte at `address`. None if that is on the stack or in the heap, or the module has no symbol there.
// Throws if a module's file cannot be read.
[[nodiscard]] std::optional<symbol_place> symbol_around(const void* address);

struct symbol_address {
  std::byte* address = nullptr;  // nullptr: not there, there several times, or of no lasting name
  std::uint64_t size = 0;        // bytes
};
[[nodiscard]] symbol_address address_of_symbol(const std::string& module, const std::string& file,
                                               const std::string& symbol);

// By the name alone.
[[nodiscard]] symbol_kind kind_of_symbol(std::string_view symbol);
// The name without numbers by which the compiler tells variables of one name in one function apart, and the lambda
// expressions and types without names that they lie in: variables of which this is the same may be each other's in another
// build.
[[nodiscard]] std::string symbol_without_numbers(std::string_view symbol);

// Keeps the library that has the variable loaded, whoever closes it. Nothing for the program itself, and what is in no
// library. Calls the dynamic loader, which may run the library's code.
class module_hold {
 public:
  module_hold() = default;
  explicit module_hold(const void* variable);

 private:
  std::shared_ptr<void> module_;
};

}  // namespace tenure::os
