// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Names of static variables, by which another process, or another build of the program, finds them again: from the symbol
// tables in the files of the program and its libraries, which have local symbols, too. ELF, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tenure::os {

struct symbol_place {
  std::string module;  // the file name of a library without its directory; "": the program
  std::string file;    // the source file's, as the compiler noted it, of a local symbol; "": the symbol is global
  std::string symbol;
  std::uint64_t offset = 0;  // of the address from the symbol's begin
};
// The variable that has a byte at `address`. None if that is on the stack or in the heap, or the module has no symbol there.
// Throws if a module's file cannot be read.
[[nodiscard]] std::optional<symbol_place> symbol_around(const void* address);

struct symbol_address {
  std::byte* address = nullptr;  // nullptr: not there, or there several times
  std::uint64_t size = 0;        // bytes
};
[[nodiscard]] symbol_address address_of_symbol(const std::string& module, const std::string& file,
                                               const std::string& symbol);

}  // namespace tenure::os
