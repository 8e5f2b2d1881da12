// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The heap of the classic interface: a recoverable heap whose blocks have guards.
//
//     block   length | front guard | the program's bytes, whole words | back guard
//
// 24 bytes are around the program's bytes. Guards depend on the block's address, so that a copy of a block has no valid
// guards. The program may use its last word to the end. Bytes of that word beyond the requested length begin as zero.
// So programs that read whole words find what they have written [classic.heap.words].
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/recoverable_heap.hpp>

namespace tenure::classic {

// The heap if it is started, or nullptr.
[[nodiscard]] rvm::recoverable_heap* started_heap() noexcept;
[[nodiscard]] const std::byte* started_heap_base() noexcept;

[[nodiscard]] constexpr std::uint64_t whole_words(std::uint64_t length) { return (length + 7) / 8 * 8; }

struct block_front {
  std::uint64_t length;  // bytes: whole words; in heaps of earlier versions, the requested length
  std::uint64_t guard;
};
inline constexpr std::size_t block_overhead = sizeof(block_front) + sizeof(std::uint64_t);

// Allocates a block and declares its guards; returns the program's address.
[[nodiscard]] char* allocate_block(rvm::recoverable_heap& in, rvm::transaction& tx, unsigned long wanted);
// 0 if the address is a block that can be freed; otherwise EBAD_ARGS, EFREED_TWICE or ECORRUPT.
[[nodiscard]] int check_block(const rvm::recoverable_heap& in, const char* block);
// Frees a block that check_block accepted.
void free_block(rvm::recoverable_heap& in, rvm::transaction& tx, char* block);

// The code of rds.h, or else of rvm.h, for the exception that is being handled.
[[nodiscard]] int heap_code_of_current_exception() noexcept;

}  // namespace tenure::classic
