// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/modules.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

#include "os/virtual_memory.hpp"

namespace tenure::os {
namespace {

struct search {
  std::uintptr_t address;
  std::span<const std::byte> found;
};

int look_into(dl_phdr_info* module, std::size_t, void* data) {
  auto& wanted = *static_cast<search*>(data);
  const std::uintptr_t page = page_size();
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const bool read_only = part.p_type == PT_LOAD && (part.p_flags & PF_R) != 0 && (part.p_flags & PF_W) == 0;
    if (!read_only && part.p_type != PT_GNU_RELRO) continue;
    const std::uintptr_t begin = module->dlpi_addr + part.p_vaddr;
    std::uintptr_t end = begin + part.p_memsz;
    // The loader protects whole pages only.
    if (part.p_type == PT_GNU_RELRO) end = end / page * page;
    if (wanted.address < begin || wanted.address >= end) continue;
    wanted.found = {reinterpret_cast<const std::byte*>(begin), end - begin};
    return 1;
  }
  return 0;
}

}  // namespace

std::span<const std::byte> constant_data_around(const void* address) noexcept {
  search wanted{reinterpret_cast<std::uintptr_t>(address), {}};
  dl_iterate_phdr(look_into, &wanted);
  return wanted.found;
}

std::string module_around(const void* address) {
  Dl_info module{};
  return dladdr(address, &module) != 0 && module.dli_fname != nullptr ? module.dli_fname : "";
}

}  // namespace tenure::os
