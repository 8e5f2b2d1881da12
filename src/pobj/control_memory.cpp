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

bool is_given(const pobj_allocator& a) {
  if (a.malloc == nullptr && (a.calloc != nullptr || a.free != nullptr))
    throw failure(POBJ_EOPTION, "a memory manager needs a malloc, if it has a calloc or a free");
  return a.malloc != nullptr;
}

}  // namespace tenure::pobj
