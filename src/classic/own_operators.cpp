// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The operators new and delete of librvm, which take memory from malloc. A program may have replaced the global
// operators with ones that call rds_malloc. If librvm used those, it would call itself while it holds its locks
// [classic.own-operators]. Only librvm has these operators, together with its copy of libstdc++. Tests and tools use
// those of the program.
#include <cstdlib>
#include <new>

namespace {

void* or_throw(void* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

// All other operators of the standard library call these.
void* operator new(std::size_t size) { return or_throw(std::malloc(size != 0 ? size : 1)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return or_throw(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
