// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The memory of objects: from the program's memory managers, or, if it has given none, from a pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <tenure/pobj.h>

#include "pobj/object.hpp"

namespace tenure::pobj {

// Allocates a block, zeroed if requested. Throws POBJ_ENOMEM, or POBJ_EOPTION if the block is not aligned to 8 bytes.
// Called without the store's lock.
[[nodiscard]] void* allocate_block(const pobj_allocator& from, std::size_t size, bool zeroed);

// Blocks that will be given back to the program's memory managers when the store's lock is not held. The list is in the
// blocks themselves, where the objects' headers were. So nothing that was committed can fail for lack of memory.
class blocks_to_free {
 public:
  void add(void* block, void (*free)(void*)) noexcept { first_ = ::new (block) link{first_, free}; }
  void free_all() noexcept;

 private:
  struct link {
    link* next;
    void (*free)(void*);
  };
  static_assert(sizeof(link) <= sizeof(object_header));
  link* first_ = nullptr;
};

// A pool of blocks whose sizes are multiples of 16. It has a list of free blocks for each size, and makes new ones one
// after the other, in huge pages if the kernel grants them: with huge pages a million nodes are reconstructed in 50 to
// 60 ms, without in 70 to 77. Nothing lies before or behind the blocks.
class block_pool {
 public:
  static constexpr std::size_t granule = 16, largest = 4096;

  [[nodiscard]] void* take(std::size_t size);
  void give_back(void* block, std::size_t size) noexcept {
    free_[size / granule] = ::new (block) free_block{free_[size / granule]};
  }

 private:
  static constexpr std::size_t chunk_size = std::size_t{2} << 20;
  struct free_block {
    free_block* next;
  };
  struct unmap {
    void operator()(std::byte* chunk) const noexcept;
  };

  std::array<free_block*, largest / granule + 1> free_ = {};
  std::vector<std::unique_ptr<std::byte, unmap>> chunks_;
  std::byte *next_ = nullptr, *end_ = nullptr;  // the unused part of the last chunk
};

// The store's lock is held.
class object_memory {
 public:
  // `first`: the manager that was passed to pobj_init. It gets number 0. If it has no malloc, number 0 is the pool.
  explicit object_memory(const pobj_allocator& first) : all_{first} {}

  [[nodiscard]] bool has_pool() const { return all_[0].malloc == nullptr; }
  // A block of the pool, aligned to 16 bytes.
  [[nodiscard]] void* take(std::size_t size, bool zeroed);
  void give_back(void* block, std::size_t size) noexcept;

  // The number of a memory manager. A new one is added. Throws if there are too many.
  [[nodiscard]] std::uint64_t number_of(const pobj_allocator& wanted);

  // Whether freeing the object gives its memory back. It does not if a garbage collector takes the memory.
  [[nodiscard]] bool takes_back(object o) const { return is_pooled(o) || all_[o.header().allocator].free != nullptr; }
  // Gives the memory back, now or with `later`.
  void release(object o, blocks_to_free& later) noexcept;
  // A garbage collector has taken the object. Only the pool must know that.
  void taken(object o) noexcept {
    if (is_pooled(o)) give_back(o.block(), block_size(o.header().size));
  }

 private:
  [[nodiscard]] bool is_pooled(object o) const { return has_pool() && o.header().allocator == 0; }

  std::vector<pobj_allocator> all_;
  block_pool pool_;
};

}  // namespace tenure::pobj
