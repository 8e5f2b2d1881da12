// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The program's memory managers: for objects, with those of ad hoc calls, and for control structures.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include <tenure/pobj.h>

namespace tenure::pobj {

// Control structures are standard containers on top of what the program gave.
class control_memory : public std::pmr::memory_resource {
 public:
  explicit control_memory(const pobj_allocator& from) : from_(from) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  pobj_allocator from_;
};

// Those that objects have come from: number 0 is the one of pobj_init.
class allocator_table {
 public:
  explicit allocator_table(const pobj_allocator& first) : all_{first} {}
  [[nodiscard]] const pobj_allocator& operator[](std::uint64_t number) const { return all_[number]; }
  // Its number; noted if it is new. Throws if there are too many.
  [[nodiscard]] std::uint64_t number_of(const pobj_allocator& wanted);

 private:
  std::vector<pobj_allocator> all_;
};

// Throws if it makes no sense; libc's functions for what is not set.
[[nodiscard]] pobj_allocator completed(const pobj_allocator& given);
// A block, zeroed if so wanted. Throws POBJ_ENOMEM; POBJ_EOPTION if it is not aligned to 8 bytes.
[[nodiscard]] void* allocate_block(const pobj_allocator& from, std::size_t size, bool zeroed);

}  // namespace tenure::pobj
