// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/object_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "os/virtual_memory.hpp"
#include "pobj/errors.hpp"

namespace tenure::pobj {

namespace {

constexpr std::size_t rounded(std::size_t size) {
  return (size + block_pool::granule - 1) / block_pool::granule * block_pool::granule;
}

}  // namespace

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

void blocks_to_free::free_all() noexcept {
  while (first_ != nullptr) {
    link* const block = std::exchange(first_, first_->next);
    block->free(block);
  }
}

void block_pool::unmap::operator()(std::byte* chunk) const noexcept { os::unmap(chunk, chunk_size); }

void* block_pool::take(std::size_t size) {
  if (free_block* const free = free_[size / granule]; free != nullptr) {
    free_[size / granule] = free->next;
    return free;
  }
  if (static_cast<std::size_t>(end_ - next_) < size) {
    // The rest of the last chunk stays unused: at most a 512th of it.
    std::unique_ptr<std::byte, unmap> chunk(static_cast<std::byte*>(os::map_anonymous_huge(chunk_size)));
    next_ = chunks_.emplace_back(std::move(chunk)).get();
    end_ = next_ + chunk_size;
  }
  return std::exchange(next_, next_ + size);
}

void* object_memory::take(std::size_t size, bool zeroed) {
  if (size > block_pool::largest) return allocate_block({&std::malloc, &std::calloc, &std::free}, size, zeroed);
  void* const block = pool_.take(rounded(size));
  if (zeroed) std::memset(block, 0, size);
  return block;
}

void object_memory::give_back(void* block, std::size_t size) noexcept {
  if (size > block_pool::largest)
    std::free(block);
  else
    pool_.give_back(block, rounded(size));
}

std::uint64_t object_memory::number_of(const pobj_allocator& wanted) {
  for (std::uint64_t n = 0; n < all_.size(); ++n)
    if (all_[n].malloc == wanted.malloc && all_[n].calloc == wanted.calloc && all_[n].free == wanted.free) return n;
  if (all_.size() == 1024)
    throw failure(POBJ_EOPTION, "objects come from 1023 ad hoc memory managers already; use one of these");
  all_.push_back(wanted);
  return all_.size() - 1;
}

void object_memory::release(object o, blocks_to_free& later) noexcept {
  if (is_pooled(o))
    give_back(o.block(), block_size(o.header().size));
  else if (const auto free = all_[o.header().allocator].free; free != nullptr)
    later.add(o.block(), free);
}

}  // namespace tenure::pobj
