// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "classic/heap.hpp"

#include <cstring>

#include <rvm/rds.h>

#include "classic/codes.hpp"

namespace tenure::classic {

namespace {

// The value depends on the block's place, so a program cannot write it by accident.
std::uint64_t guard_at(const char* block) {
  constexpr std::uint64_t mark = 0x9d5a6b3cc3e1f027;
  return mark ^ static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(block) - started_heap_base());
}

block_front front_of(const char* block) {
  block_front front;
  std::memcpy(&front, block - sizeof front, sizeof front);
  return front;
}

}  // namespace

char* allocate_block(rvm::recoverable_heap& in, rvm::transaction& tx, unsigned long wanted) {
  if (wanted > PTRDIFF_MAX - 2 * block_overhead)
    throw error(errc::out_of_memory, "a block of that length cannot exist");
  const std::uint64_t length = whole_words(wanted);
  auto* const room = static_cast<char*>(in.allocate_undeclared(tx, length + block_overhead));
  char* const block = room + sizeof(block_front);
  try {
    const block_front front{length, guard_at(block)};
    // The unused bytes of the last word, and the guard behind it.
    const std::uint64_t back[] = {0, ~front.guard};
    const std::size_t rest = length - wanted;
    tx.modify(room, &front, sizeof front);
    tx.modify(block + wanted, reinterpret_cast<const char*>(&back[1]) - rest, rest + sizeof back[1]);
  } catch (...) {
    in.deallocate(tx, room);
    throw;
  }
  return block;
}

int check_block(const rvm::recoverable_heap& in, const char* block) {
  if (block == nullptr || reinterpret_cast<std::uintptr_t>(block) % 16 != 0 ||
      !in.contains(block - sizeof(block_front)))
    return EBAD_ARGS;
  const block_front front = front_of(block);
  const bool has_front = front.guard == guard_at(block);
  std::size_t room;
  try {
    room = in.usable_size(block - sizeof(block_front));
  } catch (const error& e) {
    if (e.code() != errc::bad_free) throw;
    // The guards of a freed block stay until its space is used again.
    return has_front ? EFREED_TWICE : EBAD_ARGS;
  }
  if (!has_front || room < block_overhead || front.length > room - block_overhead) return ECORRUPT;
  std::uint64_t back;
  std::memcpy(&back, block + front.length, sizeof back);
  return back == ~front.guard ? SUCCESS : ECORRUPT;
}

void free_block(rvm::recoverable_heap& in, rvm::transaction& tx, char* block) {
  in.deallocate(tx, block - sizeof(block_front));
}

int heap_code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const error& e) {
    if (e.code() == errc::out_of_memory) return ENO_ROOM;
    if (e.code() == errc::bad_free) return EFREED_TWICE;  // another open transaction frees it, or has allocated it
    if (e.code() == errc::wrong_version) return EHEAP_VERSION_SKEW;
    if (e.code() == errc::damaged) return EHEAP_INIT;
    return code_of_current_exception();
  } catch (...) {
    return code_of_current_exception();
  }
}

}  // namespace tenure::classic
