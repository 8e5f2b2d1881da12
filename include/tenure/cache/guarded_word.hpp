// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The word of a ref to an object that is in memory, where transactions lock objects: the address of the object, guarded. Bytes
// before the object say who has a lock of it, and one bit of them is the thread's. So a dereference of an object that the
// transaction has a lock of is two loads and a test [cache.locks.word].
#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::cache::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// No address in memory, no identifier and no home address has both bits.
inline constexpr std::uint64_t guard_bits = (std::uint64_t{1} << 63U) | 1U;

[[nodiscard]] constexpr bool is_guarded(std::uint64_t word) { return (word & guard_bits) == guard_bits; }
[[nodiscard]] constexpr std::uint64_t guarded(std::uint64_t address) { return address | guard_bits; }
// Of a guarded word, or of an address.
[[nodiscard]] constexpr std::uint64_t address_in(std::uint64_t word) {
  return is_guarded(word) ? word & ~guard_bits : word;
}

using lock_word = std::atomic<std::uint64_t>;

// Lies before each object.
struct object_guard {
  std::atomic<lock_word*> lock;  // of the object's group
  lock_word own;                 // the group's, if the object is its leader
};
[[nodiscard]] inline object_guard& guard_of(std::uint64_t address) {
  return *reinterpret_cast<object_guard*>(static_cast<std::uintptr_t>(address) - sizeof(object_guard));
}

// The thread's bit in lock words; 0: it has no transaction with locks.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local std::uint64_t holder_bit;

[[nodiscard]] inline bool is_locked(std::uint64_t address) {
  const lock_word* const lock = guard_of(address).lock.load(std::memory_order_acquire);
  return (lock->load(std::memory_order_acquire) & holder_bit) != 0;
}
// Gets a shared lock for the thread's transaction, if nobody has, or waits for, an exclusive one. Whether it has it.
[[nodiscard]] bool lock_shared(std::uint64_t address);

#pragma GCC visibility pop

}  // namespace tenure::cache::detail
