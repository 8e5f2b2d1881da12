// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The program's memory manager for control structures.
#pragma once

#include <cstdint>
#include <memory_resource>

#include <tenure/pobj.h>

namespace tenure::pobj {

// Control structures are standard containers in memory of the program's memory manager.
class control_memory : public std::pmr::memory_resource {
 public:
  explicit control_memory(const pobj_allocator& from) : from_(from) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  pobj_allocator from_;
};

// Returns whether a memory manager is given. Throws if it is invalid.
[[nodiscard]] bool is_given(const pobj_allocator& a);

}  // namespace tenure::pobj
