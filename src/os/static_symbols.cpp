// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/static_symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "os/system_error.hpp"

namespace tenure::os {

namespace {

struct module_place {
  std::string name, path;  // the program has the name ""
  std::uintptr_t base;
};

std::string name_of(const dl_phdr_info& module) {
  const std::string_view path = module.dlpi_name;
  return std::string(path.substr(path.rfind('/') + 1));
}
std::string path_of(const dl_phdr_info& module) {
  return *module.dlpi_name == '\0' ? "/proc/self/exe" : module.dlpi_name;
}

struct by_address {
  std::uintptr_t address;
  std::optional<module_place> found;
};
int look_for_address(dl_phdr_info* module, std::size_t, void* data) {
  auto& wanted = *static_cast<by_address*>(data);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || wanted.address - (module->dlpi_addr + part.p_vaddr) >= part.p_memsz) continue;
    wanted.found = {name_of(*module), path_of(*module), module->dlpi_addr};
    return 1;
  }
  return 0;
}

struct by_name {
  const std::string& name;
  std::optional<module_place> found;
};
int look_for_name(dl_phdr_info* module, std::size_t, void* data) {
  auto& wanted = *static_cast<by_name*>(data);
  // Several modules may have no name, as the kernel's own library. The program comes first among them.
  if (name_of(*module) != wanted.name) return 0;
  wanted.found = {wanted.name, path_of(*module), module->dlpi_addr};
  return 1;
}

// A module's file, mapped for reading.
class module_file {
 public:
  explicit module_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw_system_error(errno, "cannot open " + path + " for its symbols");
    struct stat about {};
    if (::fstat(file, &about) == 0 && about.st_size > 0) {
      void* const at = ::mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(about.st_size)};
    }
    ::close(file);
  }
  ~module_file() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  module_file(const module_file&) = delete;
  module_file& operator=(const module_file&) = delete;

  // Calls f(symbol, its name, its source file if it is local, its kind) for each variable. Reads the full symbol table,
  // or, if there is none, the dynamic one.
  template <class F>
  void for_each_variable(F&& f) const {
    const auto* const header = part<Elf64_Ehdr>(0, 1);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr))
      return;
    const auto* const sections = part<Elf64_Shdr>(header->e_shoff, header->e_shnum);
    if (sections == nullptr) return;
    const std::span<const Elf64_Shdr> all{sections, header->e_shnum};
    const auto of_type = [&](unsigned type) {
      return std::ranges::find(all, type, [](const Elf64_Shdr& s) { return s.sh_type; });
    };
    auto table = of_type(SHT_SYMTAB);
    if (table == all.end()) table = of_type(SHT_DYNSYM);
    if (table == all.end() || table->sh_link >= all.size()) return;
    const Elf64_Shdr& texts = all[table->sh_link];
    const std::size_t count = table->sh_size / sizeof(Elf64_Sym);
    const auto* const symbols = part<Elf64_Sym>(table->sh_offset, count);
    const char* const names = part<char>(texts.sh_offset, texts.sh_size);
    if (symbols == nullptr || names == nullptr) return;
    const auto text = [&](std::size_t at) {
      return at < texts.sh_size ? std::string_view(names + at, ::strnlen(names + at, texts.sh_size - at))
                                : std::string_view();
    };
    std::string_view file;
    bool is_linkers = false;
    for (const Elf64_Sym& s : std::span{symbols, count}) {
      const unsigned type = ELF64_ST_TYPE(s.st_info);
      const std::string_view name = text(s.st_name);
      if (type == STT_FILE) {
        file = name;
        is_linkers = false;
      }
      // Symbols that the linker defines belong to no file. After them come symbols that were global and have been
      // hidden.
      is_linkers = is_linkers || name == "_DYNAMIC";
      if (type != STT_OBJECT || s.st_shndx == SHN_UNDEF || s.st_size == 0) continue;
      const bool is_local = ELF64_ST_BIND(s.st_info) == STB_LOCAL;
      const bool is_lost = is_local && !is_linkers && (file.empty() || file.front() == '<' || file.ends_with(".o"));
      f(s, name, is_local ? file : std::string_view(), is_lost ? symbol_kind::optimized : kind_of_symbol(name));
    }
  }

 private:
  template <class T>
  [[nodiscard]] const T* part(std::uint64_t offset, std::uint64_t count) const {
    if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T) || offset % alignof(T) != 0)
      return nullptr;
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

