// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/control_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "pobj/errors.hpp"

namespace tenure::pobj {

void* control_memory::do_allocate(std::size_t bytes, std::size_t alignment) {
  void* const block =
      alignment <= alignof(std::uint64_t) || from_.malloc == &std::malloc ? from_.malloc(bytes) : nullptr;
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void control_memory::do_deallocate(void* block, std::size_t, std::size_t) {
  if (from_.free != nullptr) from_.free(block);
}

std::uint64_t allocator_table::number_of(const pobj_allocator& wanted) {
  for (std::uint64_t n = 0; n < all_.size(); ++n)
    if (all_[n].malloc == wanted.malloc && all_[n].calloc == wanted.calloc && all_[n].free == wanted.free) return n;
  if (all_.size() == 1024)
    throw failure(POBJ_EOPTION, "objects come from 1023 ad hoc memory managers already; use one of these");
  all_.push_back(wanted);
  return all_.size() - 1;
}

pobj_allocator completed(const pobj_allocator& given) {
  if (given.malloc != nullptr) return given;
  if (given.calloc != nullptr || given.free != nullptr)
    throw failure(POBJ_EOPTION, "a memory manager needs a malloc, if it has a calloc or a free");
  return {&std::malloc, &std::calloc, &std::free};
}

void* allocate_block(const pobj_allocator& from, std::size_t size, bool zeroed) {
  void* const block = zeroed && from.calloc != nullptr ? from.calloc(1, size) : from.malloc(size);
  if (block == nullptr) throw failure(POBJ_ENOMEM, "the memory manager has no " + std::to_string(size) + " bytes");
  if (reinterpret_cast<std::uintptr_t>(block) % 8 != 0) {
    if (from.free != nullptr) from.free(block);
    throw failure(POBJ_EOPTION, "the memory manager gave " + hexadecimal(block) + ", which is not aligned to 8 bytes");
  }
  if (zeroed && from.calloc == nullptr) std::memset(block, 0, size);
  return block;
}

}  // namespace tenure::pobj