symbol_kind kind_of_symbol(std::string_view symbol) {
  if (symbol.find(".lto_priv.") != symbol.npos || symbol.find(".llvm.") != symbol.npos) return symbol_kind::optimized;
  const std::size_t dot = symbol.rfind('.');
  return dot != symbol.npos && symbol.find_first_not_of("0123456789", dot + 1) == symbol.npos ? symbol_kind::numbered
                                                                                              : symbol_kind::lasting;
}

std::string symbol_without_numbers(std::string_view symbol) {
  std::string text(symbol);
  if (kind_of_symbol(text) == symbol_kind::numbered) text.resize(text.rfind('.'));
  if (!text.starts_with("_Z")) return text;
  // The demangled text lacks the number behind the name. It has the numbers of lambda expressions and of types without
  // names.
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &failed),
                                                     &std::free);
  if (failed == -1) throw std::bad_alloc();
  if (plain == nullptr) return text;
  text = plain.get();
  for (std::size_t at = 0; (at = text.find_first_of("#_", at)) != text.npos; ++at)
    if (text[at] == '#' || (at != 0 && text[at - 1] == '$'))
      text.erase(at + 1, text.find_first_not_of("0123456789", at + 1) - at - 1);
  return text;
}

std::optional<symbol_place> symbol_around(const void* address) {
  by_address wanted{reinterpret_cast<std::uintptr_t>(address), {}};
  ::dl_iterate_phdr(look_for_address, &wanted);
  if (!wanted.found) return std::nullopt;
  const std::uint64_t at = wanted.address - wanted.found->base;
  std::optional<symbol_place> found;
  module_file(wanted.found->path)
      .for_each_variable([&](const Elf64_Sym& s, std::string_view name, std::string_view file, symbol_kind kind) {
        if (at - s.st_value >= s.st_size) return;
        // If a variable has several names, takes the first one in alphabetic order: the table's order differs between
        // builds.
        symbol_place place{wanted.found->name, std::string(file), std::string(name), at - s.st_value, s.st_size, kind};
        if (!found ||
            std::tie(place.kind, place.file, place.symbol) < std::tie(found->kind, found->file, found->symbol))
          found = std::move(place);
      });
  return found;
}

symbol_address address_of_symbol(const std::string& module, const std::string& file, const std::string& symbol) {
  by_name wanted{module, {}};
  ::dl_iterate_phdr(look_for_name, &wanted);
  if (!wanted.found) return {};
  // A function may have several variables of the same name.
  const bool in_function = symbol.starts_with("_ZZ") || symbol.find('.') != symbol.npos;
  const std::string bare = in_function ? symbol_without_numbers(symbol) : symbol;
  const std::string_view begin = std::string_view(symbol).substr(0, symbol.starts_with("_ZZ") ? 3 : symbol.find('.'));
  symbol_address found;
  std::vector<const std::byte*> others;
  module_file(wanted.found->path)
      .for_each_variable([&](const Elf64_Sym& s, std::string_view name, std::string_view in, symbol_kind kind) {
        if (in != file || kind == symbol_kind::optimized) return;
        auto* const at = reinterpret_cast<std::byte*>(wanted.found->base + s.st_value);
        const bool is_it = name == symbol && kind == symbol_kind::lasting;
        if (is_it) found = {at, s.st_size};
        if (is_it || (in_function && name.starts_with(begin) && symbol_without_numbers(name) == bare))
          others.push_back(at);
      });
  const auto is_other = [&](const std::byte* at) { return at != found.address; };
  return std::ranges::any_of(others, is_other) ? symbol_address{} : found;
}

module_hold::module_hold(const void* variable) {
  by_address wanted{reinterpret_cast<std::uintptr_t>(variable), {}};
  ::dl_iterate_phdr(look_for_address, &wanted);
  if (!wanted.found || wanted.found->name.empty()) return;
  module_ = {::dlopen(wanted.found->path.c_str(), RTLD_LAZY | RTLD_NOLOAD), [](void* module) {
               if (module != nullptr) ::dlclose(module);
             }};
}

}  // namespace tenure::os
